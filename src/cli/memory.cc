#include "src/cli/memory.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <thread>

namespace sinter::cli {
namespace {

// "MemAvailable:   123 kB"; 0 without.
uint64_t Available() {
  std::ifstream in("/proc/meminfo");
  std::string word;
  while (in >> word) {
    uint64_t kilobytes = 0;
    if (word == "MemAvailable:" && in >> kilobytes) return kilobytes << 10;
  }
  return 0;
}

bool ReadNumber(const char* path, uint64_t* out) {
  std::ifstream in(path);
  return static_cast<bool>(in >> *out);  // "max" is no number: no limit
}

}  // namespace

uint64_t FreeMemory() {
  uint64_t limit = 0, used = 0, free = Available();
  if (ReadNumber("/sys/fs/cgroup/memory.max", &limit) &&
      ReadNumber("/sys/fs/cgroup/memory.current", &used)) {
    const uint64_t left = limit > used ? limit - used : 1;
    free = free == 0 ? left : std::min(free, left);
  }
  return free;
}

uint32_t JobsThatFit() {
  const uint64_t processors = std::max(1u, std::thread::hardware_concurrency());
  const uint64_t free = FreeMemory();
  const uint64_t fit = free == 0 ? processors : std::max<uint64_t>(1, free / kBytesPerJob);
  return static_cast<uint32_t>(std::min(processors, fit));
}

}  // namespace sinter::cli
