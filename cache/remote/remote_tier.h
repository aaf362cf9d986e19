// RemoteTier: the tier that a fleet shares. It is asked only for what the other tiers lack, within
// a budget of time and behind a circuit breaker. Everything else (publishing, prefetching, giving
// leases back, finding the host) is done by a thread of its own.
#ifndef SINTER_CACHE_REMOTE_REMOTE_TIER_H_
#define SINTER_CACHE_REMOTE_REMOTE_TIER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "cache/record/envelope.h"
#include "cache/remote/breaker.h"
#include "src/base/log.h"
#include "src/base/ports.h"
#include "src/base/remote_port.h"

namespace sinter {

struct RemoteOptions {
  std::string name_space = "sinter";  // the trust domain: letters, digits, '-', '_', '.'
  std::string secret;    // of the fleet, for the HMAC of every value; at least 16 bytes
  bool publish = false;  // a publisher writes and leases; a reader only reads
  // Records are listed under this name for prefetching; what differs in it is not prefetched.
  std::string group;
  std::string producer;  // of the envelopes that are published
  int64_t ttl_s = 14 * 24 * 3600;
  std::chrono::milliseconds get_budget{50};    // of one question on a caller's path
  std::chrono::milliseconds lease_wait{5000};  // for another machine's build, at most
  int64_t lease_ttl_ms = 30000;
  std::chrono::milliseconds background_budget{2000};  // of one operation of the thread
  uint64_t queue_bytes = uint64_t{64} << 20;          // of values that wait to be published
  uint64_t prefetch_most = 4096;                      // records
  uint64_t jitter_seed = 0;                           // of the breaker's pauses
  LogSink log;  // breaker transitions, values that nobody trusted wrote
};

struct RemoteStats {
  uint64_t hits = 0, absent = 0, puts = 0, dropped = 0, prefetched = 0;
  uint64_t errors = 0;     // failed or late answers
  uint64_t refused = 0;    // values that did not hold: HMAC, envelope, key
  uint64_t skipped = 0;    // questions not asked because the breaker was open
  uint64_t withdrawn = 0;  // withdrawals made and met
  uint64_t leases = 0, lease_waits = 0;
  uint64_t opened = 0;  // times the breaker opened
};

// A record that was found without being asked for.
using RecordSink = std::function<void(const Digest& digest, const Envelope& envelope)>;
// A record that the fleet withdrew, seen without being asked for.
using WithdrawnSink =
    std::function<void(RecordKind kind, const Digest& digest, absl::string_view why)>;

// Thread-safe. Two backends: one for callers' questions, one for the thread. In the child of a fork
// it answers kRemoteDown and does nothing: connections and thread are the parent's.
class RemoteTier {
 public:
  RemoteTier(RemoteOptions options, std::unique_ptr<RemoteBackend> asking,
             std::unique_ptr<RemoteBackend> background);
  ~RemoteTier();  // stops
  RemoteTier(const RemoteTier&) = delete;
  RemoteTier& operator=(const RemoteTier&) = delete;

  // Before anything else is called. From then on `sink` is called from the thread, and not after
  // Stop.
  void OnWithdrawn(WithdrawnSink sink);

  // Within get_budget. A hit passed the HMAC and the one verifier. kQuarantined: the fleet withdrew
  // the record. The caller remembers that: a server that forgets it, or brings back an older value,
  // cannot be told from one that never knew.
  Lookup Get(RecordKind kind, absl::string_view key, const Digest& digest);
  // Queues; does nothing for a reader.
  void Publish(RecordKind kind, absl::string_view key, const Digest& digest,
               absl::string_view payload);
  // The value under the key does not hold: what is published next may overwrite it.
  void Refuse(RecordKind kind, const Digest& digest);
  // Queues: the record is served to nobody from then on, and no publisher puts it back. Does
  // nothing for a reader.
  void Withdraw(RecordKind kind, const Digest& digest, absl::string_view why);
  // Single flight in the fleet: returns once this machine holds the key's lease, or another one
  // published it, or the lesser of `budget_us` and lease_wait passed. Null: not held. Readers and
  // an open breaker do not wait.
  std::shared_ptr<void> Lease(RecordKind kind, const Digest& digest, int64_t budget_us);
  // In the background, once: everything of the group for which `wanted` says so goes to `sink`.
  // Both are called from the thread, and not after Stop.
  void Prefetch(std::function<bool(RecordKind, const Digest&)> wanted, RecordSink sink);

  // Ends the thread: what is queued is published first, for at most background_budget. No callback
  // comes afterwards, and nothing is published.
  void Stop();
  // Returns once everything queued before is done; false when `limit` passed.
  bool Flush(std::chrono::milliseconds limit);
  RemoteStats stats() const;
  CircuitBreaker::State breaker() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;  // leases refer to it weakly: one may outlive the tier
};

}  // namespace sinter

#endif  // SINTER_CACHE_REMOTE_REMOTE_TIER_H_
