// StitchConstants: the constants of a chip that the cost model of stitched kernels needs beside
// those of every kernel. Part of DeviceModel.
#ifndef SINTER_SRC_BASE_STITCH_CONSTANTS_H_
#define SINTER_SRC_BASE_STITCH_CONSTANTS_H_

namespace sinter {

// Times in microseconds, shares and counts without a unit. In a model file each key begins with
// "stitch_".
struct StitchConstants {
  // Streams and instructions.
  double copy_share = 0;    // of hbm_bytes_per_us, when a stream is also written
  double few_sms_gain = 0;  // factor of a few SMs' HBM rate over their share of it
  double alike_share = 0;   // share that comes from L2 of bytes that all units read; the rest: L1
  double issue_share = 0;   // counted instructions per issue slot: two often become one
  double issue_warps = 0;   // warps that fill an SM's issue slots
  double persistent_loss = 0;  // share lost by blocks that take turns, not replaced by new ones
  double overlap_groups = 0;   // groups of a block that fully hide one another's work
  double overlap_limit = 0;    // and the most times that work can be hidden
  double special_issue = 0;    // issue slots taken by one turn of the special function unit
  // What a turn of a block waits for.
  double read_us = 0;           // a first read from memory
  double held_read_us = 0;      // the same from shared memory
  double read_again_us = 0;     // a later read, from L1 or L2
  double keep_alike_us = 0;     // to keep what all units read alike, before the first unit
  double warp_join_us = 0;      // a row reduction by a warp
  double block_join_us = 0;     // and by a block
  double warp_meeting_us = 0;   // a warp's meeting for what is handed over
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
  double phase_us = 0;                // until reads are under way again behind a grid's barrier
  // Column reductions.
  double column_part_us = 0;      // to read one round of parts
  double column_join_us = 0;      // beside that and the grid's barriers
  double column_join_all_us = 0;  // the same where each block joins for itself
  double column_read_share = 0;   // of an SM's intake, by a block's own loads
  double column_arrive_us = 0;    // each block beyond one an SM, where the grid meets
  double column_peers_us = 0;     // to read the parts of a cluster's peers
  // Differences of predictions too small to mean anything.
  double error_share = 0;  // of the time of two kernels, against one kernel of both
  double error_us = 0;     // of two launches against one
};

}  // namespace sinter

#endif  // SINTER_SRC_BASE_STITCH_CONSTANTS_H_
