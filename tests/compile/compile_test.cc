// Generated kernels through the real NVRTC for sm_90a. The compiler port refuses a kernel that
// spills or draws a C75xx remark, so a compiled kernel has neither.
// SINTER_TEST_INTENSITY=<schedules of a sweep> (12); SINTER_TEST_LONG=1 takes 500, and 2000 of
// those that planning offers first. A kernel that several sweeps take is compiled once.
// SINTER_TEST_OLD_HEADERS=<src/device of another version>: each kernel is compiled with those
// headers too, and both must give the same machine code.
#include "absl/strings/numbers.h"
#include "runtime/nvrtc/nvrtc_compiler.h"
#include "src/device/device_library.h"
#include "src/standin/stand_in.h"
#include "tests/compile/kernel_jobs.h"
#include "tests/compile/kernel_sweep.h"
#include "tests/support/header_folder.h"
#include "tests/support/machine_code.h"
#include "tests/support/test.h"
#include "tests/unit/plan/sample_kernels.h"

namespace sinter {
namespace {

constexpr int kShortSweep = 12, kLongSweep = 500, kLongFirst = 2000;
constexpr double kSlowestMs = 3000;  // far above what one takes: machines that build at the same
                                     // time must not fail the test
constexpr uint64_t kSeed = 20;       // of random sweeps, unless SINTER_TEST_SEED says another

const char* Variable(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
}

int SweepCount(int standard, int long_sweep = kLongSweep) {
  int count = standard;
  if (std::string(Variable("SINTER_TEST_LONG")) == "1") return long_sweep;
  if (!absl::SimpleAtoi(Variable("SINTER_TEST_INTENSITY"), &count)) return standard;
  return count;
}

uint64_t Seed() {
  uint64_t seed = kSeed;
  return absl::SimpleAtoi(Variable("SINTER_TEST_SEED"), &seed) ? seed : kSeed;
}

std::unique_ptr<Compiler> MakeCompiler() { return MakeNvrtcCompiler(Variable("SINTER_NVRTC")); }

// What a refusal's log says of the reason, without the lines that every compile has.
std::string Reasons(const absl::Status& status) {
  std::string storage;
  std::vector<std::string> lines;
  for (absl::string_view line : absl::StrSplit(CompileLogOf(status, &storage), '\n')) {
    if (absl::StrContains(line, "error") || absl::StrContains(line, "C75") ||
        absl::StrContains(line, "spill")) {
      lines.push_back(std::string(line));
    }
    if (lines.size() == 4) break;
  }
  return absl::StrJoin(lines, "\n    ");
}

// SINTER_TEST_OLD_HEADERS; none: nothing is compared.
std::vector<std::pair<std::string, std::string>> OldHeaders() {
  const std::string folder = Variable("SINTER_TEST_OLD_HEADERS");
  if (folder.empty()) return {};
  auto headers = ReadHeaderFolder(folder);
  EXPECT_FALSE(headers.empty()) << "no header below " << folder;
  return headers;
}

class CompileRun {
 public:
  // Compiles jobs; each failure is a test failure with its reason.
  void Compile(const std::vector<KernelJob>& jobs, const DeviceModel& model) {
    std::vector<testing::SweepKernel> kernels;
    for (const KernelJob& job : jobs) {
      auto kernel = Got(Generate(job.spec, model, job.options), job.Name());
      kernels.push_back({job.Name(), std::move(kernel.request)});
      kernels.back().request.headers.clear();
    }
    testing::AtEnd at_end;
    if (!old_headers_.empty()) {
      at_end = [this](const CompileRequest& request, const CompiledKernel& now) {
        return CompareWithOld(request, now);
      };
    }
    for (const testing::SweepResult& result : testing::CompileSweep(kernels, at_end)) Note(result);
  }

  void Report(const char* what) {
    if (times_ms_.empty()) return;
    std::sort(times_ms_.begin(), times_ms_.end());
    std::sort(wall_ms_.begin(), wall_ms_.end());
    const double median = times_ms_[times_ms_.size() / 2];
    std::cout << absl::StrFormat(
        "%s: %d kernels and %d refused, processor time median %.0f ms, slowest %.0f ms (%s); "
        "elapsed median %.0f "
        "ms, slowest %.0f ms; registers at most %d\n",
        what, times_ms_.size(), refused_, median, times_ms_.back(), slowest_,
        wall_ms_[wall_ms_.size() / 2], wall_ms_.back(), registers_);
    EXPECT_LT(median, kSlowestMs);
  }

 private:
  void Note(const testing::SweepResult& result) {
    const std::string& name = result.kernel->name;
    const absl::Status& status = result.compiled.status();
    EXPECT_TRUE(status.ok()) << name << "\n    " << status.message() << "\n    " << Reasons(status);
    refused_ += !status.ok();
    if (!status.ok()) return;
    if (times_ms_.empty() || result.processor_ms > slowest_ms_) {
      slowest_ms_ = result.processor_ms, slowest_ = name;
    }
    times_ms_.push_back(result.processor_ms);
    wall_ms_.push_back(result.compiled->compile_us / 1000);
    registers_ = std::max(registers_, result.compiled->registers);
  }

  absl::Status CompareWithOld(CompileRequest request, const CompiledKernel& now) const {
    request.headers = old_headers_;
    SINTER_ASSIGN_OR_RETURN(const CompiledKernel old, MakeCompiler()->Compile(request));
    SINTER_RETURN_IF_ERROR(CheckCubin(old.cubin));
    if (old.registers == now.registers && MachineCode(old.cubin) == MachineCode(now.cubin)) {
      return absl::OkStatus();
    }
    return absl::DataLossError("the old headers give other machine code");
  }

  const std::vector<std::pair<std::string, std::string>> old_headers_ = OldHeaders();
  std::vector<double> times_ms_, wall_ms_;  // of kernels that compiled
  int refused_ = 0;
  std::string slowest_;
  double slowest_ms_ = 0;
  int registers_ = 0;
};

class CompileTest : public ::testing::Test {
 protected:
  void CompileAll(const std::vector<KernelJob>& jobs, const char* what) {
    CompileRun run;
    run.Compile(jobs, model_);
    run.Report(what);
  }
  const DeviceModel model_ = *BuiltinModel("h200");
};

TEST_F(CompileTest, BestKernelsOfTheProblemListsInBothLayouts) {
  const std::vector<KernelJob> jobs = BestKernels(model_, true);
  EXPECT_GE(jobs.size(), 18u * 2);  // two products of each
  CompileAll(jobs, "best kernels");
}

TEST_F(CompileTest, KernelsOfSequencesOfProductsInBothLayouts) {
  const std::vector<KernelJob> jobs = ProductsKernels(model_);
  EXPECT_GE(jobs.size(), 5u * 2 * 2);  // those that are alike count once
  CompileAll(jobs, "sequences of products");
}

TEST_F(CompileTest, ClustersThatShareRowTiles) {
  CompileAll(RangesKernels(model_, static_cast<size_t>(SweepCount(kShortSweep))), "ranges of N");
}

TEST_F(CompileTest, WeightsThatStay) {
  CompileAll(ResidentKernels(model_, static_cast<size_t>(SweepCount(kShortSweep))), "weights stay");
}

TEST_F(CompileTest, KernelsThatAddAResidual) {
  CompileAll(ResidualKernels(model_, static_cast<size_t>(SweepCount(kShortSweep))), "residuals");
}

TEST_F(CompileTest, ProgramsInTheEpilogue) {
  CompileAll(ProgramKernels(model_, static_cast<size_t>(SweepCount(kShortSweep))), "programs");
}

TEST_F(CompileTest, ProgramsInTheEpilogueWithMatricesOfAnyElement) {
  CompileAll(MatrixKernels(model_, static_cast<size_t>(SweepCount(kShortSweep))), "matrices");
}

TEST_F(CompileTest, ProgramsInTheEpilogueWithAuxiliaryResults) {
  CompileAll(AuxKernels(model_, static_cast<size_t>(SweepCount(kShortSweep))), "auxiliary results");
}

TEST_F(CompileTest, KernelsThatScaleTheirProducts) {
  CompileAll(ScaledKernels(model_, static_cast<size_t>(SweepCount(kShortSweep))),
             "scaled products");
}

TEST_F(CompileTest, KernelsThatScaleTheirColumns) {
  CompileAll(ColumnScaleKernels(model_, static_cast<size_t>(SweepCount(kShortSweep))),
             "scaled columns");
}

TEST_F(CompileTest, WideTilesWhoseColumnsHaveTerms) {
  CompileAll(WideTileKernels(model_, static_cast<size_t>(SweepCount(kShortSweep))), "wide tiles");
}

TEST_F(CompileTest, ProductsOfTransposedRows) {
  CompileAll(TransposedKernels(model_, static_cast<size_t>(SweepCount(kShortSweep))),
             "transposed rows");
}

TEST_F(CompileTest, ProductsThatComputeTheNormOfTheirRows) {
  CompileAll(NormKernels(model_, static_cast<size_t>(SweepCount(kShortSweep))), "norms of rows");
}

TEST_F(CompileTest, ProductsOfCodes) {
  CompileAll(CodesKernels(model_, static_cast<size_t>(SweepCount(kShortSweep))),
             "products of codes");
}

TEST_F(CompileTest, ProductsOfSixteenBitsWithResultsOfF32) {
  CompileAll(WideResultKernels(model_, static_cast<size_t>(SweepCount(kShortSweep))),
             "results of f32");
}

TEST_F(CompileTest, ProductsOfCodesWithStridedScales) {
  CompileAll(StridedScaleKernels(model_, static_cast<size_t>(SweepCount(kShortSweep))),
             "strided scales");
}

TEST_F(CompileTest, WindowsWhoseTapsArePadded) {
  CompileAll(WindowKernels(model_, static_cast<size_t>(SweepCount(kShortSweep))), "padded taps");
}

TEST_F(CompileTest, RandomSchedulesOfTheShippingSpace) {
  CompileAll(RandomKernels(model_, Seed(), SweepCount(kShortSweep)), "random schedules");
}

// What registers are predicted from: the compiler refuses none of them.
TEST_F(CompileTest, SchedulesOfferedFirstToRandomProblems) {
  CompileAll(FirstKernels(model_, Seed(), SweepCount(kShortSweep, kLongFirst)), "offered first");
}

// Both options of every dataflow, and either one.
TEST_F(CompileTest, TestBuildsOfEveryDataflow) {
  std::vector<KernelJob> jobs;
  for (const CodegenOptions& options :
       {CodegenOptions{true, false}, CodegenOptions{false, true}, CodegenOptions{true, true}}) {
    const bool both = options.trap_spins && options.jitter;
    for (Dataflow dataflow : DataflowsOf(SampleG7())) {
      for (int stages : {3, 6}) {  // products of a stage awaited at once, and left in flight
        if (stages == 6 && !both) continue;
        KernelSpec spec = SampleSpec(SampleG7(), dataflow);
        ProductIn(&spec).schedule.block_k = 64;
        ProductIn(&spec).schedule.stages = stages;
        jobs.push_back({spec, options});
      }
    }
  }
  for (const CodegenOptions& options : {CodegenOptions{true, false}, CodegenOptions{true, true}}) {
    jobs.push_back({SampleSpec(SampleS8(), Dataflow::kSpatialGate), options});
  }
  CompileAll(jobs, "test builds");
}

// The compiler compares the device library's table with the host's.
TEST_F(CompileTest, ElementsAreThoseOfTheHostsTable) {
  const std::unique_ptr<Compiler> compiler = MakeCompiler();
  for (const ElementRow& row : kElementRows) {
    CompileRequest request{.name = "element.cu",
                           .headers = CopyDeviceHeaders(),
                           .arch = model_.arch,
                           .entry = "nothing"};
    request.source = absl::StrCat(
        "#include \"ptx/element.cuh\"\nnamespace sinter {\nusing Row = ", row.device_type,
        ";\nvoid check(Row::Stored* x) { ", row.stored_type, "* same = x; }\n",
        "static_assert(Row::kBytes == ", row.bytes, " && Row::kWgmmaK == ", row.wgmma_k,
        " && Row::kSwizzleSpan == ", row.swizzle_span, " && Row::kVector == ", row.vector,
        ", \"\");\n}\nextern \"C\" __global__ void nothing() {}\n");
    const auto compiled = compiler->Compile(request);
    EXPECT_TRUE(compiled.ok()) << row.device_type << ": " << Reasons(compiled.status());
  }
}

// A tile of each layout and width, and the rows.
TEST_F(CompileTest, StandIns) {
  constexpr int kMostSpills = 64;  // of rows
  const std::unique_ptr<Compiler> compiler = MakeCompiler();
  for (int i : {1, 17, 24, 34, StandInCount() - 3}) {
    CompileRequest request;
    request.name = absl::StrCat(StandInName(i), ".cu");
    request.arch = model_.arch;
    request.entry = i < StandInCount() - 3 ? "sinter_any_product" : "sinter_rows";
    request.headers = CopyDeviceHeaders();
    request.source = StandInSource(i);
    request.most_spill_bytes = kMostSpills;
    const auto compiled = compiler->Compile(request);
    EXPECT_TRUE(compiled.ok()) << request.name << ": " << Reasons(compiled.status());
  }
}

TEST_F(CompileTest, EqualRequestsGiveEqualCubins) {
  const std::unique_ptr<Compiler> one = MakeCompiler(), two = MakeCompiler();
  const auto kernel = Got(Generate(SampleSpec(SampleG7(), Dataflow::kClusterExchange), model_));
  const auto a = Got(one->Compile(kernel.request)), b = Got(two->Compile(kernel.request));
  EXPECT_TRUE(a.cubin == b.cubin);
}

}  // namespace
}  // namespace sinter
