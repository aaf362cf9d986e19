// Prefetching by RemoteTier: everything of a group that is wanted, in the background.
#include <new>
#include <utility>

#include "cache/remote/remote_tier_impl.h"
#include "cache/remote/sealed_value.h"
#include "cache/remote/withdrawal.h"

namespace sinter {
namespace {

constexpr size_t kPrefetchBatch = 32;

}  // namespace

void RemoteTier::Impl::Prefetch(std::function<bool(RecordKind, const Digest&)> wanted,
                                RecordSink sink) {
  background_.Push(0, [this, wanted = std::move(wanted), sink = std::move(sink)] {
    try {
      PrefetchNow(wanted, sink);
    } catch (const std::bad_alloc&) {  // what was not prefetched is asked for when it is needed
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

void RemoteTier::Prefetch(std::function<bool(RecordKind, const Digest&)> wanted, RecordSink sink) {
  if (impl_->Mine()) impl_->Prefetch(std::move(wanted), std::move(sink));
}

}  // namespace sinter
