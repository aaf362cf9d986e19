// Products that unpack weights of four bits: which products of a chain they are, when planning
// takes them, and what their kernels are asked to do.
#include "src/chain/composites_four_bits.h"
#include "src/fusion/fusion.h"
#include "src/fusion/product_runs.h"
#include "src/normal/normal_form.h"
#include "src/plan/four_bit_family.h"
#include "src/plan/kernel_code.h"
#include "tests/support/damage.h"
#include "tests/support/read_chain.h"
#include "tests/support/refusals.h"

namespace sinter {
namespace {

std::shared_ptr<const Chain> FormOfText(const std::string& line) {
  Problem problem = Got(ParseProblem(line), line);
  return Got(NormalFormOf(std::make_shared<const Chain>(std::move(problem.chain))))->chain;
}

// The products of a chain's runs that unpack weights.
std::vector<FourBitProduct> FoundIn(const Chain& chain) {
  Absorbed absorbed;
  absorbed.four_bits = true;
  std::vector<FourBitProduct> found;
  for (const GraphRun& run : FindProductRuns(chain, 8, nullptr, absorbed).runs) {
    if (run.own.family == &FourBitFamily()) found.push_back(FourBitKernels::Of(run.own));
  }
  return found;
}

bool Unpacks(const Plan& plan) { return plan.absorbed.four_bits; }

Plan PlanOf(const std::string& line, int64_t m) {
  return Got(PlanChain(*FormOfText(line), m, *BuiltinModel("h200"), {}), line).chosen;
}

TEST(FourBitFinder, ReadsBackEveryFormat) {
  for (const char* dtype : {"bf16", "f16"}) {
    for (const int64_t group : {32, 64, 128}) {
      for (const char* rest : {"codes=u4", "codes=u4 zeros=1 bias1=1", "codes=e2m1 act=silu"}) {
        const std::string line = absl::StrCat("four_bit_matmul m=M n=96 k=256 group=", group,
                                              " dtype=", dtype, " ", rest);
        SCOPED_TRACE(line);
        const std::vector<FourBitProduct> found = FoundIn(*FormOfText(line));
        ASSERT_EQ(found.size(), 1u);
        const FourBitWeights& w = found[0].weights;
        const bool zeros = line.find("zeros") != std::string::npos;
        EXPECT_EQ(w.group, group);
        EXPECT_EQ(w.e2m1, line.find("e2m1") != std::string::npos);
        EXPECT_EQ(w.zero, zeros ? FourBitZero::kGroups : FourBitZero::kConstant);
        EXPECT_EQ(w.zero_value, zeros || w.e2m1 ? 0 : 8);
        EXPECT_EQ(w.byte_stride, 128);
        EXPECT_EQ(w.scale_stride, 256 / group);
        EXPECT_TRUE(w.constant);
        EXPECT_EQ(found[0].product.weights.element, w.scale);
      }
    }
  }
}

TEST(FourBitFinder, ReadsBackPackedWeights) {
  for (const char* rest : {"codes=u4", "codes=u4 zeros=1", "codes=e2m1 dtype=f16"}) {
    // As bytes, k / 16 rows of 8 n are n rows of k / 2.
    for (const char* sizes : {"n=192 k=256", "n=64 k=1024"}) {
      const std::string line = absl::StrCat("four_bit_gated_ffn m=M l=64 act=silu packed=1 ",
                                            "group=64 ", sizes, " ", rest);
      SCOPED_TRACE(line);
      const std::vector<FourBitProduct> found = FoundIn(*FormOfText(line));
      ASSERT_EQ(found.size(), 2u);
      const FourBitWeights& w = found[0].weights;
      EXPECT_TRUE(w.packed);
      EXPECT_EQ(w.group, 64);
      EXPECT_EQ(w.byte_stride, 8 * found[0].product.n);
      EXPECT_EQ(w.scale_stride, found[0].product.n);
      EXPECT_EQ(w.HasZeros(), line.find("zeros") != std::string::npos);
    }
  }
}

// Gate and up are parts of one packed matrix, as vLLM has them.
TEST(FourBitFinder, TakesPartsOfAPackedMatrix) {
  const Chain chain = ReadChain(
      "x: bf16[M,128]; gate, up: const s8[8,1024] strides(2048, 1);"
      "of_gate, of_up: const bf16[2,128] strides(256, 1);"
      "g = bf16(dequantize_u4_packed(gate, of_gate, scalar(8)));"
      "u = bf16(dequantize_u4_packed(up, of_up, scalar(8)));"
      "out bf16(silu(x @ g.T) * (x @ u.T))");
  const std::vector<FourBitProduct> found =
      FoundIn(*Got(NormalFormOf(std::make_shared<const Chain>(chain)))->chain);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].product.pair);
  EXPECT_EQ(found[0].weights.byte_stride, 2048);
  EXPECT_EQ(found[0].weights.scale_stride, 256);
}

TEST(FourBitFinder, TakesThePairAndTheProductOfAnFfn) {
  const std::vector<FourBitProduct> found =
      FoundIn(*FormOfText("four_bit_gated_ffn m=M n=256 k=128 l=96 act=silu group=64 zeros=1"));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_TRUE(found[0].product.pair);
  EXPECT_EQ(found[0].product.epilogue.activation(), Activation::kSilu);
  EXPECT_FALSE(found[1].product.pair);
  EXPECT_EQ(found[1].product.k, 256);
}

// A product whose scales and zero have the given types, and whose weights may be another multiple.
Chain OwnChain(const char* scale_type, bool zero_in_memory, bool also_given, double low_factor) {
  return ReadChain(
      "x: bf16[M,128]; w: s8[48,64]; scale: $0[48,4]; matrix = bf16(dequantize_u4(w, scale, $1) "
      "$2);"
      "out bf16(x @ matrix.T) $3",
      scale_type, zero_in_memory ? "{f32[]}" : "7.5",
      low_factor == 1 ? "" : absl::StrCat("* ", low_factor), also_given ? ", matrix" : "");
}

TEST(FourBitFinder, TakesOtherScalesAndZerosButNoOtherArithmetic) {
  const auto found = [](const Chain& chain) {
    return FoundIn(*Got(NormalFormOf(std::make_shared<const Chain>(chain)))->chain);
  };
  const std::vector<FourBitProduct> wide = found(OwnChain("f32", false, false, 1));
  ASSERT_EQ(wide.size(), 1u);
  EXPECT_EQ(wide[0].weights.zero_value, 7.5);
  EXPECT_EQ(FormOf(wide[0].weights, DType::kBF16), 3);  // in f32
  const std::vector<FourBitProduct> number = found(OwnChain("bf16", true, false, 1));
  ASSERT_EQ(number.size(), 1u);
  EXPECT_EQ(number[0].weights.zero, FourBitZero::kNumber);
  EXPECT_EQ(FormOf(number[0].weights, DType::kBF16), 3);
  EXPECT_EQ(FormOf(found(OwnChain("bf16", false, false, 1)).at(0).weights, DType::kBF16), 1);
  // The matrix is an output too, or twice the composite.
  EXPECT_TRUE(found(OwnChain("bf16", false, true, 1)).empty());
  EXPECT_TRUE(found(OwnChain("bf16", false, false, 2)).empty());
}

TEST(FourBitPlans, FewRowsAreOneKernelAndManyAreNot) {
  for (const char* line : {"four_bit_matmul m=M n=4096 k=4096 group=128",
                           "four_bit_matmul m=M n=28672 k=4096 group=128 zeros=1",
                           "four_bit_matmul m=M n=4096 k=14336 group=32 codes=e2m1"}) {
    for (const int64_t m : {1, 16}) {
      const Plan plan = PlanOf(line, m);
      EXPECT_TRUE(Unpacks(plan)) << plan.ToText();
      EXPECT_EQ(plan.kernels.size(), 1u);
    }
    EXPECT_FALSE(Unpacks(PlanOf(line, 256))) << line;
  }
  const Plan ffn = PlanOf("four_bit_gated_ffn m=M n=14336 k=4096 l=4096 act=silu group=128", 8);
  EXPECT_TRUE(Unpacks(ffn)) << ffn.ToText();
  EXPECT_EQ(ffn.kernels.size(), 2u);
}

TEST(FourBitPlans, PackedWeightsServeAnyNumberOfRows) {
  const char* const line = "four_bit_matmul m=M n=4096 k=4096 group=128 packed=1 bias1=1";
  for (const int64_t m : {1, 40, 64, 65, 512}) {
    const Plan plan = PlanOf(line, m);
    EXPECT_TRUE(Unpacks(plan)) << plan.ToText();
    ASSERT_EQ(plan.kernels.size(), 1u);
    const GeneratedKernel made = Got(Generate(plan.kernels[0].spec, *BuiltinModel("h200")));
    EXPECT_OK(made.recipe.Check());
    EXPECT_EQ(made.recipe.tensor_maps.size(), 3u);
    EXPECT_THAT(made.request.source, HasSubstr("PackedFourBitProduct<Config>"));
  }
}

TEST(FourBitPlans, ReadBackFromTheirDecisionsAndHaveSources) {
  const DeviceModel model = *BuiltinModel("h200");
  const Plan plan = PlanOf("four_bit_matmul m=M n=200 k=1248 group=32 zeros=1 bias1=1 act=silu", 8);
  ASSERT_TRUE(Unpacks(plan)) << plan.ToText();
  EXPECT_TRUE(Got(DecodeDecisions(EncodeDecisions(DecisionsOf(plan)))).absorbed.four_bits);
  const GeneratedKernel made = Got(Generate(plan.kernels[0].spec, model));
  EXPECT_OK(made.recipe.Check());
  EXPECT_EQ(made.recipe.tensor_maps.size(), 1u);
  EXPECT_THAT(made.request.source, HasSubstr("kForm = 1"));
  // Rows, bytes, scales, zeros, bias and the result are buffers of the chain.
  const auto& places = FourBitKernels::Of(plan.kernels[0].spec).places;
  ASSERT_EQ(places.size(), 6u);
  for (const BufferPlace& place : places) EXPECT_NE(place.buffer, kWorkspaceBuffer);
}

TEST(FourBitPlans, BatchInvariantPlansHaveNone) {
  FusionOptions options;
  options.batch_invariant = true;
  const auto chain = FormOfText("four_bit_matmul m=M n=4096 k=4096 group=128");
  EXPECT_FALSE(Unpacks(Got(PlanChain(*chain, 8, *BuiltinModel("h200"), options)).chosen));
}

FourBitProduct Sample() {
  return FoundIn(*FormOfText("four_bit_matmul m=M n=4096 k=14336 group=128 bias1=1")).at(0);
}

constexpr char kRefused[] = "tests/unit/four_bit/refused.txt";

TEST(FourBitSearch, OffersLegalSchedulesOfEnoughRows) {
  const DeviceModel model = *BuiltinModel("h200");
  const FourBitProduct p = Sample();
  for (const int64_t bucket : {1, 8, 9, 16, 32}) {
    const std::vector<RankedFourBit> ranked = SearchFourBit(p, bucket, model);
    ASSERT_FALSE(ranked.empty());
    for (const RankedFourBit& one : ranked) {
      EXPECT_OK(CheckSchedule(p, one.schedule, model));
      EXPECT_GE(one.schedule.block_m, bucket);
    }
  }
  EXPECT_TRUE(SearchFourBit(p, 33, model).empty());
}

TEST(FourBitSearch, OffersSchedulesOfPackedWeights) {
  const DeviceModel model = *BuiltinModel("h200");
  const FourBitProduct p =
      FoundIn(*FormOfText("four_bit_matmul m=M n=4096 k=14336 group=32 packed=1 zeros=1")).at(0);
  for (const int64_t bucket : {1, 16, 32, 64, 65, 512}) {
    const std::vector<RankedFourBit> ranked = SearchFourBit(p, bucket, model);
    ASSERT_FALSE(ranked.empty()) << bucket;
    for (const RankedFourBit& one : ranked) {
      EXPECT_OK(CheckSchedule(p, one.schedule, model));
      EXPECT_GE(one.schedule.block_m * one.schedule.grid / BlocksOf(p, one.schedule), bucket);
    }
  }
  const FourBitSchedule best = SearchFourBit(p, 64, model).front().schedule;
  ExpectRefusedSchedules(kRefused, "packed schedules", p, best, model);
  EXPECT_TRUE(Says(PredictSchedule(p, best, 65, model).status(), "must be at least the rows, 65"));
}

TEST(FourBitSearch, RefusalsOfPackedWeightsNameFieldValueAndBound) {
  const FourBitProduct p =
      FoundIn(*FormOfText("four_bit_matmul m=M n=128 k=256 group=128 packed=1 zeros=1")).at(0);
  ExpectRefusedChanges(kRefused, "packed weights", p, CheckFourBitProduct);
}

TEST(FourBitSearch, RefusalsNameFieldValueAndBound) {
  const DeviceModel model = *BuiltinModel("h200");
  const FourBitProduct p = Sample();
  ExpectRefusedSchedules(kRefused, "schedules", p, SearchFourBit(p, 8, model).front().schedule,
                         model);
  ExpectRefusedChanges(kRefused, "weights", p, CheckFourBitProduct);
}

TEST(FourBitProducts, BytesReadBackAndDamageIsRefused) { ExpectBytesReadBack(Sample()); }

}  // namespace
}  // namespace sinter
