#include "tests/support/attention_chains.h"

#include "tests/support/chains.h"

namespace sinter::testing {
namespace {

using FormLayout = AttentionForm::Layout;
using Term = AttentionForm::Term;

// Everything is valid by construction.
class AttentionMaker {
 public:
  explicit AttentionMaker(const AttentionForm& form) : f_(form) {
    value_head_ = f_.value_head > 0 ? f_.value_head : f_.head;
    batch_ = f_.of_m ? Dim::M() : C(f_.batch);
  }

  Chain Make() {
    const std::vector<ValueId> qkv = Operands();
    ValueId q = qkv[0];
    if (f_.scale_first) {
      q = Rounded(*b_.Binary(BinaryKind::kMul, *b_.Cast(q, DType::kF32), *b_.Scalar(f_.scale)));
    }
    ValueId k = Shared(qkv[1], f_.head), v = Shared(qkv[2], value_head_);
    if (f_.batched) {
      q = Together(q, f_.rows, f_.head);
      k = Together(k, f_.keys, f_.head);
      v = Together(v, f_.keys, value_head_);
    }
    ValueId s = *b_.Matmul(q, k, false, true);
    if (f_.batched) s = *b_.Reshape(s, {batch_, C(f_.heads), C(f_.rows), C(f_.keys)});
    if (f_.rounds) s = *b_.Cast(Rounded(s), DType::kF32);
    if (!f_.scale_first) {
      s = f_.divides ? *b_.Binary(BinaryKind::kDiv, s, *b_.Scalar(1 / f_.scale))
                     : *b_.Binary(BinaryKind::kMul, s, *b_.Scalar(f_.scale));
    }
    s = WithTerm(s);
    ValueId p = Rounded(f_.zero_unseen ? SoftmaxOrZero(s) : *AddSoftmax(b_, s, -1));
    if (f_.batched) p = Together(p, f_.rows, f_.keys);
    ValueId o = *b_.Matmul(p, v);
    if (f_.batched) o = *b_.Reshape(o, {batch_, C(f_.heads), C(f_.rows), C(value_head_)});
    if (!f_.wide) o = Rounded(o);
    if (f_.layout != FormLayout::kHeadsFirst) {
      o = *b_.Reshape(*b_.Transpose(o, {0, 2, 1, 3}),
                      {batch_, C(f_.rows), C(f_.heads * value_head_)});
    }
    (void)b_.Output(o);
    return *b_.Finish();
  }

 private:
  static Dim C(int64_t extent) { return Dim::Constant(extent); }
  ValueId Rounded(ValueId x) { return *b_.Cast(x, f_.dtype); }
  ValueId Together(ValueId x, int64_t rows, int64_t columns) {
    return *b_.Reshape(x, {C(f_.batch * f_.heads), C(rows), C(columns)});
  }

  ValueId Operand(int64_t heads, int64_t rows, int64_t head) {
    if (f_.layout == FormLayout::kHeadsFirst) {
      return *b_.Input({f_.dtype, {batch_, C(heads), C(rows), C(head)}});
    }
    return *b_.Transpose(*b_.Input({f_.dtype, {batch_, C(rows), C(heads), C(head)}}), {0, 2, 1, 3});
  }

  // For all heads of a group.
  ValueId Shared(ValueId x, int64_t head) {
    if (f_.group == 1) return x;
    const Dim heads = C(f_.heads / f_.group);
    x = *b_.Reshape(x, {batch_, heads, C(1), C(f_.keys), C(head)});
    x = *b_.Broadcast(x, {batch_, heads, C(f_.group), C(f_.keys), C(head)});
    return *b_.Reshape(x, {batch_, C(f_.heads), C(f_.keys), C(head)});
  }

  std::vector<ValueId> Operands() {
    if (f_.layout != FormLayout::kPacked) {
      const int64_t shared = f_.heads / f_.group;
      const ValueId q = Operand(f_.heads, f_.rows, f_.head);
      const ValueId k = Operand(shared, f_.keys, f_.head);
      return {q, k, Operand(shared, f_.keys, value_head_)};
    }
    const std::vector<Dim> dims = {batch_, C(f_.rows), C(3), C(f_.heads), C(f_.head)};
    const ValueId all = *b_.Input({f_.dtype, dims});
    std::vector<ValueId> list;
    for (int64_t i = 0; i < 3; ++i) {
      std::vector<Dim> end = dims;
      end[2] = C(i + 1);
      const ValueId part = *b_.Slice(all, {0, 0, i, 0, 0}, end);
      list.push_back(*b_.Transpose(*b_.Reshape(part, {batch_, C(f_.rows), C(f_.heads), C(f_.head)}),
                                   {0, 2, 1, 3}));
    }
    return list;
  }

  ValueId WithTerm(ValueId s) {
    const std::vector<Dim> dims = b_.TypeOf(s).dims;
    const double least = -std::numeric_limits<float>::max();
    const double infinity = std::numeric_limits<double>::infinity();
    switch (f_.term) {
      case Term::kNone:
        return s;
      case Term::kOfHeads:
        return *b_.Binary(BinaryKind::kAdd, s, OfHeads(dims));
      case Term::kOfKeys:
        return *b_.Binary(
            BinaryKind::kAdd, s,
            *b_.Broadcast(*b_.Input({DType::kF32, {batch_, C(1), C(1), C(f_.keys)}}), dims));
      case Term::kMask:
        return *b_.Select(
            *b_.Broadcast(*b_.Input({DType::kPred, {batch_, C(1), C(f_.rows), C(f_.keys)}}), dims),
            s, *b_.Broadcast(*b_.Scalar(-infinity), dims));
      case Term::kHiddenKeys:
        return *b_.Select(
            *b_.Broadcast(*b_.Input({DType::kPred, {batch_, C(1), C(1), C(f_.keys)}}), dims),
            *b_.Broadcast(*b_.Scalar(least), dims), s);
      case Term::kWindows: {
        s = *b_.Binary(BinaryKind::kAdd, s, OfHeads(dims));
        const std::vector<Dim> apart = {C(2), C(f_.batch / 2), C(f_.heads), C(f_.rows), C(f_.keys)};
        const ValueId mask =
            *b_.Input({DType::kF32, {C(f_.batch / 2), C(1), C(f_.rows), C(f_.keys)}});
        s = *b_.Binary(BinaryKind::kAdd, *b_.Reshape(s, apart), *b_.Broadcast(mask, apart));
        return *b_.Reshape(s, dims);
      }
      case Term::kCausal:
      case Term::kCausalBehind: {
        const std::vector<Dim> matrix = {C(f_.rows), C(f_.keys)};
        ValueId row = *b_.Iota(matrix, 0, DType::kS32);
        const ValueId column = *b_.Iota(matrix, 1, DType::kS32);
        if (f_.term == Term::kCausalBehind) {
          row = *b_.Binary(
              BinaryKind::kAdd, row,
              *b_.Broadcast(*b_.Scalar(static_cast<double>(f_.keys - f_.rows), DType::kS32),
                            matrix));
        }
        const ValueId seen = *b_.Compare(CompareKind::kGe, row, column);
        return *b_.Select(*b_.Broadcast(seen, dims), s, *b_.Broadcast(*b_.Scalar(-infinity), dims));
      }
    }
    return s;
  }

  // Bounds keep a row of -infinity from being divided by 0.
  ValueId SoftmaxOrZero(ValueId s) {
    const std::vector<Dim> dims = b_.TypeOf(s).dims;
    const auto bounded = [&](ReduceKind kind, ValueId x, double least) {
      const ValueId statistic = *b_.Reduce(kind, x, {3}, true);
      return *b_.Broadcast(*b_.Binary(BinaryKind::kMax, statistic, *b_.Scalar(least)), dims);
    };
    const double least = -std::numeric_limits<float>::max();
    const ValueId shifted = *b_.Binary(BinaryKind::kSub, s, bounded(ReduceKind::kMax, s, least));
    const ValueId powers = *b_.Unary(UnaryKind::kExp, shifted);
    return *b_.Binary(BinaryKind::kDiv, powers, bounded(ReduceKind::kSum, powers, 0.5));
  }

  ValueId OfHeads(const std::vector<Dim>& dims) {
    const ValueId term = *b_.Input({f_.dtype, {C(f_.heads), C(f_.rows), C(f_.keys)}});
    return *b_.Broadcast(*b_.Cast(term, DType::kF32), dims);
  }

  const AttentionForm f_;
  int64_t value_head_ = 0;
  Dim batch_;
  ChainBuilder b_;
};

}  // namespace

std::string AttentionForm::Name() const {
  static constexpr const char* kLayouts[] = {"heads_first", "rows_first", "packed"};
  static constexpr const char* kTerms[] = {"plain",       "of_heads", "of_keys", "mask",
                                           "hidden_keys", "windows",  "causal",  "causal_behind"};
  std::string name = absl::StrCat(NameOf(dtype), "_", of_m ? "M" : absl::StrCat(batch), "x", heads,
                                  "_", rows, "x", keys, "_", head);
  if (value_head > 0) absl::StrAppend(&name, "_", value_head);
  absl::StrAppend(&name, "_", kLayouts[static_cast<int>(layout)], "_",
                  kTerms[static_cast<int>(term)]);
  if (group > 1) absl::StrAppend(&name, "_group", group);
  if (scale_first) name += "_scale_first";
  if (rounds) name += "_rounds";
  if (divides) name += "_divides";
  if (batched) name += "_batched";
  if (wide) name += "_wide";
  if (zero_unseen) name += "_zero_unseen";
  return name;
}

Chain MakeAttention(const AttentionForm& form) { return AttentionMaker(form).Make(); }

std::vector<AttentionForm> AttentionForms() {
  std::vector<AttentionForm> forms;
  const auto add = [&](int64_t batch, int64_t heads, int64_t rows, int64_t keys, int64_t head) {
    forms.push_back({.batch = batch, .heads = heads, .rows = rows, .keys = keys, .head = head});
    return &forms.back();
  };
  add(2, 12, 128, 128, 64)->rounds = true;
  add(2, 12, 512, 512, 64);
  add(2, 4, 197, 197, 64)->layout = FormLayout::kRowsFirst;
  add(2, 3, 1, 16, 64);
  add(1, 2, 17, 33, 32)->divides = true;
  add(3, 2, 77, 333, 96)->layout = FormLayout::kRowsFirst;
  add(2, 2, 300, 1000, 128);
  add(2, 2, 300, 40, 40)->wide = true;
  add(2, 2, 1024, 1024, 32)->dtype = DType::kF16;
  add(2, 2, 130, 200, 80)->scale_first = true;
  add(4, 2, 64, 8, 64);
  add(2, 3, 1, 500, 64)->layout = FormLayout::kRowsFirst;
  add(2, 4, 160, 160, 72)->layout = FormLayout::kPacked;
  forms.back().dtype = DType::kF16;
  add(2, 4, 197, 197, 64)->batched = true;
  add(2, 3, 100, 180, 64)->value_head = 32;
  add(2, 3, 200, 280, 32)->value_head = 128;
  for (const int64_t rows : {49, 144, 250}) {
    for (const Term term : {Term::kOfHeads, Term::kOfKeys, Term::kMask, Term::kHiddenKeys,
                            Term::kWindows, Term::kCausal}) {
      add(4, 3, rows, rows, rows == 144 ? 64 : 32)->term = term;
      if (rows == 250) forms.back().layout = FormLayout::kPacked;
    }
  }
  for (const Term term : {Term::kOfKeys, Term::kMask, Term::kCausal}) {
    add(2, 2, 100, 260, 64)->term = term;
    forms.back().zero_unseen = true;
  }
  add(2, 8, 70, 150, 64)->group = 4;
  add(2, 4, 70, 150, 64)->group = 2;
  forms.back().layout = FormLayout::kRowsFirst;
  add(2, 2, 40, 300, 64)->term = Term::kCausalBehind;
  add(2, 2, 300, 200, 64)->term = Term::kCausal;
  add(2, 2, 600, 600, 128)->term = Term::kCausal;
  add(8, 3, 49, 49, 32)->term = Term::kOfHeads;
  forms.back().of_m = true;
  add(8, 3, 197, 197, 64)->of_m = true;
  forms.back().layout = FormLayout::kPacked;
  return forms;
}

Chain MakeEncoderLayer(int64_t batch, int64_t rows, int64_t heads, int64_t head) {
  ChainBuilder b;
  const int64_t width = heads * head;
  const auto c = [](int64_t extent) { return Dim::Constant(extent); };
  const auto weight = [&](std::vector<Dim> dims) {
    return *b.Input({DType::kBF16, std::move(dims)}, {true, {}, ""});
  };
  const auto linear = [&](ValueId x, int64_t n, int64_t k) {
    const ValueId y = *b.Matmul(x, weight({c(n), c(k)}), false, true);
    return *b.Binary(BinaryKind::kAdd, y, *b.Broadcast(weight({c(n)}), b.TypeOf(y).dims));
  };
  const auto rounded = [&](ValueId x) { return *b.Cast(x, DType::kBF16); };
  const ValueId x = *b.Input({DType::kBF16, {c(batch), c(rows), c(width)}});
  std::vector<ValueId> parts;
  for (int i = 0; i < 3; ++i) {
    const ValueId y = rounded(linear(x, width, width));
    parts.push_back(
        *b.Transpose(*b.Reshape(y, {c(batch), c(rows), c(heads), c(head)}), {0, 2, 1, 3}));
  }
  const ValueId s =
      *b.Binary(BinaryKind::kMul, *b.Matmul(parts[0], parts[1], false, true), *b.Scalar(0.125));
  const ValueId o = rounded(*b.Matmul(rounded(*AddSoftmax(b, s, -1)), parts[2]));
  const ValueId merged = *b.Reshape(*b.Transpose(o, {0, 2, 1, 3}), {c(batch), c(rows), c(width)});
  const ValueId sum =
      *b.Binary(BinaryKind::kAdd, linear(merged, width, width), *b.Cast(x, DType::kF32));
  const ValueId norm = rounded(*AddLayerNorm(b, sum, 1e-5, weight({c(width)}), weight({c(width)})));
  const ValueId inner = rounded(*AddGeluErf(b, linear(norm, 4 * width, width)));
  const ValueId out =
      *b.Binary(BinaryKind::kAdd, linear(inner, width, 4 * width), *b.Cast(norm, DType::kF32));
  (void)b.Output(rounded(out));
  return *b.Finish();
}

}  // namespace sinter::testing
