#include "tests/compile/kernel_sweep.h"

#include "runtime/nvrtc/nvrtc_compiler.h"
#include "src/device/device_library.h"
#include "tests/compile/compile_threads.h"
#include "tests/compile/kernel_list.h"
#include "tests/support/drawn.h"
#include "tests/support/small_cubin.h"
#include "tests/support/test.h"

namespace sinter::testing {
namespace {

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

constexpr size_t kWrittenEvery = 16;  // kernels: whoever stops a run keeps what has compiled

bool WritesList() { return !Variable("SINTER_TEST_KERNELS").empty(); }
bool ReadsList() { return !IsLongSweep() && Variable("SINTER_TEST_KERNELS") != "anew"; }

// The result for a kernel that is not compiled; readers of cubins accept it.
CompiledKernel Pretended() { return CompiledKernel{.cubin = SmallCubin("code"), .registers = 32}; }

// Processor time of this thread: NVRTC compiles on the thread that asks.
double ThreadMs() {
  timespec t = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) / 1e6;
}

// The compiler, the list and the results that all sweeps of a process share.
struct Sweeps {
  Sweeps()
      : compiler(MakeNvrtcCompiler(Variable("SINTER_NVRTC"))),
        list(absl::StrCat("tests/compile/compiled/", program_invocation_short_name, ".txt"),
             compiler->ToolchainId().value_or("none")) {}
  const std::unique_ptr<Compiler> compiler;
  KernelList list;
  std::mutex mutex;
  size_t compiled = 0;
  std::map<std::string, absl::Status> swept;  // what compiling gave, by digest; OK if left out
};

Sweeps& OfProcess() {
  static Sweeps* const sweeps = [] {
    if (WritesList()) {
      std::atexit([] { OfProcess().list.Write(::testing::GTEST_FLAG(filter) != "*"); });
    }
    return new Sweeps;
  }();
  return *sweeps;
}

struct Unknown {
  std::string digest;
  const SweepKernel* kernel;
};

// Those that are to be compiled: once each, and not what the list knows.
std::vector<Unknown> UnknownOf(const std::vector<SweepKernel>& kernels) {
  Sweeps& sweeps = OfProcess();
  std::vector<Unknown> unknown;
  for (const SweepKernel& kernel : kernels) {
    std::string digest = KernelDigest(kernel.request);
    if (!sweeps.swept.emplace(digest, absl::OkStatus()).second) continue;
    if (ReadsList() && sweeps.list.Knows(digest)) {
      sweeps.list.Add(digest);
    } else {
      unknown.push_back({std::move(digest), &kernel});
    }
  }
  return unknown;
}

// Keeps the kernels that the commit draws, if there are more than an everyday run compiles.
void Draw(std::vector<Unknown>* unknown) {
  const size_t all = unknown->size();
  if (!ReadsList() || WritesList() || all <= kUnknownOfSweep) return;
  const auto draw = [commit = DrawingCommit()](const Unknown& one) {
    return DrawOf(one.digest + commit);
  };
  std::sort(unknown->begin(), unknown->end(),
            [&](const Unknown& a, const Unknown& b) { return draw(a) < draw(b); });
  unknown->resize(kUnknownOfSweep);
  std::printf(
      "%zu kernels are not in %s; %zu of them, drawn by SINTER_TEST_COMMIT=%s, are compiled. "
      "`./dev kernels --update` compiles all of them and writes the list\n",
      all, OfProcess().list.path().c_str(), unknown->size(), DrawingCommit().c_str());
}

SweepResult CompileOne(const Unknown& unknown, const AtEnd& at_end) {
  Sweeps& sweeps = OfProcess();
  SweepResult result;
  result.kernel = unknown.kernel;
  CompileRequest request = unknown.kernel->request;
  request.headers = CopyDeviceHeaders();
  const double start = ThreadMs();
  result.compiled = sweeps.compiler->Compile(request);
  result.processor_ms = ThreadMs() - start;
  if (result.compiled.ok()) {
    absl::Status checked = CheckCubin(result.compiled->cubin);
    if (checked.ok() && at_end) checked = at_end(request, *result.compiled);
    if (!checked.ok()) result.compiled = checked;
  }
  if (result.compiled.ok()) sweeps.list.Add(unknown.digest);
  std::lock_guard<std::mutex> lock(sweeps.mutex);
  sweeps.swept[unknown.digest] = result.compiled.status();
  if (WritesList() && ++sweeps.compiled % kWrittenEvery == 0) sweeps.list.Write(true);
  return result;
}

class Pretender : public Compiler {
 public:
  explicit Pretender(std::vector<CompileRequest>* requests) : requests_(requests) {}
  absl::StatusOr<CompiledKernel> Compile(const CompileRequest& request, const KeepGoing*) override {
    std::lock_guard<std::mutex> lock(mutex_);
    requests_->push_back(request);
    requests_->back().headers.clear();
    return Pretended();
  }
  absl::StatusOr<std::string> ToolchainId() override { return OfProcess().compiler->ToolchainId(); }
  bool Loaded() const override { return true; }
  uint64_t Compiles() const override { return 0; }

 private:
  std::mutex mutex_;
  std::vector<CompileRequest>* const requests_;
};

class SweptCompiler : public Compiler {
 public:
  absl::StatusOr<CompiledKernel> Compile(const CompileRequest& request,
                                         const KeepGoing* keep_going) override {
    Sweeps& sweeps = OfProcess();
    if (IsLongSweep()) return sweeps.compiler->Compile(request, keep_going);
    const std::string digest = KernelDigest(request);
    {
      std::lock_guard<std::mutex> lock(sweeps.mutex);
      const auto at = sweeps.swept.find(digest);
      const bool known = at == sweeps.swept.end() && ReadsList() && sweeps.list.Knows(digest);
      if (known) sweeps.list.Add(digest);
      if (known || (at != sweeps.swept.end() && at->second.ok())) return Pretended();
      if (at != sweeps.swept.end()) return at->second;
    }
    SweepKernel kernel{request.name, request};
    return CompileOne({digest, &kernel}, nullptr).compiled;
  }
  absl::StatusOr<std::string> ToolchainId() override { return OfProcess().compiler->ToolchainId(); }
  bool Loaded() const override { return OfProcess().compiler->Loaded(); }
  uint64_t Compiles() const override { return OfProcess().compiler->Compiles(); }
};

}  // namespace

std::vector<SweepResult> CompileSweep(const std::vector<SweepKernel>& kernels,
                                      const AtEnd& at_end) {
  std::vector<Unknown> unknown = UnknownOf(kernels);
  Draw(&unknown);
  std::vector<SweepResult> results(unknown.size());
  std::atomic<size_t> next{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < CompileThreads(); ++t) {
    threads.emplace_back([&] {
      for (size_t i = next++; i < unknown.size(); i = next++) {
        results[i] = CompileOne(unknown[i], at_end);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::printf("%zu kernels, %zu of them compiled now\n", kernels.size(), results.size());
  return results;
}

std::unique_ptr<Compiler> MakePretender(std::vector<CompileRequest>* requests) {
  return std::make_unique<Pretender>(requests);
}

std::unique_ptr<Compiler> MakeSweptCompiler() { return std::make_unique<SweptCompiler>(); }

}  // namespace sinter::testing
