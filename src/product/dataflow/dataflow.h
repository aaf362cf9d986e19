// DataflowRow: all that the host knows of a dataflow. What is outside of this folder asks the row
// and names no dataflow.
#ifndef SINTER_SRC_PRODUCT_DATAFLOW_DATAFLOW_H_
#define SINTER_SRC_PRODUCT_DATAFLOW_DATAFLOW_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "src/base/device_model.h"
#include "src/model/prediction.h"
#include "src/model/search_options.h"
#include "src/product/dataflow/list.h"
#include "src/product/schedule.h"

namespace sinter {

class SpaceWalk;

// Through what the result of one product reaches the next.
enum class Medium : uint8_t { kNone, kRegister, kShared, kDsm, kL2 };
absl::string_view NameOf(Medium medium);  // "nothing", "registers", "shared memory", "DSM", "L2"

inline int64_t KeepsNothing(const ProductSequence&, const Schedule&) { return 0; }

struct DataflowRow {
  Dataflow dataflow = Dataflow::kNone;
  const char* name = "invalid";  // in JSON and messages
  // The dataflow whose byte and whose name in texts it has, beside a version and a token of its
  // own; kNone: itself.
  Dataflow form_of = Dataflow::kNone;
  uint8_t version = 2;     // of a schedule's bytes
  const char* token = "";  // behind the knobs of a schedule's text, in front of `cut`: "n", "slab"
  const char* cut = "";    // what Schedule::cut is called; "": the dataflow has none

  // The kernel in generated source.
  const char *header = "", *function = "", *types = "", *entry = "";
  const char* cut_constant = "";  // of Config, that holds `cut`; "": none

  // The picture: who owns what; how C travels, in lines, and through what.
  const char *title = "a dataflow that has no drawing", *how = "";
  Medium medium = Medium::kNone;

  int products = 2;
  Offered offered = Offered::kPlanning;
  bool cooperative = false;  // blocks wait for blocks of other clusters: all are resident at once
  bool writes_c = false;     // what of C a cluster does not keep goes through the workspace
  // A cluster has an M tile, whose columns its blocks share, and ends with it. Else clusters are
  // persistent: they walk tiles.
  bool cluster_owns_rows = false;
  // `cut` is the number of clusters that share an M tile by ranges of N; parts of E are added.
  bool ranges = false;
  int gate_ranks = 1;  // ranks that make a tile of C together, each a matrix of its own
  // Products, from the first on, whose tiles clusters take in units: one, or two whose blocks
  // share loads (Schedule::share).
  int unit_products = 0;
  bool swaps = false;  // operands may be swapped
  // f32 registers a thread for a tile that a residual is added to, with two consumer warpgroups.
  int64_t most_residual_accumulators = 128;

  // Columns of C that a cluster keeps in shared memory.
  int64_t (*kept_columns)(const ProductSequence&, const Schedule&) = KeepsNothing;
  // What it asks of a schedule beyond fields and tiles. Precondition: the rest of
  // CheckScheduleFields is OK.
  absl::Status (*check)(const ProductSequence&, const Schedule&, const ScheduleSizes&) = nullptr;
  // Visits its candidates, in a fixed order.
  void (*enumerate)(const SpaceWalk&) = nullptr;
  // The time line of a legal schedule.
  Prediction (*predict)(const ProductSequence&, const Schedule&, const DeviceModel&) = nullptr;
};

#define SINTER_DECLARE_ROW(name) extern const DataflowRow k##name##Row;
SINTER_DATAFLOWS(SINTER_DECLARE_ROW)
#undef SINTER_DECLARE_ROW

// By enumerator.
absl::Span<const DataflowRow* const> AllDataflows();
// A row of no name and no functions for a value that is none.
const DataflowRow& RowOf(Dataflow dataflow);
inline const DataflowRow& RowOf(const Schedule& schedule) { return RowOf(schedule.dataflow); }
// The one whose schedules have this byte and version; null: none.
const DataflowRow* FindDataflow(uint8_t byte, uint8_t version);
// Whose byte and name a schedule's bytes and text have.
Dataflow WrittenAs(const DataflowRow& row);

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_DATAFLOW_DATAFLOW_H_
