// sinter_chain_add_*: the primitives.
#include "src/capi/adder.h"
#include "src/capi/window_options.h"
#include "src/chain/composites.h"

namespace capi = sinter::capi;
using sinter::ValueId;
using Result = absl::StatusOr<ValueId>;

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
    SINTER_ASSIGN_OR_RETURN(
        const auto given, capi::ReadOptions(options, "grouped_matmul", SINTER_MATMUL_TRANSPOSE_B));
    const ValueId va = add.Operand("a", a), vw = add.Operand("w", w);
    const ValueId vids = add.Operand("ids", ids);
    SINTER_RETURN_IF_ERROR(add.status());
    return add.builder().GroupedMatmul(va, vw, vids,
                                       (given.flags & SINTER_MATMUL_TRANSPOSE_B) != 0);
  });
}

sinter_status sinter_chain_add_conv2d(sinter_chain* chain, sinter_value x, sinter_value w,
                                      const sinter_conv2d_options* options, sinter_value* out_value,
                                      sinter_error** error) {
  return capi::AddValue(chain, "conv2d", out_value, error, [&](capi::Adder& add) -> Result {
    SINTER_ASSIGN_OR_RETURN(const auto given, capi::ReadOptions(options, "conv2d", 0));
    const ValueId vx = add.Operand("x", x), vw = add.Operand("w", w);
    SINTER_RETURN_IF_ERROR(add.status());
    const auto one = [](int32_t value) -> int64_t { return value == 0 ? 1 : value; };
    sinter::Conv2d conv;
    if (given.filter != 0) conv.filter = static_cast<sinter::FilterLayout>(given.filter);
    conv.strides = {one(given.stride_height), one(given.stride_width)};
    conv.dilations = {one(given.dilation_height), one(given.dilation_width)};
    conv.pads = {given.pad_top, given.pad_bottom, given.pad_left, given.pad_right};
    return sinter::AddConv2d(add.builder(), vx, vw, conv, one(given.groups));
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
    const auto op = static_cast<sinter::UnaryKind>(kind);
    add.Require(sinter::IsValid(op),
                absl::StrCat("kind is ", kind, ", must be a SINTER_UNARY_* in [1, ",
                             sinter::UnaryKinds().size(), "]"));
    const ValueId va = add.Operand("a", a);
    SINTER_RETURN_IF_ERROR(add.status());
    return add.builder().Unary(op, va);
  });
}

sinter_status sinter_chain_add_binary(sinter_chain* chain, sinter_binary kind, sinter_value a,
                                      sinter_value b, sinter_value* out_value,
                                      sinter_error** error) {
  return capi::AddValue(chain, "binary", out_value, error, [&](capi::Adder& add) -> Result {
    const auto op = static_cast<sinter::BinaryKind>(kind);
    add.Require(sinter::IsValid(op),
                absl::StrCat("kind is ", kind, ", must be a SINTER_BINARY_* in [1, ",
                             sinter::BinaryKinds().size(), "]"));
    const ValueId va = add.Operand("a", a), vb = add.Operand("b", b);
    SINTER_RETURN_IF_ERROR(add.status());
    return add.builder().Binary(op, va, vb);
  });
}

sinter_status sinter_chain_add_compare(sinter_chain* chain, sinter_compare kind, sinter_value a,
                                       sinter_value b, sinter_value* out_value,
                                       sinter_error** error) {
  return capi::AddValue(chain, "compare", out_value, error, [&](capi::Adder& add) -> Result {
    const auto op = static_cast<sinter::CompareKind>(kind);
    add.Require(sinter::IsValid(op),
                absl::StrCat("kind is ", kind, ", must be a SINTER_COMPARE_* in [1, ",
                             sinter::CompareKinds().size(), "]"));
    const ValueId va = add.Operand("a", a), vb = add.Operand("b", b);
    SINTER_RETURN_IF_ERROR(add.status());
    return add.builder().Compare(op, va, vb);
  });
}

sinter_status sinter_chain_add_select(sinter_chain* chain, sinter_value condition, sinter_value a,
                                      sinter_value b, sinter_value* out_value,
                                      sinter_error** error) {
  return capi::AddValue(chain, "select", out_value, error, [&](capi::Adder& add) -> Result {
    const ValueId vc = add.Operand("condition", condition);
    const ValueId va = add.Operand("a", a), vb = add.Operand("b", b);
    SINTER_RETURN_IF_ERROR(add.status());
    return add.builder().Select(vc, va, vb);
  });
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
  return capi::AddValue(chain, "gather", out_value, error, [&](capi::Adder& add) -> Result {
    const ValueId vx = add.Operand("x", x), vids = add.Operand("ids", ids);
    SINTER_RETURN_IF_ERROR(add.status());
    return add.builder().Gather(vx, vids, axis);
  });
}

sinter_status sinter_chain_add_scatter(sinter_chain* chain, sinter_value x, sinter_value ids,
                                       sinter_value rows, sinter_value* out_value,
                                       sinter_error** error) {
  return capi::AddValue(chain, "scatter", out_value, error, [&](capi::Adder& add) -> Result {
    const ValueId vx = add.Operand("x", x), vids = add.Operand("ids", ids);
    const ValueId vrows = add.Operand("rows", rows);
    SINTER_RETURN_IF_ERROR(add.status());
    return add.builder().Scatter(vx, vids, vrows);
  });
}

sinter_status sinter_chain_add_top_k(sinter_chain* chain, sinter_value x, int32_t count,
                                     sinter_value* out_value, sinter_error** error) {
  return capi::AddValue(chain, "top_k", out_value, error, [&](capi::Adder& add) -> Result {
    const ValueId vx = add.Operand("x", x);
    SINTER_RETURN_IF_ERROR(add.status());
    return add.builder().TopK(vx, count);
  });
}

sinter_status sinter_chain_add_cumsum(sinter_chain* chain, sinter_value x, sinter_value* out_value,
                                      sinter_error** error) {
  return capi::AddValue(chain, "scan", out_value, error, [&](capi::Adder& add) -> Result {
    const ValueId vx = add.Operand("x", x);
    SINTER_RETURN_IF_ERROR(add.status());
    return add.builder().Scan(sinter::ReduceKind::kSum, vx);
  });
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
    const auto op = static_cast<sinter::ReduceKind>(kind);
    add.Require(sinter::IsValid(op),
                absl::StrCat("kind is ", kind, ", must be a SINTER_REDUCE_* in [1, ",
                             sinter::ReduceKinds().size(), "]"));
    const ValueId va = add.Operand("a", a);
    const std::vector<int32_t> list = add.Numbers("axes", axis_count, axes);
    SINTER_RETURN_IF_ERROR(add.status());
    return add.builder().Reduce(op, va, list, (given.flags & SINTER_REDUCE_KEEPDIMS) != 0);
  });
}

}  // extern "C"
