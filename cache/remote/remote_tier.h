// RemoteTier: the tier that a fleet shares. It is asked only for records that the other tiers lack,
// with a limit of time and through a circuit breaker. A thread of its own does everything else:
// publishing, prefetching, releasing leases, finding the host.
#ifndef SINTER_CACHE_REMOTE_REMOTE_TIER_H_
#define SINTER_CACHE_REMOTE_REMOTE_TIER_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cache/record/record.h"
#include "cache/store/local_store.h"
#include "src/base/digest.h"
#include "src/base/log.h"
#include "src/base/ports.h"

namespace sinter {

// CircuitBreaker: stops asking a remote store that does not answer, and tries again later.

// closed: calls pass; it opens at half or more failures of at least ten calls within ten seconds,
// or after three late answers in a row. open: no call passes for a pause of 1 s, which doubles up
// to 60 s; each pause is shortened by up to a quarter at random. half-open: one call passes as a
// probe; if it succeeds the breaker closes, if it fails the next pause begins. Absent values are
// successes.
//
// Thread-safe. The caller gives the time. The rule needs a least number of calls in addition to a
// failure rate, since a count of failures without a rate opens it for healthy stores.
class CircuitBreaker {
 public:
  using Time = std::chrono::steady_clock::time_point;
  enum class State { kClosed, kOpen, kHalfOpen };

  explicit CircuitBreaker(uint64_t seed) : random_(seed | 1) {}

  // Whether a call may be made now. If so, the caller makes exactly one report about it.
  bool Allow(Time now);
  void Succeeded(Time now);
  void Failed(Time now, bool late);

  State state() const;
  uint64_t times_opened() const;
  // Called after each change, outside the lock.
  void OnChange(std::function<void(State, State)> callback) { on_change_ = std::move(callback); }

 private:
  struct Call {
    Time at;
    bool failed;
  };
  void Note(Time now, bool failed);
  void Open(Time now);
  void Tell(State before, State after) const {
    if (before != after && on_change_) on_change_(before, after);
  }

  mutable std::mutex mutex_;
  State state_ = State::kClosed;
  std::deque<Call> calls_;  // of the last ten seconds, oldest first
  int late_in_a_row_ = 0;
  std::chrono::milliseconds pause_{1000};  // of the next opening
  Time until_{};                           // end of the pause
  uint64_t random_;
  uint64_t opened_ = 0;
  std::function<void(State, State)> on_change_;
};

const char* NameOf(CircuitBreaker::State state);

struct RemoteOptions {
  std::string name_space = "sinter";  // the trust domain: letters, digits, '-', '_', '.'
  std::string secret;    // of the fleet, for the HMAC of every value; at least 16 bytes
  bool publish = false;  // a publisher writes and takes leases; a reader only reads
  // Records are listed under this name; prefetching takes only those of this group.
  std::string group;
  std::string producer;  // in the envelopes that are published
  int64_t ttl_s = 14 * 24 * 3600;
  std::chrono::milliseconds get_budget{50};    // for one question while a caller waits
  std::chrono::milliseconds lease_wait{5000};  // at most, for another machine's build
  int64_t lease_ttl_ms = 30000;
  std::chrono::milliseconds background_budget{2000};  // for one operation of the thread
  uint64_t queue_bytes = uint64_t{64} << 20;          // of values that wait to be published
  uint64_t prefetch_most = 4096;                      // records
  uint64_t jitter_seed = 0;                           // of the breaker's pauses
  LogSink log;  // receives breaker transitions and values that no trusted machine wrote
};

struct RemoteStats {
  uint64_t hits = 0, absent = 0, puts = 0, dropped = 0, prefetched = 0;
  uint64_t errors = 0;     // failed or late answers
  uint64_t refused = 0;    // invalid values: HMAC, envelope or key is wrong
  uint64_t skipped = 0;    // questions not asked because the breaker was open
  uint64_t withdrawn = 0;  // withdrawals made here or met
  uint64_t leases = 0, lease_waits = 0;
  uint64_t opened = 0;  // times the breaker opened
};

// For one value of a push: kMaxRemoteValueBytes at about 1 MB/s.
constexpr std::chrono::milliseconds kPushBudget(30000);

// Takes a record that was fetched without being asked for.
using RecordSink = std::function<void(const Digest& digest, const Envelope& envelope)>;
// Takes a withdrawal that was found without being asked for.
using WithdrawnSink =
    std::function<void(RecordKind kind, const Digest& digest, absl::string_view why)>;

// Thread-safe. It has two backends: one for callers' questions, one for the thread. In the child of
// a fork it answers kRemoteDown and does nothing, since connections and thread are the parent's.
class RemoteTier {
 public:
  RemoteTier(RemoteOptions options, std::unique_ptr<RemoteBackend> asking,
             std::unique_ptr<RemoteBackend> background);
  ~RemoteTier();  // stops
  RemoteTier(const RemoteTier&) = delete;
  RemoteTier& operator=(const RemoteTier&) = delete;

  // Call it before anything else. From then on the thread calls `sink`, but not after Stop.
  void OnWithdrawn(WithdrawnSink sink);

  // Takes get_budget at most. A hit passed the HMAC and the envelope's verifier. kQuarantined: the
  // fleet withdrew the record. The caller must remember that: a server that loses the mark, or
  // restores an older value, looks like one that never had it.
  Lookup Get(RecordKind kind, absl::string_view key, const Digest& digest);
  // Queues the record to be written; does nothing for a reader.
  void Publish(RecordKind kind, absl::string_view key, const Digest& digest,
               absl::string_view payload);
  // Says that the value under the key is invalid, so that the next publishing may overwrite it.
  void Refuse(RecordKind kind, const Digest& digest);
  // Queues a withdrawal: after it nobody is served the record and no publisher puts it back. Does
  // nothing for a reader.
  void Withdraw(RecordKind kind, const Digest& digest, absl::string_view why);
  // Single flight in the fleet: returns once this machine holds the key's lease, another machine
  // published the record, or the lesser of `budget_us` and lease_wait has passed. Null: the lease
  // is not held. Readers do not wait, nor does anyone while the breaker is open.
  std::shared_ptr<void> Lease(RecordKind kind, const Digest& digest, int64_t budget_us);
  // Writes the records that the server lacks to it, in their order, and lists them in the group.
  // `envelope_of(i)` gives the envelope of records[i], NOT_FOUND to leave it out. On the caller's
  // thread; each question takes background_budget at most, each value kPushBudget. The first one
  // that fails ends it, with an error that says how many were written: those stay.
  // FAILED_PRECONDITION for a reader.
  absl::StatusOr<PushReport> Push(
      const std::vector<std::pair<RecordKind, Digest>>& records,
      const std::function<absl::StatusOr<std::string>(size_t)>& envelope_of);
  // Once, in the background: passes each record of the group for which `wanted` is true to `sink`.
  // The thread calls both, but not after Stop.
  void Prefetch(std::function<bool(RecordKind, const Digest&)> wanted, RecordSink sink);

  // Ends the thread. Queued records are published first, for at most background_budget. After it
  // there are no callbacks and nothing is published.
  void Stop();
  // Waits until everything queued before is done; false when `limit` passes first.
  bool Flush(std::chrono::milliseconds limit);
  RemoteStats stats() const;
  CircuitBreaker::State breaker() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;  // leases refer to it weakly: one may outlive the tier
};

// Names and values of a remote store. It names records, leases and groups. Each value has an HMAC,
// which only holders of the fleet's key can make. A withdrawal takes the place of a record that was
// found wrong.
//
// A value is 8 bytes magic, 32 bytes HMAC-SHA256(key, u64 length of name, name, body), body. The
// body is an envelope or a withdrawal. Since the HMAC covers the name, a value copied to another
// name is invalid.

// "<name_space>:v1:k:<hex>": the name of a record.
std::string RemoteName(absl::string_view name_space, RecordKind kind, const Digest& digest);
// "<name_space>:v1:withdrawn:k:<hex>": the name of the mark that the record was found wrong.
std::string WithdrawnName(absl::string_view name_space, RecordKind kind, const Digest& digest);
// "<name_space>:v1:lease:k:<hex>".
std::string LeaseName(absl::string_view name_space, RecordKind kind, const Digest& digest);
// "<name_space>:v1:group:<group>".
std::string GroupName(absl::string_view name_space, absl::string_view group);

// The name of a record inside a group: "k:<hex>".
std::string MemberName(RecordKind kind, const Digest& digest);
// False for anything else. The text comes from the server.
bool ParseMember(absl::string_view member, RecordKind* kind, Digest* digest);

// Larger values are neither published nor accepted. A call for several values takes twice this at
// most.
constexpr uint64_t kMaxRemoteValueBytes = uint64_t{32} << 20;

std::string SealValue(absl::string_view key, absl::string_view name, absl::string_view envelope);
// The envelope, borrowed from `value`; DATA_LOSS for anything that SealValue did not make with this
// key for this name.
absl::StatusOr<absl::string_view> OpenValue(absl::string_view key, absl::string_view name,
                                            absl::string_view value);

constexpr uint64_t kMaxWithdrawalText = 512;

// The body of a sealed value: 8 bytes magic, u32 format, i64 time, the reason. `why` is cut.
std::string EncodeWithdrawal(int64_t unix_s, absl::string_view why);

// Whether the body of a valid value is a withdrawal, in any format: a newer one counts too. `why`
// receives the reason in printable characters, as far as it can be read.
bool IsWithdrawal(absl::string_view body, std::string* why);

}  // namespace sinter

#endif  // SINTER_CACHE_REMOTE_REMOTE_TIER_H_
