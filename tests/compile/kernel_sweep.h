// Compiles those kernels of a test that are not known to compile.
#pragma once

#include "src/base/compile_request.h"
#include "src/base/ports.h"
#include "tests/support/common.h"

namespace sinter::testing {

struct SweepKernel {
  std::string name;
  CompileRequest request;  // without headers, of which each would be a copy: the embedded ones
};

struct SweepResult {
  const SweepKernel* kernel = nullptr;
  absl::StatusOr<CompiledKernel> compiled;
  double processor_ms = 0;
};

// Compiles on SINTER_TEST_THREADS threads, two if not said, what no sweep of this process has
// compiled, and returns it. An everyday run leaves out the kernels of
// tests/compile/compiled/PROGRAM.txt; of others more than kUnknownOfSweep are drawn by the commit.
// `at_end` is called for each kernel that compiled, on the thread that did.
//   SINTER_TEST_LONG=1           compiles all, and reads no list
//   SINTER_TEST_KERNELS=update   compiles all that the list lacks, and writes the list
//   SINTER_TEST_KERNELS=anew     compiles all, known or not, and writes the list
constexpr size_t kUnknownOfSweep = 16;
using AtEnd = std::function<absl::Status(const CompileRequest&, const CompiledKernel&)>;
std::vector<SweepResult> CompileSweep(const std::vector<SweepKernel>& kernels,
                                      const AtEnd& at_end = nullptr);

// A compiler that answers without compiling: for an engine that only plans. `requests` gets what it
// is asked, without headers.
std::unique_ptr<Compiler> MakePretender(std::vector<CompileRequest>* requests);

// The compiler of SINTER_NVRTC, which answers for kernels that a sweep of this process compiled or
// left out as the sweep says, and compiles others.
std::unique_ptr<Compiler> MakeSweptCompiler();

}  // namespace sinter::testing
