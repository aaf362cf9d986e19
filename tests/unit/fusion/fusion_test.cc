
#include "src/product/sequence.h"
#include "tests/unit/fusion/fusion_tests.h"

namespace sinter {
namespace {

using testing::AllPlans;

FfnSpec S8() {
  return FfnSpec{.gated = true, .n = 3072, .k = 1024, .l = 768, .act = Activation::kSilu};
}

const Plan* Named(const std::vector<Plan>& plans, absl::string_view name) {
  const auto it =
      std::find_if(plans.begin(), plans.end(), [&](const Plan& p) { return p.name() == name; });
  return it == plans.end() ? nullptr : &*it;
}

TEST(PlanChain, GivesCompleteFusedAndUnfusedPlansOfAGatedFfn) {
  const Chain chain = *MakeFfnChain(S8());
  const auto result = Got(PlanChain(chain, 128, H200(), {}));
  const std::vector<Plan> plans = AllPlans(result);
  const Plan *fused = Named(plans, "fused"), *unfused = Named(plans, "unfused");
  ASSERT_NE(fused, nullptr);
  ASSERT_NE(unfused, nullptr);
  EXPECT_EQ(fused->kernels.size(), 1u);
  EXPECT_EQ(unfused->kernels.size(), 2u);
  EXPECT_GT(result.considered, result.legal);
  EXPECT_GT(result.legal, 100u);
  for (const Plan& plan : plans) {
    EXPECT_LE(result.chosen.PredictedUs(), plan.PredictedUs());
    const auto back = Got(testing::Reassembled(plan, chain), plan.ToText());
    EXPECT_TRUE(back.PlanDigest() == plan.PlanDigest());
    for (const PlannedKernel& k : plan.kernels) {
      EXPECT_TRUE(
          CheckSchedule(ProductOf(k.spec).sequence, ProductOf(k.spec).schedule, H200()).ok());
    }
  }
}

// In words that readers know, whatever choice gives the plan.
TEST(PlanChain, SaysHowFarAPlanIsFused) {
  const auto fusion = [](const char* line, absl::string_view choice) {
    const auto result = Got(PlanChain(ParseProblem(line)->chain, 128, H200(), {}), line);
    const std::vector<Plan> plans = AllPlans(result);
    const Plan* const plan = Named(plans, choice);
    return std::string(plan == nullptr ? "none" : plan->Fusion());
  };
  const char* const ffn = "gated_ffn m=M n=3072 k=1024 l=768 act=silu";
  EXPECT_EQ(fusion(ffn, "fused"), "fused");
  EXPECT_EQ(fusion(ffn, "unfused"),
            "partly fused");  // a kernel for each product, one with the gate
  EXPECT_EQ(fusion("matmul m=M n=512 k=512 act=silu bias1=1", "unfused"), "fused");
  EXPECT_EQ(fusion("products m=M k=512 n=512,512", "unfused"), "unfused");
  EXPECT_EQ(fusion("softmax rows=M cols=512", "fused"), "fused");
  EXPECT_EQ(fusion("softmax rows=M cols=512", "unfused"), "unfused");
}

TEST(PlanChain, SaysThatAWeightOfCodesIsDequantizedInEachCall) {
  for (const bool constant : {true, false}) {
    const Chain chain = ReadChain("x: bf16[M,512]; w: $0 s8[256,512]; out bf16(x @ bf16(w).T)",
                                  constant ? "const" : "");
    const auto result = Got(PlanChain(chain, 128, H200(), {}));
    const std::string note = "dequantizes a constant to bf16[256,512] in each call: scaled_matmul";
    EXPECT_EQ(absl::StrContains(result.chosen.note, note), constant) << result.chosen.note;
  }
}

TEST(PlanChain, BindsCanonicalInputsOutputsAndStrides) {
  FfnSpec spec = S8();
  spec.bias1 = spec.bias2 = true;
  const Chain chain = *MakeFfnChain(spec);
  const auto result = Got(PlanChain(chain, 128, H200(), {}));
  const std::vector<Plan> plans = AllPlans(result);
  const KernelSpec& fused = Named(plans, "fused")->kernels[0].spec;
  ASSERT_EQ(chain.num_inputs(), 7);
  int seen = 0;
  for (Role role : std::vector<Role>{Role::kA, Role::kW, Role::kWUp, Role::kBias, Role::kBiasUp,
                                     Role(Role::kW, 1), Role(Role::kBias, 1)}) {
    const OperandBinding* b = FindOperand(ProductOf(fused).operands, role);
    ASSERT_NE(b, nullptr) << FieldOf(role);
    seen |= 1 << b->buffer;
  }
  EXPECT_EQ(seen, 0x7f) << "each input once";
  EXPECT_EQ(FindOperand(ProductOf(fused).operands, Role::kA)->row_stride, 1024);
  EXPECT_EQ(FindOperand(ProductOf(fused).operands, Role::kWUp)->row_stride, 1024);
  EXPECT_EQ(FindOperand(ProductOf(fused).operands, Role(Role::kW, 1))->row_stride, 3072);
  EXPECT_EQ(FindOperand(ProductOf(fused).operands, Role(Role::kBias, 1))->row_stride, 0);
  EXPECT_EQ(FindOperand(ProductOf(fused).operands, Role::kOut)->buffer, 7);
  EXPECT_EQ(FindOperand(ProductOf(fused).operands, Role::kOut)->row_stride, 768);

  const Plan& unfused = *Named(plans, "unfused");
  const KernelSpec &one = unfused.kernels[0].spec, &two = unfused.kernels[1].spec;
  EXPECT_EQ(one.family, &ProductFamily());
  EXPECT_EQ(FindOperand(ProductOf(one).operands, Role::kOut)->buffer, kWorkspaceBuffer);
  EXPECT_TRUE(FindOperand(ProductOf(two).operands, Role::kA)->offset_bytes ==
              FindOperand(ProductOf(one).operands, Role::kOut)->offset_bytes);
  EXPECT_EQ(FindOperand(ProductOf(two).operands, Role::kA)->row_stride, 3072);
  EXPECT_EQ(FindOperand(ProductOf(two).operands, Role::kW)->buffer,
            FindOperand(ProductOf(fused).operands, Role(Role::kW, 1))->buffer);
  EXPECT_EQ(FindOperand(ProductOf(two).operands, Role::kBias)->buffer,
            FindOperand(ProductOf(fused).operands, Role(Role::kBias, 1))->buffer);
  EXPECT_TRUE(ProductOf(two).sequence[0].epilogue.bias().has_value());
  EXPECT_EQ(FindOperand(ProductOf(two).operands, Role::kOut)->buffer, 7);
  EXPECT_GE(FindOperand(ProductOf(one).operands, Role::kOut)->offset_bytes, kWorkspaceFlagBytes);
  EXPECT_GE(unfused.workspace_bytes, kWorkspaceFlagBytes + 128 * 3072 * 2);
}

TEST(PlanChain, TakesRowStridesFromTheChain) {
  const Chain chain = ReadChain(
      "x: bf16[M,512] strides(640, 1); w1: const bf16[1024,512]; w2: const bf16[256,1024];"
      "out gemm_chain(x, w1, none, w2, none, relu)");
  const auto result = Got(PlanChain(chain, 64, H200(), {}));
  EXPECT_EQ(FindOperand(ProductOf(result.chosen.kernels[0].spec).operands, Role::kA)->row_stride,
            640);
}

TEST(PlanChain, WeightsThatMayChangeAreSaidSo) {
  const Chain chain = ReadChain(
      "x: bf16[M,512]; w1: bf16[1024,512]; w2: bf16[256,1024];"
      "out gemm_chain(x, w1, none, w2, none, relu)");
  const auto result = Got(PlanChain(chain, 64, H200(), {}));
  EXPECT_FALSE(ProductOf(result.chosen.kernels[0].spec).constant_weights);
  const auto constant = PlanChain(*MakeFfnChain(S8()), 64, H200(), {});
  EXPECT_TRUE(ProductOf(constant->chosen.kernels[0].spec).constant_weights);
}

TEST(PlanChain, OneProductRunsUnfusedAndSaysWhy) {
  for (bool gated : {false, true}) {
    FfnSpec spec = S8();
    spec.products = 1;
    spec.gated = gated;
    const auto result = Got(PlanChain(*MakeFfnChain(spec), 128, H200(), {}));
    EXPECT_FALSE(result.chosen.fused);
    EXPECT_EQ(result.chosen.kernels.size(), 1u);
    EXPECT_EQ(result.chosen.workspace_bytes, 0u);
    EXPECT_THAT(result.chosen.note, HasSubstr("one product"));
  }
}

TEST(PlanChain, RunsUnfusedWhenNoChainScheduleIsLegalAndSaysWhy) {
  FfnSpec spec = S8();
  spec.n = 14336;
  spec.k = spec.l = 4096;
  const auto result =
      Got(PlanChain(*MakeFfnChain(spec), 128, H200(), {.allow_cooperative = false}));
  EXPECT_FALSE(result.chosen.fused);
  EXPECT_THAT(result.chosen.note, HasSubstr("products apart: search: none of"));
  EXPECT_EQ(Named(AllPlans(result), "fused"), nullptr);
}

// A second filter of several taps reads pixels of other tiles.
TEST(PlanChain, WindowsOfAResultRunUnfusedAndSayWhy) {
  for (const char* line :
       {"conv_chain b=1 ic=64 h=14 w=14 oc1=64 oc2=64 k1=1 k2=3 act=relu bias1=1 bias2=1",
        "conv_chain b=1 ic=64 h=14 w=14 oc1=128 oc2=40 k1=3 k2=3 act=relu stride=2"}) {
    const auto result = Got(PlanChain(ParseProblem(line)->chain, 1, H200(), {}));
    EXPECT_FALSE(result.chosen.fused);
    EXPECT_EQ(result.chosen.kernels.size(), 2u);
    EXPECT_THAT(result.chosen.note, HasSubstr("which lie across tiles"));
    EXPECT_EQ(Named(AllPlans(result), "fused"), nullptr);
  }
}

// Filters that have each channel's taps side by side are turned by a kernel where many results read
// them.
TEST(PlanChain, TurnsTheFilterOfADepthwiseConvolutionOfManyImages) {
  const Chain chain = ParseProblem("depthwise_conv b=M ic=672 h=14 w=14 k=5 bias=1")->chain;
  for (const auto& [images, kernels] : {std::pair<int64_t, size_t>{1, 1}, {32, 2}}) {
    EXPECT_EQ(Got(PlanChain(chain, images, H200(), {})).chosen.kernels.size(), kernels) << images;
  }
}

TEST(PlanChain, RefusesWhatNoFamilyTakesWithTheReason) {
  struct Case {
    FfnSpec spec;
    const char* message;
  };
  FfnSpec odd_k = S8(), odd_n = S8(), f32 = S8(), odd_l = S8();
  odd_k.k = 1020;
  odd_n.n = 3068;
  f32.dtype = DType::kF32;
  odd_l.layout = Layout::kIO;
  odd_l.l = 770;
  const Case cases[] = {{odd_k, "its rows are 1020 elements apart, which must be a multiple of 8"},
                        {odd_n, "3068"},
                        {f32, "f32"},
                        {odd_l, "770"}};
  for (const Case& c : cases) {
    const auto chain = Got(MakeFfnChain(c.spec));
    const auto result = PlanChain(chain, 128, H200(), {});
    ASSERT_FALSE(result.ok()) << c.message;
    EXPECT_EQ(StatusNumber(result.status()), static_cast<int>(ErrorCode::kNoLegalPlan));
    EXPECT_TRUE(Says(result, c.message));
  }
}

TEST(PlanChain, RefusesAProductThatNoFamilyTakes) {
  const auto result = PlanChain(ReadChain("x, w: f32[2048,2048]; out x @ w"), 128, H200(), {});
  EXPECT_EQ(StatusNumber(result.status()), static_cast<int>(ErrorCode::kNoLegalPlan));
  EXPECT_TRUE(Says(result, "no kernel family takes this chain"));
}

TEST(PlanChain, RunsScaledProductsOfS8) {
  for (const char* line : {"scaled_matmul m=M n=256 k=272 codes=s8 bias1=1 act=silu",
                           "scaled_matmul m=M n=256 k=256 codes=s8 scales=tensor dtype=f32",
                           "scaled_gated_ffn m=M n=512 k=256 l=384 act=silu codes=s8"}) {
    for (const int64_t m : {1, 40, 300, 4000}) {
      const auto problem = Got(ParseProblem(line));
      const auto result = Got(PlanChain(problem.chain, BucketOf(m), H200(), {}), line);
      for (const PlannedKernel& kernel : result.chosen.kernels) {
        if (StitchOf(kernel.spec) != nullptr) continue;
        EXPECT_EQ(ProductOf(kernel.spec).sequence.element(), DType::kS8);
        EXPECT_TRUE(
            CheckSchedule(ProductOf(kernel.spec).sequence, ProductOf(kernel.spec).schedule, H200())
                .ok());
      }
    }
  }
}

// Only a cast rounds a value computed in 16 bits, also a cast to the same type.
TEST(PlanChain, RoundsWhereAValueIsCastToItsOwnType) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    const auto result = Got(
        PlanChain(ReadChain("x: $0[M,512]; y: $0[M,512]; rounded = $0(x * y); out f32(rounded + x)",
                            NameOf(dtype)),
                  64, H200(), {}));
    ASSERT_EQ(result.chosen.kernels.size(), 1u);
    const auto kernel = Got(Generate(result.chosen.kernels[0].spec, H200()));
    const char* rounds = dtype == DType::kBF16 ? "rounded<ElementBF16>(" : "rounded<ElementF16>(";
    EXPECT_THAT(kernel.request.source, HasSubstr(rounds));
  }
}

TEST(PlanChain, MultipliesComputedRowsThatEndInACastToTheirOwnType) {
  for (const char* result : {"", "bf16"}) {
    for (const char* shared : {"", ", rows"}) {
      const Chain chain =
          ReadChain("g, n: bf16[M,512]; w: bf16[128,512]; rows = bf16(g * n); out $0(rows @ w.T)$1",
                    result, shared);
      const auto planned = Got(PlanChain(chain, 64, H200(), {}));
      EXPECT_EQ(planned.chosen.kernels.size(), 2u) << planned.chosen.ToText();
      EXPECT_TRUE(testing::Reassembled(planned.chosen, chain, H200()).ok());
    }
  }
}

TEST(PlanChain, RefusesS32SumsOfS8ByName) {
  const auto result =
      PlanChain(ReadChain("out f32({s8[256,256]} @ {s8[256,256]}.T)"), 64, H200(), {});
  EXPECT_EQ(StatusNumber(result.status()), static_cast<int>(ErrorCode::kNoLegalPlan));
  for (const char* part :
       {"op 2 (matmul of input 0 and input 1)", "a matmul of s8 gives s32", "by scaled_matmul"}) {
    EXPECT_TRUE(Says(result, part));
  }
}

// A chain of e4m3 a [M, k] and w [256, k] with scales of these types.
Chain ProductOfCodes(int64_t k, const char* scale_a, const char* scale_w) {
  return ReadChain(
      "a: e4m3[M,$0]; w: const e4m3[256,$0]; sa: $1; sw: const $2; out scaled(a, w, sa, sw)", k,
      scale_a, scale_w);
}

TEST(PlanChain, RefusesScalesAndLayoutsOfCodesByName) {
  const std::pair<Chain, const char*> cases[] = {
      {ReadChain("x: e4m3[M,256]; w: const e4m3[256,256]; out x @ transpose(w, 1, 0).T"),
       "layout of weights is io, must be oi for e4m3"},
      {ProductOfCodes(264, "f32[]", "f32[]"),
       "its rows are 264 elements apart, which must be a multiple of 16"},
      {ProductOfCodes(256, "f32[M,2]", "f32[256,2]"), "scale_w is f32[256,2], of e4m3[256,256]"},
      {ProductOfCodes(256, "f32[1,2]", "f32[]"), "scale_a is f32[1,2], of e4m3[M,256]"},
      {ProductOfCodes(256, "f32[M,1] strides(0, 1)", "f32[]"), "strides of scale_a are [0,1]"},
      {ProductOfCodes(256, "f32[M,2] strides(1, 1*M^2)", "f32[]"),
       "strides of scale_a are [1,M^2]"},
      {ProductOfCodes(256, "f32[M,2] strides(1*M, 1)", "f32[]"), "strides of scale_a are [M,1]"},
      {ProductOfCodes(256, "f32[M,2] strides(1, 33554432)", "f32[]"),
       "kernels read strides of 1 to"},
  };
  for (const auto& [chain, message] : cases) {
    const auto result = PlanChain(chain, 64, H200(), {});
    EXPECT_EQ(StatusNumber(result.status()), static_cast<int>(ErrorCode::kNoLegalPlan)) << message;
    EXPECT_TRUE(Says(result, message));
  }
}

// A kernel reads scales in their given layout. Strides that depend on M hold for one launch.
TEST(PlanChain, TakesStridedScalesOfCodes) {
  const auto scales_of = [&](const char* type, int64_t bucket) {
    const Chain chain = ProductOfCodes(256, type, "f32[]");
    auto result = PlanChain(chain, bucket, H200(), {});
    if (!result.ok()) return std::string(result.status().message());
    const KernelSpec& spec = result->chosen.kernels.front().spec;
    EXPECT_TRUE(testing::Reassembled(result->chosen, chain, H200()).ok());
    EXPECT_EQ(FindOperand(ProductOf(spec).operands, Role::kScaleA)->row_stride,
              ScaleRowStride(ProductOf(spec).sequence, Role::kScaleA));
    const auto generated = Got(Generate(spec, H200()));
    return ToString(ProductOf(spec).sequence.front().rows.scales);
  };
  for (const int64_t bucket : {1, 64, 4096}) {
    EXPECT_EQ(scales_of("f32[M,1] strides(3, 1)", bucket), "vector[3]");
    EXPECT_EQ(scales_of("f32[M,2] strides(1, 8192)", bucket), "block 1x128[1,8192]");
    EXPECT_EQ(scales_of("f32[M,2] strides(4, 1)", bucket), "block 1x128[4,1]");
    EXPECT_EQ(scales_of("f32[M,2] strides(1, 1*M)", bucket), "block 1x128[1,M]");
    EXPECT_EQ(scales_of("f32[M,2] strides(2, 1)", bucket), "block 1x128");
  }
  EXPECT_EQ(scales_of("f32[M,2] strides(1, 8192)", 8192), "block 1x128[1,8192]");
  EXPECT_THAT(scales_of("f32[M,2] strides(1, 1*M)", 8192), HasSubstr("in buckets below 8192"));
}

// Launches are cut at the largest bucket of the chain, which another product's many rows lower.
TEST(PlanChain, RefusesScalesByMWhereLaunchesAreCut) {
  const Chain chain = ReadChain(
      "a: e4m3[M,256]; w: const e4m3[256,256]; sa: f32[M,2] strides(1, 1*M); sw: const f32[2,2]; "
      "wide: bf16[M,512,256]; v: const bf16[256,256]; out scaled(a, w, sa, sw), bf16(wide @ v)");
  EXPECT_TRUE(PlanChain(chain, 192, H200(), {}).ok());
  const auto result = PlanChain(chain, 256, H200(), {});
  EXPECT_EQ(StatusNumber(result.status()), static_cast<int>(ErrorCode::kNoLegalPlan));
  EXPECT_TRUE(Says(result, "in buckets below 256"));
}

// Gate and up share a kernel, which quantises too, if the scale is given or one of 128 columns. A
// scale of more columns is known when all blocks are done: its quantiser is stitched.
TEST(PlanChain, RunsFfnsOfCodesInTwoKernelsOrThree) {
  for (const char* scales : {"row quantize=static", "group quantize=group",
                             "row quantize=group ue8m0=1 upper_bound=3"}) {
    for (const int64_t m : {1, 16, 64, 300}) {
      const auto problem = Got(ParseProblem(absl::StrCat(
          "scaled_gated_ffn m=M n=1024 k=512 l=512 act=silu bias1=1 bias2=1 scales=", scales)));
      const auto result = Got(PlanChain(problem.chain, BucketOf(m), H200(), {}), scales);
      const std::vector<PlannedKernel>& kernels = result.chosen.kernels;
      ASSERT_EQ(kernels.size(), 2u) << scales;
      EXPECT_EQ(ProductOf(kernels[0].spec).sequence.front().result, DType::kE4M3);
      EXPECT_EQ(ProductOf(kernels[0].spec).sequence.front().HasGroups(),
                absl::string_view(scales).find("static") == absl::string_view::npos);
      EXPECT_EQ(ProductOf(kernels[1].spec).sequence.front().result, DType::kBF16);
    }
  }
  for (const char* scales : {"tensor quantize=row", "row quantize=row"}) {
    for (const int64_t m : {1, 16, 64, 300}) {
      const auto problem = ParseProblem(absl::StrCat(
          "scaled_gated_ffn m=M n=1024 k=512 l=512 act=silu bias1=1 bias2=1 scales=", scales));
      const auto result = Got(PlanChain(problem->chain, BucketOf(m), H200(), {}), scales);
      const std::vector<PlannedKernel>& kernels = result.chosen.kernels;
      ASSERT_EQ(kernels.size(), 3u) << scales;
      EXPECT_EQ(ProductOf(kernels[0].spec).sequence.front().result, DType::kF32);
      EXPECT_TRUE(ProductOf(kernels[0].spec).sequence.front().pair);
      EXPECT_EQ(kernels[1].spec.family, &StitchFamily());
      EXPECT_EQ(ProductOf(kernels[2].spec).sequence.front().result, DType::kBF16);
    }
  }
}

// Quantizers, without and after a norm: one kernel each if the scale is not of the whole tensor.
TEST(PlanChain, StitchesQuantizers) {
  for (const char* line :
       {"quantize rows=M cols=4096 granularity=static", "quantize rows=M cols=4096 granularity=row",
        "quantize rows=M cols=4096 granularity=group ue8m0=1",
        "quantize rows=M cols=4096 granularity=row codes=s8",
        "rmsnorm_quantize rows=M cols=4096 granularity=row",
        "rmsnorm_quantize rows=M cols=4096 granularity=static"}) {
    for (const int64_t bucket : {1, 64, 4096}) {
      const auto result = Got(PlanChain(ParseProblem(line)->chain, bucket, H200(), {}), line);
      EXPECT_EQ(result.chosen.kernels.size(), 1u) << line << " " << bucket;
    }
  }
  for (const char* line : {"quantize rows=M cols=4096 granularity=tensor",
                           "rmsnorm_quantize rows=M cols=4096 granularity=group"}) {
    const auto result = Got(PlanChain(ParseProblem(line)->chain, 64, H200(), {}), line);
    EXPECT_LE(result.chosen.kernels.size(), 3u) << line;
  }
}

TEST(PlanChain, TakesRaggedOutputColumnsInLayoutOi) {
  FfnSpec spec = S8();
  spec.l = 1001;
  const auto result = Got(PlanChain(*MakeFfnChain(spec), 48, H200(), {}));
  EXPECT_EQ(
      FindOperand(ProductOf(result.chosen.kernels.back().spec).operands, Role::kOut)->row_stride,
      1001);
}

// Plans are a function of the model: what a driver says about resident clusters is not an input, so
// the same model gives the same digest on cards that fit 15 and 14 clusters of 8.
TEST(PlanChain, EqualChainsAndModelsGiveEqualDigests) {
  const DeviceModel again = *DeviceModel::FromText(H200().ToText());
  for (int64_t bucket : {1, 16, 48, 128, 1024}) {
    const auto a = PlanChain(*MakeFfnChain(S8()), bucket, H200(), {});
    const auto b = PlanChain(*MakeFfnChain(S8()), bucket, again, {});
    ASSERT_TRUE(a.ok() && b.ok());
    EXPECT_TRUE(a->chosen.PlanDigest() == b->chosen.PlanDigest());
    EXPECT_EQ(EncodeDecisions(DecisionsOf(a->chosen)), EncodeDecisions(DecisionsOf(b->chosen)));
  }
}

TEST(PlanChain, ListsRunnersUpWithReasons) {
  const auto result = Got(PlanChain(*MakeFfnChain(S8()), 128, H200(), {}));
  ASSERT_GE(result.chosen.runners_up.size(), 3u);
  const Candidate& first = result.chosen.runners_up[0];
  const auto other =
      std::find_if(result.alternatives.begin(), result.alternatives.end(),
                   [&](const Plan& plan) { return plan.PlanDigest() == first.plan; });
  ASSERT_NE(other, result.alternatives.end());
  EXPECT_NE(other->fused, result.chosen.fused);
  EXPECT_EQ(first.name, NameInList(*other));
  for (const Candidate& c : result.chosen.runners_up) {
    EXPECT_THAT(c.name, Not(HasSubstr("unfused")));
    EXPECT_THAT(c.why_not, HasSubstr("predicted"));
  }
}

}  // namespace
}  // namespace sinter
