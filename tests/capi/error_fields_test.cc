// Errors of every kind, by their fields.
#include "tests/capi/abi.h"

namespace sinter_test {
namespace {

struct Expected {
  int32_t op;
  const char *field, *value, *bound;
};

void ExpectFields(const Result& result, const Expected& expected) {
  EXPECT_NE(result.status, SINTER_OK);
  EXPECT_EQ(result.op, expected.op) << result.message;
  EXPECT_EQ(result.field, expected.field) << result.message;
  EXPECT_EQ(result.value, expected.value) << result.message;
  EXPECT_EQ(result.bound, expected.bound) << result.message;
}

TEST(ErrorFields, AreNullWhereAnErrorHasNone) {
  EXPECT_EQ(sinter_error_get_op(nullptr), -1);
  EXPECT_EQ(sinter_error_get_field(nullptr), nullptr);
  EXPECT_EQ(sinter_error_get_value(nullptr), nullptr);
  EXPECT_EQ(sinter_error_get_bound(nullptr), nullptr);
  ChainPtr chain = EmptyChain();
  sinter_error* error = nullptr;
  ASSERT_EQ(sinter_chain_finish(chain.get(), &error), SINTER_FAILED_PRECONDITION);
  EXPECT_EQ(sinter_error_get_op(error), -1);
  EXPECT_EQ(sinter_error_get_field(error), nullptr);
  EXPECT_EQ(sinter_error_get_value(error), nullptr);
  EXPECT_EQ(sinter_error_get_bound(error), nullptr);
  sinter_error_release(error);
}

TEST(ErrorFields, OfAddsNameTheOpThatWasNotAdded) {
  ChainPtr chain = EmptyChain();
  sinter_chain* const c = chain.get();
  const sinter_value x = Input(c, SINTER_DTYPE_F32, {SINTER_DIM_M, 64});
  const sinter_value w = Input(c, SINTER_DTYPE_BF16, {128, 64});
  const sinter_value s = Input(c, SINTER_DTYPE_S32, {4});
  const int64_t wrong_dims[] = {SINTER_DIM_M, 0}, dims[] = {-7};
  const int32_t axis = 5;
  sinter_value out = 0;
  const auto norm = Sized(sinter_norm_options{.eps = 2});
  struct Row {
    Expected expected;
    std::function<sinter_status(sinter_error**)> call;
  };
  const Row rows[] = {
      {{3, "a", "9", "in [1, 3]"}, CallOf(sinter_chain_add_unary, c, SINTER_UNARY_EXP, 9, &out)},
      {{3, "a", "SINTER_NO_VALUE", "a value"},
       CallOf(sinter_chain_add_unary, c, SINTER_UNARY_EXP, 0, &out)},
      {{3, "kind", "99", "a SINTER_UNARY_* in [1, 35]"},
       CallOf(sinter_chain_add_unary, c, 99, x, &out)},
      {{3, "dtype of a", "s32", "f32, f16 or bf16"},
       CallOf(sinter_chain_add_unary, c, SINTER_UNARY_EXP, s, &out)},
      {{3, "dimension 1", "0", "in [1, 2^31 - 1] or M"},
       CallOf(sinter_chain_add_input, c, SINTER_DTYPE_F32, 2, wrong_dims, nullptr, &out)},
      {{3, "dims[0]", "-7", "in [1, 2^31 - 1] or SINTER_DIM_M"},
       CallOf(sinter_chain_add_input, c, SINTER_DTYPE_F32, 1, dims, nullptr, &out)},
      {{3, "rank", "7", "at most 6"},
       CallOf(sinter_chain_add_input, c, SINTER_DTYPE_F32, 7, dims, nullptr, &out)},
      {{3, "axis", "5", "in [0, 1]"},
       CallOf(sinter_chain_add_reduce, c, SINTER_REDUCE_SUM, x, 1, &axis, nullptr, &out)},
      {{3, "axis", "9", "in [-2, 1]"}, CallOf(sinter_chain_add_softmax, c, x, 9, nullptr, &out)},
      {{3, "eps", "2", "more than 0 in f32 and at most 1"},
       CallOf(sinter_chain_add_rmsnorm, c, x, &norm, &out)},
      {{3, "", "", ""},  // two operands disagree: no field of one of them
       CallOf(sinter_chain_add_matmul, c, x, w, nullptr, &out)},
      {{-1, "out_value", "null", ""},
       CallOf(sinter_chain_add_unary, c, SINTER_UNARY_EXP, x, nullptr)},
  };
  for (const Row& row : rows) ExpectFields(Try(row.call), row.expected);
}

TEST(ErrorFields, OfTextsAndDocuments) {
  const struct {
    const char* line;
    Expected expected;
  } lines[] = {
      {"gated_ffn m=M n=0 k=64 l=64", {-1, "n", "0", "an integer in [1, 2^31 - 1]"}},
      {"gated_ffn m=M n=8 k=64 l=64 act=silu dtype=f64",
       {-1, "dtype", "f64", "one of f32 f16 bf16"}},
      {"no_such kind=1", {-1, "kind", "no_such", ""}},
  };
  for (const auto& row : lines) {
    sinter_chain* none = nullptr;
    const Result result = Try(sinter_x_chain_from_text, row.line, &none, nullptr, nullptr);
    EXPECT_EQ(result.field, row.expected.field) << result.message;
    EXPECT_EQ(result.value, row.expected.value) << result.message;
    if (row.expected.bound[0] != 0) {
      EXPECT_EQ(result.bound, row.expected.bound) << result.message;
    }
  }
  const struct {
    const char* json;
    Expected expected;
  } documents[] = {
      {R"({"schema": 7})", {-1, "schema", "7", "1"}},
      {R"({"schema": 1, "inputs": [{"id": 0, "dtype": "f32", "dims": ["N"]}]})",
       {-1, "inputs[0].dims[0]", "", "an integer or \"M\""}},
  };
  for (const auto& row : documents) {
    sinter_chain* none = nullptr;
    ExpectFields(Try(sinter_x_chain_from_json, row.json, &none), row.expected);
  }
}

TEST(ErrorFields, OfCallsNameTheOption) {
  ContextPtr context = MakeTarget();
  ChainPtr chain = FromText(kSmall);
  sinter_plan* none = nullptr;
  const auto prepare = [&](const sinter_prepare_options& options, int64_t m) {
    return Try(sinter_prepare, context.get(), chain.get(), m, &options, &none);
  };
  sinter_prepare_options options = SINTER_INIT(sinter_prepare_options);
  ExpectFields(prepare(options, -3), {-1, "m", "-3", ">= 0"});
  ExpectFields(prepare(options, int64_t{1} << 31), {-1, "m", "2147483648", "in [0, 2^31 - 1]"});
  options.measure = 65;
  ExpectFields(prepare(options, 1), {-1, "prepare.measure", "65", "in [-1, 64]"});
  options = SINTER_INIT(sinter_prepare_options);
  options.choice = 3;
  ExpectFields(prepare(options, 1), {-1, "prepare.choice", "3", "a SINTER_CHOICE_* in [0, 2]"});
  options = SINTER_INIT(sinter_prepare_options);
  options.flags = 1 << 20;
  ExpectFields(prepare(options, 1), {-1, "prepare.flags", "0x100000", "known bits are 0xf"});
  options = SINTER_INIT(sinter_prepare_options);
  options.struct_size = 4;
  ExpectFields(prepare(options, 1), {-1, "prepare.struct_size", "4", "in [8, 4096]"});
  const sinter_chain* chains[] = {chain.get(), nullptr};
  const int64_t ms[] = {1, 1};
  sinter_plan* plans[2] = {};
  ExpectFields(Try(sinter_prepare_many, context.get(), 2, chains, ms, nullptr, plans, nullptr),
               {-1, "chain", "null", ""});
}

// A chain of `adds`, finished, and why it has no plan.
Result Refused(const std::function<sinter_value(sinter_chain*)>& adds, uint32_t flags = 0) {
  ContextPtr context = MakeTarget();
  ChainPtr chain = EmptyChain();
  const sinter_value result = adds(chain.get());
  Ok(sinter_chain_add_output, chain.get(), result, nullptr);
  Ok(sinter_chain_finish, chain.get());
  const auto options = Sized(sinter_prepare_options{.flags = flags});
  sinter_plan* none = nullptr;
  return Try(sinter_prepare, context.get(), chain.get(), 32, &options, &none);
}

TEST(ErrorFields, OfPlanningNameTheOpThatNoKernelTakes) {
  const auto of_f32 = [](sinter_chain* c) {
    const sinter_value x = Input(c, SINTER_DTYPE_F32, {SINTER_DIM_M, 64});
    const sinter_value w = Input(c, SINTER_DTYPE_F32, {64, 64}, SINTER_INPUT_CONSTANT);
    sinter_value product = 0;
    Ok(sinter_chain_add_matmul, c, x, w, nullptr, &product);
    return product;
  };
  const Result product = Refused(of_f32);
  EXPECT_EQ(product.status, SINTER_ERROR_NO_LEGAL_PLAN) << product.message;
  EXPECT_EQ(product.op, 2) << product.message;
  const auto of_rows = [](sinter_chain* c) {
    const int32_t axis = 0;
    const sinter_value x = Input(c, SINTER_DTYPE_F32, {SINTER_DIM_M, 64});
    sinter_value sum = 0;
    Ok(sinter_chain_add_reduce, c, SINTER_REDUCE_SUM, x, 1, &axis, nullptr, &sum);
    return sum;
  };
  const Result rows = Refused(of_rows, SINTER_PREPARE_BATCH_INVARIANT);
  EXPECT_EQ(rows.status, SINTER_ERROR_NO_LEGAL_PLAN) << rows.message;
  EXPECT_EQ(rows.op, 1) << rows.message;
}

}  // namespace
}  // namespace sinter_test
