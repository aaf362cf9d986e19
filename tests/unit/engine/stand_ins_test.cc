// Plans of kernels that come with the library: what is planned, what rows compute, and when a
// prepare hands them out.
#include "src/reference/compare.h"
#include "src/standin/row_kernel.h"
#include "src/standin/stand_in.h"
#include "tests/support/chips.h"
#include "tests/support/named_graphs.h"
#include "tests/support/pointers.h"
#include "tests/support/random_stitch_graph.h"
#include "tests/unit/engine/engine_tests.h"
#include "tests/unit/engine/row_machine.h"

namespace sinter::testing {
namespace {

absl::StatusOr<FusionResult> PlanStandIns(const Chain& chain, int64_t bucket) {
  return PlanChain(chain, bucket, H200(), {.stand_ins = true});
}

TEST(StandIns, HaveNamesOfTheirOwnAndAsManyAsTheBuildSays) {
  std::set<std::string> names;
  for (int i = 0; i < StandInCount(); ++i) names.insert(StandInName(i));
  EXPECT_EQ(names.size(), 79u);
}

// Every list that figures are published of: all kernels are there, and can be launched.
TEST(StandIns, TakeEveryListedChainOfProductsAndNorms) {
  for (const char* list : {"gemm_chains", "gated_ffn", "memory_chains", "batch_sweep"}) {
    const auto problems =
        Got(ParseProblems(FileText(absl::StrCat("tests/bench/problems/", list, ".txt"))));
    for (const Problem& problem : problems) {
      const auto planned =
          Got(PlanStandIns(problem.chain, std::max<int64_t>(problem.m.value_or(1), 1)), problem.id);
      EXPECT_TRUE(planned.chosen.IsStandIn());
      for (const PlannedKernel& kernel : planned.chosen.kernels) {
        const auto stand_in = Got(StandInOf(kernel.spec), problem.id);
        EXPECT_TRUE(stand_in.recipe.Check().ok()) << stand_in.recipe.Check();
        EXPECT_EQ(Got(Generate(kernel.spec, H200())).recipe, stand_in.recipe);
      }
    }
  }
}

TEST(StandIns, HaveADigestOfTheirOwn) {
  const Chain chain = TestChain();
  const auto planned = Got(PlanStandIns(chain, 128));
  Plan compiled = planned.chosen;
  for (PlannedKernel& kernel : compiled.kernels) {
    kernel.spec.family = StitchOf(kernel.spec) == nullptr ? &ProductFamily() : &StitchFamily();
  }
  EXPECT_NE(planned.chosen.PlanDigest(), compiled.PlanDigest());
}

TEST(StandIns, RefuseWithTheReason) {
  const auto refusal = [](const char* line) {
    return std::string(PlanStandIns(Got(ParseProblem(line)).chain, 16).status().message());
  };
  EXPECT_THAT(refusal("C conv_chain b=1 ic=64 h=14 w=14 oc1=64 oc2=64 k1=3 k2=1 act=relu stride=1 "
                      "pad=same weights=OHWI dtype=bf16"),
              HasSubstr("no stand-in multiplies pixels of a convolution"));
  EXPECT_THAT(refusal("N softmax rows=16 cols=32768 scale=0.125 dtype=bf16"),
              HasSubstr("no stand-in computes rows of 32768 elements"));
  EXPECT_THAT(refusal("scatter rows=16 table=9 cols=64 ids=s64"),
              HasSubstr("(scatter of 'x', 'ids' and 'r'): no stand-in"));
  EXPECT_THAT(refusal("gather rows=16 table=9 cols=64 ids=s64"),
              HasSubstr("(gather of 'x' and 'ids'): no stand-in computes what ids name"));
}

// act(x w + bias) of [M, 64] by [130, 64] transposed, in f32 or as bf16.
Chain Product(const char* act, const char* result) {
  return ReadChain(
      "x: bf16[M,64]; w: const bf16[130,64]; bias: const bf16[130]; out $1(linear(x, w, bias, $0))",
      act, result);
}

TEST(StandIns, TakeProductsIntoF32) {
  for (const char* act : {"identity", "relu"}) {
    for (const DType result : {DType::kF32, DType::kBF16}) {
      const auto planned = Got(PlanStandIns(Product(act, result == DType::kF32 ? "" : "bf16"), 16));
      ASSERT_EQ(planned.chosen.kernels.size(), 1u);
      const KernelSpec& spec = planned.chosen.kernels[0].spec;
      EXPECT_EQ(ProductOf(spec).sequence.back().result, result);
      const auto stand_in = Got(StandInOf(spec));
      EXPECT_TRUE(stand_in.recipe.Check().ok()) << stand_in.recipe.Check();
      const uint32_t flags = StandInFlags(ProductOf(spec).sequence.back(), true, true, true);
      EXPECT_EQ(flags >> 14, result == DType::kF32 ? 1u : 0u);
    }
  }
  const auto silu = PlanStandIns(Product("silu", ""), 16);
  EXPECT_TRUE(Says(silu, "no stand-in multiplies into f32 with silu, only with relu"));
}

// Outputs of a body by its row program on the host, in place where they may be, or why there is
// none.
absl::StatusOr<std::vector<std::string>> RunRows(const Chain& body, int64_t m,
                                                 std::vector<std::string> inputs) {
  const absl::StatusOr<RowKernel> kernel = MakeRowKernel(body, {});
  if (!kernel.ok()) return kernel.status();
  RowProgram program;
  std::memcpy(&program, kernel->recipe.args[0].bytes.data(), sizeof(program));
  std::vector<std::string> outputs;
  for (int i = 0; i < body.num_outputs(); ++i) {
    outputs.emplace_back(static_cast<size_t>(*OutputBytes(body, i, m)), '\xff');
  }
  std::vector<char*> buffers;
  for (std::string& bytes : inputs) buffers.push_back(&bytes[0]);
  const auto shared = [&](int i) { return body.outputs()[static_cast<size_t>(i)].alias_input; };
  for (int i = 0; i < body.num_outputs(); ++i) {
    std::string& own = outputs[static_cast<size_t>(i)];
    buffers.push_back(shared(i) < 0 ? &own[0] : buffers[static_cast<size_t>(shared(i))]);
  }
  HostRows(program, buffers).Run(body.UsesM() ? m : 1);
  for (int i = 0; i < body.num_outputs(); ++i) {
    if (shared(i) < 0) continue;
    outputs[static_cast<size_t>(i)] = inputs[static_cast<size_t>(shared(i))];
  }
  return outputs;
}

void ExpectRowsAreRight(const Chain& body, int64_t m, int* taken) {
  const auto inputs = Got(RandomInputs(body, m, 5));
  const auto outputs = RunRows(body, m, inputs);
  if (!outputs.ok()) return;
  ++*taken;
  const auto expected = Got(RunReferenceF64(body, m, PointersTo(inputs)));
  for (int i = 0; i < body.num_outputs(); ++i) {
    const auto index = static_cast<size_t>(i);
    const auto values = Got(OutputValues(body, i, m, (*outputs)[index]));
    const ErrorMeasure error = Compare(values, expected[index], body.output_type(i).dtype);
    EXPECT_TRUE(error.Within(BoundsOf(body, i))) << error.ToString() << "\n" << body.ToString();
  }
}

std::string FloatsOf(const std::vector<float>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}

// The sum of such a row is beyond f32, its mean is not; and what log(1 + e^x) is made of is rounded
// at 1.
TEST(RowPrograms, NeitherOverflowInAMeanNorLoseASmallLogarithm) {
  const Problem norm = Got(ParseProblem("layernorm rows=2 cols=104 eps=1e-5 affine=0 dtype=f32"));
  const std::string large = FloatsOf(std::vector<float>(2 * 104, 8.5e37f));
  const auto zeros = Got(RunRows(norm.chain, 2, {large}));
  const auto values = Got(OutputValues(norm.chain, 0, 2, zeros[0]));
  for (const double value : values) EXPECT_LT(std::fabs(value), 1e-3 * 8.5e37);
  for (const double value : values) EXPECT_TRUE(std::isfinite(value));

  const Chain softplus = ReadChain("x: f32[2,104]; sum = 1 + exp(x); out log(sum)");
  const auto small = Got(RunRows(softplus, 2, {FloatsOf(std::vector<float>(2 * 104, -12.3f))}));
  const auto logs = Got(OutputValues(softplus, 0, 2, small[0]));
  const double exact = std::log1p(std::exp(static_cast<double>(-12.3f)));
  for (const double log : logs) EXPECT_NEAR(log, exact, 1e-6 * exact);
}

TEST(RowPrograms, ComputeWhatTheReferenceDoes) {
  int taken = 0;
  for (const char* line :
       {"layernorm rows=5 cols=104 eps=1e-5 affine=1 dtype=bf16",
        "softmax rows=3 cols=37 scale=0.125 dtype=f16",
        "bias_gelu_residual_layernorm rows=4 cols=64 gelu=tanh eps=1e-5 dtype=bf16",
        "residual_rmsnorm rows=7 cols=96 eps=1e-6 outputs=2 dtype=bf16",
        "masked_softmax rows=6 cols=48 scale=0.125 mask=full dtype=bf16"}) {
    const auto problem = Got(ParseProblem(line));
    ExpectRowsAreRight(problem.chain, problem.m.value_or(1), &taken);
  }
  EXPECT_EQ(taken, 5);
}

TEST(RowPrograms, OfUpdatesInPlaceComputeWhatTheReferenceDoes) {
  int taken = 0;
  ExpectRowsAreRight(IndependentUpdates({96}), 1, &taken);
  EXPECT_EQ(taken, 1);
}

TEST(RowPrograms, OfRandomGraphsComputeWhatTheReferenceDoes) {
  int taken = 0;
  for (uint64_t seed = 1; seed <= kRandomStitchGraphs; ++seed) {
    RandomStitchOptions options{.max_elements = 512};
    SCOPED_TRACE(seed);
    ExpectRowsAreRight(MakeRandomStitchGraph(seed, options), 3, &taken);
  }
  EXPECT_GE(taken, 8);
}

// Kernels of random graphs' plans: what the explorer cuts them into.
TEST(RowPrograms, OfPlannedKernelsComputeWhatTheReferenceDoes) {
  int taken = 0, planned = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    RandomStitchOptions options{.max_elements = 512};
    SCOPED_TRACE(seed);
    const auto plan = PlanStandIns(MakeRandomStitchGraph(seed, options), 3);
    if (!plan.ok()) continue;
    ++planned;
    for (const PlannedKernel& kernel : plan->chosen.kernels) {
      ExpectRowsAreRight(StitchOf(kernel.spec)->body, 3, &taken);
    }
  }
  EXPECT_GT(planned, 0);
  EXPECT_GT(taken, planned);
}

// An engine on fakes, whose stand-ins are names.
std::shared_ptr<Engine> EngineWithStandIns(FakeWorld* world, bool on = true) {
  Config config{.stand_ins = on};
  world->plan = PlanChain;
  world->compute = false;
  PlanningHooks hooks{.plan = PlanChain};
  hooks.generate = [](const KernelSpec& spec, const DeviceModel& model) {
    return Generate(spec, model);
  };
  Ports ports = world->MakePorts();
  ports.stand_ins = [](absl::string_view name) { return name; };
  return CreateEngine(std::move(ports), config, LogSink(), std::move(hooks));
}

TEST(StandIns, AreHandedOutWhereAPrepareMustNotBuild) {
  FakeWorld world;
  const auto engine = EngineWithStandIns(&world);
  PrepareOptions options{.no_build = true};
  const auto plan = Got(engine->Prepare(world.chain, 100, options));
  EXPECT_TRUE(plan->plan().IsStandIn());
  EXPECT_THAT(plan->plan().note, HasSubstr("stand-in: "));
  EXPECT_THAT(plan->Explain(), HasSubstr("of the library's own (stand-in)"));
  EXPECT_EQ(engine->Stats().stand_ins, 1u);
  EXPECT_EQ(engine->Stats().kernels_compiled, 0u);
  EXPECT_TRUE(world.disk->records.empty());  // nothing is stored under the plan's key
  const auto again = Got(engine->Prepare(world.chain, 100, options));
  EXPECT_EQ(again->plan().PlanDigest(), plan->plan().PlanDigest());
  options.must_hit = true;
  EXPECT_TRUE(absl::IsNotFound(engine->Prepare(world.chain, 100, options).status()));
}

TEST(StandIns, RunWhereThereIsNoCompiler) {
  FakeWorld world{.has_compiler = false};
  const auto engine = EngineWithStandIns(&world);
  const auto plan = Got(engine->Prepare(world.chain, 100, {}));
  EXPECT_TRUE(plan->plan().IsStandIn());
  EXPECT_FALSE(engine->Prepare(world.chain, 100, {.must_hit = true}).ok());
  PrepareOptions background;  // a slot keeps the error of its build
  background.background = true;
  EXPECT_TRUE(absl::IsUnavailable(engine->Prepare(world.chain, 100, background).status()));
}

TEST(StandIns, AreNotHandedOutUnlessTheyAreTurnedOn) {
  FakeWorld world;
  PrepareOptions options{.no_build = true};
  const auto engine = EngineWithStandIns(&world, false);
  EXPECT_TRUE(absl::IsNotFound(engine->Prepare(world.chain, 100, options).status()));
}

TEST(StandIns, SayWhyNoneIsThere) {
  FakeWorld world;
  const auto engine = EngineWithStandIns(&world);
  const auto plan = engine->Prepare(world.chain, 100, {.batch_invariant = true, .no_build = true});
  EXPECT_TRUE(Fails(plan, absl::StatusCode::kNotFound, "no stand-in is batch-invariant"));
}

}  // namespace
}  // namespace sinter::testing
