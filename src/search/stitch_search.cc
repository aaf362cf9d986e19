#include "src/search/stitch_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/plan/stitch/program.h"
#include "src/plan/stitch/sizes.h"
#include "src/search/stitch_load.h"

namespace sinter {
namespace {

constexpr int kMostThreadsPerSm = 2048;
constexpr int kMostBlocksPerSm = 32;
constexpr int kBaseRegisters = 24, kVectorRegisters = 5;  // of a thread that keeps nothing
constexpr int kMostKeptWords = 56;                        // more would spill
constexpr int64_t kMostTurns = 32;                        // that are unrolled
constexpr double kCopyShare = 0.93;  // of the read rate, when a stream is also written
constexpr double kIssueShare = 0.8, kSpecialShare = 0.9;  // of the slots that are filled
constexpr double kReadUs = 0.9;       // a read from memory under load, and what follows at once
constexpr double kReadAgainUs = 0.5;  // from L2
constexpr double kWarpJoinUs = 0.06, kBlockJoinUs = 0.2;  // a row reduction by a warp, by a block
constexpr double kStepUs = 0.02;                          // of a thread's own chain of reads
constexpr int kTurnsAtOnce = 4;  // of a pass that keeps nothing: reads under way together

int BlocksPerSm(int threads, int registers) {
  const int by_registers = 65536 / (threads * std::min(255, (registers + 7) / 8 * 8));
  return std::clamp(std::min(by_registers, kMostThreadsPerSm / threads), 1, kMostBlocksPerSm);
}

// One unit's time for the threads that share it: what no other unit hides.
double UnitUs(const StitchProgram& program, const StitchSchedule& s, const StitchLoad& load,
              int64_t turns, const DeviceModel& model) {
  const double join = s.unit_threads > 32 ? kBlockJoinUs : kWarpJoinUs;
  const double joins =
      std::max(0, load.levels - 1) * (join + (s.cluster > 1 ? model.cluster_barrier_us : 0));
  const double reads = std::ceil(static_cast<double>(turns) / kTurnsAtOnce);
  if (s.keep_inputs || program.owner < 0) return kReadUs + joins;
  return kReadUs + (reads * load.levels - 1) * kReadAgainUs + joins;
}

// The blocks of a launch and how the work falls on them.
struct Spread {
  double busy = 0;      // SMs with work
  double resident = 0;  // blocks at once
  double rounds = 0;    // that the resident blocks make, the last one counted whole
};

Spread SpreadOf(const StitchProgram& program, const StitchSchedule& s, int64_t bucket,
                const DeviceModel& model) {
  const double items = static_cast<double>(WorkItems(program, bucket));
  const double per_block =
      program.owner >= 0 ? s.UnitsPerBlock() : double{1} * s.block_threads * s.vector * s.chunks;
  const double groups = std::ceil(items / per_block) * s.cluster;
  Spread spread;
  const double blocks = std::min(groups, static_cast<double>(s.grid));
  spread.busy = std::min<double>(model.sm_count, blocks);
  spread.resident = std::min(s.blocks_per_sm * spread.busy, blocks);
  spread.rounds = std::ceil(groups / spread.resident);
  return spread;
}

Prediction PredictProgram(const Chain& body, const StitchProgram& program, const StitchSchedule& s,
                          int64_t bucket, const DeviceModel& model) {
  const StitchLoad load = LoadOf(body, program, s, bucket);
  const Spread spread = SpreadOf(program, s, bucket, model);
  StitchLoop main;
  main.elements = MainElements(program);
  const int64_t turns = program.owner < 0 ? 1 : LoopTurns(body, s, main);
  const double share = spread.busy / model.sm_count;
  Prediction p;
  p.hbm_bytes = load.input_bytes + load.output_bytes;
  p.l2_bytes = load.again_bytes;
  p.hbm_us = p.hbm_bytes / (model.hbm_bytes_per_us * kCopyShare * std::min(1.0, 1.3 * share));
  p.l2_us = p.l2_bytes / (model.l2_bytes_per_us * share);
  const double slots = model.clock_mhz * spread.busy;
  const double issue = std::max(load.instructions / (128 * slots * kIssueShare),
                                load.special / (16 * slots * kSpecialShare));
  const int phases = static_cast<int>(program.phases.size());
  const double waits = spread.rounds * UnitUs(program, s, load, turns, model) * phases;
  p.fixed_us = model.launch_us + model.drain_us + load.barriers * model.grid_barrier_us +
               load.column_words * 8 * s.grid / s.cluster / model.l2_bytes_per_us +
               load.serial_steps * kStepUs;
  const double moved = p.hbm_us + p.l2_us;
  // Streams that take nearly as long disturb one another.
  const double stream =
      std::cbrt(moved * moved * moved + issue * issue * issue + waits * waits * waits);
  p.total_us = p.fixed_us + stream;
  const double longest = std::max({moved, issue, waits});
  p.bound = waits == longest || p.fixed_us > stream ? "latency"
            : issue == longest                      ? "issue"
                                                    : "hbm";
  return p;
}

// Enumerates the schedules of one program.
class Enumerator {
 public:
  Enumerator(const Chain& body, const StitchProgram& program, int64_t bucket,
             const DeviceModel& model, const SearchOptions& options, std::vector<RankedStitch>* out)
      : body_(body),
        program_(program),
        bucket_(bucket),
        model_(model),
        options_(options),
        out_(out) {}

  void Run() {
    if (program_.phases.size() > 1 && !options_.allow_cooperative) return;
    const int widest = WidestVector(body_);
    for (int vector = widest; vector >= 1; vector /= 2) {
      StitchSchedule s;
      s.owner = program_.owner;
      s.vector = vector;
      if (program_.owner < 0)
        Flat(s);
      else
        Rows(s);
    }
  }

 private:
  static int Registers(const StitchSchedule& s) {
    return kBaseRegisters + kVectorRegisters * s.vector;
  }
  bool Cooperative() const { return program_.phases.size() > 1; }

  void Flat(StitchSchedule s) {
    for (int threads : {128, 256, 512}) {
      for (int chunks : {1, 2, 4, 8}) {
        s.block_threads = s.unit_threads = threads;
        s.chunks = chunks;
        const int registers = Registers(s) + 4 * chunks * body_.num_inputs();
        if (registers > 160) continue;
        s.blocks_per_sm = BlocksPerSm(threads, registers);
        Grids(s, static_cast<int64_t>(threads) * s.vector * chunks);
      }
    }
  }

  void Rows(StitchSchedule s) {
    for (int cluster : kClusterSizes) {
      for (int unit : {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}) {
        if (cluster > 1 && unit < 256) continue;
        s.cluster = cluster;
        s.unit_threads = unit;
        for (int block : {128, 256, 512, 1024}) {
          if (block < unit || (cluster > 1 && block != unit)) continue;
          if (unit < 32 ? block > 256 : block / unit > 15) continue;
          s.block_threads = block;
          Keeps(s);
        }
      }
    }
  }

  void Keeps(StitchSchedule s) {
    StitchLoop main;
    main.elements = MainElements(program_);
    const int64_t turns = LoopTurns(body_, s, main);
    const int64_t threads = int64_t{s.unit_threads} * s.cluster;
    // No thread without an element, but in a lone unit of a block.
    if (threads / 2 * LoopVector(body_, s, main) >= main.elements && s.unit_threads > 1) return;
    struct Kept {
      bool inputs, values, alike;
    };
    constexpr Kept kKept[] = {{true, false, false},
                              {true, true, false},
                              {true, false, true},
                              {true, true, true},
                              {false, false, false}};
    for (const Kept& kept : kKept) {
      s.keep_inputs = kept.inputs;
      s.keep_values = kept.values;
      s.keep_alike = kept.alike;
      if ((kept.inputs || Cooperative()) && turns > kMostTurns) continue;
      const StitchLoad load = LoadOf(body_, program_, s, bucket_);
      if (load.kept_words > kMostKeptWords || (kept.values && !load.repeats)) continue;
      int registers = Registers(s) + static_cast<int>(load.kept_words);
      if (Cooperative()) registers += static_cast<int>(turns) * s.vector;
      if (registers > 65536 / s.block_threads || registers > 200) continue;
      s.blocks_per_sm = BlocksPerSm(s.block_threads, registers);
      Grids(s, s.UnitsPerBlock());
    }
  }

  // As many blocks as there is work for, or as many as fit at once.
  void Grids(StitchSchedule s, int64_t items_per_block) {
    const int64_t items = std::max<int64_t>(1, WorkItems(program_, bucket_));
    const int64_t wanted = (items + items_per_block - 1) / items_per_block * s.cluster;
    const int64_t fits = int64_t{model_.sm_count} * s.blocks_per_sm / s.cluster * s.cluster;
    if (fits == 0) return;
    for (int64_t grid : {std::min<int64_t>(wanted, 1 << 19), std::min(wanted, fits)}) {
      grid = grid / s.cluster * s.cluster;
      if (grid < s.cluster || (Cooperative() && grid > fits)) continue;
      s.grid = static_cast<int>(grid);
      Add(s);
      if (wanted <= fits) return;
    }
  }

  void Add(const StitchSchedule& s) {
    if (StitchSharedBytes(body_, program_, s) > model_.shared_bytes_per_block) return;
    if (!CheckStitchFields(s).ok()) return;
    out_->push_back({s, PredictProgram(body_, program_, s, bucket_, model_)});
  }

  const Chain& body_;
  const StitchProgram& program_;
  const int64_t bucket_;
  const DeviceModel& model_;
  const SearchOptions& options_;
  std::vector<RankedStitch>* const out_;
};

}  // namespace

absl::StatusOr<Prediction> PredictStitch(const Chain& body, const StitchSchedule& schedule,
                                         int64_t bucket, const DeviceModel& model) {
  SINTER_ASSIGN_OR_RETURN(const StitchProgram program, MakeStitchProgram(body, schedule.owner));
  return PredictProgram(body, program, schedule, bucket, model);
}

absl::StatusOr<std::vector<RankedStitch>> SearchStitch(const Chain& body, int64_t bucket,
                                                       const DeviceModel& model,
                                                       const SearchOptions& options) {
  std::vector<RankedStitch> ranked;
  absl::Status first_error;
  for (ValueId owner : OwnerCandidates(body)) {
    const absl::StatusOr<StitchProgram> program = MakeStitchProgram(body, owner);
    first_error.Update(program.status());
    if (program.ok()) Enumerator(body, *program, bucket, model, options, &ranked).Run();
  }
  if (ranked.empty()) {
    if (!first_error.ok()) return first_error;
    return absl::FailedPreconditionError("no schedule of the stitch family is legal");
  }
  std::sort(ranked.begin(), ranked.end(), [](const RankedStitch& a, const RankedStitch& b) {
    if (a.prediction.total_us != b.prediction.total_us) {
      return a.prediction.total_us < b.prediction.total_us;
    }
    return a.schedule.Canonical() < b.schedule.Canonical();
  });
  const size_t kept = std::min<size_t>(ranked.size(), static_cast<size_t>(options.top_k));
  ranked.resize(kept);
  return ranked;
}

}  // namespace sinter
