// The one list of a device model's fields: writing, reading, checking and assigning all walk it.
#ifndef SINTER_SRC_BASE_DEVICE_MODEL_FIELDS_H_
#define SINTER_SRC_BASE_DEVICE_MODEL_FIELDS_H_

#include "src/base/device_model.h"

namespace sinter {

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
  visit("stitch_column_peers_us", costs.column_peers_us, 0, kLongest);
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
  visit("shared_bytes_per_block", model.shared_bytes_per_block, 1024, 1 << 24);
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
  visit("l2_bytes_per_us", model.l2_bytes_per_us, 1, 1e12);
  visit("l2_shared_bytes_per_us", model.l2_shared_bytes_per_us, 1, 1e12);
  visit("l2_reader_gain", model.l2_reader_gain, 0, 10);
  visit("l2_rows_bytes_per_us", model.l2_rows_bytes_per_us, 1, 1e12);
  visit("l2_rows_reader_gain", model.l2_rows_reader_gain, 0, 10);
  visit("l2_window_bytes_per_us", model.l2_window_bytes_per_us, 1, 1e12);
  visit("l2_straddle_loss", model.l2_straddle_loss, 0, 10);
  visit("l2_merged_share", model.l2_merged_share, 0.01, 1);
  visit("l2_split_share", model.l2_split_share, 1, 10);
  visit("ring_write_share", model.ring_write_share, 0, 1);
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
  visit("drain_us", model.drain_us, 0, kLongest);
  visit("register_chunk_us", model.register_chunk_us, 0, kLongest);
  visit("behind_codes_us", model.behind_codes_us, 0, kLongest);
  visit("epilogue_value_us", model.epilogue_value_us, 0, kLongest);
  VisitStitchConstants(model.stitch, visit);
}

}  // namespace sinter

#endif  // SINTER_SRC_BASE_DEVICE_MODEL_FIELDS_H_
