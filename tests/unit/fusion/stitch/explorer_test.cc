// The explorer's parts: vertices, bodies, PatternReduction, sets of patterns, its time.
#include "src/fusion/stitch/explorer.h"

#include "src/fusion/stitch/kernel_choice.h"
#include "tests/unit/fusion/fusion_tests.h"

namespace sinter {
namespace {

// The chain, which graphs point to, is kept.
StitchGraph GraphOf(Chain made, bool contract = true, int64_t bucket = 128) {
  static std::list<Chain> kept;
  kept.push_back(std::move(made));
  return Got(StitchGraph::Make(kept.back(), bucket, {}, {.contract = contract}));
}

NodeSet SetOf(const StitchGraph& graph, const std::vector<int>& vertices) {
  return StitchPattern::Of(graph, vertices).vertices();
}

NodeSet Everything(const StitchGraph& graph) {
  NodeSet all(graph.size());
  for (int v = 0; v < graph.size(); ++v) all.Add(v);
  return all;
}

// However many slots it writes among.
TEST(StitchGraph, PartsOfAScatterAreThoseOfItsRows) {
  constexpr int64_t kRows = 125;
  for (const int64_t slots : {131072, 131071}) {
    ChainReader chain(
        "x: f32[$0,128]; ids: s32[M]; rows: f32[M,128]; sum = sum(rows, 1, keep); "
        "written = scatter(x, ids, rows * spread(sum, rows)); out written",
        slots);
    const StitchGraph graph = GraphOf(chain.Finish(), true, kRows);
    const int vertex = graph.VertexOf(chain["written"]), of_sum = graph.VertexOf(chain["sum"]);
    ASSERT_NE(vertex, of_sum);
    int reads = 0;
    for (const StitchRead& read : graph.vertex(vertex).reads) {
      if (read.tensor != graph.vertex(of_sum).tensor) continue;
      ++reads;
      EXPECT_EQ(read.units, kRows) << slots;
    }
    EXPECT_EQ(reads, 1);
  }
}

// A transpose without axes does not count as a transposed filter of the window.
TEST(StitchGraph, TakesATransposedNumberBesideAWindow) {
  const Chain chain =
      ReadChain("x: f32[M,5,3,2]; number: f32[]; out window(x, 0, taps=[3,3]), transpose(number)");
  EXPECT_GT(GraphOf(chain).size(), 0);
}

TEST(StitchGraph, ViewsScalarsAndTinyConesAreNoVertices) {
  // The scale is tiny: it is computed again. `wide` is a widening cast.
  const StitchGraph graph =
      GraphOf(ReadChain("x: bf16[4096,1024]; gamma: const bf16[1024]; scale = f32(gamma) * 2; "
                        "wide = f32(x); out bf16(wide * spread(scale, wide))"),
              false);
  ASSERT_EQ(graph.size(), 2);  // the product and the cast that rounds it
  EXPECT_EQ(graph.vertex(0).consumers, std::vector<int>{1});
  EXPECT_EQ(graph.vertex(0).reads.size(), 2u);
}

TEST(StitchGraph, ContractsWhatIsFreeToComputeAlongAndNothingElse) {
  const StitchGraph graph = GraphOf(ParseProblem("softmax rows=M cols=1024")->chain);
  // max, exp (three readers' cone: kept), sum, and the division with the cast that rounds it.
  std::vector<OpClass> classes;
  for (int v = 0; v < graph.size(); ++v) classes.push_back(graph.vertex(v).op_class);
  EXPECT_THAT(classes, ElementsAre(OpClass::kReduction, OpClass::kExpensive, OpClass::kReduction,
                                   OpClass::kLight));
}

TEST(StitchGraph, AStoredViewIsAVertexThatNobodyReads) {
  const StitchGraph graph =
      GraphOf(ReadChain("x: f32[64,32]; t = transpose(x, 1, 0); out t; out tanh(t)"));
  ASSERT_EQ(graph.size(), 2);
  EXPECT_TRUE(graph.vertex(0).consumers.empty());
  EXPECT_TRUE(graph.vertex(1).producers.empty());
}

TEST(StitchGraph, ReadersOfAnInputComeBeforeTheOutputInItsBuffer) {
  const StitchGraph graph =
      GraphOf(ReadChain("w: f32[256,256]; next = tanh(w); out next over w, exp(w)"));
  ASSERT_EQ(graph.size(), 2);
  EXPECT_EQ(graph.vertex(graph.VertexOf(graph.chain().outputs()[0].value)).producers.size(), 1u);
}

TEST(StitchGraph, RefusesAnOutputInABufferThatIsReadAfterIt) {
  const Chain chain = ReadChain("w: f32[256,256]; next = tanh(w); out next over w, exp(next) * w");
  const auto graph = StitchGraph::Make(chain, 1, {}, {});
  EXPECT_TRUE(Fails(graph, absl::StatusCode::kFailedPrecondition, "output 0"));
}

TEST(ExtractBody, HandsOverWhatLeavesInItsOwnDtype) {
  const Chain chain = ParseProblem("layernorm rows=M cols=1024")->chain;
  const StitchGraph graph = GraphOf(chain);
  const StitchBody first = Got(ExtractBody(graph, SetOf(graph, {0})));
  ASSERT_EQ(first.outputs.size(), 1u);  // the mean
  EXPECT_EQ(first.outputs[0].output, -1);
  EXPECT_EQ(ToString(first.body.output_type(0)), "f32[M,1]");
  const StitchBody all = Got(ExtractBody(graph, Everything(graph)));
  EXPECT_EQ(all.body.CanonicalBytes(), chain.CanonicalBytes());
}

TEST(ExtractBody, KeepsStridesAndMarksOfInputsAndStridesOfOutputs) {
  const Chain chain = ReadChain(
      "x: f32[8,64] strides(128, 1); y = exp(x); out y strides(256, 1); "
      "out y - spread(mean(y, 1, keep), y)");
  const std::vector<Stride> of_input = {{128, 0}, {1, 0}}, of_output = {{256, 0}, {1, 0}};
  const StitchGraph graph = GraphOf(chain);
  const int exp = graph.VertexOf(chain.outputs()[0].value);
  const StitchBody first = *ExtractBody(graph, SetOf(graph, {exp}));
  EXPECT_EQ(first.body.input_op(0).strides, of_input);
  EXPECT_EQ(first.body.outputs()[0].strides, of_output);
  NodeSet rest = Everything(graph);
  rest.Remove(exp);
  const StitchBody second = *ExtractBody(graph, rest);
  EXPECT_EQ(second.body.input_op(0).strides, of_output);  // read where it was written
}

TEST(ExtractBody, EqualLayersGiveEqualBodies) {
  const Chain chain = testing::TransformerGlue(4, 256, 128);
  const StitchGraph graph = GraphOf(chain);
  testing::SimpleCosts costs;
  LatencyEvaluator latency(&costs);
  const std::vector<PatternSet> plans = ExploreFusion(graph, H200(), {});
  for (const StitchPattern& pattern : plans[0].InOrder()) {
    if (graph.vertex(pattern.vertices().First()).opaque) continue;
    EXPECT_TRUE(latency.Evaluate(graph, pattern.vertices()).ok());
  }
  // The first, the two of a layer, the last.
  EXPECT_LE(costs.asked(), 4);
}

TEST(PatternReduction, CandidatesBeginAtTheirVertexAndAreLegalAndFew) {
  const StitchGraph graph = GraphOf(testing::RandomDag(5, 80, 2048, 512), false);
  DeltaEvaluator evaluator(graph, H200(), {});
  const PatternReduction reduction(&evaluator, kPatternsAVertex);
  for (int v = 0; v < graph.size(); ++v) {
    ASSERT_FALSE(reduction.Of(v).empty());
    ASSERT_LE(reduction.Of(v).size(), 3u);
    double before = reduction.Of(v)[0].score;
    for (const ScoredPattern& candidate : reduction.Of(v)) {
      EXPECT_EQ(candidate.pattern.vertices().First(), v);
      EXPECT_TRUE(candidate.pattern.IsConvex());
      EXPECT_LE(candidate.score, before);
      before = candidate.score;
    }
    EXPECT_GE(reduction.Of(v)[0].score, 0);  // it alone is always a candidate
  }
}

TEST(PatternReduction, FusesALayerNormWhole) {
  const StitchGraph graph = GraphOf(ParseProblem("layernorm rows=M cols=1024")->chain, true, 8192);
  DeltaEvaluator evaluator(graph, H200(), {});
  const PatternReduction reduction(&evaluator, kPatternsAVertex);
  EXPECT_EQ(reduction.Of(0)[0].pattern.size(), graph.size());
}

TEST(RemoteFusion, TheVirtualProducerPacksWhatNothingConnects) {
  ChainReader chain;
  for (int i = 0; i < 4; ++i) chain.Add("out tanh({f32[1000]})");
  const StitchGraph graph = GraphOf(chain.Finish());
  DeltaEvaluator evaluator(graph, H200(), {});
  PatternReduction reduction(&evaluator, kPatternsAVertex);
  const std::vector<ScoredPattern> remote = RemoteFusion(graph, &reduction);
  ASSERT_FALSE(remote.empty());
  EXPECT_EQ(remote[0].pattern.size(), 4);
  const DeviceModel model = H200();
  EXPECT_NEAR(remote[0].score, 3 * (model.launch_us + model.fill_us + model.drain_us), 0.1);
}

TEST(DeltaEvaluator, CountsWhatIsNotMovedNotLaunchedAndWaitedFor) {
  const StitchGraph graph = GraphOf(
      ReadChain("x: f32[8192,4096]; y = tanh(x); mean = mean(y, 0, keep); out y - spread(mean, y)"),
      false);
  ASSERT_EQ(graph.size(), 3);
  DeltaEvaluator evaluator(graph, H200(), {});
  const DeltaTime whole = evaluator.TimeOf(Everything(graph));
  EXPECT_EQ(whole.barriers, 1);  // the column means
  EXPECT_EQ(whole.operands, 2);
  EXPECT_NEAR(whole.memory_us, 2 * 8192.0 * 4096 * 4 / H200().hbm_bytes_per_us, 0.1);
  const StitchPattern all = StitchPattern::Of(graph, {0, 1, 2});
  EXPECT_NEAR(evaluator.Score(all), evaluator.AloneUs(Everything(graph)) - whole.total(), 1e-9);
  EXPECT_FALSE(DeltaEvaluator(graph, H200(), {.allow_cooperative = false}).IsLegal(all));
  // Around a member that is left out.
  EXPECT_FALSE(evaluator.IsLegal(StitchPattern::Of(graph, {0, 2})) && graph.After(0).Contains(1) &&
               graph.Before(2).Contains(1));
}

TEST(PatternSet, SeesCyclesThroughOtherPatterns) {
  // a -> b, c -> d: {a, d} and {c, b} need each other.
  const Chain chain = ReadChain(
      "x: f32[1000,64]; a = tanh(x); y: f32[1000,64]; c = tanh(y); out a, c, exp(a), exp(c)");
  const StitchGraph graph = GraphOf(chain);
  const auto vertex = [&](int output) {
    return graph.VertexOf(chain.outputs()[static_cast<size_t>(output)].value);
  };
  PatternSet set(graph);
  set.Add({StitchPattern::Of(graph, {vertex(0), vertex(3)}), 1});
  const StitchPattern other = StitchPattern::Of(graph, {vertex(1), vertex(2)});
  EXPECT_TRUE(other.IsConvex());
  EXPECT_FALSE(set.Overlaps(other));
  EXPECT_TRUE(set.MakesCycle(other));
  EXPECT_FALSE(set.MakesCycle(other, {0}));
}

TEST(ChooseKernels, CutsWhatIsRefusedAndSaysWhy) {
  const StitchGraph graph = GraphOf(ParseProblem("layernorm rows=M cols=1024")->chain);
  PatternSet plan(graph);
  DeltaEvaluator evaluator(graph, H200(), {});
  plan.Add({StitchPattern::Of(graph, Everything(graph).ToVector()), 0});
  testing::SimpleCosts costs([](const Chain& body) {
    int reductions = 0;
    for (const Op& op : body.ops()) reductions += op.kind == OpKind::kReduce;
    return reductions > 1 ? "two reductions" : "";
  });
  LatencyEvaluator latency(&costs);
  const auto chosen = Got(ChooseKernels(graph, plan, NodeSet(graph.size()), &evaluator, &latency));
  EXPECT_GE(chosen.kernels.size(), 2u);
  EXPECT_THAT(chosen.refusals, ElementsAre("two reductions"));
  NodeSet covered(graph.size());
  for (const CostedKernel& kernel : chosen.kernels) covered.Unite(kernel.vertices);
  EXPECT_TRUE(covered == Everything(graph));
}

// Makes a sine expensive together with any other op.
class SlowSines : public StitchCosts {
 public:
  absl::StatusOr<double> LatencyUs(const Chain& body) override {
    bool sine = false;
    int others = 0;
    for (const Op& op : body.ops()) {
      const bool is_sine = op.kind == OpKind::kUnary && op.unary == UnaryKind::kSin;
      sine |= is_sine;
      others += op.kind == OpKind::kUnary && !is_sine;
    }
    SINTER_ASSIGN_OR_RETURN(const double us, simple_.LatencyUs(body));
    return sine && others > 0 ? us + 1000 : us;
  }

 private:
  testing::SimpleCosts simple_;
};

TEST(ChooseKernels, CutsOutWhatIsSlowInCompanyAndJoinsTheRest) {
  ChainReader chain("x: f32[1024,1024]");
  for (int i = 0; i < 11; ++i) chain.Add("x = $0(x)", i == 3 ? "sin" : "tanh");
  chain.Out(chain["x"]);
  const StitchGraph graph = GraphOf(chain.Finish(), false);
  ASSERT_EQ(graph.size(), 11);
  DeltaEvaluator evaluator(graph, H200(), {});
  PatternSet plan(graph);
  std::vector<int> all;
  for (int v = 0; v < graph.size(); ++v) all.push_back(v);
  plan.Add({StitchPattern::Of(graph, all), 1});
  SlowSines costs;
  LatencyEvaluator latency(&costs);
  const auto chosen = Got(ChooseKernels(graph, plan, NodeSet(graph.size()), &evaluator, &latency));
  std::vector<int> sizes;
  for (const CostedKernel& kernel : chosen.kernels) sizes.push_back(kernel.vertices.size());
  EXPECT_THAT(sizes, ElementsAre(3, 1, 7));
}

// Ten microseconds a kernel; so many where it is packed.
class PackedAt : public StitchCosts {
 public:
  explicit PackedAt(double us) : us_(us) {}
  absl::StatusOr<double> LatencyUs(const Chain&) override { return 10; }
  absl::StatusOr<double> PackedUs(const Chain&) override { return us_; }

 private:
  const double us_;
};

// Two kernels of one part or of two parts each.
TEST(ChooseKernels, PacksIndependentPartsThatSharedUnitsAtAboutEqualTime) {
  for (const int parts : {1, 2}) {
    for (const double us : {19.5, 20.5, 21.5}) {
      ChainReader chain;
      for (int i = 0; i < 2 * parts; ++i) chain.Add("out tanh({f32[1024,1024]})");
      const StitchGraph graph = GraphOf(chain.Finish(), false);
      ASSERT_EQ(graph.size(), 2 * parts);
      PatternSet plan(graph);
      for (int i = 0; i < 2 && parts == 2; ++i) {
        plan.Add({StitchPattern::Of(graph, {2 * i, 2 * i + 1}), 1});
      }
      DeltaEvaluator evaluator(graph, H200(), {});
      PackedAt costs(us);
      LatencyEvaluator latency(&costs);
      const auto chosen =
          Got(ChooseKernels(graph, plan, NodeSet(graph.size()), &evaluator, &latency, true, true));
      const bool packed = us < (parts == 2 ? 21 : 19.8);
      EXPECT_EQ(chosen.kernels.size(), packed ? 1u : 2u) << parts << " " << us;
    }
  }
}

TEST(KernelJoiner, NeverJoinsKernelsThatWouldWaitForOneAnother) {
  // a -> b -> d and a -> c -> d: {a, d} would wait for b.
  const StitchGraph graph = GraphOf(
      ReadChain("x: f32[1024,1024]; a = tanh(x); b = sin(a); c = exp(a); out b + c + a"), false);
  DeltaEvaluator evaluator(graph, H200(), {});
  SlowSines costs;
  LatencyEvaluator latency(&costs);
  std::vector<CostedKernel> kernels;
  for (int v = 0; v < graph.size(); ++v) {
    kernels.push_back(*latency.Evaluate(graph, SetOf(graph, {v})));
  }
  KernelJoiner(graph, &evaluator, &latency).Join(&kernels);
  EXPECT_LT(kernels.size(), 5u);
  NodeSet done(graph.size());
  for (const CostedKernel& kernel : kernels) {
    NodeSet with = done;
    with.Unite(kernel.vertices);
    kernel.vertices.ForEach([&](int v) {
      for (int p : graph.vertex(v).producers) EXPECT_TRUE(with.Contains(p)) << v << " needs " << p;
    });
    done = with;
  }
  EXPECT_EQ(done.size(), graph.size());
}

TEST(ChooseKernels, NamesTheOpThatIsRefusedAlone) {
  const StitchGraph graph = GraphOf(ParseProblem("softmax rows=M cols=64")->chain, false);
  testing::SimpleCosts costs([](const Chain&) { return "no"; });
  LatencyEvaluator latency(&costs);
  DeltaEvaluator evaluator(graph, H200(), {});
  const auto chosen =
      ChooseKernels(graph, PatternSet(graph), NodeSet(graph.size()), &evaluator, &latency);
  EXPECT_TRUE(Says(chosen, "(reduce): no"));
}

TEST(Explorer, PacksAdamOverManyTensorsIntoOneKernel) {
  const auto kernels = [](size_t tensors) {
    const StitchGraph graph = GraphOf(testing::AdamOver(std::vector<int64_t>(tensors, 1 << 16)));
    return ExploreFusion(graph, H200(), {})[0].InOrder().size();
  };
  EXPECT_EQ(kernels(20), 1u);
  EXPECT_EQ(kernels(60), 3u) << "as few as the most ops of a kernel allow";
}

double Milliseconds(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - since)
      .count();
}

// Printed; the bounds are many times what one core takes.
TEST(Explorer, TakesLessThanASecondForTwoThousandOps) {
  struct Timed {
    const char* name;
    Chain chain;
    double most_ms;
  };
  const Timed all[] = {
      {"random", testing::RandomDag(1, 50, 4096, 1024), 500},
      {"random", testing::RandomDag(2, 200, 4096, 1024), 2000},
      {"random", testing::RandomDag(3, 2000, 4096, 1024), 10000},
      {"layers around products", testing::TransformerGlue(36, 4096, 1024), 10000},
      {"adam over 60 tensors", testing::AdamOver(std::vector<int64_t>(60, 1 << 20)), 10000}};
  for (const Timed& timed : all) {
    const auto start = std::chrono::steady_clock::now();
    const StitchGraph graph = GraphOf(timed.chain);
    const std::vector<PatternSet> plans = ExploreFusion(graph, H200(), {});
    const double ms = Milliseconds(start);
    std::printf("%-24s %5zu ops %5d vertices %4zu kernels %8.1f ms\n", timed.name,
                timed.chain.ops().size(), graph.size(), plans[0].InOrder().size(), ms);
    EXPECT_LT(ms, timed.most_ms);
  }
}

}  // namespace
}  // namespace sinter
