// sinter_chain_add_*: the primitives.
#include "src/capi/adder.h"
#include "src/chain/composites.h"

namespace capi = sinter::capi;
using Builder = sinter::ChainBuilder;
using sinter::ValueId;
using Result = absl::StatusOr<ValueId>;
using sinter::ChainBuilder;

namespace {

// grouped_matmul by ids or ends, `field`.
Result AddGrouped(capi::Adder& add, sinter_value a, sinter_value w, const char* field,
                  sinter_value groups, const sinter_matmul_options* options,
                  Result (ChainBuilder::*method)(ValueId, ValueId, ValueId, bool)) {
  SINTER_ASSIGN_OR_RETURN(const auto given,
                          capi::ReadOptions(options, "grouped_matmul", SINTER_MATMUL_TRANSPOSE_B));
  const ValueId va = add.Operand("a", a), vw = add.Operand("w", w);
  const ValueId vgroups = add.Operand(field, groups);
  SINTER_RETURN_IF_ERROR(add.status());
  return (add.builder().*method)(va, vw, vgroups, (given.flags & SINTER_MATMUL_TRANSPOSE_B) != 0);
}

}  // namespace

extern "C" {

sinter_status sinter_chain_add_input(sinter_chain* chain, sinter_dtype dtype, uint32_t rank,
                                     const int64_t* dims, const sinter_input_options* options,
                                     sinter_value* out_value, sinter_error** error) {
  return capi::AddValue(chain, "input", out_value, error, [&](capi::Adder& add) -> Result {
    SINTER_ASSIGN_OR_RETURN(const auto given,
                            capi::ReadOptions(options, "input", SINTER_INPUT_CONSTANT));
    const sinter::TensorType type{add.Type(dtype), add.Dims("dims", rank, dims)};
    sinter::InputOptions input;
    input.constant = (given.flags & SINTER_INPUT_CONSTANT) != 0;
    if (given.name != nullptr) input.name = given.name;
    input.strides = add.Strides(rank, given.strides, given.stride_m_powers);
    SINTER_RETURN_IF_ERROR(add.status());
    return add.builder().Input(type, input);
  });
}

sinter_status sinter_chain_add_scalar(sinter_chain* chain, double value, sinter_dtype dtype,
                                      sinter_value* out_value, sinter_error** error) {
  return capi::AddValue(chain, "scalar", out_value, error, [&](capi::Adder& add) -> Result {
    const sinter::DType type = add.Type(dtype);
    SINTER_RETURN_IF_ERROR(add.status());
    return add.builder().Scalar(value, type);
  });
}

sinter_status sinter_chain_add_iota(sinter_chain* chain, sinter_dtype dtype, uint32_t rank,
                                    const int64_t* dims, int32_t axis, sinter_value* out_value,
                                    sinter_error** error) {
  return capi::AddValue(chain, "iota", out_value, error, [&](capi::Adder& add) -> Result {
    const sinter::DType type = add.Type(dtype);
    const std::vector<sinter::Dim> extents = add.Dims("dims", rank, dims);
    SINTER_RETURN_IF_ERROR(add.status());
    return add.builder().Iota(extents, axis, type);
  });
}

sinter_status sinter_chain_add_matmul(sinter_chain* chain, sinter_value a, sinter_value b,
                                      const sinter_matmul_options* options, sinter_value* out_value,
                                      sinter_error** error) {
  return capi::AddValue(chain, "matmul", out_value, error, [&](capi::Adder& add) -> Result {
    constexpr uint32_t kFlags = SINTER_MATMUL_TRANSPOSE_A | SINTER_MATMUL_TRANSPOSE_B;
    SINTER_ASSIGN_OR_RETURN(const auto given, capi::ReadOptions(options, "matmul", kFlags));
    const ValueId va = add.Operand("a", a), vb = add.Operand("b", b);
    SINTER_RETURN_IF_ERROR(add.status());
    return add.builder().Matmul(va, vb, (given.flags & SINTER_MATMUL_TRANSPOSE_A) != 0,
                                (given.flags & SINTER_MATMUL_TRANSPOSE_B) != 0);
  });
}

sinter_status sinter_chain_add_grouped_matmul(sinter_chain* chain, sinter_value a, sinter_value w,
                                              sinter_value ids,
                                              const sinter_matmul_options* options,
                                              sinter_value* out_value, sinter_error** error) {
  return capi::AddValue(chain, "grouped_matmul", out_value, error, [&](capi::Adder& add) -> Result {
    return AddGrouped(add, a, w, "ids", ids, options, &ChainBuilder::GroupedMatmul);
  });
}

sinter_status sinter_chain_add_grouped_matmul_ends(sinter_chain* chain, sinter_value a,
                                                   sinter_value w, sinter_value ends,
                                                   const sinter_matmul_options* options,
                                                   sinter_value* out_value, sinter_error** error) {
  return capi::AddValue(chain, "grouped_matmul", out_value, error, [&](capi::Adder& add) -> Result {
    return AddGrouped(add, a, w, "ends", ends, options, &ChainBuilder::GroupedMatmulByEnds);
  });
}

sinter_status sinter_chain_add_all_reduce(sinter_chain* chain, sinter_value x, int32_t ranks,
                                          sinter_value* out_value, sinter_error** error) {
  return capi::AddValue(chain, "all_reduce", out_value, error, [&](capi::Adder& add) -> Result {
    const ValueId vx = add.Operand("x", x);
    SINTER_RETURN_IF_ERROR(add.status());
    return add.builder().AllReduce(vx, ranks);
  });
}

sinter_status sinter_chain_add_all_gather(sinter_chain* chain, sinter_value x, int32_t axis,
                                          int32_t ranks, sinter_value* out_value,
                                          sinter_error** error) {
  return capi::AddValue(chain, "all_gather", out_value, error, [&](capi::Adder& add) -> Result {
    const ValueId vx = add.Operand("x", x);
    SINTER_RETURN_IF_ERROR(add.status());
    return add.builder().AllGather(vx, axis, ranks);
  });
}

sinter_status sinter_chain_add_reduce_scatter(sinter_chain* chain, sinter_value x, int32_t axis,
                                              int32_t ranks, sinter_value* out_value,
                                              sinter_error** error) {
  return capi::AddValue(chain, "reduce_scatter", out_value, error, [&](capi::Adder& add) -> Result {
    const ValueId vx = add.Operand("x", x);
    SINTER_RETURN_IF_ERROR(add.status());
    return add.builder().ReduceScatter(vx, axis, ranks);
  });
}

sinter_status sinter_chain_add_conv2d(sinter_chain* chain, sinter_value x, sinter_value w,
                                      const sinter_conv2d_options* options, sinter_value* out_value,
                                      sinter_error** error) {
  return capi::AddValue(chain, "conv2d", out_value, error, [&](capi::Adder& add) -> Result {
    SINTER_ASSIGN_OR_RETURN(const auto given, capi::ReadOptions(options, "conv2d", 0));
    const ValueId vx = add.Operand("x", x), vw = add.Operand("w", w);
    SINTER_RETURN_IF_ERROR(add.status());
    sinter::Conv2d conv = capi::MovesOf(given);
    if (given.filter != 0) conv.filter = static_cast<sinter::FilterLayout>(given.filter);
    return sinter::AddConv2d(add.builder(), vx, vw, conv, capi::OneOr(given.groups));
  });
}

sinter_status sinter_chain_add_window(sinter_chain* chain, sinter_value x, sinter_value fill,
                                      const sinter_window_options* options, sinter_value* out_value,
                                      sinter_error** error) {
  return capi::AddValue(chain, "window", out_value, error, [&](capi::Adder& add) -> Result {
    SINTER_ASSIGN_OR_RETURN(const auto given, capi::ReadOptions(options, "window", 0));
    const ValueId vx = add.Operand("x", x), vf = add.Operand("fill", fill);
    SINTER_RETURN_IF_ERROR(add.status());
    return add.builder().Window(vx, vf, capi::TapsOf(given), capi::MovesOf(given));
  });
}

sinter_status sinter_chain_add_unary(sinter_chain* chain, sinter_unary kind, sinter_value a,
                                     sinter_value* out_value, sinter_error** error) {
  return capi::AddValue(chain, "unary", out_value, error, [&](capi::Adder& add) -> Result {
    const auto op = add.Kind(kind, sinter::UnaryKinds(), "SINTER_UNARY");
    const ValueId va = add.Operand("a", a);
    SINTER_RETURN_IF_ERROR(add.status());
    return add.builder().Unary(op, va);
  });
}

sinter_status sinter_chain_add_binary(sinter_chain* chain, sinter_binary kind, sinter_value a,
                                      sinter_value b, sinter_value* out_value,
                                      sinter_error** error) {
  return capi::AddValue(chain, "binary", out_value, error, [&](capi::Adder& add) -> Result {
    const auto op = add.Kind(kind, sinter::BinaryKinds(), "SINTER_BINARY");
    const ValueId va = add.Operand("a", a), vb = add.Operand("b", b);
    SINTER_RETURN_IF_ERROR(add.status());
    return add.builder().Binary(op, va, vb);
  });
}

sinter_status sinter_chain_add_compare(sinter_chain* chain, sinter_compare kind, sinter_value a,
                                       sinter_value b, sinter_value* out_value,
                                       sinter_error** error) {
  return capi::AddValue(chain, "compare", out_value, error, [&](capi::Adder& add) -> Result {
    const auto op = add.Kind(kind, sinter::CompareKinds(), "SINTER_COMPARE");
    const ValueId va = add.Operand("a", a), vb = add.Operand("b", b);
    SINTER_RETURN_IF_ERROR(add.status());
    return add.builder().Compare(op, va, vb);
  });
}

sinter_status sinter_chain_add_select(sinter_chain* chain, sinter_value condition, sinter_value a,
                                      sinter_value b, sinter_value* out_value,
                                      sinter_error** error) {
  return capi::AddOf(chain, "select", {{"condition", condition}, {"a", a}, {"b", b}}, out_value,
                     error, &Builder::Select);
}

sinter_status sinter_chain_add_cast(sinter_chain* chain, sinter_value a, sinter_dtype dtype,
                                    sinter_value* out_value, sinter_error** error) {
  return capi::AddValue(chain, "cast", out_value, error, [&](capi::Adder& add) -> Result {
    const ValueId va = add.Operand("a", a);
    const sinter::DType type = add.Type(dtype);
    SINTER_RETURN_IF_ERROR(add.status());
    return add.builder().Cast(va, type);
  });
}

sinter_status sinter_chain_add_broadcast(sinter_chain* chain, sinter_value a, uint32_t rank,
                                         const int64_t* dims, sinter_value* out_value,
                                         sinter_error** error) {
  return capi::AddValue(chain, "broadcast", out_value, error, [&](capi::Adder& add) -> Result {
    const ValueId va = add.Operand("a", a);
    const std::vector<sinter::Dim> extents = add.Dims("dims", rank, dims);
    SINTER_RETURN_IF_ERROR(add.status());
    return add.builder().Broadcast(va, extents);
  });
}

sinter_status sinter_chain_add_transpose(sinter_chain* chain, sinter_value a, uint32_t rank,
                                         const int32_t* permutation, sinter_value* out_value,
                                         sinter_error** error) {
  return capi::AddValue(chain, "transpose", out_value, error, [&](capi::Adder& add) -> Result {
    const ValueId va = add.Operand("a", a);
    const std::vector<int32_t> axes = add.Numbers("permutation", rank, permutation);
    SINTER_RETURN_IF_ERROR(add.status());
    return add.builder().Transpose(va, axes);
  });
}

sinter_status sinter_chain_add_reshape(sinter_chain* chain, sinter_value a, uint32_t rank,
                                       const int64_t* dims, sinter_value* out_value,
                                       sinter_error** error) {
  return capi::AddValue(chain, "reshape", out_value, error, [&](capi::Adder& add) -> Result {
    const ValueId va = add.Operand("a", a);
    const std::vector<sinter::Dim> extents = add.Dims("dims", rank, dims);
    SINTER_RETURN_IF_ERROR(add.status());
    return add.builder().Reshape(va, extents);
  });
}

sinter_status sinter_chain_add_slice(sinter_chain* chain, sinter_value a, uint32_t rank,
                                     const int64_t* starts, const int64_t* limits,
                                     const int64_t* steps, sinter_value* out_value,
                                     sinter_error** error) {
  return capi::AddValue(chain, "slice", out_value, error, [&](capi::Adder& add) -> Result {
    const ValueId va = add.Operand("a", a);
    const std::vector<int64_t> first = add.Numbers("starts", rank, starts);
    const std::vector<sinter::Dim> end = add.Dims("limits", rank, limits);
    const std::vector<int64_t> step =
        steps != nullptr ? add.Numbers("steps", rank, steps) : std::vector<int64_t>();
    SINTER_RETURN_IF_ERROR(add.status());
    return add.builder().Slice(va, first, end, step);
  });
}

sinter_status sinter_chain_add_concat(sinter_chain* chain, uint32_t count,
                                      const sinter_value* operands, int32_t axis,
                                      sinter_value* out_value, sinter_error** error) {
  return capi::AddValue(chain, "concat", out_value, error, [&](capi::Adder& add) -> Result {
    std::vector<ValueId> values = add.Numbers("operands", count, operands);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = add.Operand(absl::StrCat("operands[", i, "]"), values[i]);
    }
    SINTER_RETURN_IF_ERROR(add.status());
    return add.builder().Concat(values, axis);
  });
}

sinter_status sinter_chain_add_gather(sinter_chain* chain, sinter_value x, sinter_value ids,
                                      int32_t axis, sinter_value* out_value, sinter_error** error) {
  return capi::AddOf(
      chain, "gather", {{"x", x}, {"ids", ids}}, out_value, error,
      [&](Builder& b, ValueId vx, ValueId vids) { return b.Gather(vx, vids, axis); });
}

sinter_status sinter_chain_add_scatter(sinter_chain* chain, sinter_value x, sinter_value ids,
                                       sinter_value rows, sinter_value* out_value,
                                       sinter_error** error) {
  return capi::AddOf(chain, "scatter", {{"x", x}, {"ids", ids}, {"rows", rows}}, out_value, error,
                     &Builder::Scatter);
}

sinter_status sinter_chain_add_top_k(sinter_chain* chain, sinter_value x, int32_t count,
                                     sinter_value* out_value, sinter_error** error) {
  return capi::AddOf(chain, "top_k", {{"x", x}}, out_value, error,
                     [&](Builder& b, ValueId vx) { return b.TopK(vx, count); });
}

sinter_status sinter_chain_add_cumsum(sinter_chain* chain, sinter_value x, sinter_value* out_value,
                                      sinter_error** error) {
  return capi::AddOf(chain, "scan", {{"x", x}}, out_value, error,
                     [](Builder& b, ValueId vx) { return b.Scan(sinter::ReduceKind::kSum, vx); });
}

sinter_status sinter_chain_add_random(sinter_chain* chain, sinter_value seed, sinter_value offset,
                                      uint32_t rank, const int64_t* dims, sinter_value* out_value,
                                      sinter_error** error) {
  return capi::AddValue(chain, "random", out_value, error, [&](capi::Adder& add) -> Result {
    const ValueId vseed = add.Operand("seed", seed), voffset = add.Operand("offset", offset);
    const std::vector<sinter::Dim> extents = add.Dims("dims", rank, dims);
    SINTER_RETURN_IF_ERROR(add.status());
    return add.builder().Random(extents, vseed, voffset);
  });
}

sinter_status sinter_chain_add_reduce(sinter_chain* chain, sinter_reduce kind, sinter_value a,
                                      uint32_t axis_count, const int32_t* axes,
                                      const sinter_reduce_options* options, sinter_value* out_value,
                                      sinter_error** error) {
  return capi::AddValue(chain, "reduce", out_value, error, [&](capi::Adder& add) -> Result {
    SINTER_ASSIGN_OR_RETURN(const auto given,
                            capi::ReadOptions(options, "reduce", SINTER_REDUCE_KEEPDIMS));
    const auto op = add.Kind(kind, sinter::ReduceKinds(), "SINTER_REDUCE");
    const ValueId va = add.Operand("a", a);
    const std::vector<int32_t> list = add.Numbers("axes", axis_count, axes);
    SINTER_RETURN_IF_ERROR(add.status());
    return add.builder().Reduce(op, va, list, (given.flags & SINTER_REDUCE_KEEPDIMS) != 0);
  });
}

}  // extern "C"
