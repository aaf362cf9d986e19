// Measuring graphs with a device that is host memory and plans that run the reference.
#include "tests/bench/measure_graph.h"

#include "src/explain/explain.h"
#include "src/reference/reference.h"
#include "tests/bench/graph_data.h"
#include "tests/support/read_chain.h"
#include "tests/support/test.h"

namespace sinter::bench {
namespace {

class HostMeasurer : public Measurer {
 public:
  absl::StatusOr<DeviceBuffer> Allocate(uint64_t bytes) override {
    auto memory = std::make_unique<char[]>(bytes);
    const auto ptr = reinterpret_cast<DevicePtr>(memory.get());
    memory_[ptr] = std::move(memory);
    return DeviceBuffer{ptr, bytes};
  }
  void Free(DeviceBuffer buffer) override { memory_.erase(buffer.ptr); }
  absl::Status Upload(DeviceBuffer to, const void* from, uint64_t bytes) override {
    std::memcpy(reinterpret_cast<void*>(to.ptr), from, bytes);
    return absl::OkStatus();
  }
  absl::Status Download(void* to, DeviceBuffer from, uint64_t bytes) override {
    std::memcpy(to, reinterpret_cast<const void*>(from.ptr), bytes);
    return absl::OkStatus();
  }
  absl::Status Fill(DeviceBuffer buffer, uint8_t byte) override {
    std::memset(reinterpret_cast<void*>(buffer.ptr), byte, buffer.bytes);
    return absl::OkStatus();
  }
  // 10 us for each kernel of the call.
  absl::StatusOr<double> TimeGraph(const GraphCalls& of, int calls, int) override {
    launches = 0;
    for (int i = 0; i < calls; ++i) {
      if (absl::Status status = of.enqueue(nullptr, i); !status.ok()) return status;
    }
    timed_calls = calls;
    return 10.0 * launches / calls;
  }
  absl::Status RunAndWait(const std::function<absl::Status(StreamHandle)>& enqueue) override {
    return enqueue(nullptr);
  }

  int launches = 0, timed_calls = 0;

 private:
  std::map<DevicePtr, std::unique_ptr<char[]>> memory_;
};

struct HostBinding : PlanBinding {
  std::vector<DevicePtr> buffers;
};

// A plan of so many kernels that computes the chain with the reference.
class HostPlan : public PreparedPlan {
 public:
  HostPlan(const Chain& chain, HostMeasurer* measurer, const std::string& name, int kernels)
      : chain_(chain), measurer_(measurer) {
    plan_.fused = name != "unfused";
    plan_.kernels.resize(kernels);
    for (PlannedKernel& kernel : plan_.kernels) kernel.prediction.total_us = 7;
  }
  const Plan& plan() const override { return plan_; }
  PlanUse Use() const override { return {}; }
  std::string Explain() const override { return ""; }
  std::string Summary() const override { return ""; }
  Explanation Explained() const override { return {}; }
  std::string Svg() const override { return ""; }
  std::string SourceOf(int) const override { return ""; }
  int64_t MostRows() const override { return kMaxExtent; }
  uint64_t WorkspaceBytes() const override { return 0; }
  absl::Status InitWorkspace(DevicePtr, uint64_t, StreamHandle) const override {
    return absl::OkStatus();
  }
  absl::StatusOr<std::shared_ptr<const PlanBinding>> Bind(const std::vector<DevicePtr>& buffers,
                                                          DevicePtr, bool) const override {
    auto binding = std::make_shared<HostBinding>();
    binding->buffers = buffers;
    return binding;
  }
  absl::Status Launch(const PlanBinding& binding, StreamHandle, int64_t m, bool) const override {
    measurer_->launches += static_cast<int>(plan_.kernels.size());
    const std::vector<DevicePtr>& buffers = static_cast<const HostBinding&>(binding).buffers;
    std::vector<const void*> inputs(chain_.num_inputs());
    std::vector<void*> outputs;
    for (int i = 0; i < chain_.num_inputs(); ++i) {
      inputs[i] = reinterpret_cast<const void*>(buffers[chain_.InputOrder()[i]]);
    }
    for (size_t i = inputs.size(); i < buffers.size(); ++i) {
      outputs.push_back(reinterpret_cast<void*>(buffers[i]));
    }
    const absl::Status status = RunReference(chain_, m, inputs, outputs);
    if (wrong) static_cast<char*>(outputs[0])[3] ^= 0x40;
    if (wrong_in_place && outputs[0] == inputs[0]) static_cast<char*>(outputs[0])[3] ^= 0x40;
    return status;
  }

  bool wrong = false, wrong_in_place = false;

  absl::StatusOr<PlanNodes> AddToGraph(const PlanBinding&, GraphHandle, NodeEdges,
                                       int64_t) const override {
    return absl::UnimplementedError("no graphs here");
  }
  absl::Status UpdateInGraph(const PlanNodes&, GraphExecHandle, const PlanBinding&,
                             int64_t) const override {
    return absl::UnimplementedError("no graphs here");
  }

 private:
  const Chain& chain_;
  HostMeasurer* const measurer_;
  Plan plan_;
};

// s' = s + x in place, y = bf16(exp(x)).
GraphCase StateCase() {
  return GraphCase{
      .id = "state",
      .chain = ReadChain(
          "x: bf16[4,8]; s: f32[4,8]; wide = f32(x); out s + wide over s; out bf16(exp(wide))")};
}

class MeasureGraphTest : public ::testing::Test {
 protected:
  std::shared_ptr<HostPlan> Plan(const char* name, int kernels) {
    return std::make_shared<HostPlan>(case_.chain, &measurer_, name, kernels);
  }
  using PlanOr = absl::StatusOr<std::shared_ptr<const PreparedPlan>>;
  static PreparedGraph Prepared(PlanOr best, PlanOr unfused,
                                PlanOr untuned = absl::NotFoundError("no set")) {
    return {std::move(best), std::move(unfused), std::move(untuned), 0, 0};
  }
  GraphRow Measure(const PreparedGraph& prepared) {
    return MeasureGraph(&measurer_, *BuiltinModel("h200"), case_, prepared, {.seeds = 2}, nullptr);
  }

  HostMeasurer measurer_;
  GraphCase case_ = StateCase();
};

TEST_F(MeasureGraphTest, ChosenAndUnfusedAreCheckedAndTimedCold) {
  const GraphRow row = Measure(Prepared(Plan("stitched", 1), Plan("unfused", 3)));
  EXPECT_TRUE(row.correct) << (row.notes.empty() ? "" : row.notes[0]);
  EXPECT_EQ(row.chosen, "fused");
  EXPECT_EQ(row.checked, "reference");
  EXPECT_EQ(row.chosen_us, 10);
  EXPECT_EQ(row.unfused_us, 30);
  EXPECT_EQ(row.kernels, 1);
  EXPECT_EQ(row.unfused_kernels, 3);
  EXPECT_EQ(row.predicted_us, 7);
  EXPECT_EQ(row.ops, 4);
  EXPECT_TRUE(row.host_us.has_value());
  EXPECT_LT(row.rel_error.value_or(1), 1e-6);
  EXPECT_EQ(row.limit_us, case_.LimitUs(*BuiltinModel("h200")));
  EXPECT_EQ(measurer_.timed_calls, GraphSets(case_, 3));
}

TEST_F(MeasureGraphTest, ThePredictedChoiceIsMeasuredBesideATunedOne) {
  const GraphRow row =
      Measure(Prepared(Plan("stitched", 1), Plan("unfused", 3), Plan("predicted", 2)));
  EXPECT_EQ(row.chosen_us, 10);
  EXPECT_EQ(row.untuned_us, 20);
  EXPECT_EQ(row.kernels, 1);
  const auto both = Plan("stitched", 1);
  EXPECT_EQ(Measure(Prepared(both, Plan("unfused", 3), both)).untuned_us, 10);
}

TEST_F(MeasureGraphTest, OnePlanThatIsBothIsMeasuredOnce) {
  const auto plan = Plan("unfused", 2);
  const GraphRow row = Measure(Prepared(plan, plan));
  EXPECT_TRUE(row.correct);
  EXPECT_EQ(row.chosen_us, 20);
  EXPECT_EQ(row.unfused_us, 20);
}

TEST_F(MeasureGraphTest, AWrongOutputIsNotTimed) {
  auto bad = Plan("stitched", 1);
  bad->wrong = true;
  const GraphRow row = Measure(Prepared(bad, Plan("unfused", 3)));
  EXPECT_FALSE(row.correct);
  EXPECT_FALSE(row.chosen_us.has_value());
  EXPECT_EQ(row.unfused_us, 30);
  ASSERT_FALSE(row.notes.empty());
  EXPECT_EQ(row.notes[0].rfind("chosen, seed 1: output 0, f32[4,8]: ", 0), 0u) << row.notes[0];
}

TEST_F(MeasureGraphTest, WhatIsWrongOnlyInPlaceIsFound) {
  auto bad = Plan("stitched", 1);
  bad->wrong_in_place = true;
  const GraphRow row = Measure(Prepared(bad, Plan("unfused", 3)));
  EXPECT_FALSE(row.correct);
  ASSERT_FALSE(row.notes.empty());
  EXPECT_NE(row.notes[0].find("in place"), std::string::npos) << row.notes[0];
}

TEST_F(MeasureGraphTest, APlanThatIsMissingIsToldAndTheOtherMeasured) {
  const GraphRow row = Measure(
      Prepared(absl::FailedPreconditionError("op 3 (exp) is in no family"), Plan("unfused", 3)));
  EXPECT_FALSE(row.correct);
  EXPECT_EQ(row.notes, std::vector<std::string>{"chosen: op 3 (exp) is in no family"});
  EXPECT_EQ(row.unfused_us, 30);
  const absl::Status none = absl::FailedPreconditionError("none");
  EXPECT_EQ(Measure(Prepared(none, none)).notes.size(), 2u);
}

TEST_F(MeasureGraphTest, SetsRotateOver240MBWithinWhatAGraphHolds) {
  GraphCase large{.chain = ReadChain("x: f32[1000000]; out exp(x)")};
  EXPECT_EQ(GraphSets(large, 1), kRotationBytes / 8000000 + 1);
  EXPECT_EQ(GraphSets(case_, 1), 16384);
  EXPECT_EQ(GraphSets(case_, 1000), 65);
  EXPECT_EQ(GraphSets(case_, 1 << 20), 2);
}

}  // namespace
}  // namespace sinter::bench
