// StitchGraphMaker: draws graphs of memory-intensive ops, one step after another. What
// random_stitch_graph.h says of its graphs holds for the values of every step.
#pragma once

#include "src/chain/builder.h"
#include "tests/bench/random.h"
#include "tests/support/common.h"
#include "tests/support/op_functions.h"

namespace sinter::testing {

using Extents = std::vector<int64_t>;

// An extent that stands for M, the rows of a launch, of which kRowsOfM count in sizes.
constexpr int64_t kRows = 10007, kRowsOfM = 64;

constexpr double kMaxMagnitude = 8;  // of a value in the pool; above, it is scaled down
constexpr int64_t kMostRows = 512;   // of a launch: bounds of sums
constexpr int kMaxOps = 60;
constexpr int kMaxOutputs = 8;
constexpr int kReserve = 18;  // ops that a last step, merges and the outputs' casts may add

inline std::vector<Dim> DimsOf(const Extents& extents) {
  std::vector<Dim> dims;
  for (int64_t extent : extents) dims.push_back(extent == kRows ? Dim::M() : Dim::Constant(extent));
  return dims;
}

inline int64_t CountOf(const Extents& extents) {
  int64_t count = 1;
  for (int64_t extent : extents) count *= extent == kRows ? kRowsOfM : extent;
  return count;
}

inline bool HasRows(const Extents& extents) {
  return std::find(extents.begin(), extents.end(), kRows) != extents.end();
}

// An f32 value that later steps may take.
struct Item {
  ValueId id = -1;
  double bound = 1;      // of its magnitude
  bool rounded = false;  // depends on a computed value that a cast rounded
  int uses = 0;
};

class StitchGraphMaker {
 public:
  StitchGraphMaker(uint64_t seed, int64_t max_elements)
      : random_(seed),
        limit_(max_elements),
        whole_table_(seed % 5 == 4),
        function_(seed / 5 * 3),
        function_of_two_(seed / 5) {}

  Chain Make() {
    const int64_t wanted = random_.In(5, kMaxOps - kReserve);
    Put(Input(FirstShape()));
    while (Ops() < wanted) Step();
    Finish();
    return *builder_.Finish();
  }

 protected:
  // ---------------------------------------------------------------- draws

  bool Chance(int percent) { return random_.In(1, 100) <= percent; }

  template <typename T>
  T OneOf(const std::vector<T>& choices) {
    return choices[random_.In(0, static_cast<int64_t>(choices.size()) - 1)];
  }

  int64_t Extent() {
    if (Chance(25)) return OneOf<int64_t>({1, 2, 3, 5, 37});
    const int64_t base = int64_t{1} << random_.In(1, 9);
    return Chance(50) ? base : random_.In(base / 2 + 1, base * 2);
  }

  // Rank 1 to 4, mostly 2; within the limit.
  Extents FirstShape() {
    const int rank = OneOf<int>({1, 2, 2, 2, 3, 3, 4});
    Extents extents;
    for (int i = 0; i < rank; ++i) extents.push_back(Extent());
    if (Chance(15)) extents.back() = 37;  // 74-byte rows in bf16
    while (CountOf(extents) > limit_) {
      int64_t& longest = *std::max_element(extents.begin(), extents.end());
      longest = (longest + 1) / 2;
    }
    // A large limit is there to be used: more rows.
    const int64_t room = limit_ / std::max<int64_t>(1, CountOf(extents));
    if (room > 16) extents[0] *= random_.In(room / 4, room);
    return extents;
  }

  DType SmallFloat() { return OneOf<DType>({DType::kBF16, DType::kBF16, DType::kF16}); }

  // ---------------------------------------------------------------- the graph so far

  // The number of ops that are not inputs.
  int Ops() const { return builder_.size() - inputs_; }

  // Everything here is valid by construction: a refusal is a mistake of this file.
  ValueId Add(absl::StatusOr<ValueId> id) { return id.value(); }

  Extents ExtentsOf(ValueId id) const {
    Extents extents;
    for (Dim dim : builder_.TypeOf(id).dims) extents.push_back(dim.symbolic ? kRows : dim.value);
    return extents;
  }

  int RankOf(const Item& item) const { return builder_.TypeOf(item.id).rank(); }

  void Put(Item item) {
    if (item.bound > kMaxMagnitude) {
      const double scale = std::exp2(-std::ceil(std::log2(item.bound / kMaxMagnitude)));
      item = Scaled(item, scale);
    }
    pool_.push_back(item);
  }

  // A value of the pool, rather one that nothing uses yet; counts the use.
  Item Take() {
    std::vector<size_t> unused;
    for (size_t i = 0; i < pool_.size(); ++i) {
      if (pool_[i].uses == 0) unused.push_back(i);
    }
    const bool fresh = !unused.empty() && Chance(75);
    const size_t at = fresh ? OneOf(unused) : random_.In(0, static_cast<int64_t>(pool_.size()) - 1);
    ++pool_[at].uses;
    return pool_[at];
  }

  // ---------------------------------------------------------------- inputs

  // Padded rows, columns first, or one row repeated.
  std::vector<Stride> OddStrides(const Extents& extents) {
    std::vector<Stride> strides = ContiguousStrides(DimsOf(extents));
    if (extents.size() < 2 || HasRows(extents)) return strides;
    switch (random_.In(0, 2)) {
      case 0: {
        const int64_t row = extents.back() + random_.In(1, 9);
        int64_t next = row;
        for (size_t i = extents.size() - 1; i-- > 0;) {
          strides[i] = {next, 0};
          next *= extents[i];
        }
        break;
      }
      case 1: {
        int64_t next = 1;
        for (size_t i = 0; i < extents.size(); ++i) {
          strides[i] = {next, 0};
          next *= extents[i];
        }
        break;
      }
      default:
        strides[0] = {0, 0};
    }
    return strides;
  }

  ValueId RawInput(DType dtype, const Extents& extents) {
    InputOptions options{.name = "in" + std::to_string(inputs_)};
    if (Chance(15)) options.strides = OddStrides(extents);
    options.constant = extents.size() == 1 && Chance(50);
    ++inputs_;
    return Add(builder_.Input({dtype, DimsOf(extents)}, options));
  }

  // A new f32 value from an input of any floating dtype.
  Item Input(const Extents& extents) {
    const DType dtype = OneOf<DType>({DType::kBF16, DType::kBF16, DType::kBF16, DType::kF16,
                                      DType::kF32, DType::kF32, DType::kE4M3});
    return {Widened(RawInput(dtype, extents)), 1, false, 0};
  }

  ValueId Widened(ValueId id) {
    return builder_.TypeOf(id).dtype == DType::kF32 ? id : Add(builder_.Cast(id, DType::kF32));
  }

  // ---------------------------------------------------------------- element-wise

  ValueId Scalar(double value) { return Add(builder_.Scalar(value)); }
  ValueId Unary(UnaryKind kind, ValueId a) { return Add(builder_.Unary(kind, a)); }
  ValueId Binary(BinaryKind kind, ValueId a, ValueId b) { return Add(builder_.Binary(kind, a, b)); }

  Item Scaled(Item item, double by) {
    return {Binary(BinaryKind::kMul, item.id, Scalar(by)), item.bound * std::fabs(by), item.rounded,
            0};
  }

  // |a| + low: at least `low`.
  Item Positive(Item item, double low) {
    return {Binary(BinaryKind::kAdd, Unary(UnaryKind::kAbs, item.id), Scalar(low)),
            item.bound + low, item.rounded, 0};
  }

  void UnaryStep() {
    const Item a = Take();
    const auto put = [&](UnaryKind kind, const Item& of, double bound) {
      Put({Unary(kind, of.id), bound, of.rounded, 0});
    };
    switch (random_.In(0, 12)) {
      case 0:
        return put(UnaryKind::kNeg, a, a.bound);
      case 1:
        return put(UnaryKind::kAbs, a, a.bound);
      case 2:
        return put(UnaryKind::kTanh, a, 1);
      case 3:
        return put(UnaryKind::kSigmoid, a, 1);
      case 4:
        return put(UnaryKind::kErf, a, 1);
      case 5:
        return put(UnaryKind::kRelu, Shifted(a), a.bound + 0.5);
      case 6:
        return put(UnaryKind::kSquare, a, a.bound * a.bound);
      case 7:
        return put(UnaryKind::kSin, a, 1);
      case 8:
        return put(UnaryKind::kCos, a, 1);
      case 9: {
        const Item small = a.bound > 2 ? Scaled(a, 2 / a.bound) : a;
        return put(UnaryKind::kExp, small, std::exp(small.bound));
      }
      default:
        return RootStep(a);
    }
  }

  // The next op of the table that takes floats, of arguments where it is finite.
  void TableStep() {
    const std::vector<UnaryKind> kinds = FunctionsOfFloats();
    const UnaryKind kind = kinds[function_++ % kinds.size()];
    const OpTraits& traits = TraitsOf(kind);
    Item a = Take();
    if (traits.steps) return StepsOf(kind, a);
    const bool poles = traits.domain == Domain::kInsideOne || kind == UnaryKind::kTan;
    const bool negative = traits.domain == Domain::kAll || traits.domain == Domain::kInsideOne;
    const double least = traits.domain == Domain::kAboveOne ? 1.5 : 0.5, most = poles ? 0.75 : 2;
    if (a.bound > most) a = Scaled(a, most / a.bound);
    if (!negative) a = Positive(a, least);
    double bound = 0;
    for (double x = negative ? -a.bound : least; x <= a.bound; x += 1.0 / 64) {
      bound = std::max(bound, std::fabs(Apply(kind, x)));
    }
    Put({Unary(kind, a.id), bound + 0.125, a.rounded, 0});
  }

  static std::vector<UnaryKind> FunctionsOfFloats() {
    std::vector<UnaryKind> kinds;
    for (const UnaryKind kind : UnaryKinds()) {
      if (TraitsOf(kind).operands != OperandTypes::kPreds) kinds.push_back(kind);
    }
    return kinds;
  }

  // Takes only inputs, which f32 holds as float64 does.
  void StepsOf(UnaryKind kind, const Item& like) {
    AddSmall(like, Unary(kind, Binary(BinaryKind::kMul, Input(ExtentsOf(like.id)).id, Scalar(4))));
  }

  // Ops that need an argument away from zero.
  void RootStep(const Item& a) {
    const Item positive = Positive(a, 0.5);
    const auto put = [&](UnaryKind kind, double bound) {
      Put({Unary(kind, positive.id), bound, a.rounded, 0});
    };
    switch (random_.In(0, 3)) {
      case 0:
        return put(UnaryKind::kLog, std::max(std::log(2.0), std::log(positive.bound)));
      case 1:
        return put(UnaryKind::kSqrt, std::sqrt(positive.bound));
      case 2:
        return put(UnaryKind::kRsqrt, std::sqrt(2.0));
      default:
        return put(UnaryKind::kReciprocal, 2);
    }
  }

  // Not all at or below zero after a relu.
  Item Shifted(const Item& a) {
    return {Binary(BinaryKind::kAdd, a.id, Scalar(0.5)), a.bound + 0.5, a.rounded, 0};
  }

  // An operand of the dims of `like`: from the pool, perhaps broadcast, else a new input.
  Item Partner(const Item& like) {
    const Extents& extents = ExtentsOf(like.id);
    std::vector<size_t> fitting;
    for (size_t i = 0; i < pool_.size(); ++i) {
      if (pool_[i].id != like.id && Broadcasts(ExtentsOf(pool_[i].id), extents))
        fitting.push_back(i);
    }
    Item item;
    if (!fitting.empty() && Chance(70)) {
      const size_t at = OneOf(fitting);
      ++pool_[at].uses;
      item = pool_[at];
    } else {
      item = Input(Chance(50) ? extents : Thinned(extents));
    }
    return Spread(item, extents);
  }

  static bool Broadcasts(const Extents& from, const Extents& to) {
    if (from.size() > to.size()) return false;
    for (size_t i = 0; i < from.size(); ++i) {
      const int64_t target = to[to.size() - from.size() + i];
      if (from[i] != target && from[i] != 1) return false;
    }
    return true;
  }

  // Some extents 1, some leading axes missing.
  Extents Thinned(Extents extents) {
    for (int64_t& extent : extents) {
      if (Chance(40)) extent = 1;
    }
    if (extents.size() > 1 && Chance(40)) extents.erase(extents.begin());
    return extents;
  }

  Item Spread(Item item, const Extents& extents) {
    if (ExtentsOf(item.id) != extents) item.id = Add(builder_.Broadcast(item.id, DimsOf(extents)));
    return item;
  }

  void BinaryStep() {
    const Item a = Take(), b = Partner(a);
    const bool rounded = a.rounded || b.rounded;
    const auto put = [&](BinaryKind kind, const Item& x, const Item& y, double bound) {
      Put({Binary(kind, x.id, y.id), bound, rounded, 0});
    };
    switch (random_.In(0, 6)) {
      case 0:
        return put(BinaryKind::kAdd, a, b, a.bound + b.bound);
      case 1:
        return put(BinaryKind::kSub, a, b, a.bound + b.bound);
      case 2:
        return put(BinaryKind::kMul, a, b, a.bound * b.bound);
      case 3:
        return put(BinaryKind::kMax, a, b, std::max(a.bound, b.bound));
      case 4:
        return put(BinaryKind::kMin, a, b, std::max(a.bound, b.bound));
      case 5:
        return put(BinaryKind::kDiv, a, Positive(b, 0.5), 2 * a.bound);
      default: {
        const Item base = Positive(Scaled(a, 1 / a.bound), 0.5), power = Scaled(b, 1 / b.bound);
        return put(BinaryKind::kPow, base, power, 2);
      }
    }
  }

  // The next function of two floats that BinaryStep does not draw.
  void BinaryTableStep(const Item& a) {
    const auto put = [&](BinaryKind kind, const Item& b, double bound) {
      Put({Binary(kind, a.id, b.id), bound, a.rounded || b.rounded, 0});
    };
    // A function that is not continuous takes only inputs, which f32 holds as float64 does.
    const auto given = [&] { return Input(ExtentsOf(a.id)); };
    switch (function_of_two_++ % 4) {
      case 0: {
        const ValueId divisor =
            Binary(BinaryKind::kMax, Unary(UnaryKind::kAbs, given().id), Scalar(0.25));
        return AddSmall(a, Binary(BinaryKind::kFmod, given().id, divisor));
      }
      case 1:
        return put(BinaryKind::kCopysign, given(), a.bound);
      case 2:
        return put(BinaryKind::kAtan2, Positive(Partner(a), 0.5), 2);
      default: {
        const Item b = Partner(a);
        return put(BinaryKind::kHypot, b, a.bound + b.bound);
      }
    }
  }

  // ---------------------------------------------------------------- predicates and integers

  // Only of inputs, which f32 holds as float64 does.
  ValueId Predicate(const Extents& extents) {
    const auto kind = static_cast<CompareKind>(random_.In(1, 6));
    switch (random_.In(0, 3)) {
      case 0:
        return Add(builder_.Compare(kind, RawInput(DType::kBF16, extents), Scalar(0.125)));
      case 1: {
        const int axis = static_cast<int>(random_.In(0, static_cast<int64_t>(extents.size()) - 1));
        const ValueId index = Add(builder_.Iota(DimsOf(extents), axis, DType::kS32));
        return Add(builder_.Compare(kind, index, RawInput(DType::kS32, extents)));
      }
      case 2: {
        const ValueId a = RawInput(DType::kPred, extents), b = RawInput(DType::kPred, extents);
        const ValueId either = Binary(Chance(50) ? BinaryKind::kAnd : BinaryKind::kOr, a, b);
        return Chance(50) ? Unary(UnaryKind::kNot, either) : either;
      }
      default:
        return RawInput(DType::kPred, extents);
    }
  }

  void SelectStep() {
    const Item a = Take();
    const ValueId condition = Predicate(ExtentsOf(a.id));
    if (Chance(40)) {
      Put({Add(builder_.Select(condition, a.id, Scalar(0.25))), std::max(a.bound, 0.25), a.rounded,
           0});
      return;
    }
    const Item b = Partner(a);
    Put({Add(builder_.Select(condition, a.id, b.id)), std::max(a.bound, b.bound),
         a.rounded || b.rounded, 0});
  }

  // Integers, or floors of an input, as f32 again; some are outputs themselves.
  void IntegerStep() {
    const Item like = Take();
    const Extents extents = ExtentsOf(like.id);
    ValueId value;
    if (Chance(30)) {
      value = Unary(UnaryKind::kFloor, Binary(BinaryKind::kMul, Input(extents).id, Scalar(4)));
    } else {
      const ValueId count = RawInput(DType::kS32, extents);
      value = Binary(OneOf<BinaryKind>({BinaryKind::kAdd, BinaryKind::kMul, BinaryKind::kMax}),
                     count, RawInput(DType::kS32, extents));
      if (Chance(30) && outputs_ < kMaxOutputs / 2) Output(value);
      value = Add(builder_.Cast(value, DType::kF32));
    }
    AddSmall(like, value);
  }

  void AddSmall(const Item& like, ValueId value) {
    const Item small = {Binary(BinaryKind::kMul, value, Scalar(1.0 / 256)), 1, false, 0};
    Put({Binary(BinaryKind::kAdd, like.id, small.id), like.bound + 1, like.rounded, 0});
  }

  // ---------------------------------------------------------------- reductions

  std::vector<int32_t> SomeAxes(int rank) {
    const int last = rank - 1;
    if (rank == 1 || Chance(50)) return {last};
    if (Chance(40)) return {0};
    std::vector<int32_t> axes;
    for (int axis = 0; axis < rank; ++axis) {
      if (Chance(50)) axes.push_back(axis);
    }
    return axes.empty() ? std::vector<int32_t>{last / 2} : axes;
  }

  ValueId Reduce(ReduceKind kind, ValueId a, const std::vector<int32_t>& axes, bool keep) {
    return Add(builder_.Reduce(kind, a, axes, keep));
  }

  ValueId ReducedBack(ReduceKind kind, ValueId a, const std::vector<int32_t>& axes) {
    const ValueId statistic = Reduce(kind, a, axes, true);
    return Add(builder_.Broadcast(statistic, builder_.TypeOf(a).dims));
  }

  void ReduceStep() {
    const Item a = Take();
    const Extents extents = ExtentsOf(a.id);
    const std::vector<int32_t> axes = SomeAxes(RankOf(a));
    int64_t terms = 1;
    for (int32_t axis : axes) terms *= extents[axis] == kRows ? kMostRows : extents[axis];
    const auto kind = static_cast<ReduceKind>(random_.In(1, 4));
    const bool keep = Chance(60) || axes.size() == extents.size();
    double bound = a.bound;
    if (kind == ReduceKind::kSum) bound *= static_cast<double>(terms);
    Put({Reduce(kind, a.id, axes, keep), bound, a.rounded, 0});
  }

  void SoftmaxStep() {
    const Item a = Take();
    const std::vector<int32_t> axes = {
        Chance(80) ? RankOf(a) - 1 : static_cast<int32_t>(random_.In(0, RankOf(a) - 1))};
    const ValueId most = ReducedBack(ReduceKind::kMax, a.id, axes);
    const ValueId e = Unary(UnaryKind::kExp, Binary(BinaryKind::kSub, a.id, most));
    Put({Binary(BinaryKind::kDiv, e, ReducedBack(ReduceKind::kSum, e, axes)), 1, a.rounded, 0});
  }

  // A norm plus half of its input: rows without variance would leave nothing but rounding.
  void NormStep() {
    const Item a = Take();
    const std::vector<int32_t> axes = SomeAxes(RankOf(a));
    ValueId centred = a.id;
    if (Chance(60)) {
      centred = Binary(BinaryKind::kSub, a.id, ReducedBack(ReduceKind::kMean, a.id, axes));
    }
    const ValueId power = ReducedBack(ReduceKind::kMean, Unary(UnaryKind::kSquare, centred), axes);
    const ValueId guarded = Binary(BinaryKind::kAdd, power, Scalar(0.0625));
    const ValueId normal = Binary(BinaryKind::kMul, centred, Unary(UnaryKind::kRsqrt, guarded));
    const Item half = Scaled(a, 0.5);
    Put({Binary(BinaryKind::kAdd, normal, half.id), 8 * a.bound + half.bound, a.rounded, 0});
  }

  // y (dy - mean(dy y)), as backward passes have it.
  void BackwardStep() {
    const Item y = Take(), dy = Partner(y);
    const std::vector<int32_t> axes = SomeAxes(RankOf(y));
    const ValueId product = Binary(BinaryKind::kMul, dy.id, y.id);
    const ValueId mean = ReducedBack(ReduceKind::kMean, product, axes);
    const ValueId kept = Binary(BinaryKind::kSub, Shifted(dy).id, mean);
    Put({Binary(BinaryKind::kMul, y.id, kept), y.bound * (dy.bound * (1 + y.bound) + 0.5),
         y.rounded || dy.rounded, 0});
  }

  // ---------------------------------------------------------------- movements and casts

  void TransposeStep() {
    Item a = Take();
    const int rank = RankOf(a);
    if (rank < 2) return Put({Unary(UnaryKind::kTanh, a.id), 1, a.rounded, 0});
    std::vector<int32_t> axes(rank);
    for (int i = 0; i < rank; ++i) axes[i] = i;
    const int64_t at = random_.In(ExtentsOf(a.id)[0] == kRows && rank > 2 ? 1 : 0, rank - 2);
    std::swap(axes[at], axes[rank - 1]);
    Put({Add(builder_.Transpose(a.id, axes)), a.bound, a.rounded, 0});
  }

  void SliceStep() { SliceOf(Take()); }

  void SliceOf(const Item& a) {
    const Extents extents = ExtentsOf(a.id);
    std::vector<int64_t> starts(extents.size(), 0), steps(extents.size(), 1);
    std::vector<Dim> limits = DimsOf(extents);
    const int64_t axis = random_.In(0, static_cast<int64_t>(extents.size()) - 1);
    if (extents[axis] == kRows) return Put({Unary(UnaryKind::kNeg, a.id), a.bound, a.rounded, 0});
    starts[axis] = random_.In(0, extents[axis] / 2);
    limits[axis] = Dim::Constant(random_.In(starts[axis] + 1, extents[axis]));
    if (Chance(30)) steps[axis] = random_.In(1, 3);
    Put({Add(builder_.Slice(a.id, starts, limits, steps)), a.bound, a.rounded, 0});
  }

  void ConcatStep() {
    const Item a = Take();
    const int axis = static_cast<int>(random_.In(0, RankOf(a) - 1));
    if (CountOf(ExtentsOf(a.id)) > limit_ || ExtentsOf(a.id)[axis] == kRows) return SliceOf(a);
    const Item b = Partner(a);
    Put({Add(builder_.Concat({a.id, b.id}, axis)), std::max(a.bound, b.bound),
         a.rounded || b.rounded, 0});
  }

  // Two axes become one, or one is split.
  void ReshapeStep() {
    const Item a = Take();
    Extents extents = ExtentsOf(a.id);
    const int64_t axis = random_.In(0, static_cast<int64_t>(extents.size()) - 1);
    if (extents[axis] == kRows) return SliceOf(a);
    int64_t part = 1;
    for (int64_t p : {7, 5, 4, 3, 2}) {
      if (extents[axis] % p == 0) part = p;
    }
    if (extents.size() < 4 && (part > 1 || extents.size() == 1)) {
      extents[axis] /= part;
      extents.insert(extents.begin() + axis, part);
    } else {
      const int64_t first = std::min<int64_t>(axis, static_cast<int64_t>(extents.size()) - 2);
      if (extents[first] == kRows) return SliceOf(a);
      extents[first] *= extents[first + 1];
      extents.erase(extents.begin() + first + 1);
    }
    Put({Add(builder_.Reshape(a.id, DimsOf(extents))), a.bound, a.rounded, 0});
  }

  void CastStep() {
    const Item a = Take();
    const ValueId narrow = Add(builder_.Cast(a.id, SmallFloat()));
    Put({Add(builder_.Cast(narrow, DType::kF32)), a.bound * 1.01, true, 0});
  }

  void Step() {
    if (whole_table_) TableStep();
    if (whole_table_ && Chance(50)) {
      TableStep();
      BinaryTableStep(Take());
    }
    using Kind = void (StitchGraphMaker::*)();
    static constexpr Kind kSteps[] = {
        &StitchGraphMaker::UnaryStep,    &StitchGraphMaker::UnaryStep,
        &StitchGraphMaker::UnaryStep,    &StitchGraphMaker::BinaryStep,
        &StitchGraphMaker::BinaryStep,   &StitchGraphMaker::BinaryStep,
        &StitchGraphMaker::BinaryStep,   &StitchGraphMaker::SelectStep,
        &StitchGraphMaker::IntegerStep,  &StitchGraphMaker::ReduceStep,
        &StitchGraphMaker::ReduceStep,   &StitchGraphMaker::SoftmaxStep,
        &StitchGraphMaker::NormStep,     &StitchGraphMaker::NormStep,
        &StitchGraphMaker::BackwardStep, &StitchGraphMaker::TransposeStep,
        &StitchGraphMaker::SliceStep,    &StitchGraphMaker::ConcatStep,
        &StitchGraphMaker::ReshapeStep,  &StitchGraphMaker::CastStep};
    (this->*kSteps[random_.In(0, std::size(kSteps) - 1)])();
  }

  // ---------------------------------------------------------------- outputs

  void Output(ValueId id) {
    OutputOptions options;
    const TensorType& type = builder_.TypeOf(id);
    if (Chance(10) && type.rank() > 0) {  // rows with a gap
      Extents padded;
      for (Dim dim : type.dims) padded.push_back(dim.symbolic ? kRows : dim.value);
      const int64_t gap = random_.In(1, 5);
      if (padded.back() != kRows) padded.back() += gap;
      options.strides = ContiguousStrides(DimsOf(padded));
    } else if (Chance(40)) {
      options.alias = Sharable(type);
    }
    ++outputs_;
    if (!builder_.Output(id, options).ok()) builder_.Output(id, {}).IgnoreError();
  }

  // An input of the same type; -1 without one. The builder refuses those taken or strided.
  ValueId Sharable(const TensorType& type) {
    for (ValueId id = 0; id < builder_.size(); ++id) {
      const Op& op = builder_.OpOf(id);
      if (op.kind == OpKind::kInput && op.type == type && !op.constant && Chance(50)) return id;
    }
    return -1;
  }

  void OutputItem(const Item& item) {
    const int64_t pick = random_.In(0, 9);
    if (pick == 0) return Output(Add(builder_.Cast(item.id, DType::kE4M3)));
    if (pick <= 2 && !item.rounded) return Output(item.id);
    Output(Add(builder_.Cast(item.id, SmallFloat())));
  }

  // Values without a reader become outputs; if there are too many, each is reduced to one number
  // and added.
  void Finish() {
    std::vector<Item> unused;
    for (const Item& item : pool_) {
      if (item.uses == 0) unused.push_back(item);
    }
    Item rest;
    while (static_cast<int>(unused.size()) + outputs_ > kMaxOutputs) {
      const Item last = unused.back();
      unused.pop_back();
      std::vector<int32_t> axes(RankOf(last));
      for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int32_t>(i);
      const Item mean = {axes.empty() ? last.id : Reduce(ReduceKind::kMax, last.id, axes, false),
                         last.bound, last.rounded, 0};
      rest = rest.id < 0 ? mean
                         : Item{Binary(BinaryKind::kAdd, rest.id, mean.id), rest.bound + mean.bound,
                                rest.rounded || mean.rounded, 0};
    }
    if (rest.id >= 0) {
      unused[0] = {Binary(BinaryKind::kAdd, unused[0].id, rest.id), unused[0].bound + rest.bound,
                   unused[0].rounded || rest.rounded, 0};
    }
    for (const Item& item : unused) OutputItem(item);
  }

  bench::Random random_;
  int64_t limit_;
  // Every fifth graph has functions of the whole table; the others have those that they always had,
  // so that a new one changes few of them.
  const bool whole_table_;
  uint64_t function_, function_of_two_;
  ChainBuilder builder_;
  std::vector<Item> pool_;
  int inputs_ = 0, outputs_ = 0;
};

}  // namespace sinter::testing
