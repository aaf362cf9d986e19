// The leases of RemoteTier: single flight in the fleet.
#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "cache/remote/remote_tier_impl.h"
#include "cache/store/files.h"

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
  } catch (const std::bad_alloc&) {  // its time ends it
  }
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

}  // namespace sinter
