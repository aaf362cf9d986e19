// The error that a first user gets for a chain that no kernels take: one prefix, the op once, the
// names that the inputs were given, the cause, and the remedy.
#include "src/base/refusal.h"

#include "absl/strings/strip.h"
#include "src/fusion/fusion.h"
#include "src/fusion/plan_choice.h"
#include "src/normal/normal_form.h"
#include "tests/support/read_chain.h"
#include "tests/support/refusals.h"
#include "tests/support/regular.h"

namespace sinter {
namespace {

constexpr int64_t kRows = 64;

Dim Extent(int64_t value) { return value < 0 ? Dim::M() : Dim::Constant(value); }

constexpr char kPrefix[] = "no kernel family takes this chain: ";

std::string RefusalOf(const std::string& text) {
  const auto planned = PlanChain(ReadChain(text), kRows, *BuiltinModel("h200"), {});
  EXPECT_FALSE(planned.ok());
  if (planned.ok()) return "";
  EXPECT_EQ(StatusNumber(planned.status()), static_cast<int32_t>(ErrorCode::kNoLegalPlan));
  EXPECT_EQ(OpOf(planned.status()), OpInMessage(std::string(planned.status().message())));
  return std::string(planned.status().message());
}

void ExpectRefused(const char* section) {
  for (const auto& [chain, message] : RefusalsOf("tests/unit/fusion/refused_chains.txt", section)) {
    EXPECT_EQ(RefusalOf(chain), kPrefix + message) << chain;
  }
}

constexpr DType kF32 = DType::kF32, kBF16 = DType::kBF16, kF16 = DType::kF16, kS8 = DType::kS8;

TEST(Refusal, NamesTheInputsAndTheWayOut) { ExpectRefused("products"); }
TEST(Refusal, NamesAnOperandThatIsComputed) { ExpectRefused("computed operand"); }
TEST(Refusal, CountsChannelsOfConvolutionsAndInputsWithoutNames) { ExpectRefused("channels"); }
TEST(Refusal, CountsTheChannelsOfAGroup) { ExpectRefused("groups"); }
// The body of a stitched kernel numbers its ops from 0, and an error names the chain's number.
TEST(Refusal, NamesAnOpOnceByTheChainsNumber) { ExpectRefused("stitched"); }

TEST(Refusal, NamesWindowsThatNoLoadTakesAndWhatDoes) {
  ExpectRefused("windows");
  EXPECT_THAT(
      RefusalOf("x: bf16[M,300,300,8]; filter: bf16[64,3,3,8];"
                "out bf16(conv(x, filter, dilations=[140,140]))"),
      HasSubstr(
          "no kernel family takes this chain: op 2 (conv2d of 'x' and 'filter'): filter reach "
          "280 is not in [0, 255] (offsets of im2col loads): take"));
}

TEST(Refusal, OnAChipWithoutWgmmaNamesTheOpAndTheChipsThatHaveIt) {
  const auto why = [](const char* chain, const char* model) {
    const absl::Status status =
        PlanChain(ReadChain(chain), kRows, *BuiltinModel(model), {}).status();
    EXPECT_EQ(StatusNumber(status), static_cast<int32_t>(ErrorCode::kNoLegalPlan)) << chain;
    EXPECT_EQ(OpOf(status), OpInMessage(std::string(status.message()))) << chain;
    return std::string(status.message());
  };
  EXPECT_THAT(why("x: bf16[M,8,8,64]; w: bf16[64,3,3,64]; out bf16(conv(x, w))", "a100"),
              AllOf(HasSubstr(kPrefix),
                    HasSubstr("(conv2d of 'x' and 'w'): kernels of convolutions run only on Hopper "
                              "(sm_90a: H100, H200, GH200), device model a100 is sm_80: leave it "
                              "to another library, and plan the ops before and after it")));
  EXPECT_THAT(why("x: e4m3[M,64]; w: e4m3[128,64]; out bf16(x @ w.T)", "a100"),
              HasSubstr("(matmul of 'x' and 'w'): kernels of products of e4m3 run only on chips "
                        "from sm_89 on, device model a100 is sm_80: leave"));
  for (const char* chain : {"x: bf16[M,64]; out e4m3(x)", "x: bf16[M,64]; out bf16(exp(x))",
                            "x: bf16[M,64]; w: bf16[128,64]; out bf16(x @ w.T)"}) {
    EXPECT_TRUE(PlanChain(ReadChain(chain), kRows, *BuiltinModel("a100"), {}).ok()) << chain;
  }
}

// Names are the caller's, in whatever order the canonical chain has its inputs.
TEST(Refusal, NamesTheCallersInputs) {
  const std::string message =
      RefusalOf("proj: f32[128,64]; x = {bf16[M,64]}; out bf16(x @ proj.T)");
  EXPECT_THAT(message, HasSubstr("(matmul of input 1 and 'proj')"));
  EXPECT_THAT(message, HasSubstr("'proj' is f32[128,64]"));
}

TEST(Refusal, ListsAFewProductsAndCountsTheRest) {
  const std::string message = RefusalOf(
      "x: bf16[M,64]; w0, w1, w2, w3, w4: f32[128,64];"
      "out x @ w0.T, x @ w1.T, x @ w2.T, x @ w3.T, x @ w4.T");
  for (const char* name : {"'w0' is", "'w1' is", "'w2' is"}) EXPECT_THAT(message, HasSubstr(name));
  EXPECT_THAT(message, Not(HasSubstr("'w3'")));
  EXPECT_THAT(message, HasSubstr("; and 2 more"));
}

// Every kind of refusal has one prefix, the caller's names and the remedy.
TEST(Refusal, OfBatchInvariantPlansHasThePrefixTheNamesAndTheWayOut) {
  const Chain chain = ReadChain("hidden: f32[M,64]; out sum(hidden, 0)");
  FusionOptions options{.batch_invariant = true};
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

  // Returns an error if the builder refuses these ops.
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

// The flaw in a refusal's message; "" if there is none.
std::string FlawOf(const std::string& message) {
  if (!absl::StartsWith(message, kPrefix)) return "no prefix";
  const absl::string_view rest = absl::StripPrefix(message, kPrefix);
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

// For any chain, as the engine plans it: its normal form, in the caller's numbers.
TEST(Refusal, HasPrefixNamesAndWayOutWhateverIsRefused) {
  int planned = 0, refused = 0;
  for (uint64_t seed = 1; seed <= 600; ++seed) {
    absl::StatusOr<Chain> made = Oddity(seed).Make();
    if (!made.ok()) continue;
    const auto chain = std::make_shared<const Chain>(*std::move(made));
    const auto form = Got(NormalFormOf(chain), seed);
    const absl::StatusOr<FusionResult> result =
        PlanChain(*form->chain, chain->UsesM() ? kRows : 1, *BuiltinModel("h200"), {});
    result.ok() ? ++planned : ++refused;
    if (result.ok()) continue;
    const absl::Status told = form->InCallersNumbers(result.status());
    const std::string message(told.message());
    EXPECT_EQ(OpOf(told), OpInMessage(message)) << message;
    EXPECT_EQ(FlawOf(message), "") << seed << ": " << message << "\n" << chain->ToString();
  }
  EXPECT_GT(planned, 50);
  EXPECT_GT(refused, 100);
}

// What sequences of one kernel cannot be is several kernels, not a refusal.
TEST(Refusal, IsNoneForMixedLayoutsAndManyProducts) {
  ChainReader many("y: bf16[M,64]");
  for (int i = 0; i < 12; ++i) many.Add("w: bf16[64,64]; y = bf16(y @ w.T)");
  many.Add("out y");
  for (const Chain& chain : {ReadChain("x: bf16[M,64]; gate: bf16[128,64]; up: bf16[64,128];"
                                       "out bf16(relu(x @ gate.T) * (x @ up))"),
                             many.Finish()}) {
    EXPECT_OK(PlanChain(chain, kRows, *BuiltinModel("h200"), {}));
  }
}

// Processor seconds to refuse a chain of so many products, the least of three times; `message` gets
// what it says.
double SecondsToRefuse(int products, std::string* message) {
  ChainReader r("x: bf16[M,129]; w: bf16[129,129]; y = x");
  for (int i = 0; i < products; ++i) r.Add("y = bf16(y @ w.T)");
  r.Add("out y");
  const Chain chain = r.Finish();
  ProductRuns runs{.all = true};
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

}  // namespace
}  // namespace sinter
