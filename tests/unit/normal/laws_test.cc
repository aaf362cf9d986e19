#include "src/engine/verify.h"
#include "src/normal/graph.h"
#include "src/normal/rules.h"
#include "src/reference/reference.h"
#include "tests/support/random_graph.h"
#include "tests/support/random_stitch_graph.h"
#include "tests/support/read_chain.h"
#include "tests/support/rough_chain.h"
#include "tests/support/split_chain.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

// Each rule's law on random chains: the reference computes the same before and after it.

using FormPtr = std::shared_ptr<const NormalForm>;
using Bytes = std::vector<std::string>;

constexpr char kPoison = '\x5a';

// The caller's output buffers as the reference fills them through the views of a form, of all
// ranks.
Bytes OutputsOf(const NormalForm& form, int64_t m, const Bytes& inputs) {
  const Chain& callers = *form.callers;
  const auto count = static_cast<size_t>(callers.num_inputs());
  const auto outs = static_cast<size_t>(callers.num_outputs());
  const auto ranks = static_cast<size_t>(callers.ranks());
  Bytes outputs;
  for (size_t i = 0; i < ranks * outs; ++i) {
    const int output = static_cast<int>(i % outs);
    outputs.emplace_back(static_cast<size_t>(*OutputBytes(callers, output, m)), kPoison);
  }
  std::vector<const void*> in;
  std::vector<void*> out;
  for (size_t rank = 0; rank < ranks; ++rank) {
    std::vector<uint64_t> buffers;
    for (size_t i = 0; i < count; ++i)
      buffers.push_back(reinterpret_cast<uint64_t>(inputs[rank * count + i].data()));
    for (size_t i = 0; i < outs; ++i)
      buffers.push_back(reinterpret_cast<uint64_t>(&outputs[rank * outs + i][0]));
    const std::vector<uint64_t> views = form.Expand(buffers);
    for (size_t i = 0; i < views.size(); ++i) {
      const bool input = i < static_cast<size_t>(form.chain->num_inputs());
      if (input) in.push_back(reinterpret_cast<const void*>(views[i]));
      if (!input) out.push_back(reinterpret_cast<void*>(views[i]));
    }
  }
  EXPECT_OK(RunReference(*form.chain, m, in, out, {.threads = 1}));
  return outputs;
}

// How many values of two outputs differ. f32 buffers hold the result rounded to f32; where
// `numbers`, NaN is NaN and 0 is -0.
int64_t Differences(const std::string& a, const std::string& b, DType dtype, bool numbers) {
  const auto size = static_cast<size_t>(SizeOf(dtype));
  int64_t count = 0;
  for (size_t at = 0; at + size <= a.size(); at += size) {
    if (std::memcmp(&a[at], &b[at], size) == 0) continue;
    float x = 0, y = 1;
    if (numbers && dtype == DType::kF32) {
      std::memcpy(&x, &a[at], size);
      std::memcpy(&y, &b[at], size);
    } else if (numbers && size == 2) {
      uint16_t p, q;
      std::memcpy(&p, &a[at], size);
      std::memcpy(&q, &b[at], size);
      x = dtype == DType::kF16 ? F16ToF32(p) : BF16ToF32(p);
      y = dtype == DType::kF16 ? F16ToF32(q) : BF16ToF32(q);
    }
    count += !(x == y || (x != x && y != y));
  }
  return count;
}

// A chain with the m that it is computed for.
struct Drawn {
  std::string name;
  std::shared_ptr<const Chain> chain;
  int64_t m = 1;
};

// Images and filters of few channels, in both layouts.
std::vector<Drawn> Convolutions() {
  std::vector<Drawn> all;
  const auto add = [&](int in, int groups, int out, const char* image, const char* spec) {
    const std::string name = absl::StrCat("convolution ", in, " to ", out, " in ", groups);
    for (const bool hwio : {false, true}) {
      const Chain chain =
          ReadChain("x: bf16[M,$0,$1]; w: bf16[$2]; out bf16(conv2d(x, w, groups=$3, $4$5))", image,
                    in, absl::Substitute(hwio ? "3,3,$0,$1" : "$1,3,3,$0", in / groups, out),
                    groups, spec, hwio ? ", layout=hwio" : "");
      all.push_back({name, std::make_shared<const Chain>(chain), 2});
    }
  };
  for (const int in : {3, 5, 8}) {
    for (const int out : {4, 8}) add(in, 1, out, "6,7", "strides=[2,1], pads=[1,1,1,0]");
  }
  // In groups of few channels: channels, groups, channels of the result.
  for (const auto [in, groups, out] : {std::array<int, 3>{32, 8, 32},
                                       {24, 4, 16},
                                       {8, 2, 8},
                                       {16, 16, 32},
                                       {16, 2, 8},
                                       {12, 4, 12}}) {
    add(in, groups, out, "5,4", "pads=[1,1,0,1]");
  }
  return all;
}

// One to sixteen rows of 65,536 elements and more, in every kind of reduction.
std::vector<Drawn> LongRows() {
  std::vector<Drawn> all;
  for (const int rows : {1, 3, 16}) {
    for (const char* of :
         {"sum(x, 1, 2)", "reduce_max(x, 1, 2)", "reduce_min(x, 1, 2, keep)", "mean(x, 1, 2)"}) {
      const Chain chain = ReadChain("x: $0[$1,$2,16384]; out neg($3)", rows == 3 ? "bf16" : "f32",
                                    rows, rows + 7, of);
      all.push_back({absl::StrCat("long rows ", rows), std::make_shared<const Chain>(chain)});
    }
  }
  return all;
}

// The largest and the running sums of rows of more than one unit's elements: in parts of equal
// length, padded, of parts whose own ends are too many.
std::vector<Drawn> LongSteps() {
  std::vector<Drawn> all;
  for (const int columns : {8193, 16384, 50257, 1 << 20}) {
    for (const char* dtype : {"bf16", "f16", "s32"}) {
      const bool rows = columns < 20000;
      const Chain chain =
          ReadChain("x: $0[$1$2]; out topk(x, 32), cumsum(x)", dtype, rows ? "M," : "", columns);
      all.push_back({absl::StrCat("long steps ", columns), std::make_shared<const Chain>(chain),
                     rows ? 3 : 1});
    }
  }
  return all;
}

std::vector<Drawn> DrawnChains() {
  std::vector<Drawn> all = Convolutions();
  for (Drawn& drawn : LongSteps()) all.push_back(std::move(drawn));
  for (Drawn& drawn : LongRows()) all.push_back(std::move(drawn));
  for (uint64_t seed = 1; seed <= 600; ++seed) {
    all.push_back({absl::StrCat("rough ", seed),
                   std::make_shared<const Chain>(testing::MakeRoughChain(seed)),
                   static_cast<int64_t>(1 + seed % 7)});
  }
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    all.push_back({absl::StrCat("graph ", seed),
                   std::make_shared<const Chain>(testing::MakeRandomGraph(seed)),
                   std::min<int64_t>(testing::RowsOfRandomGraph(seed), 40)});
  }
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    all.push_back({absl::StrCat("split ", seed),
                   std::make_shared<const Chain>(testing::MakeSplitChain(seed)),
                   static_cast<int64_t>(seed % 4)});
  }
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    all.push_back({absl::StrCat("stitch ", seed),
                   std::make_shared<const Chain>(testing::MakeRandomStitchGraph(seed)), 3});
  }
  return all;
}

// `before` and `after` compute the same by `law`.
void ExpectLaw(const NormalForm& before, const NormalForm& after, const Drawn& drawn, Law law) {
  Bytes inputs;
  for (int rank = 0; rank < drawn.chain->ranks(); ++rank) {
    const auto own = Got(RandomInputs(*drawn.chain, drawn.m, 7 + static_cast<uint64_t>(rank)));
    inputs.insert(inputs.end(), own.begin(), own.end());
  }
  const Bytes want = OutputsOf(before, drawn.m, inputs), got = OutputsOf(after, drawn.m, inputs);
  for (size_t i = 0; i < want.size(); ++i) {
    const DType dtype =
        drawn.chain->output_type(static_cast<int>(i) % drawn.chain->num_outputs()).dtype;
    EXPECT_EQ(Differences(want[i], got[i], dtype, law == Law::kRecomposition), 0)
        << "output " << i << " of " << drawn.name << "\nbefore:\n"
        << before.chain->ToString() << "\nafter:\n"
        << after.chain->ToString();
  }
}

TEST(NormalRules, KeepTheirLawsOnRandomChains) {
  std::map<std::string, int> applied;
  for (const Drawn& drawn : DrawnChains()) {
    NormalGraph graph(drawn.chain);
    for (const NormalRule& rule : NormalRules()) {
      NormalGraph before = graph;
      if (!rule.apply(graph)) continue;
      ++applied[std::string(rule.name)];
      NormalGraph copy = graph;
      const absl::StatusOr<FormPtr> from = before.Finish(), to = copy.Finish();
      ASSERT_TRUE(from.ok()) << drawn.name << ", before " << rule.name << ": " << from.status();
      ASSERT_TRUE(to.ok()) << drawn.name << ", after " << rule.name << ": " << to.status() << "\n"
                           << (*from)->chain->ToString();
      SCOPED_TRACE(std::string(rule.name));
      ExpectLaw(**from, **to, drawn, rule.law);
      if (::testing::Test::HasFailure()) return;
    }
  }
  for (const NormalRule& rule : NormalRules()) {
    EXPECT_GE(applied[std::string(rule.name)], 10) << rule.name << " was hardly applied";
  }
}

// The whole form, and what it is a function of.
TEST(NormalForm, ComputesWhatTheCallersChainDoes) {
  int changed = 0;
  for (const Drawn& drawn : DrawnChains()) {
    const FormPtr form = Got(NormalFormOf(drawn.chain), drawn.name);
    if (!form->changed()) continue;
    ++changed;
    ExpectLaw(*IdentityForm(drawn.chain), *form, drawn, Law::kRecomposition);
    for (const BufferView& view : form->buffers) {
      EXPECT_EQ(view.offset_bytes % 16, 0) << drawn.name;
    }
    const auto again =
        std::make_shared<const Chain>(*ChainFromCanonicalBytes(drawn.chain->CanonicalBytes()));
    EXPECT_EQ((*NormalFormOf(again))->chain->CanonicalBytes(), form->chain->CanonicalBytes());
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(changed, 300);
}

// From where exp(x) is small compared with 1 to where it overflows f32.
TEST(NormalForm, OfSoftplusIsEqualInF32) {
  constexpr int64_t kValues = 1 << 16;
  const auto chain =
      std::make_shared<const Chain>(ReadChain("x: f32[M]; sum = exp(x) + 1; out log(sum)"));
  const FormPtr form = *NormalFormOf(chain);
  ASSERT_TRUE(form->changed());
  std::vector<float> values;
  for (int64_t i = 0; i < kValues; ++i) {
    values.push_back(-10 + 110 * static_cast<float>(i) / kValues);
  }
  const Bytes inputs = {
      std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float))};
  const Bytes want = OutputsOf(*IdentityForm(chain), kValues, inputs);
  EXPECT_EQ(Differences(want[0], OutputsOf(*form, kValues, inputs)[0], DType::kF32, true), 0);
}

TEST(NormalForm, OfANormalFormIsItself) {
  for (const Drawn& drawn : DrawnChains()) {
    const FormPtr form = *NormalFormOf(drawn.chain);
    const FormPtr again = *NormalFormOf(form->chain);
    EXPECT_EQ(again->chain->CanonicalBytes(), form->chain->CanonicalBytes())
        << drawn.name << "\n"
        << form->chain->ToString() << "\nbecomes\n"
        << again->chain->ToString();
    if (::testing::Test::HasFailure()) return;
  }
}

Dim Fixed(int64_t extent) { return Dim::Constant(extent); }
const Dim kRows = Dim::M();

NormalLayout Whole(std::vector<Dim> dims) {
  NormalLayout layout;
  layout.strides = ContiguousStrides(dims);
  layout.dims = std::move(dims);
  return layout;
}

TEST(Layout, ReshapesWhatLiesOneBehindTheOther) {
  NormalLayout layout = Whole({Fixed(8), kRows, Fixed(64)});
  ASSERT_TRUE(ReshapeLayout({kRows, Fixed(8), Fixed(64)}, &layout));
  EXPECT_EQ(layout.strides, (std::vector<Stride>{{512, 0}, {64, 0}, {1, 0}}));
  layout = Whole({Fixed(1), kRows, Fixed(4), Fixed(16)});
  ASSERT_TRUE(ReshapeLayout({kRows, Fixed(64)}, &layout));
  EXPECT_EQ(layout.strides, (std::vector<Stride>{{64, 0}, {1, 0}}));
  ASSERT_TRUE(ReshapeLayout({kRows, Fixed(1), Fixed(2), Fixed(32)}, &layout));
  EXPECT_EQ(layout.strides, (std::vector<Stride>{{64, 0}, {64, 0}, {32, 0}, {1, 0}}));
}

TEST(Layout, ReshapesWithGapsWhereNoAxisCrossesOne) {
  NormalLayout layout{{Fixed(4), Fixed(6), Fixed(8)}, {{480, 0}, {80, 0}, {1, 0}}, 0};
  ASSERT_TRUE(ReshapeLayout({Fixed(24), Fixed(2), Fixed(4)}, &layout));
  EXPECT_EQ(layout.strides, (std::vector<Stride>{{80, 0}, {4, 0}, {1, 0}}));
  NormalLayout kept = layout;
  EXPECT_FALSE(ReshapeLayout({Fixed(12), Fixed(16)}, &layout));
  EXPECT_EQ(layout.dims, kept.dims);
  NormalLayout turned{{Fixed(32), Fixed(35), Fixed(512)}, {{512, 0}, {16384, 0}, {1, 0}}, 0};
  EXPECT_FALSE(ReshapeLayout({Fixed(1120), Fixed(512)}, &turned));
}

TEST(Layout, OfASliceStartsBehindAndStepsFarther) {
  NormalLayout layout = Whole({kRows, Fixed(96)});
  Op slice{.kind = OpKind::kSlice, .starts = {0, 32}, .steps = {1, 2}};
  slice.type.dims = {kRows, Fixed(16)};
  ASSERT_TRUE(ViewLayout(slice, &layout));
  EXPECT_EQ(layout.offset, 32);
  EXPECT_EQ(layout.strides, (std::vector<Stride>{{96, 0}, {2, 0}}));
}

TEST(Layout, IsAMatrixWithOneStrideOfWholeVectors) {
  EXPECT_TRUE(IsMatrix(Whole({kRows, Fixed(64)}), DType::kBF16));
  EXPECT_TRUE(IsMatrix(Whole({kRows, Fixed(5), Fixed(64)}), DType::kBF16));
  EXPECT_FALSE(IsMatrix(Whole({kRows, Fixed(36)}), DType::kBF16));
  EXPECT_TRUE(IsMatrix(Whole({kRows, Fixed(36)}), DType::kF32));
  EXPECT_FALSE(IsMatrix(Whole({Fixed(5), kRows, Fixed(64)}), DType::kBF16));
  EXPECT_TRUE(IsMatrix({{kRows, Fixed(64)}, {{192, 0}, {1, 0}}, 0}, DType::kBF16));
  EXPECT_FALSE(IsMatrix({{kRows, Fixed(64)}, {{32, 0}, {1, 0}}, 0}, DType::kBF16));
  EXPECT_FALSE(IsMatrix({{Fixed(64), Fixed(64)}, {{1, 0}, {64, 0}}, 0}, DType::kBF16));
  EXPECT_FALSE(
      IsMatrix({{Fixed(4), Fixed(2), Fixed(64)}, {{64, 0}, {256, 0}, {1, 0}}, 0}, DType::kBF16));
}

}  // namespace
}  // namespace sinter
