// Nearest: finds the entry closest to a key that missed, and what differs, for the error of a
// look-up that had to hit.
#ifndef SINTER_CACHE_TIERS_NEAREST_H_
#define SINTER_CACHE_TIERS_NEAREST_H_

#include <string>

#include "absl/strings/string_view.h"
#include "src/base/ports.h"

namespace sinter {

// Takes keys one by one and remembers the closest. Thread-compatible.
class Nearest {
 public:
  Nearest(RecordKind kind, absl::string_view key) : kind_(kind), key_(key) {}

  // `where` names the tier. Keys of another kind are ignored.
  void Offer(RecordKind kind, absl::string_view key, absl::string_view where);
  // One line: the entry, its tier, and each field that differs with both values.
  std::string Explain() const;

 private:
  struct Difference {
    int distance = 0;
    std::string text;
  };
  static Difference Compare(RecordKind kind, absl::string_view got, absl::string_view want);

  const RecordKind kind_;
  const std::string key_;
  uint64_t offered_ = 0;
  int distance_ = 1 << 30;
  std::string best_;
};

}  // namespace sinter

#endif  // SINTER_CACHE_TIERS_NEAREST_H_
