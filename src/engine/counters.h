// Counters of one engine; EngineStats is their snapshot.
#ifndef SINTER_SRC_ENGINE_COUNTERS_H_
#define SINTER_SRC_ENGINE_COUNTERS_H_

#include <atomic>
#include <cstdint>

namespace sinter {

// Each only ever grows; relaxed, so a snapshot is not one instant.
struct Counters {
  std::atomic<uint64_t> prepares{0}, plan_hits{0}, searched{0};
  std::atomic<uint64_t> kernels_compiled{0}, kernel_hits{0}, kernels_loaded{0};
  std::atomic<uint64_t> launches{0}, waits{0}, wrong_kernels{0}, non_resident_fallbacks{0};
  std::atomic<uint64_t> stand_ins{0};
  std::atomic<uint64_t> tuned_plans{0}, tuned_refused{0};
  std::atomic<uint64_t> refused_records{0};  // found, and not what their keys say
  std::atomic<uint64_t> search_ns{0}, compile_ns{0};
  std::atomic<uint64_t> slot_builds_begun{0}, slot_builds_ended{0}, slot_failures{0},
      slot_upgrades{0};
  std::atomic<uint64_t> slot_measurements_begun{0}, slot_measurements{0}, slot_measured_wins{0},
      slot_measurements_given_up{0};
  std::atomic<uint64_t> compiles_begun{0};    // less kernels_compiled: under way
  std::atomic<uint64_t> denied{0};            // look-ups of kernels of a denied toolchain
  std::atomic<uint64_t> compile_saved_ns{0};  // of kernels that came from the cache
  std::atomic<uint64_t> gpu_saved_ns{0};      // launches x (unfused - what runs)
  std::atomic<uint64_t> last_launched{0};     // ShortDigest of the plan; no counter
};

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_COUNTERS_H_
