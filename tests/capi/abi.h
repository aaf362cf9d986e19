// Helpers of the ABI's tests: calls that keep their error, owning pointers, a scratch folder.
#pragma once

#include "sinter/sinter.h"
#include "sinter/sinter_experimental.h"
#include "tests/support/child.h"
#include "tests/support/files.h"
#include "tests/support/on_threads.h"
#include "tests/support/regular.h"
#include "tests/support/test.h"

namespace sinter_test {

using sinter::AllOf;
using sinter::EndOfChild;
using sinter::FileText;
using sinter::HasSubstr;
using sinter::IsEmpty;
using sinter::Not;
using sinter::OnThreads;
using sinter::StartsWith;

template <auto kRelease>
struct Releaser {
  template <typename T>
  void operator()(T* object) const {
    kRelease(object);
  }
};
using ContextPtr = std::unique_ptr<sinter_context, Releaser<sinter_context_release>>;
using ChainPtr = std::unique_ptr<sinter_chain, Releaser<sinter_chain_release>>;
using PlanPtr = std::unique_ptr<sinter_plan, Releaser<sinter_plan_release>>;
using SearchPtr = std::unique_ptr<sinter_search, Releaser<sinter_search_release>>;
using PendingPtr = std::unique_ptr<sinter_pending, Releaser<sinter_pending_release>>;
using TuningSetPtr = std::unique_ptr<sinter_tuning_set, Releaser<sinter_tuning_set_release>>;
using SlotPtr = std::unique_ptr<sinter_slot, Releaser<sinter_slot_release>>;
using TextPtr = std::unique_ptr<sinter_x_text, Releaser<sinter_x_text_release>>;

struct Result {
  sinter_status status = SINTER_OK;
  sinter_status code = SINTER_OK;  // the error object's
  bool has_error = false;
  std::string message;
  int32_t op = -1;
  std::string field, value, bound;  // "" for NULL
};

// Reads the fields; that they are what the message says is checked for every error of every test.
inline void ReadFields(const sinter_error* error, Result* result) {
  const auto text = [&](const char* field) {
    const std::string read = field != nullptr ? field : "";
    EXPECT_NE(result->message.find(read), std::string::npos) << read << " | " << result->message;
    return read;
  };
  result->op = sinter_error_get_op(error);
  result->field = text(sinter_error_get_field(error));
  result->value = text(sinter_error_get_value(error));
  result->bound = text(sinter_error_get_bound(error));
  EXPECT_EQ(result->op, sinter::OpInMessage(result->message)) << result->message;
}

// What a call returned; its error object is read and released.
inline Result ResultOf(sinter_status status, sinter_error* error) {
  Result result{.status = status, .has_error = error != nullptr};
  if (error == nullptr) return result;
  result.code = sinter_error_get_code(error);
  result.message = sinter_error_get_message(error);
  ReadFields(error, &result);
  sinter_error_release(error);
  return result;
}

// Runs `call(sinter_error**)`.
template <typename Call>
Result Try(Call&& call) {
  sinter_error* error = nullptr;
  const sinter_status status = call(&error);
  return ResultOf(status, error);
}
// Calls `function` with these arguments and an error.
template <typename... Types, typename... Arguments>
Result Try(sinter_status (*function)(Types...), Arguments... arguments) {
  sinter_error* error = nullptr;
  const sinter_status status = function(arguments..., &error);
  return ResultOf(status, error);
}

// `function` with copies of its first arguments, for tables of calls.
template <typename... Types, typename... Arguments>
auto CallOf(sinter_status (*function)(Types...), Arguments... first) {
  return [=](auto... last) { return function(first..., last...); };
}

// The same, and a failure of the test when it fails.
template <typename... Call>
bool Ok(Call... call) {
  const Result result = Try(call...);
  EXPECT_EQ(result.status, SINTER_OK) << result.message;
  return result.status == SINTER_OK;
}

// Whether a call failed with this status and a message that has `text`.
inline testing::AssertionResult Fails(const Result& result, sinter_status status,
                                      const std::string& text) {
  if (result.status == status && result.message.find(text) != std::string::npos) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << "status " << result.status << ", not " << status
                                     << " with \"" << text << "\": " << result.message;
}

// What `function` makes with these arguments; null, and a failure of the test, when it fails.
template <typename Ptr, typename... Types, typename... Arguments>
Ptr Made(sinter_status (*function)(Types...), Arguments... arguments) {
  typename Ptr::pointer made = nullptr;
  Ok(function, arguments..., &made);
  return Ptr(made);
}

// The same, of a call that may fail: then `made` is null.
template <typename Ptr, typename... Types, typename... Arguments>
Result TryMake(Ptr* made, sinter_status (*function)(Types...), Arguments... arguments) {
  typename Ptr::pointer raw = nullptr;
  const Result result = Try(function, arguments..., &raw);
  made->reset(raw);
  return result;
}

// Waits for the slot's build; what its prepare returned. `most_us` < 0: without limit.
inline Result AwaitBuild(const SlotPtr& slot, int64_t most_us = -1) {
  const PendingPtr build = Made<PendingPtr>(sinter_slot_get_build, slot.get());
  PlanPtr plan;
  return TryMake(&plan, sinter_pending_get, build.get(), most_us);
}

// Options with their size: Sized(sinter_prepare_options{.flags = SINTER_PREPARE_MUST_HIT}).
template <typename Options>
Options Sized(Options options) {
  options.struct_size = sizeof(Options);
  return options;
}

using ScratchFolder = sinter::TempDir;

// The messages of a log, once somebody has ended what writes them.
struct Messages {
  std::mutex mutex;
  std::string all;
  static void Callback(uintptr_t user, sinter_log_level, const char* message) {
    auto* messages = reinterpret_cast<Messages*>(user);
    const std::lock_guard<std::mutex> lock(messages->mutex);
    messages->all += message;
  }
};

inline ContextPtr MakeTarget(const char* cache_dir = "", const char* target = "h200") {
  sinter_context_options options = SINTER_INIT(sinter_context_options);
  options.target = target;
  options.cache_dir = cache_dir;
  options.log_level = SINTER_LOG_OFF;
  return Made<ContextPtr>(sinter_context_create, &options);
}

inline ChainPtr FromText(const char* line) {
  sinter_chain* chain = nullptr;
  Ok(sinter_x_chain_from_text, line, &chain, nullptr, nullptr);
  return ChainPtr(chain);
}

// A chain small enough to search and compile in well under a second.
constexpr char kSmall[] = "gemm_chain m=M n=256 k=64 l=64 act=relu layout=oi dtype=bf16";

inline ChainPtr EmptyChain() { return Made<ChainPtr>(sinter_chain_create); }

inline sinter_value Input(sinter_chain* chain, sinter_dtype dtype, const std::vector<int64_t>& dims,
                          uint32_t flags = 0) {
  sinter_input_options options = SINTER_INIT(sinter_input_options);
  options.flags = flags;
  sinter_value value = SINTER_NO_VALUE;
  Ok(sinter_chain_add_input, chain, dtype, static_cast<uint32_t>(dims.size()), dims.data(),
     &options, &value);
  return value;
}

inline sinter_stats StatsOf(const ContextPtr& context) {
  sinter_stats stats = SINTER_INIT(sinter_stats);
  Ok(sinter_context_get_stats, context.get(), &stats);
  return stats;
}

using Digest = std::vector<uint8_t>;

inline Digest DigestOf(const sinter_chain* chain) {
  Digest digest(32);
  Ok(sinter_x_chain_get_digest, chain, digest.data());
  return digest;
}
inline Digest DigestOf(const sinter_plan* plan) {
  Digest digest(32);
  Ok(sinter_plan_get_digest, plan, digest.data());
  return digest;
}
inline Digest DigestOf(const PlanPtr& plan) { return DigestOf(plan.get()); }
// The digest of the finished chain that a line of text describes.
inline Digest DigestOfText(const std::string& line) {
  return DigestOf(FromText(line.c_str()).get());
}

}  // namespace sinter_test
