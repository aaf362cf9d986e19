#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "src/base/format.h"
#include "src/cli/options.h"
#include "src/cli/print.h"

namespace sinter::cli {
namespace {

template <typename T>
bool ParseWhole(const std::string& text, T* out) {
  const char* const end = text.data() + text.size();
  const std::from_chars_result result = std::from_chars(text.data(), end, *out);
  return result.ec == std::errc() && result.ptr == end;
}

// "300000000", not "3e+08".
std::string Plain(double value) {
  return value == std::floor(value) ? std::to_string(static_cast<int64_t>(value))
                                    : std::to_string(value);
}

CLI::Validator Checked(std::function<std::string(std::string&)> check, const std::string& name) {
  return CLI::Validator(std::move(check), name);
}

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
  return static_cast<bool>(in >> *out);  // "max" is not a number: no limit
}

}  // namespace

CLI::Validator Integer(int64_t low, uint64_t high) {
  const std::string wanted =
      "is no integer from " + std::to_string(low) + " to " + std::to_string(high);
  return Checked(
      [=](std::string& text) {
        uint64_t value = 0;
        int64_t negative = 0;
        const bool fits = ParseWhole(text, &value)
                              ? value <= high && (low <= 0 || value >= static_cast<uint64_t>(low))
                              : ParseWhole(text, &negative) && negative >= low;
        return fits ? std::string() : "\"" + text + "\" " + wanted;
      },
      std::to_string(low) + ".." + std::to_string(high));
}

CLI::Validator Number(double low, double high) {
  const std::string wanted = "is no number from " + Plain(low) + " to " + Plain(high);
  return Checked(
      [=](std::string& text) {
        double value = 0;
        const bool fits = ParseWhole(text, &value) && value >= low && value <= high;
        return fits ? std::string() : "\"" + text + "\" " + wanted;
      },
      Plain(low) + ".." + Plain(high));
}

CLI::Validator Bytes() {
  return Checked(
      [](std::string& text) {
        const absl::StatusOr<uint64_t> bytes = ParseByteSize(text);
        if (!bytes.ok()) return std::string(bytes.status().message());
        if (*bytes == 0) return "\"" + text + "\" is no size of at least 1 byte";
        text = std::to_string(*bytes);
        return std::string();
      },
      "SIZE");
}

CLI::Validator OneOf(const std::vector<std::string>& words) {
  return Checked(
      [words](std::string& text) {
        const bool known = std::find(words.begin(), words.end(), text) != words.end();
        return known ? std::string() : "\"" + text + "\" is none of " + Join(words, ", ");
      },
      "{" + Join(words, ",") + "}");
}

CLI::Validator Path() {
  return Checked(
      [](std::string& text) { return std::string(text.empty() ? "\"\" is no path" : ""); }, "PATH");
}

int64_t MicrosecondsOf(double seconds) { return static_cast<int64_t>(std::ceil(seconds * 1e6)); }

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
