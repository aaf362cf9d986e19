// Program: one NVRTC program, from source to cubin.
#ifndef SINTER_RUNTIME_NVRTC_PROGRAM_H_
#define SINTER_RUNTIME_NVRTC_PROGRAM_H_

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/nvrtc/nvrtc_library.h"
#include "src/base/compile_request.h"

namespace sinter {

// Used by one thread; several programs may compile at once on several threads.
class Program {
 public:
  // Copies what it needs of `request` into NVRTC.
  static absl::StatusOr<Program> Create(std::shared_ptr<const NvrtcLibrary> library,
                                        const CompileRequest& request);
  Program(Program&& other) noexcept;
  Program& operator=(Program&&) = delete;
  ~Program();

  // NVRTC's own result: a refused source is no error of this call. Read Log() afterwards in either
  // case. NVRTC 13 ends early once `unwanted` is set.
  nvrtcResult Compile(const std::vector<std::string>& options, const std::atomic<bool>& unwanted);
  std::string Log() const;
  absl::StatusOr<std::string> Cubin() const;

 private:
  Program(std::shared_ptr<const NvrtcLibrary> library, nvrtcProgram program)
      : library_(std::move(library)), program_(program) {}

  std::shared_ptr<const NvrtcLibrary> library_;
  nvrtcProgram program_ = nullptr;
};

}  // namespace sinter

#endif  // SINTER_RUNTIME_NVRTC_PROGRAM_H_
