#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "src/attention/attention.h"
#include "src/base/codec.h"
#include "src/base/numbers.h"
#include "src/base/status.h"

namespace sinter {
namespace {

constexpr uint32_t kScheduleVersion = 2;
constexpr int64_t kRowBytes = 128;     // of the swizzle: 64 elements
constexpr int64_t kSpan = 64;          // elements
constexpr int64_t kSlackBytes = 1024;  // to align the first stage
constexpr int kLoaderRegisters = 24;
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

constexpr int64_t kRowOrderM = 1024;  // for which what decides a row's bits is chosen

constexpr int kMaxWarpgroups = 3, kMaxBlockKeys = 256, kMaxStages = 8, kMaxResident = 16;
constexpr int kMaxSplits = 16;

// Writes or reads a schedule, by the codec.
template <typename Codec, typename Schedule>
void ScheduleFields(Codec& codec, Schedule& s) {
  constexpr uint32_t kMost = kMaxBlockKeys;
  codec(Word(s.warpgroups, kMost), Word(s.block_keys, kMost), Word(s.stages, kMost),
        Word(s.query_stages, kMost), Word(s.resident, kMost), Word(s.splits, kMost), s.grid);
}

absl::Status Refuse(absl::string_view field, int64_t value, absl::string_view bound) {
  return FailedPrecondition("attention schedule: ", field, " ", value, ", ", bound);
}

absl::Status CheckRange(absl::string_view field, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return Refuse(field, value, absl::StrCat("must be in [", low, ", ", high, "]"));
}

int64_t HeadBytes(int64_t head) { return CeilDiv(head, kSpan) * kRowBytes; }

int64_t KeyTiles(const AttentionProblem& p, const AttentionSchedule& s) {
  return CeilDiv(p.keys, s.block_keys);
}

// Tiles of keys that an item looks at, in the mean.
double TilesOfItem(const AttentionProblem& p, const AttentionSchedule& s) {
  const int64_t all = KeyTiles(p, s), items = CeilDiv(p.rows, s.BlockRows());
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
  return static_cast<double>(CeilDiv(KeyTiles(p, s), s.splits));
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
  for (const ScoreStep& step : p.steps) {
    if (!step.HasTerm()) continue;
    const auto count = static_cast<double>(p.keys * (step.term.row == 0 ? 1 : p.rows));
    bytes += count * Distinct(step.term, m) * static_cast<double>(SizeOf(step.dtype));
  }
  return bytes;
}

// The time of a tile's products and its softmax, by warpgroups that fill one another's waits.
double TileUs(const AttentionProblem& p, const AttentionSchedule& s, double groups,
              const DeviceModel& model) {
  // Instructions of a score: scale, maximum, power, sum and half a rounding; steps and terms more.
  double issue = 5;
  for (const ScoreStep& step : p.steps) {
    issue += step.HasTerm() ? 3 : step.kind == ScoreStep::kRound ? 1.5 : 1;
  }
  if (!p.IsPlain()) issue += 1;
  if (p.causal) issue += 0.5;
  const double scores = kGroupRows * s.block_keys;
  const double issue_us = scores * issue / model.lanes_per_sm / model.clock_mhz;
  const double special_us = scores / model.special_lanes_per_sm / model.clock_mhz;
  const double tensor_us = 2 * scores * static_cast<double>(RoundUp(p.head, 16) + p.value_head) /
                           (model.tensor_flop_per_us / model.sm_count);
  return kShown * groups * (tensor_us + std::max(issue_us, special_us)) +
         kTileUs * (1 + kTileShare * groups);
}

// Bytes that a block loads for an item, or for its part of one.
double LoadsOfBlock(const AttentionProblem& p, const AttentionSchedule& s) {
  return static_cast<double>(AttentionQueryBytes(p, s)) +
         TilesOfBlock(p, s) * s.block_keys *
             static_cast<double>(HeadBytes(p.head) + HeadBytes(p.value_head));
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

// The keys of a tile that a problem's kernels have.
int BlockKeysOf(const AttentionProblem& p) {
  constexpr int64_t kLongest = 208;  // in one tile
  const int64_t all = RoundUp(p.keys, 16);
  const int64_t most = p.Terms() > 0 ? 128 : kLongest;
  if (all <= most && all * p.value_head <= 128 * 128) return static_cast<int>(all);
  if (p.value_head > 96 || p.Terms() > 0) return 64;
  return 128;
}

// Clusters that run at a time.
int64_t ResidentClusters(const AttentionSchedule& s, const DeviceModel& model) {
  const auto index = static_cast<size_t>(ClusterIndex(s.splits));
  return int64_t{s.resident} * (s.splits == 1 ? model.sm_count : model.resident_clusters[index]);
}

// As many blocks (with splits, clusters) as are resident. Each takes every grid-th item. Where a
// term is the same for items that lie so far apart, a block keeps it in registers.
int64_t GridOf(const AttentionProblem& p, const AttentionSchedule& s, int64_t m,
               const DeviceModel& model) {
  const int64_t items = std::max<int64_t>(AttentionItems(p, s, m), 1);
  const int64_t grid = std::min(items, ResidentClusters(s, model));
  if (s.splits > 1) return grid * s.splits;
  int64_t period = 1;
  for (const ScoreStep& step : p.steps) {
    if (!step.HasTerm() || p.keys > s.block_keys) continue;
    int64_t batches = 1;
    for (const BatchDigit& digit : step.term.digits) {
      batches = std::max(batches, digit.inner * std::max<int64_t>(digit.extent, 1));
    }
    period = std::max(period, batches * CeilDiv(p.rows, s.BlockRows()));
  }
  return grid >= period && items > grid ? grid / period * period : grid;
}

// Fields that all schedules have in common; 0: any.
struct Settled {
  int warpgroups = 0, splits = 0;
};

// Adds the schedules that have the warpgroups and keys of `s`; `why`: what is wrong with one that
// is not legal.
void AddSchedules(AttentionSchedule s, const Settled& settled, const AttentionProblem& problem,
                  int64_t m, const DeviceModel& model, std::vector<RankedAttention>* ranked,
                  absl::Status* why) {
  const int64_t items = AttentionItems(problem, s, m);
  for (s.splits = 1; s.splits <= kMaxSplits; s.splits *= 2) {
    if (settled.splits > 0 && s.splits != settled.splits) continue;
    if (s.splits > 1 && (s.splits > KeyTiles(problem, s) || ResidentClusters(s, model) == 0)) break;
    if (s.splits > 1 && settled.splits == 0 && items > 2 * model.sm_count) break;
    for (s.resident = 1; s.resident <= kMaxResident; ++s.resident) {
      for (const int stages : {2, 3, 4, 6, 8}) {
        if (stages > 4 && items * s.splits > model.sm_count) break;
        s.stages = stages;
        s.grid = GridOf(problem, s, m, model);
        absl::StatusOr<Prediction> time = PredictSchedule(problem, s, m, model);
        if (time.ok()) {
          ranked->push_back({s, *std::move(time)});
        } else {
          *why = time.status();
        }
      }
    }
  }
}

absl::StatusOr<std::vector<RankedAttention>> RankWith(const Settled& settled,
                                                      const AttentionProblem& problem, int64_t m,
                                                      const DeviceModel& model, size_t top_k,
                                                      bool any_keys) {
  SINTER_RETURN_IF_ERROR(problem.Check());
  constexpr int kFewKeys = 32;  // where terms leave registers for no more
  const int own = BlockKeysOf(problem);
  std::vector<int> widths = {own};
  for (const int keys : {128, 64, kFewKeys}) {
    if (keys < RoundUp(problem.keys, 16) && keys != own) widths.push_back(keys);
  }
  std::vector<RankedAttention> ranked;
  absl::Status why;
  for (const int keys : widths) {
    if ((!any_keys || keys == kFewKeys) && !ranked.empty()) break;
    for (int warpgroups = 1; warpgroups <= kMaxWarpgroups; ++warpgroups) {
      if (settled.warpgroups > 0 && warpgroups != settled.warpgroups) continue;
      if (warpgroups > 1 && 64 * (warpgroups - 1) >= problem.rows) continue;
      AttentionSchedule s;
      s.warpgroups = warpgroups;
      s.block_keys = keys;
      s.query_stages = keys >= problem.keys ? 2 : 1;
      AddSchedules(s, settled, problem, m, model, &ranked, &why);
    }
  }
  if (ranked.empty()) return why;
  SortByTime(&ranked);
  if (ranked.size() > top_k) ranked.resize(top_k);
  return ranked;
}

}  // namespace

std::string AttentionSchedule::ToString() const {
  return absl::StrCat("warpgroups", warpgroups, " keys", block_keys, " stages", stages, " queries",
                      query_stages, " resident", resident,
                      splits == 1 ? "" : absl::StrCat(" splits", splits), " grid", grid);
}

void AttentionSchedule::Write(ByteWriter& w) const {
  w(kScheduleVersion);
  ScheduleFields(w, *this);
}

absl::StatusOr<AttentionSchedule> AttentionSchedule::Read(ByteReader& r) {
  const uint32_t version = r.U32();
  AttentionSchedule s;
  ScheduleFields(r, s);
  if (version == kScheduleVersion) return s;
  return absl::DataLossError("attention schedule: damaged");
}

int64_t AttentionItems(const AttentionProblem& problem, const AttentionSchedule& schedule,
                       int64_t m) {
  return problem.BatchesAt(m) * CeilDiv(problem.rows, schedule.BlockRows());
}

int64_t AttentionQueryBytes(const AttentionProblem& problem, const AttentionSchedule& schedule) {
  return schedule.BlockRows() * HeadBytes(problem.head);
}

int64_t AttentionStageBytes(const AttentionProblem& problem, const AttentionSchedule& schedule) {
  return std::max(HeadBytes(problem.head), HeadBytes(problem.value_head)) * schedule.block_keys;
}

int64_t AttentionSharedBytes(const AttentionProblem& problem, const AttentionSchedule& schedule) {
  const int64_t barriers = 16 * (schedule.stages + schedule.query_stages);
  return schedule.query_stages * AttentionQueryBytes(problem, schedule) +
         schedule.stages * AttentionStageBytes(problem, schedule) + barriers +
         AttentionJoinBytes(problem, schedule) + kSlackBytes;
}

int64_t AttentionJoinBytes(const AttentionProblem& problem, const AttentionSchedule& schedule) {
  if (schedule.splits == 1) return 0;
  const int64_t rows = std::min<int64_t>(problem.rows, schedule.BlockRows());
  const int64_t sent = 32 * CeilDiv(problem.value_head / 8, schedule.splits) + 16;
  return schedule.splits * rows * sent + 16;
}

int AttentionRegisters(const AttentionProblem& problem, const AttentionSchedule& schedule) {
  const int64_t scores = schedule.block_keys / 2, sums = problem.value_head / 2;
  const bool one = KeyTiles(problem, schedule) == 1;
  // A term of one tile is kept with the places that it was read from.
  const int64_t places = one ? 8 : 0;
  int64_t held = 0;
  for (const ScoreStep& step : problem.steps) {
    if (step.HasTerm()) held += step.term.row == 0 ? scores / 2 : scores + places;
  }
  // With one tile, scores are rounded when nothing multiplies any more.
  const int64_t rest = one && problem.IsPlain() && !problem.causal ? 18 : 32;
  return static_cast<int>((one ? scores : scores * 3 / 2) + sums + held + rest);
}

int RegistersOf(const AttentionSchedule& s) {
  constexpr int kWarps = 4;  // sets of registers of an SM, a warp in one of them
  constexpr int kSetRegisters = 16384, kMost = 255, kMostMoved = 240;
  const int warps = s.Threads() / 32 * s.resident;
  const int at_launch =
      std::min(kMost, kSetRegisters / 32 / static_cast<int>(CeilDiv(warps, kWarps)) / 8 * 8);
  if (s.warpgroups == 1) return at_launch;
  const int moved = (at_launch * (s.warpgroups + 1) - kLoaderRegisters) / s.warpgroups / 8 * 8;
  return std::min(moved, kMostMoved);
}

absl::Status CheckSchedule(const AttentionProblem& problem, const AttentionSchedule& s,
                           const DeviceModel& model) {
  SINTER_RETURN_IF_ERROR(CheckRange("warpgroups", s.warpgroups, 1, kMaxWarpgroups));
  SINTER_RETURN_IF_ERROR(CheckRange("keys", s.block_keys, 16, kMaxBlockKeys));
  if (s.block_keys % 16 != 0) return Refuse("keys", s.block_keys, "must be a multiple of 16");
  SINTER_RETURN_IF_ERROR(CheckRange("stages", s.stages, 2, kMaxStages));
  SINTER_RETURN_IF_ERROR(CheckRange("queries", s.query_stages, 1, kMaxStages));
  SINTER_RETURN_IF_ERROR(CheckRange("resident", s.resident, 1, kMaxResident));
  SINTER_RETURN_IF_ERROR(CheckRange("splits", s.splits, 1, kMaxSplits));
  if (ClusterIndex(s.splits) < 0) return Refuse("splits", s.splits, "must be a power of two");
  if (s.splits > KeyTiles(problem, s)) {
    return Refuse("splits", s.splits,
                  absl::StrCat("must be at most the ", KeyTiles(problem, s), " tiles of keys"));
  }
  const int64_t clusters = ResidentClusters(s, model);
  if (clusters == 0) {
    return Refuse("splits", s.splits, "must be less: the chip has no clusters of as many blocks");
  }
  SINTER_RETURN_IF_ERROR(CheckRange("grid", s.grid, s.splits, s.splits * clusters));
  if (s.grid % s.splits != 0) {
    return Refuse("grid", s.grid, absl::StrCat("must be a multiple of the ", s.splits, " splits"));
  }
  const int64_t shared = AttentionSharedBytes(problem, s);
  if (shared > model.shared_bytes_per_block) {
    return Refuse("shared memory of", shared,
                  absl::StrCat("the chip's blocks have ", model.shared_bytes_per_block));
  }
  if ((shared + model.reserved_shared_bytes) * s.resident > model.shared_bytes_per_sm) {
    return Refuse("resident", s.resident,
                  absl::StrCat("blocks of ", shared, " bytes of shared memory have no room"));
  }
  if (s.Threads() * s.resident > model.threads_per_sm) {
    return Refuse("resident", s.resident,
                  absl::StrCat("an SM has ", model.threads_per_sm, " threads"));
  }
  // What every thread has at launch must hold the scores of a product and its operands.
  constexpr int kOfProduct = 26;
  const int most = 65536 / (s.Threads() * s.resident) / 8 * 8;
  if (most < s.block_keys / 2 + kOfProduct || most < problem.value_head / 2 + kOfProduct) {
    return Refuse("keys", s.block_keys, absl::StrCat("threads have ", most, " registers"));
  }
  // ptxas serialises (C7512) a fifth of the causal kernels that have one tile and 128 registers at
  // launch, and spills; of 200 with one warpgroup it was one.
  if (problem.causal && KeyTiles(problem, s) == 1 && s.warpgroups == kMaxWarpgroups) {
    return Refuse("warpgroups", s.warpgroups, "of a causal mask in one tile must be at most 2");
  }
  const int needed = AttentionRegisters(problem, s), has = RegistersOf(s);
  if (needed > has) {
    return Refuse("registers", needed, absl::StrCat("a thread has ", has));
  }
  return absl::OkStatus();
}

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

absl::StatusOr<std::vector<RankedAttention>> RankAttention(const AttentionProblem& problem,
                                                           int64_t m, const DeviceModel& model,
                                                           size_t top_k, bool any_keys) {
  if (any_keys) return RankWith({}, problem, m, model, top_k, any_keys);
  // Parts decide the order in which a row's sums are added; the rows of an item, which tiles of
  // hidden keys it multiplies by 0.
  SINTER_ASSIGN_OR_RETURN(const std::vector<RankedAttention> best,
                          RankWith({}, problem, kRowOrderM, model, 1, any_keys));
  const AttentionSchedule& s = best.front().schedule;
  return RankWith({problem.causal ? s.warpgroups : 0, s.splits}, problem, m, model, top_k,
                  any_keys);
}

}  // namespace sinter
