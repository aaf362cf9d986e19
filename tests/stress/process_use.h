// What the calling process takes of the machine, and the command line of the long churns.
#pragma once

#include <dirent.h>
#include <malloc.h>

#include "tests/support/common.h"

namespace sinter {

// Bytes in memory.
inline uint64_t ResidentBytes() {
  uint64_t total = 0, resident = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  if (fscanf(file, "%lu %lu", &total, &resident) != 2) resident = 0;
  fclose(file);
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// Bytes that are allocated and not freed, of all arenas: a leak shows here. Resident memory also
// grows when threads that met in one arena make another.
inline uint64_t AllocatedBytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

inline int Descriptors() {
  int count = 0;
  DIR* dir = opendir("/proc/self/fd");
  while (dir != nullptr && readdir(dir) != nullptr) ++count;
  if (dir != nullptr) closedir(dir);
  return count;
}

// The N of `--seconds N`, at least 5; `otherwise` without it.
inline int SecondsOf(int argc, char** argv, int otherwise) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::string(argv[i]) == "--seconds") return std::max(5, std::atoi(argv[i + 1]));
  }
  return otherwise;
}

}  // namespace sinter
