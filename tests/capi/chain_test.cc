// Building chains through the ABI: every add, what its errors say, what a finished chain tells.
#include "tests/capi/abi.h"

namespace sinter_test {
namespace {

// A fixture with one value of each kind that adds need.
class ChainAbi : public testing::Test {
 protected:
  ChainPtr chain = EmptyChain();
  sinter_chain* c = chain.get();
  sinter_value a = Input(c, SINTER_DTYPE_BF16, {SINTER_DIM_M, 8});
  sinter_value w = Input(c, SINTER_DTYPE_BF16, {16, 8}, SINTER_INPUT_CONSTANT);
  sinter_value p = Input(c, SINTER_DTYPE_PRED, {SINTER_DIM_M, 8});
  sinter_value out = SINTER_NO_VALUE;
};

TEST_F(ChainAbi, ValuesGrowFromOne) {
  EXPECT_EQ(a, 1);
  EXPECT_EQ(w, 2);
  EXPECT_EQ(p, 3);
}

TEST_F(ChainAbi, EveryPrimitiveAndCompositeAdds) {
  const int64_t dims[] = {SINTER_DIM_M, 8};
  const int64_t wide[] = {2, SINTER_DIM_M, 8};
  const int64_t split[] = {SINTER_DIM_M, 2, 4};
  const int64_t starts[] = {0, 2}, limits[] = {SINTER_DIM_M, 8}, steps[] = {1, 2};
  const int32_t swap[] = {1, 0}, last[] = {1};
  const auto transposed = Sized(sinter_matmul_options{.flags = SINTER_MATMUL_TRANSPOSE_B});
  const auto keep = Sized(sinter_reduce_options{.flags = SINTER_REDUCE_KEEPDIMS});
  const sinter_value pixels = Input(c, SINTER_DTYPE_BF16, {SINTER_DIM_M, 5, 4, 8});
  const sinter_value filter = Input(c, SINTER_DTYPE_BF16, {16, 3, 1, 8});
  sinter_conv2d_options strided = SINTER_INIT(sinter_conv2d_options);
  strided.stride_height = 2;
  strided.pad_bottom = 1;
  const sinter_value each = Input(c, SINTER_DTYPE_BF16, {8, 3, 1, 1});
  sinter_conv2d_options by_channel = strided;
  by_channel.groups = 8;
  sinter_value zero = SINTER_NO_VALUE;
  ASSERT_EQ(sinter_chain_add_scalar(c, 0, SINTER_DTYPE_BF16, &zero, nullptr), SINTER_OK);
  sinter_window_options by_two = SINTER_INIT(sinter_window_options);
  by_two.height = by_two.width = by_two.stride_height = 2;
  sinter_window_options inside = by_two;
  inside.flags = SINTER_WINDOW_EXCLUDE_PADS;
  inside.pad_left = 1;
  const sinter_value pair[] = {a, a}, ids = Input(c, SINTER_DTYPE_S64, {SINTER_DIM_M, 2});
  const sinter_value rows = Input(c, SINTER_DTYPE_BF16, {SINTER_DIM_M, 2, 8});
  const sinter_value slots = Input(c, SINTER_DTYPE_S32, {SINTER_DIM_M, 2});
  const sinter_value factors = Input(c, SINTER_DTYPE_F32, {SINTER_DIM_M, 2});
  const sinter_value experts = Input(c, SINTER_DTYPE_BF16, {4, 8, 16});
  const sinter_value down = Input(c, SINTER_DTYPE_BF16, {4, 8, 8});
  const sinter_value ends = Input(c, SINTER_DTYPE_S32, {4});
  const auto grouped =
      Sized(sinter_grouped_gated_ffn_options{.flags = SINTER_GROUPED_UP_FIRST,
                                             .layout = SINTER_LAYOUT_IO,
                                             .activation = SINTER_ACTIVATION_SILU});
  const sinter_value seed = Input(c, SINTER_DTYPE_S64, {});
  const sinter_value codes_of_four = Input(c, SINTER_DTYPE_S8, {4, 64});
  const sinter_value packed = Input(c, SINTER_DTYPE_S8, {4, 512});
  const sinter_value packed_scale = Input(c, SINTER_DTYPE_BF16, {2, 64});
  const sinter_value of_rows = Input(c, SINTER_DTYPE_S8, {64, 32});
  const sinter_value a_scale = Input(c, SINTER_DTYPE_BF16, {4, 4});
  using Add = std::function<sinter_status(sinter_value*, sinter_error**)>;
  const std::pair<const char*, Add> adds[] = {
      {"scalar", CallOf(sinter_chain_add_scalar, c, 2.0, SINTER_DTYPE_F32)},
      {"iota", CallOf(sinter_chain_add_iota, c, SINTER_DTYPE_S32, 2, dims, 1)},
      {"matmul", CallOf(sinter_chain_add_matmul, c, a, w, &transposed)},
      {"conv2d", CallOf(sinter_chain_add_conv2d, c, pixels, filter, &strided)},
      {"conv2d of each channel", CallOf(sinter_chain_add_conv2d, c, pixels, each, &by_channel)},
      {"window", CallOf(sinter_chain_add_window, c, pixels, zero, &by_two)},
      {"max_pool2d", CallOf(sinter_chain_add_max_pool2d, c, pixels, &by_two)},
      {"avg_pool2d", CallOf(sinter_chain_add_avg_pool2d, c, pixels, &inside)},
      {"unary", CallOf(sinter_chain_add_unary, c, SINTER_UNARY_EXP, a)},
      {"softplus", CallOf(sinter_chain_add_softplus, c, a)},
      {"clamp", CallOf(sinter_chain_add_clamp, c, a, -1, HUGE_VAL)},
      {"dequantize_u4", CallOf(sinter_chain_add_dequantize_u4, c, codes_of_four, a_scale, a_scale)},
      {"dequantize_e2m1", CallOf(sinter_chain_add_dequantize_e2m1, c, codes_of_four, a_scale)},
      {"dequantize_u4_packed",
       CallOf(sinter_chain_add_dequantize_u4_packed, c, packed, packed_scale, packed_scale)},
      {"dequantize_e2m1_packed",
       CallOf(sinter_chain_add_dequantize_e2m1_packed, c, packed, packed_scale)},
      {"pack_codes", CallOf(sinter_chain_add_pack_codes, c, of_rows, SINTER_CHECKPOINT_ROWS)},
      {"pack_scales", CallOf(sinter_chain_add_pack_scales, c, packed_scale, SINTER_CHECKPOINT_AWQ)},
      {"pack_zeros", CallOf(sinter_chain_add_pack_zeros, c, of_rows, SINTER_CHECKPOINT_GPTQ)},
      {"dequantize_e8m0", CallOf(sinter_chain_add_dequantize_e8m0, c, of_rows)},
      {"binary", CallOf(sinter_chain_add_binary, c, SINTER_BINARY_MUL, a, a)},
      {"compare", CallOf(sinter_chain_add_compare, c, SINTER_COMPARE_LT, a, a)},
      {"select", CallOf(sinter_chain_add_select, c, p, a, a)},
      {"cast", CallOf(sinter_chain_add_cast, c, a, SINTER_DTYPE_F16)},
      {"broadcast", CallOf(sinter_chain_add_broadcast, c, a, 3, wide)},
      {"transpose", CallOf(sinter_chain_add_transpose, c, a, 2, swap)},
      {"reshape", CallOf(sinter_chain_add_reshape, c, a, 3, split)},
      {"slice", CallOf(sinter_chain_add_slice, c, a, 2, starts, limits, steps)},
      {"concat", CallOf(sinter_chain_add_concat, c, 2, pair, 1)},
      {"gather", CallOf(sinter_chain_add_gather, c, w, ids, 0)},
      {"scatter", CallOf(sinter_chain_add_scatter, c, a, ids, rows)},
      {"all_reduce", CallOf(sinter_chain_add_all_reduce, c, a, 2)},
      {"all_gather", CallOf(sinter_chain_add_all_gather, c, a, 1, 2)},
      {"reduce_scatter", CallOf(sinter_chain_add_reduce_scatter, c, a, 1, 2)},
      {"grouped_matmul", CallOf(sinter_chain_add_grouped_matmul, c, a, experts, slots, nullptr)},
      {"grouped_matmul_ends",
       CallOf(sinter_chain_add_grouped_matmul_ends, c, a, experts, ends, nullptr)},
      {"grouped_gated_ffn",
       CallOf(sinter_chain_add_grouped_gated_ffn, c, a, slots, factors, experts, down, &grouped)},
      {"top_k", CallOf(sinter_chain_add_top_k, c, a, 2)},
      {"cumsum", CallOf(sinter_chain_add_cumsum, c, a)},
      {"argmax", CallOf(sinter_chain_add_argmax, c, a)},
      {"argmin", CallOf(sinter_chain_add_argmin, c, a)},
      {"random", CallOf(sinter_chain_add_random, c, seed, seed, 2, dims)},
      {"reduce", CallOf(sinter_chain_add_reduce, c, SINTER_REDUCE_SUM, a, 1, last, &keep)},
      {"activation", CallOf(sinter_chain_add_activation, c, SINTER_ACTIVATION_SILU, a)},
      {"swiglu", CallOf(sinter_chain_add_swiglu, c, a, a)},
      {"softmax", CallOf(sinter_chain_add_softmax, c, a, -1, nullptr)},
      {"attention", CallOf(sinter_chain_add_attention, c, a, a, a, nullptr)},
      {"layernorm", CallOf(sinter_chain_add_layernorm, c, a, nullptr)},
      {"rmsnorm", CallOf(sinter_chain_add_rmsnorm, c, a, nullptr)},
      {"linear", CallOf(sinter_chain_add_linear, c, a, w, nullptr)},
  };
  for (const auto& [name, add] : adds) {
    SCOPED_TRACE(name);
    const sinter_value before = out;
    Ok([&, &add = add](sinter_error** e) { return add(&out, e); });
    EXPECT_GT(out, before);
  }
}

TEST_F(ChainAbi, CellsAndRopeAdd) {
  const sinter_value gates = Input(c, SINTER_DTYPE_F32, {4, 32});
  const sinter_value cell = Input(c, SINTER_DTYPE_F32, {4, 8});
  const sinter_value three = Input(c, SINTER_DTYPE_F32, {4, 24});
  const sinter_value half = Input(c, SINTER_DTYPE_F32, {4, 4});
  sinter_value h = 0, next = 0;
  Ok(sinter_chain_add_lstm_cell, c, gates, cell, &h, &next);
  EXPECT_GT(h, half);
  EXPECT_GT(next, half);
  EXPECT_NE(h, next);
  Ok(sinter_chain_add_gru_cell, c, three, three, cell, &out);
  Ok(sinter_chain_add_rope, c, cell, half, half, &out);
}

TEST_F(ChainAbi, ATokenIsDrawnWithAndWithoutItsLogProbability) {
  const sinter_value logits = Input(c, SINTER_DTYPE_F32, {4, 32});
  const sinter_value seed = Input(c, SINTER_DTYPE_S64, {});
  const sinter_value heat = Input(c, SINTER_DTYPE_F32, {4});
  sinter_next_token_options options = SINTER_INIT(sinter_next_token_options);
  options.count = 8;
  options.temperature = heat;
  options.top_p = heat;
  sinter_value token = 0, logarithm = 0;
  Ok(sinter_chain_add_next_token, c, logits, seed, seed, &options, &token, &logarithm);
  sinter_tensor_info info = SINTER_INIT(sinter_tensor_info);
  Ok(sinter_x_chain_get_value, c, token, &info);
  EXPECT_EQ(info.dtype, SINTER_DTYPE_S32);
  EXPECT_EQ(info.rank, 1u);
  Ok(sinter_x_chain_get_value, c, logarithm, &info);
  EXPECT_EQ(info.dtype, SINTER_DTYPE_F32);
  Ok(sinter_chain_add_next_token, c, logits, seed, seed, nullptr, &token, nullptr);
  options.count = 0;
  const auto refused = Try([&](sinter_error** e) {
    return sinter_chain_add_next_token(c, logits, seed, seed, &options, &token, nullptr, e);
  });
  EXPECT_THAT(refused.message,
              HasSubstr("(next_token): count is 0, must be in [1, 64] if top_p is given"));
}

TEST_F(ChainAbi, AValueHasTheTypeThatItsAddGaveIt) {
  const int32_t last[] = {1};
  Ok(sinter_chain_add_reduce, c, SINTER_REDUCE_MEAN, a, 1, last, nullptr, &out);
  sinter_tensor_info info = SINTER_INIT(sinter_tensor_info);
  Ok(sinter_x_chain_get_value, c, a, &info);
  EXPECT_EQ(info.dtype, SINTER_DTYPE_BF16);
  EXPECT_THAT(std::vector<int64_t>(info.dims, info.dims + info.rank),
              testing::ElementsAre(SINTER_DIM_M, 8));
  Ok(sinter_x_chain_get_value, c, out, &info);
  EXPECT_EQ(info.dtype, SINTER_DTYPE_F32);
  EXPECT_THAT(std::vector<int64_t>(info.dims, info.dims + info.rank),
              testing::ElementsAre(SINTER_DIM_M));
  for (const sinter_value none : {SINTER_NO_VALUE, out + 1, -1}) {
    EXPECT_TRUE(Fails(Try(sinter_x_chain_get_value, c, none, &info), SINTER_INVALID_ARGUMENT,
                      "the chain has values 1 to 4"));
  }
}

// Codes and a scale of each row.
sinter_scaled ScaledInput(sinter_chain* chain, int64_t rows, int64_t columns) {
  const uint32_t flags = rows == SINTER_DIM_M ? 0 : SINTER_INPUT_CONSTANT;
  sinter_scaled scaled{};
  scaled.codes = Input(chain, SINTER_DTYPE_E4M3, {rows, columns}, flags);
  scaled.scale = Input(chain, SINTER_DTYPE_F32, {rows, 1}, flags);
  return scaled;
}

Digest FinishedDigest(sinter_chain* chain, std::vector<sinter_value> outputs) {
  for (const sinter_value value : outputs) Ok(sinter_chain_add_output, chain, value, nullptr);
  Ok(sinter_chain_finish, chain);
  return DigestOf(chain);
}

sinter_value Rounded(sinter_chain* chain, sinter_value value) {
  sinter_value out = SINTER_NO_VALUE;
  Ok(sinter_chain_add_cast, chain, value, SINTER_DTYPE_BF16, &out);
  return out;
}

// The chains of the text kinds, in C.
TEST(ScaledAbi, QuantizeIsThatOfTheText) {
  const ChainPtr chain = EmptyChain();
  sinter_chain* c = chain.get();
  const sinter_value x = Input(c, SINTER_DTYPE_BF16, {SINTER_DIM_M, 256});
  const auto options = Sized(sinter_quantize_options{
      .flags = SINTER_QUANTIZE_UE8M0, .granularity = SINTER_SCALE_GROUP, .upper_bound = 3});
  sinter_scaled scaled{};
  Ok(sinter_chain_add_quantize, c, x, &options, &scaled);
  EXPECT_EQ(FinishedDigest(c, {scaled.codes, scaled.scale}),
            DigestOfText("quantize rows=M cols=256 granularity=group ue8m0=1 upper_bound=3"));
}

// Products of k, n and l columns, whose results are rounded.
Digest MatmulOfCodes(int64_t n, int64_t k, const sinter_linear_options& options) {
  const ChainPtr chain = EmptyChain();
  sinter_chain* c = chain.get();
  const sinter_scaled a = ScaledInput(c, SINTER_DIM_M, k), w = ScaledInput(c, n, k);
  sinter_value y = SINTER_NO_VALUE;
  Ok(sinter_chain_add_scaled_matmul, c, a, w, &options, &y);
  return FinishedDigest(c, {Rounded(c, y)});
}

Digest GemmChainOfCodes(int64_t n, int64_t k, int64_t l, const sinter_gemm_chain_options& options) {
  const ChainPtr chain = EmptyChain();
  sinter_chain* c = chain.get();
  const sinter_scaled a = ScaledInput(c, SINTER_DIM_M, k), w1 = ScaledInput(c, n, k);
  const sinter_scaled w2 = ScaledInput(c, l, n);
  sinter_value y = SINTER_NO_VALUE;
  Ok(sinter_chain_add_scaled_gemm_chain, c, a, w1, w2, nullptr, &options, &y);
  return FinishedDigest(c, {Rounded(c, y)});
}

Digest GatedFfnOfCodes(int64_t n, int64_t k, int64_t l, const sinter_quantize_options* quantize,
                       const sinter_gated_ffn_options& options) {
  const ChainPtr chain = EmptyChain();
  sinter_chain* c = chain.get();
  const sinter_scaled a = ScaledInput(c, SINTER_DIM_M, k), gate = ScaledInput(c, n, k);
  const sinter_scaled up = ScaledInput(c, n, k), down = ScaledInput(c, l, n);
  sinter_value y = SINTER_NO_VALUE;
  Ok(sinter_chain_add_scaled_gated_ffn, c, a, gate, up, down, quantize, &options, &y);
  return FinishedDigest(c, {Rounded(c, y)});
}

TEST(ScaledAbi, ProductsAreThoseOfTheText) {
  const auto relu = Sized(sinter_linear_options{.activation = SINTER_ACTIVATION_RELU});
  EXPECT_EQ(MatmulOfCodes(48, 64, relu), DigestOfText("scaled_matmul m=M n=48 k=64 act=relu"));
  const auto gelu = Sized(sinter_gemm_chain_options{.activation = SINTER_ACTIVATION_GELU_ERF});
  EXPECT_EQ(GemmChainOfCodes(48, 64, 32, gelu),
            DigestOfText("scaled_gemm_chain m=M n=48 k=64 l=32 act=gelu_erf"));
  sinter_quantize_options quantize = SINTER_INIT(sinter_quantize_options);
  quantize.granularity = SINTER_SCALE_TENSOR;
  quantize.eps = 1e-6;
  const auto silu = Sized(sinter_gated_ffn_options{.activation = SINTER_ACTIVATION_SILU});
  EXPECT_EQ(GatedFfnOfCodes(48, 64, 32, &quantize, silu),
            DigestOfText("scaled_gated_ffn m=M n=48 k=64 l=32 act=silu quantize=tensor "
                         "quantize_eps=1e-6"));
}

TEST(ScaledAbi, ProductsOfExpertsAreThoseOfTheText) {
  const auto matrices = [](sinter_chain* c, int64_t out, int64_t in) {
    const uint32_t flags = SINTER_INPUT_CONSTANT;
    sinter_scaled w{};
    w.codes = Input(c, SINTER_DTYPE_E4M3, {6, out, in}, flags);
    w.scale = Input(c, SINTER_DTYPE_F32, {6, out, 1}, flags);
    return w;
  };
  const ChainPtr one = EmptyChain(), two = EmptyChain();
  sinter_value y = SINTER_NO_VALUE;
  {
    sinter_chain* c = one.get();
    const sinter_scaled a = ScaledInput(c, SINTER_DIM_M, 64);
    const sinter_value ids = Input(c, SINTER_DTYPE_S32, {SINTER_DIM_M, 2});
    Ok(sinter_chain_add_scaled_grouped_matmul, c, a, matrices(c, 48, 64), ids, nullptr, &y);
    EXPECT_EQ(FinishedDigest(c, {Rounded(c, y)}),
              DigestOfText("scaled_grouped_matmul m=M experts=6 top=2 n=48 k=64"));
  }
  sinter_chain* c = two.get();
  const sinter_scaled a = ScaledInput(c, SINTER_DIM_M, 64);
  const sinter_value ids = Input(c, SINTER_DTYPE_S32, {SINTER_DIM_M, 2});
  const sinter_value weights = Input(c, SINTER_DTYPE_F32, {SINTER_DIM_M, 2});
  const sinter_scaled w1 = matrices(c, 96, 64), w2 = matrices(c, 32, 48);
  const auto options = Sized(sinter_grouped_gated_ffn_options{
      .flags = SINTER_GROUPED_UP_FIRST, .activation = SINTER_ACTIVATION_SILU});
  Ok(sinter_chain_add_scaled_grouped_gated_ffn, c, a, ids, weights, w1, w2, nullptr, &options, &y);
  EXPECT_EQ(FinishedDigest(c, {Rounded(c, y)}),
            DigestOfText("scaled_grouped_gated_ffn m=M experts=6 top=2 n=48 k=64 l=32 act=silu "
                         "order=up_gate"));
}

TEST(ScaledAbi, TheFlagOfFastSumsIsThatOfTheText) {
  constexpr uint32_t kFast = SINTER_ACCUMULATE_FAST;
  EXPECT_EQ(MatmulOfCodes(48, 256, Sized(sinter_linear_options{.flags = kFast})),
            DigestOfText("scaled_matmul m=M n=48 k=256 accumulate=fast"));
  EXPECT_EQ(GemmChainOfCodes(160, 256, 32, Sized(sinter_gemm_chain_options{.flags = kFast})),
            DigestOfText("scaled_gemm_chain m=M n=160 k=256 l=32 act=identity accumulate=fast"));
  EXPECT_EQ(GatedFfnOfCodes(160, 256, 32, nullptr, Sized(sinter_gated_ffn_options{.flags = kFast})),
            DigestOfText("scaled_gated_ffn m=M n=160 k=256 l=32 act=identity accumulate=fast"));
}

TEST(ScaledAbi, ErrorsNameTheField) {
  const ChainPtr chain = EmptyChain();
  sinter_chain* c = chain.get();
  const sinter_scaled a = ScaledInput(c, SINTER_DIM_M, 64), w = ScaledInput(c, 48, 64);
  const auto io = Sized(sinter_linear_options{.layout = SINTER_LAYOUT_IO});
  const auto fast = Sized(sinter_linear_options{.flags = SINTER_ACCUMULATE_FAST});
  const auto wrong = Sized(sinter_quantize_options{.granularity = 9});
  sinter_value y = SINTER_NO_VALUE;
  sinter_scaled scaled{};
  const auto message = [](auto add) { return Try(add).message; };
  EXPECT_THAT(message(CallOf(sinter_chain_add_scaled_matmul, c, a, w, &io, &y)),
              HasSubstr("layout is 2, must be SINTER_LAYOUT_OI"));
  EXPECT_THAT(message(CallOf(sinter_chain_add_linear, c, a.scale, a.scale, &fast, &y)),
              HasSubstr("flags"));
  EXPECT_THAT(message([&](auto e) {
                return sinter_chain_add_scaled_matmul(c, {a.codes, 0}, w, nullptr, &y, e);
              }),
              HasSubstr("scale of a is SINTER_NO_VALUE, must be a value"));
  EXPECT_THAT(
      message([&](auto e) {
        return sinter_chain_add_scaled_gemm_chain(c, a, w, {99, 1}, nullptr, nullptr, &y, e);
      }),
      HasSubstr("codes of w2 is value 99"));
  EXPECT_THAT(message(CallOf(sinter_chain_add_quantize, c, a.scale, &wrong, &scaled)),
              HasSubstr("granularity is 9, which does not exist"));
  EXPECT_THAT(message(CallOf(sinter_chain_add_quantize, c, a.scale, nullptr, nullptr)),
              HasSubstr("is null"));
  EXPECT_EQ(y, SINTER_NO_VALUE);
}

// One bad argument per row; the message names the op and the field.
TEST_F(ChainAbi, ErrorsNameOpFieldValueAndBound) {
  const int64_t bad_dims[] = {-7};
  const int64_t seven[] = {1, 1, 1, 1, 1, 1, 1};
  const sinter_value dangling[] = {1, 99};
  const auto beta = Sized(sinter_norm_options{.beta = a});
  const auto mask = Sized(sinter_softmax_options{.mask = 77});
  const auto grouped = Sized(sinter_conv2d_options{.groups = 4});
  const auto both_orders = Sized(sinter_grouped_gated_ffn_options{
      .flags = SINTER_GROUPED_UP_FIRST | SINTER_GROUPED_INTERLEAVED});
  const auto bad_bias =
      Sized(sinter_grouped_gated_ffn_options{.activation = SINTER_ACTIVATION_SILU, .bias1 = 99});
  const auto limited = Sized(sinter_grouped_gated_ffn_options{.limit = 7});
  const auto no_filter = Sized(sinter_conv2d_options{.filter = 3});
  const sinter_scaled codes = {a, a};
  sinter_window_options none = SINTER_INIT(sinter_window_options);
  sinter_conv2d_options negative = SINTER_INIT(sinter_conv2d_options);
  negative.pad_top = -1;
  using Add = std::function<sinter_status(sinter_error**)>;
  const std::pair<const char*, Add> rows[] = {
      {"op 3 (input): dtype is 9, must be a SINTER_DTYPE_* in [1, 8]",
       CallOf(sinter_chain_add_input, c, 9, 0, nullptr, nullptr, &out)},
      {"op 3 (input): dims is null",
       CallOf(sinter_chain_add_input, c, 1, 2, nullptr, nullptr, &out)},
      {"op 3 (input): rank is 7, must be at most 6",
       CallOf(sinter_chain_add_input, c, 1, 7, seven, nullptr, &out)},
      {"op 3 (input): dims[0] is -7, must be in [1, 2^31 - 1] or SINTER_DIM_M",
       CallOf(sinter_chain_add_input, c, 1, 1, bad_dims, nullptr, &out)},
      {"op 3 (unary): kind is 0, must be a SINTER_UNARY_* in [1, ",
       CallOf(sinter_chain_add_unary, c, 0, a, &out)},
      {"op 3 (unary): a is value 4, must be in [1, 3]",
       CallOf(sinter_chain_add_unary, c, SINTER_UNARY_EXP, 4, &out)},
      {"op 3 (unary): a is value -2147483648, must be in [1, 3]",
       CallOf(sinter_chain_add_unary, c, SINTER_UNARY_EXP, INT32_MIN, &out)},
      {"op 3 (unary): a is SINTER_NO_VALUE",
       CallOf(sinter_chain_add_unary, c, SINTER_UNARY_EXP, 0, &out)},
      {"op 3 (binary): kind is 14", CallOf(sinter_chain_add_binary, c, 14, a, a, &out)},
      {"op 3 (binary): b is value -1",
       CallOf(sinter_chain_add_binary, c, SINTER_BINARY_ADD, a, -1, &out)},
      {"op 3 (compare): kind is 7", CallOf(sinter_chain_add_compare, c, 7, a, a, &out)},
      {"op 3 (reduce): kind is 5",
       CallOf(sinter_chain_add_reduce, c, 5, a, 0, nullptr, nullptr, &out)},
      {"op 3 (gather): ids is value 99", CallOf(sinter_chain_add_gather, c, a, 99, 0, &out)},
      {"op 3 (gather): dtype of ids is bf16, must be s32 or s64: cast it to s32",
       CallOf(sinter_chain_add_gather, c, w, a, 0, &out)},
      {"op 3 (scatter): rows is value 99", CallOf(sinter_chain_add_scatter, c, a, a, 99, &out)},
      {"op 3 (scatter): dtype of ids is bf16, must be s32 or s64: cast it to s32",
       CallOf(sinter_chain_add_scatter, c, w, a, a, &out)},
      {"op 3 (all_reduce): ranks is 9, must be 1 to 8",
       CallOf(sinter_chain_add_all_reduce, c, a, 9, &out)},
      {"op 3 (all_gather): axis is 2, must be in [0, 1]",
       CallOf(sinter_chain_add_all_gather, c, a, 2, 2, &out)},
      {"op 3 (all_gather): axis 0 of x is M, must be constant: give ranks an axis of their own",
       CallOf(sinter_chain_add_all_gather, c, a, 0, 2, &out)},
      {"op 3 (reduce_scatter): ranks is 0, must be 1 to 8",
       CallOf(sinter_chain_add_reduce_scatter, c, a, 1, 0, &out)},
      {"op 3 (grouped_matmul): w is value 99",
       CallOf(sinter_chain_add_grouped_matmul, c, a, 99, a, nullptr, &out)},
      {"op 3 (grouped_matmul): dtype of ids is bf16, must be s32",
       CallOf(sinter_chain_add_grouped_matmul, c, a, w, a, nullptr, &out)},
      {"op 3 (grouped_matmul): ends is value 99",
       CallOf(sinter_chain_add_grouped_matmul_ends, c, a, w, 99, nullptr, &out)},
      {"op 3 (grouped_matmul): dtype of ends is bf16, must be s32: cast ends",
       CallOf(sinter_chain_add_grouped_matmul_ends, c, a, w, a, nullptr, &out)},
      {"op 3 (grouped_gated_ffn): flags have both UP_FIRST and INTERLEAVED, must have one of them",
       CallOf(sinter_chain_add_grouped_gated_ffn, c, a, a, a, w, w, &both_orders, &out)},
      {"op 3 (grouped_gated_ffn): bias1 is value 99",
       CallOf(sinter_chain_add_grouped_gated_ffn, c, a, a, a, w, w, &bad_bias, &out)},
      {"op 3 (scaled_grouped_gated_ffn): bias1 is given, must be SINTER_NO_VALUE: experts of 8 "
       "bits",
       CallOf(sinter_chain_add_scaled_grouped_gated_ffn, c, codes, a, a, codes, codes, nullptr,
              &bad_bias, &out)},
      {"op 3 (scaled_grouped_gated_ffn): limit is 7, must be 0: experts of 8 bits compute",
       CallOf(sinter_chain_add_scaled_grouped_gated_ffn, c, codes, a, a, codes, codes, nullptr,
              &limited, &out)},
      {"op 3 (grouped_gated_ffn): weights is value 99",
       CallOf(sinter_chain_add_grouped_gated_ffn, c, a, a, 99, w, w, nullptr, &out)},
      {"op 3 (top_k): count is 65, must be in [1, ",
       CallOf(sinter_chain_add_top_k, c, a, 65, &out)},
      {"op 3 (scan): x is value 99", CallOf(sinter_chain_add_cumsum, c, 99, &out)},
      {"op 3 (argmax): x is value 99", CallOf(sinter_chain_add_argmax, c, 99, &out)},
      {"op 3 (random): dtype of seed is bf16, must be s32 or s64",
       CallOf(sinter_chain_add_random, c, a, a, 0, nullptr, &out)},
      {"op 3 (concat): operands[1] is value 99",
       CallOf(sinter_chain_add_concat, c, 2, dangling, 0, &out)},
      {"op 3 (concat): operands has 65 entries, at most 64",
       CallOf(sinter_chain_add_concat, c, 65, dangling, 0, &out)},
      {"op 3 (activation): activation is 5", CallOf(sinter_chain_add_activation, c, 5, a, &out)},
      {"op 3 (softmax): mask is value 77", CallOf(sinter_chain_add_softmax, c, a, 1, &mask, &out)},
      {"op 3 (rmsnorm): beta is given", CallOf(sinter_chain_add_rmsnorm, c, a, &beta, &out)},
      {"op 3 (output): value is value 50", CallOf(sinter_chain_add_output, c, 50, nullptr)},
      {"matmul", CallOf(sinter_chain_add_matmul, c, a, w, nullptr, &out)},
      {"op 3 (conv2d): rank of x is 2, must be 4",
       CallOf(sinter_chain_add_conv2d, c, a, w, &grouped, &out)},
      {"op 3 (conv2d): filter is 3, must be OHWI or HWIO",
       CallOf(sinter_chain_add_conv2d, c, a, w, &no_filter, &out)},
      {"op 3 (conv2d): pad top is -1, must be in [0, 1024]",
       CallOf(sinter_chain_add_conv2d, c, a, w, &negative, &out)},
      {"op 3 (window): rank of x is 2, must be 4",
       CallOf(sinter_chain_add_window, c, a, a, &none, &out)},
      {"op 3 (max_pool2d): rank of x is 2, must be 4",
       CallOf(sinter_chain_add_max_pool2d, c, a, &none, &out)},
      {"op 3 (avg_pool2d): x is value 77",
       CallOf(sinter_chain_add_avg_pool2d, c, 77, nullptr, &out)},
      {"op 3 (conv2d): w is value 77", CallOf(sinter_chain_add_conv2d, c, a, 77, nullptr, &out)},
  };
  for (const auto& [message, add] : rows) {
    const Result result = Try(add);
    EXPECT_EQ(result.status, SINTER_INVALID_ARGUMENT) << message;
    EXPECT_EQ(result.code, result.status) << message;
    EXPECT_THAT(result.message, HasSubstr(message));
  }
  EXPECT_EQ(out, SINTER_NO_VALUE);
}

TEST_F(ChainAbi, AFailedAddLeavesTheChainAsItWas) {
  EXPECT_NE(Try(sinter_chain_add_swiglu, c, a, w, &out).status, SINTER_OK);
  EXPECT_EQ(Input(c, SINTER_DTYPE_F32, {1}), 4);
}

TEST_F(ChainAbi, AFinishedChainIsFrozenAndDescribed) {
  sinter_value y = 0;
  Ok(sinter_chain_add_linear, c, a, w, nullptr, &y);
  sinter_value masked = 0, cast = 0;
  Ok(sinter_chain_add_select, c, p, a, a, &masked);
  Ok(sinter_chain_add_cast, c, y, SINTER_DTYPE_BF16, &cast);
  Ok(sinter_chain_add_output, c, cast, nullptr);
  Ok(sinter_chain_add_output, c, masked, nullptr);
  EXPECT_EQ(sinter_chain_get_input_count(c), 0u);
  Ok(sinter_chain_finish, c);
  EXPECT_EQ(sinter_chain_get_input_count(c), 3u);
  EXPECT_EQ(sinter_chain_get_output_count(c), 2u);
  EXPECT_EQ(sinter_chain_uses_m(c), 1);

  sinter_tensor_info info = SINTER_INIT(sinter_tensor_info);
  Ok(sinter_chain_get_buffer, c, 1, 5, &info);
  EXPECT_EQ(info.flags, static_cast<uint32_t>(SINTER_INPUT_CONSTANT));
  EXPECT_EQ(info.rank, 2u);
  EXPECT_EQ(info.bytes, 16u * 8 * 2);
  Ok(sinter_chain_get_buffer, c, 3, 5, &info);
  EXPECT_EQ(info.dtype, SINTER_DTYPE_BF16);
  EXPECT_EQ(info.dims[0], 5);
  EXPECT_EQ(info.dims[1], 16);
  EXPECT_EQ(info.strides[0], 16);
  EXPECT_EQ(info.bytes, 5u * 16 * 2);
  EXPECT_EQ(Try(sinter_chain_get_buffer, c, 5, 5, &info).status, SINTER_OUT_OF_RANGE);

  const Result late = Try(sinter_chain_add_cast, c, a, SINTER_DTYPE_F32, &out);
  EXPECT_EQ(late.status, SINTER_FAILED_PRECONDITION);
  EXPECT_EQ(Try(sinter_chain_finish, c).status, SINTER_FAILED_PRECONDITION);
}

TEST_F(ChainAbi, FinishNeedsAnOutputAndNoDeadValue) {
  EXPECT_EQ(Try(sinter_chain_finish, c).status, SINTER_FAILED_PRECONDITION);
  Ok(sinter_chain_add_output, c, a, nullptr);
  EXPECT_EQ(Try(sinter_chain_finish, c).status, SINTER_INVALID_ARGUMENT);
}

TEST_F(ChainAbi, StridesAliasesAndNamesArrive) {
  ChainPtr strided = EmptyChain();
  const int64_t dims[] = {SINTER_DIM_M, 8}, strides[] = {32, 1};
  const auto options = Sized(sinter_input_options{.name = "hidden", .strides = strides});
  sinter_value x = 0, y = 0;
  Ok(sinter_chain_add_input, strided.get(), SINTER_DTYPE_F32, 2, dims, &options, &x);
  Ok(sinter_chain_add_unary, strided.get(), SINTER_UNARY_EXP, x, &y);
  const auto output = Sized(sinter_output_options{.strides = strides, .alias = x});
  Ok(sinter_chain_add_output, strided.get(), y, &output);
  Ok(sinter_chain_finish, strided.get());
  sinter_tensor_info info = SINTER_INIT(sinter_tensor_info);
  Ok(sinter_chain_get_buffer, strided.get(), 0, 3, &info);
  EXPECT_STREQ(info.name, "hidden");
  EXPECT_EQ(info.strides[0], 32);
  EXPECT_EQ(info.bytes, (2u * 32 + 8) * 4);
}

TEST(ChainAbiText, TextJsonAndBuilderMeanTheSame) {
  const ChainPtr text = FromText("gated_ffn m=M n=64 k=32 l=32 act=silu layout=oi dtype=bf16");
  const TextPtr json = Made<TextPtr>(sinter_x_chain_to_json, text.get());
  const ChainPtr reread = Made<ChainPtr>(sinter_x_chain_from_json, sinter_x_text_get(json.get()));
  EXPECT_EQ(DigestOf(text.get()), DigestOf(reread.get()));

  const ChainPtr built = EmptyChain();
  const sinter_value a = Input(built.get(), SINTER_DTYPE_BF16, {SINTER_DIM_M, 32});
  const sinter_value g = Input(built.get(), SINTER_DTYPE_BF16, {64, 32}, SINTER_INPUT_CONSTANT);
  const sinter_value u = Input(built.get(), SINTER_DTYPE_BF16, {64, 32}, SINTER_INPUT_CONSTANT);
  const sinter_value d = Input(built.get(), SINTER_DTYPE_BF16, {32, 64}, SINTER_INPUT_CONSTANT);
  const auto options = Sized(sinter_gated_ffn_options{.activation = SINTER_ACTIVATION_SILU});
  sinter_value y = 0;
  Ok(sinter_chain_add_gated_ffn, built.get(), a, g, u, d, &options, &y);
  EXPECT_EQ(DigestOf(text.get()), FinishedDigest(built.get(), {y}));
}

TEST(ChainAbiText, GroupedGatedFfnsMeanTheirTextWithEveryOption) {
  struct Case {
    const char* keys;
    uint32_t flags;
    bool io, biased;
    double alpha, beta, limit;
  };
  const Case cases[] = {
      {" order=gate_up layout=oi", 0, false, false, 0, 0, 0},
      {" order=gate_up layout=io alpha=1", 0, true, false, 1, 0, 0},
      {" order=up_gate layout=oi", SINTER_GROUPED_UP_FIRST, false, false, 0, 0, 0},
      {" order=up_gate layout=io weight=input",
       SINTER_GROUPED_UP_FIRST | SINTER_GROUPED_WEIGHT_ON_INPUT, true, false, 0, 0, 0},
      {" order=interleaved alpha=1.702 beta=1 limit=7 bias1=1 bias2=1", SINTER_GROUPED_INTERLEAVED,
       false, true, 1.702, 1, 7},
  };
  for (const Case& given : cases) {
    const ChainPtr built = EmptyChain();
    sinter_chain* c = built.get();
    const auto constant = [&](const std::vector<int64_t>& dims) {
      return Input(c, SINTER_DTYPE_BF16, dims, SINTER_INPUT_CONSTANT);
    };
    const auto weights = [&](int64_t out, int64_t in) {
      return constant({4, given.io ? in : out, given.io ? out : in});
    };
    const sinter_value x = Input(c, SINTER_DTYPE_BF16, {SINTER_DIM_M, 32});
    const sinter_value ids = Input(c, SINTER_DTYPE_S32, {SINTER_DIM_M, 2});
    const sinter_value factors = Input(c, SINTER_DTYPE_F32, {SINTER_DIM_M, 2});
    sinter_grouped_gated_ffn_options options = SINTER_INIT(sinter_grouped_gated_ffn_options);
    const sinter_value w1 = weights(48, 32);
    if (given.biased) options.bias1 = constant({4, 48});
    const sinter_value w2 = weights(40, 24);
    if (given.biased) options.bias2 = constant({4, 40});
    options.activation = SINTER_ACTIVATION_SILU;
    options.layout = given.io ? SINTER_LAYOUT_IO : SINTER_LAYOUT_OI;
    options.flags = given.flags;
    options.alpha = given.alpha;
    options.beta = given.beta;
    options.limit = given.limit;
    sinter_value y = 0;
    Ok(sinter_chain_add_grouped_gated_ffn, c, x, ids, factors, w1, w2, &options, &y);
    const std::string line =
        std::string("grouped_gated_ffn m=M experts=4 top=2 n=24 k=32 l=40 act=silu") + given.keys;
    EXPECT_EQ(FinishedDigest(c, {y}), DigestOfText(line)) << line;
  }
}

TEST(ChainAbiText, GroupedMatmulByEndsMeansItsText) {
  for (const bool io : {false, true}) {
    const ChainPtr built = EmptyChain();
    sinter_chain* c = built.get();
    const sinter_value a = Input(c, SINTER_DTYPE_BF16, {SINTER_DIM_M, 32});
    const sinter_value w =
        Input(c, SINTER_DTYPE_BF16, {4, io ? 32 : 24, io ? 24 : 32}, SINTER_INPUT_CONSTANT);
    const sinter_value ends = Input(c, SINTER_DTYPE_S32, {4});
    const auto options =
        Sized(sinter_matmul_options{.flags = io ? 0u : uint32_t{SINTER_MATMUL_TRANSPOSE_B}});
    sinter_value y = 0;
    Ok(sinter_chain_add_grouped_matmul_ends, c, a, w, ends, &options, &y);
    const std::string line =
        std::string("grouped_matmul_ends m=M experts=4 n=24 k=32 layout=") + (io ? "io" : "oi");
    EXPECT_EQ(FinishedDigest(c, {Rounded(c, y)}), DigestOfText(line)) << line;
  }
}

TEST(ChainAbiText, ALineGivesMAndItsCanonicalForm) {
  sinter_chain* chain = nullptr;
  sinter_x_text* line = nullptr;
  int64_t m = 0;
  const char* given =
      "X1 gemm_chain l=64 k=32 n=64 m=48 act=relu dtype=bf16 layout=io bias2=1 # note";
  Ok(sinter_x_chain_from_text, given, &chain, &m, &line);
  const ChainPtr owned_chain(chain);
  const TextPtr owned(line);
  EXPECT_EQ(m, 48);
  EXPECT_STREQ(sinter_x_text_get(line),
               "X1 gemm_chain m=48 n=64 k=32 l=64 act=relu layout=io dtype=bf16 bias1=0 bias2=1");
  EXPECT_EQ(sinter_chain_get_input_count(chain), 4u);
}

}  // namespace
}  // namespace sinter_test
