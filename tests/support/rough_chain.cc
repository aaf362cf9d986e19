#include "tests/support/rough_chain.h"

#include "tests/support/read_chain.h"

namespace sinter::testing {
namespace {

Dim D(int64_t extent) { return Dim::Constant(extent); }

class RoughMaker {
 public:
  explicit RoughMaker(uint64_t seed) : random_(seed), seed_(seed) {}

  Chain Make() {
    const int64_t extents[] = {8, 16, 24, 36, 40, 64};
    int64_t k = extents[Draw(6)];
    ValueId x = FirstRows(Rows(), k);
    const ValueId first = x;
    const uint64_t products = 1 + Draw(2);
    for (uint64_t i = 0; i < products; ++i) {
      x = Layer(x, &k);
      if (Draw(2) == 0) x = Regrouped(x);
      if (Draw(5) == 0) b_outputs_.push_back(x);
    }
    if (seed_ % 5 == 3) AddGradient(first, x);
    Finish(x);
    return Take(b_.Finish());
  }

 private:
  uint64_t Draw(uint64_t below) { return random_() % below; }

  template <typename T>
  T Take(absl::StatusOr<T> value) {
    if (!value.ok()) {
      std::fprintf(stderr, "rough chain: %s\n", std::string(value.status().message()).c_str());
      std::abort();
    }
    return *std::move(value);
  }

  std::vector<Dim> DimsOf(ValueId id) { return b_.TypeOf(id).dims; }
  ValueId Bf16(ValueId id) { return Take(b_.Cast(id, DType::kBF16)); }
  ValueId F32(ValueId id) { return Take(b_.Cast(id, DType::kF32)); }
  ValueId Input(std::vector<Dim> dims, bool constant, DType dtype = DType::kBF16) {
    const ValueId input = Take(b_.Input({dtype, std::move(dims)}, {.constant = constant}));
    if (!constant) inputs_.push_back(input);
    return input;
  }
  ValueId Two(BinaryKind kind, ValueId a, ValueId b) { return Take(b_.Binary(kind, a, b)); }

  std::vector<Dim> Rows() {
    const Dim m = Dim::M();
    const std::vector<std::vector<Dim>> all = {
        {m},          {D(1), m}, {D(3), m},       {m, D(5)},
        {D(2), D(6)}, {D(12)},   {D(1), m, D(2)}, {D(2), D(3), D(4)}};
    return all[Draw(all.size())];
  }

  // [rows..., k], through views of an input.
  ValueId FirstRows(std::vector<Dim> rows, int64_t k) {
    std::vector<Dim> dims = rows;
    dims.push_back(D(k));
    switch (Draw(6)) {
      case 0: {  // heads
        if (k % 8 != 0) break;
        std::vector<Dim> heads = rows;
        heads.insert(heads.end(), {D(k / 8), D(8)});
        if (heads.size() > 6) break;
        return Take(b_.Reshape(Input(heads, false), dims));
      }
      case 1: {  // columns of a wider tensor
        std::vector<Dim> wide = dims, limits = dims;
        wide.back() = D(3 * k);
        std::vector<int64_t> starts(dims.size(), 0);
        starts.back() = Draw(2) == 0 ? k : 2 * k;
        limits.back() = D(starts.back() + k);
        return Take(b_.Slice(Input(wide, false), starts, limits));
      }
      case 2: {  // rows in another order in memory
        if (rows.size() != 2 || rows[0].symbolic || rows[1].symbolic) break;
        return Take(
            b_.Input({DType::kBF16, dims}, {.strides = {{k, 0}, {k * rows[0].value, 0}, {1, 0}}}));
      }
      case 3: {  // rows that other ops make
        const ValueId x = Input(dims, false);
        return Bf16(Two(BinaryKind::kMul, F32(x), F32(x)));
      }
      default:
        break;
    }
    return Input(dims, false);
  }

  // [k, n] or [n, k]; says which.
  ValueId Weight(int64_t k, int64_t n, bool* transposed) {
    *transposed = Draw(2) == 0;
    const std::vector<Dim> dims =
        *transposed ? std::vector<Dim>{D(n), D(k)} : std::vector<Dim>{D(k), D(n)};
    switch (Draw(6)) {
      case 0: {  // computed
        const ValueId w = Input(dims, true);
        return Bf16(Two(BinaryKind::kMul, w, Input(dims, false)));
      }
      case 1: {  // its transpose
        *transposed = !*transposed;
        return Take(b_.Transpose(Input(dims, true), {1, 0}));
      }
      case 2: {  // strided as its transpose
        return Take(b_.Input({DType::kBF16, dims},
                             {.constant = true, .strides = {{1, 0}, {dims[0].value, 0}}}));
      }
      default:
        return Input(dims, true);
    }
  }

  ValueId Product(ValueId x, int64_t k, int64_t n) {
    bool transposed = false;
    ValueId w = Weight(k, n, &transposed);
    const std::vector<Dim> dims = DimsOf(x);
    const bool constant = dims[0].symbolic == false && dims.size() == 2;
    if (constant && Draw(3) == 0) {  // of transposed rows
      return Take(b_.Matmul(Take(b_.Transpose(x, {1, 0})), w, true, transposed));
    }
    if (dims.size() == 3 && dims[0] == D(1) && Draw(2) == 0) {  // a batch of one
      std::vector<Dim> batched = DimsOf(w);
      batched.insert(batched.begin(), D(1));
      w = Take(b_.Reshape(w, batched));
    }
    return Take(b_.Matmul(x, w, false, transposed));
  }

  // Another output, x^T y, where both have as many rows; the transpose by an op or by the product.
  void AddGradient(ValueId x, ValueId y) {
    const std::vector<Dim> dims = DimsOf(x);
    if (dims.size() != 2 || DimsOf(y).size() != 2 || DimsOf(y)[0] != dims[0]) return;
    const bool by_op = seed_ % 2 == 0;
    const ValueId turned = by_op ? Take(b_.Transpose(x, {1, 0})) : x;
    b_outputs_.push_back(Bf16(Take(b_.Matmul(turned, y, !by_op, false))));
  }

  ValueId Spread(ValueId vector, ValueId over) { return Take(b_.Broadcast(vector, DimsOf(over))); }

  ValueId WithBias(ValueId x, int64_t n) {
    if (Draw(2) == 0) return x;
    const bool row = Draw(3) == 0;
    const ValueId bias = Input(row ? std::vector<Dim>{D(1), D(n)} : std::vector<Dim>{D(n)}, true);
    return Two(BinaryKind::kAdd, x, Spread(bias, x));
  }

  ValueId Layer(ValueId x, int64_t* k) {
    const int64_t extents[] = {8, 16, 32, 36, 48, 1};
    const int64_t n = extents[Draw(6)];
    if (Draw(5) == 0) {  // gate and up of one weight
      const ValueId both = WithBias(Product(x, *k, 32), 32);
      const ValueId left = Half(both, 0), right = Half(both, 16);
      *k = 16;
      return Bf16(Two(BinaryKind::kMul, Activated(left), right));
    }
    const ValueId product = WithBias(Product(x, *k, n), n);
    *k = n;
    return Bf16(Activated(Draw(4) == 0 ? F32(Bf16(product)) : product));
  }

  ValueId Half(ValueId both, int64_t start) {
    std::vector<Dim> limits = DimsOf(both);
    std::vector<int64_t> starts(limits.size(), 0);
    starts.back() = start;
    limits.back() = D(start + limits.back().value / 2);
    return Take(b_.Slice(both, starts, limits));
  }

  // An expression of x.
  template <typename... Pieces>
  ValueId Of(ValueId x, absl::string_view expression, const Pieces&... pieces) {
    r_.Name("x", x);
    return r_(expression, pieces...);
  }

  ValueId Activated(ValueId x) {
    switch (Draw(9)) {
      case 0:
        return Of(x, "x / (exp(-x) + 1)");
      case 1:
        return Of(x, "x * reciprocal(exp(-x) + 1)");
      case 2:  // GELU by tanh, as ATen decomposes it
        return Of(x, "x * 0.5 * (tanh((x + x * x * x * 0.044715) * 0.7978845608028654) + 1)");
      case 3:  // by tanh, with x before the brackets
        return Of(x, "0.5 * (x * (1 + tanh(x * 0.7978845608028654 * (1 + 0.044715 * square(x)))))");
      case 4:  // by erf
        return Of(x, "x * 0.5 * (erf(x * 0.7071067811865476) + 1)");
      case 5:
        return Of(x, "max(x, 0)");
      case 6:  // 0 where it is not above 0
        r_.Name("zero", Of(x, "spread(0, x)"));
        return r_("select(le(x, zero), zero, x)");
      case 7:  // a norm by a root
        return Of(x, "x / spread(sqrt(sum(square(x), $0, keep) / $1 + 1e-3), x)",
                  b_.TypeOf(x).rank() - 1, DimsOf(x).back().value);
      default:  // softplus in some chains
        return seed_ % 3 != 0 ? x : Of(x, "log(exp(x) + 1)");
    }
  }

  // The same elements with other leading axes.
  ValueId Regrouped(ValueId x) {
    const std::vector<Dim> dims = DimsOf(x);
    std::vector<Dim> to;
    int64_t count = 1;
    bool symbolic = false;
    for (size_t i = 0; i + 1 < dims.size(); ++i) {
      symbolic = symbolic || dims[i].symbolic;
      count *= dims[i].symbolic ? 1 : dims[i].value;
    }
    if (symbolic) to.push_back(Dim::M());
    if (!symbolic && count % 2 == 0 && Draw(2) == 0) {
      to = {D(2), D(count / 2)};
    } else if (!symbolic || count != 1) {
      to.push_back(D(count));
    }
    to.push_back(dims.back());
    return Take(b_.Reshape(x, to));
  }

  // Parts of the columns, each through views that bring the parts to the front.
  void OutputParts(ValueId x) {
    const std::vector<Dim> dims = DimsOf(x);
    std::vector<Dim> parts(dims.begin(), dims.end() - 1);
    parts.insert(parts.end(), {D(2), D(dims.back().value / 2)});
    const auto rank = static_cast<int32_t>(parts.size());
    std::vector<int32_t> axes = {rank - 2};
    for (int32_t i = 0; i < rank; ++i) {
      if (i != rank - 2) axes.push_back(i);
    }
    const ValueId front = Take(b_.Transpose(Take(b_.Reshape(x, parts)), axes));
    for (const int64_t part : {0, 1}) {
      std::vector<Dim> limits = DimsOf(front), one(limits.begin() + 1, limits.end());
      std::vector<int64_t> starts(limits.size(), 0);
      starts[0] = part;
      limits[0] = D(part + 1);
      b_outputs_.push_back(Take(b_.Reshape(Take(b_.Slice(front, starts, limits)), one)));
    }
  }

  void Finish(ValueId x) {
    const std::vector<Dim> dims = DimsOf(x);
    if (Draw(4) == 0 && dims.back().value % 2 == 0 && dims.size() < 6) {
      OutputParts(x);
    } else if (Draw(3) == 0 && !dims.back().symbolic && dims.back().value % 8 == 0 &&
               dims.size() < 6) {
      std::vector<Dim> heads(dims.begin(), dims.end() - 1);
      heads.insert(heads.end(), {D(dims.back().value / 8), D(8)});
      x = Take(b_.Reshape(x, heads));
      if (Draw(2) == 0) {
        std::vector<int32_t> axes(heads.size());
        for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int32_t>(i);
        std::swap(axes[axes.size() - 2], axes[axes.size() - 3]);
        x = Take(b_.Transpose(x, axes));
      }
    }
    if (b_outputs_.empty() || b_outputs_.back() != x) b_outputs_.push_back(x);
    for (const ValueId output : b_outputs_) {
      if (seed_ % 4 == 2 && StoredOverAnInput(output)) continue;
      if (!b_.Output(output).ok()) std::abort();
    }
  }

  bool StoredOverAnInput(ValueId output) {
    return std::any_of(inputs_.begin(), inputs_.end(), [&](ValueId input) {
      return b_.Output(output, {{}, input}).ok();
    });
  }

  std::mt19937_64 random_;
  const uint64_t seed_;
  std::vector<ValueId> inputs_;  // without constants
  ChainReader r_;
  ChainBuilder& b_ = r_.builder();
  std::vector<ValueId> b_outputs_;
};

}  // namespace

Chain MakeRoughChain(uint64_t seed) { return RoughMaker(seed).Make(); }

}  // namespace sinter::testing
