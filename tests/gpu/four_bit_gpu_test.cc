// Products that unpack weights of four bits: every form of codes, ragged columns, K split among
// slices and blocks, ends of products, and every bucket of rows, against the float64 reference.
#include "src/normal/normal_form.h"
#include "tests/gpu/gpu_tests.h"
#include "tests/support/read_chain.h"

namespace sinter::gpu_testing::four_bits {
namespace {

constexpr size_t kPlans = 3;  // of each chain and bucket
// Zeros are not whole numbers: the difference of a code and its zero is rounded too
// (docs/four-bit.md).
constexpr Bounds kOfZeros = {8e-3, 0.05};

class FourBits : public GpuTest {
 protected:
  // `bounds`: of results; none: the bounds of their dtype.
  void Expect(const std::string& line, const std::vector<int64_t>& buckets = {8, 16, 32},
              const std::optional<Bounds>& bounds = std::nullopt) {
    SCOPED_TRACE(line);
    const auto whole = std::make_shared<const Chain>(ParseProblem(line)->chain);
    const auto chain = Got(NormalFormOf(whole))->chain;
    for (const int64_t bucket : buckets) {
      const FusionResult result = Got(PlanChain(*chain, bucket, ports().model, {}));
      std::vector<Plan> plans = {result.chosen};
      plans.insert(plans.end(), result.alternatives.begin(), result.alternatives.end());
      size_t count = 0;
      for (const Plan& plan : plans) {
        if (!plan.absorbed.four_bits || ++count > kPlans) continue;
        SCOPED_TRACE(plan.ToText());
        const auto loaded = Got(BuildPlan(ports(), chain, plan));
        auto data = Got(DeviceChain::Make(ports(), *chain, bucket, 5));
        if (bounds.has_value()) {
          data = Got(DeviceChain::Make(ports(), *chain, bucket, data->inputs(), *bounds));
        }
        ExpectRows(*data, loaded, {bucket, bucket / 2 + 1, int64_t{1}});
      }
      EXPECT_GT(count, 0u) << "no plan unpacks weights of four bits, bucket " << bucket;
    }
  }
};

TEST_F(FourBits, ProductsOfEveryFormEqualTheReference) {
  for (const char* dtype : {"bf16", "f16"}) {
    for (const char* format : {"group=128", "group=64 zeros=1", "group=32 codes=e2m1"}) {
      for (const char* sizes : {"n=203 k=1280", "n=1024 k=4096"}) {
        Expect(absl::StrCat("four_bit_matmul m=M ", sizes, " ", format, " dtype=", dtype,
                            " bias1=1 act=silu"));
      }
    }
  }
}

TEST_F(FourBits, PackedProductsOfEveryFormEqualTheReference) {
  for (const char* dtype : {"bf16", "f16"}) {
    for (const char* format : {"group=64", "group=64 zeros=1", "group=32 codes=e2m1"}) {
      // Tiles beyond the last column, and slices beyond the end of K.
      Expect(absl::StrCat("four_bit_matmul m=M packed=1 n=192 k=1344 ", format, " dtype=", dtype,
                          " bias1=1 act=silu"),
             {8, 16, 32, 64, 200});
    }
  }
  Expect("four_bit_matmul m=M packed=1 n=320 k=2048 group=128", {8, 64});
  Expect("four_bit_gated_ffn m=M packed=1 n=512 k=1024 l=320 act=silu group=128", {8, 32, 64});
  Expect("four_bit_gated_ffn m=M packed=1 n=512 k=1024 l=320 act=silu group=32 zeros=1", {16, 64},
         kOfZeros);
}

// Every format, in as many sets of columns and groups as do not fill a block of threads.
TEST_F(FourBits, PackingsEqualTheReference) {
  for (const char* text : {
           "w: const s8[192,48]; scale: const bf16[192,3]; "
           "out pack_codes(w, rows), pack_scales(scale, rows)",
           "w: const s8[192,48]; zero: const s8[24,12]; out "
           "pack_codes(w, compressed_tensors), bf16(pack_zeros(zero, compressed_tensors))",
           "w: const s8[96,96]; zero: const s8[3,96]; out "
           "pack_codes(w, awq), f16(pack_zeros(zero, awq))",
           "w: const s8[12,768]; zero: const s8[3,96]; out "
           "pack_codes(w, gptq), bf16(pack_zeros(zero, gptq))",
           "power: const s8[192,3]; finite = s8(max(f32(power), 0)); "  // no NaN is compared
           "out pack_scales(bf16(dequantize_e8m0(finite)), rows)",
       }) {
    SCOPED_TRACE(text);
    const auto whole = std::make_shared<const Chain>(ReadChain(text));
    const auto chain = Got(NormalFormOf(whole))->chain;
    const FusionResult result = Got(PlanChain(*chain, 1, ports().model, {}));
    std::vector<Plan> plans = {result.chosen};
    for (size_t i = 0; i < std::min(result.alternatives.size(), kPlans - 1); ++i) {
      plans.push_back(result.alternatives[i]);
    }
    for (const Plan& plan : plans) {
      SCOPED_TRACE(plan.ToText());
      const auto loaded = Got(BuildPlan(ports(), chain, plan));
      const auto data = Got(DeviceChain::Make(ports(), *chain, 1, 5));
      ExpectRows(*data, loaded, {int64_t{1}});
    }
  }
}

// Every format and order, ragged columns and K, one expert with all rows and many with few.
TEST_F(FourBits, ExpertsEqualTheReference) {
  for (const char* sizes :
       {"experts=8 top=2 n=256 k=1280 l=200 order=gate_up",
        "experts=60 top=4 n=128 k=384 l=352 order=interleaved bias1=1 bias2=1"}) {
    const std::string line = absl::StrCat("four_bit_grouped_gated_ffn m=M act=silu ", sizes);
    Expect(absl::StrCat(line, " group=128"), {8, 32});
    Expect(absl::StrCat(line, " group=32 codes=e2m1"), {8, 32});
    Expect(absl::StrCat(line, " group=32 zeros=1"), {16}, kOfZeros);
  }
  // K ends within the 64 of a lane.
  Expect(
      "four_bit_grouped_gated_ffn m=M experts=6 top=3 n=160 k=1248 l=96 act=silu group=32 zeros=1",
      {16}, kOfZeros);
  Expect(
      "four_bit_grouped_gated_ffn m=M experts=1 top=1 n=128 k=512 l=128 act=gelu_tanh group=64 "
      "dtype=f16",
      {32, 200});
}

TEST_F(FourBits, GatedFfnsEqualTheReference) {
  Expect("four_bit_gated_ffn m=M n=512 k=1024 l=328 act=silu group=128");
  Expect("four_bit_gated_ffn m=M n=512 k=1024 l=328 act=gelu_tanh group=32 codes=e2m1 dtype=f16");
}

}  // namespace
}  // namespace sinter::gpu_testing::four_bits
