#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/numbers.h"
#include "src/normal/rules.h"

namespace sinter {
namespace {

bool IsTurned(const Op& op) {  // a matrix's transpose
  return op.kind == OpKind::kTranspose && op.axes == std::vector<int32_t>{1, 0};
}

// Its last two axes change places.
ValueId AddTurned(NormalGraph& graph, ValueId value) {
  std::vector<int32_t> axes(graph.type(value).dims.size());
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int32_t>(i);
  std::swap(axes[axes.size() - 2], axes[axes.size() - 1]);
  const Op& op = graph.op(value);
  if (op.kind == OpKind::kTranspose && op.axes == axes) return op.operands[0];
  std::vector<Dim> dims = op.type.dims;
  const auto last = dims.end() - 1;
  std::iter_swap(last - 1, last);
  const Dim one = Dim::Constant(1);  // an axis of which may be anywhere
  if (*last == one || *(last - 1) == one) return graph.AddView(OpKind::kReshape, value, dims);
  return graph.AddTranspose(value, std::move(axes));
}

bool IsBatchOfOne(const std::vector<Dim>& dims) {
  return dims.size() > 2 &&
         std::all_of(dims.begin(), dims.end() - 2, [](Dim dim) { return dim == Dim::Constant(1); });
}

// Below the transposes of a matrix, each of which turns the flag.
ValueId Straight(const NormalGraph& graph, ValueId w, bool* along_k) {
  while (IsTurned(graph.op(w))) {
    w = graph.op(w).operands[0];
    *along_k = !*along_k;
  }
  return w;
}

// Whether kernels find `value` in memory as a matrix, without a copy.
bool LiesAsMatrix(const NormalGraph& graph, ValueId value) {
  ValueId base = -1;
  NormalLayout layout;
  if (!LayoutBelowViews(graph, value, &base, &layout)) return false;
  const DType dtype = graph.type(value).dtype;
  if (graph.op(base).kind != OpKind::kInput) {  // its kernel leaves no gaps, nor do reshapes of it
    while (graph.op(value).kind == OpKind::kReshape) value = graph.op(value).operands[0];
    return base == value;
  }
  return IsMatrix(layout, dtype) && StartsAtVector(layout, dtype) &&
         (base == value || !graph.IsWritten(base));
}

// Whether `value` is a view of a kernel's result that is copied both for a reader of its rows and
// for a reader of its columns.
bool IsCopiedInAnyOrder(const NormalGraph& graph, ValueId value) {
  ValueId base = -1;
  NormalLayout layout;
  const bool lies = LayoutBelowViews(graph, value, &base, &layout);
  if (graph.op(base).kind == OpKind::kInput) return false;
  return !lies || layout.strides[0] != Stride{1, 0};
}

// Whether the product's kernel reads its rows as the columns of `x`, [k, rows]: where no operand is
// copied that would not be otherwise, and always where k is M.
bool ReadsColumns(const NormalGraph& graph, const Op& product, ValueId x) {
  bool along_k = product.transpose_b;
  const ValueId w = Straight(graph, product.operands[1], &along_k);
  const TensorType &a = graph.type(x), &b = graph.type(w);
  if (a.rank() != 2 || !IsFloat(a.dtype) || SizeOf(a.dtype) != 2 || b.dtype != a.dtype) {
    return false;
  }
  const Dim k = a.dims[0], rows = a.dims[1], n = product.type.dims.back();
  if (rows.symbolic || n.symbolic) return false;
  if (k.symbolic) return !along_k;
  const int64_t vector = VectorOf(a.dtype);
  if (rows.value % vector != 0 || n.value % vector != 0 ||
      !(LiesAsMatrix(graph, x) || IsCopiedInAnyOrder(graph, x))) {
    return false;
  }
  return k.value % vector == 0 || (!along_k && LiesAsMatrix(graph, w));
}

// Says by transpose_a, and by no op, that rows are transposed where kernels read them so; else by
// an op. True if it changed the product.
bool TurnRows(NormalGraph& graph, Op* product) {
  if (!IsRowProduct(graph, *product)) return false;
  bool turned = product->transpose_a;
  const ValueId x = Straight(graph, product->operands[0], &turned);
  if (turned && ReadsColumns(graph, *product, x)) {
    const bool changed = x != product->operands[0];
    product->operands[0] = x;
    product->transpose_a = true;
    return changed;
  }
  if (!product->transpose_a) return false;
  product->operands[0] = AddTurned(graph, product->operands[0]);
  product->transpose_a = false;
  return true;
}

// A product with one matrix that reads its rows without a transpose.
ValueId PlainProduct(NormalGraph& graph, ValueId id) {
  Op product = graph.op(id);
  const std::vector<Dim> whole = product.type.dims, dims = graph.type(product.operands[1]).dims;
  const bool batched = IsBatchOfOne(dims);
  if (batched) {
    product.operands[1] = graph.AddView(OpKind::kReshape, product.operands[1],
                                        std::vector<Dim>(dims.end() - 2, dims.end()));
    const size_t rank = graph.type(product.operands[0]).dims.size();
    product.type.dims.assign(whole.end() - static_cast<std::ptrdiff_t>(rank), whole.end());
  }
  const bool turned = TurnRows(graph, &product);
  if (!batched && !turned) return id;
  const ValueId plain = graph.Add(std::move(product));
  return graph.type(plain).dims == whole ? plain : graph.AddView(OpKind::kReshape, plain, whole);
}

// A product of a matrix by a vector as the sum of the matrix by the vector spread over its rows.
ValueId SumOfVector(NormalGraph& graph, ValueId id) {
  const Op product = graph.op(id);
  const TensorType a = graph.type(product.operands[0]), b = graph.type(product.operands[1]);
  const bool one = product.type.dims.back() == Dim::Constant(1) && !product.transpose_a;
  const Dim k = a.dims.back();
  if (!one || !IsFloat(a.dtype) || !IsFloat(b.dtype) || k.symbolic || a.rank() < b.rank())
    return id;
  if (SymbolicAxis(b.dims) >= 0) return id;
  const auto widened = [&](ValueId value) {
    return graph.type(value).dtype == DType::kF32 ? value : graph.AddCast(value, DType::kF32);
  };
  std::vector<Dim> turned = b.dims;
  turned[turned.size() - 2] = Dim::Constant(1);
  turned.back() = k;
  const ValueId vector = graph.AddView(OpKind::kReshape, widened(product.operands[1]), turned);
  const ValueId spread = graph.AddView(OpKind::kBroadcast, vector, a.dims);
  const ValueId x = widened(product.operands[0]);
  Op sum = OpOf(OpKind::kReduce, {graph.AddBinary(BinaryKind::kMul, x, spread)}, product.type);
  sum.reduce = ReduceKind::kSum;
  sum.axes = {static_cast<int32_t>(a.rank() - 1)};
  sum.keepdims = true;
  return graph.Add(std::move(sum));
}

constexpr int64_t kRowChannels = 64;  // of 16 bits in a row of a stage
constexpr int64_t kTapsOfManyStages = 6;

// Pads what products cannot read, and copies what lies where they do not.
class Copies {
 public:
  explicit Copies(NormalGraph& graph) : graph_(graph) {}

  ValueId Product(ValueId id) {
    const Op& op = graph_.op(id);
    if (op.kind == OpKind::kConv2d) return Convolution(id);
    if (!IsRowProduct(graph_, op)) return id;
    if (op.transpose_a) return OfColumns(id);
    const ValueId x = op.operands[0], w = op.operands[1];
    const DType dtype = graph_.type(x).dtype;
    const Dim k = graph_.type(x).dims.back();
    if (!IsFloat(dtype) || SizeOf(dtype) != 2 || graph_.type(w).dtype != dtype) return id;
    if (k.symbolic || SymbolicAxis(graph_.type(x).dims) > 0 || UsesM(w)) return id;
    const std::vector<Dim> dims = graph_.type(w).dims;
    const bool transposed = op.transpose_b;
    const int axis = graph_.type(x).rank() - 1;
    const int64_t missing = RoundUp(k.value, VectorOf(dtype)) - k.value;
    const ValueId rows = missing > 0 ? Padded(x, axis, missing) : Rows(x);
    bool along_k = transposed;
    const ValueId weight = missing > 0 ? PaddedWeight(w, &along_k, missing) : Weight(w, &along_k);
    if (rows == x && weight == w && along_k == transposed) return id;
    Op product = graph_.op(id);
    product.operands = {rows, weight};
    product.transpose_b = along_k;
    return graph_.Add(std::move(product));
  }

 private:
  bool UsesM(ValueId value) const { return SymbolicAxis(graph_.type(value).dims) >= 0; }

  // A product whose rows are columns of its first operand. Where it sums over M, its own rows and
  // columns are made multiples of 16 bytes.
  ValueId OfColumns(ValueId id) {
    Op product = graph_.op(id);
    const std::vector<Dim> dims = product.type.dims;
    const ValueId x = product.operands[0], w = product.operands[1];
    if (!ReadsColumns(graph_, product, x)) return id;
    bool along_k = product.transpose_b;
    if (graph_.type(x).dims[0].symbolic) {
      product.operands = {PaddedColumns(x), PaddedColumns(Straight(graph_, w, &along_k))};
    } else {
      product.operands = {Rows(x), Weight(w, &along_k)};
    }
    if (product.operands[0] == x && product.operands[1] == w) return id;
    product.transpose_b = along_k;
    product.type.dims = {graph_.type(product.operands[0]).dims[1],
                         graph_.type(product.operands[1]).dims[along_k ? 0 : 1]};
    const bool whole = product.type.dims == dims;
    const ValueId padded = graph_.Add(std::move(product));
    return whole ? padded : graph_.AddSlice(padded, {0, 0}, dims);
  }

  ValueId PaddedColumns(ValueId x) {
    const int64_t columns = graph_.type(x).dims[1].value;
    const int64_t missing = RoundUp(columns, VectorOf(graph_.type(x).dtype)) - columns;
    return missing > 0 ? Padded(x, 1, missing) : Rows(x);
  }

  // Pads an axis with zeros at its end.
  ValueId Padded(ValueId value, int axis, int64_t missing) {
    const TensorType type = graph_.type(value);
    const auto [known, fresh] = padded_.try_emplace({value, axis, missing}, -1);
    if (!fresh) return known->second;
    graph_.Note(absl::StrCat(
        "copied with zeros: ", ToString(type), ", ", ToString(type.dims[static_cast<size_t>(axis)]),
        " to ", type.dims[static_cast<size_t>(axis)].value + missing, ", a multiple of 16 bytes"));
    std::vector<Dim> dims = type.dims;
    dims[static_cast<size_t>(axis)] = Dim::Constant(missing);
    const ValueId zeros =
        graph_.AddView(OpKind::kBroadcast, graph_.AddScalar(0, type.dtype), std::move(dims));
    return known->second = graph_.AddConcat({value, zeros}, axis);
  }

  // A cast to its own dtype: kernels that make a product's operand store it without gaps.
  ValueId Copied(ValueId value, absl::string_view why) {
    const auto [known, fresh] = copied_.try_emplace(value, -1);
    if (!fresh) return known->second;
    graph_.Note(absl::StrCat("copied: ", ToString(graph_.type(value)), ", ", why));
    return known->second = graph_.AddCast(value, graph_.type(value).dtype);
  }

  ValueId Rows(ValueId x) {
    const Op& op = graph_.op(x);
    if (op.kind != OpKind::kInput) return x;
    if (IsMatrix({op.type.dims, op.strides, 0}, op.type.dtype)) return x;
    return Copied(x, "whose rows lie at several strides or at no multiples of 16 bytes");
  }

  // A weight whose rows are multiples of 16 bytes. `along_k`: its rows are along K, not along N.
  ValueId Weight(ValueId w, bool* along_k) {
    bool along = *along_k;
    const ValueId straight = Straight(graph_, w, &along);
    const Op& op = graph_.op(straight);
    const int64_t vector = VectorOf(op.type.dtype);
    const bool input = op.kind == OpKind::kInput;
    NormalLayout layout{op.type.dims, input ? op.strides : ContiguousStrides(op.type.dims), 0};
    // As a matrix of the other axis.
    if (input && !IsMatrix(layout, op.type.dtype) && !graph_.IsWritten(straight)) {
      const NormalLayout turned{
          {layout.dims[1], layout.dims[0]}, {layout.strides[1], layout.strides[0]}, 0};
      if (IsMatrix(turned, op.type.dtype)) {
        *along_k = !along;
        const auto [known, fresh] = turned_.try_emplace(straight, -1);
        if (fresh) {
          known->second =
              graph_.AddInput(straight, {op.type.dtype, turned.dims}, turned.strides, 0);
        }
        return known->second;
      }
    }
    const int64_t length = op.type.dims[1].value;
    if (IsMatrix(layout, op.type.dtype)) return w;
    if (length % vector == 0) {
      if (!input) return w;
      *along_k = along;
      return Copied(straight, "whose rows are not a multiple of 16 bytes apart");
    }
    *along_k = !along;
    const ValueId turned = AddTurned(graph_, straight);
    return IsTurned(graph_.op(turned)) ? Copied(turned, "with rows along K") : turned;
  }

  // Padded with zeros at the end of K, and rows along it.
  ValueId PaddedWeight(ValueId w, bool* along_k, int64_t missing) {
    ValueId straight = Straight(graph_, w, along_k);
    const int64_t n = graph_.type(straight).dims[*along_k ? 0 : 1].value;
    if (!*along_k && n % VectorOf(graph_.type(straight).dtype) != 0) {
      straight = AddTurned(graph_, straight);
      *along_k = true;
    }
    return Padded(straight, *along_k ? 1 : 0, missing);
  }

  // How many groups become one, so that each has a multiple of 16 bytes of channels, and so has its
  // part of the result; 0: none do. Groups of at most 16 bytes fill a row of a stage: the weights
  // of a stage are then one box, not one for each group. Filters of few taps have few stages.
  static int64_t Joined(const Conv2d& conv, const TensorType& x, const TensorType& w) {
    const auto extent = [&](int axis) { return w.dims[static_cast<size_t>(axis)].value; };
    const int64_t in = x.dims[3].value / conv.groups;
    const int64_t out = extent(conv.out_axis()) / conv.groups;
    const int64_t vector = VectorOf(x.dtype);
    const int64_t taps = extent(conv.height_axis()) * extent(conv.height_axis() + 1);
    int64_t joined = 1;
    while (joined * in % vector != 0 || joined * out % vector != 0) joined *= 2;
    if (joined > vector || conv.groups % joined != 0) return 0;
    const bool narrow = in <= vector && out == in && taps >= kTapsOfManyStages;
    while (narrow && 2 * joined * in <= kRowChannels && conv.groups % (2 * joined) == 0)
      joined *= 2;
    return joined;
  }

  // The filter w [out, height, width, in] of `groups`, of which each `joined` become one: zeros
  // fill the channels of a group's neighbours.
  ValueId JoinedFilter(ValueId w, int64_t groups, int64_t joined) {
    const TensorType type = graph_.type(w);
    const auto extent = [](int64_t v) { return Dim::Constant(v); };
    const int64_t in = type.dims[3].value;
    const int64_t taps = type.dims[0].value / groups * type.dims[1].value * type.dims[2].value;
    // [set, group of the filters, filter and tap, group of the channels, channel]
    std::vector<Dim> dims{extent(groups / joined), extent(joined), extent(taps), extent(1),
                          extent(in)};
    const ValueId own = graph_.AddView(OpKind::kReshape, w, dims);
    dims[3] = extent(joined);
    const auto spread = [&](ValueId value) {
      return graph_.AddView(OpKind::kBroadcast, value, dims);
    };
    const ValueId a = graph_.AddIota(dims, 1), b = graph_.AddIota(dims, 3);
    Op same = OpOf(OpKind::kCompare, {a, b}, {DType::kPred, dims});
    same.compare = CompareKind::kEq;
    const ValueId is_own = graph_.Add(std::move(same));
    const ValueId filter = spread(own), zeros = spread(graph_.AddScalar(0, type.dtype));
    const ValueId chosen =
        graph_.Add(OpOf(OpKind::kSelect, {is_own, filter, zeros}, {type.dtype, dims}));
    dims = type.dims;
    dims[3] = extent(joined * in);
    return graph_.AddView(OpKind::kReshape, chosen, dims);
  }

  // For groups: the filter as OHWI, and so many groups joined that kernels read them.
  ValueId GroupedConvolution(ValueId id) {
    Op op = graph_.op(id);
    const TensorType x = graph_.type(op.operands[0]), w = graph_.type(op.operands[1]);
    const int64_t joined = Joined(op.conv, x, w);
    const bool turn = op.conv.filter == FilterLayout::kHWIO;
    if (SizeOf(x.dtype) != 2 || (joined <= 1 && !turn)) return id;
    if (turn) {
      op.operands[1] = graph_.AddTranspose(op.operands[1], {3, 0, 1, 2});
      op.conv.filter = FilterLayout::kOHWI;
    }
    if (joined > 1) {
      op.operands[1] = JoinedFilter(op.operands[1], op.conv.groups, joined);
      op.conv.groups /= joined;
    }
    graph_.Note(joined > 1 ? absl::StrCat("copied with zeros: the filter ", ToString(w), ", ",
                                          joined, " groups as one of a multiple of 16 bytes")
                           : absl::StrCat("copied: the filter ", ToString(w),
                                          ", with rows along its channels"));
    return graph_.Add(std::move(op));
  }

  // Pads the channels of an image and of its filter.
  ValueId Convolution(ValueId id) {
    Op op = graph_.op(id);
    if (op.conv.groups > 1) return GroupedConvolution(id);
    const TensorType x = graph_.type(op.operands[0]);
    const int64_t missing = RoundUp(x.dims.back().value, VectorOf(x.dtype)) - x.dims.back().value;
    if (SizeOf(x.dtype) != 2) return id;
    const TensorType w = graph_.type(op.operands[1]);
    const bool hwio = op.conv.filter == FilterLayout::kHWIO;
    const bool turn = hwio && w.dims[3].value % VectorOf(w.dtype) != 0;
    if (missing == 0 && !turn) return id;
    if (turn) {
      op.operands[1] = graph_.AddTranspose(op.operands[1], {3, 0, 1, 2});
      op.conv.filter = FilterLayout::kOHWI;
      if (missing == 0) {
        graph_.Note(
            absl::StrCat("copied: the filter ", ToString(w), ", with rows along its channels"));
      }
    }
    if (missing > 0) {
      op.operands[0] = Padded(op.operands[0], 3, missing);
      op.operands[1] = Padded(op.operands[1], op.conv.in_axis(), missing);
    }
    return graph_.Add(std::move(op));
  }

  NormalGraph& graph_;
  std::map<std::tuple<ValueId, int, int64_t>, ValueId> padded_;
  std::map<ValueId, ValueId> copied_;
  std::map<ValueId, ValueId> turned_;  // inputs as matrices of the other axis
};

}  // namespace

bool PlainProducts(NormalGraph& graph) {
  return graph.Rewrite([&](ValueId id) {
    return graph.op(id).kind == OpKind::kMatmul ? PlainProduct(graph, id) : id;
  });
}

bool SumsOfVectors(NormalGraph& graph) {
  // By value: whether it is made element by element of a product that stays one.
  std::vector<bool> behind(static_cast<size_t>(graph.size()), false);
  const auto is_behind = [&](ValueId id) {
    while (graph.op(id).kind == OpKind::kConcat) id = graph.op(id).operands[0];  // of zeros
    return static_cast<size_t>(id) < behind.size() && behind[static_cast<size_t>(id)];
  };
  return graph.Rewrite([&](ValueId id) {
    const Op& op = graph.op(id);
    const bool any = std::any_of(op.operands.begin(), op.operands.end(), is_behind);
    const bool passes = IsElementWise(op) || op.kind == OpKind::kReshape;
    // After a product it may be computed in that one's kernel.
    const bool joins = IsRowProduct(graph, op) && is_behind(op.operands[0]);
    const ValueId with = op.kind == OpKind::kMatmul && !joins ? SumOfVector(graph, id) : id;
    behind[static_cast<size_t>(id)] = with == id && (IsProduct(graph, op) || (passes && any));
    return with;
  });
}

bool CopiedOperands(NormalGraph& graph) {
  Copies copies(graph);
  return graph.Rewrite([&](ValueId id) { return copies.Product(id); });
}

}  // namespace sinter
