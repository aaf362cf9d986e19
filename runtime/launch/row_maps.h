// Tensor maps that depend on M, kept from launch to launch.
#ifndef SINTER_RUNTIME_LAUNCH_ROW_MAPS_H_
#define SINTER_RUNTIME_LAUNCH_ROW_MAPS_H_

#include <cuda.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace sinter {

// A binding keeps the encoded maps of the first four values of M that it is launched with, so that
// a launch with one of them encodes nothing. Thread-safe after Resize. Invariant: a slot is filled
// once, by the launch that claimed it, before its number of rows shows.
class RowMaps {
 public:
  // `count` maps for each number of rows. Before the first launch.
  void Resize(size_t count) {
    count_ = count;
    maps_ = std::make_unique<CUtensorMap[]>(kSlots * count);
  }
  size_t count() const { return count_; }

  // The maps of `m` rows, or null.
  const CUtensorMap* Find(int64_t m) const {
    for (size_t i = 0; i < kSlots; ++i) {
      if (rows_[i].load(std::memory_order_acquire) == m) return &maps_[i * count_];
    }
    return nullptr;
  }

  // Keeps `count` maps of `m` rows where there is room.
  void Keep(int64_t m, const CUtensorMap* maps) const {
    for (size_t i = 0; i < kSlots; ++i) {
      int64_t free = kFree;
      if (!rows_[i].compare_exchange_strong(free, kClaimed, std::memory_order_relaxed)) continue;
      std::copy(maps, maps + count_, &maps_[i * count_]);
      rows_[i].store(m, std::memory_order_release);
      return;
    }
  }

 private:
  static constexpr size_t kSlots = 4;
  static constexpr int64_t kFree = -2, kClaimed = -1;

  size_t count_ = 0;
  std::unique_ptr<CUtensorMap[]> maps_;
  mutable std::atomic<int64_t> rows_[kSlots] = {kFree, kFree, kFree, kFree};
};

}  // namespace sinter

#endif  // SINTER_RUNTIME_LAUNCH_ROW_MAPS_H_
