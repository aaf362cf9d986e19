// TuningSet: measured records (MeasuredChoice of keys.h), each with what it was measured for. A set
// is named by the digest of its text form, which is all that ranks have to compare.
#ifndef SINTER_SRC_ENGINE_TUNING_SET_H_
#define SINTER_SRC_ENGINE_TUNING_SET_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/base/device_model.h"
#include "src/base/digest.h"

namespace sinter {

// What a choice was measured for. It holds no cost model: measurements stay valid when the model is
// recalibrated.
struct TuningKey {
  Digest chain;  // of its canonical form
  int64_t bucket = 0;
  Digest chip;         // ChipDigest
  uint64_t flags = 0;  // as in the plan key

  bool operator<(const TuningKey& o) const {
    return std::tie(chain, bucket, chip, flags) < std::tie(o.chain, o.bucket, o.chip, o.flags);
  }
};

// Digest of the chip itself: name, arch, SMs, cache, shared memory and registers, without the
// figures that only a cost model uses.
Digest ChipDigest(const DeviceModel& model);

// A measured record, with what it was measured for. Its bytes are opaque here, so a set whose
// records have another format can still be read and extended.
struct TuningEntry {
  TuningKey key;
  std::string about;   // for human readers, lines: chip, plan, schedules, figures, device
  std::string record;  // EncodePlanRecord, without toolchain and sources
};

// A value. The text form is canonical: one text per set of entries, without
// times and paths, sorted by key, so that it can be compared, diffed and signed.
//   sinter tuning set 2
//   chain <hex> m <bucket> chip <hex> flags <n>     an entry
//     measured_us 4.25                              `about`, an indented line each
//     record <hex>
//   sha256 <hex>                                    of all bytes before this line: the set's digest
class TuningSet {
 public:
  // Replaces an entry of the same key.
  void Add(TuningEntry entry);
  // Adds all entries of `other`; where both have a key, this set's entry stays.
  void Merge(const TuningSet& other);
  const TuningEntry* Find(const TuningKey& key) const;
  const std::map<TuningKey, TuningEntry>& entries() const { return entries_; }
  bool HasChip(const Digest& chip) const;

  Digest SetDigest() const;
  std::string ToText() const;
  // DATA_LOSS with the line and the reason unless `text` is exactly what ToText makes.
  static absl::StatusOr<TuningSet> FromText(absl::string_view text);

 private:
  std::map<TuningKey, TuningEntry> entries_;
};

// Tuning sets as files: read once when a context is made, written once when a tuning is done.

constexpr uint64_t kMaxTuningFile = uint64_t{64} << 20;  // bytes

// INVALID_ARGUMENT with the path and the reason when the file is missing, unreadable, no regular
// file, owned by another user than we or root, writable by group or others, larger than
// kMaxTuningFile, damaged, or of another format. Whoever names a set wants that set, so it is never
// ignored.
absl::StatusOr<TuningSet> ReadTuningFile(const std::string& path);

// Writes a new file next to `path` and renames it: a reader sees the old set or the new one.
// INVALID_ARGUMENT with the path and the reason.
absl::Status WriteTuningFile(const TuningSet& set, const std::string& path);

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_TUNING_SET_H_
