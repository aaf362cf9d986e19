// Every allocation of a stretch of ABI calls fails in turn: each call ends with a status, and
// nothing leaks a half-made object. operator new is replaced for the whole process, the library
// included.
#include "tests/capi/abi.h"

namespace {

std::atomic<int64_t> until_failure{-1};  // allocations left before one fails; negative: none does

bool Fails() { return until_failure >= 0 && until_failure-- == 0; }

}  // namespace

void* operator new(size_t size) {
  if (Fails()) throw std::bad_alloc();
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void* operator new[](size_t size) { return operator new(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

namespace sinter_test {
namespace {

// Builds a chain, asks for its text, runs it. The first status that is not OK. JSON is left out:
// the JSON library asserts, in builds with assertions, when its own allocations fail.
sinter_status Work(sinter_error** error) {
  sinter_chain* chain = nullptr;
  sinter_x_text* text = nullptr;
  sinter_value x = 0, y = 0;
  const int64_t dims[] = {2, 8};
  sinter_status status = sinter_chain_create(&chain, error);
  if (status == 0)
    status = sinter_chain_add_input(chain, SINTER_DTYPE_F32, 2, dims, nullptr, &x, error);
  if (status == 0) status = sinter_chain_add_softmax(chain, x, -1, nullptr, &y, error);
  if (status == 0) status = sinter_chain_add_output(chain, y, nullptr, error);
  if (status == 0) status = sinter_chain_finish(chain, error);
  if (status == 0) status = sinter_x_chain_to_text(chain, &text, error);
  float in[16] = {}, out[16];
  const void* inputs[] = {in};
  void* outputs[] = {out};
  if (status == 0) status = sinter_x_reference_run(chain, 1, 1, inputs, 1, outputs, 1, error);
  sinter_x_text_release(text);
  sinter_chain_release(chain);
  return status;
}

TEST(OutOfMemory, EveryFailedAllocationIsAStatus) {
  int failures = 0;
  for (int64_t at = 0; at < 100000; ++at) {
    sinter_error* error = nullptr;
    until_failure = at;
    const sinter_status status = Work(&error);
    const bool reached = until_failure < 0;
    until_failure = -1;
    if (status == SINTER_OK) {
      EXPECT_EQ(error, nullptr);
      if (!reached) break;  // fewer allocations than `at`: all of them have failed once
      continue;             // one whose failure the library could do without
    }
    ++failures;
    EXPECT_EQ(status, SINTER_RESOURCE_EXHAUSTED) << "allocation " << at;
    sinter_error_release(error);
  }
  EXPECT_GT(failures, 50);
}

// Planning, up to the compiler, which is not there: without a failed allocation UNAVAILABLE.
sinter_status Plan(sinter_context* context, const sinter_chain* chain, sinter_error** error) {
  sinter_plan* plan = nullptr;
  const sinter_status status = sinter_prepare(context, chain, 16, nullptr, &plan, error);
  sinter_plan_release(plan);
  return status;
}

TEST(OutOfMemory, APrepareFailsWithAStatusAndTheContextGoesOn) {
  setenv("SINTER_NVRTC", "/nonexistent/libnvrtc.so", 1);
  const auto options = Sized(sinter_context_options{.target = "h200", .cache_dir = ""});
  sinter_context* context = nullptr;
  ASSERT_EQ(sinter_context_create(&options, &context, nullptr), SINTER_OK);
  sinter_chain* chain = nullptr;
  ASSERT_EQ(sinter_x_chain_from_text("rmsnorm rows=16 cols=512 dtype=bf16", &chain, nullptr,
                                     nullptr, nullptr),
            SINTER_OK);
  int failures = 0;
  bool all = false;
  // A stride that meets every place of a loop in turn; all of them would take a minute.
  for (int64_t at = 0; at < 10000000 && !all;
       at += std::getenv("SINTER_TEST_LONG") != nullptr ? 1 : 11) {
    sinter_error* error = nullptr;
    until_failure = at;
    const sinter_status status = Plan(context, chain, &error);
    all = until_failure >= 0;  // fewer allocations than `at`
    until_failure = -1;
    if (status == SINTER_RESOURCE_EXHAUSTED) {
      ++failures;
    } else {
      EXPECT_EQ(status, SINTER_UNAVAILABLE)
          << "allocation " << at << ": " << sinter_error_get_message(error);
    }
    sinter_error_release(error);
  }
  EXPECT_TRUE(all);
  EXPECT_GT(failures, 50);
  EXPECT_EQ(Plan(context, chain, nullptr), SINTER_UNAVAILABLE);
  sinter_chain_release(chain);
  sinter_context_release(context);
}

// A slot whose build ends without a plan, waited for; what acquire says.
sinter_status Slot(sinter_context* context, const sinter_chain* chain, sinter_error** error) {
  sinter_slot* slot = nullptr;
  sinter_pending* build = nullptr;
  sinter_plan* plan = nullptr;
  sinter_status status = sinter_slot_create(context, chain, 16, nullptr, 0, &slot, error);
  if (status == SINTER_OK) status = sinter_slot_get_build(slot, &build, error);
  if (status == SINTER_OK) {
    while (sinter_pending_poll(build) == 0) std::this_thread::yield();
    status = sinter_slot_acquire(slot, &plan, error);
  }
  sinter_plan_release(plan);
  sinter_pending_release(build);
  sinter_slot_release(slot);
  return status;
}

TEST(OutOfMemory, ASlotFailsWithAStatusAndTheContextGoesOn) {
  setenv("SINTER_NVRTC", "/nonexistent/libnvrtc.so", 1);
  const auto options =
      Sized(sinter_context_options{.log_level = SINTER_LOG_OFF, .target = "h200", .cache_dir = ""});
  sinter_context* context = nullptr;
  ASSERT_EQ(sinter_context_create(&options, &context, nullptr), SINTER_OK);
  sinter_chain* chain = nullptr;
  ASSERT_EQ(sinter_x_chain_from_text("silu rows=16 cols=512 dtype=bf16", &chain, nullptr, nullptr,
                                     nullptr),
            SINTER_OK);
  int failures = 0;
  for (int64_t at = 0; at < 300; ++at) {  // the look-up, the thread's start, the build's begin
    sinter_error* error = nullptr;
    until_failure = at;
    const sinter_status status = Slot(context, chain, &error);
    until_failure = -1;
    failures += status == SINTER_RESOURCE_EXHAUSTED ? 1 : 0;
    EXPECT_TRUE(status == SINTER_RESOURCE_EXHAUSTED || status == SINTER_UNAVAILABLE)
        << "allocation " << at << ": " << status << " " << sinter_error_get_message(error);
    sinter_error_release(error);
  }
  EXPECT_GT(failures, 20);
  EXPECT_EQ(Slot(context, chain, nullptr), SINTER_UNAVAILABLE);
  sinter_stats stats = SINTER_INIT(sinter_stats);
  EXPECT_EQ(sinter_context_get_stats(context, &stats, nullptr), SINTER_OK);
  EXPECT_EQ(stats.slots_building, 0u);
  sinter_chain_release(chain);
  sinter_context_release(context);
}

}  // namespace
}  // namespace sinter_test
