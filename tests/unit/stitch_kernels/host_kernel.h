// HostKernel: a kernel of the generated source and what it computes.
#pragma once

#include "tests/support/common.h"

namespace sinter::stitch_host {

struct HostKernel {
  const char* name;
  const char* spec;  // WriteStitch
  size_t spec_bytes;
  int64_t m;
  int64_t shared_bytes;
  // Runs one thread; pointers are the kernel's parameters.
  void (*run)(void* const* pointers, int m);
};

}  // namespace sinter::stitch_host

extern const sinter::stitch_host::HostKernel kHostKernels[];
extern const int kHostKernelCount;
