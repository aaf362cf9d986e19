#include "src/stitch/schedule.h"

#include <algorithm>
#include <functional>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/base/codec.h"
#include "src/base/status.h"
#include "src/stitch/sizes.h"

namespace sinter {
namespace {

constexpr uint32_t kVersion = 7, kVersionWithHanded = 8, kVersionStaged = 9, kVersionPixels = 10;
constexpr int kWarpThreads = 32;
constexpr int kMaxVector = 16;
constexpr int kMaxChunks = 32;
constexpr int kMaxPixels = 16;
constexpr int kMaxSharedBytes = 227 * 1024;  // of a block, the most of any chip
constexpr int kSharedAlignment = 16;
constexpr int kMaxBlocksPerSm = 32;
constexpr int kMaxGrid = 1 << 20;
constexpr size_t kMaxHanded = 8;

bool IsPowerOfTwo(int v) { return v > 0 && (v & (v - 1)) == 0; }

absl::Status Bound(absl::string_view field, int64_t value, absl::string_view bound) {
  return Invalid("stitch schedule: ", field, " is ", value, ", must be ", bound);
}

bool SharesUnits(const StitchSchedule& s) {
  if (s.unit_threads < kWarpThreads) return IsPowerOfTwo(s.unit_threads);
  return s.unit_threads % kWarpThreads == 0 && s.block_threads % s.unit_threads == 0;
}

absl::Status CheckHanded(const StitchSchedule& s) {
  if (s.handed.empty()) return absl::OkStatus();
  const auto count = static_cast<int64_t>(s.handed.size());
  if (s.handed.size() > kMaxHanded) return Bound("count of handed", count, "at most 8");
  const bool ascending = std::adjacent_find(s.handed.begin(), s.handed.end(),
                                            std::greater_equal<>()) == s.handed.end();
  if (!ascending || s.handed.front() < 0) {
    return Bound("handed", s.handed.front(), "values of the body, ascending");
  }
  if (s.owner < 0 || s.cluster > 1) {
    return Bound("count of handed", count, "0 without units and where a cluster has one");
  }
  return absl::OkStatus();
}

// The memory through which the threads of a unit hand over.
Composition OfUnits(const StitchSchedule& schedule) {
  if (schedule.cluster > 1) return Composition::kCluster;
  if (schedule.unit_threads > kWarpThreads) return Composition::kBlock;
  return schedule.unit_threads > 1 ? Composition::kWarp : Composition::kThread;
}

Composition OfRoot(const StitchRoot& root, const StitchSchedule& schedule) {
  switch (root.kind) {
    case StitchRoot::kRow:
      return OfUnits(schedule);
    case StitchRoot::kSegment:
      return Composition::kWarp;
    case StitchRoot::kHand:
      return Composition::kBlock;
    default:
      return Composition::kGrid;
  }
}

// Marks the reductions that the lanes of an element share: its outermost serial ones.
void MarkShared(const Chain& body, const StitchProgram& program, ValueId id,
                std::vector<Composition>& list, std::set<ValueId>& seen) {
  if (!seen.insert(id).second) return;
  const ReduceUse use = program.uses[static_cast<size_t>(id)];
  if (use == ReduceUse::kSerial) list[static_cast<size_t>(id)] = Composition::kWarp;
  if (use != ReduceUse::kNone) return;
  for (const ValueId operand : body.op(id).operands) {
    MarkShared(body, program, operand, list, seen);
  }
}

void MarkLoop(const Chain& body, const StitchProgram& program, const StitchSchedule& schedule,
              const StitchLoop& loop, std::vector<Composition>& list) {
  std::set<ValueId> seen;
  for (const StitchRoot& root : loop.roots) {
    const bool stored = root.kind == StitchRoot::kStore || root.kind == StitchRoot::kScatter;
    if (LoopSplit(schedule, loop) > 1) {
      MarkShared(body, program, WalkedValue(body, root), list, seen);
    }
    if (stored) continue;
    const bool step = TakesRow(body.op(root.value));
    list[static_cast<size_t>(root.value)] = step ? OfUnits(schedule) : OfRoot(root, schedule);
    if (root.mean >= 0) list[static_cast<size_t>(root.mean)] = Composition::kGrid;
  }
}

// Writes or reads the fields that follow a schedule's version, by the codec.
template <typename Codec, typename Schedule>
void ScheduleFields(Codec& codec, Schedule& s, uint32_t version) {
  codec(s.owner, s.block_threads, s.unit_threads, s.cluster, s.vector, s.chunks, Long(s.join_all),
        s.split, Long(s.keep_inputs), Long(s.keep_values), Long(s.keep_alike), s.hold_bytes,
        s.blocks_per_sm, s.grid);
  if (Codec::kReads ? version == kVersionPixels : s.pixels > 1) codec(Word(s.pixels));
  if (Codec::kReads ? version == kVersionWithHanded : !s.handed.empty()) codec(s.handed);
}

}  // namespace

std::string StitchSchedule::Canonical() const {
  ByteWriter w;
  const uint32_t version = staged            ? kVersionStaged
                           : pixels > 1      ? kVersionPixels
                           : !handed.empty() ? kVersionWithHanded
                                             : kVersion;
  w(version);
  ScheduleFields(w, *this, version);
  return w.Take();
}

std::string StitchSchedule::ToString() const {
  return absl::StrCat("block ", block_threads, " ", WorkText(), " x", blocks_per_sm, " grid ",
                      grid);
}

std::string StitchSchedule::WorkText() const {
  std::string text = owner >= 0 ? absl::StrCat("unit ", unit_threads, " ") : "";
  if (cluster > 1) absl::StrAppend(&text, "cluster ", cluster, " ");
  absl::StrAppend(&text, "vec ", vector);
  if (owner < 0) absl::StrAppend(&text, " chunks ", chunks);
  if (pixels > 1) absl::StrAppend(&text, " pixels ", pixels);
  if (join_all) absl::StrAppend(&text, " join all");
  if (split > 1) absl::StrAppend(&text, " split ", split);
  if (keep_inputs) absl::StrAppend(&text, " keep");
  if (keep_values) absl::StrAppend(&text, "+values");
  if (keep_alike) absl::StrAppend(&text, "+alike");
  if (hold_bytes > 0) absl::StrAppend(&text, " hold ", hold_bytes);
  if (staged) absl::StrAppend(&text, " staged");
  if (!handed.empty()) absl::StrAppend(&text, " handed ", absl::StrJoin(handed, ","));
  return text;
}

absl::Status CheckStitchFields(const StitchSchedule& s) {
  if (s.block_threads < kWarpThreads || s.block_threads > 1024 ||
      s.block_threads % kWarpThreads != 0) {
    return Bound("block_threads", s.block_threads, "a multiple of 32 in 32..1024");
  }
  if (s.unit_threads < 1 || s.unit_threads > s.block_threads || !SharesUnits(s)) {
    return Bound("unit_threads", s.unit_threads,
                 "a power of two up to 32, or a multiple of 32 that divides block_threads");
  }
  if (ClusterIndex(s.cluster) < 0) return Bound("cluster", s.cluster, "1, 2, 4, 8 or 16");
  if (s.cluster > 1 && s.unit_threads != s.block_threads) {
    return Bound("unit_threads", s.unit_threads, "block_threads where a cluster shares a unit");
  }
  if (!IsPowerOfTwo(s.vector) || s.vector > kMaxVector) {
    return Bound("vector", s.vector, "a power of two up to 16");
  }
  if (s.chunks < 1 || s.chunks > kMaxChunks) return Bound("chunks", s.chunks, "1..32");
  if (s.pixels < 1 || s.pixels > kMaxPixels) return Bound("pixels", s.pixels, "1..16");
  if (s.pixels > 1 && (s.owner >= 0 || s.chunks > 1 || s.split > 1)) {
    return Bound("pixels", s.pixels, "1 with units, with several chunks and with a split");
  }
  if (!IsPowerOfTwo(s.split) || s.split > kWarpThreads || s.unit_threads % s.split != 0) {
    return Bound("split", s.split, "a power of two up to 32 that divides unit_threads");
  }
  if (s.hold_bytes < 0 || s.hold_bytes > kMaxSharedBytes || s.hold_bytes % kSharedAlignment != 0) {
    return Bound("hold_bytes", s.hold_bytes, "a multiple of 16 in 0..232448");
  }
  if (s.hold_bytes > 0 && (!s.keep_inputs || s.owner < 0)) {
    return Bound("hold_bytes", s.hold_bytes, "0 where a unit keeps no inputs");
  }
  SINTER_RETURN_IF_ERROR(CheckHanded(s));
  if (s.staged && (s.owner < 0 || s.cluster > 1 || !s.handed.empty() || s.hold_bytes > 0)) {
    return Bound("staged", 1,
                 "0 without units, where a cluster has one, and with values handed over or held");
  }
  if (s.blocks_per_sm < 1 || s.blocks_per_sm > kMaxBlocksPerSm) {
    return Bound("blocks_per_sm", s.blocks_per_sm, "1..32");
  }
  if (s.grid < 1 || s.grid > kMaxGrid || s.grid % s.cluster != 0) {
    return Bound("grid", s.grid, "a multiple of cluster in 1..1048576");
  }
  return absl::OkStatus();
}

absl::StatusOr<StitchSchedule> StitchSchedule::FromCanonical(absl::string_view bytes) {
  ByteReader r(bytes);
  const uint32_t version = r.U32();
  if (version < kVersion || version > kVersionPixels) {
    return DataLoss("stitch schedule: version ", version);
  }
  StitchSchedule s;
  ScheduleFields(r, s, version);
  s.staged = version == kVersionStaged;
  SINTER_RETURN_IF_ERROR(r.Finish("stitch schedule"));
  const absl::Status fits = CheckStitchFields(s);
  if (!fits.ok()) return absl::DataLossError(fits.message());
  if (s.Canonical() != bytes) return absl::DataLossError("stitch schedule: a field is too wide");
  return s;
}

absl::string_view NameOf(Composition composition) {
  constexpr absl::string_view kNames[] = {"thread", "warp", "block", "cluster", "grid"};
  const auto index = static_cast<size_t>(composition);
  return index < kCompositions ? kNames[index] : "invalid";
}

std::vector<Composition> CompositionsOf(const Chain& body, const StitchProgram& program,
                                        const StitchSchedule& schedule) {
  std::vector<Composition> list(body.ops().size(), Composition::kThread);
  // A reduction in no loop is made by each thread for itself.
  ForEachLoop(program, [&](const StitchLoop& loop, const StitchPhase*) {
    MarkLoop(body, program, schedule, loop, list);
  });
  return list;
}

}  // namespace sinter
