// Prepares on threads whose stacks are small: what a graph needs is never taken from the caller's.
#include "tests/capi/abi.h"
#include "tests/support/stack_of.h"

namespace sinter_test {
namespace {

constexpr size_t kSmallStack = 192 << 10;

// A compiler is not looked for: it would take longer than all the rest, and needs its own stack.
ContextPtr WithoutCompiler() {
  const auto options = Sized(sinter_context_options{.log_level = SINTER_LOG_OFF,
                                                    .target = "h200",
                                                    .cache_dir = "",
                                                    .nvrtc_path = "/nonexistent"});
  return Made<ContextPtr>(sinter_context_create, &options);
}

sinter_value Unary(sinter_chain* chain, sinter_unary kind, sinter_value x) {
  sinter_value made = SINTER_NO_VALUE;
  Ok(sinter_chain_add_unary, chain, kind, x, &made);
  return made;
}
sinter_value Add(sinter_chain* chain, sinter_value x, sinter_value y) {
  sinter_value made = SINTER_NO_VALUE;
  Ok(sinter_chain_add_binary, chain, SINTER_BINARY_ADD, x, y, &made);
  return made;
}

// `ops` ops one after another; or each adds two of the values before.
ChainPtr Deep(int ops, bool ladder) {
  ChainPtr chain = EmptyChain();
  sinter_value x = Input(chain.get(), SINTER_DTYPE_F32, {SINTER_DIM_M, 256}), before = x;
  for (int i = 0; i < ops; ++i) {
    const sinter_value made =
        ladder ? Add(chain.get(), x, before)
               : Unary(chain.get(), i % 2 == 0 ? SINTER_UNARY_EXP : SINTER_UNARY_TANH, x);
    before = x;
    x = made;
  }
  Ok(sinter_chain_add_output, chain.get(), x, nullptr);
  Ok(sinter_chain_finish, chain.get());
  return chain;
}

TEST(SmallStack, DeepGraphsArePlanned) {
  for (const int ops : {500, 4000}) {
    for (const bool ladder : {false, true}) {
      sinter::RunOnStackOf(kSmallStack, [&] {
        const ContextPtr context = WithoutCompiler();
        const ChainPtr chain = Deep(ops, ladder);
        sinter_plan* plan = nullptr;
        const Result result = Try(sinter_prepare, context.get(), chain.get(), 64, nullptr, &plan);
        const PlanPtr owned(plan);
        // Planned, and its source made; stand-ins may run some of these graphs.
        if (result.status != SINTER_OK) {
          EXPECT_THAT(result.message, HasSubstr("no NVRTC: /nonexistent"));
        }
      });
    }
  }
}

TEST(SmallStack, APlanIsExplained) {
  sinter::RunOnStackOf(kSmallStack, [] {
    const ContextPtr context = MakeTarget();
    const ChainPtr chain = FromText(kSmall);
    sinter_plan* plan = nullptr;
    const Result made = Try(sinter_prepare, context.get(), chain.get(), 64, nullptr, &plan);
    const PlanPtr owned(plan);
    if (made.status == SINTER_UNAVAILABLE) return;  // no compiler here
    ASSERT_EQ(made.status, SINTER_OK) << made.message;
    size_t required = 0;
    std::string text(1 << 16, '\0');
    Ok(sinter_plan_explain, plan, text.size(), text.data(), &required);
    EXPECT_GT(required, 100u);
  });
}

}  // namespace
}  // namespace sinter_test
