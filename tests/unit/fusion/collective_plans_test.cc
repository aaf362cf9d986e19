// Sums and gathers over ranks in plans: the ops that their kernel fuses, plans read back from their
// decisions and equal on all ranks, and the refusals with their messages.
#include "src/plan/collective_family.h"
#include "tests/support/collective_programs.h"
#include "tests/support/damage.h"
#include "tests/support/split_chain.h"
#include "tests/unit/fusion/fusion_tests.h"

namespace sinter {
namespace {

constexpr int64_t kM = 64;

absl::StatusOr<FusionResult> PlansOf(const Chain& given) {
  return PlanChain(*Got(NormalFormOf(std::make_shared<const Chain>(given)))->chain, kM, H200(), {});
}

// Every plan of the chain's normal form reads back from its decisions and has sources. Returns the
// chosen one.
Plan ExpectPlans(const Chain& given) {
  const DeviceModel model = H200();
  const auto form = Got(NormalFormOf(std::make_shared<const Chain>(given)));
  const Chain& chain = *form->chain;
  const FusionResult result = Got(PlanChain(chain, kM, model, {}));
  for (const Plan& plan : testing::AllPlans(result)) {
    SCOPED_TRACE(plan.ToText());
    testing::ExpectReadsBack(plan, chain, model);
  }
  return result.chosen;
}

std::vector<CollectiveProblem> SumsOf(const Plan& plan) {
  std::vector<CollectiveProblem> found;
  for (const PlannedKernel& kernel : plan.kernels) {
    if (kernel.spec.family != &CollectiveFamily()) continue;
    found.push_back(CollectiveKernels::ProblemOf(kernel.spec));
    EXPECT_EQ(kernel.spec.family->TraitsOf(kernel.spec).ranks, found.back().ranks);
  }
  return found;
}

// The programs after the sum and after its norm, as text.
std::string ProgramsOf(const CollectiveProblem& p) {
  return absl::StrCat(ToString(p.program), " ", ToString(p.norm_program));
}
bool HasResidual(const CollectiveProblem& p) { return p.program.Reads(LeafKind::kMatrix); }

TEST(CollectivePlans, ASumIsOneKernelWithItsResidual) {
  for (const char* form : {"dtype=bf16", "dtype=f16", "dtype=f32", "residual=1 dtype=bf16",
                           "residual=1 dtype=f16", "residual=1 dtype=f32"}) {
    for (const int ranks : {2, 4, 8}) {
      SCOPED_TRACE(absl::StrCat(form, " ", ranks));
      const Plan plan = ExpectPlans(testing::ChainOfLine(
          absl::StrCat("all_reduce rows=M cols=256 ranks=", ranks, " ", form)));
      ASSERT_EQ(plan.kernels.size(), 1u) << plan.ToText();
      const std::vector<CollectiveProblem> sums = SumsOf(plan);
      ASSERT_EQ(sums.size(), 1u);
      EXPECT_EQ(sums[0].ranks, ranks);
      EXPECT_EQ(sums[0].columns, 256);
      EXPECT_EQ(sums[0].fixed_rows, 0);
      EXPECT_EQ(sums[0].element, sums[0].result);
      const DType dtype = sums[0].element;
      const bool residual = absl::string_view(form).find("residual") == 0;
      const std::string sum =
          dtype == DType::kF32 ? "y" : absl::StrCat("to_f32(to_", NameOf(dtype), "(y))");
      EXPECT_EQ(ProgramsOf(sums[0]),
                residual ? absl::StrCat("add(", sum, ",r) none") : "none none");
    }
  }
}

TEST(CollectivePlans, ALayerIsAProductAndASumWithItsNorm) {
  const Plan plan = ExpectPlans(testing::ChainOfLine("row_parallel m=M n=1024 k=512 ranks=2"));
  ASSERT_EQ(plan.kernels.size(), 2u) << plan.ToText();
  const std::vector<CollectiveProblem> sums = SumsOf(plan);
  ASSERT_EQ(sums.size(), 1u);
  EXPECT_TRUE(HasResidual(sums[0]));
  EXPECT_TRUE(sums[0].norm);
  EXPECT_TRUE(sums[0].keeps);
  EXPECT_EQ(sums[0].eps, static_cast<double>(1e-6f));
  EXPECT_EQ(ProgramsOf(sums[0]), "add(to_f32(to_bf16(y)),r) mul(y,c1)");
  for (const int ranks : {4, 8}) {
    const Plan many = ExpectPlans(
        testing::ChainOfLine(absl::StrCat("row_parallel m=M n=1024 k=512 ranks=", ranks)));
    EXPECT_EQ(many.kernels.size(), ranks == 4 ? 2u : 3u) << many.ToText();
    EXPECT_EQ(SumsOf(many).at(0).norm, ranks == 4);
  }
  EXPECT_EQ(sums[0].element, DType::kBF16);
  EXPECT_THAT(plan.ToText(), HasSubstr("all_reduce ranks=2 bf16[M,1024]"));
}

// A norm whose sum nobody else needs; one of f32; columns that no block holds.
TEST(CollectivePlans, NormsAreTakenWhereTheyMay) {
  const auto chain = [](DType dtype, int64_t columns, bool read_twice) {
    return ReadChain(
        "x: $0[M,$1]; gamma: const $0[$1]; sum = all_reduce(x, 2);"
        "out $3(rmsnorm(sum, 1e-5, gamma)) $2",
        NameOf(dtype), columns, read_twice ? absl::StrCat(", ", NameOf(dtype), "(tanh(sum))") : "",
        dtype == DType::kF32 ? "" : NameOf(dtype));
  };
  for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
    const Plan plan = ExpectPlans(chain(dtype, 512, false));
    EXPECT_EQ(plan.kernels.size(), 1u) << plan.ToText();
    const CollectiveProblem p = SumsOf(plan).at(0);
    EXPECT_TRUE(p.norm);
    EXPECT_FALSE(p.keeps);
  }
  // If the sum has two readers, it is stored in addition to its norm, for a kernel that widens it
  // by itself.
  for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
    const Plan plan = ExpectPlans(chain(dtype, 512, true));
    EXPECT_EQ(plan.kernels.size(), 2u) << plan.ToText();
    EXPECT_TRUE(SumsOf(plan).at(0).norm);
    EXPECT_TRUE(SumsOf(plan).at(0).keeps);
  }
  EXPECT_FALSE(SumsOf(ExpectPlans(chain(DType::kBF16, 16392, false))).at(0).norm);
}

// As in transformers' LlamaRMSNorm: the rows are cast before gamma, and multiplied in 16 bits or in
// f32. Two-shot sums add only to the rounded value.
TEST(CollectivePlans, NormsThatRoundBeforeGammaAreTaken) {
  for (const char* norm :
       {"rows * spread(gamma, rows)", "bf16(f32(rows) * spread(f32(gamma), rows))"}) {
    for (const int ranks : {2, 4}) {
      const Plan plan = ExpectPlans(ReadChain(
          "x, r: bf16[M,512]; gamma: const bf16[512]; sum = bf16(f32(all_reduce(x, $0)) + f32(r));"
          "wide = f32(sum); root = rsqrt(mean(square(wide), 1, keep) + 1e-5);"
          "rows = bf16(wide * spread(root, wide)); out $1, sum",
          ranks, norm));
      ASSERT_EQ(plan.kernels.size(), 1u) << plan.ToText();
      EXPECT_TRUE(SumsOf(plan).at(0).norm);
      const CollectiveProblem p = SumsOf(plan).at(0);
      EXPECT_GE(RoundedValue(p.norm_program, p.result), 0) << ProgramsOf(p);
    }
  }
}

// Sums of f32 messages, whose result the chain rounds before or after the residual.
TEST(CollectivePlans, CastsAroundAnF32SumAreTaken) {
  for (const bool before : {false, true}) {
    const Plan plan = ExpectPlans(
        ReadChain("x: f32[M,64]; r: bf16[M,64]; sum = all_reduce(x, 2); out bf16(f32(r) + $0)",
                  before ? "f32(bf16(sum))" : "sum"));
    ASSERT_EQ(plan.kernels.size(), 1u) << plan.ToText();
    const CollectiveProblem p = SumsOf(plan).at(0);
    EXPECT_EQ(p.element, DType::kF32);
    EXPECT_EQ(p.result, DType::kBF16);
    EXPECT_EQ(ToString(p.program),
              before ? "add(to_f32(to_bf16(y)),to_f32(r))" : "add(y,to_f32(r))");
  }
}

// Ops after a sum, and after its norm, that are one kernel with it. A bias, a scale or a norm may
// stand before the residual.
TEST(CollectivePlans, ElementWiseOpsAfterASumAndItsNormAreTaken) {
  const struct {
    const char *ops, *programs;
  } cases[] = {
      {"bf16(f32(sum) + $1)", "add(to_f32(to_bf16(y)),to_f32(c1)) none"},
      {"bf16(f32(bf16($1 + f32(sum))) + $0)",
       "add(to_f32(to_bf16(add(to_f32(to_bf16(y)),to_f32(c1)))),to_f32(r)) none"},
      {"bf16($0 + f32(sum) * 0.25)", "add(mul(to_f32(to_bf16(y)),0.25),to_f32(r)) none"},
      {"bf16($0 - f32(sum))", "sub(to_f32(r),to_f32(to_bf16(y))) none"},
      {"bf16($0 + f32(bf16(rmsnorm(sum, 1e-6, {const bf16[512]}))))",
       "none add(to_f32(to_bf16(mul(y,c1))),to_f32(r))"},
  };
  for (const auto& one : cases) {
    for (const int ranks : {2, 4}) {
      SCOPED_TRACE(one.ops);
      const Plan plan = ExpectPlans(ReadChain(
          "sum = all_reduce({bf16[M,512]}, $0); out $1", ranks,
          absl::Substitute(one.ops, "f32({bf16[M,512]})", "spread(f32({const bf16[512]}), sum)")));
      ASSERT_EQ(plan.kernels.size(), 1u) << plan.ToText();
      EXPECT_EQ(ProgramsOf(SumsOf(plan).at(0)), one.programs);
    }
  }
}

// What others read stays outside: the sum before its residual, a residual of another type.
TEST(CollectivePlans, WhatOthersReadIsStored) {
  const Plan other_type =
      ExpectPlans(ReadChain("x: bf16[M,64]; r: f32[M,64]; out f32(all_reduce(x, 2)) + r"));
  EXPECT_FALSE(HasResidual(SumsOf(other_type).at(0)));
  EXPECT_EQ(other_type.kernels.size(), 2u) << other_type.ToText();
  const Plan given_out =
      ExpectPlans(ReadChain("x, r: bf16[M,64]; y = all_reduce(x, 2); out y, bf16(y + r)"));
  EXPECT_FALSE(HasResidual(SumsOf(given_out).at(0)));
}

TEST(CollectivePlans, RowsMayBeConstantAndLieInMoreAxes) {
  const std::tuple<const char*, int64_t, int64_t> cases[] = {
      {"[40,64]", 40, 64}, {"[64]", 1, 64}, {"[M,4,16]", 0, 64}, {"[4,M,16]", 0, 64}};
  for (const auto& [dims, rows, columns] : cases) {
    const Plan plan = ExpectPlans(ReadChain("x: bf16$0; out all_reduce(x, 2)", dims));
    const CollectiveProblem p = SumsOf(plan).at(0);
    EXPECT_EQ(p.fixed_rows, rows);
    EXPECT_EQ(p.columns, columns);
  }
}

// A decoder's layer after attention: the first sum is normed, and is the residual of the second.
TEST(CollectivePlans, TheSumsOfADecodersLayerTakeTheirNorms) {
  const Plan plan = ExpectPlans(
      ReadChain("attended: bf16[M,128]; before: bf16[M,256]; g1, g2: const bf16[256];"
                "w1: const bf16[256,128]; w2: const bf16[512,256]; w3: const bf16[256,512];"
                "w4: const bf16[384,256];"
                "stream = bf16(f32(all_reduce(bf16(attended @ w1.T), 2)) + f32(before));"
                "inner = bf16(bf16(rmsnorm(stream, 1e-6, g1)) @ w2.T);"
                "after = bf16(f32(all_reduce(bf16(inner @ w3.T), 2)) + f32(stream));"
                "out after, bf16(bf16(rmsnorm(after, 1e-6, g2)) @ w4.T)"));
  EXPECT_THAT(plan.ToText(), Not(HasSubstr("[stitch"))) << plan.ToText();
  EXPECT_LE(plan.kernels.size(), 6u) << plan.ToText();
  const std::vector<CollectiveProblem> sums = SumsOf(plan);
  ASSERT_EQ(sums.size(), 2u);
  for (const CollectiveProblem& p : sums) {
    EXPECT_TRUE(HasResidual(p));
    EXPECT_TRUE(p.norm);
    EXPECT_TRUE(p.keeps);
  }
}

// Its kernel would wait for what it makes.
TEST(CollectivePlans, ANormWhoseGammaComesFromTheSumStaysApart) {
  const std::vector<CollectiveProblem> sums =
      SumsOf(ExpectPlans(ReadChain("x: bf16[1,256]; sum = all_reduce(x, 2);"
                                   "out bf16(rmsnorm(sum, 1e-6, reshape(tanh(sum), [256])))")));
  ASSERT_EQ(sums.size(), 1u);
  EXPECT_FALSE(sums[0].norm);
}

TEST(CollectivePlans, TwoLayersAreTwoSumsInOneOrder) {
  const Plan plan =
      ExpectPlans(ReadChain("x: bf16[M,256]; w, v: const bf16[256,256];"
                            "h = bf16(f32(all_reduce(bf16(x @ w.T), 4)) + f32(x));"
                            "out bf16(f32(all_reduce(bf16(h @ v.T), 4)) + f32(h))"));
  EXPECT_EQ(plan.kernels.size(), 4u) << plan.ToText();
  EXPECT_EQ(SumsOf(plan).size(), 2u);
}

// The plan of a GEMM of 128 rows followed by a sum that pushes.
const Plan* PushingPlan(const std::vector<Plan>& plans) {
  for (const Plan& plan : plans) {
    if (ProductOf(plan.kernels.front().spec).schedule.pushes > 0) return &plan;
  }
  return nullptr;
}

class PushedSums : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto form = Got(NormalFormOf(std::make_shared<const Chain>(
        testing::ChainOfLine("row_parallel m=M n=8192 k=4096 ranks=2"))));
    chain_ = form->chain;
    plans_ = testing::AllPlans(Got(PlanChain(*chain_, 128, model_, {})));
    pushing_ = PushingPlan(plans_);
    ASSERT_NE(pushing_, nullptr) << plans_.front().ToText();
  }

  const DeviceModel model_ = *BuiltinModel("h100");
  std::shared_ptr<const Chain> chain_;
  std::vector<Plan> plans_;
  const Plan* pushing_ = nullptr;
};

TEST_F(PushedSums, AreChosenForManyRowsAndReadBack) {
  EXPECT_EQ(pushing_, &plans_.front()) << plans_.front().ToText();
  ASSERT_EQ(pushing_->kernels.size(), 2u);
  const KernelSpec &product = pushing_->kernels[0].spec, &sum = pushing_->kernels[1].spec;
  EXPECT_EQ(ProductOf(product).schedule.pushes, 2);
  EXPECT_EQ(product.family->TraitsOf(product).ranks, 2);
  EXPECT_EQ(product.family->RowsOfSlots(product, 1 << 20), 64);
  EXPECT_EQ(CollectiveKernels::ScheduleOf(sum).pushed,
            TurnsOf(ProductOf(product).sequence, ProductOf(product).schedule));
  const auto read = Got(testing::Reassembled(*pushing_, *chain_, model_));
  EXPECT_EQ(read.PlanDigest(), pushing_->PlanDigest());
  const auto made = Got(Generate(product, model_));
  EXPECT_THAT(made.request.source, HasSubstr("PushedTo<2>"));
  ASSERT_EQ(made.recipe.args.size(), 6u);  // a, w1, out, the room, the plan, m
  EXPECT_EQ(made.recipe.args[3].kind, ArgKind::kRoom);
  EXPECT_EQ(made.recipe.args[4].kind, ArgKind::kPlan);
}

// With many rows a warp of the GEMM sends the tiles of all turns but the last.
TEST_F(PushedSums, SendTheColumnsThatAreComputedEarly) {
  const auto result = Got(PlanChain(*chain_, 1024, model_, {}));
  const Plan& plan = result.chosen;
  ASSERT_EQ(plan.kernels.size(), 2u) << plan.ToText();
  const KernelSpec &product = plan.kernels[0].spec, &sum = plan.kernels[1].spec;
  const int columns = ProductOf(product).schedule.pushed_columns;
  EXPECT_EQ(columns, EarlyColumns(ProductOf(product).sequence, ProductOf(product).schedule));
  EXPECT_GT(columns, 2048);
  EXPECT_EQ(CollectiveKernels::ScheduleOf(sum).pushed_columns, columns);
  EXPECT_EQ(Got(testing::Reassembled(plan, *chain_, model_)).PlanDigest(), plan.PlanDigest());
  const auto made = Got(Generate(product, model_));
  EXPECT_THAT(made.request.source, HasSubstr(absl::StrCat("SentBehind<2, ", columns, ">")));
  const int fewer = columns - ProductOf(product).schedule.first.block_n *
                                  TilesN(ProductOf(product).schedule.share);
  Decisions other = DecisionsOf(plan);
  other.kernels[0].schedule.pushed_columns = fewer;
  Assembly assembly(*chain_, 1024, model_, {});
  EXPECT_TRUE(Says(assembly.Assemble(other),
                   absl::StrCat("is pushed by ", fewer, " columns, its sum awaits ", columns)));
  const auto after = Got(
      ReplaceKernels(*chain_, model_, {}, DecisionsOf(plan), {0}, {DecisionsOf(plan).kernels[0]}));
  EXPECT_EQ(after.kernels[0].schedule.pushed_columns, 0);
}

// Rows that a reshape changes are not pushed. Neither are constant rows in a chain with M, because
// a launch of no rows computes only those.
TEST_F(PushedSums, AreOfTheRowsThatTheProductHas) {
  const auto pushes = [&](const Chain& given) {
    const auto form = NormalFormOf(std::make_shared<const Chain>(given));
    const auto result = PlanChain(*(*form)->chain, 128, model_, {});
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() && PushingPlan(testing::AllPlans(*result)) != nullptr;
  };
  const auto of_product = [](const char* outputs) {
    return ReadChain("x: bf16[128,4096]; w: const bf16[8192,4096]; y = bf16(x @ w.T); out $0",
                     outputs);
  };
  EXPECT_TRUE(pushes(of_product("all_reduce(y, 2)")));
  EXPECT_FALSE(pushes(of_product("all_reduce(reshape(y, [256,4096]), 2)")));
  EXPECT_FALSE(pushes(of_product("all_reduce(y, 2), neg({bf16[M,64]})")));
}

TEST_F(PushedSums, StandBesideThePlainPlan) {
  for (const Plan& plan : plans_) {
    if (!plan.fused) {
      EXPECT_EQ(ProductOf(plan.kernels.front().spec).schedule.pushes, 0) << plan.ToText();
    }
  }
}

TEST(CollectivePlans, PartsAreOneKernelWhereverTheirAxisLies) {
  const Dim m = Dim::M();
  const struct {
    std::vector<Dim> dims;  // of a gather's operand, or of a scatter's result
    int axis;
    int64_t rows, rows_per_m, columns;  // rows 0: M
    bool by_rows;
  } cases[] = {
      {{m, C(64)}, 1, 0, 1, 64, false},
      {{m, C(4), C(16)}, 1, 0, 1, 64, false},
      {{m, C(4), C(16)}, 2, 0, 4, 16, false},
      {{C(3), m, C(16)}, 2, 0, 3, 16, false},
      {{C(1), m, C(16)}, 0, 0, 1, 16, true},
      {{C(3), m, C(16)}, 0, 0, 1, 48, true},
      {{C(1), C(4), m, C(16)}, 1, 0, 1, 64, true},
      {{C(40), C(64)}, 0, 1, 1, 2560, true},
      {{C(40), C(64)}, 1, 40, 1, 64, false},
      {{C(64)}, 0, 1, 1, 64, true},
      {{C(512), C(512)}, 0, 4, 1, 65536, true},
  };
  for (const auto& one : cases) {
    for (const bool gathers : {true, false}) {
      for (const DType dtype : {DType::kBF16, DType::kF32}) {
        SCOPED_TRACE(absl::StrCat(ToString(absl::MakeConstSpan(one.dims)), " along ", one.axis));
        std::vector<Dim> given = one.dims;
        if (!gathers) given[static_cast<size_t>(one.axis)].value *= 2;
        const Plan plan = ExpectPlans(ReadChain(
            "x: $0$1; out $2(x, $3, 2)", NameOf(dtype), ToString(absl::MakeConstSpan(given)),
            gathers ? "all_gather" : "reduce_scatter", one.axis));
        ASSERT_EQ(plan.kernels.size(), 1u) << plan.ToText();
        const CollectiveProblem p = SumsOf(plan).at(0);
        EXPECT_EQ(p.kind, gathers ? CollectiveKind::kAllGather : CollectiveKind::kReduceScatter);
        EXPECT_EQ(p.fixed_rows, one.rows);
        EXPECT_EQ(p.rows_per_m, one.rows_per_m);
        EXPECT_EQ(p.columns, one.columns);
        EXPECT_EQ(p.by_rows, one.by_rows);
        const KernelSpec& spec = plan.kernels[0].spec;
        EXPECT_EQ(spec.family->MixesRows(spec), one.by_rows && one.rows == 0);
        int64_t bytes = SizeOf(dtype);
        for (const Dim dim : one.dims) bytes *= dim.At(kM);
        const std::vector<KernelBuffer> buffers = spec.family->Buffers(spec, kM);
        EXPECT_EQ(buffers.at(0).bytes, gathers ? bytes : 2 * bytes);
        EXPECT_EQ(buffers.at(1).bytes, gathers ? 2 * bytes : bytes);
      }
    }
  }
}

// Decisions may choose badly, but not only one of the two kernels.
TEST_F(PushedSums, OfWhichOneIsMissingAreRefused) {
  const Decisions whole = DecisionsOf(*pushing_);
  Assembly assembly(*chain_, 128, model_, {});
  EXPECT_TRUE(assembly.Assemble(whole).ok());
  Decisions silent = whole;
  silent.kernels[0].schedule.pushes = 0;
  EXPECT_TRUE(Says(assembly.Assemble(silent), "nothing is pushed for its sum"));
  Decisions deaf = whole;
  CollectiveSchedule sum = CollectiveKernels::ScheduleOf(pushing_->kernels[1].spec);
  sum.pushed = 0;
  deaf.kernels[1].own = CollectiveKernels().BytesOf(sum);
  EXPECT_TRUE(Says(assembly.Assemble(deaf), "is pushed, and no sum over ranks takes it"));
  Decisions wide = whole;
  wide.kernels[0].schedule.pushes = 4;
  EXPECT_TRUE(Says(assembly.Assemble(wide), "is pushed to 4 ranks, the chain has 2"));
}

TEST_F(PushedSums, OfWhichOneIsRefusedByTheCompilerAreReplacedByOthers) {
  for (const size_t refused : {0, 1}) {
    const Decisions before = DecisionsOf(*pushing_);
    const auto after =
        Got(ReplaceKernels(*chain_, model_, {}, before, {refused}, {before.kernels[refused]}));
    EXPECT_EQ(after.kernels[0].schedule.pushes, 0);
    Assembly assembly(*chain_, 128, model_, {});
    const auto made = Got(assembly.Assemble(after));
  }
}

// Rows of e4m3 are moved as they are.
TEST(CollectivePlans, CodesAreGathered) {
  const Plan plan = ExpectPlans(ReadChain("x: e4m3[M,64]; out all_gather(x, 1, 8)"));
  EXPECT_EQ(SumsOf(plan).at(0).element, DType::kE4M3);
}

// Sequence parallelism: a rank's rows are gathered before a GEMM, and scattered after it, with this
// rank's residual and norm. Reshapes cost nothing.
TEST(CollectivePlans, ALayerOfRowsIsTwoProductsAGatherAndAScatter) {
  const Plan plan = ExpectPlans(
      ReadChain("x: bf16[M,256]; r: bf16[M,256]; gamma: const bf16[256]; "
                "h = all_gather(reshape(x, [1,M,256]), 0, 2); "
                "h = bf16(h @ {const bf16[256,256]}.T); h = bf16(h @ {const bf16[256,256]}.T); "
                "sum = bf16(f32(reshape(reduce_scatter(h, 0, 2), [M,256])) + f32(r)); "
                "out sum, bf16(rmsnorm(sum, 1e-6, gamma))"));
  const std::vector<CollectiveProblem> found = SumsOf(plan);
  ASSERT_EQ(found.size(), 2u) << plan.ToText();
  EXPECT_TRUE(HasResidual(found[1]));
  EXPECT_TRUE(found[1].norm);
  EXPECT_LE(plan.kernels.size(), 4u) << plan.ToText();
  EXPECT_THAT(plan.ToText(), HasSubstr("reduce_scatter of rows ranks=2 bf16[M,256]"));
}

// A collective without a kernel is refused with the axis or the columns that it takes.
TEST(CollectivePlans, RandomChainsPlanOrSayWhyNot) {
  int planned = 0, kinds[3] = {};
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    const Chain chain = testing::MakeSplitChain(seed);
    const absl::StatusOr<FusionResult> result = PlansOf(chain);
    if (result.ok()) {
      ++planned;
      for (const CollectiveProblem& p : SumsOf(ExpectPlans(chain)))
        ++kinds[static_cast<int>(p.kind)];
      continue;
    }
    EXPECT_THAT(std::string(result.status().message()),
                AnyOf(HasSubstr("must be a multiple of"), HasSubstr("transpose")))
        << chain.ToString();
  }
  EXPECT_GT(planned, 120);
  for (const int count : kinds) EXPECT_GT(count, 30);
}

TEST(CollectivePlans, RefusalsSayTheWayOut) {
  const std::pair<const char*, const char*> refused[] = {
      {"x: bf16[M,12]; out all_reduce(x, 2)", "all_reduce: columns is 12, must be a multiple of 8"},
      {"x: bf16[M,12]; out all_reduce(x, 2)", "pad its last dimension"},
      {"x: bf16[M,16] strides(32, 1); out all_reduce(x, 2)",
       "'x' has strides [32,1], kernels over ranks read rows without gaps: copy it"},
      {"x: bf16[3,4,M,16]; out all_gather(x, 1, 2)",
       "axis 2 of its operand is M, after axis 1, of which ranks have parts: transpose M to axis "
       "0"}};
  for (const auto& [chain, message] : refused) {
    EXPECT_TRUE(Says(PlansOf(ReadChain(chain)), message));
  }
}

TEST(CollectiveFamilyBytes, ReadBackAndRefuseDamage) {
  const CollectiveKernels family;
  CollectiveProblem p{.ranks = 4, .columns = 64, .fixed_rows = 7};
  testing::AddResidual(&p);
  testing::AddNorm(&p, true);
  ExpectBytesReadBack(p);
  ExpectBytesReadBack(
      CollectiveProblem{.kind = CollectiveKind::kAllGather, .columns = 64, .by_rows = true});
  const CollectiveSchedule s{true, 512, 33};
  EXPECT_EQ(*family.ScheduleFrom(family.BytesOf(s)), s);
  const CollectiveSchedule pushed{false, 512, 33, 4};
  std::string of_pushed = family.BytesOf(pushed);
  EXPECT_EQ(*family.ScheduleFrom(of_pushed), pushed);
  of_pushed.back() = 1;
  EXPECT_FALSE(family.ScheduleFrom(of_pushed).ok());
  EXPECT_FALSE(family.ScheduleFrom(family.BytesOf(s).substr(1)).ok());
  EXPECT_FALSE(family.ScheduleFrom("").ok());
}

}  // namespace
}  // namespace sinter
