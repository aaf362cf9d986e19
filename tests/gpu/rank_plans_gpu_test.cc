// Plans of chains over several GPUs, as ranks of one process launch them: many calls with changing
// M while one rank comes late, passes over small slots, and graphs. In the program of
// all_reduce_gpu_test.cc.
#include "src/engine/rank_group.h"
#include "tests/gpu/gpu_tests.h"
#include "tests/gpu/several_gpus.h"
#include "tests/support/read_chain.h"

namespace sinter::gpu_testing::rank_plans {
namespace {

// A rank's rows of h are normed, gathered, multiplied and scattered again, as layers of sequence
// parallelism do; then columns are gathered and all is summed. Exact where numbers are.
Chain Layer() {
  constexpr int64_t kK = 256, kN = 128;
  return ReadChain(
      "x: bf16[M,$0]; w: const bf16[$1,$0]; rows = all_gather(reshape(x, [1,M,$0]), 0, $2); "
      "product = bf16(rows @ w.T); part = reshape(reduce_scatter(product, 0, $2), [M,$1]); wide = "
      "all_gather(part, 1, $2); out all_reduce(wide, $2), reduce_scatter(wide, 1, $2)",
      kK, kN, Ranks());
}

// A rank's engine, its plan and its buffers of up to `rows` rows. Inputs are small integers, of
// which sums are exact.
class Rank {
 public:
  static absl::StatusOr<std::unique_ptr<Rank>> Make(const Chain& chain, int ordinal, int64_t rows,
                                                    int64_t bucket) {
    auto rank = std::unique_ptr<Rank>(new Rank(chain));
    SINTER_ASSIGN_OR_RETURN(Ports ports, MakePorts(TestConfig(), ordinal, "", StderrLog()));
    SINTER_ASSIGN_OR_RETURN(rank->own_, MakePorts(TestConfig(), ordinal, "", StderrLog()));
    rank->engine_ = Engine::Create(std::move(ports), TestConfig(), StderrLog());
    SINTER_ASSIGN_OR_RETURN(rank->plan_, rank->engine_->Prepare(chain, bucket, {}));
    Measurer& memory = rank->memory();
    uint32_t state = static_cast<uint32_t>(ordinal) * 77 + 5;
    for (int i = 0; i < chain.num_inputs() + chain.num_outputs(); ++i) {
      const bool input = i < chain.num_inputs();
      SINTER_ASSIGN_OR_RETURN(
          const int64_t bytes,
          input ? InputBytes(chain, i, rows) : OutputBytes(chain, i - chain.num_inputs(), rows));
      SINTER_ASSIGN_OR_RETURN(const DeviceBuffer buffer, memory.Allocate(bytes));
      rank->buffers_.push_back(buffer);
      if (!input) continue;
      std::vector<uint16_t> values(static_cast<size_t>(bytes) / 2);
      for (uint16_t& value : values) {
        state = state * 1664525 + 1013904223;
        constexpr uint16_t kBf16[] = {0x0000, 0x3F80, 0xBF80, 0x4000};  // 0, 1, -1, 2
        value = (state >> 20) % 8 < 5 ? 0 : kBf16[state >> 30];
      }
      SINTER_RETURN_IF_ERROR(memory.Upload(buffer, values.data(), static_cast<uint64_t>(bytes)));
      rank->inputs_.emplace_back(reinterpret_cast<const char*>(values.data()),
                                 static_cast<size_t>(bytes));
    }
    const uint64_t workspace = rank->plan_->WorkspaceBytes();
    if (workspace > 0) {
      SINTER_ASSIGN_OR_RETURN(rank->workspace_, memory.Allocate(workspace));
      SINTER_RETURN_IF_ERROR(memory.Fill(rank->workspace_, 0));
    }
    return rank;
  }
  ~Rank() {
    for (const DeviceBuffer& buffer : buffers_) memory().Free(buffer);
    if (workspace_.ptr != 0) memory().Free(workspace_);
  }

  Measurer& memory() { return *own_.measurer; }
  const std::vector<std::string>& inputs() const { return inputs_; }  // canonical

  absl::Status Bind(std::shared_ptr<RankGroup> group) {
    group_ = std::move(group);
    std::vector<DevicePtr> pointers(buffers_.size());
    for (size_t i = 0; i < buffers_.size(); ++i) {
      const size_t callers =
          i < chain_.InputOrder().size() ? static_cast<size_t>(chain_.InputOrder()[i]) : i;
      pointers[callers] = buffers_[i].ptr;
    }
    SINTER_ASSIGN_OR_RETURN(binding_, plan_->BindGroup(pointers, workspace_.ptr, group_));
    return absl::OkStatus();
  }
  absl::Status Launch(StreamHandle stream, int64_t m) const {
    return plan_->Launch(*binding_, stream, m, false);
  }
  RankGroup& group() { return *group_; }
  absl::StatusOr<std::string> Output(int i, int64_t m) {
    SINTER_ASSIGN_OR_RETURN(const int64_t bytes, OutputBytes(chain_, i, m));
    std::string out(static_cast<size_t>(bytes), '\0');
    SINTER_RETURN_IF_ERROR(memory().Download(
        &out[0], buffers_[static_cast<size_t>(chain_.num_inputs() + i)], out.size()));
    return out;
  }

 private:
  explicit Rank(const Chain& chain) : chain_(chain) {}

  const Chain chain_;
  Ports own_;  // an engine's measurer keeps no graphs
  std::shared_ptr<Engine> engine_;
  std::shared_ptr<const PreparedPlan> plan_;
  std::shared_ptr<RankGroup> group_;
  std::shared_ptr<const PlanBinding> binding_;
  std::vector<DeviceBuffer> buffers_;  // canonical
  DeviceBuffer workspace_{};
  std::vector<std::string> inputs_;
};

class RankPlans : public ::testing::Test {
 protected:
  void Make(const Chain& chain, int64_t rows, int64_t bucket, uint64_t slot_bytes = 0) {
    chain_ = chain;
    for (auto& made : ranks_) made.reset();
    ranks_.clear();
    for (int r = 0; r < Ranks(); ++r) ranks_.push_back(Got(Rank::Make(chain, r, rows, bucket)));
    const auto groups = LocalGroups({.slot_bytes = slot_bytes});
    for (size_t r = 0; r < ranks_.size(); ++r) ASSERT_OK(ranks_[r]->Bind(groups[r]));
  }

  void OnAll(const std::function<absl::Status(Rank&, int)>& work) {
    OnRanks([&](size_t r) { return work(*ranks_[r], static_cast<int>(r)); });
  }
  void LaunchOnce(int64_t m) {
    OnAll([&](Rank& rank, int) {
      return rank.memory().RunAndWait([&](StreamHandle stream) { return rank.Launch(stream, m); });
    });
  }

  // Bits of all outputs of all ranks after a launch of m rows. Inputs of `m` rows are the first of
  // those given only where M is their first axis.
  void ExpectReference(int64_t m) {
    std::vector<std::string> want;
    for (size_t r = 0; r < ranks_.size(); ++r)
      for (int i = 0; i < chain_.num_outputs(); ++i)
        want.emplace_back(static_cast<size_t>(*OutputBytes(chain_, i, m)), '\0');
    std::vector<void*> outputs;
    for (std::string& one : want) outputs.push_back(&one[0]);
    ASSERT_OK(RunReference(chain_, m, Inputs(), outputs));
    const size_t count = static_cast<size_t>(chain_.num_outputs());
    for (size_t r = 0; r < ranks_.size(); ++r) {
      EXPECT_OK(ranks_[r]->group().GetStatus(nullptr));
      for (size_t i = 0; i < count; ++i) {
        const auto got = Got(ranks_[r]->Output(static_cast<int>(i), m));
        EXPECT_TRUE(got == want[r * count + i]) << "rank " << r << ", output " << i << ", m " << m;
      }
    }
  }
  // The same of chains with one output, whose values are only near.
  void ExpectNearReference(int64_t m, const Bounds& bounds) {
    const auto want = Got(RunReferenceF64(chain_, m, Inputs()));
    const DType dtype = chain_.output_type(0).dtype;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      EXPECT_OK(ranks_[r]->group().GetStatus(nullptr));
      const ErrorMeasure error = CompareBuffer(Got(ranks_[r]->Output(0, m)).data(), dtype, want[r]);
      EXPECT_TRUE(error.Within(bounds)) << "rank " << r << ", m " << m << ": " << error.ToString();
    }
  }

  std::vector<const void*> Inputs() const {
    std::vector<const void*> inputs;
    for (const auto& rank : ranks_)
      for (const std::string& input : rank->inputs()) inputs.push_back(input.data());
    return inputs;
  }

  Chain chain_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

TEST_F(RankPlans, OfALayerGiveTheReferencesBitsForEveryM) {
  Make(Layer(), 300, 512);
  for (const int64_t m : {1, 2, 3, 16, 77, 128, 300}) {
    LaunchOnce(m);
    ExpectReference(m);
  }
  LaunchOnce(0);
}

Chain OpsAfterASum(const std::string& inputs, const char* ops) {
  return ReadChain("sum = all_reduce({bf16[M,512]}, $0); $1 out bf16($2)", Ranks(), inputs, ops);
}
constexpr char kResidual[] = "r = f32({bf16[M,512]});";
constexpr char kBias[] = "bias = spread(f32({bf16[512]}), sum);";
constexpr int64_t kFewAndMany[] = {1, 2, 77, 300};

// In the sum's kernel; leaves differ from rank to rank.
TEST_F(RankPlans, OpsAfterASumGiveTheReferencesBits) {
  const Chain chains[] = {
      OpsAfterASum(kBias, "f32(sum) + bias"),
      OpsAfterASum(absl::StrCat(kResidual, kBias), "f32(bf16(bias + f32(sum))) + r"),
      OpsAfterASum(kResidual, "r + f32(sum) * 0.25"),
      OpsAfterASum(kResidual, "r - f32(sum)"),
  };
  for (const Chain& chain : chains) {
    SCOPED_TRACE(chain.ToString());
    Make(chain, 300, 512);
    for (const int64_t m : kFewAndMany) {
      LaunchOnce(m);
      ExpectReference(m);
    }
  }
}

TEST_F(RankPlans, OpsAfterANormAreNearTheReference) {
  constexpr Bounds kBounds = {5e-3, 5e-3};
  Make(OpsAfterASum(kResidual, "r + f32(bf16(rmsnorm(sum, 1e-6, {bf16[512]})))"), 300, 512);
  for (const int64_t m : kFewAndMany) {
    LaunchOnce(m);
    ExpectNearReference(m, kBounds);
  }
}

// SINTER_GPU_RANK_CALLS calls; 100,000 unless given, or what 45 seconds hold.
TEST_F(RankPlans, TakeManyCallsOfChangingRowsWhileARankIsLate) {
  Make(Layer(), 24, 24);
  const int given = NumberOr(std::getenv("SINTER_GPU_RANK_CALLS"), 0);
  const int wanted = given > 0 ? given : 100000;
  constexpr int kCalls = 2000;
  const auto begun = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  };
  int calls = 0;
  for (int round = 0; calls < wanted && (given > 0 || seconds() < 45); ++round, calls += kCalls) {
    std::vector<int64_t> last(ranks_.size());
    OnAll([&](Rank& rank, int r) {
      uint32_t state = static_cast<uint32_t>(round) + 1;  // the same on all ranks
      int64_t& m = last[static_cast<size_t>(r)];
      if (round % (Ranks() + 1) == r)
        std::this_thread::sleep_for(std::chrono::milliseconds(round % 7));
      return rank.memory().RunAndWait([&](StreamHandle stream) {
        absl::Status status;
        for (int call = 0; call < kCalls && status.ok(); ++call) {
          state = state * 1664525 + 1013904223;
          // Sleeps after the queued work, now in one rank, then in another.
          if ((state >> 21) % 512 == static_cast<uint32_t>(r))
            std::this_thread::sleep_for(std::chrono::microseconds(state >> 22));
          m = (state >> 24) % 25;
          if (call + 1 == kCalls) m = 1 + m % 24;
          status = rank.Launch(stream, m);
        }
        return status;
      });
    });
    ASSERT_EQ(std::count(last.begin(), last.end(), last[0]), Ranks());
    if (round % 5 == 0) ExpectReference(last[0]);
    if (HasFailure()) break;
  }
  std::printf("%d ranks: %d calls of %d collectives each in %.1f s\n", Ranks(), calls, 5,
              seconds());
}

// Columns: rows are taken in passes that the slots hold, also of other rows than a multiple of 16.
TEST_F(RankPlans, OfColumnsTakeRowsInPassesThatSlotsHold) {
  for (const char* kind : {"all_gather", "reduce_scatter", "all_reduce"}) {
    const std::string line = absl::StrCat(kind, " rows=M cols=", 256 * Ranks(), " ranks=", Ranks());
    SCOPED_TRACE(line);
    Make(ParseProblem(line)->chain, 1000, 1024, static_cast<uint64_t>(Ranks()) << 15);
    for (const int64_t m : {1, 64, 65, 500, 1000}) {
      LaunchOnce(m);
      ExpectReference(m);
    }
  }
}

TEST_F(RankPlans, OfRowsTellSlotsThatAreTooSmall) {
  const Chain chain =
      ParseProblem(absl::StrCat("all_gather rows=M cols=512 ranks=", Ranks(), " along=rows"))
          ->chain;
  Make(chain, 64, 64, 64 << 10);
  LaunchOnce(64);
  ExpectReference(64);
  auto larger = Got(Rank::Make(chain, 0, 128, 128));
  const auto groups = LocalGroups({.slot_bytes = 64 << 10});
  const absl::Status refused = larger->Bind(groups[0]);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
  EXPECT_NE(refused.message().find("make the group with larger slots"), absl::string_view::npos);
}

TEST_F(RankPlans, RunInGraphsReplayedInChangingOrder) {
  Make(Layer(), 128, 128);
  constexpr int kCalls = 50;
  std::vector<std::unique_ptr<TimedGraph>> graphs[2];
  for (const auto& rank : ranks_) {
    for (int which = 0; which < 2; ++which) {
      auto made =
          rank->memory().MakeGraph({[&](StreamHandle stream, int call) {
                                     return rank->Launch(stream, which == 0 ? 128 : 1 + call);
                                   }},
                                   kCalls);
      ASSERT_OK(made);
      graphs[which].push_back(*std::move(made));
    }
  }
  OnAll([&](Rank&, int r) -> absl::Status {
    for (const int which : {0, 1, 1, 0, 1, 0}) {
      SINTER_RETURN_IF_ERROR(graphs[which][static_cast<size_t>(r)]->Replay().status());
    }
    return absl::OkStatus();
  });
  ExpectReference(128);
}

}  // namespace
}  // namespace sinter::gpu_testing::rank_plans
