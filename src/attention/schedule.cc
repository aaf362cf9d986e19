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

// Whether a thread holds a tile's elements of a term.
bool HoldsTerms(const AttentionProblem& p) {
  return std::any_of(p.terms.begin(), p.terms.end(),
                     [](const BatchedMatrix& term) { return term.column != 0; });
}

// The registers that functions and indices take. Without them a capped score with ALiBi spilled.
int64_t ProgramRegisters(const AttentionProblem& p) {
  constexpr int64_t kFunction = 8, kIndices = 8;
  if (p.IsPlain()) return 0;
  const std::vector<Op>& ops = p.program.body->ops();
  const bool computes =
      std::any_of(ops.begin(), ops.end(), [](const Op& op) { return op.kind == OpKind::kUnary; });
  const bool indices =
      p.program.Reads(LeafKind::kRowIndex) || p.program.Reads(LeafKind::kColumnIndex);
  return (computes ? kFunction : 0) + (indices ? kIndices : 0);
}

// The keys of a tile that a problem's kernels have.
int BlockKeysOf(const AttentionProblem& p) {
  constexpr int64_t kLongest = 208;  // in one tile
  const int64_t all = RoundUp(p.keys, 16);
  const bool held = HoldsTerms(p);
  const int64_t most = held ? 128 : kLongest;
  if (all <= most && all * p.value_head <= 128 * 128) return static_cast<int>(all);
  if (p.value_head > 96 || held) return 64;
  return 128;
}

// As many blocks (with splits, clusters) as are resident. Each takes every grid-th item. Where a
// term is the same for items that lie so far apart, a block keeps it in registers.
int64_t GridOf(const AttentionProblem& p, const AttentionSchedule& s, int64_t m,
               const DeviceModel& model) {
  const int64_t items = std::max<int64_t>(AttentionItems(p, s, m), 1);
  const int64_t grid = std::min(items, ResidentClusters(s, model));
  if (s.splits > 1) return grid * s.splits;
  int64_t period = 1;
  for (const BatchedMatrix& term : p.terms) {
    if (p.keys > s.block_keys) continue;
    int64_t batches = 1;
    for (const BatchDigit& digit : term.digits) {
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
    if (s.splits > 1 &&
        (s.splits > AttentionKeyTiles(problem, s) || ResidentClusters(s, model) == 0))
      break;
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

int64_t AttentionKeyTiles(const AttentionProblem& problem, const AttentionSchedule& schedule) {
  return CeilDiv(problem.keys, schedule.block_keys);
}

int64_t ResidentClusters(const AttentionSchedule& schedule, const DeviceModel& model) {
  if (schedule.splits == 1) return int64_t{schedule.resident} * model.sm_count;
  const auto index = static_cast<size_t>(ClusterIndex(schedule.splits));
  return int64_t{schedule.resident} * model.resident_clusters[index];
}

int64_t AttentionQueryBytes(const AttentionProblem& problem, const AttentionSchedule& schedule) {
  return schedule.BlockRows() * HeadBytes(problem.head);
}

int64_t AttentionStageBytes(const AttentionProblem& problem, const AttentionSchedule& schedule) {
  return std::max(HeadBytes(problem.head), HeadBytes(problem.value_head)) * schedule.block_keys;
}

int64_t AttentionTileBytes(const AttentionProblem& problem, const AttentionSchedule& schedule) {
  return schedule.block_keys * (HeadBytes(problem.head) + HeadBytes(problem.value_head));
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
  const bool one = AttentionKeyTiles(problem, schedule) == 1;
  // A term of one tile is kept with the places that it was read from.
  const int64_t places = one ? 8 : 0;
  int64_t held = 0;
  for (const BatchedMatrix& term : problem.terms) {
    held += term.column == 0 ? 2 : term.row == 0 ? scores / 2 : scores + places;
  }
  // With one tile, scores are rounded when nothing multiplies any more.
  const int64_t rest = one && problem.IsPlain() && !problem.causal ? 18 : 32;
  return static_cast<int>((one ? scores : scores * 3 / 2) + sums + held + rest +
                          ProgramRegisters(problem));
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
  if (s.splits > AttentionKeyTiles(problem, s)) {
    return Refuse(
        "splits", s.splits,
        absl::StrCat("must be at most the ", AttentionKeyTiles(problem, s), " tiles of keys"));
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
  if (problem.causal && AttentionKeyTiles(problem, s) == 1 && s.warpgroups == kMaxWarpgroups) {
    return Refuse("warpgroups", s.warpgroups, "of a causal mask in one tile must be at most 2");
  }
  const int needed = AttentionRegisters(problem, s), has = RegistersOf(s);
  if (needed > has) {
    return Refuse("registers", needed, absl::StrCat("a thread has ", has));
  }
  return absl::OkStatus();
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
