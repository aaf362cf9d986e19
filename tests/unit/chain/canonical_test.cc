// The canonical form: what it forgets, what it keeps, and the way back from its bytes.
#include "tests/support/damage.h"
#include "tests/support/read_chain.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

TEST(Canonical, ForgetsNamesAndTheCallersOrderButKeepsThePermutation) {
  const Chain first = ReadChain("x: f32[M,8]; y: f32[M,8]; out x - y"),
              second = ReadChain("other: f32[M,8]; x: f32[M,8]; out x - other");
  EXPECT_EQ(first.CanonicalBytes(), second.CanonicalBytes());
  EXPECT_EQ(first.CanonicalDigest(), second.CanonicalDigest());
  EXPECT_EQ(first.InputOrder(), (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(second.InputOrder(), (std::vector<int32_t>{1, 0}));
  EXPECT_EQ(second.CallerOrder(), (std::vector<int32_t>{1, 0}));
  EXPECT_EQ(second.InputName(0), "other");
}

TEST(Canonical, CallerOrderInvertsInputOrder) {
  const Chain chain = ReadChain("p: f32[M,8]; q: f32[M,8]; r: f32[M,8]; out r + p + q");
  EXPECT_EQ(chain.InputOrder(), (std::vector<int32_t>{2, 0, 1}));
  EXPECT_EQ(chain.CallerOrder(), (std::vector<int32_t>{1, 2, 0}));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(chain.CallerOrder()[chain.InputOrder()[i]], i);
}

TEST(Canonical, ForgetsTheOrderInWhichOpsWereAdded) {
  EXPECT_EQ(ReadChain("x: f32[M,8]; e = exp(x); t = tanh(x); out e * t"),
            ReadChain("x: f32[M,8]; t = tanh(x); e = exp(x); out e * t"));
}

TEST(Canonical, KeepsOperandOrderDuplicatesOutputsAndFlags) {
  const auto bytes_of = [](const char* text) { return ReadChain(text).CanonicalBytes(); };
  const char kPlain[] = "x: f32[M,8]; e = exp(x); t = tanh(e); out e + t";
  EXPECT_EQ(bytes_of(kPlain), bytes_of(kPlain));
  for (const char* other : {"x: f32[M,8]; e = exp(x); t = tanh(e); out t + e",
                            "x: f32[M,8]; e = exp(x); t = tanh(exp(x)); out e + t",
                            "x: const f32[M,8]; e = exp(x); t = tanh(e); out e + t",
                            "x: f32[M,8]; e = exp(x); y = e + tanh(e); out y, y",
                            "x: f32[4,8]; e = exp(x); t = tanh(e); out e + t"}) {
    EXPECT_NE(bytes_of(kPlain), bytes_of(other)) << other;
  }
}

TEST(Canonical, OperandsPrecedeTheirUsers) {
  const Chain chain = *MakeFfnChain({.gated = true,
                                     .n = 16,
                                     .k = 16,
                                     .l = 16,
                                     .act = Activation::kGeluTanh,
                                     .bias1 = true,
                                     .bias2 = true});
  for (size_t id = 0; id < chain.ops().size(); ++id) {
    for (ValueId operand : chain.ops()[id].operands) EXPECT_LT(operand, static_cast<int>(id));
  }
  EXPECT_TRUE(chain.UsesM());
  EXPECT_EQ(chain.MatmulFlops(3), 3 * 3 * 2.0 * 16 * 16);
  // a, gate's weight and bias, up's, down's: depth-first.
  EXPECT_EQ(chain.InputOrder(), (std::vector<int32_t>{0, 1, 3, 2, 4, 5, 6}));
}

TEST(Canonical, AProductOfCodesCountsAsOneAndTellsHowItSums) {
  const auto scaled = [](const char* more) {
    return ParseProblem(std::string("scaled_matmul m=M n=8 k=256") + more)->chain;
  };
  EXPECT_EQ(scaled("").MatmulFlops(3), 2.0 * 3 * 8 * 256);
  EXPECT_THAT(scaled("").ToString(), Not(HasSubstr("accumulate")));
  EXPECT_THAT(scaled(" accumulate=fast").ToString(), HasSubstr(" accumulate=fast : "));
}

Chain EveryFlag() {
  return ReadChain(
      "x: bf16[4,M,8] strides(1*M,1,4*M); cut = x[1:4:2, :, 0:8:3]; "
      "sum = sum(cut, 0, 2, keep); w: f32[1,M,1]; out sum + w over w");
}

TEST(Canonical, ASliceOfOneElementHasOneSpelling) {
  const auto slice = [](int limit, int step) {
    return ReadChain("x: f32[8]; out x[2:$0:$1]", limit, step);
  };
  EXPECT_EQ(slice(3, 1), slice(5, 7));
  EXPECT_FALSE(slice(3, 1) == slice(4, 1));
}

// Sums of 128 of k or fewer are the same in both: one spelling.
TEST(Canonical, FastSumsAreAnotherChainWhereTheyDiffer) {
  const auto make = [](int64_t k, const std::string& accumulate) {
    return ParseProblem("scaled_matmul m=M n=8 k=" + std::to_string(k) +
                        " accumulate=" + accumulate)
        ->chain;
  };
  for (const int64_t k : {128, 144, 4096}) {
    const Chain promoted = make(k, "promoted"), fast = make(k, "fast");
    EXPECT_EQ(promoted == fast, k == 128) << k;
    EXPECT_EQ(promoted.CanonicalDigest() == fast.CanonicalDigest(), k == 128) << k;
    for (const auto& back :
         {ChainFromCanonicalBytes(fast.CanonicalBytes()), ChainFromJson(ChainToJson(fast))}) {
      ASSERT_TRUE(back.ok()) << back.status();
      EXPECT_EQ(*back, fast) << k;
    }
  }
}

TEST(CanonicalBytes, ReadBackAsTheSameChain) {
  const Chain chain = EveryFlag();
  const Chain back = Got(ChainFromCanonicalBytes(chain.CanonicalBytes()));
  EXPECT_EQ(back, chain);
  EXPECT_EQ(back.ops(), chain.ops());
  EXPECT_EQ(back.outputs(), chain.outputs());
}

TEST(CanonicalBytes, DamageIsAnErrorOrAnotherValidChain) {
  const std::string good = EveryFlag().CanonicalBytes();
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(ChainFromCanonicalBytes(good.substr(0, size)).ok()) << size;
  }
  ExpectFlipsRefusedOrKept(good, ChainFromCanonicalBytes,
                           [](const Chain& chain) { return chain.CanonicalBytes(); });
  EXPECT_FALSE(ChainFromCanonicalBytes(good + '\0').ok());
}

}  // namespace
}  // namespace sinter
