// Kernels that a test compiles, by their specs.
#pragma once

#include "src/plan/kernel_code.h"
#include "tests/compile/kernel_sweep.h"
#include "tests/support/test.h"

namespace sinter {

struct CompileJob {
  std::string name;
  KernelSpec spec;
  CodegenOptions options;
};

// Fails where one does not compile, and prints registers.
inline void ExpectCompile(const std::vector<CompileJob>& jobs, const DeviceModel& model) {
  std::vector<testing::SweepKernel> kernels;
  for (const CompileJob& job : jobs) {
    auto generated = Got(Generate(job.spec, model, job.options), job.name);
    kernels.push_back({job.name, std::move(generated.request)});
    kernels.back().request.headers.clear();
  }
  for (const testing::SweepResult& result : testing::CompileSweep(kernels)) {
    const std::string& name = result.kernel->name;
    EXPECT_TRUE(result.compiled.ok()) << name << ": " << result.compiled.status();
    if (result.compiled.ok())
      std::printf("%3d registers: %s\n", result.compiled->registers, name.c_str());
  }
}

}  // namespace sinter
