#include "src/engine/tuning_set.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace sinter {

Digest ChipDigest(const DeviceModel& model) {
  return Sha256(absl::StrCat("sinter chip 1\n", model.name, "\n", model.arch, "\n", model.sm_count,
                             "\n", model.l2_bytes, "\n", model.shared_bytes_per_block, "\n",
                             model.registers_per_sm, "\n"));
}

void TuningSet::Add(TuningEntry entry) {
  const TuningKey key = entry.key;
  entries_[key] = std::move(entry);
}

void TuningSet::Merge(const TuningSet& other) {
  for (const auto& entry : other.entries_) entries_[entry.first] = entry.second;
}

const TuningEntry* TuningSet::Find(const TuningKey& key) const {
  const auto entry = entries_.find(key);
  return entry == entries_.end() ? nullptr : &entry->second;
}

bool TuningSet::HasChip(const Digest& chip) const {
  for (const auto& entry : entries_) {
    if (entry.first.chip == chip) return true;
  }
  return false;
}

}  // namespace sinter
