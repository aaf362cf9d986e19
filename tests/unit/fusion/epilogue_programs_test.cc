// Every element-wise op after a GEMM belongs to its kernel: the number of kernels of a plan, and
// that they compute the chain.
#include "tests/support/epilogue_chains.h"
#include "tests/support/header_digests.h"
#include "tests/support/product_in.h"
#include "tests/unit/fusion/fusion_tests.h"
#include "tests/unit/fusion/stitch/plan_interpreter.h"

namespace sinter {
namespace {

using testing::EpilogueChain;

constexpr int64_t kBucket = 32;

// Every plan of the chain computes it, and reads back from its record; its sources are made.
// `computed`: also by the interpreter, which has no convolutions and no codes.
void ExpectPlansOf(const Chain& chain, size_t most_kernels, bool computed = true) {
  const DeviceModel model = H200();
  const FusionResult result = Got(PlanChain(chain, kBucket, model, {}));
  EXPECT_LE(result.chosen.kernels.size(), most_kernels) << result.chosen.ToText();
  for (const Plan& plan : testing::AllPlans(result)) {
    SCOPED_TRACE(plan.ToText());
    if (computed) {
      EXPECT_LT(testing::WorstError(chain, plan, 23, 3), 0.02);
    }
    EXPECT_EQ(Got(testing::Reassembled(plan, chain, model)).PlanDigest(), plan.PlanDigest());
    for (const PlannedKernel& kernel : plan.kernels) {
      const GeneratedKernel made = Got(Generate(kernel.spec, model));
    }
  }
}

TEST(EpiloguePrograms, AreOneKernelWithTheirProduct) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    for (const DType bias : {dtype, DType::kF32}) {
      for (const DType result : {dtype, DType::kF32}) {
        for (const EpilogueChain& c : testing::ProductEpilogues({dtype, bias, result})) {
          SCOPED_TRACE(absl::StrCat(c.name, " ", NameOf(dtype), " bias ", NameOf(bias), " result ",
                                    NameOf(result)));
          ExpectPlansOf(c.chain, 1);
        }
      }
    }
  }
}

// The matrices include an f32 residual. The GEMMs have 16-bit operands or codes; some are gate/up
// pairs or convolutions.
TEST(EpiloguePrograms, ReadMatricesOfAnyElement) {
  for (const testing::EpilogueTypes& types : testing::kMatrixTypes) {
    for (const EpilogueChain& c : testing::MatrixEpilogues(types)) {
      SCOPED_TRACE(absl::StrCat(c.name, " ", NameOf(types.dtype), " result ", NameOf(types.result),
                                " matrix ", NameOf(*types.matrix)));
      ExpectPlansOf(c.chain, 1, c.name != "convolution" && c.name != "e4m3" && c.name != "s8");
    }
  }
}

// A program uses the device library's SiLU and GELU in every position: as the only op, which is a
// form, together with other ops, and after a matrix.
TEST(EpiloguePrograms, HaveTheActivationsOfForms) {
  const struct {
    const char *activation, *narrow, *f32;
  } kCases[] = {{"silu", "Silu", "SiluF32"},
                {"gelu_erf", "GeluErf", "GeluErfF32"},
                {"gelu_tanh", "GeluTanh", "GeluTanhF32"}};
  const auto source_of = [](const char* activation, DType result, bool sum, bool columns) {
    const Chain chain = ReadChain(
        "x: bf16[M,64]; w: bf16[96,64]; y = activation(x @ w.T$0, $1); out $2(y$3)",
        sum ? " + {f32[M,96]}" : "", activation, result == DType::kF32 ? "" : NameOf(result),
        columns ? " + spread({f32[96]}, y)" : "");
    const auto plans = Got(PlanChain(chain, kBucket, H200(), {}));
    EXPECT_EQ(plans.chosen.kernels.size(), 1u) << plans.chosen.ToText();
    return Generate(plans.chosen.kernels[0].spec, H200())->request.source;
  };
  for (const auto& c : kCases) {
    for (const DType result : {DType::kBF16, DType::kF32}) {
      const std::string name = result == DType::kF32 ? c.f32 : c.narrow;
      SCOPED_TRACE(name);
      const std::string alone = source_of(c.activation, result, false, false);
      EXPECT_THAT(alone, HasSubstr(absl::StrCat("using Activation = ", name, ";")));
      for (const bool sum : {false, true}) {
        const std::string whole = source_of(c.activation, result, sum, true);
        const std::string source = whole.substr(whole.find("struct Program1"));
        EXPECT_NE(source.find(absl::StrCat(" = ", name, "::apply(")), std::string::npos) << source;
        EXPECT_THAT(source, Not(HasSubstr("sigmoid")));
        EXPECT_EQ(source.find("erf("), std::string::npos) << source;
        EXPECT_EQ(source.find("tanh("), std::string::npos) << source;
      }
    }
  }
}

// The inputs of a second, f32 result do not change the precision of the first.
TEST(EpiloguePrograms, HaveTheActivationOfWhatIsStored) {
  const auto plans =
      Got(PlanChain(ReadChain("x: bf16[M,64]; w: bf16[96,64]; h = x @ w.T; out h, bf16(silu(h))"),
                    kBucket, H200(), {}));
  ASSERT_EQ(plans.chosen.kernels.size(), 1u) << plans.chosen.ToText();
  const std::string source = Generate(plans.chosen.kernels[0].spec, H200())->request.source;
  EXPECT_NE(source.find(" = Silu::apply("), std::string::npos) << source;
}

TEST(EpiloguePrograms, TakeGateAndUp) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    for (const EpilogueChain& c : testing::PairEpilogues({dtype, DType::kF32, dtype})) {
      SCOPED_TRACE(absl::StrCat(c.name, " ", NameOf(dtype)));
      ExpectPlansOf(c.chain, 1);
    }
  }
}

TEST(EpiloguePrograms, StoreWhatWasActivatedBesideTheResult) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    for (const DType result : {dtype, DType::kF32}) {
      for (const EpilogueChain& c : testing::AuxEpilogues({dtype, DType::kF32, result})) {
        SCOPED_TRACE(absl::StrCat(c.name, " ", NameOf(dtype), " result ", NameOf(result)));
        ExpectPlansOf(c.chain, 1);
      }
    }
  }
  for (const EpilogueChain& c : testing::AuxEpilogues(testing::kMatrixTypes[0])) {
    SCOPED_TRACE(absl::StrCat(c.name, " beside a matrix of f32"));
    ExpectPlansOf(c.chain, 1);
  }
  for (const EpilogueChain& c : testing::OtherEpilogues(true)) {
    SCOPED_TRACE(c.name);
    ExpectPlansOf(c.chain, 1, false);
  }
}

TEST(EpiloguePrograms, AreOneKernelWithAConvolutionOrAProductOfCodes) {
  for (const EpilogueChain& c : testing::OtherEpilogues()) {
    SCOPED_TRACE(c.name);
    ExpectPlansOf(c.chain, 1, false);
  }
}

TEST(EpiloguePrograms, StandInKernelsOfTwoProducts) {
  for (const EpilogueChain& c :
       testing::FusedEpilogues({DType::kBF16, DType::kBF16, DType::kBF16})) {
    SCOPED_TRACE(c.name);
    ExpectPlansOf(c.chain, 2);
    const auto plans = Got(PlanChain(c.chain, kBucket, H200(), {}));
    bool fused = false;
    for (const Plan& plan : testing::AllPlans(plans)) {
      if (plan.kernels.size() != 1) continue;
      fused = true;
      const GeneratedKernel made = Got(Generate(plan.kernels[0].spec, H200()));
      if (c.name != "vectors_of_both") continue;
      for (const char* leaves : {"Program1::Leaves leaves1 = {bias1, leaf1};",
                                 "Program2::Leaves leaves2 = {bias2, leaf1_2};"}) {
        EXPECT_THAT(made.request.source, HasSubstr(leaves));
      }
    }
    EXPECT_TRUE(fused) << plans.chosen.note;
  }
}

// A kernel's key holds what its program is made of.
TEST(EpiloguePrograms, AreMadeOfHeadersThatKeysKnow) {
  testing::HeaderMap changed = testing::DeviceHeaderMap();
  changed["stitch/math.cuh"] = absl::string_view("#pragma once\n");
  const auto before = DeviceHeadersDigest();
  const auto behind = DeviceHeadersDigest(testing::DigestOfReached(changed));
  for (const EpilogueChain& c :
       testing::ProductEpilogues({DType::kBF16, DType::kBF16, DType::kBF16})) {
    KernelSpec spec = Got(PlanChain(c.chain, kBucket, H200(), {})).chosen.kernels[0].spec;
    EXPECT_NE(before(spec), behind(spec)) << c.name;
    ProductIn(&spec).sequence.products[0].epilogue.program = {};
    EXPECT_EQ(before(spec), behind(spec)) << c.name;
  }
}

// The library's own kernels have no programs: until one is compiled, what a program would do is
// another stand-in's.
TEST(EpiloguePrograms, AreApartFromStandIns) {
  FusionOptions options{.stand_ins = true};
  for (const EpilogueChain& c :
       testing::ProductEpilogues({DType::kBF16, DType::kBF16, DType::kBF16})) {
    if (c.name != "silu_behind_a_rounding") continue;
    const auto plans = Got(PlanChain(c.chain, kBucket, H200(), options));
    EXPECT_EQ(plans.chosen.kernels.size(), 2u) << plans.chosen.ToText();
    EXPECT_TRUE(plans.chosen.IsStandIn());
    EXPECT_LT(testing::WorstError(c.chain, plans.chosen, 23, 3), 0.02);
  }
}

// An activation whose residual another kernel computes, of a cast that changes nothing.
TEST(EpiloguePrograms, AMatrixMayBeAnotherKernelsResult) {
  ExpectPlansOf(
      ReadChain(
          "x, z: bf16[M,64]; h = bf16(x + z); "
          "centred = f32(h) - spread(mean(f32(h), 1, keep), h); a = bf16(centred); "
          "w: const bf16[128,64]; c = bf16(tanh(a @ w.T)); v: const bf16[64,128]; y = c @ v.T; "
          "out bf16(h * sigmoid(y))"),
      3);
}

}  // namespace
}  // namespace sinter
