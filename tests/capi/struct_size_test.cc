// Option structs of every age, unknown flags, reserved fields, result structs of every age.
#include "tests/capi/abi.h"

namespace sinter_test {
namespace {

// `size` bytes that begin as T and go on with zeros, except for one byte set to 1 at `dirty`.
template <typename T>
std::vector<unsigned char> Bytes(const T& value, uint32_t size, size_t dirty = 0) {
  std::vector<unsigned char> bytes(std::max<size_t>(size, sizeof(T)));
  std::memcpy(bytes.data(), &value, sizeof(T));
  std::memcpy(bytes.data(), &size, sizeof(size));
  if (dirty != 0) bytes[dirty] = 1;
  return bytes;
}

class StructSize : public testing::Test {
 protected:
  // Adds a layernorm whose beta is given, with the options cut or grown to `size`.
  Result Add(uint32_t size, size_t dirty = 0) {
    const ChainPtr chain = EmptyChain();
    const sinter_value x = Input(chain.get(), SINTER_DTYPE_F32, {4, 8});
    sinter_norm_options options = SINTER_INIT(sinter_norm_options);
    options.beta = 99;  // no such value: an error if and only if the field is read
    const auto bytes = Bytes(options, size, dirty);
    sinter_value out = 0;
    return Try(sinter_chain_add_layernorm, chain.get(), x,
               reinterpret_cast<const sinter_norm_options*>(bytes.data()), &out);
  }
};

TEST_F(StructSize, ASmallerStructLeavesTheTailAtItsDefaults) {
  constexpr uint32_t kWithoutBeta = offsetof(sinter_norm_options, beta);
  EXPECT_EQ(Add(kWithoutBeta).status, SINTER_OK);
  EXPECT_THAT(Add(sizeof(sinter_norm_options)).message, HasSubstr("beta is value 99"));
  EXPECT_EQ(Add(8).status, SINTER_OK);
}

TEST_F(StructSize, ALargerStructIsTakenWhenTheRestIsZero) {
  EXPECT_THAT(Add(sizeof(sinter_norm_options) + 40).message, HasSubstr("beta is value 99"));
  EXPECT_TRUE(Fails(Add(sizeof(sinter_norm_options) + 40, sizeof(sinter_norm_options) + 39),
                    SINTER_INVALID_ARGUMENT, "byte 63 is not zero"));
}

TEST_F(StructSize, NonsenseSizesAreRefused) {
  for (const uint32_t size : {0u, 4u, 7u, 4097u, 0xffffffffu}) {
    // Bytes() would allocate the size; only the field matters here.
    const ChainPtr chain = EmptyChain();
    const sinter_value x = Input(chain.get(), SINTER_DTYPE_F32, {4, 8});
    const sinter_norm_options options{.struct_size = size};
    sinter_value out = 0;
    const Result result = Try(sinter_chain_add_layernorm, chain.get(), x, &options, &out);
    EXPECT_TRUE(Fails(result, SINTER_INVALID_ARGUMENT, "struct_size is " + std::to_string(size)))
        << size;
    EXPECT_THAT(result.message, HasSubstr("SINTER_INIT"));
  }
}

TEST(StructFlags, UnknownBitsAreRefusedEverywhere) {
  const ChainPtr chain = EmptyChain();
  sinter_chain* c = chain.get();
  const sinter_value a = Input(c, SINTER_DTYPE_F32, {8, 8});
  const ContextPtr context = MakeTarget();
  const ChainPtr small = FromText(kSmall);
  sinter_value out = 0;
  const int64_t dims[] = {1};
  const int32_t axes[] = {0};
  sinter_plan* plan = nullptr;
  constexpr uint32_t kBit = 1u << 30;
  const auto expect_refused = [](const char* name, const Result& result) {
    EXPECT_TRUE(Fails(result, SINTER_INVALID_ARGUMENT, ".flags is 0x40000000")) << name;
  };
#define REFUSED(type, call)                                             \
  do {                                                                  \
    type o = SINTER_INIT(type);                                         \
    o.flags = kBit;                                                     \
    expect_refused(#type, Try([&](sinter_error** e) { return call; })); \
  } while (0)
  sinter_context* other = nullptr;
  REFUSED(sinter_context_options, sinter_context_create(&o, &other, e));
  REFUSED(sinter_input_options, sinter_chain_add_input(c, 1, 1, dims, &o, &out, e));
  REFUSED(sinter_matmul_options, sinter_chain_add_matmul(c, a, a, &o, &out, e));
  sinter_scaled scaled = {1, 1};
  REFUSED(sinter_quantize_options, sinter_chain_add_quantize(c, a, &o, &scaled, e));
  REFUSED(sinter_conv2d_options, sinter_chain_add_conv2d(c, a, a, &o, &out, e));
  REFUSED(sinter_window_options, sinter_chain_add_window(c, a, a, &o, &out, e));
  REFUSED(sinter_window_options, sinter_chain_add_max_pool2d(c, a, &o, &out, e));
  REFUSED(sinter_window_options, sinter_chain_add_avg_pool2d(c, a, &o, &out, e));
  REFUSED(sinter_reduce_options, sinter_chain_add_reduce(c, 1, a, 1, axes, &o, &out, e));
  REFUSED(sinter_softmax_options, sinter_chain_add_softmax(c, a, 0, &o, &out, e));
  REFUSED(sinter_attention_options, sinter_chain_add_attention(c, a, a, a, &o, &out, e));
  REFUSED(sinter_next_token_options, sinter_chain_add_next_token(c, a, a, a, &o, &out, nullptr, e));
  REFUSED(sinter_norm_options, sinter_chain_add_layernorm(c, a, &o, &out, e));
  REFUSED(sinter_norm_options, sinter_chain_add_rmsnorm(c, a, &o, &out, e));
  REFUSED(sinter_linear_options, sinter_chain_add_linear(c, a, a, &o, &out, e));
  REFUSED(sinter_gemm_chain_options, sinter_chain_add_gemm_chain(c, a, a, a, &o, &out, e));
  REFUSED(sinter_gated_ffn_options, sinter_chain_add_gated_ffn(c, a, a, a, a, &o, &out, e));
  REFUSED(sinter_matmul_options, sinter_chain_add_grouped_matmul(c, a, a, a, &o, &out, e));
  REFUSED(sinter_matmul_options, sinter_chain_add_grouped_matmul_ends(c, a, a, a, &o, &out, e));
  REFUSED(sinter_grouped_gated_ffn_options,
          sinter_chain_add_grouped_gated_ffn(c, a, a, a, a, a, &o, &out, e));
  REFUSED(sinter_output_options, sinter_chain_add_output(c, a, &o, e));
  REFUSED(sinter_prepare_options, sinter_prepare(context.get(), small.get(), 8, &o, &plan, e));
  REFUSED(sinter_tune_options, sinter_tune(context.get(), small.get(), 8, &o, e));
#undef REFUSED
}

TEST(StructFlags, ReservedFieldsMustBeZero) {
  const ChainPtr chain = EmptyChain();
  const sinter_value a = Input(chain.get(), SINTER_DTYPE_F32, {8, 8});
  const auto options = Sized(sinter_softmax_options{.reserved = 5});
  sinter_value out = 0;
  EXPECT_TRUE(Fails(Try(sinter_chain_add_softmax, chain.get(), a, 0, &options, &out),
                    SINTER_INVALID_ARGUMENT, "softmax.reserved is 5, must be 0"));
}

TEST(ResultStructs, AnOldCallerGetsWhatItKnowsAndANewOneZeroes) {
  const ContextPtr context = MakeTarget();
  std::vector<unsigned char> bytes(sizeof(sinter_stats) + 64, 0xee);
  auto* stats = reinterpret_cast<sinter_stats*>(bytes.data());
  stats->struct_size = 16;
  Ok(sinter_context_get_stats, context.get(), stats);
  EXPECT_EQ(stats->struct_size, 16u);
  EXPECT_EQ(stats->prepares, 0u);
  EXPECT_EQ(bytes[16], 0xee);
  stats->struct_size = static_cast<uint32_t>(bytes.size());
  Ok(sinter_context_get_stats, context.get(), stats);
  EXPECT_EQ(bytes[sizeof(sinter_stats)], 0);
  EXPECT_EQ(bytes.back(), 0);
}

}  // namespace
}  // namespace sinter_test
