// Preloaded into a process, fails the FAILING_NEW_AT-th operator new after the entry of main, or
// that one and all later ones (FAILING_NEW_ON=1). At the end it writes the number of calls into the
// file FAILING_NEW_COUNT. NVRTC's allocations do not come here.
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <new>

namespace {

std::atomic<long> allocations{0};
long fail_at = -1;  // -1: none
bool fail_on = false;
bool counting = false;

void* Allocate(std::size_t size, std::size_t alignment) {
  if (counting) {
    const long number = allocations.fetch_add(1);
    if (fail_at >= 0 && (number == fail_at || (fail_on && number > fail_at))) return nullptr;
  }
  if (size == 0) size = 1;
  if (alignment <= alignof(std::max_align_t)) return std::malloc(size);
  void* memory = nullptr;
  return posix_memalign(&memory, alignment, size) == 0 ? memory : nullptr;
}

void* OrThrow(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

int (*real_main)(int, char**, char**);

int CountedMain(int argc, char** argv, char** environment) {
  if (const char* at = std::getenv("FAILING_NEW_AT")) fail_at = std::atol(at);
  fail_on = std::getenv("FAILING_NEW_ON") != nullptr;
  counting = true;
  const int status = real_main(argc, argv, environment);
  counting = false;
  if (const char* path = std::getenv("FAILING_NEW_COUNT")) {
    if (std::FILE* file = std::fopen(path, "w")) {
      std::fprintf(file, "%ld\n", allocations.load());
      std::fclose(file);
    }
  }
  return status;
}

}  // namespace

extern "C" int __libc_start_main(int (*main)(int, char**, char**), int argc, char** argv,
                                 void (*init)(), void (*fini)(), void (*rtld_fini)(), void* stack) {
  using Start =
      int (*)(int (*)(int, char**, char**), int, char**, void (*)(), void (*)(), void (*)(), void*);
  real_main = main;
  const auto start = reinterpret_cast<Start>(dlsym(RTLD_NEXT, "__libc_start_main"));
  return start(CountedMain, argc, argv, init, fini, rtld_fini, stack);
}

void* operator new(std::size_t size) { return OrThrow(Allocate(size, 0)); }
void* operator new[](std::size_t size) { return OrThrow(Allocate(size, 0)); }
void* operator new(std::size_t size, std::align_val_t align) {
  return OrThrow(Allocate(size, static_cast<std::size_t>(align)));
}
void* operator new[](std::size_t size, std::align_val_t align) {
  return OrThrow(Allocate(size, static_cast<std::size_t>(align)));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return Allocate(size, 0); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return Allocate(size, 0); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
