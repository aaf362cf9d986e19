// NvrtcLibrary: libnvrtc, opened at run time, as a table of function pointers.
#ifndef SINTER_RUNTIME_NVRTC_NVRTC_LIBRARY_H_
#define SINTER_RUNTIME_NVRTC_NVRTC_LIBRARY_H_

#include <nvrtc.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/base/compile_request.h"

// X(field, parameters): the exported symbol is nvrtc + field.
#define SINTER_NVRTC_FUNCTIONS(X)                                                            \
  X(Version, (int* major, int* minor))                                                       \
  X(CreateProgram, (nvrtcProgram * program, const char* source, const char* name,            \
                    int header_count, const char* const* headers, const char* const* names)) \
  X(DestroyProgram, (nvrtcProgram * program))                                                \
  X(CompileProgram, (nvrtcProgram program, int option_count, const char* const* options))    \
  X(GetProgramLogSize, (nvrtcProgram program, size_t * size))                                \
  X(GetProgramLog, (nvrtcProgram program, char* log))                                        \
  X(GetCUBINSize, (nvrtcProgram program, size_t * size))                                     \
  X(GetCUBIN, (nvrtcProgram program, char* cubin))                                           \
  X(GetPTXSize, (nvrtcProgram program, size_t * size))                                       \
  X(GetPTX, (nvrtcProgram program, char* ptx))

namespace sinter {

struct NvrtcTable {
#define SINTER_NVRTC_FIELD(field, parameters) nvrtcResult(*field) parameters = nullptr;
  SINTER_NVRTC_FUNCTIONS(SINTER_NVRTC_FIELD)
#undef SINTER_NVRTC_FIELD
  const char* (*GetErrorString)(nvrtcResult result) = nullptr;
  // NVRTC 13: asks `callback(payload, null)` now and then while it compiles; 1 ends it. Older:
  // null.
  nvrtcResult (*SetFlowCallback)(nvrtcProgram program, int (*callback)(void*, void*),
                                 void* payload) = nullptr;
};

// Thread-safe. The library is never closed.
class NvrtcLibrary {
 public:
  // Opens `path`; when it is empty the first of NvrtcCandidates that opens. A path that was given
  // is the only one tried. Then the library's builtins. UNAVAILABLE when none opens.
  static absl::StatusOr<std::shared_ptr<const NvrtcLibrary>> Open(const std::string& path);
  // A library of given functions (a fake), with its toolchain id.
  static std::shared_ptr<const NvrtcLibrary> FromTable(const NvrtcTable& table,
                                                       const std::string& toolchain_id);

  const NvrtcTable* operator->() const { return &table_; }
  // "nvrtc-13.0-<build id>": the version, and the ELF build id of the library's file (its SHA-256
  // where it has none).
  const std::string& toolchain_id() const { return toolchain_id_; }

  // NVRTC constructs objects within the library's first compile, and exit() destroys them: that
  // compile is an ExitGate::FirstUse. For an exit() of another thread than the main one it calls
  // WaitAtExit whenever NVRTC calls back. Each compile that began as a first one ends with
  // NoteFirstCompile, which does so once more.
  bool compiled() const { return compiled_; }
  void WaitAtExit() const;
  void NoteFirstCompile() const;

 private:
  NvrtcLibrary(const NvrtcTable& table, std::string toolchain_id)
      : table_(table), toolchain_id_(std::move(toolchain_id)) {}

  const NvrtcTable table_;
  const std::string toolchain_id_;
  mutable std::atomic<bool> compiled_{false};  // once
};

// Used by one thread; several programs may compile at once on several threads.
class Program {
 public:
  // Copies what it needs of `request` into NVRTC.
  static absl::StatusOr<Program> Create(std::shared_ptr<const NvrtcLibrary> library,
                                        const CompileRequest& request);
  Program(Program&& other) noexcept;
  Program& operator=(Program&&) = delete;
  ~Program();

  // NVRTC's own result: a refused source is not an error of this call. Read Log() afterwards in
  // either case. NVRTC 13 ends early once `unwanted` is set.
  nvrtcResult Compile(const std::vector<std::string>& options, const std::atomic<bool>& unwanted);
  std::string Log() const;
  absl::StatusOr<std::string> Cubin() const;
  absl::StatusOr<std::string> Ptx() const;  // with the NUL at its end

 private:
  Program(std::shared_ptr<const NvrtcLibrary> library, nvrtcProgram program)
      : library_(std::move(library)), program_(program) {}

  // What `get` gives, of the size that `size_of` gives. `what` is in both functions' names.
  absl::StatusOr<std::string> Code(nvrtcResult (*size_of)(nvrtcProgram, size_t*),
                                   nvrtcResult (*get)(nvrtcProgram, char*), const char* what) const;

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

// The files of NVRTC: where libnvrtc lies, its second library, the identity of a library file.

// Only `path` when it is given; else the sonames and the files of /usr/local/cuda*, the newest
// version first, the loader's before others of its version.
std::vector<std::string> NvrtcCandidates(const std::string& path);

// The minor version of an NVRTC of version `major`, read from the name of the builtins in its
// folder; -1 if there are none.
int NvrtcMinorOf(const std::string& file, int major);

// The file that dlopen of the first candidate that opens would load, found by looking only: the
// loader's search list, then its cache, then its default folders. "" when it is not found.
std::string FindNvrtcFile(const std::string& path);

// The names to open for an NVRTC of version major.minor that was loaded from `nvrtc_file`: the file
// in the folder where that file really lies, the file in the folder that its name gives, and last
// the bare name, which the loader knows or does not. Equal ones once.
std::vector<std::string> BuiltinsCandidates(const std::string& nvrtc_file, int major, int minor);

// Opens the first candidate that opens, for the life of the process. NVRTC asks for the bare name,
// and the loader answers with a library that is loaded already if its soname is that name.
// UNAVAILABLE, naming the file and the reason, when none opens.
absl::Status OpenBuiltins(const std::string& nvrtc_file, int major, int minor);

// The GNU build id in the notes of a 64-bit little-endian ELF file, as hex; "" when there is none
// or the bytes are not such a file. Trusts nothing in them: reads at most 65535 segments' headers
// and 1000 notes.
std::string BuildIdOf(absl::string_view elf);

// The build id of the file at `path`, or "sha256:<hex>" of its bytes when it has none. UNAVAILABLE
// when it cannot be read.
absl::StatusOr<std::string> FileIdentity(const std::string& path);

}  // namespace sinter

#endif  // SINTER_RUNTIME_NVRTC_NVRTC_LIBRARY_H_
