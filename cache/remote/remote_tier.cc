#include "cache/remote/remote_tier.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cache/key/key.h"
#include "cache/record/kernel_record.h"
#include "cache/remote/background.h"
#include "cache/remote/sealed_value.h"
#include "cache/store/files.h"
#include "src/base/status.h"

namespace sinter {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using std::chrono::system_clock;
using Counter = std::atomic<uint64_t>;

constexpr size_t kPrefetchBatch = 32;
constexpr milliseconds kFirstPoll(10), kLongestPoll(250);
constexpr std::chrono::microseconds kTurnPause(100);  // between looks whether it is our turn to ask

void Count(Counter* counter) { counter->fetch_add(1, std::memory_order_relaxed); }

// "k:<hex>"; false for anything else. Members come from the other side.
bool ParseMember(absl::string_view member, RecordKind* kind, Digest* digest) {
  if (member.size() != 66 || member[1] != ':' || (member[0] != 'k' && member[0] != 'p'))
    return false;
  const auto parsed = Digest::FromHex(member.substr(2));
  if (!parsed.ok()) return false;
  *kind = member[0] == 'k' ? RecordKind::kKernel : RecordKind::kPlan;
  *digest = *parsed;
  return true;
}

std::string MemberName(RecordKind kind, const Digest& digest) {
  return absl::StrCat(kind == RecordKind::kKernel ? "k:" : "p:", digest.Hex());
}

}  // namespace

std::string RemoteName(absl::string_view name_space, RecordKind kind, const Digest& digest) {
  return absl::StrCat(name_space, ":v1:", MemberName(kind, digest));
}

// Lock order: asking_mutex_ alone; bad_mutex_ alone.
class RemoteTier::Impl {
 public:
  Impl(RemoteOptions options, std::unique_ptr<RemoteBackend> asking,
       std::unique_ptr<RemoteBackend> background)
      : options_(std::move(options)),
        asking_(std::move(asking)),
        background_backend_(std::move(background)),
        breaker_(options_.jitter_seed),
        background_(options_.queue_bytes) {
    breaker_.OnChange([this](CircuitBreaker::State before, CircuitBreaker::State after) {
      const bool bad = after == CircuitBreaker::State::kOpen;
      options_.log.Log(
          bad ? LogLevel::kWarn : LogLevel::kInfo,
          absl::StrCat("cache: remote: breaker ", NameOf(before), " -> ", NameOf(after)));
      if (bad) background_.Push(0, [this] { ResolveBoth(); });  // the host may have moved
    });
    background_.Push(0, [this] { ResolveBoth(); });
  }

  bool Mine() const { return getpid() == owner_; }

  Lookup Get(RecordKind kind, absl::string_view key, const Digest& digest) {
    const std::string name = Name(kind, digest);
    absl::StatusOr<std::string> value = Ask(name, steady_clock::now() + options_.get_budget);
    if (absl::IsNotFound(value.status())) return Lookup::Miss(MissReason::kAbsent, "");
    if (!value.ok()) {
      return Lookup::Miss(MissReason::kRemoteDown, std::string(value.status().message()));
    }
    const auto envelope = OpenValue(options_.secret, name, *value);
    if (!envelope.ok()) return Refused(name, std::string(envelope.status().message()));
    const EnvelopeVerdict verdict = ReadEnvelopeFor(*envelope, kind, key);
    if (!verdict.ok) return Refused(name, verdict.detail);
    Count(&hits_);
    Lookup hit;
    hit.hit = true;
    hit.payload = std::string(verdict.envelope.payload);
    hit.tier = "remote";
    return hit;
  }

  // Hashing and sealing take longer than a caller should wait.
  void Publish(RecordKind kind, absl::string_view key, const Digest& digest,
               absl::string_view payload) {
    const auto copy = std::make_shared<const std::string>(payload);
    const bool queued = background_.Push(payload.size() + key.size(),
                                         [this, kind, key = std::string(key), digest, copy] {
                                           try {
                                             PublishNow(kind, key, digest, *copy);
                                           } catch (const std::bad_alloc&) {
                                             Count(&dropped_);
                                           }
                                         });
    if (!queued) Count(&dropped_);
  }

  // The token of the lease, or "".
  std::string TryLease(RecordKind kind, const Digest& digest, Deadline until) {
    const std::string name = LeaseName(kind, digest), token = RandomName();
    if (token.empty()) return std::string();
    milliseconds pause = kFirstPoll;
    bool waited = false;
    for (;;) {
      const Deadline deadline = std::min(until, steady_clock::now() + options_.get_budget);
      absl::StatusOr<bool> leased = Asking(deadline, [&](RemoteBackend* backend) {
        return backend->TryLease(name, token, options_.lease_ttl_ms, deadline);
      });
      if (!leased.ok()) return std::string();
      if (*leased) {
        Count(&leases_);
        return token;
      }
      if (!std::exchange(waited, true)) Count(&lease_waits_);
      if (steady_clock::now() + pause >= until) return std::string();
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, kLongestPoll);
      const auto value = Ask(Name(kind, digest), steady_clock::now() + options_.get_budget);
      if (value.ok() || !absl::IsNotFound(value.status())) return std::string();
    }
  }

  void ReleaseLater(RecordKind kind, const Digest& digest, const std::string& token) {
    if (!Mine()) return;
    background_.Push(0, [this, name = LeaseName(kind, digest), token] {
      (void)InBackground([&](RemoteBackend* backend, Deadline deadline) {
        return backend->Release(name, token, deadline);
      });
    });
  }

  void Prefetch(std::function<bool(RecordKind, const Digest&)> wanted, RecordSink sink) {
    background_.Push(0, [this, wanted = std::move(wanted), sink = std::move(sink)] {
      try {
        PrefetchNow(wanted, sink);
      } catch (const std::bad_alloc&) {  // what was not prefetched is asked for when it is needed
      }
    });
  }

  bool Flush(milliseconds limit) { return background_.Flush(limit); }
  void Stop() {
    stopping_ = true;
    background_.Stop(options_.background_budget);
  }

  RemoteStats stats() const {
    RemoteStats out;
    out.hits = hits_;
    out.absent = absent_;
    out.puts = puts_;
    out.dropped = dropped_;
    out.prefetched = prefetched_;
    out.errors = errors_;
    out.refused = refused_;
    out.skipped = skipped_;
    out.leases = leases_;
    out.lease_waits = lease_waits_;
    out.opened = breaker_.times_opened();
    return out;
  }

  const RemoteOptions& options() const { return options_; }
  CircuitBreaker::State breaker() const { return breaker_.state(); }

 private:
  std::string Name(RecordKind kind, const Digest& digest) const {
    return RemoteName(options_.name_space, kind, digest);
  }
  std::string LeaseName(RecordKind kind, const Digest& digest) const {
    return absl::StrCat(options_.name_space, ":v1:lease:", MemberName(kind, digest));
  }
  std::string GroupName() const {
    return absl::StrCat(options_.name_space, ":v1:group:", options_.group);
  }

  static const absl::Status& StatusOf(const absl::Status& status) { return status; }
  template <typename T>
  static const absl::Status& StatusOf(const absl::StatusOr<T>& value) {
    return value.status();
  }

  // Runs `call` and tells the breaker how it ended.
  template <typename Call>
  auto Reported(Call&& call) -> decltype(call()) {
    auto result = call();
    const absl::Status& status = StatusOf(result);
    if (status.ok()) {
      breaker_.Succeeded(steady_clock::now());
    } else {
      Count(&errors_);
      breaker_.Failed(steady_clock::now(), absl::IsDeadlineExceeded(status));
    }
    return result;
  }

  // ThreadSanitizer does not see a timed mutex being locked by its deadline, and a condition
  // variable with waiters cannot be destroyed in the child of a fork.
  static bool LockUntil(std::unique_lock<std::mutex>* lock, Deadline deadline) {
    while (!lock->try_lock()) {
      if (steady_clock::now() >= deadline) return false;
      std::this_thread::sleep_for(kTurnPause);
    }
    return true;
  }

  // On a caller's thread. Another caller's question is waited for no longer than one's own may
  // take.
  template <typename Call>
  auto Asking(Deadline deadline, Call&& call) -> decltype(call(nullptr)) {
    std::unique_lock<std::mutex> lock(asking_mutex_, std::defer_lock);
    if (!LockUntil(&lock, deadline)) return absl::DeadlineExceededError("remote: busy");
    if (!breaker_.Allow(steady_clock::now())) {
      Count(&skipped_);
      return absl::UnavailableError("remote: given up for a while");
    }
    return Reported([&] { return call(asking_.get()); });
  }

  template <typename Call>
  absl::Status InBackground(Call&& call) {
    if (!breaker_.Allow(steady_clock::now())) {
      Count(&skipped_);
      return absl::UnavailableError("remote: given up for a while");
    }
    const Deadline deadline = steady_clock::now() + options_.background_budget;
    return Reported([&] { return call(background_backend_.get(), deadline); });
  }

  absl::StatusOr<std::string> Ask(const std::string& name, Deadline deadline) {
    auto values = Asking(
        deadline, [&](RemoteBackend* backend) { return backend->GetMany({name}, deadline); });
    if (!values.ok()) return values.status();
    if (values->size() != 1 || !values->front().has_value()) {
      Count(&absent_);
      return absl::NotFoundError("absent");
    }
    return *std::move(values->front());
  }

  Lookup Refused(const std::string& name, std::string why) {
    Count(&refused_);
    {
      std::lock_guard<std::mutex> lock(bad_mutex_);
      if (bad_.size() < 10000) bad_.insert(name);
    }
    return Lookup::Miss(MissReason::kDamaged, absl::StrCat("remote ", name, ": ", why));
  }

  void PublishNow(RecordKind kind, absl::string_view key, const Digest& digest,
                  absl::string_view payload) {
    Envelope envelope;
    envelope.kind = kind;
    envelope.verified = kind == RecordKind::kKernel && KernelPayloadVerified(payload);
    envelope.created_unix_s =
        std::chrono::duration_cast<std::chrono::seconds>(system_clock::now().time_since_epoch())
            .count();
    envelope.producer = options_.producer;
    envelope.arch = ArchOfKey(key);
    envelope.key = key;
    envelope.payload = payload;
    const std::string name = Name(kind, digest);
    const std::string value = SealValue(options_.secret, name, EncodeEnvelope(envelope));
    Store(name, value, envelope.verified || IsBad(name), MemberName(kind, digest));
  }

  // A value that did not hold may be overwritten, or it would block its name until its end.
  bool IsBad(const std::string& name) {
    std::lock_guard<std::mutex> lock(bad_mutex_);
    return bad_.erase(name) != 0;
  }

  void Store(const std::string& name, const std::string& value, bool replace,
             const std::string& member) {
    absl::Status status = InBackground([&](RemoteBackend* backend, Deadline deadline) {
      return backend->Put(name, value, options_.ttl_s, replace, deadline);
    });
    if (status.ok() && !options_.group.empty()) {
      status = InBackground([&](RemoteBackend* backend, Deadline deadline) {
        return backend->AddMember(GroupName(), member, options_.ttl_s, deadline);
      });
    }
    Count(status.ok() ? &puts_ : &dropped_);
  }

  void ResolveBoth() {
    background_backend_->Resolve();
    asking_->Resolve();
  }

  void PrefetchNow(const std::function<bool(RecordKind, const Digest&)>& wanted,
                   const RecordSink& sink) {
    std::vector<std::string> members;
    const absl::Status listed = InBackground([&](RemoteBackend* backend, Deadline deadline) {
      auto found = backend->Members(GroupName(), deadline);
      if (found.ok()) members = *std::move(found);
      return found.status();
    });
    if (!listed.ok()) return;
    std::vector<std::pair<RecordKind, Digest>> batch;
    uint64_t taken = 0;
    for (const std::string& member : members) {
      RecordKind kind;
      Digest digest;
      if (!ParseMember(member, &kind, &digest) || !wanted(kind, digest)) continue;
      if (++taken > options_.prefetch_most || stopping_) break;
      batch.emplace_back(kind, digest);
      if (batch.size() < kPrefetchBatch) continue;
      if (!TakeBatch(batch, sink)) return;
      batch.clear();
    }
    if (!batch.empty()) TakeBatch(batch, sink);
  }

  bool TakeBatch(const std::vector<std::pair<RecordKind, Digest>>& batch, const RecordSink& sink) {
    std::vector<std::string> names;
    for (const auto& [kind, digest] : batch) names.push_back(Name(kind, digest));
    std::vector<absl::optional<std::string>> values;
    const absl::Status got = InBackground([&](RemoteBackend* backend, Deadline deadline) {
      auto found = backend->GetMany(names, deadline);
      if (found.ok()) values = *std::move(found);
      return found.status();
    });
    if (!got.ok()) return false;
    for (size_t i = 0; i < batch.size() && i < values.size() && !stopping_; ++i) {
      if (values[i].has_value()) Take(batch[i].first, batch[i].second, names[i], *values[i], sink);
    }
    return !stopping_;
  }

  void Take(RecordKind kind, const Digest& digest, const std::string& name,
            const std::string& value, const RecordSink& sink) {
    const auto bytes = OpenValue(options_.secret, name, value);
    const EnvelopeVerdict own = bytes.ok() ? ReadEnvelope(*bytes) : EnvelopeVerdict();
    const bool sound = own.ok && Sha256(own.envelope.key) == digest &&
                       ReadEnvelopeFor(*bytes, kind, own.envelope.key).ok;
    if (!sound) {
      const std::string why = bytes.ok() ? own.detail : std::string(bytes.status().message());
      options_.log.Log(LogLevel::kWarn, "cache: " + Refused(name, why).detail);
      return;
    }
    Count(&prefetched_);
    sink(digest, own.envelope);
  }

  const RemoteOptions options_;
  const pid_t owner_ = getpid();
  std::mutex asking_mutex_;
  const std::unique_ptr<RemoteBackend> asking_;              // guarded by asking_mutex_
  const std::unique_ptr<RemoteBackend> background_backend_;  // of the thread
  CircuitBreaker breaker_;
  std::mutex bad_mutex_;
  std::set<std::string> bad_;  // names whose value did not hold; guarded by bad_mutex_
  std::atomic<bool> stopping_{false};
  Counter hits_{0}, absent_{0}, puts_{0}, dropped_{0}, prefetched_{0}, errors_{0}, refused_{0},
      skipped_{0}, leases_{0}, lease_waits_{0};
  Background background_;  // last: its jobs use all of the above
};

RemoteTier::RemoteTier(RemoteOptions options, std::unique_ptr<RemoteBackend> asking,
                       std::unique_ptr<RemoteBackend> background)
    : impl_(std::make_shared<Impl>(std::move(options), std::move(asking), std::move(background))) {}

// In the child of a fork the parent's thread cannot be joined and its locks may be held: all of it
// is left as it is.
RemoteTier::~RemoteTier() {
  Stop();
  if (!impl_->Mine()) new std::shared_ptr<Impl>(std::move(impl_));
}

void RemoteTier::Stop() {
  if (impl_->Mine()) impl_->Stop();
}

Lookup RemoteTier::Get(RecordKind kind, absl::string_view key, const Digest& digest) {
  if (!impl_->Mine())
    return Lookup::Miss(MissReason::kRemoteDown, "remote: the parent's, after a fork");
  try {
    return impl_->Get(kind, key, digest);
  } catch (const std::bad_alloc&) {
    return Lookup::Miss(MissReason::kIoError, "out of memory");
  }
}

void RemoteTier::Publish(RecordKind kind, absl::string_view key, const Digest& digest,
                         absl::string_view payload) {
  if (impl_->options().publish && impl_->Mine()) impl_->Publish(kind, key, digest, payload);
}

std::shared_ptr<void> RemoteTier::Lease(RecordKind kind, const Digest& digest, int64_t budget_us) {
  if (!impl_->options().publish || !impl_->Mine() || budget_us <= 0) return nullptr;
  const microseconds wait =
      std::min<microseconds>(microseconds(budget_us), impl_->options().lease_wait);
  const std::string token = impl_->TryLease(kind, digest, steady_clock::now() + wait);
  if (token.empty()) return nullptr;
  // The deleter gives the lease back, if the tier is still there; else its time ends it.
  return std::shared_ptr<void>(this,
                               [weak = std::weak_ptr<Impl>(impl_), kind, digest, token](void*) {
                                 if (const auto impl = weak.lock())
                                   impl->ReleaseLater(kind, digest, token);
                               });
}

void RemoteTier::Prefetch(std::function<bool(RecordKind, const Digest&)> wanted, RecordSink sink) {
  if (impl_->Mine()) impl_->Prefetch(std::move(wanted), std::move(sink));
}

bool RemoteTier::Flush(milliseconds limit) { return !impl_->Mine() || impl_->Flush(limit); }
RemoteStats RemoteTier::stats() const { return impl_->stats(); }
CircuitBreaker::State RemoteTier::breaker() const { return impl_->breaker(); }

}  // namespace sinter
