#include "cache/remote/remote_tier.h"

#include <algorithm>
#include <ctime>
#include <new>
#include <thread>

#include "absl/strings/str_cat.h"
#include "cache/record/record.h"
#include "cache/remote/remote_tier_impl.h"
#include "src/base/status.h"

namespace sinter {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::chrono::microseconds kTurnPause(100);  // sleep between checks of whose turn it is

}  // namespace

RemoteTier::Impl::Impl(RemoteOptions options, std::unique_ptr<RemoteBackend> asking,
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

// It polls, since ThreadSanitizer does not see a timed mutex being locked by its deadline, and a
// condition variable with waiters cannot be destroyed in the child of a fork.
bool RemoteTier::Impl::LockUntil(std::unique_lock<std::mutex>* lock, Deadline deadline) {
  while (!lock->try_lock()) {
    if (steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(kTurnPause);
  }
  return true;
}

void RemoteTier::Impl::ResolveBoth() {
  background_backend_->Resolve(background_.closing());
  asking_->Resolve(background_.closing());
}

absl::StatusOr<std::string> RemoteTier::Impl::Ask(const std::string& name, Deadline deadline) {
  auto values =
      Asking(deadline, [&](RemoteBackend* backend) { return backend->GetMany({name}, deadline); });
  if (!values.ok()) return values.status();
  if (values->size() != 1 || !values->front().has_value()) return NotFound("absent");
  if (values->front()->size() <= kMaxRemoteValueBytes) return *std::move(values->front());
  return Unavailable("remote: a value of ", values->front()->size(), " bytes, at most ",
                     kMaxRemoteValueBytes);
}

// Whether a record was withdrawn is asked only when there is a sound value, so that a miss costs
// one question.
Lookup RemoteTier::Impl::Get(RecordKind kind, absl::string_view key, const Digest& digest) {
  const Deadline deadline = steady_clock::now() + options_.get_budget;
  const std::string name = Name(kind, digest);
  absl::StatusOr<std::string> value = Ask(name, deadline);
  if (absl::IsNotFound(value.status())) {
    Count(&absent_);
    return Lookup::Miss(MissReason::kAbsent, "");
  }
  if (!value.ok()) return Down(value.status());
  std::string why;
  const auto envelope = OpenValue(options_.secret, name, *value);
  if (!envelope.ok()) return Refused(name, std::string(envelope.status().message()));
  if (IsWithdrawal(*envelope, &why)) return Withdrawn(why);
  const EnvelopeVerdict verdict = ReadEnvelopeFor(*envelope, kind, key);
  if (!verdict.ok) return Refused(name, verdict.detail);
  const std::string mark = MarkName(kind, digest);
  const absl::StatusOr<std::string> found = Ask(mark, deadline);
  if (found.ok()) return JudgeMark(mark, *found);
  if (!absl::IsNotFound(found.status())) return Down(found.status());
  Count(&hits_);
  Lookup hit;
  hit.hit = true;
  hit.payload = std::string(verdict.envelope.payload);
  hit.tier = "remote";
  return hit;
}

void RemoteTier::Impl::Refuse(const std::string& name) {
  std::lock_guard<std::mutex> lock(bad_mutex_);
  if (bad_.size() < 10000) bad_.insert(name);
}

Lookup RemoteTier::Impl::Refused(const std::string& name, std::string why) {
  Count(&refused_);
  Refuse(name);
  return Lookup::Miss(MissReason::kDamaged, absl::StrCat("remote ", name, ": ", why));
}

// Queued, because hashing and sealing take longer than a caller should wait.
void RemoteTier::Impl::Publish(RecordKind kind, absl::string_view key, const Digest& digest,
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

void RemoteTier::Impl::PublishNow(RecordKind kind, absl::string_view key, const Digest& digest,
                                  absl::string_view payload) {
  const Envelope envelope =
      MakeEnvelope(kind, key, payload, options_.producer, static_cast<int64_t>(time(nullptr)));
  const std::string name = Name(kind, digest);
  const std::string value = SealValue(options_.secret, name, EncodeEnvelope(envelope));
  if (value.size() > kMaxRemoteValueBytes || IsMarked(kind, digest)) {
    Count(&dropped_);
    return;
  }
  Store(name, value, envelope.verified || IsBad(name), MemberName(kind, digest));
}

// Whether the value under `name` was found invalid; asking forgets it. Such a value may be
// overwritten; otherwise it would block its name until it expires.
bool RemoteTier::Impl::IsBad(const std::string& name) {
  std::lock_guard<std::mutex> lock(bad_mutex_);
  return bad_.erase(name) != 0;
}

void RemoteTier::Impl::Store(const std::string& name, const std::string& value, bool replace,
                             const std::string& member) {
  absl::Status status = InBackground([&](RemoteBackend* backend, Deadline deadline) {
    return backend->Put(name, value, options_.ttl_s, replace, deadline);
  });
  if (status.ok() && !options_.group.empty()) {
    status = InBackground([&](RemoteBackend* backend, Deadline deadline) {
      return backend->AddMember(GroupName(options_.name_space, options_.group), member,
                                options_.ttl_s, deadline);
    });
  }
  Count(status.ok() ? &puts_ : &dropped_);
}

RemoteStats RemoteTier::Impl::stats() const {
  RemoteStats out;
  out.hits = hits_;
  out.absent = absent_;
  out.puts = puts_;
  out.dropped = dropped_;
  out.prefetched = prefetched_;
  out.errors = errors_;
  out.refused = refused_;
  out.skipped = skipped_;
  out.withdrawn = withdrawn_;
  out.leases = leases_;
  out.lease_waits = lease_waits_;
  out.opened = breaker_.times_opened();
  return out;
}

RemoteTier::RemoteTier(RemoteOptions options, std::unique_ptr<RemoteBackend> asking,
                       std::unique_ptr<RemoteBackend> background)
    : impl_(std::make_shared<Impl>(std::move(options), std::move(asking), std::move(background))) {}

// In the child of a fork the parent's thread cannot be joined and its locks may be held, so
// everything is left as it is.
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

void RemoteTier::Refuse(RecordKind kind, const Digest& digest) {
  if (impl_->Mine()) impl_->Refuse(kind, digest);
}

bool RemoteTier::Flush(milliseconds limit) { return !impl_->Mine() || impl_->Flush(limit); }
RemoteStats RemoteTier::stats() const { return impl_->stats(); }
CircuitBreaker::State RemoteTier::breaker() const { return impl_->breaker(); }

namespace {

constexpr std::chrono::seconds kWindow(10);
constexpr size_t kLeastCalls = 10;
constexpr size_t kMostCalls = 1000;  // kept
constexpr int kLateInARow = 3;
constexpr std::chrono::milliseconds kFirstPause(1000), kLongestPause(60000);

}  // namespace

bool CircuitBreaker::Allow(Time now) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (state_ == State::kClosed) return true;
    if (state_ == State::kHalfOpen || now < until_) return false;
    state_ = State::kHalfOpen;
  }
  Tell(State::kOpen, State::kHalfOpen);
  return true;
}

void CircuitBreaker::Note(Time now, bool failed) {
  calls_.push_back({now, failed});
  while (now - calls_.front().at > kWindow || calls_.size() > kMostCalls) calls_.pop_front();
}

void CircuitBreaker::Succeeded(Time now) {
  State before;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    before = state_;
    late_in_a_row_ = 0;
    if (state_ == State::kOpen) return;  // a call from before it opened
    if (state_ == State::kHalfOpen) {
      calls_.clear();
      pause_ = kFirstPause;
    }
    state_ = State::kClosed;
    Note(now, false);
  }
  Tell(before, State::kClosed);
}

void CircuitBreaker::Open(Time now) {
  random_ = random_ * 6364136223846793005u + 1442695040888963407u;
  const int64_t most = pause_.count() / 4;
  const auto shorter = static_cast<int64_t>((random_ >> 33) % static_cast<uint64_t>(most + 1));
  until_ = now + pause_ - std::chrono::milliseconds(shorter);
  pause_ = std::min(2 * pause_, kLongestPause);
  state_ = State::kOpen;
  late_in_a_row_ = 0;
  calls_.clear();
  ++opened_;
}

void CircuitBreaker::Failed(Time now, bool late) {
  State before;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    before = state_;
    if (state_ == State::kOpen) return;
    late_in_a_row_ = late ? late_in_a_row_ + 1 : 0;
    Note(now, true);
    const auto failed = static_cast<size_t>(
        std::count_if(calls_.begin(), calls_.end(), [](const Call& c) { return c.failed; }));
    const bool often = calls_.size() >= kLeastCalls && 2 * failed >= calls_.size();
    if (state_ != State::kHalfOpen && !often && late_in_a_row_ < kLateInARow) return;
    Open(now);
  }
  Tell(before, State::kOpen);
}

CircuitBreaker::State CircuitBreaker::state() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return state_;
}

uint64_t CircuitBreaker::times_opened() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return opened_;
}

const char* NameOf(CircuitBreaker::State state) {
  switch (state) {
    case CircuitBreaker::State::kClosed:
      return "closed";
    case CircuitBreaker::State::kOpen:
      return "open";
    case CircuitBreaker::State::kHalfOpen:
      return "half-open";
  }
  return "invalid";
}

}  // namespace sinter
