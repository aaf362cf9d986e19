// sinter_chain_add_*: the primitives.
#include "src/capi/adder.h"
#include "src/chain/composites.h"

namespace capi = sinter::capi;
using Builder = sinter::ChainBuilder;
using capi::Extents;
using capi::Operand;
using sinter::ValueId;
using Result = absl::StatusOr<ValueId>;

namespace {

// Reads one of `kinds`; `constants`: how the header's constants begin.
template <typename Kinds>
auto KindOf(int32_t kind, const Kinds& kinds, const char* constants) {
  return [=](capi::Adder& add) { return add.Kind(kind, kinds, constants); };
}

// Reads a list of numbers.
template <typename T>
auto ListOf(const char* field, uint32_t count, const T* values) {
  return [=](capi::Adder& add) { return add.Numbers(field, count, values); };
}

// grouped_matmul by ids or ends, `field`.
sinter_status AddGrouped(sinter_chain* chain, sinter_value a, sinter_value w, const Operand& groups,
                         const sinter_matmul_options* options,
                         Result (Builder::*method)(ValueId, ValueId, ValueId, bool),
                         sinter_value* out_value, sinter_error** error) {
  return capi::AddWith(chain, "grouped_matmul", options, SINTER_MATMUL_TRANSPOSE_B, out_value,
                       error, [&](capi::Adder& add, const auto& given) {
                         return add.Add(method, Operand{"a", a}, Operand{"w", w}, groups,
                                        (given.flags & SINTER_MATMUL_TRANSPOSE_B) != 0);
                       });
}

}  // namespace

extern "C" {

sinter_status sinter_chain_add_input(sinter_chain* chain, sinter_dtype dtype, uint32_t rank,
                                     const int64_t* dims, const sinter_input_options* options,
                                     sinter_value* out_value, sinter_error** error) {
  return capi::AddWith(
      chain, "input", options, SINTER_INPUT_CONSTANT, out_value, error,
      [&](capi::Adder& add, const auto& given) {
        const sinter::TensorType type{add.Type(dtype), add.Dims("dims", rank, dims)};
        sinter::InputOptions input;
        input.constant = (given.flags & SINTER_INPUT_CONSTANT) != 0;
        if (given.name != nullptr) input.name = given.name;
        input.strides = add.Strides(rank, given.strides, given.stride_m_powers);
        return add.Add(&Builder::Input, type, input);
      });
}

sinter_status sinter_chain_add_scalar(sinter_chain* chain, double value, sinter_dtype dtype,
                                      sinter_value* out_value, sinter_error** error) {
  return capi::AddOf(chain, "scalar", out_value, error, &Builder::Scalar, value, capi::Type{dtype});
}

sinter_status sinter_chain_add_iota(sinter_chain* chain, sinter_dtype dtype, uint32_t rank,
                                    const int64_t* dims, int32_t axis, sinter_value* out_value,
                                    sinter_error** error) {
  return capi::AddOf(chain, "iota", out_value, error, &Builder::Iota, Extents{rank, dims}, axis,
                     capi::Type{dtype});
}

sinter_status sinter_chain_add_matmul(sinter_chain* chain, sinter_value a, sinter_value b,
                                      const sinter_matmul_options* options, sinter_value* out_value,
                                      sinter_error** error) {
  constexpr uint32_t kFlags = SINTER_MATMUL_TRANSPOSE_A | SINTER_MATMUL_TRANSPOSE_B;
  return capi::AddWith(chain, "matmul", options, kFlags, out_value, error,
                       [&](capi::Adder& add, const auto& given) {
                         return add.Add(&Builder::Matmul, Operand{"a", a}, Operand{"b", b},
                                        (given.flags & SINTER_MATMUL_TRANSPOSE_A) != 0,
                                        (given.flags & SINTER_MATMUL_TRANSPOSE_B) != 0);
                       });
}

sinter_status sinter_chain_add_grouped_matmul(sinter_chain* chain, sinter_value a, sinter_value w,
                                              sinter_value ids,
                                              const sinter_matmul_options* options,
                                              sinter_value* out_value, sinter_error** error) {
  return AddGrouped(chain, a, w, {"ids", ids}, options, &Builder::GroupedMatmul, out_value, error);
}

sinter_status sinter_chain_add_grouped_matmul_ends(sinter_chain* chain, sinter_value a,
                                                   sinter_value w, sinter_value ends,
                                                   const sinter_matmul_options* options,
                                                   sinter_value* out_value, sinter_error** error) {
  return AddGrouped(chain, a, w, {"ends", ends}, options, &Builder::GroupedMatmulByEnds, out_value,
                    error);
}

sinter_status sinter_chain_add_all_reduce(sinter_chain* chain, sinter_value x, int32_t ranks,
                                          sinter_value* out_value, sinter_error** error) {
  return capi::AddOf(chain, "all_reduce", out_value, error, &Builder::AllReduce, Operand{"x", x},
                     ranks);
}

sinter_status sinter_chain_add_all_gather(sinter_chain* chain, sinter_value x, int32_t axis,
                                          int32_t ranks, sinter_value* out_value,
                                          sinter_error** error) {
  return capi::AddOf(chain, "all_gather", out_value, error, &Builder::AllGather, Operand{"x", x},
                     axis, ranks);
}

sinter_status sinter_chain_add_reduce_scatter(sinter_chain* chain, sinter_value x, int32_t axis,
                                              int32_t ranks, sinter_value* out_value,
                                              sinter_error** error) {
  return capi::AddOf(chain, "reduce_scatter", out_value, error, &Builder::ReduceScatter,
                     Operand{"x", x}, axis, ranks);
}

sinter_status sinter_chain_add_conv2d(sinter_chain* chain, sinter_value x, sinter_value w,
                                      const sinter_conv2d_options* options, sinter_value* out_value,
                                      sinter_error** error) {
  return capi::AddWith(chain, "conv2d", options, 0, out_value, error,
                       [&](capi::Adder& add, const auto& given) {
                         sinter::Conv2d conv = capi::MovesOf(given);
                         if (given.filter != 0)
                           conv.filter = static_cast<sinter::FilterLayout>(given.filter);
                         return add.Add(sinter::AddConv2d, Operand{"x", x}, Operand{"w", w}, conv,
                                        capi::OneOr(given.groups));
                       });
}

sinter_status sinter_chain_add_window(sinter_chain* chain, sinter_value x, sinter_value fill,
                                      const sinter_window_options* options, sinter_value* out_value,
                                      sinter_error** error) {
  return capi::AddWith(chain, "window", options, 0, out_value, error,
                       [&](capi::Adder& add, const auto& given) {
                         return add.Add(&Builder::Window, Operand{"x", x}, Operand{"fill", fill},
                                        capi::TapsOf(given), capi::MovesOf(given));
                       });
}

sinter_status sinter_chain_add_unary(sinter_chain* chain, sinter_unary kind, sinter_value a,
                                     sinter_value* out_value, sinter_error** error) {
  return capi::AddOf(chain, "unary", out_value, error, &Builder::Unary,
                     KindOf(kind, sinter::UnaryKinds(), "SINTER_UNARY"), Operand{"a", a});
}

sinter_status sinter_chain_add_binary(sinter_chain* chain, sinter_binary kind, sinter_value a,
                                      sinter_value b, sinter_value* out_value,
                                      sinter_error** error) {
  return capi::AddOf(chain, "binary", out_value, error, &Builder::Binary,
                     KindOf(kind, sinter::BinaryKinds(), "SINTER_BINARY"), Operand{"a", a},
                     Operand{"b", b});
}

sinter_status sinter_chain_add_compare(sinter_chain* chain, sinter_compare kind, sinter_value a,
                                       sinter_value b, sinter_value* out_value,
                                       sinter_error** error) {
  return capi::AddOf(chain, "compare", out_value, error, &Builder::Compare,
                     KindOf(kind, sinter::CompareKinds(), "SINTER_COMPARE"), Operand{"a", a},
                     Operand{"b", b});
}

sinter_status sinter_chain_add_select(sinter_chain* chain, sinter_value condition, sinter_value a,
                                      sinter_value b, sinter_value* out_value,
                                      sinter_error** error) {
  return capi::AddOf(chain, "select", out_value, error, &Builder::Select,
                     Operand{"condition", condition}, Operand{"a", a}, Operand{"b", b});
}

sinter_status sinter_chain_add_cast(sinter_chain* chain, sinter_value a, sinter_dtype dtype,
                                    sinter_value* out_value, sinter_error** error) {
  return capi::AddOf(chain, "cast", out_value, error, &Builder::Cast, Operand{"a", a},
                     capi::Type{dtype});
}

sinter_status sinter_chain_add_broadcast(sinter_chain* chain, sinter_value a, uint32_t rank,
                                         const int64_t* dims, sinter_value* out_value,
                                         sinter_error** error) {
  return capi::AddOf(chain, "broadcast", out_value, error, &Builder::Broadcast, Operand{"a", a},
                     Extents{rank, dims});
}

sinter_status sinter_chain_add_transpose(sinter_chain* chain, sinter_value a, uint32_t rank,
                                         const int32_t* permutation, sinter_value* out_value,
                                         sinter_error** error) {
  return capi::AddOf(chain, "transpose", out_value, error, &Builder::Transpose, Operand{"a", a},
                     ListOf("permutation", rank, permutation));
}

sinter_status sinter_chain_add_reshape(sinter_chain* chain, sinter_value a, uint32_t rank,
                                       const int64_t* dims, sinter_value* out_value,
                                       sinter_error** error) {
  return capi::AddOf(chain, "reshape", out_value, error, &Builder::Reshape, Operand{"a", a},
                     Extents{rank, dims});
}

sinter_status sinter_chain_add_slice(sinter_chain* chain, sinter_value a, uint32_t rank,
                                     const int64_t* starts, const int64_t* limits,
                                     const int64_t* steps, sinter_value* out_value,
                                     sinter_error** error) {
  const auto ends = [&](capi::Adder& add) { return add.Dims("limits", rank, limits); };
  return capi::AddOf(chain, "slice", out_value, error, &Builder::Slice, Operand{"a", a},
                     ListOf("starts", rank, starts), ends,
                     ListOf("steps", steps == nullptr ? 0 : rank, steps));
}

sinter_status sinter_chain_add_concat(sinter_chain* chain, uint32_t count,
                                      const sinter_value* operands, int32_t axis,
                                      sinter_value* out_value, sinter_error** error) {
  const auto values = [&](capi::Adder& add) {
    std::vector<ValueId> ids = add.Numbers("operands", count, operands);
    for (size_t i = 0; i < ids.size(); ++i) {
      ids[i] = add.Operand(absl::StrCat("operands[", i, "]"), ids[i]);
    }
    return ids;
  };
  return capi::AddOf(chain, "concat", out_value, error, &Builder::Concat, values, axis);
}

sinter_status sinter_chain_add_gather(sinter_chain* chain, sinter_value x, sinter_value ids,
                                      int32_t axis, sinter_value* out_value, sinter_error** error) {
  return capi::AddOf(chain, "gather", out_value, error, &Builder::Gather, Operand{"x", x},
                     Operand{"ids", ids}, axis);
}

sinter_status sinter_chain_add_scatter(sinter_chain* chain, sinter_value x, sinter_value ids,
                                       sinter_value rows, sinter_value* out_value,
                                       sinter_error** error) {
  return capi::AddOf(chain, "scatter", out_value, error, &Builder::Scatter, Operand{"x", x},
                     Operand{"ids", ids}, Operand{"rows", rows});
}

sinter_status sinter_chain_add_top_k(sinter_chain* chain, sinter_value x, int32_t count,
                                     sinter_value* out_value, sinter_error** error) {
  return capi::AddOf(chain, "top_k", out_value, error, &Builder::TopK, Operand{"x", x}, count);
}

sinter_status sinter_chain_add_cumsum(sinter_chain* chain, sinter_value x, sinter_value* out_value,
                                      sinter_error** error) {
  return capi::AddOf(chain, "scan", out_value, error, &Builder::Scan, sinter::ReduceKind::kSum,
                     Operand{"x", x});
}

sinter_status sinter_chain_add_random(sinter_chain* chain, sinter_value seed, sinter_value offset,
                                      uint32_t rank, const int64_t* dims, sinter_value* out_value,
                                      sinter_error** error) {
  return capi::AddOf(chain, "random", out_value, error, &Builder::Random, Extents{rank, dims},
                     Operand{"seed", seed}, Operand{"offset", offset});
}

sinter_status sinter_chain_add_reduce(sinter_chain* chain, sinter_reduce kind, sinter_value a,
                                      uint32_t axis_count, const int32_t* axes,
                                      const sinter_reduce_options* options, sinter_value* out_value,
                                      sinter_error** error) {
  return capi::AddWith(chain, "reduce", options, SINTER_REDUCE_KEEPDIMS, out_value, error,
                       [&](capi::Adder& add, const auto& given) {
                         return add.Add(&Builder::Reduce,
                                        KindOf(kind, sinter::ReduceKinds(), "SINTER_REDUCE"),
                                        Operand{"a", a}, ListOf("axes", axis_count, axes),
                                        (given.flags & SINTER_REDUCE_KEEPDIMS) != 0);
                       });
}

}  // extern "C"
