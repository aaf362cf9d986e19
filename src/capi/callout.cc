#include "src/capi/callout.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <new>
#include <vector>

#include "absl/strings/str_cat.h"
#include "sinter/sinter_experimental.h"
#include "src/base/fork_local.h"
#include "src/capi/firewall.h"

namespace capi = sinter::capi;

namespace sinter::capi {
namespace {

struct Calls {
  CallPass* first = nullptr;  // of all passes
  std::vector<AnyFunction> ended;
  std::condition_variable changed;
};

// Never destroyed: threads come by until the process is gone.
ForkLocal<Calls, /*kKeep=*/false>& Everybody() {
  static auto* const everybody = new ForkLocal<Calls, /*kKeep=*/false>;
  return *everybody;
}

}  // namespace

CallPass::CallPass(AnyFunction function) : function_(function) {
  auto calls = Everybody().Lock();
  const auto& ended = calls->ended;
  if (std::find(ended.begin(), ended.end(), function) != ended.end()) return;
  inside_ = true;
  next_ = calls->first;
  if (next_ != nullptr) next_->previous_ = this;
  calls->first = this;
}

CallPass::~CallPass() {
  if (!inside_ || owner_ != getpid()) return;  // a child that was forked inside has a list anew
  auto calls = Everybody().Lock();
  (previous_ != nullptr ? previous_->next_ : calls->first) = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
  calls->changed.notify_all();
}

bool EndCalls(AnyFunction function) {
  auto calls = Everybody().Lock();
  calls->ended.push_back(function);
  const auto none = [&] {
    for (const CallPass* pass = calls->first; pass != nullptr; pass = pass->next_) {
      if (pass->function_ == function && pass->thread_ != std::this_thread::get_id()) return false;
    }
    return true;
  };
  return calls->changed.wait_for(calls.lock(), std::chrono::seconds(kLongestWaitForCalls), none);
}

absl::Status ThrownBy(absl::string_view name) noexcept {
  try {
    try {
      throw;
    } catch (const std::exception& thrown) {
      return absl::InternalError(absl::StrCat("the ", name, " callback threw: ", thrown.what()));
    } catch (...) {
      return absl::InternalError(
          absl::StrCat("the ", name, " callback threw what is no std::exception"));
    }
  } catch (...) {  // out of memory: the code alone has to do
    return absl::Status(absl::StatusCode::kInternal, "");
  }
}

}  // namespace sinter::capi

extern "C" sinter_status sinter_x_end_calls(sinter_x_function function, sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    if (function == nullptr) return absl::InvalidArgumentError("function is null");
    if (capi::EndCalls(function)) return absl::OkStatus();
    return absl::DeadlineExceededError(absl::StrCat("a call of the function has not ended after ",
                                                    capi::kLongestWaitForCalls,
                                                    " s: let it return"));
  });
}
