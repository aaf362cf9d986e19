// DataflowRow: all that the host knows of a dataflow. Code outside this folder asks the row and
// names no dataflow.
#ifndef SINTER_SRC_PRODUCT_DATAFLOW_DATAFLOW_H_
#define SINTER_SRC_PRODUCT_DATAFLOW_DATAFLOW_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "src/base/device_model.h"
#include "src/model/search.h"
#include "src/product/schedule.h"
#include "src/product/search/product_load.h"

namespace sinter {

class SpaceWalk;

// The memory through which the result of one product reaches the next.
enum class Medium : uint8_t { kNone, kRegister, kShared, kDsm, kL2 };
absl::string_view NameOf(Medium medium);  // "nothing", "registers", "shared memory", "DSM", "L2"

inline int64_t KeepsNothing(const ProductSequence&, const Schedule&) { return 0; }
using BytesOf = int64_t (*)(const ProductSequence&, const Schedule&);

struct DataflowRow {
  Dataflow dataflow = Dataflow::kNone;
  // In texts, JSON and errors; with underscores the kernel's function, file and entry.
  const char* name = "invalid";
  // What a schedule's bytes say: forms of one dataflow have its byte, and versions of their own.
  // Byte 4 was task lists and version 4 theirs; neither is used again.
  uint8_t byte = 0, version = 2;
  const char* cut = "";  // the name of Schedule::cut: "ranges", "slab"; "": the dataflow has no cut
  const char* cut_constant = "";  // the constant of Config that holds `cut`; "": none

  // For the picture: who owns what, how C travels (one step a line), and through which memory.
  const char *title = "a dataflow that has no drawing", *how = "";
  Medium medium = Medium::kNone;

  int products = 2;
  Offered offered = Offered::kPlanning;
  bool cooperative = false;  // blocks wait for blocks of other clusters: all must be resident
  bool writes_c = false;     // C, where no cluster keeps it, goes through the workspace
  // A cluster computes one row tile, whose columns its blocks share, and then exits, or takes the
  // next one if its weights stay. Otherwise clusters are persistent and walk over tiles.
  bool cluster_owns_rows = false;
  // `cut` clusters share a row tile by ranges of N, and their parts of E are added.
  bool ranges = false;
  int gate_ranks = 1;  // ranks that compute a tile of C together, one weight matrix each
  // Clusters take units one after another: one tile, or two whose blocks share loads
  // (Schedule::share).
  bool takes_units = false;
  bool permutes_weights = false;  // its end of a tile takes permuted columns (PermutesColumns)
  bool swaps = false;             // operands may be swapped
  bool pushes = false;            // results may be pushed to other ranks (Schedule::pushes)

  // Columns of C that a cluster keeps in shared memory.
  int64_t (*kept_columns)(const ProductSequence&, const Schedule&) = KeepsNothing;
  // Weights that stay in a block's shared memory while row tiles of 64 rows pass, one for each
  // warpgroup; null: weights pass through the ring with the rows.
  BytesOf resident_bytes = nullptr;
  // The dataflow's own checks. Precondition: the rest of CheckScheduleFields is OK.
  absl::Status (*check)(const ProductSequence&, const Schedule&, const ScheduleSizes&) = nullptr;
  // Visits the candidate schedules, in a fixed order.
  void (*enumerate)(const SpaceWalk&) = nullptr;
  // The predicted time of a legal schedule.
  Prediction (*predict)(const ProductSequence&, const Schedule&, const DeviceModel&) = nullptr;
};

#define SINTER_DECLARE_ROW(name) extern const DataflowRow k##name##Row;
SINTER_DATAFLOWS(SINTER_DECLARE_ROW)
#undef SINTER_DECLARE_ROW

// In the order of the enumerators.
absl::Span<const DataflowRow* const> AllDataflows();
// For an invalid value: a row without name and functions.
const DataflowRow& RowOf(Dataflow dataflow);
inline const DataflowRow& RowOf(const Schedule& schedule) { return RowOf(schedule.dataflow); }
// The dataflow that is written with this byte and version; null: none.
const DataflowRow* FindDataflow(uint8_t byte, uint8_t version);

// TimeLine: a kernel's prediction while it is summed up, and the terms that dataflows share.

// Sums fixed times, distributed shared memory and streams, in microseconds.
struct TimeLine {
  Prediction p;
  double total = 0;

  void Fixed(double us);
  void Dsm(double us, double bytes);
  void Stream(const LevelTimes& times, const ProductLoad& load);
  // Adds a stream's levels without its time.
  void Levels(const LevelTimes& times, const ProductLoad& load);
  Prediction Finish();
};

// The level that takes longest; "fixed" where the fixed times are longest.
std::string BoundOf(const Prediction& prediction);

// A cost that a block pays once a tile, such as the tile's end: the consumers do nothing else
// meanwhile. The producer's loads of the next tile hide little of it, because a stream is as often
// bound by the consumers' shared memory.
double EachTurn(double us, const ProductLoad& load);

// The end of a tile of product `product`: its epilogue and its store.
double EndUs(const ProductDims& dims, const ProductSequence& sequence, int product,
             const Schedule& schedule, const ProductTile& tile, const DeviceModel& model);

// The share of a stream in which HBM could take in more: the part of the 4-norm that the other
// levels add. Blocks that end a stream early load the next one's weights while others still read
// HBM for this one. Where HBM bounds the stream, that only delays the others.
double SpareHbm(const LevelTimes& times);

// How much of the second product's stream of `stream_us` has passed when C is ready. Weights load
// into the ring during the hand-over, which takes `window_us`.
double PrefetchedUs(const ProductLoad& load, const Schedule& schedule, double window_us,
                    double stream_us);

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_DATAFLOW_DATAFLOW_H_
