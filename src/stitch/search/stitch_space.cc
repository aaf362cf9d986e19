#include <algorithm>

#include "src/base/numbers.h"
#include "src/stitch/body_work.h"
#include "src/stitch/program.h"
#include "src/stitch/search/stitch_cost_model.h"
#include "src/stitch/search/stitch_search.h"
#include "src/stitch/shared_reads.h"
#include "src/stitch/sizes.h"

namespace sinter {
namespace {

constexpr int kSmallBlock = 256;
constexpr int kFewestStaged = 8, kMostStaged = 256;
constexpr int kMostGroups = 15;         // named barriers of a block, less its own
constexpr int64_t kMostTurns = 32;      // that are unrolled
constexpr int64_t kMostSplitTurns = 2;  // of a pass whose elements lanes share

using Visitor = std::function<void(const StitchSchedule&, const StitchLoad&)>;

// Elements of the longest reduction that lanes may share; 1 if there is none.
int64_t LongestShared(const Chain& body, const StitchProgram& program) {
  int64_t longest = 1;
  bool serial = false;
  ForEachLoop(program, [&](const StitchLoop& loop, const StitchPhase*) { serial |= loop.serial; });
  for (size_t id = 0; id < body.ops().size(); ++id) {
    if (!serial || program.uses[id] != ReduceUse::kSerial) continue;
    longest = std::max(longest, ReducedElements(body, body.op(static_cast<ValueId>(id))));
  }
  return longest;
}

// Enumerates the schedules of one program.
class StitchEnumerator {
 public:
  StitchEnumerator(const Chain& body, const StitchProgram& program, int64_t bucket,
                   const DeviceModel& model, const SearchOptions& options, const Visitor& visit)
      : body_(body),
        program_(program),
        bucket_(bucket),
        model_(model),
        options_(options),
        visit_(visit),
        registers_(body, program, bucket, model),
        serial_(LongestShared(body, program)),
        steps_(HasSteps(body)),
        loads_(body, program, bucket, model, options.pace) {}

  void Run() {
    if (program_.phases.size() > 1 && !options_.allow_cooperative) return;
    const int widest = WidestVector(body_);
    const bool hands = !program_.handed.empty() && !steps_;
    const int narrowest = hands ? std::max(1, widest / 2) : 1;
    for (int vector = widest; vector >= narrowest; vector /= 2) {
      StitchSchedule s;
      s.owner = program_.owner;
      s.handed = program_.handed;
      s.vector = vector;
      for (int split : {1, 4, 8, 16, 32}) {
        if (split > serial_) break;
        s.split = split;
        if (program_.owner < 0 && split == 1) Windows(s);
        if (program_.owner < 0)
          Flat(s);
        else
          Rows(s);
      }
    }
  }

 private:
  bool Cooperative() const { return program_.phases.size() > 1; }

  void Flat(StitchSchedule s) {
    for (int threads : {128, 256, 512}) {
      for (int chunks : {1, 2, 4, 8}) {
        s.block_threads = s.unit_threads = threads;
        s.chunks = chunks;
        if (s.split > 1 && !FlatSplitFits(s)) continue;
        s.blocks_per_sm = registers_.FlatBlocks(s, loads_.Of(s));
        if (s.blocks_per_sm == 0) continue;
        Grids(s, static_cast<int64_t>(threads) * s.vector * chunks / s.split);
      }
    }
  }

  // Several results of a row of windows at once: numbers that divide rows of images' usual sizes.
  void Windows(StitchSchedule s) {
    const WindowRow& row = program_.windows;
    if (row.reductions.empty() || WindowVector(row, s.vector) != s.vector) return;
    for (int pixels : {2, 4, 7, 8}) {
      if (!CheckPixels(body_, row, pixels).ok()) continue;
      s.pixels = pixels;
      for (int threads : {128, 256}) {
        s.block_threads = s.unit_threads = threads;
        s.blocks_per_sm = registers_.WindowBlocks(s);
        if (s.blocks_per_sm > 0) Grids(s, s.TurnElements());
      }
    }
  }

  // Groups of several warps use named barriers. Small blocks replace one another sooner, but with
  // barriers large blocks leave fewer parts of column reductions.
  bool GroupsFit(int unit, int block) const {
    if (unit > kWarpLanes) return block / unit <= kMostGroups;
    return Cooperative() || block <= kSmallBlock;
  }

  // Lanes share an element only where they would be idle: as many lanes as there are, or twice as
  // many.
  bool SplitFits(const StitchSchedule& s) const {
    StitchSchedule more = s;
    more.split *= 2;
    bool idle = more.split <= s.unit_threads && s.split < kWarpLanes && more.split <= serial_;
    for (const StitchPhase& phase : program_.phases) {
      for (const StitchLoop& loop : phase.loops) {
        if (!loop.serial) continue;
        if (LoopTurns(body_, s, loop) > kMostSplitTurns) return false;
        idle = idle && LoopTurns(body_, more, loop) <= 1;
      }
    }
    return !idle;
  }

  // Flat loops are split only while threads are idle.
  bool FlatSplitFits(const StitchSchedule& s) const {
    const int64_t threads = WorkItems(program_, bucket_) / s.vector * s.split;
    return s.chunks == 1 && threads <= int64_t{model_.threads_per_sm} * model_.sm_count;
  }

  void Rows(StitchSchedule s) {
    for (int cluster : kClusterSizes) {
      const bool alone = !s.handed.empty() || program_.whole || program_.tile.axis >= 0;
      if (cluster > 1 && alone) break;
      for (int unit : {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}) {
        if ((cluster > 1 && unit < 256) || unit < s.split) continue;
        if (steps_ && unit < kWarpLanes) continue;
        s.cluster = cluster;
        s.unit_threads = unit;
        if (s.split > 1 && !SplitFits(s)) continue;
        for (int block : {128, 256, 512, 1024}) {
          if (block < unit || (cluster > 1 && block != unit)) continue;
          if (!GroupsFit(unit, block)) continue;
          s.block_threads = block;
          s.staged = false;
          if (program_.tile.axis < 0) Keeps(s);
          s.staged = true;
          if (MayStage(s)) Keeps(s);
        }
      }
    }
  }

  // Units of a block that are neighbours in a staged input: enough for a sector, at most what
  // shared memory holds.
  bool MayStage(const StitchSchedule& s) const {
    if (program_.staged.empty() || s.cluster > 1) return false;
    const int units = s.UnitsPerBlock();
    if (units < kFewestStaged || units > kMostStaged) return false;
    return StitchSharedBytes(body_, program_, s) <= model_.shared_bytes_per_block;
  }

  void Keeps(StitchSchedule s) {
    if (!SegmentsFit(body_, program_, s)) return;
    StitchLoop main;
    main.elements = MainElements(program_);
    const int64_t turns = LoopTurns(body_, s, main);
    const int64_t threads = int64_t{s.unit_threads} * s.cluster;
    // Every thread has an element, except in a block's only unit and in a step's warp.
    const int fewest = steps_ ? kWarpLanes : 1;
    if (threads / 2 * LoopVector(body_, s, main) >= Shared(s, main.elements) &&
        s.unit_threads > fewest) {
      return;
    }
    struct Kept {
      bool inputs, values, alike;
    };
    constexpr Kept kKept[] = {
        {true, false, false}, {true, true, false}, {true, false, true}, {true, true, true}};
    bool any = false;
    for (const Kept& kept : kKept) {
      s.keep_inputs = kept.inputs;
      s.keep_values = kept.values;
      s.keep_alike = kept.alike;
      any |= Keep(s, turns);
    }
    s.keep_inputs = s.keep_values = s.keep_alike = false;
    if (!any) Keep(s, turns);
  }

  // Elements of the main loop, or of a loop whose elements lanes share: units with hand-overs have
  // such loops with fewer elements.
  int64_t Shared(const StitchSchedule& s, int64_t main) const {
    if (s.handed.empty()) return main;
    ForEachLoop(program_, [&](const StitchLoop& loop, const StitchPhase* units) {
      if (units != nullptr) main = std::max(main, loop.elements * LoopSplit(s, loop));
    });
    return main;
  }

  // False when the registers do not suffice.
  bool Keep(StitchSchedule s, int64_t turns) {
    if (registers_.Unrolls(s) && turns > kMostTurns) return false;
    const StitchLoad load = loads_.Of(s);
    if (s.keep_values && !load.repeats) return false;
    const BlocksByRegisters blocks = registers_.UnitBlocks(s, load, turns);
    if (blocks.liked == 0) return false;
    const int room = RoomForHandOvers(s);
    const int fewest = std::min(room, blocks.liked);
    const int most = options_.tight_registers ? std::min(room, blocks.needed) : fewest;
    for (s.blocks_per_sm = fewest; s.blocks_per_sm <= most; ++s.blocks_per_sm) {
      if (s.blocks_per_sm > 0) Launches(s);
    }
    s.blocks_per_sm = 1;  // fewer blocks leave fewer column parts
    if (Cooperative() && fewest > 1) Launches(s);
    return true;
  }

  // Blocks an SM by shared memory, with hand-overs or staged inputs.
  int RoomForHandOvers(const StitchSchedule& s) const {
    if (s.handed.empty() && !s.staged) return model_.blocks_per_sm;
    const int64_t shared = StitchSharedBytes(body_, program_, s) + model_.reserved_shared_bytes;
    return static_cast<int>(model_.shared_bytes_per_sm / shared);
  }

  void Launches(const StitchSchedule& s) {
    if (Cooperative())
      Joins(s);
    else
      Grids(s, s.UnitsPerBlock());
  }

  // The ways in which blocks join their column parts.
  void Joins(StitchSchedule s) {
    for (const bool all : {false, true}) {
      s.join_all = all;
      Grids(s, s.UnitsPerBlock());
    }
  }

  // A block for each turn of the work, or the resident blocks.
  void Grids(StitchSchedule s, int64_t items_per_block) {
    const int64_t items = std::max<int64_t>(1, FlatItems(program_, s, bucket_));
    const int64_t wanted = CeilDiv(items, items_per_block) * s.cluster;
    const int64_t fits = int64_t{model_.ResidentBlocks(s.cluster)} * s.blocks_per_sm;
    if (fits == 0) return;
    for (int64_t grid : {std::min<int64_t>(wanted, 1 << 19), std::min(wanted, fits)}) {
      grid = grid / s.cluster * s.cluster;
      if (grid < s.cluster || (Cooperative() && grid > fits)) continue;
      s.grid = static_cast<int>(grid);
      if (!AddHolding(s)) Add(s);
      if (wanted <= fits) return;
    }
  }

  // Adds the schedule with as much shared memory as later phases' inputs can use; false if no such
  // schedule exists.
  bool AddHolding(StitchSchedule s) {
    if (!Cooperative() || !s.keep_inputs) return false;
    const StitchLoad load = loads_.Of(s);
    if (load.crossing_element_bytes == 0) return false;
    const int64_t own = StitchSharedBytes(body_, program_, s);
    const int64_t of_sm = model_.shared_bytes_per_sm / s.blocks_per_sm;
    const int64_t room =
        std::min(of_sm - model_.reserved_shared_bytes, model_.shared_bytes_per_block) - own;
    const int64_t round = HoldRoundBytes(body_, program_, s, load);
    const int64_t needed = UnitRounds(program_, s, bucket_);
    int64_t rounds = std::min(room / round, needed);
    if (rounds < needed) rounds -= rounds % UnitsAtOnce(body_, s, program_);
    if (rounds < 1) return false;
    s.hold_bytes = static_cast<int>(rounds * round);
    Add(s);
    return true;
  }

  void Add(const StitchSchedule& s) {
    const int64_t shared = StitchSharedBytes(body_, program_, s);
    if (shared > model_.shared_bytes_per_block) return;
    // Blocks that wait for one another must all be resident.
    const int64_t all = (shared + model_.reserved_shared_bytes) * s.blocks_per_sm;
    if (Cooperative() && all > model_.shared_bytes_per_sm) return;
    if (!CheckStitchFields(s).ok()) return;
    visit_(s, loads_.Of(s));
  }

  const Chain& body_;
  const StitchProgram& program_;
  const int64_t bucket_;
  const DeviceModel& model_;
  const SearchOptions& options_;
  const Visitor& visit_;
  const StitchRegisters registers_;
  const int64_t serial_;  // elements of the longest reduction that lanes may share
  const bool steps_;      // of rows, which take whole warps
  LoadTable loads_;
};

// Estimates of what the compiler allocates for generated code, on any chip.
constexpr int kBaseRegisters = 24, kVectorRegisters = 5;     // of a thread that keeps nothing
constexpr int kWindowRegisters = 32, kStridedRegisters = 6;  // of places and conditions
constexpr int kTurnRegisters = 3;                            // of an unrolled turn
constexpr int kMostRegisters = 200, kMostFlatRegisters = 160;
constexpr int kMostKeptWords = 56;  // more would spill

// Registers are allocated in units of 8, at most 255 a thread: the instruction set's encoding.
constexpr int kRegisterUnit = 8, kMostOfAThread = 255;

int OfVector(const StitchSchedule& s) { return kBaseRegisters + kVectorRegisters * s.vector; }

// Words of column reductions for a thread's element, in the phase with the most of them.
int MostColumnWords(const StitchProgram& program) {
  int most = 0;
  for (const StitchPhase& phase : program.phases) {
    int words = 0;
    for (const StitchLoop& loop : phase.loops) {
      for (const StitchRoot& root : loop.roots) {
        if (root.kind == StitchRoot::kColumn) words += root.mean >= 0 ? 2 : 1;
      }
    }
    most = std::max(most, words);
  }
  return most;
}

}  // namespace

void EnumerateStitchSpace(const Chain& body, const StitchProgram& program, int64_t bucket,
                          const DeviceModel& model, const SearchOptions& options,
                          const Visitor& visit) {
  StitchEnumerator(body, program, bucket, model, options, visit).Run();
}

StitchRegisters::StitchRegisters(const Chain& body, const StitchProgram& program, int64_t m,
                                 const DeviceModel& model)
    : body_(body), program_(program), model_(model), columns_(MostColumnWords(program)) {
  for (int i = 0; i < body.num_inputs(); ++i) {
    unit_inputs_ += !IsAlike(body.input_op(i), MainElements(program), WorkItems(program, m));
  }
}

int StitchRegisters::BlocksPerSm(int threads, int registers) const {
  const int taken = std::min<int>(kMostOfAThread, RoundUp(registers, kRegisterUnit));
  const int by_registers = static_cast<int>(model_.registers_per_sm / (threads * taken));
  return std::clamp(std::min(by_registers, model_.threads_per_sm / threads), 1,
                    model_.blocks_per_sm);
}

// A thread reads all inputs before it uses one. If they do not fit, as with a long concat, it reads
// the inputs of one branch at a time.
int StitchRegisters::FlatBlocks(const StitchSchedule& s, const StitchLoad& load) const {
  const auto with = [&](int64_t inputs) {
    return OfVector(s) + static_cast<int>(4 * s.chunks * inputs);
  };
  int registers = with(load.loop_inputs);
  if (registers > kMostFlatRegisters && s.chunks == 1) registers = with(load.branch_inputs);
  return registers > kMostFlatRegisters ? 0 : BlocksPerSm(s.block_threads, registers);
}

// A thread holds the sums of its results, a row of factors and a pixel or two.
int StitchRegisters::WindowBlocks(const StitchSchedule& s) const {
  const auto taps = static_cast<int>(program_.windows.taps);
  const int apart = program_.windows.columns > 1 ? kStridedRegisters : 0;  // more pixels at once
  const int registers = kWindowRegisters + apart + s.vector * (s.pixels + taps * 3 / 4 + 2);
  return registers > kMostRegisters ? 0 : BlocksPerSm(s.block_threads, registers);
}

BlocksByRegisters StitchRegisters::UnitBlocks(const StitchSchedule& s, const StitchLoad& load,
                                              int64_t turns) const {
  if (load.kept_words > kMostKeptWords) return {};
  // An unrolled pass also reads early what all units read alike.
  const int64_t alike = s.keep_alike ? 0 : load.alike * turns * s.vector / 8;
  const int kept = static_cast<int>(load.kept_words + alike);
  const int liked =
      OfVector(s) + kept + OfTurns(s, Unrolls(s) ? static_cast<int>(turns) : kTurnsAtOnce);
  if (liked > model_.registers_per_sm / s.block_threads || liked > kMostRegisters) return {};
  const int needed = kBaseRegisters + s.vector + kept;
  return {BlocksPerSm(s.block_threads, liked), BlocksPerSm(s.block_threads, needed)};
}

// Addresses and conditions of unrolled turns, column results, and reads in flight together.
int StitchRegisters::OfTurns(const StitchSchedule& s, int turns) const {
  const int more = UnitsAtOnce(body_, s, program_) - 1;
  const int vectors = more * unit_inputs_ * s.vector / 2;
  return turns * (kTurnRegisters + s.vector * columns_ + vectors);
}

}  // namespace sinter
