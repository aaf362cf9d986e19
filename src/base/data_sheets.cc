#include "src/base/data_sheets.h"

#include "absl/strings/match.h"
#include "src/base/arch.h"
#include "src/base/status.h"

namespace sinter {
namespace {

// What all chips of an architecture have, an SM: CUDA C Programming Guide, compute capabilities.
struct ArchSheet {
  absl::string_view arch;
  int shared_kb;  // of a block; an SM has one more
  int threads, blocks;
  int lanes;  // of single precision: instructions of other kinds share the issue slots
};
constexpr ArchSheet kArchSheets[] = {
    {"sm_80", 163, 2048, 32, 64},   {"sm_86", 99, 1536, 16, 128},  {"sm_89", 99, 1536, 24, 128},
    {"sm_100", 227, 2048, 32, 128}, {"sm_120", 99, 1536, 24, 128}, {"sm_121", 99, 1536, 24, 128},
};

struct ChipSheet {
  absl::string_view name, arch;
  int sm_count;
  double clock_mhz;  // boost
  double memory_gb_s;
  int l2_mb;
  double bf16_tflops, fp8_tflops;  // dense; without fp8 the same
  double link_gb_s;                // NVLink or PCIe, one direction
};
constexpr ChipSheet kChipSheets[] = {
    {"a100", "sm_80", 108, 1410, 2039, 40, 312, 312, 300},
    {"a10", "sm_86", 72, 1695, 600, 6, 125, 125, 32},
    {"l4", "sm_89", 58, 2040, 300, 48, 121, 242, 32},
    {"l40s", "sm_89", 142, 2520, 864, 96, 362, 733, 32},
    {"rtx-4090", "sm_89", 128, 2520, 1008, 72, 165, 330, 32},
    {"b200", "sm_100", 148, 1965, 8000, 126, 2250, 4500, 900},
    {"rtx-5090", "sm_120", 170, 2407, 1792, 96, 210, 419, 64},
    {"rtx-pro-6000", "sm_120", 188, 2617, 1792, 128, 500, 1000, 64},
    {"gb10", "sm_121", 48, 2418, 273, 24, 100, 200, 25},
};

// The share of a data sheet's rate that a stream reads at, of an H200: 4.64 of 4.8 TB/s; of other
// memories less is usual.
constexpr double kStreamShare = 0.92;

class Maker {
 public:
  Maker(const ChipSheet& chip, const ArchSheet& arch, const DeviceModel& measured)
      : chip_(chip), arch_(arch), base_(measured), model_(measured) {
    for (auto& [key, provenance] : model_.provenance) {
      if (provenance.from.empty()) provenance.from = base_.name;
    }
  }

  DeviceModel Make() {
    model_.name = std::string(chip_.name);
    model_.arch = std::string(chip_.arch);
    model_.measured = false;
    Sizes();
    ScaleRates();
    ScaleTimes();
    return std::move(model_);
  }

 private:
  // A figure of the data sheet.
  template <typename T, typename Value>
  void Told(absl::string_view key, T* field, Value value) {
    *field = static_cast<T>(value);
    model_.provenance[std::string(key)] = {Origin::kArchitecture, ""};
  }

  void Sizes() {
    constexpr int64_t kKb = 1024, kMb = 1024 * 1024;
    Told("sm_count", &model_.sm_count, chip_.sm_count);
    Told("l2_bytes", &model_.l2_bytes, chip_.l2_mb * kMb);
    Told("shared_bytes_per_block", &model_.shared_bytes_per_block, arch_.shared_kb * kKb);
    Told("shared_bytes_per_sm", &model_.shared_bytes_per_sm, (arch_.shared_kb + 1) * kKb);
    Told("threads_per_sm", &model_.threads_per_sm, arch_.threads);
    Told("blocks_per_sm", &model_.blocks_per_sm, arch_.blocks);
    Told("lanes_per_sm", &model_.lanes_per_sm, arch_.lanes);
    Told("clock_mhz", &model_.clock_mhz, chip_.clock_mhz);
    Told("tensor_flop_per_us", &model_.tensor_flop_per_us, chip_.bf16_tflops * 1e6);
    Told("tensor_fp8_flop_per_us", &model_.tensor_fp8_flop_per_us, chip_.fp8_tflops * 1e6);
    Told("hbm_bytes_per_us", &model_.hbm_bytes_per_us, chip_.memory_gb_s * 1e3 * kStreamShare);
    Told("link_bytes_per_us", &model_.link_bytes_per_us, chip_.link_gb_s * 1e3);
    Told("resident_clusters", &model_.resident_clusters, std::array<int, 5>{chip_.sm_count});
    const absl::StatusOr<ArchFeatures> features = FeaturesOf(chip_.arch);
    if (features.ok() && !features->early_launch) {
      Told("programmatic_edge_us", &model_.programmatic_edge_us, 0);
    }
  }

  // Rates of the chip follow SMs and clock, rates of an SM the clock.
  void ScaleRates() {
    const double clock = model_.clock_mhz / base_.clock_mhz;
    const double chip = clock * model_.sm_count / base_.sm_count;
    for (double* rate : {&model_.l2_bytes_per_us, &model_.l2_shared_bytes_per_us,
                         &model_.l2_rows_bytes_per_us, &model_.l2_window_bytes_per_us,
                         &model_.own_exchange_bytes_per_us, &model_.reduce_bytes_per_us}) {
      *rate *= chip;
    }
    for (double& rate : model_.dsm_bytes_per_us) rate *= chip;
    model_.sm_intake_bytes_per_us *= clock;
    model_.shared_bytes_per_us *= clock;
  }

  // Times that an SM works or waits for its caches. Others wait for memory, the grid or a launch.
  void ScaleTimes() {
    const double slower = base_.clock_mhz / model_.clock_mhz;
    StitchConstants& stitch = model_.stitch;
    for (double* time :
         {&model_.cluster_barrier_us, &stitch.held_read_us, &stitch.read_again_us,
          &stitch.warp_join_us, &stitch.block_join_us, &stitch.warp_meeting_us,
          &stitch.block_meeting_us, &stitch.step_us, &stitch.long_step_us, &stitch.split_join_us}) {
      *time *= slower;
    }
  }

  const ChipSheet& chip_;
  const ArchSheet& arch_;
  const DeviceModel& base_;
  DeviceModel model_;
};

}  // namespace

std::vector<std::string> DataSheetNames() {
  std::vector<std::string> names;
  for (const ChipSheet& chip : kChipSheets) names.emplace_back(chip.name);
  return names;
}

absl::StatusOr<DeviceModel> DataSheetModel(absl::string_view name, const DeviceModel& measured) {
  for (const ChipSheet& chip : kChipSheets) {
    if (!absl::EqualsIgnoreCase(name, chip.name)) continue;
    for (const ArchSheet& arch : kArchSheets) {
      if (arch.arch == chip.arch) return Maker(chip, arch, measured).Make();
    }
  }
  return NotFound("no data sheet of \"", name.substr(0, 64), "\"");
}

}  // namespace sinter
