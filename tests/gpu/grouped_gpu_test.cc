// Grouped products, and the gated FFN of a mixture of experts, on any routing: all, one or no
// expert, ids outside, equal ids, counts around the borders of tiles; NaN stays in its row; one
// plan and one captured graph serve every routing.
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/chain/problem.h"
#include "src/engine/device_arena.h"
#include "src/engine/trial_data.h"
#include "src/reference/compare.h"
#include "src/reference/reference.h"
#include "tests/gpu/gpu_fixture.h"
#include "tests/gpu/stream_fixture.h"

namespace sinter::gpu_testing::grouped {
namespace {

constexpr uint8_t kPoison = 0xff;
constexpr uint64_t kGuard = 4096;

using Ids = std::vector<int32_t>;

struct Routing {
  const char* name;
  // Of slot i of `slots`, `top` a row, among `experts`.
  int32_t (*id)(int64_t i, int64_t top, int32_t experts, uint32_t random);
};

const Routing kRoutings[] = {
    {"uniform",
     [](int64_t, int64_t, int32_t e, uint32_t r) { return static_cast<int32_t>(r % e); }},
    {"one expert", [](int64_t, int64_t, int32_t e, uint32_t) { return 1 % e; }},
    {"last expert", [](int64_t, int64_t, int32_t e, uint32_t) { return e - 1; }},
    {"in turn",
     [](int64_t i, int64_t, int32_t e, uint32_t) { return static_cast<int32_t>(i % e); }},
    {"none", [](int64_t, int64_t, int32_t, uint32_t) { return -1; }},
    {"some", [](int64_t, int64_t, int32_t e,
                uint32_t r) { return r % 3 == 0 ? -1 : static_cast<int32_t>(r / 3 % e); }},
    {"equal in a row", [](int64_t i, int64_t top, int32_t e,
                          uint32_t) { return static_cast<int32_t>(i / top * 7 % e); }},
    {"outside",
     [](int64_t, int64_t, int32_t e, uint32_t r) {
       const int32_t ids[] = {
           e,    std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max(), -7, 0,
           e - 1};
       return ids[r % 6];
     }},
    {"skewed", [](int64_t, int64_t, int32_t e,
                  uint32_t r) { return r % 4 != 0 ? 0 : static_cast<int32_t>(r / 4 % e); }},
};

// A chain of the text form whose input "ids" the tests write.
class Routed {
 public:
  Routed(const Ports& ports, const std::string& line, int64_t rows)
      : measurer_(ports.measurer.get()), arena_(ports.measurer.get()), rows_(rows) {
    absl::StatusOr<Problem> problem = ParseProblem(line);
    EXPECT_OK(problem) << line;
    chain_ = std::make_unique<Chain>(problem->chain);
  }

  const Chain& chain() const { return *chain_; }

  void Make(Engine* engine, const PrepareOptions& options = {}) {
    const auto plan = engine->Prepare(*chain_, rows_, options);
    ASSERT_OK(plan);
    plan_ = *plan;
    const auto inputs = RandomInputs(*chain_, rows_, 11);
    ASSERT_OK(inputs);
    inputs_ = *inputs;
    std::vector<DevicePtr> caller(inputs_.size());
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const auto buffer = arena_.Allocate(std::max<size_t>(16, inputs_[i].size()));
      ASSERT_OK(buffer);
      ASSERT_OK(measurer_->Upload(*buffer, inputs_[i].data(), inputs_[i].size()));
      buffers_.push_back(*buffer);
      caller[static_cast<size_t>(chain_->InputOrder()[i])] = buffer->ptr;
    }
    const auto bytes = OutputBytes(*chain_, 0, rows_);
    ASSERT_OK(bytes);
    const auto out = arena_.Allocate(static_cast<uint64_t>(*bytes) + kGuard);
    ASSERT_OK(out);
    out_ = *out;
    caller.push_back(out_.ptr);
    if (plan_->WorkspaceBytes() > 0) {
      const auto workspace = arena_.Allocate(plan_->WorkspaceBytes());
      ASSERT_OK(workspace);
      workspace_ = *workspace;
      ASSERT_OK(measurer_->Fill(workspace_, kPoison));
      ASSERT_OK(measurer_->RunAndWait([&](StreamHandle stream) {
        return plan_->InitWorkspace(workspace_.ptr, workspace_.bytes, stream);
      }));
    }
    const auto binding = plan_->Bind(caller, workspace_.ptr);
    ASSERT_OK(binding);
    binding_ = *binding;
  }

  // The canonical input of that name.
  size_t InputOf(const std::string& name) const {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (chain_->InputName(chain_->InputOrder()[i]) == name) return i;
    }
    ADD_FAILURE() << "no input " << name;
    return 0;
  }

  void Write(const std::string& name, const std::string& bytes) {
    const size_t input = InputOf(name);
    std::memcpy(&inputs_[input][0], bytes.data(), bytes.size());
    ASSERT_OK(measurer_->Upload(buffers_[input], inputs_[input].data(), inputs_[input].size()));
  }
  std::string& input(const std::string& name) { return inputs_[InputOf(name)]; }
  void Route(const Ids& ids) {
    Write("ids",
          std::string(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(int32_t)));
  }

  absl::Status Launch(StreamHandle stream, int64_t m) {
    return plan_->Launch(*binding_, stream, m, false);
  }
  absl::Status Poison() {
    if (workspace_.bytes > kWorkspaceFlagBytes) {
      SINTER_RETURN_IF_ERROR(measurer_->Fill(
          {workspace_.ptr + kWorkspaceFlagBytes, workspace_.bytes - kWorkspaceFlagBytes}, kPoison));
    }
    return measurer_->Fill(out_, kPoison);
  }
  absl::StatusOr<std::string> Download() {
    std::string bytes(out_.bytes, '\0');
    SINTER_RETURN_IF_ERROR(measurer_->Download(&bytes[0], out_, bytes.size()));
    return bytes;
  }
  absl::StatusOr<std::string> Run(int64_t m) {
    SINTER_RETURN_IF_ERROR(Poison());
    SINTER_RETURN_IF_ERROR(
        measurer_->RunAndWait([&](StreamHandle stream) { return Launch(stream, m); }));
    return Download();
  }

  std::vector<double> Reference(int64_t m) const {
    std::vector<const void*> inputs;
    for (const std::string& bytes : inputs_) inputs.push_back(bytes.data());
    const auto outputs = RunReferenceF64(*chain_, m, inputs);
    EXPECT_OK(outputs);
    return outputs.ok() ? (*outputs)[0] : std::vector<double>();
  }

  void Expect(int64_t m, const std::string& what) {
    const auto output = Run(m);
    ASSERT_OK(output) << what;
    ExpectOutput(*output, m, what);
  }
  void ExpectOutput(const std::string& output, int64_t m, const std::string& what) {
    const auto got = OutputValues(*chain_, 0, m, output);
    ASSERT_OK(got);
    const std::vector<double> want = Reference(m);
    ASSERT_EQ(got->size(), want.size());
    const ErrorMeasure errors = Compare(*got, want, chain_->output_type(0).dtype);
    EXPECT_TRUE(errors.Within(BoundsOf(*chain_, 0)))
        << what << " m " << m << ": " << errors.ToString() << "\n"
        << plan_->plan().ToText();
    const auto used = static_cast<size_t>(*OutputBytes(*chain_, 0, m));
    for (size_t i = m == 0 ? 0 : used; i < output.size(); ++i) {
      ASSERT_EQ(static_cast<uint8_t>(output[i]), kPoison)
          << what << ": byte " << i << " behind row " << m;
    }
  }
  const Plan& plan() const { return plan_->plan(); }

 private:
  Measurer* const measurer_;
  DeviceArena arena_;
  const int64_t rows_;
  std::unique_ptr<Chain> chain_;
  PreparedPlanPtr plan_;
  std::vector<std::string> inputs_;  // canonical
  std::vector<DeviceBuffer> buffers_;
  DeviceBuffer out_, workspace_;
  std::shared_ptr<const PlanBinding> binding_;
};

Ids RoutedTo(const Routing& routing, int64_t rows, int64_t top, int32_t experts, uint32_t seed) {
  std::mt19937 random(seed);
  Ids ids;
  for (int64_t i = 0; i < rows * top; ++i)
    ids.push_back(routing.id(i, top, experts, static_cast<uint32_t>(random())));
  return ids;
}

class Grouped : public StreamTest {
 protected:
  void Sweep(const std::string& line, int64_t rows, int64_t top, int32_t experts,
             const std::vector<int64_t>& ms) {
    SCOPED_TRACE(line);
    Routed data(ports(), line, rows);
    data.Make(engine());
    if (HasFatalFailure()) return;
    for (const Routing& routing : kRoutings) {
      data.Route(RoutedTo(routing, rows, top, experts, 3));
      for (const int64_t m : ms) data.Expect(m, routing.name);
    }
  }
};

TEST_F(Grouped, ProductsEqualTheReferenceOnEveryRouting) {
  for (const char* types :
       {"dtype=bf16", "dtype=f16", "dtype=bf16 layout=io", "dtype=f32", "dtype=f32 layout=io"}) {
    Sweep(absl::StrCat("grouped_matmul m=M experts=8 top=2 n=136 k=200 ", types), 70, 2, 8,
          {0, 1, 7, 64, 70});
    Sweep(absl::StrCat("grouped_matmul m=M experts=3 top=1 n=37 k=64 ", types), 130, 1, 3,
          {1, 129, 130});
  }
  Sweep("grouped_matmul m=M experts=1 top=1 n=64 k=64", 65, 1, 1, {1, 63, 64, 65});
  Sweep("grouped_matmul m=M experts=1024 top=32 n=64 k=64", 33, 32, 1024, {1, 33});
  Sweep("grouped_matmul m=M experts=300 top=6 n=96 k=8", 300, 6, 300, {1, 299, 300});
}

TEST_F(Grouped, GatedFfnsEqualTheReferenceOnEveryRouting) {
  for (const char* form :
       {"act=silu", "act=gelu_tanh order=up_gate", "act=gelu_erf layout=io dtype=f16",
        "act=relu n=96", "act=identity", "act=silu dtype=f32"}) {
    const std::string text(form);
    const std::string n = text.find("n=96") == text.npos ? " n=192" : "";
    Sweep(absl::StrCat("grouped_gated_ffn m=M experts=16 top=4 k=256 l=264 ", n, " ", form), 40, 4,
          16, {0, 1, 3, 17, 40});
  }
}

// Plans of small, middle and large buckets, each with every M from 1 on for a uniform routing.
TEST_F(Grouped, EveryMToOneHundredAndThirty) {
  Routed data(ports(), "grouped_gated_ffn m=M experts=16 top=4 n=128 k=128 l=128 act=silu", 130);
  data.Make(engine());
  if (HasFatalFailure()) return;
  data.Route(RoutedTo(kRoutings[0], 130, 4, 16, 5));
  for (int64_t m = 1; m <= 130; ++m) data.Expect(m, "uniform");
}

TEST_F(Grouped, CountsAroundTheBordersOfTiles) {
  constexpr int64_t kRows = 400;
  for (const int64_t bucket : {kRows, int64_t{16}}) {
    Routed data(ports(), "grouped_matmul m=M experts=4 top=1 n=128 k=128", bucket);
    data.Make(engine());
    if (HasFatalFailure()) return;
    for (const int64_t first : {0, 1, 15, 16, 63, 64, 65, 127, 128, 129, 255, 256, 257}) {
      if (first > bucket) continue;
      Ids ids;
      for (int64_t i = 0; i < bucket; ++i) ids.push_back(i < first ? 2 : i % 2 == 0 ? 0 : 3);
      data.Route(ids);
      data.Expect(bucket, absl::StrCat(first, " rows of expert 2"));
    }
  }
}

TEST_F(Grouped, NaNStaysInItsRowAndUntouchedExpertsAreNotRead) {
  constexpr int64_t kRows = 48, kTop = 2;
  Routed data(ports(), "grouped_gated_ffn m=M experts=8 top=2 n=128 k=128 l=128 act=silu", kRows);
  data.Make(engine());
  if (HasFatalFailure()) return;
  Ids ids;
  for (int64_t i = 0; i < kRows * kTop; ++i)
    ids.push_back(static_cast<int32_t>(i % 7));  // 7 is untouched
  data.Route(ids);
  const uint16_t nan = 0x7fc0;
  std::string x = data.input("x"), w1 = data.input("w1"), w2 = data.input("w2");
  for (int64_t k = 0; k < 128; ++k)
    std::memcpy(&x[static_cast<size_t>((5 * 128 + k) * 2)], &nan, 2);
  for (size_t i = w1.size() / 8 * 7; i < w1.size(); i += 2) std::memcpy(&w1[i], &nan, 2);
  for (size_t i = w2.size() / 8 * 7; i < w2.size(); i += 2) std::memcpy(&w2[i], &nan, 2);
  data.Write("x", x);
  data.Write("w1", w1);
  data.Write("w2", w2);
  const auto output = data.Run(kRows);
  ASSERT_OK(output);
  const auto got = OutputValues(data.chain(), 0, kRows, *output);
  ASSERT_OK(got);
  for (size_t i = 0; i < got->size(); ++i) ASSERT_EQ(std::isnan((*got)[i]), i / 128 == 5) << i;
}

TEST_F(Grouped, AHundredRunsGiveTheSameBits) {
  Routed data(ports(), "grouped_gated_ffn m=M experts=32 top=8 n=128 k=256 l=256 act=silu", 200);
  data.Make(engine());
  if (HasFatalFailure()) return;
  data.Route(RoutedTo(kRoutings[0], 200, 8, 32, 5));
  std::string first;
  for (int run = 0; run < 100; ++run) {
    const auto output = data.Run(200);
    ASSERT_OK(output);
    if (run == 0) {
      first = *output;
      data.ExpectOutput(first, 200, "first run");
    }
    ASSERT_TRUE(*output == first) << "run " << run;
  }
}

TEST_F(Grouped, OneCapturedGraphReplaysAnyRouting) {
  constexpr int64_t kRows = 96;
  Routed data(ports(), "grouped_gated_ffn m=M experts=16 top=4 n=128 k=128 l=128 act=silu", kRows);
  data.Make(engine());
  if (HasFatalFailure()) return;
  const auto stream = MakeStream(device_);
  ASSERT_OK(stream);
  ASSERT_OK(BeginCapture(*stream));
  ASSERT_OK(data.Launch(stream->get(), kRows));
  const auto graph = EndCapture(*stream);
  ASSERT_OK(graph);
  const auto exec = Instantiate(device_, *graph);
  ASSERT_OK(exec);
  for (const Routing& routing : kRoutings) {
    data.Route(RoutedTo(routing, kRows, 4, 16, 9));
    ASSERT_OK(data.Poison());
    ASSERT_OK(Replay(*exec, *stream));
    const auto output = data.Download();
    ASSERT_OK(output);
    data.ExpectOutput(*output, kRows, routing.name);
  }
}

// More rows than the largest bucket takes in one pass are cut.
TEST_F(Grouped, LongLaunchesAreCut) {
  constexpr int64_t kRows = 20000;
  Sweep("grouped_matmul m=M experts=8 top=8 n=16 k=16", kRows, 8, 8, {kRows});
}

TEST_F(Grouped, ManyRowsOfAWideModel) {
  Sweep("grouped_gated_ffn m=M experts=128 top=8 n=192 k=512 l=512 act=silu", 600, 8, 128, {600});
}

}  // namespace
}  // namespace sinter::gpu_testing::grouped
