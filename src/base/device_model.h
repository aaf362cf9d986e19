// DeviceModel: everything the search knows about a chip. Plans are a function of it, never of the
// driver's answers.
#ifndef SINTER_SRC_BASE_DEVICE_MODEL_H_
#define SINTER_SRC_BASE_DEVICE_MODEL_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/base/digest.h"
#include "src/base/provenance.h"
#include "src/base/stitch_constants.h"

namespace sinter {

// Index of a cluster size in the per-cluster-size tables: 1, 2, 4, 8, 16 blocks.
constexpr std::array<int, 5> kClusterSizes = {1, 2, 4, 8, 16};
int ClusterIndex(int cluster_size);  // -1 when not in kClusterSizes

// Bandwidths in bytes per microsecond (1 TB/s = 1e6), latencies in microseconds, sizes in bytes.
struct DeviceModel {
  std::string name;       // "h200"
  std::string arch;       // "sm_90a"
  bool measured = false;  // false: figures are scaled from another chip, never measured on this one
  int sm_count = 0;
  int64_t l2_bytes = 0;
  int64_t l2_line_bytes = 0;
  double l2_kept_share = 0;  // share of l2_bytes: what fits into it stays until it is read again
  int64_t shared_bytes_per_block = 0;  // dynamic shared memory a block may have (opt-in maximum)
  int64_t shared_bytes_per_sm = 0;     // of all its blocks
  int64_t reserved_shared_bytes = 0;   // of each block, by the system
  int64_t registers_per_sm = 0;
  int threads_per_sm = 0;
  int blocks_per_sm = 0;
  double lanes_per_sm = 0;          // thread instructions that an SM issues per clock
  double special_lanes_per_sm = 0;  // the same for special functions
  double clock_mhz = 0;
  double tensor_flop_per_us =
      0;  // dense bf16, whole chip, in kernels too short to reach its power limit
  double tensor_fp8_flop_per_us = 0;  // the same for e4m3
  double hbm_bytes_per_us = 0;        // read stream, whole chip, every SM reading
  double hbm_idle_loss = 0;    // share of it that is lost for each share of SMs that are idle
  double l2_bytes_per_us = 0;  // L2 to all SMs, each reading bytes of its own
  double l2_shared_bytes_per_us = 0;  // the same, all SMs reading the same bytes
  double l2_reader_gain =
      0;  // share of l2_bytes_per_us that each doubling of the readers of weights adds
  // The same two for a product's rows, which are in L2 once they have been read.
  double l2_rows_bytes_per_us = 0;
  double l2_rows_reader_gain = 0;
  double l2_window_bytes_per_us = 0;  // the same for rows that im2col loads read, with one reader
  double l2_straddle_loss = 0;        // extra cost of a 128-byte row that lies in two cache lines
  // For one product of more than 128 rows. The first two are factors of L2's time: where L2 serves
  // equal loads of neighbours once, and where neighbours read different parts of K. The third is
  // the share of a ring's writes that counts beside operand reads of shared memory.
  double l2_merged_share = 0;
  double l2_split_share = 0;
  double ring_write_share = 0;
  double sm_intake_bytes_per_us = 0;         // L2 or HBM to one SM
  double shared_bytes_per_us = 0;            // shared memory of one SM, operand reads
  std::array<double, 5> dsm_bytes_per_us{};  // whole chip, by cluster size
  double own_exchange_bytes_per_us = 0;      // stores of C to each block's own memory, whole chip
  std::array<int, 5> resident_clusters{};    // of one-block-per-SM clusters, conservative
  double reduce_bytes_per_us = 0;            // f32 reduction into an L2-resident buffer
  double launch_us = 0;                      // empty kernel in a graph, plain edge
  double programmatic_edge_us = 0;           // saved by a programmatic edge in place of a plain one
  double fill_us = 0;       // first bytes of a kernel: launch to first full stage, above launch_us
  double stage_us = 0;      // cost of one ring stage, whatever its bytes
  double lone_step_us = 0;  // lost by a lone consumer warpgroup between two ring stages
  double reduce_us = 0;     // latency of adding up the parts of a split sum, beside their bytes
  double cluster_barrier_us = 0;  // barrier.cluster arrive + wait
  double grid_barrier_us = 0;     // one L2 counter or flag round over all blocks
  double drain_us = 0;            // last bytes stored to kernel end
  double register_chunk_us = 0;   // C of a tile through registers: two products awaited
  double behind_codes_us = 0;     // added to a stitched kernel that follows a product of codes
  double epilogue_value_us = 0;  // a thread's time to round one accumulator and bring it to a store
  StitchConstants stitch;

  // By key, for every figure; FromText and Assign fill it.
  std::map<std::string, Provenance> provenance;

  // Text form: one `key = value [provenance]` per line, `#` comments. name, arch and measured have
  // no provenance, every other key must have one. Unknown and missing keys are errors. Round-trips
  // exactly.
  std::string ToText() const;
  static absl::StatusOr<DeviceModel> FromText(absl::string_view text);
  // Sets the figure `key` to `value`, in the form of the text. INVALID_ARGUMENT, and nothing is
  // changed, when there is no such figure or the value is out of its bounds.
  absl::Status Assign(absl::string_view key, absl::string_view value, const Provenance& source);
  Digest ModelDigest() const;  // over names and values; a provenance changes no plan
  int ResidentBlocks(int cluster_size) const;
};

// Built-in models: "h200" (measured), "h100" (unmeasured, scaled).
absl::StatusOr<DeviceModel> BuiltinModel(absl::string_view name);
std::vector<std::string> BuiltinModelNames();

}  // namespace sinter

#endif  // SINTER_SRC_BASE_DEVICE_MODEL_H_
