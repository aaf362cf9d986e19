// What a first user is told of a chain that no kernels take: one prefix, the op once, the names
// that the inputs were given, what is the matter, and the way out.
#include "src/base/refusal.h"

#include <algorithm>
#include <ctime>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <random>
#include <regex>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/base/status.h"
#include "src/chain/builder.h"
#include "src/fusion/fusion.h"
#include "src/fusion/plan_choice.h"
#include "src/normal/normal_form.h"

namespace sinter {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kRows = 64;

Dim Extent(int64_t value) { return value < 0 ? Dim::M() : Dim::Constant(value); }

// Builds a chain; -1 among extents is M.
struct Draft {
  ChainBuilder b;
  ValueId In(const char* name, DType dtype, std::vector<int64_t> extents,
             std::vector<Stride> strides = {}) {
    std::vector<Dim> dims;
    for (const int64_t extent : extents) dims.push_back(Extent(extent));
    return Take(b.Input({dtype, dims}, {false, strides, name}));
  }
  ValueId Product(ValueId x, ValueId w, bool transpose_b = true) {
    return Take(b.Matmul(x, w, false, transpose_b));
  }
  ValueId Cast(ValueId x, DType dtype = DType::kBF16) { return Take(b.Cast(x, dtype)); }
  ValueId Take(const absl::StatusOr<ValueId>& id) {
    EXPECT_TRUE(id.ok()) << id.status();
    return id.value_or(-1);
  }
};

// The number of the op that a message names first; -1: none.
int OpIn(const std::string& message) {
  static const std::regex* const op = new std::regex("\\bop ([0-9]{1,7})\\b");
  std::smatch found;
  return std::regex_search(message, found, *op) ? std::stoi(found[1]) : -1;
}

std::string RefusalOf(const std::function<std::vector<ValueId>(Draft&)>& make) {
  Draft draft;
  for (const ValueId output : make(draft)) EXPECT_TRUE(draft.b.Output(output).ok());
  const absl::StatusOr<Chain> chain = draft.b.Finish();
  EXPECT_TRUE(chain.ok()) << chain.status();
  if (!chain.ok()) return "";
  const absl::StatusOr<FusionResult> planned = PlanChain(*chain, kRows, *BuiltinModel("h200"), {});
  EXPECT_FALSE(planned.ok());
  if (planned.ok()) return "";
  EXPECT_EQ(StatusNumber(planned.status()), static_cast<int32_t>(ErrorCode::kNoLegalPlan));
  EXPECT_EQ(OpOf(planned.status()), OpIn(std::string(planned.status().message())));
  return std::string(planned.status().message());
}

// One product of 'hidden' and 'proj', cast to `result` unless that is f32.
std::string OfProduct(DType rows, std::vector<int64_t> row_dims, DType weights,
                      std::vector<int64_t> weight_dims, DType result = DType::kBF16,
                      bool transpose_b = true, std::vector<Stride> strides = {}) {
  return RefusalOf([&](Draft& d) {
    const ValueId x = d.In("hidden", rows, row_dims),
                  w = d.In("proj", weights, weight_dims, strides);
    const ValueId y = d.Product(x, w, transpose_b);
    return std::vector<ValueId>{result == DType::kF32 ? y : d.Cast(y, result)};
  });
}

constexpr DType kF32 = DType::kF32, kBF16 = DType::kBF16, kF16 = DType::kF16, kS8 = DType::kS8;

TEST(Refusal, NamesTheInputsAndTheWayOut) {
  const std::string head =
      "no kernel family takes this chain: op 2 (matmul of 'hidden' and 'proj'): ";
  const struct {
    std::string message, rest;
  } cases[] = {
      {OfProduct(kF32, {-1, 64}, kF32, {128, 64}, kF32),
       "'hidden' and 'proj' are f32, kernels multiply bf16, f16, e4m3 and s8: give both as bf16, "
       "or "
       "cast 'hidden' and give 'proj' as bf16"},
      {OfProduct(kF32, {-1, 64}, kF32, {128, 64}),
       "'hidden' and 'proj' are f32, kernels multiply bf16, f16, e4m3 and s8: give both as bf16, "
       "or "
       "cast 'hidden' and give 'proj' as bf16"},
      {OfProduct(kF32, {-1, 64}, kBF16, {128, 64}),
       "'hidden' is f32[M,64], 'proj' is bf16[128,64], a product's operands have one dtype: cast "
       "'hidden' to bf16"},
      {OfProduct(kBF16, {-1, 64}, kF32, {128, 64}),
       "'proj' is f32[128,64], kernels multiply bf16, f16, e4m3 and s8: give it as bf16"},
      {OfProduct(kF16, {-1, 64}, kBF16, {128, 64}),
       "'hidden' is f16[M,64], 'proj' is bf16[128,64], a product's operands have one dtype: cast "
       "'hidden' to bf16"},
      {OfProduct(kBF16, {-1, 60}, kBF16, {128, 60}),
       "'hidden' is bf16[M,60], its rows are 60 elements apart, which must be a multiple of 8 (16 "
       "bytes): pad its last dimension to 64"},
      {OfProduct(kBF16, {-1, 64}, kBF16, {64, 129}, kBF16, false),
       "'proj' is bf16[64,129], its rows are 129 elements apart, which must be a multiple of 8 (16 "
       "bytes): pad its last dimension to 136"},
      {OfProduct(kBF16, {-1, 64}, kBF16, {128, 64}, kBF16, true, {{65, 0}, {1, 0}}),
       "'proj' is bf16[128,64], its rows are 65 elements apart, which must be a multiple of 8 (16 "
       "bytes): pad its last dimension in memory to 72"},
      {OfProduct(kBF16, {-1, 64}, kBF16, {128, 64}, kBF16, true, {{130, 0}, {2, 0}}),
       "'proj' is bf16[128,64] with strides [130,2], kernels read rows without gaps: copy it"},
      {OfProduct(kBF16, {8, -1, 64}, kBF16, {128, 64}),
       "'hidden' is bf16[8,M,64], M must be the first dimension: give it with that dimension "
       "first, "
       "or all leading ones as M"},
      {OfProduct(kBF16, {32, -1}, kBF16, {128, -1}),
       "'proj' is bf16[128,M], M may only count rows of the first operand, or what both operands "
       "have "
       "first and the product sums over, by transpose_a: give the extent as a constant, in a chain "
       "for each"},
      {OfProduct(kBF16, {-1, 64}, kBF16, {-1, 64}),
       "'proj' is bf16[M,64], M may only count rows of the first operand, or what both operands "
       "have "
       "first and the product sums over, by transpose_a: give the extent as a constant, in a chain "
       "for each"},
      {OfProduct(kS8, {-1, 64}, kS8, {128, 64}, DType::kS32),
       "a matmul of s8 gives s32, which no kernel of products stores: kernels multiply s8 with "
       "scales, by scaled_matmul"},
  };
  for (const auto& c : cases) EXPECT_EQ(c.message, head + c.rest);
}

TEST(Refusal, NamesAnOperandThatIsComputed) {
  const std::string message = RefusalOf([](Draft& d) {
    const ValueId x = d.In("hidden", kBF16, {-1, 64}), w = d.In("proj", kF32, {128, 64});
    const ValueId mask = d.In("mask", kF32, {128, 64});
    return std::vector<ValueId>{
        d.Cast(d.Product(x, d.Take(d.b.Binary(BinaryKind::kMul, w, mask))))};
  });
  EXPECT_EQ(message,
            "no kernel family takes this chain: op 4 (matmul of 'hidden' and op 3 (mul of 'proj' "
            "and 'mask')): op 3 "
            "(mul) is f32[128,64], kernels multiply bf16, f16, e4m3 and s8: give it as bf16");
}

TEST(Refusal, CountsChannelsOfConvolutionsAndInputsWithoutNames) {
  const std::string message = RefusalOf([](Draft& d) {
    const ValueId x = d.In("", kBF16, {-1, 32, 32, 3}), w = d.In("filter", kBF16, {64, 3, 3, 3});
    return std::vector<ValueId>{d.Cast(d.Take(d.b.Convolve(x, w, {})))};
  });
  EXPECT_EQ(message,
            "no kernel family takes this chain: op 2 (conv2d of input 0 and 'filter'): input 0 is "
            "bf16[M,32,32,3], its rows are 3 elements apart, which must be a multiple of 8 (16 "
            "bytes): pad the channels to 8");
}

TEST(Refusal, NamesWindowsThatNoLoadTakesAndWhatDoes) {
  const auto refusal = [](int64_t extent, int64_t taps, int64_t stride, int64_t dilation) {
    return RefusalOf([&](Draft& d) {
      const ValueId x = d.In("x", kBF16, {-1, extent, extent, 8});
      const ValueId w = d.In("filter", kBF16, {64, taps, taps, 8});
      Conv2d conv;
      conv.strides = {stride, stride};
      conv.dilations = {dilation, dilation};
      return std::vector<ValueId>{d.Cast(d.Take(d.b.Convolve(x, w, conv)))};
    });
  };
  const std::string head = "no kernel family takes this chain: op 2 (conv2d of 'x' and 'filter'): ";
  EXPECT_EQ(refusal(224, 16, 16, 1),
            head +
                "stride 16 is not in [1, 8] (element strides of tensor maps): take the pixels by a "
                "window, reshape them to one axis of 256 taps times channels and multiply them "
                "with the filter as a matrix, which takes two kernels");
  EXPECT_THAT(
      refusal(300, 3, 1, 140),
      HasSubstr(head + "filter reach 280 is not in [0, 255] (offsets of im2col loads): take"));
}

TEST(Refusal, CountsTheChannelsOfAGroup) {
  const std::string message = RefusalOf([](Draft& d) {
    const ValueId x = d.In("x", kBF16, {-1, 8, 8, 36}), w = d.In("filter", kBF16, {72, 3, 3, 12});
    Conv2d conv;
    conv.groups = 3;
    return std::vector<ValueId>{d.Cast(d.Take(d.b.Convolve(x, w, conv)))};
  });
  EXPECT_EQ(message,
            "no kernel family takes this chain: op 2 (conv2d of 'x' and 'filter'): each of 3 "
            "groups has 12 channels of x and 24 of the result, kernels take multiples of 8 of "
            "both, in a group or in 2, 4 or 8 of them that divide the groups: pad the channels of "
            "each group");
}

// Names are the caller's, in whatever order the canonical chain has its inputs.
TEST(Refusal, NamesTheCallersInputs) {
  const std::string message = RefusalOf([](Draft& d) {
    const ValueId w = d.In("proj", kF32, {128, 64}), x = d.In("", kBF16, {-1, 64});
    return std::vector<ValueId>{d.Cast(d.Product(x, w))};
  });
  EXPECT_THAT(message, HasSubstr("(matmul of input 1 and 'proj')"));
  EXPECT_THAT(message, HasSubstr("'proj' is f32[128,64]"));
}

TEST(Refusal, ListsAFewProductsAndCountsTheRest) {
  const std::string message = RefusalOf([](Draft& d) {
    const ValueId x = d.In("hidden", kBF16, {-1, 64});
    std::vector<ValueId> outputs;
    for (int i = 0; i < 5; ++i) {
      const std::string name = absl::StrCat("w", i);
      outputs.push_back(d.Product(x, d.In(name.c_str(), kF32, {128, 64})));
    }
    return outputs;
  });
  for (const char* name : {"'w0' is", "'w1' is", "'w2' is"}) EXPECT_THAT(message, HasSubstr(name));
  EXPECT_THAT(message, Not(HasSubstr("'w3'")));
  EXPECT_THAT(message, HasSubstr("; and 2 more"));
}

// Of every way to be refused: one prefix, the caller's names, the way out.
TEST(Refusal, OfBatchInvariantPlansHasThePrefixTheNamesAndTheWayOut) {
  Draft draft;
  const ValueId x = draft.In("hidden", kF32, {-1, 64});
  ASSERT_TRUE(draft.b.Output(draft.Take(draft.b.Reduce(ReduceKind::kSum, x, {0}, false))).ok());
  const Chain chain = *draft.b.Finish();
  FusionOptions options;
  options.batch_invariant = true;
  const auto refused = [&] {
    return PlanChain(chain, kRows, *BuiltinModel("h200"), options).status();
  };
  EXPECT_EQ(refused().message(),
            "no kernel family takes this chain: batch_invariant: op 1 (reduce) takes all rows of "
            "'hidden', f32[M,64], together: leave batch_invariant off, or compute this op in a "
            "chain without it");
  options.stand_ins = true;
  EXPECT_EQ(refused().message(),
            "no kernel family takes this chain: no stand-in is batch-invariant: leave "
            "batch_invariant off, or prepare where a compiler is");
}

// A chain of a product or two of whatever types, extents, strides and views, which kernels may
// refuse. Its inputs are called 'in0', 'in1', ..
class Oddity {
 public:
  explicit Oddity(uint64_t seed) : engine_(seed) {}

  // No chain where the builder takes none of these ops.
  absl::StatusOr<Chain> Make() {
    const int64_t rows = In(0, 3) > 0 ? -1 : 8 * In(1, 9), k = In(0, 3) > 0 ? 64 : In(1, 99);
    std::vector<int64_t> dims = {rows, k};
    if (In(0, 4) == 0) dims.insert(dims.begin() + In(0, 1), In(1, 4));
    SINTER_ASSIGN_OR_RETURN(ValueId x, Operand(dims));
    const int64_t n = In(0, 3) > 0 ? 128 : In(1, 99);
    SINTER_ASSIGN_OR_RETURN(ValueId y, Product(x, n, k));
    const int64_t more = In(0, 5);
    if (more == 0) {
      SINTER_ASSIGN_OR_RETURN(const ValueId up, Product(x, n, k));
      SINTER_ASSIGN_OR_RETURN(y, b_.Binary(BinaryKind::kMul, y, up));
    } else if (more == 1) {
      SINTER_ASSIGN_OR_RETURN(y, b_.Unary(UnaryKind::kTanh, y));
      SINTER_ASSIGN_OR_RETURN(y, Product(y, 64, n));
    } else if (more == 2) {
      SINTER_ASSIGN_OR_RETURN(y, b_.Reduce(ReduceKind::kMax, y, {0}, false));
    }
    if (Coin()) {
      SINTER_ASSIGN_OR_RETURN(y, b_.Cast(y, Type()));
    }
    SINTER_RETURN_IF_ERROR(b_.Output(y));
    if (In(0, 5) == 0) SINTER_RETURN_IF_ERROR(b_.Output(y));
    return b_.Finish();
  }

 private:
  int64_t In(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(engine_() % static_cast<uint64_t>(high - low + 1));
  }
  bool Coin() { return In(0, 1) == 1; }
  DType Type() {
    constexpr DType kTypes[] = {kBF16, kBF16, kBF16, kF16, kF32, kS8, DType::kE4M3};
    return kTypes[In(0, 6)];
  }

  absl::StatusOr<ValueId> Input(const std::vector<int64_t>& extents, DType dtype) {
    std::vector<Dim> dims;
    for (const int64_t extent : extents) dims.push_back(Extent(extent));
    std::vector<Stride> strides;
    if (In(0, 9) == 0 && extents.size() == 2 && extents[1] > 0) {
      const int64_t step = In(1, 2);
      strides = {{extents[1] * step + In(0, 8), 0}, {step, 0}};
    }
    return b_.Input({dtype, dims}, {false, strides, absl::StrCat("in", inputs_++)});
  }
  // An input or what is computed of one or two.
  absl::StatusOr<ValueId> Operand(const std::vector<int64_t>& dims) {
    const DType dtype = Type();
    SINTER_ASSIGN_OR_RETURN(ValueId x, Input(dims, dtype));
    if (In(0, 3) == 0) {
      SINTER_ASSIGN_OR_RETURN(const ValueId other, Input(dims, dtype));
      SINTER_ASSIGN_OR_RETURN(x, b_.Binary(BinaryKind::kMul, x, other));
    }
    if (In(0, 3) == 0) return b_.Cast(x, Type());
    return x;
  }
  absl::StatusOr<ValueId> Product(ValueId x, int64_t n, int64_t k) {
    const bool transposed = Coin();
    SINTER_ASSIGN_OR_RETURN(const ValueId w, Operand(transposed ? std::vector<int64_t>{n, k}
                                                                : std::vector<int64_t>{k, n}));
    return b_.Matmul(x, w, false, transposed);
  }

  std::mt19937_64 engine_;
  ChainBuilder b_;
  int inputs_ = 0;
};

// What is wrong with what a refusal says; "" for nothing.
std::string FlawOf(const std::string& message) {
  constexpr absl::string_view kPrefix = "no kernel family takes this chain: ";
  if (!absl::StartsWith(message, kPrefix)) return "no prefix";
  const absl::string_view rest = absl::string_view(message).substr(kPrefix.size());
  if (absl::StrContains(rest, kPrefix)) return "two prefixes";
  if (!absl::StrContains(rest, "'in")) return "no input by its name";
  const auto says = [&](absl::string_view what) { return absl::StrContains(rest, what); };
  const absl::string_view ways[] = {": pad ",
                                    ": cast ",
                                    ": give ",
                                    ": copy ",
                                    ": leave ",
                                    ", cast ",
                                    "by quantize",
                                    "by scaled_matmul",
                                    ": transpose ",
                                    "the extent as a constant",
                                    ": M must be the first dimension"};
  if (!std::any_of(std::begin(ways), std::end(ways), says)) return "no way out";
  for (const absl::string_view product : absl::StrSplit(rest, "; ")) {
    const size_t end = product.find(" (");
    if (!absl::StartsWith(product, "op ") || end == product.npos) continue;
    const std::string op = absl::StrCat(product.substr(0, end), " (");
    if (product.find(op, end) != product.npos) return absl::StrCat(op, "..) named twice");
  }
  return "";
}

// Of whatever chain, as the engine plans it: its normal form, in the caller's numbers.
TEST(Refusal, HasPrefixNamesAndWayOutWhateverIsRefused) {
  int planned = 0, refused = 0;
  for (uint64_t seed = 1; seed <= 600; ++seed) {
    absl::StatusOr<Chain> made = Oddity(seed).Make();
    if (!made.ok()) continue;
    const auto chain = std::make_shared<const Chain>(*std::move(made));
    const auto form = NormalFormOf(chain);
    ASSERT_TRUE(form.ok()) << seed << ": " << form.status();
    const absl::StatusOr<FusionResult> result =
        PlanChain(*(*form)->chain, chain->UsesM() ? kRows : 1, *BuiltinModel("h200"), {});
    result.ok() ? ++planned : ++refused;
    if (result.ok()) continue;
    const absl::Status told = (*form)->InCallersNumbers(result.status());
    const std::string message(told.message());
    EXPECT_EQ(OpOf(told), OpIn(message)) << message;
    EXPECT_EQ(FlawOf(message), "") << seed << ": " << message << "\n" << chain->ToString();
  }
  EXPECT_GT(planned, 50);
  EXPECT_GT(refused, 100);
}

// What sequences of one kernel cannot be is several kernels, not a refusal.
TEST(Refusal, IsNoneForMixedLayoutsAndManyProducts) {
  Draft mixed, many;
  const ValueId x = mixed.In("hidden", kBF16, {-1, 64});
  const ValueId gate = mixed.Product(x, mixed.In("gate", kBF16, {128, 64}));
  const ValueId up = mixed.Product(x, mixed.In("up", kBF16, {64, 128}), false);
  const ValueId act = mixed.Take(mixed.b.Unary(UnaryKind::kRelu, gate));
  ASSERT_TRUE(
      mixed.b.Output(mixed.Cast(mixed.Take(mixed.b.Binary(BinaryKind::kMul, act, up)))).ok());
  ValueId y = many.In("hidden", kBF16, {-1, 64});
  for (int i = 0; i < 12; ++i) y = many.Cast(many.Product(y, many.In("w", kBF16, {64, 64})));
  ASSERT_TRUE(many.b.Output(y).ok());
  for (Draft* draft : {&mixed, &many}) {
    const absl::StatusOr<FusionResult> planned =
        PlanChain(*draft->b.Finish(), kRows, *BuiltinModel("h200"), {});
    EXPECT_TRUE(planned.ok()) << planned.status();
  }
}

// Processor seconds to refuse a chain of so many products, the least of three times; `message` gets
// what it says.
double SecondsToRefuse(int products, std::string* message) {
  Draft d;
  ValueId y = d.In("x", kBF16, {-1, 129});
  const ValueId w = d.In("w", kBF16, {129, 129});
  for (int i = 0; i < products; ++i) y = d.Cast(d.Product(y, w));
  EXPECT_TRUE(d.b.Output(y).ok());
  const Chain chain = *d.b.Finish();
  ProductRuns runs;
  runs.all = true;
  double least = std::numeric_limits<double>::infinity();
  for (int time = 0; time < 3; ++time) {
    const std::clock_t begin = std::clock();
    *message = std::string(Refusal(chain, runs, absl::UnimplementedError("none")).message());
    least = std::min(least, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  return least;
}

// Each product of a chain has more inputs below it than the last: one that looks at all of them
// again takes sixteen times as long for four times as many.
TEST(Refusal, OfVeryManyProductsTakesNoLongerForEach) {
  std::string message;
  const double few = SecondsToRefuse(5000, &message);
  EXPECT_LT(SecondsToRefuse(20000, &message), 8 * few);
  EXPECT_THAT(message,
              AllOf(HasSubstr("op 2 (matmul of 'x' and 'w'): "), HasSubstr("; and 19997 more")));
}

// Of stitched kernels, whose bodies count their ops anew.
TEST(Refusal, NamesAnOpOnceByTheChainsNumber) {
  const std::string message = RefusalOf([](Draft& d) {
    const ValueId x = d.In("x", kBF16, {8, -1, 64});
    return std::vector<ValueId>{d.Take(d.b.Unary(UnaryKind::kExp, x))};
  });
  EXPECT_EQ(message,
            "no kernel family takes this chain: op 1 (exp of 'x'): its input: axis 1 is M, only "
            "axis 0 may "
            "be: M must be the first dimension");
}

}  // namespace
}  // namespace sinter
