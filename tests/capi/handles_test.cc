// Null and foreign handles, release order, errors as objects.
#include "tests/capi/abi.h"
#include "tests/support/no_compiler.h"

namespace sinter_test {
namespace {

// A call per function that takes a handle, with all handles null.
TEST(Handles, NullIsAnErrorThatNamesTheParameter) {
  sinter_plan* plan = nullptr;
  sinter_search* search = nullptr;
  sinter_binding* binding = nullptr;
  sinter_pending* pending = nullptr;
  sinter_slot* slot = nullptr;
  sinter_graph_nodes* nodes = nullptr;
  sinter_x_text* text = nullptr;
  sinter_x_check check = SINTER_INIT(sinter_x_check);
  sinter_stats stats = SINTER_INIT(sinter_stats);
  sinter_tensor_info info = SINTER_INIT(sinter_tensor_info);
  sinter_device_ptr ptr = 0;
  sinter_value value = 0;
  double us = 0;
  uint8_t digest[32];
  using Call = std::function<sinter_status(sinter_error**)>;
  const std::pair<const char*, Call> rows[] = {
      {"out_context", CallOf(sinter_context_create, nullptr, nullptr)},
      {"context", CallOf(sinter_context_get_stats, nullptr, &stats)},
      {"out_chain", CallOf(sinter_chain_create, nullptr)},
      {"chain", CallOf(sinter_chain_add_scalar, nullptr, 1, 1, &value)},
      {"chain", CallOf(sinter_chain_add_output, nullptr, 1, nullptr)},
      {"chain", CallOf(sinter_chain_finish, nullptr)},
      {"chain", CallOf(sinter_chain_get_buffer, nullptr, 0, 1, &info)},
      {"out_cancel", CallOf(sinter_cancel_create, nullptr)},
      {"context", CallOf(sinter_prepare, nullptr, nullptr, 1, nullptr, &plan)},
      {"context",
       CallOf(sinter_prepare_many, nullptr, 0, nullptr, nullptr, nullptr, &plan, nullptr)},
      {"context", CallOf(sinter_prepare_async, nullptr, nullptr, 1, nullptr, &pending)},
      {"context", CallOf(sinter_context_search, nullptr, nullptr, 1, nullptr, &search)},
      {"pending", CallOf(sinter_pending_get, nullptr, 0, &plan)},
      {"pending", CallOf(sinter_pending_on_ready, nullptr, nullptr, 0)},
      {"context", CallOf(sinter_slot_create, nullptr, nullptr, 1, nullptr, 0, &slot)},
      {"context", CallOf(sinter_x_context_on_event, nullptr, nullptr, 0)},
      {"function", CallOf(sinter_x_end_calls, nullptr)},
      {"slot", CallOf(sinter_slot_acquire, nullptr, &plan)},
      {"slot", CallOf(sinter_slot_offer, nullptr, nullptr)},
      {"slot", CallOf(sinter_slot_switch, nullptr)},
      {"slot", CallOf(sinter_slot_get_build, nullptr, &pending)},
      {"context", CallOf(sinter_tune, nullptr, nullptr, 1, nullptr)},
      {"plan", CallOf(sinter_plan_get_digest, nullptr, digest)},
      {"plan", CallOf(sinter_plan_init_workspace, nullptr, 0, 0, nullptr)},
      {"plan", CallOf(sinter_plan_explain, nullptr, 0, nullptr, nullptr)},
      {"plan", CallOf(sinter_plan_bind, nullptr, 0, nullptr, 0, &binding)},
      {"binding", CallOf(sinter_binding_launch, nullptr, nullptr, 0, nullptr, 0)},
      {"binding",
       CallOf(sinter_binding_add_to_graph, nullptr, nullptr, 0, nullptr, 0, nullptr, 0, &nodes)},
      {"nodes", CallOf(sinter_graph_nodes_update, nullptr, nullptr, nullptr, 0, nullptr)},
      {"plan", CallOf(sinter_plan_launch, nullptr, nullptr, 0, nullptr, 0, nullptr, 0, 0)},
      {"line", CallOf(sinter_x_chain_from_text, nullptr, nullptr, nullptr, nullptr)},
      {"out_text", CallOf(sinter_x_problem_help, nullptr, nullptr)},
      {"json", CallOf(sinter_x_chain_from_json, nullptr, nullptr)},
      {"chain", CallOf(sinter_x_chain_to_json, nullptr, &text)},
      {"chain", CallOf(sinter_x_chain_to_text, nullptr, &text)},
      {"chain", CallOf(sinter_x_chain_get_digest, nullptr, digest)},
      {"chain", CallOf(sinter_x_chain_get_value, nullptr, 1, nullptr)},
      {"chain", CallOf(sinter_x_reference_run, nullptr, 1, 0, nullptr, 0, nullptr, 0)},
      {"chain", CallOf(sinter_x_reference_check, nullptr, 1, 0, nullptr, 0, nullptr, 0, 0, &check)},
      {"context", CallOf(sinter_x_device_alloc, nullptr, 1, &ptr)},
      {"context", CallOf(sinter_x_device_fill, nullptr, 1, 1, 0)},
      {"context", CallOf(sinter_x_time, nullptr, 0, nullptr, 0, nullptr, nullptr, &us)},
      {"context", CallOf(sinter_x_context_describe, nullptr, &text)},
      {"plan", CallOf(sinter_x_plan_to_json, nullptr, &text)},
      {"plan", CallOf(sinter_x_plan_summary, nullptr, &text)},
      {"plan", CallOf(sinter_x_plan_svg, nullptr, &text)},
      {"plan", CallOf(sinter_x_plan_get_source, nullptr, 0, &text)},
      {"context", CallOf(sinter_x_tune, nullptr, nullptr, 1, nullptr, &text)},
  };
  for (const auto& [name, call] : rows) {
    const Result result = Try(call);
    EXPECT_EQ(result.status, SINTER_INVALID_ARGUMENT) << name;
    EXPECT_EQ(result.message, std::string(name) + " is null");
    EXPECT_EQ(call(nullptr), SINTER_INVALID_ARGUMENT) << name;  // no place for an error
  }
}

TEST(Handles, GettersOfNullGiveNothing) {
  EXPECT_EQ(sinter_context_has_device(nullptr), 0);
  EXPECT_EQ(sinter_chain_get_input_count(nullptr), 0u);
  EXPECT_EQ(sinter_chain_get_output_count(nullptr), 0u);
  EXPECT_EQ(sinter_chain_uses_m(nullptr), 0);
  EXPECT_EQ(sinter_pending_poll(nullptr), 1);
  EXPECT_EQ(sinter_slot_get_generation(nullptr), 0u);
  EXPECT_EQ(sinter_pending_get_fd(nullptr), -1);
  EXPECT_EQ(sinter_graph_nodes_get_count(nullptr), 0u);
  EXPECT_EQ(sinter_graph_nodes_get(nullptr, 0), nullptr);
  EXPECT_EQ(sinter_plan_get_bucket(nullptr), 0);
  EXPECT_EQ(sinter_plan_get_max_m(nullptr), 0);
  EXPECT_EQ(sinter_plan_get_buffer_count(nullptr), 0u);
  EXPECT_EQ(sinter_plan_get_workspace_size(nullptr), 0u);
  EXPECT_EQ(sinter_search_get_bucket(nullptr), 0);
  EXPECT_EQ(sinter_search_get_kernel_count(nullptr), 0u);
  EXPECT_EQ(sinter_search_get_predicted_us(nullptr), 0);
  EXPECT_EQ(sinter_search_get_unfused_us(nullptr), 0);
  EXPECT_EQ(sinter_search_get_workspace_size(nullptr), 0u);
  EXPECT_EQ(sinter_search_get_choice(nullptr), SINTER_CHOICE_BEST);
  EXPECT_EQ(sinter_search_is_measured(nullptr), 0);
  EXPECT_STREQ(sinter_search_get_name(nullptr), "");
  EXPECT_STREQ(sinter_search_get_note(nullptr), "");
  EXPECT_EQ(sinter_error_get_code(nullptr), SINTER_INVALID_ARGUMENT);
  EXPECT_STREQ(sinter_error_get_message(nullptr), "");
  EXPECT_STREQ(sinter_error_get_compile_log(nullptr), "");
  EXPECT_EQ(sinter_error_get_driver_result(nullptr), 0);
  EXPECT_STREQ(sinter_x_text_get(nullptr), "");
  EXPECT_EQ(sinter_x_chain_get_flops(nullptr, 1), 0);
}

TEST(Handles, ReleaseAndRetainOfNullDoNothing) {
  sinter_context_retain(nullptr), sinter_context_release(nullptr);
  sinter_chain_retain(nullptr), sinter_chain_release(nullptr);
  sinter_plan_retain(nullptr), sinter_plan_release(nullptr);
  sinter_search_retain(nullptr), sinter_search_release(nullptr);
  sinter_binding_retain(nullptr), sinter_binding_release(nullptr);
  sinter_graph_nodes_retain(nullptr), sinter_graph_nodes_release(nullptr);
  sinter_cancel_retain(nullptr), sinter_cancel_release(nullptr), sinter_cancel_request(nullptr);
  sinter_pending_retain(nullptr), sinter_pending_release(nullptr);
  sinter_slot_retain(nullptr), sinter_slot_release(nullptr);
  sinter_error_retain(nullptr), sinter_error_release(nullptr);
  sinter_x_text_release(nullptr);
  sinter_x_device_free(nullptr, 0, 0);
}

TEST(Handles, AHandleOfAnotherKindIsRefused) {
  const ChainPtr chain = FromText(kSmall);
  const ContextPtr context = MakeTarget();
  sinter_stats stats = SINTER_INIT(sinter_stats);
  const Result as_context =
      Try(sinter_context_get_stats, reinterpret_cast<sinter_context*>(chain.get()), &stats);
  EXPECT_EQ(as_context.status, SINTER_INVALID_ARGUMENT);
  EXPECT_EQ(as_context.message, "context is not a live sinter_context");
  sinter_chain_release(reinterpret_cast<sinter_chain*>(context.get()));  // ignored
  EXPECT_EQ(sinter_context_has_device(context.get()), 0);
}

TEST(Handles, ReleaseOrderNeverMatters) {
  ContextPtr context = MakeTarget();
  ChainPtr chain = FromText(kSmall);
  sinter_plan* plan = nullptr;
  const Result prepared = Try(sinter_prepare, context.get(), chain.get(), 16, nullptr, &plan);
  if (prepared.status == SINTER_UNAVAILABLE) SINTER_END_WITHOUT_COMPILER(prepared.message);
  ASSERT_EQ(prepared.status, SINTER_OK) << prepared.message;
  context.reset();
  chain.reset();
  EXPECT_EQ(sinter_plan_get_bucket(plan), 16);
  sinter_x_text* source = nullptr;
  Ok(sinter_x_plan_get_source, plan, 0, &source);
  sinter_plan_retain(plan);
  sinter_plan_release(plan);
  EXPECT_EQ(sinter_plan_get_buffer_count(plan), 4u);
  sinter_plan_release(plan);
  EXPECT_THAT(sinter_x_text_get(source), HasSubstr("__global__"));
  sinter_x_text_release(source);
}

TEST(Errors, AreObjectsThatOutliveTheirCause) {
  sinter_error* error = nullptr;
  {
    const ChainPtr chain = EmptyChain();
    sinter_value out = 0;
    EXPECT_EQ(sinter_chain_add_cast(chain.get(), 1, SINTER_DTYPE_F32, &out, &error),
              SINTER_INVALID_ARGUMENT);
  }
  ASSERT_NE(error, nullptr);
  sinter_error_retain(error);
  sinter_error_release(error);
  EXPECT_EQ(sinter_error_get_code(error), SINTER_INVALID_ARGUMENT);
  EXPECT_STREQ(sinter_error_get_message(error),
               "op 0 (cast): a is value 1, the chain has no values yet");
  EXPECT_EQ(sinter_error_get_driver_result(error), 0);
  EXPECT_STREQ(sinter_error_get_compile_log(error), "");
  sinter_error_release(error);
}

TEST(Errors, TheirPlaceIsLeftAloneOnSuccess) {
  auto* marker = reinterpret_cast<sinter_error*>(0x10);
  sinter_error* error = marker;
  sinter_chain* chain = nullptr;
  EXPECT_EQ(sinter_chain_create(&chain, &error), SINTER_OK);
  EXPECT_EQ(error, marker);
  sinter_chain_release(chain);
}

TEST(Errors, EveryStatusHasAName) {
  EXPECT_STREQ(sinter_status_name(SINTER_OK), "OK");
  for (int32_t code = 1; code <= 16; ++code)
    EXPECT_STRNE(sinter_status_name(code), "UNKNOWN_STATUS");
  for (int32_t code = 100; code <= 105; ++code)
    EXPECT_STRNE(sinter_status_name(code), "UNKNOWN_STATUS");
  EXPECT_STREQ(sinter_status_name(99), "UNKNOWN_STATUS");
}

TEST(Library, KnowsItsVersion) {
  EXPECT_EQ(sinter_version(),
            SINTER_VERSION_MAJOR * 10000u + SINTER_VERSION_MINOR * 100u + SINTER_VERSION_PATCH);
  EXPECT_THAT(sinter_build_info(), HasSubstr("sinter 0.1.0 (commit "));
}

}  // namespace
}  // namespace sinter_test
