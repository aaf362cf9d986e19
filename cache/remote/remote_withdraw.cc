// Withdrawing by RemoteTier: a record that was found wrong is served to nobody any more.
//
// A mark under a name of its own says so, and outlives every value: a publisher that has not heard
// of it replaces the value, not the mark. The value is replaced too, for versions that know no
// marks.
#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cache/remote/remote_tier_impl.h"
#include "cache/remote/sealed_value.h"
#include "cache/remote/withdrawal.h"

namespace sinter {
namespace {

using std::chrono::system_clock;

constexpr int64_t kLeastMarkTtlS = int64_t{365} * 24 * 3600;
constexpr int64_t kLongestTtlS = 10 * kLeastMarkTtlS;

}  // namespace

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

// The mark first: it alone decides.
void RemoteTier::Impl::WithdrawNow(RecordKind kind, const Digest& digest, const std::string& why) {
  const int64_t now =
      std::chrono::duration_cast<std::chrono::seconds>(system_clock::now().time_since_epoch())
          .count();
  const std::string body = EncodeWithdrawal(now, why);
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

// Somebody without the key may have written over a mark: the record is not believed beside it.
Lookup RemoteTier::Impl::JudgeMark(const std::string& name, absl::string_view value) {
  std::string why;
  const auto body = OpenValue(options_.secret, name, value);
  if (body.ok() && IsWithdrawal(*body, &why)) return Withdrawn(why);
  return Refused(name, "it is no mark that this fleet made");
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

void RemoteTier::OnWithdrawn(WithdrawnSink sink) { impl_->OnWithdrawn(std::move(sink)); }

void RemoteTier::Withdraw(RecordKind kind, const Digest& digest, absl::string_view why) {
  if (impl_->options().publish && impl_->Mine()) impl_->Withdraw(kind, digest, why);
}

}  // namespace sinter
