#include "tests/support/random_graph.h"

#include "src/chain/composites.h"
#include "src/chain/infer.h"
#include "tests/support/stitch_graph_maker.h"

namespace sinter::testing {
namespace {

constexpr DType kTypes[] = {DType::kF32,  DType::kBF16, DType::kF16, DType::kS32,
                            DType::kPred, DType::kE4M3, DType::kS8};

class GraphMaker : public StitchGraphMaker {
 public:
  GraphMaker(uint64_t seed, const RandomGraphOptions& options)
      : StitchGraphMaker(seed, options.max_elements),
        most_steps_(options.most_steps),
        gathers_(seed % 4 == 1),
        scatters_(seed % 8 == 3),
        windows_(seed % 8 == 6),
        row_steps_(seed % 8 == 2),
        grouped_(seed % 16 == 10) {}

  Chain Make() {
    rows_ = Chance(50);
    Put(Input(FirstShapeWithRows()));
    const int64_t steps = random_.In(1, most_steps_);
    for (int64_t i = 0; i < steps && Ops() < kMaxOps - kReserve; ++i) AnyStep();
    if (gathers_) GatherStep();
    if (scatters_) ScatterStep();
    if (windows_) WindowStep();
    if (grouped_) GroupedStep();
    if (row_steps_) RowStep();
    Finish();
    return *builder_.Finish();
  }

  // GEMMs of exact 16-bit inputs, followed by ops of f32, outputs of f32.
  Chain MakeWide() {
    rows_ = Chance(50);
    const int64_t products = random_.In(1, 2);
    for (int64_t i = 0; i < products; ++i) {
      const DType dtype = SmallFloat();
      PutProduct(ProductOf(InputRows(dtype), dtype, false));
    }
    const int64_t steps = random_.In(1, most_steps_);
    for (int64_t i = 0; i < steps; ++i) Chance(70) ? UnaryStep() : MeetInput();
    for (const Item& item : pool_) {
      if (item.uses == 0 && outputs_ < kMaxOutputs) Output(item.id);
    }
    return *builder_.Finish();
  }

 private:
  using Types = std::vector<DType>;

  void AnyStep() {
    using Kind = void (GraphMaker::*)();
    static constexpr Kind kSteps[] = {&GraphMaker::NarrowStep,  &GraphMaker::NarrowStep,
                                      &GraphMaker::TypeStep,    &GraphMaker::ShuffleStep,
                                      &GraphMaker::ProductStep, &GraphMaker::ProductStep,
                                      &GraphMaker::BatchedStep, &GraphMaker::ConvStep,
                                      &GraphMaker::ScaledStep,  &GraphMaker::QuantizeStep};
    if (Chance(45)) return Step();
    (this->*kSteps[random_.In(0, std::size(kSteps) - 1)])();
  }

  Extents FirstShapeWithRows() {
    Extents extents = FirstShape();
    if (rows_ && extents.size() < 4) extents.insert(extents.begin(), kRows);
    while (CountOf(extents) > limit_) {
      const auto shorter = [](int64_t a, int64_t b) { return a % kRows < b % kRows; };
      int64_t& longest = *std::max_element(extents.begin(), extents.end(), shorter);
      longest = (longest + 1) / 2;
    }
    return extents;
  }

  int64_t FirstExtent() { return rows_ ? kRows : OneOf<int64_t>({1, 2, 7, 64, 130}); }

  // Joins a value with an input: the difference of two computed values may consist only of their
  // errors.
  void MeetInput() {
    const Item a = Take(), b = Input(ExtentsOf(a.id));
    const auto kind = OneOf<BinaryKind>({BinaryKind::kAdd, BinaryKind::kMul, BinaryKind::kMax});
    Put({Binary(kind, a.id, b.id), a.bound + 1, a.rounded, 0});
  }

  // ---------------------------------------------------------------- types

  // Ops on a value of 16 bits, which rounds nothing but at the cast.
  void NarrowStep() {
    const Item a = Take();
    const DType dtype = SmallFloat();
    const Item narrow = {Add(builder_.Cast(a.id, dtype)), a.bound * 1.01, true, 0};
    const auto put = [&](ValueId id, double bound) { Put({Widened(id), bound, true, 0}); };
    const auto kind = OneOf<BinaryKind>({BinaryKind::kMax, BinaryKind::kMin, BinaryKind::kAdd});
    switch (random_.In(0, 4)) {
      case 0:
      case 1: {
        const auto of = OneOf<ReduceKind>(
            {ReduceKind::kMax, ReduceKind::kMin, ReduceKind::kMax, ReduceKind::kMean});
        const std::vector<int32_t> axes = AnyAxes(RankOf(narrow));
        const bool keep = Chance(50) || static_cast<int>(axes.size()) == RankOf(narrow);
        return put(Reduce(of, narrow.id, axes, keep), narrow.bound);
      }
      case 2:
        return put(Unary(OneOf<UnaryKind>({UnaryKind::kNeg, UnaryKind::kRelu, UnaryKind::kAbs,
                                           UnaryKind::kTanh, UnaryKind::kSigmoid}),
                         narrow.id),
                   std::max(1.0, narrow.bound));
      case 3: {
        const ValueId other = RawInput(SmallFloat(), ExtentsOf(a.id));
        return put(Binary(kind, narrow.id, other), narrow.bound + 2);
      }
      default: {
        const ValueId condition = Predicate(ExtentsOf(a.id));
        return put(Add(builder_.Select(condition, narrow.id, RawInput(dtype, ExtentsOf(a.id)))),
                   std::max(2.0, narrow.bound));
      }
    }
  }

  // Any of them, all of them too; mostly not M.
  std::vector<int32_t> AnyAxes(int rank) {
    std::vector<int32_t> axes;
    for (int axis = 0; axis < rank; ++axis) {
      if (Chance(45)) axes.push_back(axis);
    }
    return axes.empty() ? std::vector<int32_t>{static_cast<int32_t>(random_.In(0, rank - 1))}
                        : axes;
  }

  // An input through two types that hold its values, moved on the way.
  void TypeStep() {
    const Extents extents = ExtentsOf(OneOf(pool_).id);
    const DType from = OneOf(Types(std::begin(kTypes), std::end(kTypes)));
    const DType over = OneOf(Types(std::begin(kTypes), std::end(kTypes)));
    ValueId value = RawInput(from, extents);
    if (from == DType::kF32 && over == DType::kS8) {
      value = Binary(BinaryKind::kMul, value, Scalar(64));
    }
    value = Moved(Add(builder_.Cast(value, over)));
    if (Chance(30) && outputs_ < kMaxOutputs / 2) Output(value);
    const double bound = from == DType::kS8 ? 128 : 64;
    const Item wide = {Widened(value), bound, over == DType::kBF16 || over == DType::kE4M3, 0};
    // A value as large as a product's would hide the other.
    Put(Scaled(wide, 1.0 / 32));
  }

  // A movement that any type takes.
  ValueId Moved(ValueId value) {
    const Extents extents = ExtentsOf(value);
    const auto rank = static_cast<int>(extents.size());
    switch (random_.In(0, 3)) {
      case 0: {
        if (rank < 2 || HasRows(extents)) return value;
        std::vector<int32_t> axes(extents.size());
        for (int i = 0; i < rank; ++i) axes[i] = rank - 1 - i;
        return Add(builder_.Transpose(value, axes));
      }
      case 1: {
        if (extents.back() == kRows || extents.back() < 3) return value;
        std::vector<int64_t> starts(extents.size(), 0), steps(extents.size(), 1);
        starts.back() = 1;
        steps.back() = 2;
        return Add(builder_.Slice(value, starts, DimsOf(extents), steps));
      }
      case 2:
        if (extents.back() == kRows || CountOf(extents) > limit_) return value;
        return Add(builder_.Concat({value, value, value}, rank - 1));
      default:
        return value;
    }
  }

  // ---------------------------------------------------------------- movements

  // Several values side by side, and then every second element, other axes first, or the groups of
  // channels in turn.
  void ShuffleStep() {
    const Item a = Take();
    const int rank = RankOf(a);
    int axis = static_cast<int>(random_.In(0, rank - 1));
    if (ExtentsOf(a.id)[axis] == kRows) axis = rank - 1;
    if (ExtentsOf(a.id)[axis] == kRows || CountOf(ExtentsOf(a.id)) > limit_) return SliceOf(a);
    std::vector<ValueId> parts = {a.id};
    const int64_t many = random_.In(1, 3);
    double bound = a.bound;
    bool rounded = a.rounded;
    for (int64_t i = 0; i < many; ++i) {
      Extents extents = ExtentsOf(a.id);
      extents[axis] = OneOf<int64_t>({extents[axis], 1, 3});
      const Item b = Input(extents);
      parts.push_back(b.id);
      bound = std::max(bound, b.bound);
    }
    const ValueId joined = Add(builder_.Concat(parts, axis));
    const auto put = [&](ValueId id) { Put({id, bound, rounded, 0}); };
    const Extents extents = ExtentsOf(joined);
    switch (random_.In(0, 2)) {
      case 0: {
        std::vector<int64_t> starts(extents.size(), 0), steps(extents.size(), 1);
        starts[axis] = random_.In(0, extents[axis] - 1);
        steps[axis] = random_.In(1, 3);
        return put(Add(builder_.Slice(joined, starts, DimsOf(extents), steps)));
      }
      case 1: {
        if (rank < 2 || extents[0] == kRows) return put(joined);
        std::vector<int32_t> axes;
        for (int i = rank; i-- > 0;) axes.push_back(i);
        return put(Add(builder_.Transpose(joined, axes)));
      }
      default: {
        const int64_t group = extents[axis] % 2 == 0 ? 2 : extents[axis] % 3 == 0 ? 3 : 1;
        Extents split = extents;
        split[axis] /= group;
        split.insert(split.begin() + axis, group);
        std::vector<int32_t> axes;
        for (int i = 0; i <= rank; ++i) axes.push_back(i);
        std::swap(axes[axis], axes[axis + 1]);
        const ValueId turned =
            Add(builder_.Transpose(Add(builder_.Reshape(joined, DimsOf(split))), axes));
        return put(Add(builder_.Reshape(turned, DimsOf(extents))));
      }
    }
  }

  // The largest elements in rows of an input, taken from a value; running sums of a value; a value
  // where a random number is large.
  void RowStep() {
    const Item a = Take();
    const Extents extents = ExtentsOf(a.id);
    if (extents.empty()) return Put(a);
    const bool rows_of_m = extents.back() == kRows;
    switch (rows_of_m ? 2 : random_.In(0, 2)) {
      case 0: {
        const DType dtype = OneOf(Types{DType::kF32, DType::kBF16, DType::kF16, DType::kS32});
        const int64_t most = std::min<int64_t>(32, extents.back());
        const ValueId x = RawInput(dtype, extents);
        const ValueId places = Add(builder_.TopK(x, random_.In(1, most)));
        if (outputs_ < kMaxOutputs / 2) Output(places);
        return Put({Add(builder_.Gather(a.id, places, -1)), a.bound, a.rounded, 0});
      }
      case 1: {
        const auto many = static_cast<double>(extents.back());
        const ValueId sums = Add(builder_.Scan(ReduceKind::kSum, a.id));
        double share = 1;  // exact, so that sums halfway between two codes stay there
        while (share * many > 1) share /= 2;
        return Put(Scaled({sums, a.bound * many, a.rounded, 0}, share));
      }
      default: {
        const ValueId seed = RawInput(DType::kS64, {}), offset = RawInput(DType::kS32, {});
        const ValueId drawn = Add(builder_.Random(DimsOf(extents), seed, offset));
        const ValueId large = Add(builder_.Compare(CompareKind::kGt, drawn, Scalar(0.25)));
        return Put({Add(builder_.Select(large, a.id, Scalar(0))), a.bound, a.rounded, 0});
      }
    }
  }

  // By ids, some of which name nothing: elements of each row, rows, or rows of a table that are
  // added to a value.
  void GatherStep() {
    const Item a = Take();
    Extents extents = ExtentsOf(a.id), ids = extents;
    if (extents.size() > 1 && extents.back() != kRows && Chance(40)) {
      ids.back() = OneOf<int64_t>({1, 3, extents.back()});
      return Put({Add(builder_.Gather(a.id, Ids(ids), -1)), a.bound, a.rounded, 0});
    }
    if (extents[0] != kRows && Chance(50)) {
      return Put({Add(builder_.Gather(a.id, Ids({OneOf<int64_t>({1, 5, extents[0]})}))), a.bound,
                  a.rounded, 0});
    }
    Extents table = {random_.In(1, 40)};
    if (extents.size() > 1 && extents.back() != kRows) {
      table.push_back(extents.back());
      ids.pop_back();
    }
    const Item rows = Input(table);
    Put({Binary(BinaryKind::kAdd, a.id, Add(builder_.Gather(rows.id, Ids(ids)))), a.bound + 1,
         a.rounded, 0});
  }

  // Rows by ids, some of which name nothing: a value over an input or a value, or an input over
  // one.
  void ScatterStep() {
    const Item a = Take();
    const Extents extents = ExtentsOf(a.id);
    if (extents.empty()) return Put(a);
    Extents other = extents;
    other[0] = random_.In(1, 40);
    const DType dtype = builder_.TypeOf(a.id).dtype;
    const bool over = Chance(50);
    const ValueId x = over ? a.id : RawInput(dtype, other);
    const ValueId rows = over ? RawInput(dtype, other) : a.id;
    const ValueId ids = Ids({over ? other[0] : extents[0]});
    Put({Add(builder_.Scatter(x, ids, rows)), std::max(a.bound, 1.0), a.rounded, 0});
  }

  // A GEMM with matrices that ids or ends name, some of which do not name a matrix; in many graphs
  // the gated FFN of a mixture of experts.
  void GroupedStep() {
    const DType dtype = SmallFloat();
    const int64_t m = FirstExtent(), slots = random_.In(1, 3), experts = OneOf<int64_t>({1, 3, 8});
    const int64_t k = OneOf<int64_t>({16, 72, 128}), n = OneOf<int64_t>({8, 24, 40});
    const ValueId a = Multiplied(dtype, {m, k});
    const bool by_ends = Chance(20);
    ValueId ids = by_ends ? Add(builder_.Input({DType::kS32, DimsOf({experts})}))
                          : RawInput(DType::kS32, {m, slots});
    if (Chance(50)) ids = Binary(BinaryKind::kSub, ids, Add(builder_.Scalar(2, DType::kS32)));
    const bool oi = Chance(70);
    const auto matrices = [&](int64_t out, int64_t in) {
      return Weight(dtype, oi ? Extents{experts, out, in} : Extents{experts, in, out});
    };
    const double bound = 8 * std::sqrt(static_cast<double>(k));
    if (by_ends || Chance(50)) {
      const ValueId w = matrices(n + OneOf<int64_t>({0, 5}), k);
      return Put({Add(by_ends ? builder_.GroupedMatmulByEnds(a, w, ids, oi)
                              : builder_.GroupedMatmul(a, w, ids, oi)),
                  bound, false, 0});
    }
    const ValueId weights = RawInput(DType::kF32, {m, slots});
    const ValueId w1 = matrices(2 * n, k), w2 = matrices(32, n);
    GroupedFfnOptions options{.act = Activation::kSilu,
                              .layout = oi ? Layout::kOI : Layout::kIO,
                              .weight_on_input = Chance(30)};
    if (Chance(30)) {
      options.order = GateOrder::kInterleaved;
      options.limit = 7;
    }
    const ValueId y = Add(AddGroupedGatedFfn(builder_, {a, ids, weights, w1, w2}, options));
    Put({Widened(y), bound * bound, true, 0});
  }

  ValueId Ids(const Extents& extents) {
    switch (random_.In(0, 2)) {
      case 0:
        return RawInput(DType::kS64, extents);
      case 1:
        return Binary(BinaryKind::kSub, RawInput(DType::kS32, extents),
                      Add(builder_.Scalar(2, DType::kS32)));
      default:
        return RawInput(DType::kS32, extents);
    }
  }

  // ---------------------------------------------------------------- products

  ValueId Weight(DType dtype, const Extents& extents) { return Plain(dtype, extents, Chance(85)); }
  // Mostly without gaps: kernels of products load whole 16 bytes.
  ValueId Multiplied(DType dtype, const Extents& extents) {
    return Chance(96) ? Plain(dtype, extents, false) : RawInput(dtype, extents);
  }
  ValueId Plain(DType dtype, const Extents& extents, bool constant) {
    InputOptions options{.constant = constant};
    ++inputs_;
    return Add(builder_.Input({dtype, DimsOf(extents)}, options));
  }

  // What multiplies: its type, and whether computed values were rounded to it.
  struct Rows {
    ValueId id = -1;
    bool rounded = false;
  };

  Rows InputRows(DType dtype) {
    Extents extents = {FirstExtent(), OneOf<int64_t>({8, 16, 24, 64, 72, 136, 264})};
    if (Chance(15)) extents.insert(extents.begin() + 1, random_.In(1, 5));
    return {Multiplied(dtype, extents), false};
  }

  // From the pool if a value is a matrix whose rows are multiples of 16 bytes.
  Rows AnyRows(DType dtype) {
    for (Item& item : pool_) {
      const Extents extents = ExtentsOf(item.id);
      const bool fits = extents.size() >= 2 && extents.back() != kRows && extents.back() % 8 == 0 &&
                        std::count(extents.begin() + 1, extents.end(), kRows) == 0;
      if (!fits || extents.back() > 512 || !Chance(60)) continue;
      ++item.uses;
      return {Add(builder_.Cast(item.id, dtype)), true};
    }
    return InputRows(dtype);
  }

  // rows x weights, of either layout; f32.
  ValueId Matmul(ValueId rows, DType dtype, int64_t n) {
    const int64_t k = ExtentsOf(rows).back();
    if (n % 8 == 0 && Chance(35)) {
      return Add(builder_.Matmul(rows, Weight(dtype, {k, n}), false, false));
    }
    return Add(builder_.Matmul(rows, Weight(dtype, {n, k}), false, true));
  }

  Item ProductOf(const Rows& rows, DType dtype, bool casts) {
    ValueId value = Matmul(rows.id, dtype, OneOf<int64_t>({1, 3, 8, 24, 64, 100, 104, 130, 257}));
    const auto k = static_cast<double>(ExtentsOf(rows.id).back());
    Item item = {value, 8 * std::sqrt(k), rows.rounded, 0};
    Epilogue(&item, rows.id, dtype, casts);
    return item;
  }
  void PutProduct(const Item& item) { Put(item); }

  ValueId Spread(ValueId value, ValueId like) {
    return Add(builder_.Broadcast(value, builder_.TypeOf(like).dims));
  }

  // Some ops that a GEMM's kernel absorbs, in its order, and some that it does not.
  void Epilogue(Item* item, ValueId rows, DType dtype, bool casts) {
    const Extents extents = ExtentsOf(item->id);
    const Extents columns = {extents.back()};
    const auto widened = [&](ValueId id) { return Widened(id); };
    // A GELU of far negative values is a difference that leaves nothing of f32.
    const bool small = Chance(30);
    if (small) item->id = Binary(BinaryKind::kMul, item->id, Scalar(2 / item->bound));
    if (Chance(12)) {
      Extents one = extents;
      one.back() = 1;
      const ValueId factor = widened(RawInput(OneOf(Types{DType::kF32, dtype}), one));
      item->id = Binary(BinaryKind::kMul, item->id, Spread(factor, item->id));
    }
    if (Chance(15)) {
      const ValueId scale = widened(Weight(OneOf(Types{DType::kF32, dtype}), columns));
      item->id = Binary(BinaryKind::kMul, item->id, Spread(scale, item->id));
    }
    if (Chance(35)) {
      const ValueId bias = widened(Weight(Chance(85) ? dtype : DType::kF32, columns));
      item->id = Binary(BinaryKind::kAdd, item->id, Spread(bias, item->id));
      item->bound += 2;
    }
    if (casts && Chance(15)) Round(item, dtype);
    if (Chance(45)) Activate(item, small);
    if (Chance(15) && rows >= 0) {
      const ValueId up = Matmul(rows, dtype, extents.back());
      item->id = Binary(BinaryKind::kMul, item->id, up);
      item->bound *= item->bound;
    }
    if (casts && Chance(25)) Round(item, dtype);
    if (Chance(20)) {
      const ValueId residual = widened(RawInput(Chance(80) ? dtype : DType::kF32, extents));
      item->id = Binary(BinaryKind::kAdd, item->id, residual);
      item->bound += 1;
      if (Chance(30)) Activate(item, small);
    }
    if (casts && Chance(40)) Round(item, dtype);
  }

  void Round(Item* item, DType dtype) {
    item->id = Widened(Add(builder_.Cast(item->id, dtype)));
    item->rounded = true;
  }

  void Activate(Item* item, bool small) {
    std::vector<Activation> some = {Activation::kRelu, Activation::kSilu};
    if (small) some.insert(some.end(), {Activation::kGeluTanh, Activation::kGeluErf});
    item->id = Add(AddActivation(builder_, OneOf(some), item->id));
  }

  void ProductStep() {
    const DType dtype = SmallFloat();
    PutProduct(ProductOf(AnyRows(dtype), dtype, true));
  }

  // A small batch of products, of any floating types.
  void BatchedStep() {
    const Types floats = {DType::kF32, DType::kBF16, DType::kF16};
    const int64_t m = random_.In(1, 17), n = random_.In(1, 17), k = random_.In(1, 33);
    const bool turn_a = Chance(30), turn_b = Chance(30);
    Extents a = turn_a ? Extents{k, m} : Extents{m, k}, b = turn_b ? Extents{n, k} : Extents{k, n};
    a.insert(a.begin(), rows_ ? kRows : random_.In(2, 9));
    if (Chance(95)) b.insert(b.begin(), a[0]);
    const ValueId left = RawInput(OneOf(floats), a), right = RawInput(OneOf(floats), b);
    const ValueId product = Add(builder_.Matmul(left, right, turn_a, turn_b));
    Item item = {product, static_cast<double>(k), false, 0};
    if (Chance(50)) Activate(&item, false);
    Put(item);
  }

  void ConvStep() {
    const DType dtype = SmallFloat();
    const int64_t channels = OneOf<int64_t>({8, 16, 24, 64, 3}),
                  out = OneOf<int64_t>({8, 24, 64, 5});
    const int64_t pixels = OneOf<int64_t>({1, 5, 8, 13}), taps = OneOf<int64_t>({1, 3, 3, 5});
    Conv2d conv{.filter = Chance(70) ? FilterLayout::kOHWI : FilterLayout::kHWIO};
    const int64_t pad = taps > pixels ? taps / 2 : random_.In(0, taps / 2);
    conv.pads = {pad, pad, pad, pad};
    const int64_t stride = random_.In(1, 2);
    conv.strides = {stride, stride};
    const ValueId x =
        Multiplied(dtype, {rows_ ? kRows : random_.In(1, 3), pixels, pixels + 2, channels});
    const ValueId w =
        Weight(dtype, conv.filter == FilterLayout::kOHWI ? Extents{out, taps, taps, channels}
                                                         : Extents{taps, taps, channels, out});
    const absl::StatusOr<ValueId> result = builder_.Convolve(x, w, conv);
    if (!result.ok()) return Put({Widened(x), 1, false, 0});
    Item item = {*result, 8 * std::sqrt(static_cast<double>(taps * taps * channels)), false, 0};
    Epilogue(&item, -1, dtype, true);
    Put(item);
  }

  // A depthwise convolution or a pooling of an input.
  void WindowStep() {
    const DType dtype = SmallFloat();
    const int64_t channels = OneOf<int64_t>({8, 16, 24, 3}), pixels = OneOf<int64_t>({1, 5, 8});
    Conv2d moves{.filter = Chance(50) ? FilterLayout::kOHWI : FilterLayout::kHWIO};
    const std::array<int64_t, 2> taps = {OneOf<int64_t>({1, 3, 5}), OneOf<int64_t>({2, 3})};
    const int64_t which = random_.In(0, 2);
    // Each pooled window has a pixel inside.
    for (int64_t& pad : moves.pads) pad = which == 0 ? random_.In(2, 3) : 1;
    for (int64_t& stride : moves.strides) stride = random_.In(1, 2);
    const ValueId x =
        Multiplied(dtype, {rows_ ? kRows : random_.In(1, 3), pixels, pixels + 2, channels});
    if (which == 0) {
      const bool last = moves.filter == FilterLayout::kHWIO;
      const ValueId w = Weight(dtype, last ? Extents{taps[0], taps[1], 1, channels}
                                           : Extents{channels, taps[0], taps[1], 1});
      const double bound = 8 * std::sqrt(static_cast<double>(taps[0] * taps[1]));
      return Put({AddConv2d(builder_, x, w, moves, channels).value(), bound, false, 0});
    }
    if (which == 1) return Put({AddMaxPool2d(builder_, x, {2, 3}, moves).value(), 1, false, 0});
    return Put({AddAvgPool2d(builder_, x, {2, 3}, moves, Chance(50)).value(), 1, false, 0});
  }

  // A scale of [rows, k], of weights in blocks of rows.
  ValueId ScaleOf(int64_t rows, int64_t k, bool weights, int grain) {
    const int64_t groups = k / kScaleBlock;
    Extents extents;
    if (grain == 1) extents = {rows, 1};
    if (grain == 2) extents = {weights ? (rows + kScaleBlock - 1) / kScaleBlock : rows, groups};
    return Multiplied(DType::kF32, extents);
  }

  void ScaledStep() {
    const DType codes = Chance(65) ? DType::kE4M3 : DType::kS8;
    const int64_t k = OneOf<int64_t>({16, 64, 128, 256, 144}), m = FirstExtent();
    const int64_t n = OneOf<int64_t>({16, 64, 130, 256});
    const bool blocks = codes == DType::kE4M3 && k % kScaleBlock == 0;
    const auto grain = [&] { return static_cast<int>(random_.In(0, blocks ? 2 : 1)); };
    const ValueId a = Multiplied(codes, {m, k}), w = Weight(codes, {n, k});
    const ValueId scale_a = ScaleOf(m, k, false, grain()), scale_w = ScaleOf(n, k, true, grain());
    Item item = {Add(builder_.ScaledMatmul(a, w, scale_a, scale_w)),
                 codes == DType::kS8 ? 1024.0 * 64 : 64.0, true, 0};
    Epilogue(&item, -1, DType::kBF16, true);
    Put(item);
  }

  void QuantizeStep() {
    if (outputs_ + 2 > kMaxOutputs / 2) return Step();
    QuantizeSpec spec;
    spec.codes = Chance(70) ? DType::kE4M3 : DType::kS8;
    spec.granularity = OneOf<Granularity>(
        {Granularity::kTensor, Granularity::kRow, Granularity::kGroup, Granularity::kStatic});
    if (spec.granularity != Granularity::kStatic) {
      spec.ue8m0 = spec.codes == DType::kE4M3 && Chance(30);
      if (Chance(30)) spec.upper_bound = 0.5;
    }
    if (spec.granularity == Granularity::kGroup) spec.codes = DType::kE4M3;
    Extents extents = {FirstExtent(), OneOf<int64_t>({64, 100, 128, 256})};
    if (extents.back() % kScaleBlock != 0 && spec.granularity == Granularity::kGroup) {
      extents.back() = kScaleBlock;
    }
    if (spec.granularity == Granularity::kStatic) spec.scale = RawInput(DType::kF32, {});
    const sinter::Scaled scaled = AddQuantize(builder_, Input(extents).id, spec).value();
    Output(scaled.codes);
    if (spec.granularity != Granularity::kStatic) Output(scaled.scale);
  }

  const int most_steps_;
  const bool gathers_;    // every fourth graph takes by ids; the others are what they always were
  const bool scatters_;   // and every eighth writes by ids
  const bool windows_;    // or reads windows
  const bool row_steps_;  // or takes the largest of rows, running sums, random numbers
  const bool grouped_;    // every sixteenth multiplies with matrices that ids name
  bool rows_ = false;     // the graph has M
};

}  // namespace

Chain MakeRandomGraph(uint64_t seed, const RandomGraphOptions& options) {
  return GraphMaker(seed, options).Make();
}

Chain MakeRandomWideGraph(uint64_t seed) { return GraphMaker(seed, {}).MakeWide(); }

int64_t RowsOfRandomGraph(uint64_t seed) {
  constexpr int64_t kRowsTried[] = {1, 2, 7, 16, 33, 64, 100, 128, 300, 512};
  return kRowsTried[bench::Random(seed).In(0, std::size(kRowsTried) - 1)];
}

}  // namespace sinter::testing
