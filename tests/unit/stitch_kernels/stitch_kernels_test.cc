// Generated kernels of the stitch family, run on the host thread by thread, against the reference.
// SINTER_TEST_LONG=1 runs all of them, else every second one of the random graphs is left out.
#include "src/engine/verify.h"
#include "src/reference/reference.h"
#include "tests/bench/graph_check.h"
#include "tests/support/stitch_bytes.h"
#include "tests/support/test.h"
#include "tests/unit/stitch_kernels/grid_simulator.h"
#include "tests/unit/stitch_kernels/host_kernel.h"
#include "tests/unit/stitch_kernels/kernel_cases.h"

namespace sinter::stitch_host {
namespace {

constexpr size_t kGuard = 64;     // bytes around a tensor
constexpr char kPoison = '\xff';  // a NaN in every floating type

// A tensor between guards, aligned to 16 bytes.
class Guarded {
 public:
  explicit Guarded(const std::string& bytes)
      : size_(bytes.size()), words_((bytes.size() + 2 * kGuard + 15) / 16 * 2) {
    std::memset(words_.data(), kPoison, words_.size() * 8);
    std::memcpy(data(), bytes.data(), size_);
  }
  explicit Guarded(size_t size) : Guarded(std::string(size, kPoison)) {}
  char* data() { return reinterpret_cast<char*>(words_.data()) + kGuard; }
  std::string bytes() { return std::string(data(), size_); }
  bool Whole() {
    const char* begin = reinterpret_cast<const char*>(words_.data());
    const char* end = begin + words_.size() * 8;
    for (const char* p = begin; p < end; ++p) {
      if ((p < data() || p >= data() + size_) && *p != kPoison) return false;
    }
    return true;
  }

 private:
  size_t size_;
  std::vector<uint64_t> words_;
};

// One kernel's body, inputs, expected outputs and launches.
class Launches {
 public:
  explicit Launches(const HostKernel& kernel) : Launches(kernel, kernel.m) {}
  Launches(const HostKernel& kernel, int64_t m) : kernel_(kernel), m_(m) {}

  // Inputs, but nothing that outputs are judged by.
  void Read() {
    ByteReader reader(absl::string_view(kernel_.spec, kernel_.spec_bytes));
    spec_ = Got(ReadStitch(reader));
    case_ = {kernel_.name, "", spec_.body, m_};
    inputs_ = Got(RandomInputs(spec_.body, m_, 5));
  }

  void Prepare() {
    Read();
    if (::testing::Test::HasFatalFailure()) return;
    expected_ = Got(bench::GraphExpected::Make(case_, inputs_, 5));
  }

  bool HasAliases() const {
    for (const ChainOutput& out : spec_.body.outputs()) {
      if (out.alias_input >= 0) return true;
    }
    return false;
  }

  // Threads in an order of `seed`; `in_place`: outputs that may share an input's buffer do. The
  // outputs.
  std::vector<std::string> Run(uint64_t seed, bool in_place = false) {
    std::vector<Guarded> tensors;
    const Chain& body = spec_.body;
    for (const std::string& input : inputs_) tensors.emplace_back(input);
    for (int i = 0; i < body.num_outputs(); ++i) {
      tensors.emplace_back(static_cast<size_t>(*OutputBytes(body, i, m_)));
    }
    tensors.emplace_back(spec_.parts.empty()
                             ? static_cast<size_t>(*StitchScratchBytes(body, spec_.schedule))
                             : size_t{0});
    std::vector<void*> pointers;
    for (Guarded& tensor : tensors) pointers.push_back(tensor.data());
    std::vector<size_t> tensor_of;  // by output
    for (int i = 0; i < body.num_outputs(); ++i) {
      const int shared = in_place ? body.outputs()[static_cast<size_t>(i)].alias_input : -1;
      const size_t own = inputs_.size() + static_cast<size_t>(i);
      tensor_of.push_back(shared >= 0 ? static_cast<size_t>(shared) : own);
      pointers[own] = pointers[tensor_of.back()];
    }
    unsigned long long barrier = 0;
    pointers.push_back(&barrier);
    const StitchSchedule& s = spec_.schedule;
    GridSimulator grid(
        {s.grid, s.block_threads, s.cluster, static_cast<size_t>(kernel_.shared_bytes)}, seed);
    EXPECT_EQ(grid.Run([&] { kernel_.run(pointers.data(), static_cast<int>(m_)); }), "");
    EXPECT_EQ(static_cast<uint32_t>(barrier) % 0x80000000u, 0u) << "blocks that have arrived";
    for (size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_TRUE(tensors[i].Whole()) << "written beside tensor " << i;
      EXPECT_TRUE(in_place || i >= inputs_.size() || tensors[i].bytes() == inputs_[i]) << i;
    }
    std::vector<std::string> outputs;
    for (size_t tensor : tensor_of) outputs.push_back(tensors[tensor].bytes());
    return outputs;
  }

  absl::Status Judge(const std::vector<std::string>& outputs) const {
    return expected_.Judge(case_, outputs).status();
  }
  const StitchSpec& spec() const { return spec_; }
  // Whether threads exchange values through memory, so that their order could matter.
  bool Exchanges() const {
    const bool scratch = spec_.parts.empty() && *StitchScratchBytes(spec_.body, spec_.schedule) > 0;
    return scratch || kernel_.shared_bytes > 0;
  }

  // The results of the reference.
  std::vector<std::string> Reference() const {
    const Chain& body = spec_.body;
    std::vector<const void*> inputs;
    for (const std::string& input : inputs_) inputs.push_back(input.data());
    std::vector<std::string> outputs;
    std::vector<void*> to;
    for (int i = 0; i < body.num_outputs(); ++i) {
      outputs.emplace_back(static_cast<size_t>(*OutputBytes(body, i, m_)), kPoison);
    }
    for (std::string& output : outputs) to.push_back(output.data());
    EXPECT_OK(RunReference(body, m_, inputs, to));
    return outputs;
  }

 private:
  const HostKernel& kernel_;
  const int64_t m_;
  StitchSpec spec_;
  bench::GraphCase case_;
  bench::GraphExpected expected_;
  std::vector<std::string> inputs_;
};

class StitchKernels : public ::testing::TestWithParam<int> {};

TEST_P(StitchKernels, AreRightInAnyOrderOfThreads) {
  const HostKernel& kernel = kHostKernels[GetParam()];
  Launches launches(kernel);
  launches.Prepare();
  if (HasFatalFailure()) return;
  SCOPED_TRACE(std::string(kernel.name) + ": " + launches.spec().schedule.ToString());
  const std::vector<std::string> first = launches.Run(1);
  EXPECT_TRUE(launches.Judge(first).ok()) << launches.Judge(first);
  if (launches.Exchanges()) {
    EXPECT_TRUE(launches.Run(2) == first) << "another order gives other bytes";
  }
  if (!launches.HasAliases()) return;
  for (uint64_t seed : {3, 4}) {
    EXPECT_TRUE(launches.Run(seed, true) == first) << "in place the bytes differ, seed " << seed;
  }
}

// `bytes` of f32 or s32 as numbers, of other types as bytes.
std::vector<double> ValuesOf(DType dtype, const std::string& bytes) {
  std::vector<double> values;
  const auto size = static_cast<size_t>(SizeOf(dtype));
  for (size_t at = 0; at + size <= bytes.size(); at += size) {
    float number = 0;
    int32_t whole = 0;
    uint16_t half = 0;
    std::memcpy(&number, &bytes[at], std::min(size, sizeof number));
    std::memcpy(&whole, &bytes[at], std::min(size, sizeof whole));
    std::memcpy(&half, &bytes[at], std::min(size, sizeof half));
    values.push_back(dtype == DType::kF32    ? number
                     : dtype == DType::kBF16 ? BF16ToF32(half)
                     : dtype == DType::kF16  ? F16ToF32(half)
                                             : whole);
  }
  return values;
}

TEST_P(StitchKernels, WriteOutputsWithoutMWhereThereAreNoRows) {
  Launches launches(kHostKernels[GetParam()], 0);
  launches.Read();
  if (HasFatalFailure()) return;
  const Chain& body = launches.spec().body;
  if (!body.UsesM()) return;
  const std::vector<std::string> outputs = launches.Run(1), expected = launches.Reference();
  for (int i = 0; i < body.num_outputs(); ++i) {
    const DType dtype = body.output_type(i).dtype;
    const std::vector<double> is = ValuesOf(dtype, outputs[static_cast<size_t>(i)]);
    const std::vector<double> must = ValuesOf(dtype, expected[static_cast<size_t>(i)]);
    ASSERT_EQ(is.size(), must.size());
    for (size_t e = 0; e < is.size(); ++e) {
      if (std::isnan(must[e])) {
        EXPECT_TRUE(std::isnan(is[e])) << "output " << i << " at " << e << " is " << is[e];
      } else if (is[e] != must[e]) {
        EXPECT_NEAR(is[e], must[e], 0.01 * std::abs(must[e]) + 1e-6) << "output " << i;
      }
    }
  }
}

std::string CaseName(const ::testing::TestParamInfo<int>& info) {
  std::string name = std::to_string(info.param) + "_" + kHostKernels[info.param].name;
  for (char& c : name) c = absl::ascii_isalnum(c) ? c : '_';
  return name;
}

std::vector<int> KernelsOfThisRun() {
  const char* value = std::getenv("SINTER_TEST_LONG");
  const bool all = value != nullptr && std::string(value) == "1";
  std::vector<int> kernels;
  bool other = false;
  for (int i = 0; i < kHostKernelCount; ++i) {
    const std::string name = kHostKernels[i].name;
    const bool random = name.rfind("random", 0) == 0 || name.rfind("any", 0) == 0;
    other = random && !other;
    if (all || !other) kernels.push_back(i);
  }
  return kernels;
}

INSTANTIATE_TEST_SUITE_P(Generated, StitchKernels, ::testing::ValuesIn(KernelsOfThisRun()),
                         CaseName);

TEST(RunningSums, HaveOneOrderForAnyNumberOfThreadsAndRows) {
  std::map<std::string, std::string> rows;  // the first row of sums, by schedule and rows
  for (int i = 0; i < kHostKernelCount; ++i) {
    const HostKernel& kernel = kHostKernels[i];
    if (std::string(kernel.name).rfind("running sums", 0) != 0) continue;
    for (const int64_t m : {int64_t{1}, kernel.m}) {
      Launches launches(kernel, m);
      launches.Read();
      ASSERT_FALSE(HasFatalFailure());
      const std::string by = std::to_string(m) + " rows, " + launches.spec().schedule.ToString();
      const std::string sums = launches.Run(1).front();
      rows[by] = sums.substr(0, sums.size() / static_cast<size_t>(m));
    }
  }
  ASSERT_GE(rows.size(), 6u);
  for (const auto& [by, sums] : rows) {
    std::printf("%s\n", by.c_str());
    EXPECT_TRUE(sums == rows.begin()->second) << by << " and " << rows.begin()->first << " differ";
  }
}

TEST(StitchKernelCases, AreOfEveryKind) {
  std::map<std::string, int> kinds;
  for (const int i : KernelsOfThisRun()) {
    ByteReader reader(absl::string_view(kHostKernels[i].spec, kHostKernels[i].spec_bytes));
    const auto spec = Got(ReadStitch(reader));
    for (const std::string& kind : KindsOf(spec.body, spec.schedule)) ++kinds[kind];
  }
  for (const char* kind :
       {"flat", "thread", "lanes", "warp", "warps", "block", "cluster", "inputs", "values", "alike",
        "phases", "split", "hold", "segments", "join all", "hand", "staged", "tiles"}) {
    std::printf("%s %d\n", kind, kinds[kind]);
    EXPECT_GT(kinds[kind], 0) << kind;
  }
}

}  // namespace
}  // namespace sinter::stitch_host
