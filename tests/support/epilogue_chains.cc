#include "tests/support/epilogue_chains.h"

#include <functional>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "src/chain/builder.h"

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
  ValueId Add(ValueId x, double y) { return Bin(BinaryKind::kAdd, x, y); }
  ValueId Mul(ValueId x, ValueId y) { return Bin(BinaryKind::kMul, x, y); }
  ValueId Mul(ValueId x, double y) { return Bin(BinaryKind::kMul, x, y); }
  ValueId Div(ValueId x, ValueId y) { return Bin(BinaryKind::kDiv, x, y); }
  ValueId Number(double value) { return b_.Scalar(value).value(); }
  ValueId Cast(ValueId x, DType dtype) { return b_.Cast(x, dtype).value(); }
  ValueId Clamp(ValueId x, double low, double high) {
    return Bin(BinaryKind::kMin, Bin(BinaryKind::kMax, x, low), high);
  }
  ValueId Sigmoid(ValueId x) { return Un(UnaryKind::kSigmoid, x); }
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
  ValueId OfRows(DType dtype) { return OfRows(dtype, sizes_.n); }
  ValueId OfRows(DType dtype, int64_t n) {
    return b_.Broadcast(Matrix(dtype, 1), {Dim::M(), Dim::Constant(n)}).value();
  }
  ValueId Vector(DType dtype) { return Vector(dtype, sizes_.n); }
  ValueId Vector(DType dtype, int64_t n) {
    const ValueId v = b_.Input({dtype, {Dim::Constant(n)}}, {true, {}, ""}).value();
    return b_.Broadcast(v, {Dim::M(), Dim::Constant(n)}).value();
  }
  // One number in memory.
  ValueId OneNumber(DType dtype) {
    const ValueId number = b_.Input({dtype, {}}).value();
    return b_.Broadcast(number, {Dim::M(), Dim::Constant(sizes_.n)}).value();
  }
  ValueId Product(ValueId rows, int64_t n, int64_t k) {
    const TensorType type{types_.dtype, {Dim::Constant(n), Dim::Constant(k)}};
    const ValueId w = b_.Input(type, {true, {}, ""}).value();
    return b_.Matmul(rows, w, false, true).value();
  }
  ValueId Biased(ValueId rows) {
    const ValueId y = Product(rows, sizes_.n, sizes_.k);
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
  DType result() const { return types_.result; }
  const EpilogueSizes& sizes() const { return sizes_; }

 private:
  const EpilogueTypes types_;
  const EpilogueSizes sizes_;
  ChainBuilder b_;
};

ValueId HardSwish(Maker& m, ValueId y) {
  return m.Div(m.Mul(y, m.Clamp(m.Add(y, 3.0), 0, 6)), m.Number(6));
}
ValueId QuickGelu(Maker& m, ValueId y) { return m.Mul(y, m.Sigmoid(m.Mul(y, 1.702))); }

// Names and what is done with a biased product.
struct EpilogueRow {
  const char* name;
  ValueId (*make)(Maker& m, ValueId y);
  bool matrix = false;
};

constexpr EpilogueRow kEpilogues[] = {
    {"tanh", [](Maker& m, ValueId y) { return m.Un(UnaryKind::kTanh, y); }},
    {"sigmoid", [](Maker& m, ValueId y) { return m.Sigmoid(y); }},
    {"relu6", [](Maker& m, ValueId y) { return m.Clamp(y, 0, 6); }},
    {"hardtanh", [](Maker& m, ValueId y) { return m.Clamp(y, -1, 1); }},
    {"hardswish", HardSwish},
    {"quick_gelu", QuickGelu},
    {"relu_squared",
     [](Maker& m, ValueId y) { return m.Un(UnaryKind::kSquare, m.Un(UnaryKind::kRelu, y)); }},
    {"leaky_relu", [](Maker& m, ValueId y) { return m.Where(m.Greater(y, 0), y, m.Mul(y, 0.01)); }},
    {"silu_behind_a_rounding",
     [](Maker& m, ValueId y) {
       const ValueId rounded = m.Cast(y, m.dtype());
       return m.Mul(rounded, m.Sigmoid(rounded));
     }},
    {"silu_as_a_quotient",
     [](Maker& m, ValueId y) {
       return m.Div(y, m.Add(m.Un(UnaryKind::kExp, m.Un(UnaryKind::kNeg, y)), 1.0));
     }},
    {"gelu_tanh_in_steps",
     [](Maker& m, ValueId y) {
       const ValueId cube = m.Mul(m.Mul(m.Mul(y, y), y), 0.044715);
       const ValueId t = m.Un(UnaryKind::kTanh, m.Mul(m.Add(y, cube), 0.7978845608));
       return m.Mul(m.Mul(y, 0.5), m.Add(t, 1.0));
     }},
    {"softplus",
     [](Maker& m, ValueId y) {
       return m.Un(UnaryKind::kLog, m.Add(m.Un(UnaryKind::kExp, y), 1.0));
     }},
    {"shifted_behind_an_activation",
     [](Maker& m, ValueId y) {
       const ValueId s = m.Vector(m.dtype()), t = m.Vector(DType::kF32);
       return m.Add(m.Mul(m.Un(UnaryKind::kRelu, y), s), t);
     }},
    {"times_rows_behind_an_activation",
     [](Maker& m, ValueId y) { return m.Mul(HardSwish(m, y), m.OfRows(DType::kF32)); }},
    {"rows_columns_and_a_matrix",
     [](Maker& m, ValueId y) {
       const ValueId scaled = m.Mul(m.Sigmoid(y), m.OfRows(m.dtype()));
       return m.Add(m.Mul(scaled, m.Vector(m.dtype())), m.Matrix());
     },
     true},
    {"scaled_by_numbers_behind_an_activation",
     [](Maker& m, ValueId y) {
       const ValueId t = m.Mul(m.Un(UnaryKind::kTanh, y), m.OneNumber(DType::kF32));
       return m.Add(m.Mul(t, m.Vector(m.dtype())), m.OneNumber(m.dtype()));
     }},
    {"times_a_matrix", [](Maker& m, ValueId y) { return m.Mul(m.Sigmoid(y), m.Matrix()); }, true},
    {"scaled_by_columns_plus_a_matrix",
     [](Maker& m, ValueId y) {
       return m.Add(m.Mul(m.Un(UnaryKind::kTanh, y), m.Vector(DType::kF32)), m.Matrix());
     },
     true},
    {"tanh_of_a_sum",
     [](Maker& m, ValueId y) { return m.Un(UnaryKind::kTanh, m.Add(y, m.Matrix())); }, true},
    {"gated_by_a_matrix",
     [](Maker& m, ValueId y) {
       const ValueId gate = m.Matrix();
       return m.Mul(m.Cast(y, m.dtype()), m.Mul(gate, m.Sigmoid(gate)));
     },
     true},
};

ValueId GatedQuickGelu(Maker& m, ValueId gate, ValueId up) { return m.Mul(QuickGelu(m, gate), up); }

// What is computed of gate and up.
using OfPair = std::function<ValueId(Maker& m, ValueId gate, ValueId up)>;

Chain Pair(const EpilogueTypes& types, const EpilogueSizes& sizes, bool biased,
           const OfPair& of_pair, bool second) {
  Maker m(types, sizes);
  const ValueId x = m.Rows();
  const ValueId gate = biased ? m.Biased(x) : m.Product(x, sizes.n, sizes.k);
  const ValueId up = biased ? m.Biased(x) : m.Product(x, sizes.n, sizes.k);
  const ValueId c = of_pair(m, gate, up);
  if (!second) return m.Finish(c);
  return m.Finish(m.Product(m.Cast(c, types.dtype), sizes.l, sizes.n));
}

// Writes RandomEpilogue.
class RandomMaker {
 public:
  explicit RandomMaker(uint64_t seed) : engine_(seed) {}

  Chain Make() {
    EpilogueTypes types;
    types.dtype = Coin() ? DType::kBF16 : DType::kF16;
    types.bias = Coin() ? types.dtype : DType::kF32;
    types.result = In(0, 3) == 0 ? DType::kF32 : types.dtype;
    if (Coin()) types.matrix = DType::kF32;
    if (In(0, 4) == 0) return OfPixels(types);
    const EpilogueSizes sizes = {8 * In(1, 256), 8 * In(1, 128), 8};
    Maker m(types, sizes);
    const bool biased = Coin();
    const ValueId x = m.Rows();
    const auto product = [&] { return biased ? m.Biased(x) : m.Product(x, sizes.n, sizes.k); };
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
    Maker m(types, sizes);
    list.push_back({row.name, m.Finish(row.make(m, m.Biased(m.Rows())))});
  }
  return list;
}

std::vector<EpilogueChain> MatrixEpilogues(const EpilogueTypes& types, const EpilogueSizes& sizes) {
  std::vector<EpilogueChain> list;
  for (const EpilogueRow& row : kEpilogues) {
    if (!row.matrix) continue;
    Maker m(types, sizes);
    list.push_back({row.name, m.Finish(row.make(m, m.Biased(m.Rows())))});
  }
  const auto add = [&](const char* name, const auto& make) {
    Maker m(types, sizes);
    list.push_back({name, m.Finish(make(m))});
  };
  add("sum", [&](Maker& m) {
    const ValueId x = m.Rows();
    return m.Add(m.Product(x, sizes.n, sizes.k), m.Matrix());
  });
  add("sum_of_what_is_rounded",
      [](Maker& m) { return m.Add(m.Cast(m.Biased(m.Rows()), m.dtype()), m.Matrix()); });
  add("silu_of_a_sum", [](Maker& m) {
    const ValueId sum = m.Add(m.Biased(m.Rows()), m.Matrix());
    return m.Mul(sum, m.Sigmoid(sum));
  });
  add("columns_behind_the_matrix",
      [](Maker& m) { return m.Mul(m.Add(m.Biased(m.Rows()), m.Matrix()), m.Vector(DType::kF32)); });
  add("pair_plus_a_matrix", [&](Maker& m) {
    const ValueId x = m.Rows();
    const ValueId gate = m.Product(x, sizes.n, sizes.k), up = m.Product(x, sizes.n, sizes.k);
    return m.Add(m.Mul(m.Mul(gate, m.Sigmoid(gate)), up), m.Matrix());
  });
  const DType matrix = types.matrix.value_or(types.result);
  constexpr int64_t kN = 64, kK = 128;
  {
    Maker m(types, {kN, kK, 0});
    ChainBuilder& b = m.builder();
    const auto pixels = [](int64_t channels) {
      return std::vector<Dim>{Dim::M(), Dim::Constant(8), Dim::Constant(8),
                              Dim::Constant(channels)};
    };
    const ValueId x = b.Input({types.dtype, pixels(16)}).value();
    const TensorType filter{
        types.dtype, {Dim::Constant(kN), Dim::Constant(3), Dim::Constant(3), Dim::Constant(16)}};
    Conv2d conv;
    conv.pads = {1, 1, 1, 1};
    const ValueId y = b.Convolve(x, b.Input(filter, {true, {}, ""}).value(), conv).value();
    const ValueId sum = m.Add(y, b.Input({matrix, pixels(kN)}).value());
    list.push_back({"convolution", m.Finish(m.Un(UnaryKind::kRelu, sum))});
  }
  for (const DType codes : {DType::kE4M3, DType::kS8}) {
    Maker m(types, {kN, kK, 0});
    ChainBuilder& b = m.builder();
    const auto input = [&](DType dtype, Dim rows, int64_t columns, bool constant) {
      return b.Input({dtype, {rows, Dim::Constant(columns)}}, {constant, {}, ""}).value();
    };
    const ValueId a = input(codes, Dim::M(), kK, false);
    const ValueId w = input(codes, Dim::Constant(kN), kK, true);
    const ValueId scale_a = input(DType::kF32, Dim::M(), 1, false);
    const ValueId scale_w = input(DType::kF32, Dim::Constant(kN), 1, true);
    const ValueId y = b.ScaledMatmul(a, w, scale_a, scale_w).value();
    list.push_back({codes == DType::kS8 ? "s8" : "e4m3", m.Finish(m.Add(y, m.Matrix()))});
  }
  return list;
}

std::vector<EpilogueChain> PairEpilogues(const EpilogueTypes& types, const EpilogueSizes& sizes) {
  const OfPair rounded = [](Maker& m, ValueId gate, ValueId up) {
    const ValueId g = m.Cast(gate, m.dtype()), u = m.Cast(up, m.dtype());
    return m.Mul(m.Cast(m.Mul(g, m.Sigmoid(g)), m.dtype()), u);
  };
  const OfPair clamped = [](Maker& m, ValueId gate, ValueId up) {
    const ValueId g = m.Bin(BinaryKind::kMin, gate, 7.0), u = m.Clamp(up, -7, 7);
    return m.Mul(m.Mul(g, m.Sigmoid(m.Mul(g, 1.702))), m.Add(u, 1.0));
  };
  const OfPair columns = [](Maker& m, ValueId gate, ValueId up) {
    return m.Mul(m.Mul(m.Un(UnaryKind::kTanh, gate), m.Vector(DType::kF32)), up);
  };
  std::vector<EpilogueChain> list;
  list.push_back({"quick_gelu", Pair(types, sizes, true, GatedQuickGelu, false)});
  list.push_back({"rounded", Pair(types, sizes, false, rounded, false)});
  list.push_back({"clamped", Pair(types, sizes, true, clamped, false)});
  list.push_back({"columns", Pair(types, sizes, false, columns, false)});
  return list;
}

std::vector<EpilogueChain> AuxEpilogues(const EpilogueTypes& types, const EpilogueSizes& sizes) {
  std::vector<EpilogueChain> list;
  // What is made of the rounded value, which the chain gives out first.
  const auto add = [&](const char* name, ValueId (*make)(Maker & m, ValueId z),
                       bool biased = true) {
    Maker m(types, sizes);
    const ValueId x = m.Rows();
    const ValueId z = m.Stored(biased ? m.Biased(x) : m.Product(x, sizes.n, sizes.k));
    const ValueId y = make(m, z);
    m.Give(z);
    list.push_back({name, m.Finish(y)});
  };
  const auto gelu = [](Maker& m, ValueId z) {
    return m.Mul(z, m.Mul(m.Add(m.Un(UnaryKind::kErf, m.Mul(z, 0.70710678)), 1.0), 0.5));
  };
  add("gelu_erf", gelu);
  add("relu", [](Maker& m, ValueId z) { return m.Un(UnaryKind::kRelu, z); });
  add(
      "tanh_without_a_bias", [](Maker& m, ValueId z) { return m.Un(UnaryKind::kTanh, z); }, false);
  add("hardswish_with_leaves", [](Maker& m, ValueId z) {
    return m.Add(m.Mul(HardSwish(m, z), m.Vector(DType::kF32)), m.Vector(m.dtype()));
  });
  add("times_rows", [](Maker& m, ValueId z) { return m.Mul(m.Sigmoid(z), m.OfRows(DType::kF32)); });
  add("quick_gelu_plus_a_matrix",
      [](Maker& m, ValueId z) { return m.Add(QuickGelu(m, z), m.Matrix()); });
  {  // of a sum, which is stored, and what was summed
    Maker m(types, sizes);
    const ValueId y = m.Biased(m.Rows());
    const ValueId sum = m.Stored(m.Add(y, m.Matrix()));
    m.Give(sum);
    list.push_back({"tanh_of_a_sum", m.Finish(m.Un(UnaryKind::kTanh, sum))});
  }
  {  // of another element than the result
    Maker m(types, sizes);
    const ValueId z = m.Biased(m.Rows());
    const ValueId y = m.Stored(m.Un(UnaryKind::kTanh, z));
    m.Give(types.result == DType::kF32 ? m.Cast(z, types.dtype) : z);
    list.push_back({"tanh_of_another_element", m.Finish(y)});
  }
  const auto pair = [&](const char* name, bool both) {
    Maker m(types, sizes);
    const ValueId x = m.Rows();
    const ValueId gate = m.Stored(m.Biased(x)), up = m.Stored(m.Biased(x));
    const ValueId y = m.Mul(m.Mul(gate, m.Sigmoid(gate)), up);
    m.Give(gate);
    if (both) m.Give(up);
    list.push_back({name, m.Finish(y)});
  };
  {  // of what is not rounded
    Maker m(types, sizes);
    const ValueId x = m.Rows();
    const ValueId gate = m.Product(x, sizes.n, sizes.k), up = m.Biased(x);
    m.Give(m.Stored(gate));
    const ValueId y = m.Stored(m.Mul(m.Un(UnaryKind::kTanh, gate), m.Sigmoid(up)));
    m.Give(m.Stored(up));
    list.push_back({"unrounded_pair", m.Finish(y)});
  }
  {
    Maker m(types, sizes);
    const ValueId z = m.Biased(m.Rows());
    const ValueId y = m.Stored(QuickGelu(m, z));
    m.Give(m.Stored(z));
    list.push_back({"unrounded", m.Finish(y)});
  }
  pair("silu_of_gate_beside_gate", false);
  pair("silu_of_gate_beside_both", true);
  return list;
}

std::vector<EpilogueChain> OtherEpilogues(bool aux) {
  constexpr int64_t kN = 64, kK = 128;
  const auto dims = [](std::vector<int64_t> extents) {
    std::vector<Dim> list;
    for (const int64_t e : extents) list.push_back(e < 0 ? Dim::M() : Dim::Constant(e));
    return list;
  };
  std::vector<EpilogueChain> list;
  for (const bool matrix : {false, true}) {
    Maker m({}, {kN, kK, 0});
    ChainBuilder& b = m.builder();
    const ValueId x = b.Input({DType::kBF16, dims({-1, 8, 8, 16})}).value();
    const ValueId w = b.Input({DType::kBF16, dims({kN, 3, 3, 16})}, {true, {}, ""}).value();
    Conv2d conv;
    conv.pads = {1, 1, 1, 1};
    ValueId y = b.Convolve(x, w, conv).value();
    const std::vector<Dim> pixels = dims({-1, 8, 8, kN});
    const auto vector = [&](DType dtype) {
      const ValueId v = b.Input({dtype, {Dim::Constant(kN)}}, {true, {}, ""}).value();
      return b.Broadcast(v, pixels).value();
    };
    y = m.Add(m.Mul(y, vector(DType::kF32)), vector(DType::kF32));
    if (aux) m.Give(y = m.Stored(y));
    y = HardSwish(m, y);
    if (matrix) y = m.Add(y, b.Input({DType::kBF16, pixels}).value());
    list.push_back({matrix ? "convolution_plus_a_matrix" : "convolution", m.Finish(y)});
  }
  for (const DType codes : {DType::kE4M3, DType::kS8}) {
    Maker m({}, {kN, kK, 0});
    ChainBuilder& b = m.builder();
    const ValueId a = b.Input({codes, dims({-1, kK})}).value();
    const ValueId w = b.Input({codes, dims({kN, kK})}, {true, {}, ""}).value();
    const ValueId scale_a = b.Input({DType::kF32, dims({-1, 1})}).value();
    const ValueId scale_w = b.Input({DType::kF32, dims({kN, 1})}, {true, {}, ""}).value();
    const ValueId y = b.ScaledMatmul(a, w, scale_a, scale_w).value();
    ValueId z = m.Add(y, m.Vector(DType::kBF16));
    if (aux) m.Give(z = m.Stored(z));
    const ValueId t = m.Un(UnaryKind::kTanh, z);
    list.push_back(
        {codes == DType::kS8 ? "s8" : "e4m3", m.Finish(m.Mul(t, m.Vector(DType::kF32)))});
  }
  return list;
}

std::vector<EpilogueChain> FusedEpilogues(const EpilogueTypes& types, const EpilogueSizes& sizes) {
  std::vector<EpilogueChain> list;
  list.push_back({"quick_gelu", Pair(types, sizes, true, GatedQuickGelu, true)});
  for (const bool matrix : {false, true}) {
    Maker m(types, sizes);
    const ValueId c = m.Cast(HardSwish(m, m.Biased(m.Rows())), types.dtype);
    ValueId y = m.Product(c, sizes.l, sizes.n);
    if (matrix) y = m.Mul(m.Sigmoid(m.Matrix(types.matrix.value_or(types.result), sizes.l)), y);
    list.push_back({matrix ? "hardswish_times_a_matrix" : "hardswish", m.Finish(y)});
  }
  const OfPair columns = [](Maker& m, ValueId gate, ValueId up) {
    return m.Mul(m.Mul(m.Un(UnaryKind::kTanh, gate), m.Vector(DType::kF32)), up);
  };
  list.push_back({"pair_with_columns", Pair(types, sizes, false, columns, true)});
  {
    Maker m(types, sizes);
    const ValueId y = m.Un(UnaryKind::kRelu, m.Biased(m.Rows()));
    const ValueId scaled = m.Mul(m.Mul(y, m.Vector(types.dtype)), m.OfRows(DType::kF32));
    const ValueId c = m.Product(m.Cast(scaled, types.dtype), sizes.l, sizes.n);
    const ValueId t = m.Un(UnaryKind::kTanh, m.Add(c, m.Vector(DType::kF32, sizes.l)));
    const ValueId e =
        m.Mul(m.Mul(t, m.Vector(types.dtype, sizes.l)), m.OfRows(types.dtype, sizes.l));
    list.push_back({"vectors_of_both",
                    m.Finish(m.Add(e, m.Matrix(types.matrix.value_or(types.result), sizes.l)))});
  }
  return list;
}

}  // namespace sinter::testing
