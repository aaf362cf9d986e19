// The part of RemoteTier that serves the fleet, apart from look-ups: leases (single flight),
// prefetching, withdrawing.
#include <algorithm>
#include <chrono>
#include <ctime>
#include <new>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cache/remote/remote_tier.h"
#include "cache/remote/remote_tier_impl.h"
#include "cache/store/files.h"
#include "src/base/codec.h"
#include "src/base/digest.h"
#include "src/base/status.h"

namespace sinter {

namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kFirstPoll(10), kLongestPoll(250);

}  // namespace

std::string RemoteTier::Impl::TryLease(RecordKind kind, const Digest& digest, Deadline until) {
  const std::string name = LeaseName(options_.name_space, kind, digest), token = RandomName();
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
    const auto value =
        Ask(Name(kind, digest), std::min(until, steady_clock::now() + options_.get_budget));
    if (value.ok() || !absl::IsNotFound(value.status())) return std::string();
  }
}

void RemoteTier::Impl::ReleaseLater(RecordKind kind, const Digest& digest,
                                    const std::string& token) {
  if (!Mine()) return;
  try {
    background_.Push(0, [this, name = LeaseName(options_.name_space, kind, digest), token] {
      (void)InBackground([&](RemoteBackend* backend, Deadline deadline) {
        return backend->Release(name, token, deadline);
      });
    });
  } catch (const std::bad_alloc&) {  // the lease expires by itself
  }
}

std::shared_ptr<void> RemoteTier::Lease(RecordKind kind, const Digest& digest, int64_t budget_us) {
  if (!impl_->options().publish || !impl_->Mine() || budget_us <= 0) return nullptr;
  const microseconds wait =
      std::min<microseconds>(microseconds(budget_us), impl_->options().lease_wait);
  const std::string token = impl_->TryLease(kind, digest, steady_clock::now() + wait);
  if (token.empty()) return nullptr;
  // The deleter releases the lease if the tier still exists; else the lease expires.
  return std::shared_ptr<void>(this,
                               [weak = std::weak_ptr<Impl>(impl_), kind, digest, token](void*) {
                                 if (const auto impl = weak.lock())
                                   impl->ReleaseLater(kind, digest, token);
                               });
}

namespace {

constexpr size_t kPrefetchBatch = 32;

}  // namespace

void RemoteTier::Impl::Prefetch(std::function<bool(RecordKind, const Digest&)> wanted,
                                RecordSink sink) {
  background_.Push(0, [this, wanted = std::move(wanted), sink = std::move(sink)] {
    try {
      PrefetchNow(wanted, sink);
    } catch (const std::bad_alloc&) {  // missing records are fetched when they are needed
    }
  });
}

void RemoteTier::Impl::PrefetchNow(const std::function<bool(RecordKind, const Digest&)>& wanted,
                                   const RecordSink& sink) {
  std::vector<std::string> members;
  const absl::Status listed = InBackground([&](RemoteBackend* backend, Deadline deadline) {
    auto found = backend->Members(GroupName(options_.name_space, options_.group), deadline);
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

bool RemoteTier::Impl::TakeBatch(const std::vector<std::pair<RecordKind, Digest>>& batch,
                                 const RecordSink& sink) {
  std::vector<std::string> names;
  for (const auto& [kind, digest] : batch) names.push_back(Name(kind, digest));
  for (const auto& [kind, digest] : batch) names.push_back(MarkName(kind, digest));
  std::vector<absl::optional<std::string>> values;
  const absl::Status got = InBackground([&](RemoteBackend* backend, Deadline deadline) {
    auto found = backend->GetMany(names, deadline);
    if (found.ok()) values = *std::move(found);
    return found.status();
  });
  if (!got.ok()) return false;
  values.resize(names.size());
  for (size_t i = 0; i < batch.size() && !stopping_; ++i) {
    const auto& [kind, digest] = batch[i];
    const absl::optional<std::string>&value = values[i], &mark = values[batch.size() + i];
    if (mark.has_value()) {
      Tell(kind, digest, JudgeMark(names[batch.size() + i], *mark));
    } else if (value.has_value() && value->size() <= kMaxRemoteValueBytes) {
      Take(kind, digest, names[i], *value, sink);
    }
  }
  return !stopping_;
}

void RemoteTier::Impl::Take(RecordKind kind, const Digest& digest, const std::string& name,
                            const std::string& value, const RecordSink& sink) {
  const auto bytes = OpenValue(options_.secret, name, value);
  std::string withdrawn;
  if (bytes.ok() && IsWithdrawal(*bytes, &withdrawn)) {
    return Tell(kind, digest, Withdrawn(withdrawn));
  }
  const EnvelopeVerdict verdict =
      bytes.ok() ? ReadEnvelopeOf(*bytes, kind, digest) : EnvelopeVerdict();
  if (!verdict.ok) {
    const std::string why = bytes.ok() ? verdict.detail : std::string(bytes.status().message());
    options_.log.Log(LogLevel::kWarn, "cache: " + Refused(name, why).detail);
    return;
  }
  Count(&prefetched_);
  sink(digest, verdict.envelope);
}

void RemoteTier::Prefetch(std::function<bool(RecordKind, const Digest&)> wanted, RecordSink sink) {
  if (impl_->Mine()) impl_->Prefetch(std::move(wanted), std::move(sink));
}

namespace {

constexpr int64_t kLeastMarkTtlS = int64_t{365} * 24 * 3600;
constexpr int64_t kLongestTtlS = 10 * kLeastMarkTtlS;

}  // namespace

// A withdrawn record must never be served again. A mark under a name of its own says so and
// outlives every value: a publisher that has not heard of it replaces the value, not the mark. The
// value is replaced too, for library versions that do not know marks.
void RemoteTier::Impl::Withdraw(RecordKind kind, const Digest& digest, absl::string_view why) {
  const bool queued = background_.Push(why.size(), [this, kind, digest, text = std::string(why)] {
    try {
      WithdrawNow(kind, digest, text);
    } catch (const std::bad_alloc&) {
      Count(&dropped_);
    }
  });
  if (!queued) Count(&dropped_);
}

// The mark is written first, since it alone counts.
void RemoteTier::Impl::WithdrawNow(RecordKind kind, const Digest& digest, const std::string& why) {
  const std::string body = EncodeWithdrawal(static_cast<int64_t>(time(nullptr)), why);
  const int64_t ttl_s = std::max(kLeastMarkTtlS, 2 * std::min(options_.ttl_s, kLongestTtlS));
  absl::Status status;
  for (const std::string& name : {MarkName(kind, digest), Name(kind, digest)}) {
    if (!status.ok()) break;
    status = InBackground([&](RemoteBackend* backend, Deadline deadline) {
      return backend->Put(name, SealValue(options_.secret, name, body), ttl_s, /*replace=*/true,
                          deadline);
    });
  }
  Count(status.ok() ? &withdrawn_ : &dropped_);
  if (status.ok()) return;
  options_.log.Log(LogLevel::kWarn, absl::StrCat("cache: remote: ", Name(kind, digest),
                                                 " was found wrong and could not be ",
                                                 "withdrawn: ", status.message()));
}

Lookup RemoteTier::Impl::Withdrawn(absl::string_view why) {
  Count(&withdrawn_);
  return Lookup::Miss(MissReason::kQuarantined, absl::StrCat("remote: withdrawn: ", why));
}

// Somebody without the fleet's key may have overwritten a mark, so a record that has a bad mark is
// not trusted.
Lookup RemoteTier::Impl::JudgeMark(const std::string& name, absl::string_view value) {
  std::string why;
  const auto body = OpenValue(options_.secret, name, value);
  if (body.ok() && IsWithdrawal(*body, &why)) return Withdrawn(why);
  return Refused(name, "this fleet did not make the mark");
}

void RemoteTier::Impl::Tell(RecordKind kind, const Digest& digest, const Lookup& withdrawn) {
  const bool sure = withdrawn.reason == MissReason::kQuarantined;
  if (sure && on_withdrawn_) on_withdrawn_(kind, digest, withdrawn.detail);
}

bool RemoteTier::Impl::IsMarked(RecordKind kind, const Digest& digest) {
  const std::string name = MarkName(kind, digest);
  absl::optional<std::string> mark;
  (void)InBackground([&](RemoteBackend* backend, Deadline deadline) {
    auto found = backend->GetMany({name}, deadline);
    if (found.ok() && found->size() == 1) mark = std::move(found->front());
    return found.status();
  });
  if (mark.has_value()) Tell(kind, digest, JudgeMark(name, *mark));
  return mark.has_value();
}

namespace {

constexpr size_t kPushBatch = 64;

}  // namespace

absl::Status RemoteTier::Impl::PushValue(RecordKind kind, const Digest& digest,
                                         const std::string& value) {
  Deadline deadline = steady_clock::now() + kPushBudget;
  SINTER_RETURN_IF_ERROR(Asking(deadline, [&](RemoteBackend* backend) {
    return backend->Put(Name(kind, digest), value, options_.ttl_s, /*replace=*/false, deadline);
  }));
  Count(&puts_);
  if (options_.group.empty()) return absl::OkStatus();
  deadline = steady_clock::now() + options_.background_budget;
  return Asking(deadline, [&](RemoteBackend* backend) {
    return backend->AddMember(GroupName(options_.name_space, options_.group),
                              MemberName(kind, digest), options_.ttl_s, deadline);
  });
}

absl::Status RemoteTier::Impl::PushBatch(
    const std::vector<std::pair<RecordKind, Digest>>& records, size_t from, size_t to,
    const std::function<absl::StatusOr<std::string>(size_t)>& envelope_of, PushReport* report) {
  std::vector<std::string> names;
  for (size_t i = from; i < to; ++i) names.push_back(Name(records[i].first, records[i].second));
  for (size_t i = from; i < to; ++i) names.push_back(MarkName(records[i].first, records[i].second));
  const Deadline deadline = steady_clock::now() + options_.background_budget;
  SINTER_ASSIGN_OR_RETURN(const std::vector<bool> have, Asking(deadline, [&](RemoteBackend* b) {
                            return b->HaveMany(names, deadline);
                          }));
  for (size_t i = from; i < to; ++i) {
    ++report->records;
    const bool marked = have[to - from + i - from];
    if (marked || have[i - from]) {
      ++(marked ? report->withdrawn : report->present);
      continue;
    }
    const absl::StatusOr<std::string> envelope = envelope_of(i);
    if (!envelope.ok() && !absl::IsNotFound(envelope.status())) return envelope.status();
    const std::string value =
        envelope.ok() ? SealValue(options_.secret, names[i - from], *envelope) : std::string();
    if (!envelope.ok() || value.size() > kMaxRemoteValueBytes) {
      ++report->skipped;
      continue;
    }
    SINTER_RETURN_IF_ERROR(PushValue(records[i].first, records[i].second, value));
    ++report->pushed;
    report->pushed_bytes += value.size();
  }
  return absl::OkStatus();
}

// The host's name is looked up first: the thread may not have done so yet.
absl::Status RemoteTier::Impl::Push(
    const std::vector<std::pair<RecordKind, Digest>>& records,
    const std::function<absl::StatusOr<std::string>(size_t)>& envelope_of, PushReport* report) {
  asking_->Resolve(background_.closing());
  for (size_t from = 0; from < records.size(); from += kPushBatch) {
    const size_t to = std::min(records.size(), from + kPushBatch);
    SINTER_RETURN_IF_ERROR(PushBatch(records, from, to, envelope_of, report));
  }
  return absl::OkStatus();
}

absl::StatusOr<PushReport> RemoteTier::Push(
    const std::vector<std::pair<RecordKind, Digest>>& records,
    const std::function<absl::StatusOr<std::string>(size_t)>& envelope_of) {
  if (!impl_->options().publish) {
    return FailedPrecondition(
        "cache push: this context only reads the remote store: set SINTER_REMOTE_ROLE=publisher");
  }
  if (!impl_->Mine()) return Unavailable("remote: the parent's, after a fork");
  PushReport report;
  const absl::Status pushed = impl_->Push(records, envelope_of, &report);
  if (pushed.ok()) return report;
  return Annotate(pushed, absl::StrCat("cache push: ", report.pushed, " of ", records.size(),
                                       " records written, then (run it again to go on)"));
}

void RemoteTier::OnWithdrawn(WithdrawnSink sink) { impl_->OnWithdrawn(std::move(sink)); }

void RemoteTier::Withdraw(RecordKind kind, const Digest& digest, absl::string_view why) {
  if (impl_->options().publish && impl_->Mine()) impl_->Withdraw(kind, digest, why);
}

std::string RemoteName(absl::string_view name_space, RecordKind kind, const Digest& digest) {
  return absl::StrCat(name_space, ":v1:", MemberName(kind, digest));
}

std::string WithdrawnName(absl::string_view name_space, RecordKind kind, const Digest& digest) {
  return absl::StrCat(name_space, ":v1:withdrawn:", MemberName(kind, digest));
}

std::string LeaseName(absl::string_view name_space, RecordKind kind, const Digest& digest) {
  return absl::StrCat(name_space, ":v1:lease:", MemberName(kind, digest));
}

std::string GroupName(absl::string_view name_space, absl::string_view group) {
  return absl::StrCat(name_space, ":v1:group:", group);
}

std::string MemberName(RecordKind kind, const Digest& digest) {
  return absl::StrCat(kind == RecordKind::kKernel ? "k:" : "p:", digest.Hex());
}

bool ParseMember(absl::string_view member, RecordKind* kind, Digest* digest) {
  if (member.size() != 66 || member[1] != ':' || (member[0] != 'k' && member[0] != 'p'))
    return false;
  const auto parsed = Digest::FromHex(member.substr(2));
  if (!parsed.ok()) return false;
  *kind = member[0] == 'k' ? RecordKind::kKernel : RecordKind::kPlan;
  *digest = *parsed;
  return true;
}

namespace {

constexpr char kValueMagic[] = "SNTRHMC\n";
constexpr size_t kMagicSize = 8, kMacSize = 32;

Digest Mac(absl::string_view key, absl::string_view name, absl::string_view envelope) {
  ByteWriter message;
  message.Bytes(name);
  message.Raw(envelope);
  return HmacSha256(key, message.str());
}

}  // namespace

std::string SealValue(absl::string_view key, absl::string_view name, absl::string_view envelope) {
  const Digest mac = Mac(key, name, envelope);
  return absl::StrCat(absl::string_view(kValueMagic, kMagicSize), mac.View(), envelope);
}

absl::StatusOr<absl::string_view> OpenValue(absl::string_view key, absl::string_view name,
                                            absl::string_view value) {
  if (value.size() < kMagicSize + kMacSize ||
      value.substr(0, kMagicSize) != absl::string_view(kValueMagic, kMagicSize)) {
    return DataLoss("remote value: magic differs");
  }
  const absl::string_view envelope = value.substr(kMagicSize + kMacSize);
  const Digest mac = Mac(key, name, envelope);
  if (!EqualInConstantTime(mac.View(), value.substr(kMagicSize, kMacSize))) {
    return DataLoss("remote value: nobody with this fleet's key wrote it");
  }
  return envelope;
}

namespace {

constexpr absl::string_view kWithdrawalMagic("SNTRWDR\n", 8);
constexpr uint32_t kWithdrawalFormat = 1;

}  // namespace

std::string EncodeWithdrawal(int64_t unix_s, absl::string_view why) {
  ByteWriter out;
  out.Raw(kWithdrawalMagic);
  out.U32(kWithdrawalFormat);
  out.I64(unix_s);
  out.Bytes(why.substr(0, kMaxWithdrawalText));
  return out.Take();
}

bool IsWithdrawal(absl::string_view body, std::string* why) {
  if (!absl::StartsWith(body, kWithdrawalMagic)) return false;
  ByteReader in(body.substr(kWithdrawalMagic.size()));
  const uint32_t format = in.U32();
  in.I64();
  const absl::string_view text = in.Bytes().substr(0, kMaxWithdrawalText);
  *why =
      format == kWithdrawalFormat && in.ok() ? std::string(text) : std::string("no reason given");
  const auto printable = [](char c) { return absl::ascii_isprint(static_cast<unsigned char>(c)); };
  std::replace_if(
      why->begin(), why->end(), [&](char c) { return !printable(c); }, '?');
  return true;
}

}  // namespace sinter
