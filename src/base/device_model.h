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
#include "src/base/launch_recipe.h"

namespace sinter {

// StitchConstants: the constants of a chip that the cost model of stitched kernels needs in
// addition to every kernel's. Part of DeviceModel.

// Times in microseconds, shares and counts without a unit. In a model file each key begins with
// "stitch_".
struct StitchConstants {
  // Streams and instructions.
  double copy_share = 0;       // share of hbm_bytes_per_us left when a stream is also written
  double few_sms_gain = 0;     // how many times its share of HBM's rate one of a few SMs gets
  double alike_share = 0;      // of bytes that all units read, the share from L2; the rest: L1
  double issue_share = 0;      // counted instructions per issue slot: two often become one
  double issue_warps = 0;      // warps that fill an SM's issue slots
  double persistent_loss = 0;  // share lost by blocks that take turns, not replaced by new ones
  double overlap_groups = 0;   // groups of a block that fully hide one another's work
  double overlap_limit = 0;    // most groups whose work can be hidden
  double special_issue = 0;    // issue slots taken by one turn of the special function unit
  // A turn of a block waits for these.
  double read_us = 0;           // a first read from memory
  double held_read_us = 0;      // the same from shared memory
  double read_again_us = 0;     // a later read, from L1 or L2
  double keep_alike_us = 0;     // to keep what all units read alike, before the first unit
  double warp_join_us = 0;      // a row reduction by a warp
  double block_join_us = 0;     // and by a block
  double warp_meeting_us = 0;   // a warp's synchronisation to hand values over
  double block_meeting_us = 0;  // and a block's
  // A thread's own chain of reads.
  double step_us = 0;             // a step
  double long_step_us = 0;        // more of a step beyond the first short_steps
  double short_steps = 0;         // steps whose reads are under way together
  double split_join_us = 0;       // each chain beyond the second that lanes share
  double chain_issue_share = 0;   // of a clock: instructions that one such chain issues
  double hidden_chain_issue = 0;  // instructions of such chains that other warps hide
  // A launch.
  double cluster_start_us = 0;        // to start clusters
  double cluster_block_start_us = 0;  // and each block of one
  double pack_us = 0;                 // until a block of a packed kernel knows its part
  double phase_us = 0;                // until reads are under way again after a grid's barrier
  // Column reductions.
  double column_part_us = 0;      // to read one round of parts
  double column_join_us = 0;      // in addition to that and the grid's barriers
  double column_join_all_us = 0;  // the same where each block joins for itself
  double column_read_share = 0;   // of an SM's intake, by a block's own loads
  double column_arrive_us = 0;    // each block beyond one an SM, where the grid meets
  // Differences of predictions too small to mean anything.
  double error_share = 0;  // of the time of two kernels, against one kernel of both
  double error_us = 0;     // of two launches against one
};

// Provenance: where a figure of a device model comes from.

enum class Origin : uint8_t {
  kUnknown = 0,   // never in a model file
  kMeasured,      // by a program that does nothing else
  kArchitecture,  // documented, or reported by the driver
  kFitted,        // chosen so that predictions are near measured kernels
};

struct Provenance {
  Origin origin = Origin::kUnknown;
  std::string
      from;  // the model that the figure, or the one that it is scaled from, comes from; "": none

  // "measured", "fitted from h200".
  std::string ToText() const;
  // INVALID_ARGUMENT for another word than measured, architecture and fitted, or for a bad name
  // after "from".
  static absl::StatusOr<Provenance> FromText(absl::string_view text);
};

// A model's name: 1 to 64 letters, digits, '_', '-' or '.'.
bool IsModelName(absl::string_view name);

// Index of a cluster size in the per-cluster-size tables: 1, 2, 4, 8, 16 blocks.
constexpr std::array<int, 5> kClusterSizes = {1, 2, 4, 8, 16};
int ClusterIndex(int cluster_size);  // -1 when not in kClusterSizes

// Bandwidths in bytes per microsecond (1 TB/s = 1e6), latencies in microseconds, sizes in bytes.
struct DeviceModel {
  std::string name;       // "h200"
  std::string arch;       // "sm_90a": what code is made for (arch.h)
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
  double hbm_pair_loss = 0;    // extra time of a stream of weights whose blocks share rows in pairs
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
  // equal loads of neighbours once, and where neighbours read different parts of K. The next two:
  // groups of SMs share what they take from L2, and up to so many blocks at work are dealt out to
  // them evenly; of more, all in one turn, the largest groups take so many times as long. The last
  // is the share of a ring's writes that counts in addition to operand reads of shared memory.
  double l2_merged_share = 0;
  double l2_split_share = 0;
  int l2_even_blocks = 0;
  double l2_uneven_share = 0;
  double ring_write_share = 0;
  double half_sector_loss =
      0;  // extra time of a tile's stores if it ends in the middle of a sector
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
  double reduce_us = 0;     // latency of adding the parts of a split sum, without their bytes
  double cluster_barrier_us = 0;  // barrier.cluster arrive + wait
  double grid_barrier_us = 0;     // one L2 counter or flag round over all blocks
  double link_bytes_per_us = 0;   // to another GPU of the host, one direction
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

// Built-in models: "h200" (measured), "h100" (scaled), and those of data sheets (data_sheets.h).
absl::StatusOr<DeviceModel> BuiltinModel(absl::string_view name);
std::vector<std::string> BuiltinModelNames();

// The one list of a device model's fields: writing, reading, checking and assigning all walk it.

// Calls visit(key, field, low, high) for every field of `costs`, bounds included.
template <typename Costs, typename Visitor>
void VisitStitchConstants(Costs& costs, Visitor&& visit) {
  constexpr double kLongest = 1e6;  // microseconds
  visit("stitch_copy_share", costs.copy_share, 0.01, 1);
  visit("stitch_few_sms_gain", costs.few_sms_gain, 0.01, 100);
  visit("stitch_alike_share", costs.alike_share, 0, 1);
  visit("stitch_issue_share", costs.issue_share, 0.01, 100);
  visit("stitch_issue_warps", costs.issue_warps, 1, 64);
  visit("stitch_persistent_loss", costs.persistent_loss, 0, 1);
  visit("stitch_overlap_groups", costs.overlap_groups, 1, 64);
  visit("stitch_overlap_limit", costs.overlap_limit, 1, 64);
  visit("stitch_special_issue", costs.special_issue, 0, 1000);
  visit("stitch_read_us", costs.read_us, 0, kLongest);
  visit("stitch_held_read_us", costs.held_read_us, 0, kLongest);
  visit("stitch_read_again_us", costs.read_again_us, 0, kLongest);
  visit("stitch_keep_alike_us", costs.keep_alike_us, 0, kLongest);
  visit("stitch_warp_join_us", costs.warp_join_us, 0, kLongest);
  visit("stitch_block_join_us", costs.block_join_us, 0, kLongest);
  visit("stitch_warp_meeting_us", costs.warp_meeting_us, 0, kLongest);
  visit("stitch_block_meeting_us", costs.block_meeting_us, 0, kLongest);
  visit("stitch_step_us", costs.step_us, 0, kLongest);
  visit("stitch_long_step_us", costs.long_step_us, 0, kLongest);
  visit("stitch_short_steps", costs.short_steps, 0, 1e6);
  visit("stitch_split_join_us", costs.split_join_us, 0, kLongest);
  visit("stitch_chain_issue_share", costs.chain_issue_share, 0.01, 100);
  visit("stitch_hidden_chain_issue", costs.hidden_chain_issue, 0, 1e9);
  visit("stitch_cluster_start_us", costs.cluster_start_us, 0, kLongest);
  visit("stitch_cluster_block_start_us", costs.cluster_block_start_us, 0, kLongest);
  visit("stitch_pack_us", costs.pack_us, 0, kLongest);
  visit("stitch_phase_us", costs.phase_us, 0, kLongest);
  visit("stitch_column_part_us", costs.column_part_us, 0, kLongest);
  visit("stitch_column_join_us", costs.column_join_us, 0, kLongest);
  visit("stitch_column_join_all_us", costs.column_join_all_us, 0, kLongest);
  visit("stitch_column_read_share", costs.column_read_share, 0.01, 1);
  visit("stitch_column_arrive_us", costs.column_arrive_us, 0, kLongest);
  visit("stitch_error_share", costs.error_share, 0, 1);
  visit("stitch_error_us", costs.error_us, 0, kLongest);
}

// The same for every field of `model`, in the order of the text form.
template <typename Model, typename Visitor>
void VisitFields(Model& model, Visitor&& visit) {
  constexpr double kLongest = 1e6;        // microseconds
  constexpr double kLargestBlock = 1024;  // threads: an SM holds at least one block
  visit("name", model.name, 0, 0);
  visit("arch", model.arch, 0, 0);
  visit("measured", model.measured, 0, 0);
  visit("sm_count", model.sm_count, 1, 4096);
  visit("l2_bytes", model.l2_bytes, 1, 1e12);
  visit("l2_line_bytes", model.l2_line_bytes, 1, 1 << 20);
  visit("l2_kept_share", model.l2_kept_share, 0, 1);
  visit("shared_bytes_per_block", model.shared_bytes_per_block, 1024, kMaxRecipeSharedBytes);
  visit("shared_bytes_per_sm", model.shared_bytes_per_sm, 1024, 1 << 24);
  visit("reserved_shared_bytes", model.reserved_shared_bytes, 0, 1 << 20);
  visit("registers_per_sm", model.registers_per_sm, 1024, 1 << 24);
  visit("threads_per_sm", model.threads_per_sm, kLargestBlock, 1 << 16);
  visit("blocks_per_sm", model.blocks_per_sm, 1, 4096);
  visit("lanes_per_sm", model.lanes_per_sm, 1, 1e6);
  visit("special_lanes_per_sm", model.special_lanes_per_sm, 1, 1e6);
  visit("clock_mhz", model.clock_mhz, 1, 1e5);
  visit("tensor_flop_per_us", model.tensor_flop_per_us, 1, 1e15);
  visit("tensor_fp8_flop_per_us", model.tensor_fp8_flop_per_us, 1, 1e15);
  visit("hbm_bytes_per_us", model.hbm_bytes_per_us, 1, 1e12);
  visit("hbm_idle_loss", model.hbm_idle_loss, 0, 1);
  visit("hbm_pair_loss", model.hbm_pair_loss, 0, 10);
  visit("l2_bytes_per_us", model.l2_bytes_per_us, 1, 1e12);
  visit("l2_shared_bytes_per_us", model.l2_shared_bytes_per_us, 1, 1e12);
  visit("l2_reader_gain", model.l2_reader_gain, 0, 10);
  visit("l2_rows_bytes_per_us", model.l2_rows_bytes_per_us, 1, 1e12);
  visit("l2_rows_reader_gain", model.l2_rows_reader_gain, 0, 10);
  visit("l2_window_bytes_per_us", model.l2_window_bytes_per_us, 1, 1e12);
  visit("l2_straddle_loss", model.l2_straddle_loss, 0, 10);
  visit("l2_merged_share", model.l2_merged_share, 0.01, 1);
  visit("l2_split_share", model.l2_split_share, 1, 10);
  visit("l2_even_blocks", model.l2_even_blocks, 1, 4096);
  visit("l2_uneven_share", model.l2_uneven_share, 1, 10);
  visit("ring_write_share", model.ring_write_share, 0, 1);
  visit("half_sector_loss", model.half_sector_loss, 0, 10);
  visit("sm_intake_bytes_per_us", model.sm_intake_bytes_per_us, 1, 1e12);
  visit("shared_bytes_per_us", model.shared_bytes_per_us, 1, 1e12);
  visit("dsm_bytes_per_us", model.dsm_bytes_per_us, 1, 1e12);
  visit("own_exchange_bytes_per_us", model.own_exchange_bytes_per_us, 1, 1e12);
  visit("resident_clusters", model.resident_clusters, 0, 4096);
  visit("reduce_bytes_per_us", model.reduce_bytes_per_us, 1, 1e12);
  visit("launch_us", model.launch_us, 0, kLongest);
  visit("programmatic_edge_us", model.programmatic_edge_us, 0, kLongest);
  visit("fill_us", model.fill_us, 0, kLongest);
  visit("stage_us", model.stage_us, 0, kLongest);
  visit("lone_step_us", model.lone_step_us, 0, kLongest);
  visit("reduce_us", model.reduce_us, 0, kLongest);
  visit("cluster_barrier_us", model.cluster_barrier_us, 0, kLongest);
  visit("grid_barrier_us", model.grid_barrier_us, 0, kLongest);
  visit("link_bytes_per_us", model.link_bytes_per_us, 1, 1e12);
  visit("drain_us", model.drain_us, 0, kLongest);
  visit("register_chunk_us", model.register_chunk_us, 0, kLongest);
  visit("behind_codes_us", model.behind_codes_us, 0, kLongest);
  visit("epilogue_value_us", model.epilogue_value_us, 0, kLongest);
  VisitStitchConstants(model.stitch, visit);
}

}  // namespace sinter

#endif  // SINTER_SRC_BASE_DEVICE_MODEL_H_
