// StitchSchedule: how one kernel of the stitch family runs. Plain data; search enumerates it,
// codegen turns it into source.
#ifndef SINTER_SRC_STITCH_SCHEDULE_H_
#define SINTER_SRC_STITCH_SCHEDULE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/base/codec.h"
#include "src/base/device_model.h"
#include "src/base/fields.h"
#include "src/chain/chain.h"
#include "src/stitch/program.h"

namespace sinter {

struct StitchSchedule {
  // The reduction whose kept (or, over columns, reduced) leading dims are the units; -1: no units,
  // threads share the work by elements.
  int32_t owner = -1;
  int block_threads = 256;  // 32..1024, a multiple of 32
  int unit_threads = 256;   // threads of one block that share a unit: a power of two up to 32, or a
                            // multiple of 32 that divides block_threads
  int cluster = 1;          // blocks that share a unit: 1, 2, 4, 8, 16
  int vector = 1;           // elements that a thread takes at once: a power of two
  int chunks = 1;           // without an owner: vectors of a thread in one turn
  int pixels = 1;           // neighbouring results of a row of windows that a thread makes at once
                            // (shared_reads.h): 1..16
  bool join_all = false;    // each block joins all column parts for itself: blocks then meet once a
                            // phase instead of twice
  int split = 1;  // neighbouring lanes that share each serial reduction: a power of two up to 32
                  // that divides unit_threads
  bool keep_inputs = false;  // inputs that a unit reads twice stay in registers
  bool keep_values = false;  // values expensive to recompute stay in registers too
  bool keep_alike = false;   // inputs that all units read alike stay in registers
  int hold_bytes = 0;   // shared memory of a block that holds kept inputs for the next phase that
                        // reads them: a multiple of 16
  bool staged = false;  // inputs along the units come through shared memory (shared_reads.h)
  std::vector<int32_t> handed;  // values that a unit's threads hand over through shared memory
                                // (phases.h), ascending
  int blocks_per_sm = 1;        // occupancy that the launch bounds ask for: limits registers
  int grid = 1;                 // blocks of the launch, a multiple of cluster

  SINTER_FIELDS(StitchSchedule, owner, block_threads, unit_threads, cluster, vector, chunks,
                join_all, split, keep_inputs, keep_values, keep_alike, hold_bytes, handed, staged,
                blocks_per_sm, grid, pixels);
  int UnitsPerBlock() const { return cluster > 1 ? 1 : block_threads / unit_threads; }
  // Without an owner: elements that a block takes in one turn.
  int64_t TurnElements() const { return int64_t{block_threads} * vector * chunks * pixels / split; }
  std::string Canonical() const;  // versioned bytes
  // One line: "block 256 unit 32 vec 8 keep x4 grid 1056".
  std::string ToString() const;
  // The part of it that says how a block works: "unit 32 vec 8 keep".
  std::string WorkText() const;
  // DATA_LOSS unless every field is within its bounds.
  static absl::StatusOr<StitchSchedule> FromCanonical(absl::string_view bytes);
};

// OK, or the field that is out of its bounds.
absl::Status CheckStitchFields(const StitchSchedule& schedule);

// Composition: how a result reaches the ops of its kernel that use it.

// FusionStitching's thread, warp and block composition, and those of a cluster and of the grid.
// Kernel packing joins parts without a hand-over.
enum class Composition : uint8_t {
  kThread = 0,   // in registers, or recomputed by the reader
  kWarp = 1,     // shuffles
  kBlock = 2,    // shared memory
  kCluster = 3,  // distributed shared memory
  kGrid = 4,     // through L2, after a grid barrier
};
constexpr int kCompositions = 5;
absl::string_view NameOf(Composition composition);  // "thread", ..

// By op of the body: the widest composition through which its result is read.
std::vector<Composition> CompositionsOf(const Chain& body, const StitchProgram& program,
                                        const StitchSchedule& schedule);

// Kernel packing: ranges of a kernel's blocks compute independent parts of its body, each by its
// own schedule. Blocks of different parts never wait for one another.

struct StitchBudget;   // body_work.h
struct StitchProgram;  // program.h

constexpr int kMostParts = 128;

struct StitchPart {
  std::vector<int> outputs;  // of the body, computed by the part; ascending
  StitchSchedule schedule;   // grid: only the blocks of the part
  SINTER_FIELDS(StitchPart, outputs, schedule);
};

// A part as a body, and the ops and inputs of the whole that it has.
struct PartBody {
  Chain body;
  std::vector<ValueId> ops;  // of the whole, by op of the part
  std::vector<int> inputs;   // of the whole, as the part's
};
absl::StatusOr<PartBody> ExtractPart(const Chain& body, const std::vector<int>& outputs);

// Groups of outputs without a computed value in common, ordered by their first output. Values
// computed from a few elements of inputs do not connect outputs: each part computes them itself. An
// input whose buffer an output takes belongs to one group.
std::vector<std::vector<int>> IndependentOutputs(const Chain& body);

// The common launch: the parts' threads, the fewest blocks an SM of any part, the sum of their
// blocks. Precondition: `parts` is not empty.
StitchSchedule PackedSchedule(const std::vector<StitchPart>& parts);

// The checks of CheckPart that need only the schedule.
absl::Status CheckPartFields(const StitchSchedule& schedule);

// FAILED_PRECONDITION unless the blocks that compute `body` by `schedule` can be a part: one phase
// and no clusters, so that parts are independent; no hand-overs, because slots would be laid out
// for only one part. `budget` may be null; so may `also`, which checks further conditions.
using PartCheck =
    std::function<absl::Status(const Chain&, const StitchProgram&, const StitchSchedule&)>;
absl::Status CheckPart(const Chain& body, const StitchSchedule& schedule,
                       StitchBudget* budget = nullptr, const PartCheck& also = nullptr);

// FAILED_PRECONDITION unless the parts compute every output once, `schedule` is their common
// launch, CheckPart accepts each of them, and no part reads an input whose buffer another part's
// output takes. Cheap checks come first; each part's program is made once.
absl::Status CheckParts(const Chain& body, const StitchSchedule& schedule,
                        const std::vector<StitchPart>& parts, StitchBudget* budget = nullptr,
                        const PartCheck& also = nullptr);

// "packing 60 parts: 58 x (vec 4 chunks 2), (unit 32 vec 8 keep)".
std::string PartsText(const std::vector<StitchPart>& parts);

void WriteParts(const std::vector<StitchPart>& parts, ByteWriter& writer);
// DATA_LOSS on damage; the caller runs CheckParts.
absl::StatusOr<std::vector<StitchPart>> ReadParts(ByteReader& reader);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_SCHEDULE_H_
