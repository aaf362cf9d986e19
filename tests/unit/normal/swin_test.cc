// A whole vision transformer, Swin-T without the products inside its attention: in how few kernels
// a chain of some 900 ops plans.
#include "src/base/device_model.h"
#include "src/fusion/fusion.h"
#include "src/normal/normal_form.h"
#include "tests/support/chains.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

constexpr int64_t kImages = 32, kWindow = 7, kShift = 3, kPatch = 4;

// Writes the chain as PyTorch decomposes it. Everything is valid by construction.
class Swin {
 public:
  Chain Make() {
    int64_t side = 56, channels = 96;
    const ValueId image = Input({kImages, 3, side * kPatch, side * kPatch});
    ValueId x = Reshape(image, {kImages, 3, side, kPatch, side, kPatch});
    x = Reshape(*b_.Transpose(x, {0, 2, 4, 1, 3, 5}), {kImages, side * side, 3 * kPatch * kPatch});
    x = Reshape(Linear(x, channels, true), {kImages, side, side, channels});
    x = Norm(x);
    const int64_t depths[] = {2, 2, 6, 2};
    for (int stage = 0; stage < 4; ++stage) {
      if (stage > 0) {
        x = Merged(x);
        side /= 2;
        channels *= 2;
      }
      for (int64_t block = 0; block < depths[stage]; ++block) x = Block(x, block % 2 == 1);
    }
    x = *b_.Reduce(ReduceKind::kMean, Reshape(Rounded(Norm(x)), {kImages, side * side, channels}),
                   {1}, false);
    return Finished(b_, {Rounded(Linear(Rounded(x), 1000, true))});
  }

 private:
  static std::vector<Dim> Dims(const std::vector<int64_t>& extents) {
    std::vector<Dim> dims;
    for (const int64_t extent : extents) dims.push_back(Dim::Constant(extent));
    return dims;
  }
  std::vector<int64_t> ExtentsOf(ValueId x) const {
    std::vector<int64_t> extents;
    for (const Dim& dim : b_.TypeOf(x).dims) extents.push_back(dim.value);
    return extents;
  }
  ValueId Input(const std::vector<int64_t>& extents) {
    return *b_.Input({DType::kBF16, Dims(extents)});
  }
  ValueId Reshape(ValueId x, const std::vector<int64_t>& extents) {
    return *b_.Reshape(x, Dims(extents));
  }
  ValueId Rounded(ValueId x) { return *b_.Cast(x, DType::kBF16); }
  ValueId Add(ValueId x, ValueId y) { return *b_.Binary(BinaryKind::kAdd, x, y); }
  ValueId OfColumns(int64_t count, ValueId like) {
    return *b_.Broadcast(Input({count}), b_.TypeOf(like).dims);
  }

  ValueId Linear(ValueId x, int64_t n, bool bias) {
    const ValueId y = *b_.Matmul(x, Input({n, ExtentsOf(x).back()}), false, true);
    return bias ? Add(y, OfColumns(n, y)) : y;
  }

  ValueId Norm(ValueId x) {
    const std::vector<Dim> dims = b_.TypeOf(x).dims;
    const int32_t last = static_cast<int32_t>(dims.size()) - 1;
    const ValueId mean = *b_.Reduce(ReduceKind::kMean, x, {last}, true);
    const ValueId centred = *b_.Binary(BinaryKind::kSub, x, *b_.Broadcast(mean, dims));
    const ValueId variance =
        *b_.Reduce(ReduceKind::kMean, *b_.Unary(UnaryKind::kSquare, centred), {last}, true);
    const ValueId root = *b_.Unary(UnaryKind::kRsqrt, Add(variance, *b_.Scalar(1e-5)));
    const ValueId scaled = *b_.Binary(BinaryKind::kMul, centred, *b_.Broadcast(root, dims));
    const ValueId y = *b_.Binary(BinaryKind::kMul, scaled, OfColumns(dims.back().value, scaled));
    return Add(y, OfColumns(dims.back().value, y));
  }

  // Rolls an axis: what lies before `by` goes to the end.
  ValueId Rolled(ValueId x, int axis, int64_t by) {
    const std::vector<int64_t> end = ExtentsOf(x), start(end.size(), 0);
    std::vector<int64_t> from = start, cut = end;
    from[static_cast<size_t>(axis)] = by;
    cut[static_cast<size_t>(axis)] = by;
    return *b_.Concat({*b_.Slice(x, from, Dims(end)), *b_.Slice(x, start, Dims(cut))}, axis);
  }

  ValueId Block(ValueId x, bool shifted) {
    const std::vector<int64_t> e = ExtentsOf(x);
    const int64_t side = e[1], channels = e[3], windows = side / kWindow;
    ValueId y = Rounded(Norm(x));
    if (shifted) y = Rolled(Rolled(y, 1, kShift), 2, kShift);
    y = Reshape(y, {kImages, windows, kWindow, windows, kWindow, channels});
    y = *b_.Transpose(y, {0, 1, 3, 2, 4, 5});
    y = Reshape(y, {kImages * windows * windows, kWindow * kWindow, channels});
    EXPECT_TRUE(b_.Output(Rounded(Linear(y, 3 * channels, true))).ok());
    // What a kernel of attention makes of it.
    y = Linear(Input({kImages * windows * windows, kWindow * kWindow, channels}), channels, true);
    y = Reshape(y, {kImages, windows, windows, kWindow, kWindow, channels});
    y = Reshape(*b_.Transpose(y, {0, 1, 3, 2, 4, 5}), e);
    if (shifted) y = Rolled(Rolled(y, 1, side - kShift), 2, side - kShift);
    x = Add(x, y);
    y = Linear(Rounded(Norm(x)), 4 * channels, true);
    y = Linear(Rounded(*AddGeluErf(b_, y)), channels, true);
    return Add(x, y);
  }

  // Four neighbouring pixels as one of twice the channels.
  ValueId Merged(ValueId x) {
    const std::vector<int64_t> e = ExtentsOf(x);
    std::vector<ValueId> corners;
    for (const int64_t right : {0, 1}) {
      for (const int64_t down : {0, 1}) {
        corners.push_back(*b_.Slice(x, {0, down, right, 0}, Dims(e), {1, 2, 2, 1}));
      }
    }
    return Linear(Rounded(Norm(*b_.Concat(corners, 3))), 2 * e[3], false);
  }

  ChainBuilder b_;
};

TEST(SwinTransformer, PlansInAtMost140Kernels) {
  const auto chain = std::make_shared<const Chain>(Swin().Make());
  EXPECT_GT(chain->ops().size(), 800u);
  const auto form = Got(NormalFormOf(chain));
  const FusionResult planned = Got(PlanChain(*form->chain, 1, *BuiltinModel("h200"), {}));
  EXPECT_TRUE(planned.chosen.fused);
  EXPECT_LE(planned.chosen.kernels.size(), 140u);
  RecordProperty("kernels", static_cast<int>(planned.chosen.kernels.size()));
}

}  // namespace
}  // namespace sinter
