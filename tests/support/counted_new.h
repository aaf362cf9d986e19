// Counts what a thread allocates: replaces global operator new. To be included by one file of a
// test program.
#pragma once

#include <cstdlib>
#include <new>

namespace sinter::testing {
// Calls of operator new by this thread.
inline thread_local long t_allocations = 0;
}  // namespace sinter::testing

void* operator new(std::size_t size) {
  ++sinter::testing::t_allocations;
  if (void* memory = std::malloc(size)) return memory;
  std::abort();
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  ++sinter::testing::t_allocations;
  const std::size_t align = static_cast<std::size_t>(alignment);
  if (void* memory = std::aligned_alloc(align, (size + align - 1) / align * align)) return memory;
  std::abort();
}
// std::stable_sort's buffer comes this way, and goes through the operator delete below.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  ++sinter::testing::t_allocations;
  return std::malloc(size);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
