#include "cache/janitor/janitor.h"

#include <algorithm>
#include <memory>
#include <tuple>
#include <vector>

#include "src/base/status.h"

namespace sinter {
namespace {

// Oldest use first; within one second the larger one, then by name, so that janitors agree.
bool GoesBefore(const StoredEntry& a, const StoredEntry& b) {
  return std::tie(a.last_use_unix_s, b.bytes, a.digest) <
         std::tie(b.last_use_unix_s, a.bytes, b.digest);
}

void EvictDownTo(RecordStore* store, std::vector<StoredEntry> entries, uint64_t goal,
                 SweepReport* report) {
  std::sort(entries.begin(), entries.end(), GoesBefore);
  uint64_t left = report->bytes;
  for (const StoredEntry& entry : entries) {
    if (left <= goal) break;
    if (!store->Evict(entry)) continue;
    left -= entry.bytes;
    ++report->evicted;
    report->evicted_bytes += entry.bytes;
  }
  if (report->evicted > 0) store->Evicted();
}

}  // namespace

absl::StatusOr<SweepReport> Sweep(RecordStore* store, const SweepLimits& limits) {
  SINTER_RETURN_IF_ERROR(store->usable());
  SweepReport report;
  const std::shared_ptr<void> lock = store->LockJanitor();
  if (lock == nullptr) {
    report.busy = true;
    return report;
  }
  report.orphans = store->RemoveOrphans(limits.orphan_age_s);
  SINTER_ASSIGN_OR_RETURN(std::vector<StoredEntry> entries, store->List());
  report.records = entries.size();
  for (const StoredEntry& entry : entries) report.bytes += entry.bytes;
  if (limits.max_bytes != 0 && report.bytes > limits.max_bytes) {
    EvictDownTo(store, std::move(entries), limits.max_bytes / 10 * 9, &report);
  }
  return report;
}

}  // namespace sinter
