// sinter_pending: a prepare on a thread of its own, or in the background.
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <thread>
#include <utility>
#include <vector>

#include "src/base/exit_gate.h"
#include "src/base/refusal.h"
#include "src/base/status.h"
#include "src/capi/firewall.h"
#include "src/capi/objects.h"

namespace capi = sinter::capi;

namespace sinter::capi {
namespace {

struct ReadyCall {
  sinter_ready_callback callback;
  uintptr_t user_data;
};

// A prepare's life, in this order. Its end is known from kCalling on.
enum class Stage {
  kUnderWay,
  kCalling,  // its thread calls those back who asked for it, while a reference of its own, if the
             // handle still had one, keeps the handle
  kOver,     // the thread touches neither the handle nor a callback any more
};

// The thread and the handle share this. Invariant: `plan`, `code` and `error` are written once,
// before kUnderWay ends, and read only after, until the handle goes.
struct PendingState {
  std::mutex mutex;
  std::condition_variable changed;
  Stage stage = Stage::kUnderWay;          // guarded by mutex
  std::thread::id thread;                  // guarded by mutex: prepares or drops it, once one does
  std::vector<ReadyCall> calls;            // guarded by mutex; empty from kCalling on
  const sinter_pending* handle = nullptr;  // guarded by mutex; null once the thread let it go
  std::atomic<int> fd{-1};                 // made under mutex, at the first ask

  bool IsThread() const { return thread == std::this_thread::get_id(); }  // mutex is held
  HandleRef<sinter_plan> plan;
  sinter_status code = SINTER_OK;
  HandleRef<sinter_error> error;
  std::shared_ptr<std::atomic<bool>> cancel = std::make_shared<std::atomic<bool>>(false);
  ~PendingState() { CloseFd(); }
  // The end must be known, or nobody may be left to ask. The thread keeps its share of this a
  // little longer than the handle lives: the objects that it ended with must not wait for that.
  void ReleaseEnd() {
    plan.reset();
    error.reset();
  }
  // Closes only this process's descriptor: a parent's stays as it is.
  void CloseFd() {
    const int old = fd.exchange(-1);
    if (old >= 0) close(old);
  }
};

// Nearly the largest count: as a semaphore it is readable however often it is read.
constexpr uint64_t kReadableForGood = ~uint64_t{0} - 1;

void Signal(int fd) {
  if (fd >= 0) (void)!write(fd, &kReadableForGood, sizeof(kReadableForGood));
}

// Notifies every waiter, then those who asked to be called; then it is over.
void Finish(PendingState& state, sinter_plan* plan, sinter_status code, sinter_error* error,
            const LogSink& log) noexcept;

// One prepare: on a thread of its own, or an entry of the context's queue.
class PendingBuild final : public QueuedBuild {
 public:
  PendingBuild(std::shared_ptr<PendingState> state, const sinter_context* context,
               const sinter_chain* chain, int64_t m, const PrepareSettings& settings,
               PrepareEnd end)
      : state_(std::move(state)),
        context_(RefTo(context)),
        chain_(RefTo(chain)),
        m_(m),
        settings_(settings),
        end_(std::move(end)),
        log_(context->log) {}

  void Run() noexcept override {
    End([this](sinter_plan** plan) -> absl::Status {
      SINTER_ASSIGN_OR_RETURN(*plan, PreparePlan(*context_, *chain_->chain, m_, settings_));
      return absl::OkStatus();
    });
  }

  void Drop(const absl::Status& why) noexcept override {
    End([&](sinter_plan**) { return why; });
  }

  absl::Status Wanted() const override {
    if (ExitGate::Exiting()) return Cancelled("prepare: the process exits");
    if (*state_->cancel) return Cancelled("prepare: cancelled before its turn");
    if (settings_.has_deadline && std::chrono::steady_clock::now() >= settings_.deadline) {
      return DeadlineExceeded("prepare: deadline passed before its turn");
    }
    return absl::OkStatus();
  }

 private:
  template <typename Body>
  void End(const Body& body) noexcept {
    {
      std::lock_guard<std::mutex> lock(state_->mutex);
      state_->thread = std::this_thread::get_id();
    }
    sinter_plan* plan = nullptr;
    sinter_error* error = nullptr;
    sinter_status code = SINTER_OK;
    {
      const ExitGate::Pass inside;
      code = Guard(&error, [&] { return body(&plan); });
      context_.reset();
      chain_.reset();
      if (end_) end_(plan, code, error);
      end_ = nullptr;  // what it holds goes before the handle may
    }
    Finish(*state_, plan, code, error, log_);  // calls the caller back, for as long as it likes
  }

  const std::shared_ptr<PendingState> state_;
  HandleRef<const sinter_context> context_;
  HandleRef<const sinter_chain> chain_;
  const int64_t m_;
  const PrepareSettings settings_;
  PrepareEnd end_;
  const LogSink log_;
};

}  // namespace
}  // namespace sinter::capi

struct sinter_pending : sinter::capi::Handle<sinter_pending> {
  static constexpr uint32_t kMagic = 0x5350656e;
  static constexpr char kTypeName[] = "sinter_pending";
  std::shared_ptr<capi::PendingState> state = std::make_shared<capi::PendingState>();
  // It has a thread, or a ticket of the queue of `context`.
  std::unique_ptr<std::thread> thread = std::make_unique<std::thread>();
  std::shared_ptr<capi::BuildQueue> queue;
  uint64_t ticket = capi::BuildQueue::kNoTicket;
  const pid_t owner = getpid();

  // In the child of a fork the thread does not exist: it can be neither joined nor waited for.
  bool IsOwn() const { return getpid() == owner; }

  ~sinter_pending() {
    *state->cancel = true;
    if (!thread->joinable() && queue == nullptr) return;
    if (!IsOwn()) {
      (void)thread.release();  // left alone, as the thread's own share of `state` is
      state->CloseFd();
      return;
    }
    if (queue != nullptr) queue->Withdraw(ticket);
    std::unique_lock<std::mutex> lock(state->mutex);
    if (state->IsThread()) {  // released from a callback of its own: it cannot wait for itself
      if (thread->joinable()) thread->detach();
      state->handle = nullptr;
      return;
    }
    state->changed.wait(lock, [&] { return state->stage == capi::Stage::kOver; });
    lock.unlock();
    if (thread->joinable()) thread->join();
    state->ReleaseEnd();
  }
};

namespace sinter::capi {
namespace {

void Finish(PendingState& state, sinter_plan* plan, sinter_status code, sinter_error* error,
            const LogSink& log) noexcept {
  std::vector<ReadyCall> calls;
  HandleRef<const sinter_pending> handle;
  {
    std::lock_guard<std::mutex> lock(state.mutex);
    state.plan.reset(plan);
    state.code = code;
    state.error.reset(error);
    calls.swap(state.calls);
    state.stage = calls.empty() ? Stage::kOver : Stage::kCalling;
    if (!calls.empty() && state.handle != nullptr && state.handle->TryRetain()) {
      handle.reset(state.handle);
    }
    state.changed.notify_all();
    Signal(state.fd);
  }
  for (const ReadyCall& call : calls) {
    const absl::Status called = CallOut("ready", call.callback, call.user_data, handle.get(), code);
    if (called.ok()) continue;
    GuardOr(0, [&] {  // without memory there is no log line
      log.Log(LogLevel::kError, called.message());
      return 0;
    });
  }
  handle.reset();
  std::lock_guard<std::mutex> lock(state.mutex);
  state.stage = Stage::kOver;
  state.changed.notify_all();
}

// The caller's reference. When only that of the thread that calls back is left, it was the last one
// that counts, and the calls are waited for: outside of them.
void ReleasePending(const sinter_pending* pending) {
  if (!IsLive(pending)) return;
  const std::shared_ptr<PendingState> state = pending->state;
  const bool is_own = pending->IsOwn();
  const uint32_t left = pending->Drop();
  if (left == 0) delete pending;
  if (left != 1 || !is_own) return;
  std::unique_lock<std::mutex> lock(state->mutex);
  if (state->IsThread()) return;
  state->changed.wait(lock, [&] { return state->stage != Stage::kCalling; });
}

absl::StatusOr<sinter_pending*> PrepareAsync(const sinter_context* context,
                                             const sinter_chain* chain, int64_t m,
                                             const sinter_prepare_options* options) {
  SINTER_ASSIGN_OR_RETURN(const PrepareSettings settings, ReadPrepareSettings(context, options));
  SINTER_RETURN_IF_ERROR(Finished(chain).status());
  SINTER_RETURN_IF_ERROR(RefuseCapture(*context, settings.stream));
  return StartPrepare(context, chain, m, settings, nullptr);
}

absl::Status CheckOwn(const sinter_pending& pending) {
  if (pending.IsOwn()) return absl::OkStatus();
  return FailedPrecondition("the prepare is the parent's, after a fork: prepare again here");
}

absl::Status CallWhenReady(const sinter_pending* pending, const ReadyCall& call) {
  SINTER_RETURN_IF_ERROR(Check(pending, "pending"));
  if (call.callback == nullptr) {
    return WithField(Invalid("callback is null"), "callback", "null");
  }
  SINTER_RETURN_IF_ERROR(CheckOwn(*pending));
  PendingState& state = *pending->state;
  {
    std::lock_guard<std::mutex> lock(state.mutex);
    if (state.stage == Stage::kUnderWay) {
      state.calls.push_back(call);
      return absl::OkStatus();
    }
  }
  return CallOut("ready", call.callback, call.user_data, pending, state.code);
}

int FdOf(PendingState& state) {
  std::lock_guard<std::mutex> lock(state.mutex);
  if (state.fd < 0) {
    state.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
    if (state.stage != Stage::kUnderWay) Signal(state.fd);
  }
  return state.fd;
}

// A year; now and it together are a time that the clock can count.
constexpr int64_t kLongestTimeoutUs = int64_t{366} * 24 * 3600 * 1000000;

absl::Status WaitFor(const sinter_pending& pending, int64_t timeout_us) {
  SINTER_RETURN_IF_ERROR(CheckOwn(pending));
  PendingState& state = *pending.state;
  std::unique_lock<std::mutex> lock(state.mutex);
  const auto done = [&] { return state.stage != Stage::kUnderWay; };
  if (timeout_us < 0 || timeout_us > kLongestTimeoutUs) {
    state.changed.wait(lock, done);
  } else if (!state.changed.wait_for(lock, std::chrono::microseconds(timeout_us), done)) {
    return DeadlineExceeded("the prepare is still under way after ", timeout_us, " us");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<sinter_pending*> StartPrepare(const sinter_context* context,
                                             const sinter_chain* chain, int64_t m,
                                             const PrepareSettings& given, PrepareEnd end) {
  const ExitGate::Pass inside;
  if (!inside) return Cancelled("prepare: the process exits");
  PrepareSettings settings = given;
  auto pending = std::make_unique<sinter_pending>();
  const auto state = pending->state;
  if (settings.cancel != nullptr) SINTER_RETURN_IF_ERROR(Follow(settings.cancel, state->cancel));
  settings.base.cancel = state->cancel.get();
  state->handle = pending.get();
  auto build = std::make_shared<PendingBuild>(state, context, chain, m, settings, std::move(end));
  if (settings.base.background) {
    const bool measures = settings.base.measuring.mode == Measuring::Mode::kWhileServing;
    const auto& queue = measures ? context->measurements : context->builds;
    SINTER_ASSIGN_OR_RETURN(pending->ticket, queue->Push(std::move(build)));
    pending->queue = queue;
    return pending.release();
  }
  try {
    *pending->thread = std::thread([build = std::move(build)] { build->Run(); });
  } catch (const std::exception&) {  // no thread, or no memory for one
    return ResourceExhausted("prepare: no thread could be started");
  }
  return pending.release();
}

sinter_pending* EndedPrepare(sinter_plan* plan) {
  auto pending = std::make_unique<sinter_pending>();
  pending->state->plan = RefTo(plan);
  pending->state->stage = Stage::kOver;
  return pending.release();
}

}  // namespace sinter::capi

extern "C" {

sinter_status sinter_prepare_async(sinter_context* context, const sinter_chain* chain, int64_t m,
                                   const sinter_prepare_options* options,
                                   sinter_pending** out_pending, sinter_error** error) {
  return capi::Give(out_pending, "out_pending", error,
                    [&] { return capi::PrepareAsync(context, chain, m, options); });
}

void sinter_pending_retain(const sinter_pending* pending) { capi::RetainHandle(pending); }
void sinter_pending_release(const sinter_pending* pending) { capi::ReleasePending(pending); }

int32_t sinter_pending_poll(const sinter_pending* pending) {
  if (!capi::IsLive(pending) || !pending->IsOwn()) return 1;
  std::lock_guard<std::mutex> lock(pending->state->mutex);
  return pending->state->stage == capi::Stage::kUnderWay ? 0 : 1;
}

sinter_status sinter_pending_on_ready(const sinter_pending* pending, sinter_ready_callback callback,
                                      uintptr_t user_data, sinter_error** error) {
  return capi::Guard(error, [&] { return capi::CallWhenReady(pending, {callback, user_data}); });
}

int32_t sinter_pending_get_fd(const sinter_pending* pending) {
  if (!capi::IsLive(pending) || !pending->IsOwn()) return -1;
  return capi::GuardOr<int32_t>(-1, [&] { return capi::FdOf(*pending->state); });
}

sinter_status sinter_pending_get(const sinter_pending* pending, int64_t timeout_us,
                                 sinter_plan** out_plan, sinter_error** error) {
  sinter_status prepared = SINTER_OK;
  const sinter_status waited = capi::Guard(error, [&]() -> absl::Status {
    SINTER_RETURN_IF_ERROR(capi::Check(pending, "pending"));
    SINTER_RETURN_IF_ERROR(capi::CheckNotNull(out_plan, "out_plan"));
    SINTER_RETURN_IF_ERROR(capi::WaitFor(*pending, timeout_us));
    prepared = pending->state->code;
    return absl::OkStatus();
  });
  if (waited != SINTER_OK) return waited;
  if (prepared == SINTER_OK) {
    *out_plan = capi::RefTo(pending->state->plan.get()).release();
  } else if (error != nullptr) {
    *error = capi::RefTo(pending->state->error.get()).release();
  }
  return prepared;
}

}  // extern "C"
