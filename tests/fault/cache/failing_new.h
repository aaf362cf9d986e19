// operator new that fails on order, for the whole process, LevelDB included; and a count of memory
// that it does not see. Include it in one source of a test.
#pragma once

#include <dirent.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace {

// Allocations of this thread left before one fails; negative: none does.
thread_local int64_t until_failure = -1;
thread_local bool for_ever = false;
std::atomic<int64_t> live{0};

// Open descriptors of the process. Called while nothing fails.
inline int OpenDescriptors() {
  int count = 0;
  DIR* const dir = opendir("/proc/self/fd");
  while (dir != nullptr && readdir(dir) != nullptr) ++count;
  if (dir != nullptr) closedir(dir);
  return count;
}

bool Fails() {
  if (until_failure < 0) return false;
  if (until_failure > 0) {
    --until_failure;
    return false;
  }
  if (!for_ever) until_failure = -1;
  return true;
}

void* Allocate(size_t size) {
  void* memory = Fails() ? nullptr : std::malloc(size == 0 ? 1 : size);
  if (memory != nullptr) ++live;
  return memory;
}

// Not inlined: an optimising compiler would see free() together with a replaced operator new and
// warn of a mismatch.
__attribute__((noinline)) void Free(void* memory) {
  if (memory != nullptr) --live;
  std::free(memory);
}

// Fails the n-th allocation that `call` makes on this thread, and with `ever` all later ones; false
// when there are not so many.
template <typename Call>
bool FailAllocation(int64_t n, bool ever, const Call& call) {
  until_failure = n;
  for_ever = ever;
  call();
  const bool reached = until_failure <= 0 && (for_ever || until_failure == -1);
  until_failure = -1;
  return reached;
}

}  // namespace

#if defined(__SANITIZE_ADDRESS__)
// Memory that LevelDB loses when allocation fails inside it is not our leak. LevelDB is built
// without frame pointers, so LeakSanitizer recognises its allocations only by unwinding tables.
extern "C" __attribute__((visibility("default"))) const char* __asan_default_options() {
  return "fast_unwind_on_malloc=0";
}
extern "C" __attribute__((visibility("default"))) const char* __lsan_default_suppressions() {
  return "leak:libleveldb";
}
#endif

void* operator new(size_t size) {
  if (void* memory = Allocate(size)) return memory;
  throw std::bad_alloc();
}
void* operator new[](size_t size) { return operator new(size); }
void* operator new(size_t size, const std::nothrow_t&) noexcept { return Allocate(size); }
void* operator new[](size_t size, const std::nothrow_t&) noexcept { return Allocate(size); }
void operator delete(void* memory) noexcept { Free(memory); }
void operator delete(void* memory, size_t) noexcept { Free(memory); }
void operator delete[](void* memory) noexcept { Free(memory); }
void operator delete[](void* memory, size_t) noexcept { Free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { Free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { Free(memory); }
