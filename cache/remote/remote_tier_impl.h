// RemoteTier's implementation: access to its two backends through the breaker, and the operations
// above it. Its parts are defined in remote_tier.cc (looking up, publishing) and remote_fleet.cc
// (leases, prefetching, withdrawing).
#ifndef SINTER_CACHE_REMOTE_REMOTE_TIER_IMPL_H_
#define SINTER_CACHE_REMOTE_REMOTE_TIER_IMPL_H_

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "cache/remote/remote_tier.h"
#include "cache/store/work_queue.h"
#include "src/base/status.h"

namespace sinter {

// No thread holds asking_mutex_ and bad_mutex_ at once.
class RemoteTier::Impl {
 public:
  using Counter = std::atomic<uint64_t>;

  Impl(RemoteOptions options, std::unique_ptr<RemoteBackend> asking,
       std::unique_ptr<RemoteBackend> background);

  bool Mine() const { return getpid() == owner_; }

  Lookup Get(RecordKind kind, absl::string_view key, const Digest& digest);
  void Publish(RecordKind kind, absl::string_view key, const Digest& digest,
               absl::string_view payload);
  void Refuse(RecordKind kind, const Digest& digest) { Refuse(Name(kind, digest)); }
  void Withdraw(RecordKind kind, const Digest& digest, absl::string_view why);
  void OnWithdrawn(WithdrawnSink sink) { on_withdrawn_ = std::move(sink); }
  // The token of the lease, or "" when it was not got.
  std::string TryLease(RecordKind kind, const Digest& digest, Deadline until);
  void ReleaseLater(RecordKind kind, const Digest& digest, const std::string& token);
  void Prefetch(std::function<bool(RecordKind, const Digest&)> wanted, RecordSink sink);
  absl::Status Push(const std::vector<std::pair<RecordKind, Digest>>& records,
                    const std::function<absl::StatusOr<std::string>(size_t)>& envelope_of,
                    PushReport* report);
  bool Flush(std::chrono::milliseconds limit) { return background_.Flush(limit); }
  void Stop() {
    stopping_ = true;
    background_.Stop(options_.background_budget);
  }

  RemoteStats stats() const;
  const RemoteOptions& options() const { return options_; }
  CircuitBreaker::State breaker() const { return breaker_.state(); }

 private:
  std::string Name(RecordKind kind, const Digest& digest) const {
    return RemoteName(options_.name_space, kind, digest);
  }
  static void Count(Counter* counter) { counter->fetch_add(1, std::memory_order_relaxed); }
  static bool LockUntil(std::unique_lock<std::mutex>* lock, Deadline deadline);

  static const absl::Status& StatusOf(const absl::Status& status) { return status; }
  template <typename T>
  static const absl::Status& StatusOf(const absl::StatusOr<T>& value) {
    return value.status();
  }

  // Runs `call` and reports its result to the breaker.
  template <typename Call>
  auto Reported(Call&& call) -> decltype(call()) {
    auto result = call();
    const absl::Status& status = StatusOf(result);
    if (status.ok()) {
      breaker_.Succeeded(std::chrono::steady_clock::now());
    } else {
      Count(&errors_);
      breaker_.Failed(std::chrono::steady_clock::now(), absl::IsDeadlineExceeded(status));
    }
    return result;
  }

  // On a caller's thread, one caller at a time. Waits for other callers until `deadline` at most.
  template <typename Call>
  auto Asking(Deadline deadline, Call&& call) -> decltype(call(nullptr)) {
    std::unique_lock<std::mutex> lock(asking_mutex_, std::defer_lock);
    if (!LockUntil(&lock, deadline)) return DeadlineExceeded("remote: busy");
    if (!breaker_.Allow(std::chrono::steady_clock::now())) {
      Count(&skipped_);
      return Unavailable("remote: given up for a while");
    }
    return Reported([&] { return call(asking_.get()); });
  }

  template <typename Call>
  absl::Status InBackground(Call&& call) {
    if (!breaker_.Allow(std::chrono::steady_clock::now())) {
      Count(&skipped_);
      return Unavailable("remote: given up for a while");
    }
    const Deadline deadline = std::chrono::steady_clock::now() + options_.background_budget;
    return Reported([&] { return call(background_backend_.get(), deadline); });
  }

  // NOT_FOUND when there is no value.
  absl::StatusOr<std::string> Ask(const std::string& name, Deadline deadline);
  std::string MarkName(RecordKind kind, const Digest& digest) const {
    return WithdrawnName(options_.name_space, kind, digest);
  }
  Lookup Withdrawn(absl::string_view why);
  // The miss for a value found under a mark's name: withdrawn, or damaged if this fleet did not
  // write it.
  Lookup JudgeMark(const std::string& name, absl::string_view value);
  static Lookup Down(const absl::Status& status) {
    return Lookup::Miss(MissReason::kRemoteDown, std::string(status.message()));
  }
  void WithdrawNow(RecordKind kind, const Digest& digest, const std::string& why);
  void Tell(RecordKind kind, const Digest& digest, const Lookup& withdrawn);
  // Whether the record is marked as withdrawn; if so, tells the sink. Runs on the background
  // thread.
  bool IsMarked(RecordKind kind, const Digest& digest);
  void Refuse(const std::string& name);
  Lookup Refused(const std::string& name, std::string why);
  void PublishNow(RecordKind kind, absl::string_view key, const Digest& digest,
                  absl::string_view payload);
  bool IsBad(const std::string& name);
  void Store(const std::string& name, const std::string& value, bool replace,
             const std::string& member);
  void ResolveBoth();
  void PrefetchNow(const std::function<bool(RecordKind, const Digest&)>& wanted,
                   const RecordSink& sink);
  // As Push, for records[from] up to records[to].
  absl::Status PushBatch(const std::vector<std::pair<RecordKind, Digest>>& records, size_t from,
                         size_t to,
                         const std::function<absl::StatusOr<std::string>(size_t)>& envelope_of,
                         PushReport* report);
  absl::Status PushValue(RecordKind kind, const Digest& digest, const std::string& value);
  bool TakeBatch(const std::vector<std::pair<RecordKind, Digest>>& batch, const RecordSink& sink);
  void Take(RecordKind kind, const Digest& digest, const std::string& name,
            const std::string& value, const RecordSink& sink);

  const RemoteOptions options_;
  const pid_t owner_ = getpid();
  std::mutex asking_mutex_;
  const std::unique_ptr<RemoteBackend> asking_;              // guarded by asking_mutex_
  const std::unique_ptr<RemoteBackend> background_backend_;  // of the thread
  CircuitBreaker breaker_;
  std::mutex bad_mutex_;
  std::set<std::string> bad_;  // names with an invalid value; guarded by bad_mutex_
  WithdrawnSink on_withdrawn_;
  std::atomic<bool> stopping_{false};
  Counter hits_{0}, absent_{0}, puts_{0}, dropped_{0}, prefetched_{0}, errors_{0}, refused_{0},
      skipped_{0}, withdrawn_{0}, leases_{0}, lease_waits_{0};
  WorkQueue background_;  // last: its jobs use all of the above
};

}  // namespace sinter

#endif  // SINTER_CACHE_REMOTE_REMOTE_TIER_IMPL_H_
