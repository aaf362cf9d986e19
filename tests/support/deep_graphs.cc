#include "tests/support/deep_graphs.h"

#include "src/chain/builder.h"
#include "tests/support/common.h"

namespace sinter::testing {
namespace {

constexpr int kMostOps = 65000;
constexpr int kMostOutputs = 1000;

class DeepMaker {
 public:
  DeepMaker(int ops, int width, uint64_t seed)
      : ops_(std::clamp(ops, 8, kMostOps)), width_(std::clamp(width, 1, 64)), random_(seed) {}

  Chain Make(DeepGraph kind) {
    Add(kind);
    if (outputs_ == 0) Give(last_);
    return *builder_.Finish();
  }

 private:
  int64_t In(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
  }
  bool Left(int more) const { return builder_.size() + more <= ops_; }

  static std::vector<Dim> Dims(const std::vector<int64_t>& extents) {
    std::vector<Dim> dims;
    for (const int64_t extent : extents) dims.push_back(Dim::Constant(extent));
    return dims;
  }
  ValueId Input(const std::vector<int64_t>& extents) {
    return *builder_.Input({DType::kF32, Dims(extents)});
  }
  void Give(ValueId value) {
    if (builder_.Output(value).ok()) ++outputs_;
  }

  void Add(DeepGraph kind) {
    switch (kind) {
      case DeepGraph::kReductions:
        return Reductions({1});
      case DeepGraph::kCrossed:
        return Reductions({1, 0});
      case DeepGraph::kTurns:
        return Turns();
      case DeepGraph::kConcats:
        return Concats();
      case DeepGraph::kShifts:
        return Shifts();
      case DeepGraph::kFan:
        return Fan();
      case DeepGraph::kOutputs:
        return Outputs();
      case DeepGraph::kDag:
        return Dag();
      case DeepGraph::kTwice:
        return Twice();
      case DeepGraph::kProducts:
        return Products();
      case DeepGraph::kMixed:
        return Mixed();
      default:
        return OneByOne();
    }
  }

  void Reductions(const std::vector<int32_t>& axes) {
    const std::vector<int64_t> dims = {width_ + 1, In(2, 512)};
    last_ = Input(dims);
    for (size_t i = 0; Left(3); ++i) {
      const auto kind = static_cast<ReduceKind>(In(1, 3));
      const ValueId one = *builder_.Reduce(kind, last_, {axes[i % axes.size()]}, true);
      last_ = *builder_.Binary(BinaryKind::kSub, last_, *builder_.Broadcast(one, Dims(dims)));
    }
  }

  void Turns() {
    std::vector<int64_t> dims;
    for (int i = 0; i < 6; ++i) dims.push_back(In(2, 2 + width_ % 8));
    last_ = Input(dims);
    while (Left(2)) {
      std::vector<int32_t> order(dims.size());
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), random_);
      last_ = *builder_.Transpose(last_, order);
      std::shuffle(dims.begin(), dims.end(), random_);
      last_ = *builder_.Reshape(last_, Dims(dims));
    }
  }

  // Each level keeps the extent: it is cut out of the concat again.
  void Concats() {
    const int64_t extent = In(2, 9);
    last_ = Input({extent});
    while (Left(2 + width_)) {
      std::vector<ValueId> parts;
      for (int i = 0; i < width_; ++i) {
        const bool cut = extent > 2 && In(0, 1) == 0;
        parts.push_back(cut ? *builder_.Slice(last_, {1}, Dims({extent})) : last_);
      }
      const ValueId whole = *builder_.Concat(parts, 0);
      const int64_t length = builder_.TypeOf(whole).dims[0].value;
      const int64_t start = In(0, std::max<int64_t>(0, length - extent));
      if (length < extent) return Give(whole);
      last_ = *builder_.Slice(whole, {start}, Dims({start + extent}));
    }
  }

  void Shifts() {
    int64_t extent = int64_t{1} << 20;
    last_ = Input({extent});
    while (Left(3) && extent > 70000) {
      const int64_t cut = In(1, std::max(1, 1024 * 1024 / std::max(4, ops_)));
      const ValueId low = *builder_.Slice(last_, {0}, Dims({extent - cut}));
      const ValueId high = *builder_.Slice(last_, {cut}, Dims({extent}));
      last_ = *builder_.Binary(BinaryKind::kAdd, low, high);
      extent -= cut;
    }
  }

  void Fan() {
    const ValueId x = Input({width_ + 1, 33});
    std::vector<ValueId> open;
    while (Left(static_cast<int>(open.size()) + 2)) {
      const ValueId c = *builder_.Scalar(static_cast<double>(open.size()));
      open.push_back(*builder_.Binary(BinaryKind::kMul, x, c));
    }
    while (open.size() > 1) {
      std::vector<ValueId> joined;
      for (size_t i = 0; i + 1 < open.size(); i += 2) {
        joined.push_back(*builder_.Binary(BinaryKind::kAdd, open[i], open[i + 1]));
      }
      if (open.size() % 2 == 1) joined.push_back(open.back());
      open = std::move(joined);
    }
    last_ = open[0];
  }

  void Outputs() {
    last_ = Input({width_ + 1, 64});
    const int apart = (ops_ + kMostOutputs - 1) / kMostOutputs;
    while (Left(apart)) {
      for (int i = 0; i < apart; ++i) last_ = *builder_.Unary(UnaryKind::kTanh, last_);
      Give(last_);
    }
    Give(last_);
  }

  void Dag() {
    std::vector<ValueId> values = {Input({width_ + 1, 64}), Input({width_ + 1, 64})};
    values.push_back(*builder_.Binary(BinaryKind::kAdd, values[0], values[1]));
    while (Left(1)) {
      const auto count = static_cast<int64_t>(values.size());
      const ValueId other =
          values[static_cast<size_t>(In(std::max<int64_t>(0, count - 8), count - 1))];
      const auto kind = static_cast<BinaryKind>(In(1, 3));
      values.push_back(*builder_.Binary(kind, values.back(), other));
    }
    last_ = values.back();
  }

  void Twice() {
    last_ = Input({width_ + 1, 64});
    while (Left(1)) last_ = *builder_.Binary(BinaryKind::kAdd, last_, last_);
  }

  void OneByOne() {
    last_ = Input({width_ + 1, 64});
    while (Left(1))
      last_ = *builder_.Unary(In(0, 1) == 0 ? UnaryKind::kTanh : UnaryKind::kNeg, last_);
  }

  void Products() {
    const int64_t side = 2 + width_ % 4;
    last_ = Input({8, side, side});
    while (Left(1)) last_ = *builder_.Matmul(last_, last_, In(0, 1) == 0, In(0, 1) == 0);
  }

  // All values have one shape, so that every step may follow every other.
  void Mixed() {
    const int64_t side = 2 * (1 + width_ % 24);
    const std::vector<Dim> dims = Dims({side, side});
    std::vector<ValueId> values = {Input({side, side}), Input({side, side})};
    while (Left(4)) {
      const auto count = static_cast<int64_t>(values.size());
      const ValueId x = values.back();
      const ValueId y = values[static_cast<size_t>(In(std::max<int64_t>(0, count - 4), count - 1))];
      values.push_back(Step(x, y, side, dims));
      if (In(0, 99) == 0) Give(values.back());
    }
    Give(values.back());
    for (const ValueId value : values) {
      if (value < 2) Give(value);  // read by somebody, whatever was drawn
    }
  }

  ValueId Step(ValueId x, ValueId y, int64_t side, const std::vector<Dim>& dims) {
    switch (In(0, 5)) {
      case 0: {
        const ValueId one = *builder_.Reduce(ReduceKind::kSum, y, {In(0, 1) == 0 ? 0 : 1}, true);
        return *builder_.Binary(BinaryKind::kSub, x, *builder_.Broadcast(one, dims));
      }
      case 1: {
        const ValueId low = *builder_.Slice(y, {0, 0}, Dims({side, side / 2}));
        const ValueId high = *builder_.Slice(x, {0, side / 2}, Dims({side, side}));
        return *builder_.Concat({high, low}, 1);
      }
      case 2:
        return *builder_.Binary(BinaryKind::kMul, x, *builder_.Transpose(y, {1, 0}));
      case 3: {
        const ValueId turned = *builder_.Reshape(y, Dims({2, side, side / 2}));
        const ValueId back = *builder_.Reshape(*builder_.Transpose(turned, {1, 0, 2}), dims);
        return *builder_.Binary(BinaryKind::kMax, x, back);
      }
      case 4:
        return *builder_.Unary(UnaryKind::kTanh, *builder_.Binary(BinaryKind::kAdd, x, y));
      default:
        return *builder_.Binary(BinaryKind::kAdd, x, y);
    }
  }

  const int ops_, width_;
  std::mt19937_64 random_;
  ChainBuilder builder_;
  ValueId last_ = -1;
  int outputs_ = 0;
};

}  // namespace

const char* NameOf(DeepGraph kind) {
  constexpr const char* kNames[] = {"reductions", "crossed", "turns",    "concats",
                                    "shifts",     "fan",     "outputs",  "dag",
                                    "twice",      "chain",   "products", "mixed"};
  return kNames[static_cast<int>(kind)];
}

Chain MakeDeepGraph(DeepGraph kind, int ops, int width, uint64_t seed) {
  return DeepMaker(ops, width, seed).Make(kind);
}

}  // namespace sinter::testing
