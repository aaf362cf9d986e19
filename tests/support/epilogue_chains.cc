#include "tests/support/epilogue_chains.h"

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
    const ValueId w = b_.Input(type, {true, {}, ""}).value();
    return b_.Matmul(rows, w, false, true).value();
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

// The texts of these chains have names in place of types and products: <d> is the type of operands,
// <b> of biases, <m> of matrices, and <s>(..) casts an output. <n>, <k> and <l> are sizes. BIASED
// is a product of the rows x with a bias, PLAIN one without.
Chain FromText(const EpilogueTypes& types, const EpilogueSizes& sizes, const std::string& text) {
  const bool wide = types.result == DType::kF32;
  const std::string whole =
      absl::StrReplaceAll(absl::StrCat("x: <d>[M,<k>]; ", text),
                          {{"BIASED", "(PLAIN + spread({const <b>[<n>]}, [M,<n>]))"},
                           {"HARDSWISH", "min(max(y + 3, 0), 6) / 6"}});
  return ReadChain(
      absl::StrReplaceAll(absl::StrReplaceAll(whole, {{"PLAIN", "(x @ {const <d>[<n>,<k>]}.T)"}}),
                          {{"<d>", NameOf(types.dtype)},
                           {"<b>", NameOf(types.bias)},
                           {"<m>", NameOf(types.matrix.value_or(types.result))},
                           {"<s>", wide ? "" : NameOf(types.result)},
                           {"<n>", absl::StrCat(sizes.n)},
                           {"<k>", absl::StrCat(sizes.k)},
                           {"<l>", absl::StrCat(sizes.l)}}));
}

// An epilogue by its name: the text of a chain that reads a biased product, y.
struct EpilogueRow {
  const char *name, *text;
  bool matrix = false;
};

constexpr EpilogueRow kEpilogues[] = {
    {"tanh", "tanh(y)"},
    {"sigmoid", "sigmoid(y)"},
    {"relu6", "min(max(y, 0), 6)"},
    {"hardtanh", "min(max(y, -1), 1)"},
    {"hardswish", "y * HARDSWISH"},
    {"quick_gelu", "y * sigmoid(y * 1.702)"},
    {"relu_squared", "square(relu(y))"},
    {"leaky_relu", "select(gt(y, 0), y, y * 0.01)"},
    {"silu_behind_a_rounding", "r = <d>(y); r * sigmoid(r)"},
    {"silu_as_a_quotient", "y / (exp(-y) + 1)"},
    {"gelu_tanh_in_steps",
     "t = tanh((y + y * y * y * 0.044715) * 0.7978845608); y * 0.5 * (t + 1)"},
    {"softplus", "log(exp(y) + 1)"},
    {"shifted_behind_an_activation",
     "relu(y) * spread({const <d>[<n>]}, y) + spread({const f32[<n>]}, y)"},
    {"times_rows_behind_an_activation", "y * HARDSWISH * spread({f32[M,1]}, y)"},
    {"rows_columns_and_a_matrix",
     "sigmoid(y) * spread({<d>[M,1]}, y) * spread({const <d>[<n>]}, y) + {<m>[M,<n>]}", true},
    {"scaled_by_numbers_behind_an_activation",
     "tanh(y) * spread({f32[]}, y) * spread({const <d>[<n>]}, y) + spread({<d>[]}, y)"},
    {"times_a_matrix", "sigmoid(y) * {<m>[M,<n>]}", true},
    {"scaled_by_columns_plus_a_matrix", "tanh(y) * spread({const f32[<n>]}, y) + {<m>[M,<n>]}",
     true},
    {"tanh_of_a_sum", "tanh(y + {<m>[M,<n>]})", true},
    {"gated_by_a_matrix", "g = {<m>[M,<n>]}; <d>(y) * (g * sigmoid(g))", true},
};

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
    const ValueId v = b.Input({dtype, {dims_.back()}}, {true, {}, ""}).value();
    return b.Broadcast(v, dims_).value();
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
  for (const EpilogueRow& row : kEpilogues) {
    list.push_back(
        {row.name, FromText(types, sizes, absl::StrCat("y = BIASED; ", row.text, "; out <s>(_)"))});
  }
  return list;
}

std::vector<EpilogueChain> MatrixEpilogues(const EpilogueTypes& types, const EpilogueSizes& sizes) {
  std::vector<EpilogueChain> list;
  for (const EpilogueRow& row : kEpilogues) {
    if (!row.matrix) continue;
    list.push_back(
        {row.name, FromText(types, sizes, absl::StrCat("y = BIASED; ", row.text, "; out <s>(_)"))});
  }
  const auto add = [&](const char* name, const char* text) {
    list.push_back({name, FromText(types, sizes, text)});
  };
  add("sum", "out <s>(PLAIN + {<m>[M,<n>]})");
  add("sum_of_what_is_rounded", "out <s>(<d>(BIASED) + {<m>[M,<n>]})");
  add("silu_of_a_sum", "sum = BIASED + {<m>[M,<n>]}; out <s>(sum * sigmoid(sum))");
  add("columns_behind_the_matrix",
      "y = BIASED + {<m>[M,<n>]}; out <s>(y * spread({const f32[<n>]}, y))");
  add("pair_plus_a_matrix",
      "gate = PLAIN; up = PLAIN; out <s>(gate * sigmoid(gate) * up + {<m>[M,<n>]})");
  const std::string d(NameOf(types.dtype)), m(NameOf(types.matrix.value_or(types.result)));
  const std::string stored = types.result == DType::kF32 ? "" : std::string(NameOf(types.result));
  list.push_back({"convolution", ReadChain("out $2(relu(conv({$0[M,8,8,16]}, {const $0[64,3,3,16]},"
                                           " pads=[1,1,1,1]) + {$1[M,8,8,64]}))",
                                           d, m, stored)});
  for (const char* codes : {"e4m3", "s8"}) {
    list.push_back({codes, ReadChain("out $2(scaled({$0[M,128]}, {const $0[64,128]}, {f32[M,1]},"
                                     " {const f32[64,1]}) + {$1[M,64]})",
                                     codes, m, stored)});
  }
  return list;
}

std::vector<EpilogueChain> PairEpilogues(const EpilogueTypes& types, const EpilogueSizes& sizes) {
  std::vector<EpilogueChain> list;
  const auto add = [&](const char* name, const char* text) {
    list.push_back({name, FromText(types, sizes, text)});
  };
  add("quick_gelu", "gate = BIASED; up = BIASED; out <s>(gate * sigmoid(gate * 1.702) * up)");
  add("rounded",
      "gate = PLAIN; up = PLAIN; g = <d>(gate); u = <d>(up); out <s>(<d>(g * sigmoid(g)) * u)");
  add("clamped",
      "gate = BIASED; up = BIASED; g = min(gate, 7); u = min(max(up, -7), 7);"
      "out <s>(g * sigmoid(g * 1.702) * (u + 1))");
  add("columns",
      "gate = PLAIN; up = PLAIN; out <s>(tanh(gate) * spread({const f32[<n>]}, gate) * up)");
  return list;
}

std::vector<EpilogueChain> AuxEpilogues(const EpilogueTypes& types, const EpilogueSizes& sizes) {
  std::vector<EpilogueChain> list;
  const auto add = [&](const char* name, const std::string& text) {
    list.push_back({name, FromText(types, sizes, text)});
  };
  // The chain outputs the rounded value y, and then the value of `text`.
  const auto beside = [&](const char* name, const char* text, const char* product = "BIASED") {
    add(name, absl::StrCat("y = <s>(", product, "); ", text, "; out y, <s>(_)"));
  };
  beside("gelu_erf", "y * ((erf(y * 0.70710678) + 1) * 0.5)");
  beside("relu", "relu(y)");
  beside("tanh_without_a_bias", "tanh(y)", "PLAIN");
  beside("hardswish_with_leaves",
         "y * HARDSWISH * spread({const f32[<n>]}, y) + spread({const <d>[<n>]}, y)");
  beside("times_rows", "sigmoid(y) * spread({f32[M,1]}, y)");
  beside("quick_gelu_plus_a_matrix", "y * sigmoid(y * 1.702) + {<m>[M,<n>]}");
  // The first output is a sum.
  add("tanh_of_a_sum", "sum = <s>(BIASED + {<m>[M,<n>]}); out sum, <s>(tanh(sum))");
  // The first output's element is not the result's.
  add("tanh_of_another_element",
      absl::StrCat("z = BIASED; y = <s>(tanh(z)); out ",
                   types.result == DType::kF32 ? "<d>(z)" : "z", ", <s>(y)"));
  // The activations read values that are not rounded.
  add("unrounded_pair",
      "gate = PLAIN; up = BIASED; out <s>(gate);"
      "y = <s>(tanh(gate) * sigmoid(up)); out <s>(up), <s>(y)");
  add("unrounded", "z = BIASED; y = <s>(z * sigmoid(z * 1.702)); out <s>(z), <s>(y)");
  add("silu_of_gate_beside_gate",
      "gate = <s>(BIASED); up = <s>(BIASED); out gate, <s>(gate * sigmoid(gate) * up)");
  add("silu_of_gate_beside_both",
      "gate = <s>(BIASED); up = <s>(BIASED); out gate, up, <s>(gate * sigmoid(gate) * up)");
  return list;
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
  std::vector<EpilogueChain> list;
  const auto add = [&](const char* name, const std::string& text) {
    list.push_back({name, FromText(types, sizes, text)});
  };
  add("quick_gelu",
      "gate = BIASED; up = BIASED; c = <d>(gate * sigmoid(gate * 1.702) * up);"
      "out <s>(c @ {const <d>[<l>,<n>]}.T)");
  const std::string hardswish = "y = BIASED; c = <d>(y * HARDSWISH) @ {const <d>[<l>,<n>]}.T;";
  add("hardswish", hardswish + "out <s>(c)");
  add("hardswish_times_a_matrix", hardswish + "out <s>(sigmoid({<m>[M,<l>]}) * c)");
  add("pair_with_columns",
      "gate = PLAIN; up = PLAIN; c = <d>(tanh(gate) * spread({const f32[<n>]}, gate) * up);"
      "out <s>(c @ {const <d>[<l>,<n>]}.T)");
  add("vectors_of_both",
      "y = relu(BIASED); s = y * spread({const <d>[<n>]}, y) * spread({f32[M,1]}, y);"
      "c = <d>(s) @ {const <d>[<l>,<n>]}.T; t = tanh(c + spread({const f32[<l>]}, c));"
      "out <s>(t * spread({const <d>[<l>]}, t) * spread({<d>[M,1]}, t) + {<m>[M,<l>]})");
  return list;
}

}  // namespace sinter::testing
