// Kernels that a test compiles on several threads.
#ifndef SINTER_TESTS_COMPILE_COMPILE_JOBS_H_
#define SINTER_TESTS_COMPILE_COMPILE_JOBS_H_

#include <atomic>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "runtime/nvrtc/nvrtc_compiler.h"
#include "src/plan/kernel_code.h"
#include "tests/compile/compile_threads.h"

namespace sinter {

struct CompileJob {
  std::string name;
  KernelSpec spec;
  CodegenOptions options;
};

// Fails where one does not compile, and prints registers. `nvrtc`: the library's path.
inline void Compile(const std::vector<CompileJob>& jobs, const DeviceModel& model,
                    const std::string& nvrtc) {
  const auto compiler = MakeNvrtcCompiler(nvrtc);
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::vector<std::string> failures;
  std::vector<std::thread> threads;
  for (int t = 0; t < CompileThreads(); ++t) {
    threads.emplace_back([&] {
      for (size_t i = next++; i < jobs.size(); i = next++) {
        const auto compiled =
            compiler->Compile(Generate(jobs[i].spec, model, jobs[i].options)->request);
        std::lock_guard<std::mutex> lock(mutex);
        if (!compiled.ok()) {
          failures.push_back(absl::StrCat(jobs[i].name, ": ", compiled.status().message()));
          continue;
        }
        std::printf("%3d registers: %s\n", compiled->registers, jobs[i].name.c_str());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& failure : failures) ADD_FAILURE() << failure;
}

}  // namespace sinter

#endif  // SINTER_TESTS_COMPILE_COMPILE_JOBS_H_
