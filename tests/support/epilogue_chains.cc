#include "tests/support/epilogue_chains.h"

#include "tests/support/files.h"
#include "tests/support/read_chain.h"

namespace sinter::testing {
namespace {

// Adds ops with short names. Everything here is valid by construction.
class Maker {
 public:
  Maker(const EpilogueTypes& types, const EpilogueSizes& sizes) : types_(types), sizes_(sizes) {}

  ValueId Un(UnaryKind kind, ValueId x) { return b_.Unary(kind, x).value(); }
  ValueId Bin(BinaryKind kind, ValueId x, ValueId y) { return b_.Binary(kind, x, y).value(); }
  ValueId Bin(BinaryKind kind, ValueId x, double y) { return Bin(kind, x, Number(y)); }
  ValueId Add(ValueId x, ValueId y) { return Bin(BinaryKind::kAdd, x, y); }
  ValueId Mul(ValueId x, ValueId y) { return Bin(BinaryKind::kMul, x, y); }
  ValueId Number(double value) { return b_.Scalar(value).value(); }
  ValueId Cast(ValueId x, DType dtype) { return b_.Cast(x, dtype).value(); }
  ValueId Where(ValueId condition, ValueId x, ValueId y) {
    return b_.Select(condition, x, y).value();
  }
  ValueId Greater(ValueId x, double y) {
    return b_.Compare(CompareKind::kGt, x, Number(y)).value();
  }

  ValueId Rows() { return Matrix(types_.dtype, sizes_.k); }
  ValueId Matrix() { return Matrix(types_.matrix.value_or(types_.result), sizes_.n); }
  ValueId Matrix(DType dtype, int64_t columns) {
    return b_.Input({dtype, {Dim::M(), Dim::Constant(columns)}}).value();
  }
  ValueId OfRows(DType dtype) { return Spread(Matrix(dtype, 1)); }
  ValueId Vector(DType dtype) {
    return Spread(b_.Input({dtype, {Dim::Constant(sizes_.n)}}, {true, {}, ""}).value());
  }
  // One number in memory.
  ValueId OneNumber(DType dtype) { return Spread(b_.Input({dtype, {}}).value()); }
  ValueId Product(ValueId rows) {
    const TensorType type{types_.dtype, {Dim::Constant(sizes_.n), Dim::Constant(sizes_.k)}};
    return b_.Matmul(rows, b_.Input(type, {true, {}, ""}).value(), false, true).value();
  }
  ValueId Biased(ValueId rows) {
    const ValueId y = Product(rows);
    return Add(y, Vector(types_.bias));
  }
  // As the chain gives it out.
  ValueId Stored(ValueId x) { return types_.result == DType::kF32 ? x : Cast(x, types_.result); }
  void Give(ValueId x) { b_.Output(x).IgnoreError(); }
  Chain Finish(ValueId y) {
    if (!b_.Output(Stored(y)).ok()) return {};
    return b_.Finish().value();
  }

  ChainBuilder& builder() { return b_; }
  DType dtype() const { return types_.dtype; }

 private:
  ValueId Spread(ValueId x) { return b_.Broadcast(x, {Dim::M(), Dim::Constant(sizes_.n)}).value(); }

  const EpilogueTypes types_;
  const EpilogueSizes sizes_;
  ChainBuilder b_;
};

struct Named {
  std::string name, text;
};

// A section of epilogues.txt.
std::vector<Named> EntriesOf(const std::string& section) {
  std::vector<Named> list;
  for (const std::string& line : SectionOf("tests/support/epilogues.txt", section)) {
    const size_t colon = line.find(':');
    if (line[0] == ' ') absl::StrAppend(&list.back().text, line);
    if (line[0] != ' ') list.push_back({line.substr(0, colon), line.substr(colon + 1)});
  }
  return list;
}

Chain FromText(const EpilogueTypes& types, const EpilogueSizes& sizes, std::string text) {
  const bool wide = types.result == DType::kF32;
  text = absl::StrReplaceAll(text, {{"BIASED", "(PLAIN + spread({const <b>[<n>]}, [M,<n>]))"},
                                    {"HARDSWISH", "min(max(y + 3, 0), 6) / 6"}});
  if (absl::StrContains(text, "PLAIN")) text = absl::StrCat("x: <d>[M,<k>]; ", text);
  return ReadChain(
      absl::StrReplaceAll(absl::StrReplaceAll(text, {{"PLAIN", "(x @ {const <d>[<n>,<k>]}.T)"}}),
                          {{"<d>", NameOf(types.dtype)},
                           {"<b>", NameOf(types.bias)},
                           {"<m>", NameOf(types.matrix.value_or(types.result))},
                           {"<s>", wide ? "" : NameOf(types.result)},
                           {"<o>", wide ? NameOf(types.dtype) : ""},
                           {"<n>", absl::StrCat(sizes.n)},
                           {"<k>", absl::StrCat(sizes.k)},
                           {"<l>", absl::StrCat(sizes.l)}}));
}

std::vector<EpilogueChain> ChainsOf(const std::string& section, const EpilogueTypes& types,
                                    const EpilogueSizes& sizes) {
  std::vector<EpilogueChain> list;
  for (const Named& one : EntriesOf(section)) {
    list.push_back({one.name, FromText(types, sizes, one.text)});
  }
  return list;
}

// The whole text of an entry of the section `products`.
std::string Behind(const Named& one) {
  return absl::StrCat("y = BIASED; ", one.text, "; out <s>(_)");
}

// Writes RandomEpilogue.
class RandomMaker {
 public:
  explicit RandomMaker(uint64_t seed) : engine_(seed) {}

  Chain Make() {
    EpilogueTypes types{.dtype = Coin() ? DType::kBF16 : DType::kF16};
    types.bias = Coin() ? types.dtype : DType::kF32;
    types.result = In(0, 3) == 0 ? DType::kF32 : types.dtype;
    if (Coin()) types.matrix = DType::kF32;
    if (In(0, 4) == 0) return OfPixels(types);
    const EpilogueSizes sizes = {8 * In(1, 256), 8 * In(1, 128), 8};
    Maker m(types, sizes);
    const bool biased = Coin();
    const ValueId x = m.Rows();
    const auto product = [&] { return biased ? m.Biased(x) : m.Product(x); };
    values_ = {product()};
    const bool pair = In(0, 2) == 0;
    if (pair) values_.push_back(product());
    m_ = &m;
    dims_ = {Dim::M(), Dim::Constant(sizes.n)};
    const bool matrix = In(0, 3) == 0;
    ValueId y = Ops();
    if (pair) y = Any(values_[0], values_[1], y);
    if (matrix) y = m.Bin(Coin() ? BinaryKind::kAdd : BinaryKind::kMul, y, m.Matrix());
    return Finish(y);
  }

 private:
  // std::uniform_int_distribution differs between standard libraries; this does not.
  int64_t In(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(engine_() % static_cast<uint64_t>(high - low + 1));
  }
  bool Coin() { return In(0, 1) == 1; }
  template <class T>
  T One(absl::Span<const T> of) {
    return of[static_cast<size_t>(In(0, static_cast<int64_t>(of.size()) - 1))];
  }

  // So that nothing of a pair is left unread.
  ValueId Any(ValueId gate, ValueId up, ValueId y) {
    Maker& m = *m_;
    return m.Mul(m.Add(y, m.Un(UnaryKind::kRelu, gate)), up);
  }

  Chain OfPixels(const EpilogueTypes& types) {
    const int64_t n = 8 * In(1, 32), channels = 8 * In(1, 16), side = In(4, 28),
                  taps = 2 * In(0, 1) + 1;
    Maker m(types, {n, channels, 0});
    ChainBuilder& b = m.builder();
    const auto at = [](int64_t extent) { return Dim::Constant(extent); };
    const ValueId x = b.Input({types.dtype, {Dim::M(), at(side), at(side), at(channels)}}).value();
    const ValueId w =
        b.Input({types.dtype, {at(n), at(taps), at(taps), at(channels)}}, {true, {}, ""}).value();
    Conv2d conv;
    const int64_t pad = taps / 2;
    conv.pads = {pad, pad, pad, pad};
    m_ = &m;
    dims_ = {Dim::M(), at(side), at(side), at(n)};
    ValueId y = b.Convolve(x, w, conv).value();
    if (Coin()) y = m.Mul(y, Columns(types.bias));
    if (Coin()) y = m.Add(y, Columns(types.bias));
    values_ = {y};
    return Finish(Ops());
  }

  // Gives out another value too, one time in four: what is made of it, or of what it was.
  Chain Finish(ValueId y) {
    if (In(0, 3) > 0) return m_->Finish(y);
    const ValueId aux = m_->Stored(One(absl::MakeConstSpan(values_)));
    if (aux != y) m_->Give(aux);
    return m_->Finish(y);
  }

  ValueId Columns(DType dtype) {
    ChainBuilder& b = m_->builder();
    return b.Broadcast(b.Input({dtype, {dims_.back()}}, {true, {}, ""}).value(), dims_).value();
  }
  ValueId Leaf() {
    const DType dtype = Coin() ? m_->dtype() : DType::kF32;
    const int64_t kind = In(0, dims_.size() > 2 ? 0 : 3);
    return kind == 2 ? m_->OfRows(dtype) : kind == 3 ? m_->OneNumber(dtype) : Columns(dtype);
  }

  ValueId Ops() {
    Maker& m = *m_;
    const int64_t count = In(1, 8);
    int64_t leaves = In(0, 2);
    for (int64_t i = 0; i < count; ++i) {
      // Each reads the newest value, so that all are read; another may be any.
      const ValueId x = values_.back();
      const auto value = [&] { return One(absl::MakeConstSpan(values_)); };
      switch (In(0, 6)) {
        case 0:
        case 1:
          values_.push_back(m.Un(One(Unary()), x));
          break;
        case 2:
          values_.push_back(m.Bin(One(Binary()), x, value()));
          break;
        case 3:
          values_.push_back(m.Bin(One(Binary()), x, 0.5 * static_cast<double>(In(1, 12))));
          break;
        case 4:
          values_.push_back(m.Cast(x, m.dtype()));
          break;
        case 5:
          values_.push_back(m.Where(m.Greater(x, 0.5), x, value()));
          break;
        default:
          if (leaves-- > 0) values_.push_back(m.Mul(x, Leaf()));
      }
    }
    return values_.back();
  }

  // Those that take floats and give floats.
  static absl::Span<const UnaryKind> Unary() {
    static const auto* const kinds = [] {
      auto* list = new std::vector<UnaryKind>;
      for (const UnaryKind kind : UnaryKinds()) {
        ChainBuilder b;
        const ValueId x = b.Input({DType::kF32, {Dim::Constant(8)}}).value();
        if (b.Unary(kind, x).ok()) list->push_back(kind);  // not of predicates
      }
      return list;
    }();
    return *kinds;
  }
  static absl::Span<const BinaryKind> Binary() {
    static constexpr BinaryKind kKinds[] = {BinaryKind::kAdd, BinaryKind::kSub, BinaryKind::kMul,
                                            BinaryKind::kDiv, BinaryKind::kMax, BinaryKind::kMin};
    return kKinds;
  }

  std::mt19937_64 engine_;
  Maker* m_ = nullptr;
  std::vector<Dim> dims_;  // of the result
  std::vector<ValueId> values_;
};

}  // namespace

EpilogueChain RandomEpilogue(uint64_t seed) {
  return {absl::StrCat("random ", seed), RandomMaker(seed).Make()};
}

std::vector<EpilogueChain> ProductEpilogues(const EpilogueTypes& types,
                                            const EpilogueSizes& sizes) {
  std::vector<EpilogueChain> list;
  for (const Named& one : EntriesOf("products")) {
    list.push_back({one.name, FromText(types, sizes, Behind(one))});
  }
  return list;
}

std::vector<EpilogueChain> MatrixEpilogues(const EpilogueTypes& types, const EpilogueSizes& sizes) {
  std::vector<EpilogueChain> list;
  for (const Named& one : EntriesOf("products")) {
    if (!absl::StrContains(one.text, "<m>")) continue;
    list.push_back({one.name, FromText(types, sizes, Behind(one))});
  }
  for (EpilogueChain& one : ChainsOf("sums with a matrix", types, sizes)) {
    list.push_back(std::move(one));
  }
  return list;
}

std::vector<EpilogueChain> PairEpilogues(const EpilogueTypes& types, const EpilogueSizes& sizes) {
  return ChainsOf("pairs", types, sizes);
}

std::vector<EpilogueChain> AuxEpilogues(const EpilogueTypes& types, const EpilogueSizes& sizes) {
  return ChainsOf("beside", types, sizes);
}

std::vector<EpilogueChain> OtherEpilogues(bool aux) {
  std::vector<EpilogueChain> list;
  // With `aux`, z is an output, too.
  const auto add = [&](const char* name, const std::string& z, const std::string& text) {
    list.push_back({name, ReadChain(absl::StrCat("z = ", aux ? "bf16(" : "(", z, ");",
                                                 aux ? "out z;" : "", "out bf16(", text, ")"))});
  };
  const std::string hardswish = "z * min(max(z + 3, 0), 6) / 6";
  for (const bool matrix : {false, true}) {
    add(matrix ? "convolution_plus_a_matrix" : "convolution",
        "conv({bf16[M,8,8,16]}, {const bf16[64,3,3,16]}, pads=[1,1,1,1])"
        " * spread({const f32[64]}, [M,8,8,64]) + spread({const f32[64]}, [M,8,8,64])",
        matrix ? hardswish + " + {bf16[M,8,8,64]}" : hardswish);
  }
  for (const char* codes : {"e4m3", "s8"}) {
    add(codes,
        absl::Substitute("scaled({$0[M,128]}, {const $0[64,128]}, {f32[M,1]}, {const f32[64,1]})"
                         " + spread({const bf16[64]}, [M,64])",
                         codes),
        "tanh(z) * spread({const f32[64]}, z)");
  }
  return list;
}

std::vector<EpilogueChain> FusedEpilogues(const EpilogueTypes& types, const EpilogueSizes& sizes) {
  return ChainsOf("fused", types, sizes);
}

}  // namespace sinter::testing
