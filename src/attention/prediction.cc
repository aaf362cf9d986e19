// The predicted time of a kernel of attention.
#include <algorithm>
#include <cmath>

#include "src/attention/attention.h"
#include "src/base/numbers.h"
#include "src/base/status.h"
#include "src/stitch/body_work.h"

namespace sinter {
namespace {

constexpr double kGroupRows = 64;  // of a warpgroup

// Fitted to 300 schedules of nine problems on an H100: rms of ln(predicted / measured) 0.13, and so
// that the first choice is within 1 % of the best one (docs/lab/attention.md).
constexpr double kShown = 0.98;      // of a warpgroup's work next to the work of others on the SM
constexpr double kTileUs = 0.078;    // a tile's shuffles and barriers,
constexpr double kTileShare = 0.49;  // more by this for each warpgroup on the SM
constexpr double kItemUs = 0.53;     // an item's first loads and its stores
constexpr double kFewStages = 0.02;  // of a tile's time, for each stage below four
constexpr double kBlocks[] = {1, 1.08, 1.03};  // by warpgroups: the warpgroups of a block wait for
                                               // its loads
constexpr double kLaunchUs = 0.76;             // besides the costs of every kernel
constexpr double kLoads = 0.81;                // of L2's time: neighbours read the same keys
// Fitted to 420 schedules of 35 problems of few rows on an H200: rms of the same 0.07
// (docs/lab/attention.md). Loads of keys that only one item reads come from HBM.
constexpr double kStream = 0.93;     // share of HBM's rate that they reach
constexpr double kFirstUs = 0.77;    // until the first loads of a kernel have arrived
constexpr double kLatencyUs = 0.74;  // until a load of HBM has filled a stage
constexpr double kHeld = 0.78;       // share of a tile's time during which a stage is in use
constexpr double kSplitUs = 0.06;    // for each block of a cluster that joins partial sums
// Pushes of 8 bytes take so many times what pushes of 16 bytes take, to which dsm_bytes_per_us
// belongs.
constexpr double kPush = 2;

// Tiles of keys that an item looks at, in the mean.
double TilesOfItem(const AttentionProblem& p, const AttentionSchedule& s) {
  const int64_t all = AttentionKeyTiles(p, s), items = CeilDiv(p.rows, s.BlockRows());
  if (!p.causal) return static_cast<double>(all);
  double tiles = 0;
  for (int64_t i = 0; i < items; ++i) {
    const int64_t seen = (i + 1) * s.BlockRows() + p.diagonal;
    tiles += static_cast<double>(std::clamp<int64_t>(CeilDiv(seen, s.block_keys), 1, all));
  }
  return tiles / static_cast<double>(items);
}

// Tiles of keys that a block multiplies with an item: in the mean, or the most of its splits.
double TilesOfBlock(const AttentionProblem& p, const AttentionSchedule& s) {
  if (s.splits == 1) return TilesOfItem(p, s);
  return static_cast<double>(CeilDiv(AttentionKeyTiles(p, s), s.splits));
}

// Batches that have elements of their own.
double Distinct(const BatchedMatrix& matrix, int64_t m) {
  double count = 1;
  for (const BatchDigit& digit : matrix.digits) {
    count *= static_cast<double>(digit.extent == 0 ? m : digit.extent);
  }
  return count;
}

// Bytes of HBM that all items read and write.
double HbmBytes(const AttentionProblem& p, int64_t m) {
  const auto size = static_cast<double>(SizeOf(p.element));
  double bytes = size * static_cast<double>(p.keys) *
                 (Distinct(p.k, m) * static_cast<double>(p.head) +
                  Distinct(p.v, m) * static_cast<double>(p.value_head));
  bytes +=
      static_cast<double>(p.BatchesAt(m) * p.rows) *
      (size * static_cast<double>(p.head) + static_cast<double>(p.value_head * SizeOf(p.result)));
  for (int i = 0; i < p.Terms(); ++i) {
    const BatchedMatrix& term = p.terms[static_cast<size_t>(i)];
    const int64_t rows = term.row == 0 ? 1 : p.rows, keys = term.column == 0 ? 1 : p.keys;
    bytes += static_cast<double>(rows * keys) * Distinct(term, m) *
             static_cast<double>(SizeOf(p.TermType(i)));
  }
  return bytes;
}

// The instructions that the program adds to a score.
OpCost ProgramCost(const AttentionProblem& p) {
  constexpr double kRounding = 1.5, kTerm = 2;  // a term's load and its conversion
  OpCost sum{kTerm * p.Terms(), 0};
  if (!p.program.present()) return sum;
  const Chain& body = *p.program.body;
  const std::vector<Precision> precisions = ScorePrecisions(p.program);
  for (size_t id = 0; id < body.ops().size(); ++id) {
    const Op& op = body.ops()[id];
    if (op.kind == OpKind::kInput) continue;
    if (op.kind == OpKind::kCast) {
      if (SizeOf(op.type.dtype) == 2) sum.issue += kRounding;
      continue;
    }
    const OpCost cost = CostOfOp(body, precisions, static_cast<ValueId>(id));
    sum.issue += cost.issue;
    sum.special += cost.special;
  }
  return sum;
}

// The time of a tile's products and its softmax, by warpgroups that fill one another's waits.
double TileUs(const AttentionProblem& p, const AttentionSchedule& s, double groups,
              const DeviceModel& model) {
  // Instructions of a score: scale, maximum, power, sum and half a rounding; a program more.
  const OpCost program = ProgramCost(p);
  double issue = 5 + program.issue;
  if (!p.IsPlain()) issue += 1;
  if (p.causal) issue += 0.5;
  const double scores = kGroupRows * s.block_keys;
  const double issue_us = scores * issue / model.lanes_per_sm / model.clock_mhz;
  const double special_us =
      scores * (1 + program.special) / model.special_lanes_per_sm / model.clock_mhz;
  const double tensor_us = 2 * scores * static_cast<double>(RoundUp(p.head, 16) + p.value_head) /
                           (model.tensor_flop_per_us / model.sm_count);
  return kShown * groups * (tensor_us + std::max(issue_us, special_us)) +
         kTileUs * (1 + kTileShare * groups);
}

// Bytes that a block loads for an item, or for its split of one.
double LoadsOfBlock(const AttentionProblem& p, const AttentionSchedule& s) {
  return static_cast<double>(AttentionQueryBytes(p, s)) +
         TilesOfBlock(p, s) * static_cast<double>(AttentionTileBytes(p, s));
}

// Items that clusters take one after another.
struct Turns {
  int64_t items = 0, at_once = 0;
  double hbm_bytes = 0;  // of an item
  double hbm_share = 0;  // of an item's loads that HBM serves; 0 where items share keys
};

// Adds the times of `count` turns, in which `clusters` take an item each. Returns their sum.
double AddTurns(const AttentionProblem& p, const AttentionSchedule& s, const Turns& turns,
                int64_t count, int64_t clusters, const DeviceModel& model, Prediction* time) {
  const double sms = model.sm_count, tiles = TilesOfBlock(p, s), loads = LoadsOfBlock(p, s);
  const auto blocks = static_cast<double>(clusters * s.splits), times = static_cast<double>(count);
  const double on_sm = std::min(static_cast<double>(s.resident),
                                std::ceil(static_cast<double>(turns.at_once * s.splits) / sms));
  const double tile_us = TileUs(p, s, on_sm * s.warpgroups, model);
  const double idle = std::max(0.0, 1 - blocks / sms);
  const double few = 4 - std::min(s.stages, 4);
  const double hbm = (1 + kFewStages / 2 * few) * static_cast<double>(clusters) * turns.hbm_bytes /
                     (kStream * model.hbm_bytes_per_us * (1 - model.hbm_idle_loss * idle));
  const double l2 = kLoads * loads * blocks / model.l2_bytes_per_us;
  const double tensor =
      (tiles * tile_us * (1 + kFewStages * few) + kItemUs) * kBlocks[s.warpgroups - 1];
  // The stages of a block come round, k's and v's in turns.
  const double round = turns.hbm_share * kLatencyUs + kHeld * tile_us;
  const double intake =
      std::max(on_sm * loads / model.sm_intake_bytes_per_us, 2 * tiles * round / s.stages);
  time->hbm_us += times * hbm;
  time->l2_us += times * l2;
  time->l2_bytes += times * loads * blocks;
  time->tensor_us += times * tensor;
  time->intake_us += times * intake;
  double join = 0;
  if (s.splits > 1) {
    const auto cluster = static_cast<size_t>(ClusterIndex(s.splits));
    const double pushed = blocks * static_cast<double>(AttentionJoinBytes(p, s));
    time->dsm_bytes += times * pushed;
    join = kSplitUs * s.splits + kPush * pushed / model.dsm_bytes_per_us[cluster];
  }
  time->dsm_us += times * join;
  return times * (std::max({hbm, l2, tensor, intake}) + join);
}

}  // namespace

absl::StatusOr<Prediction> PredictSchedule(const AttentionProblem& p, const AttentionSchedule& s,
                                           int64_t m, const DeviceModel& model) {
  SINTER_RETURN_IF_ERROR(CheckSchedule(p, s, model));
  Prediction time;
  time.hbm_bytes = HbmBytes(p, m);
  Turns turns;
  turns.items = std::max<int64_t>(AttentionItems(p, s, m), 1);
  turns.at_once = std::min(turns.items, ResidentClusters(s, model));
  turns.hbm_bytes = time.hbm_bytes / static_cast<double>(turns.items);
  if (p.rows <= s.BlockRows()) {
    turns.hbm_share = std::min(1.0, turns.hbm_bytes / (s.splits * LoadsOfBlock(p, s)));
  }
  const int64_t full = CeilDiv(turns.items, turns.at_once) - 1;
  const double together =
      AddTurns(p, s, turns, full, turns.at_once, model, &time) +
      AddTurns(p, s, turns, 1, turns.items - full * turns.at_once, model, &time);
  time.fixed_us =
      model.launch_us + model.fill_us + model.drain_us + kLaunchUs + turns.hbm_share * kFirstUs;
  time.total_us = together + time.fixed_us;
  const double most = std::max({time.hbm_us, time.l2_us, time.tensor_us, time.intake_us});
  time.bound = most == time.tensor_us   ? "tensor"
               : most == time.l2_us     ? "l2"
               : most == time.intake_us ? "intake"
                                        : "hbm";
  return time;
}

}  // namespace sinter
