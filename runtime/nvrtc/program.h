// Program: one NVRTC program, from source to cubin, and what its log says.
#ifndef SINTER_RUNTIME_NVRTC_PROGRAM_H_
#define SINTER_RUNTIME_NVRTC_PROGRAM_H_

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
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

struct CompileLogFacts {
  int registers = 0;          // per thread, the most of any function; 0 when the log does not say
  int spill_store_bytes = 0;  // summed over functions
  int spill_load_bytes = 0;
  std::string remark;  // the first line with a C75xx code, "" when there is none
  std::string error;   // the first line that reports an error, "" when there is none
};

// Reads NVRTC's log of a compile with --ptxas-options=-v. C75xx are ptxas's notes that wgmma was
// serialised or setmaxnreg ignored: the code is right and slow.
CompileLogFacts ReadCompileLog(absl::string_view log);

}  // namespace sinter

#endif  // SINTER_RUNTIME_NVRTC_PROGRAM_H_
