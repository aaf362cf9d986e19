#include "runtime/nvrtc/nvrtc_compiler.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/nvrtc/nvrtc_library.h"
#include "src/base/arch.h"
#include "src/base/compile_request.h"
#include "src/base/exit_gate.h"
#include "src/base/fork_local.h"
#include "src/base/keep_going.h"
#include "src/base/status.h"

namespace sinter {
namespace {

// Compiles, and looks at `unwanted` where it can end early. Owns all that it needs: it may outlive
// who asked for it.
using CompileWork =
    std::function<absl::StatusOr<CompiledKernel>(const std::atomic<bool>& unwanted)>;

// What `work` returns, or within some hundredths of a second what `keep_going` refuses with; then
// the work goes on without anybody, until it is done or ends early. A process has as many of such
// left-over compiles as processors at most: with so many, the next one waits, and asks meanwhile.
// RESOURCE_EXHAUSTED: no thread, no memory.
absl::StatusOr<CompiledKernel> RunCompileJob(CompileWork work, const KeepGoing& keep_going);

std::vector<std::string> OptionsOf(const CompileRequest& request) {
  std::vector<std::string> options = {absl::StrCat("--gpu-architecture=", request.arch),
                                      "-default-device", "--std=c++17", "--ptxas-options=-v"};
  options.insert(options.end(), request.options.begin(), request.options.end());
  return options;
}

absl::Status CheckRequest(const CompileRequest& request) {
  if (absl::Status known = FeaturesOf(request.arch).status(); !known.ok()) {
    return Annotate(known, "compile request");
  }
  if (request.entry.empty()) return Invalid("compile request: entry is empty");
  return absl::OkStatus();
}

absl::Status Refused(const CompileRequest& request, absl::string_view why, absl::string_view log) {
  absl::Status status =
      MakeError(ErrorCode::kCompileFailed,
                absl::StrCat("compiling '", request.name, "' for ", request.arch, ": ", why));
  AttachCompileLog(status, log);
  return status;
}

// A candidate that compiles but would run slowly is refused like one that does not compile.
absl::Status CheckFacts(const CompileRequest& request, const CompileLogFacts& facts,
                        absl::string_view log) {
  if (!facts.remark.empty()) {
    return Refused(request, absl::StrCat("the compiler remarks: ", facts.remark), log);
  }
  if (facts.spill_store_bytes + facts.spill_load_bytes > request.most_spill_bytes) {
    return Refused(request,
                   absl::StrCat("registers spill: ", facts.spill_store_bytes, " bytes of stores, ",
                                facts.spill_load_bytes, " bytes of loads, with ", facts.registers,
                                " registers"),
                   log);
  }
  return absl::OkStatus();
}

// A kernel's code lies in a section of its name; names in an ELF string table end with a zero.
bool DefinesKernel(absl::string_view cubin, const std::string& entry) {
  if (IsPtx(cubin)) return absl::StrContains(cubin, absl::StrCat(".entry ", entry, "("));
  std::string section = ".text." + entry;
  section.push_back('\0');
  return absl::StrContains(cubin, section);
}

// NVRTC and the loader that opens it have locks of their own, one set a process: a new compiler in
// the child of a fork meets those that the parent's threads held.
ForkGate gate;

class NvrtcCompiler : public Compiler {
 public:
  NvrtcCompiler(NvrtcOpener open, std::function<std::string()> peek)
      : open_(std::move(open)), peek_(std::move(peek)) {}

  absl::StatusOr<CompiledKernel> Compile(const CompileRequest& request,
                                         const KeepGoing* keep_going) override {
    SINTER_RETURN_IF_ERROR(CheckRequest(request));
    const ForkGate::Pass inside = gate.Enter();
    if (!inside) return ForkedError();
    const ExitGate::Pass staying;
    if (!staying) return ExitError();
    SINTER_ASSIGN_OR_RETURN(std::shared_ptr<const NvrtcLibrary> library, Library());
    compiles_.fetch_add(1, std::memory_order_relaxed);
    if (keep_going == nullptr) {
      const std::atomic<bool> unwanted{false};
      return BuildInside(std::move(library), request, unwanted);
    }
    absl::StatusOr<CompiledKernel> kernel = RunCompileJob(
        [library = std::move(library), request](const std::atomic<bool>& unwanted) {
          return BuildInside(library, request, unwanted);
        },
        *keep_going);
    if (!absl::IsCancelled(kernel.status()) && !absl::IsDeadlineExceeded(kernel.status())) {
      return kernel;
    }
    return Annotate(kernel.status(), absl::StrCat("compiling '", request.name, "'"));
  }

  absl::StatusOr<std::string> ToolchainId() override {
    const ForkGate::Pass inside = gate.Enter();
    if (!inside) return ForkedError();
    SINTER_ASSIGN_OR_RETURN(const std::shared_ptr<const NvrtcLibrary> library, Library());
    return library->toolchain_id();
  }

  std::string PeekBuildId() override { return peek_(); }

  bool Loaded() const override { return loaded_.load(std::memory_order_acquire); }
  uint64_t Compiles() const override { return compiles_.load(std::memory_order_relaxed); }

 private:
  // On the thread that passes the gates here: a compile may outlive the call that wants it.
  static absl::StatusOr<CompiledKernel> BuildInside(std::shared_ptr<const NvrtcLibrary> library,
                                                    const CompileRequest& request,
                                                    const std::atomic<bool>& unwanted) {
    const ForkGate::Pass inside = gate.Enter();
    if (!inside) return ForkedError();
    const ExitGate::Pass staying;
    if (!staying) return ExitError();
    const auto start = std::chrono::steady_clock::now();
    SINTER_ASSIGN_OR_RETURN(CompiledKernel kernel, Build(std::move(library), request, unwanted));
    const std::chrono::duration<double, std::micro> spent =
        std::chrono::steady_clock::now() - start;
    kernel.compile_us = spent.count();
    return kernel;
  }

  static absl::StatusOr<CompiledKernel> Build(std::shared_ptr<const NvrtcLibrary> library,
                                              const CompileRequest& request,
                                              const std::atomic<bool>& unwanted) {
    std::optional<ExitGate::FirstUse> first;  // until its code is read
    if (!library->compiled() && !first.emplace()) return ExitError();
    SINTER_ASSIGN_OR_RETURN(Program program, Program::Create(library, request));
    const nvrtcResult result = program.Compile(OptionsOf(request), unwanted);
    if (first.has_value()) library->NoteFirstCompile();
    CompiledKernel kernel;
    kernel.log = program.Log();
    const CompileLogFacts facts = ReadCompileLog(kernel.log);
    if (result != NVRTC_SUCCESS && ExitGate::Exiting()) return ExitError();
    if (result != NVRTC_SUCCESS) {
      const std::string name = (*library)->GetErrorString(result);
      return Refused(request, facts.error.empty() ? name : absl::StrCat(name, ": ", facts.error),
                     kernel.log);
    }
    SINTER_RETURN_IF_ERROR(CheckFacts(request, facts, kernel.log));
    const bool translated = FeaturesOf(request.arch)->translated;
    SINTER_ASSIGN_OR_RETURN(kernel.cubin, translated ? program.Ptx() : program.Cubin());
    if (!DefinesKernel(kernel.cubin, request.entry)) {
      return Refused(
          request, absl::StrCat("the source defines no extern \"C\" kernel '", request.entry, "'"),
          kernel.log);
    }
    kernel.registers = facts.registers;
    kernel.spill_bytes = facts.spill_store_bytes + facts.spill_load_bytes;
    return kernel;
  }

  static absl::Status ExitError() { return Cancelled("compiling a kernel: the process exits"); }

  static absl::Status ForkedError() {
    return Unavailable(
        "another thread was using NVRTC when this process was forked, and may hold its locks for "
        "ever here: start a new process (exec, or \"spawn\" of Python's multiprocessing), or "
        "prepare before the fork; what is in the cache serves");
  }

  // Called only inside the gate.
  absl::StatusOr<std::shared_ptr<const NvrtcLibrary>> Library() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (library_ == nullptr) {
      const ExitGate::FirstUse opening;
      if (!opening) return ExitError();
      SINTER_ASSIGN_OR_RETURN(library_, open_());
      loaded_.store(true, std::memory_order_release);
    }
    return library_;
  }

  const NvrtcOpener open_;
  const std::function<std::string()> peek_;
  std::mutex mutex_;  // guards library_ while it is opened, never a compile
  std::shared_ptr<const NvrtcLibrary> library_;
  std::atomic<bool> loaded_{false};
  std::atomic<uint64_t> compiles_{0};
};

constexpr std::chrono::milliseconds kPollPause(10);

// Compiles of this process that nobody waits for.
struct LeftOver {
  int count = 0;
  std::condition_variable fewer;
};

// Never destroyed: threads come by until the process is gone.
ForkLocal<LeftOver, /*kKeep=*/false>& LeftOvers() {
  static auto* const left = new ForkLocal<LeftOver, /*kKeep=*/false>;
  return *left;
}

struct Job {
  CompileWork work;
  std::atomic<bool> unwanted{false};
  std::mutex mutex;
  std::condition_variable ended;
  // Guarded by the mutex.
  bool done = false;
  bool left = false;
  absl::StatusOr<CompiledKernel> result = ResourceExhausted("");
  std::exception_ptr thrown;
};

void Run(const std::shared_ptr<Job>& job) noexcept {
  absl::StatusOr<CompiledKernel> result = ResourceExhausted("");
  std::exception_ptr thrown;
  try {
    result = job->work(job->unwanted);
  } catch (...) {
    thrown = std::current_exception();
  }
  job->work = nullptr;
  std::unique_lock<std::mutex> lock(job->mutex);
  job->result = std::move(result);
  job->thrown = thrown;
  job->done = true;
  job->ended.notify_all();
  const bool left = job->left;
  lock.unlock();
  if (!left) return;
  const auto all = LeftOvers().Lock();
  --all->count;
  all->fewer.notify_all();
}

absl::Status AwaitPlace(const KeepGoing& keep_going) {
  static const int most = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  auto left = LeftOvers().Lock();
  while (left->count >= most) {
    SINTER_RETURN_IF_ERROR(keep_going.Check());
    left->fewer.wait_for(left.lock(), kPollPause);
  }
  return absl::OkStatus();
}

absl::StatusOr<CompiledKernel> RunCompileJob(CompileWork work, const KeepGoing& keep_going) {
  SINTER_RETURN_IF_ERROR(AwaitPlace(keep_going));
  const auto job = std::make_shared<Job>();
  job->work = std::move(work);
  try {
    std::thread(Run, job).detach();
  } catch (const std::system_error&) {
    return ResourceExhausted("compiling: no thread could be started");
  }
  std::unique_lock<std::mutex> lock(job->mutex);
  while (!job->done) {
    job->ended.wait_for(lock, kPollPause);
    absl::Status wanted = job->done ? absl::OkStatus() : keep_going.Check();
    if (wanted.ok()) continue;
    job->unwanted = true;
    job->left = true;
    ++LeftOvers().Lock()->count;
    return wanted;
  }
  if (job->thrown != nullptr) std::rethrow_exception(job->thrown);
  return std::move(job->result);
}

}  // namespace

std::unique_ptr<Compiler> MakeNvrtcCompiler(const std::string& nvrtc_path) {
  const auto open = [nvrtc_path] { return NvrtcLibrary::Open(nvrtc_path); };
  const auto peek = [nvrtc_path]() -> std::string {
    const std::string file = FindNvrtcFile(nvrtc_path);
    if (file.empty()) return "";
    absl::StatusOr<std::string> id = FileIdentity(file);
    return id.ok() ? *std::move(id) : "";
  };
  return std::make_unique<NvrtcCompiler>(open, peek);
}

std::unique_ptr<Compiler> MakeNvrtcCompiler(NvrtcOpener open) {
  return std::make_unique<NvrtcCompiler>(std::move(open), [] { return std::string(); });
}

}  // namespace sinter
