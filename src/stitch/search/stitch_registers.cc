#include "src/stitch/search/stitch_registers.h"

#include <algorithm>

#include "src/base/ceil_div.h"
#include "src/stitch/search/stitch_extents.h"
#include "src/stitch/sizes.h"

namespace sinter {
namespace {

// Estimates of what the compiler allocates for generated code, on any chip.
constexpr int kBaseRegisters = 24, kVectorRegisters = 5;  // of a thread that keeps nothing
constexpr int kTurnRegisters = 3;                         // of an unrolled turn
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

// A thread reads all inputs before it uses one. Where so many do not fit, as those of a long
// concat, it reads those of one branch at a time.
int StitchRegisters::FlatBlocks(const StitchSchedule& s, const StitchLoad& load) const {
  const auto with = [&](int64_t inputs) {
    return OfVector(s) + static_cast<int>(4 * s.chunks * inputs);
  };
  int registers = with(load.loop_inputs);
  if (registers > kMostFlatRegisters && s.chunks == 1) registers = with(load.branch_inputs);
  return registers > kMostFlatRegisters ? 0 : BlocksPerSm(s.block_threads, registers);
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
  int at_once = 1;
  for (const StitchPhase& phase : program_.phases) {
    if (!phase.loops.empty()) at_once = std::max(at_once, UnitsAtOnce(body_, s, phase));
  }
  const int vectors = (at_once - 1) * unit_inputs_ * s.vector / 2;
  return turns * (kTurnRegisters + s.vector * columns_ + vectors);
}

}  // namespace sinter
