// KernelDescription: the full description of a kernel, as data, whatever its family (family.h) is.
// The text, the JSON and the drawing of it (src/explain) say what stands here.
#ifndef SINTER_SRC_PLAN_DESCRIPTION_H_
#define SINTER_SRC_PLAN_DESCRIPTION_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "src/base/device_model.h"
#include "src/plan/plan.h"
#include "src/product/dataflow/dataflow.h"
#include "src/stitch/schedule.h"

namespace sinter {

// What a plan's buffers are called, by their number: the names that the caller gave, and "input 2"
// or "output" for others. May hold fewer than there are, or none.
struct BufferNames {
  std::vector<std::string> names;
  std::vector<bool> given;

  // "" without one.
  const std::string& Of(int buffer) const;
  // The operand that a kernel of products takes as `role`; "" if the caller gave it no name.
  std::string Given(const std::vector<OperandBinding>& operands, Role role) const;
};

// A buffer, or a part of one, that a kernel reads or writes.
struct KernelBuffer {
  int buffer = 0;
  uint64_t offset_bytes = 0;
  std::string type;   // "bf16[M,1024]"
  int64_t bytes = 0;  // distinct elements at the plan's bucket
  bool write = false;
  bool of_m = false;  // has rows of M
  // "#0", "ws+65536".
  std::string Place() const;
};

// "x (#0)"; only the place if there is no name.
std::string WithName(const std::string& place, const std::string& name);

// A level of a kernel's predicted time.
struct LevelCost {
  std::string level;  // "hbm"
  double us = 0;
  std::string amount;     // "19.5 MB", "862 kB a block"; "" for a level that moves nothing
  std::string rate;       // "4.55 TB/s"
  std::string constants;  // the device model's fields that give the rate
  bool bound = false;     // the largest of all levels
  SINTER_FIELDS(LevelCost, level, us, amount, rate, constants, bound);
};

// ---- A picture of a kernel of products: what it does, besides its buffers.

struct MatrixPicture {
  Role role = Role::kA;
  int products = 1;  // of its kernel
  int64_t rows = 0, columns = 0, bytes = 0;
  std::string name;  // the user's, of an input; "" without one
  std::string Argument() const { return NameOf(role, products); }  // "a", "w1"
  std::string Label() const;                                       // "w1 = gate_proj"
};

struct ProductPicture {
  std::string formula;  // "c = silu(a w1) * (a w_up)"
  MatrixPicture result;
  std::vector<MatrixPicture> operands;  // loaded by the product: rows (unless they are handed over
                                        // inside the cluster), then weights
  std::string operands_from;            // "HBM", "L2 and HBM"
  int64_t tile_rows = 0, tile_columns = 0, k = 0;
  int width = 1;               // weight matrices side by side
  bool apart = false;          // with two matrices: gate in one block, up in its neighbour
  int split_k = 1;             // blocks that share a tile's K and add their sums through DSM
  int clusters = 1;            // clusters that share a tile's K and add their sums through L2
  Share share = Share::kNone;  // the operand that two blocks with neighbouring tiles load together
  int64_t row_tiles = 0, column_tiles = 0;
  int64_t turns = 1;  // tiles that a group of blocks takes one after another
  // The lines name its tiles, the cut of K, and the owners: "tile 64 x 96", "K 3072 over 4 blocks
  // (DSM)".
  std::vector<std::string> Lines() const;
};

struct HandOver {
  Medium medium = Medium::kNone;   // through which c goes
  std::vector<std::string> lines;  // "24 KiB to each of 15", "dsm_shuffle"
};

struct SharedPart {
  std::string name;   // "ring", "c", "partial sums", "other"
  int64_t bytes = 0;  // of one block
  int64_t count = 1;
};
// "ring 4 x 24 KiB + c 12 KiB".
std::string ToString(const std::vector<SharedPart>& parts);

// The windows of a convolution.
struct WindowPicture {
  PixelWindow window;
  int64_t images = 0;        // of a full bucket
  int64_t image_bytes = 0;   // of all of them
  int64_t matrix_bytes = 0;  // of all windows side by side, which no kernel stores
  int64_t step_columns = 0;  // of K, in a step
  // "3", "4-7": the K steps that load a tap; taps are counted row by row.
  std::string StepsOf(int64_t tap) const;
  // What a window is, and which steps of K load which tap.
  std::vector<std::string> Lines() const;
};

struct ProductsPicture {
  std::string title;  // of the dataflow: who owns what
  std::vector<ProductPicture> products;
  std::optional<WindowPicture> window;  // of the first product's rows
  std::vector<HandOver> hand_overs;     // one between consecutive products
  // For two products: the bytes of c that the second one's row tile reads, by level, and the same
  // as text: "c of a row tile: 3 KiB shared memory + 9 KiB DSM".
  std::vector<std::pair<std::string, double>> split;
  std::string split_text;
  std::string result_to;  // "HBM", or "L2" when another kernel of the plan reads it
  int64_t blocks = 0, cluster = 1;
  int warpgroups_m = 1, warpgroups_n = 1;
  std::vector<SharedPart> shared;  // of a block, all of it
  // "2 x 1 consumer warpgroups a block", and its shared memory.
  std::vector<std::string> BlockLines() const;
};

// ---- A picture of a kernel of ops

struct OpRead {
  int op = -1;                            // index in KernelDescription::ops
  int tensor = -1;                        // when op is -1: index in KernelDescription::reads
  Composition by = Composition::kThread;  // for an op
  std::vector<std::string> through = {};  // what the reader computes between source and itself,
                                          // from the source: "cast f32", "broadcast", "slice"
};

struct OpPicture {
  std::string name;  // "reduce sum"
  std::string type;  // "f32[M,1]"
  std::vector<OpRead> reads;
  std::vector<int> writes;  // indices in KernelDescription::writes
  int64_t saved_bytes = 0;  // because its result is not written to memory and read back
};

struct TensorPicture {
  std::string place;  // "#0": a buffer of the plan, "ws+65536"
  std::string type;
  int64_t bytes = 0;
  int kernel = -1;   // that wrote it; -1: an input of the chain
  std::string name;  // the user's, of an input; "" without one
  // "x", or the place where there is no name; "x (#0)".
  const std::string& ShortName() const { return name.empty() ? place : name; }
  std::string FullName() const { return WithName(place, name); }
};

// A value that threads hand over through shared memory.
struct HandPicture {
  std::string value;   // "%4 exp": an op of the kernel; or a value without an op in the drawing
  int64_t bytes = 0;   // in one unit
  int64_t offset = 0;  // its slot, in the shared memory of a unit's threads
  int instead = -1;    // index in KernelDescription::hands: the earlier value whose slot it reuses
  ValueId id = -1;     // of the kernel's body
};

// The terms of a stitched kernel's predicted time: `together_us` for what overlaps, plus
// `fixed_us`.
struct StitchTerms {
  bool known = false;  // the cost model and the plan agree
  double issue_us = 0, latency_us = 0, together_us = 0, fixed_us = 0;
};

// The full description of a kernel, except the facts that follow from its neighbours.
struct KernelDescription {
  std::vector<std::string> words;  // for its ops: "gate", "up", "silu"
  // The text that two kernels described together have in common, besides schedule and times. It
  // holds no place.
  std::string alike;
  std::string kind;               // "stitched", "grid-exchange: a cluster .."
  std::string problem, schedule;  // one line each
  // Names and texts of lines: "launch", "operands", or "reads", "writes".
  std::vector<std::pair<std::string, std::string>> lines;
  std::vector<LevelCost> levels;
  std::string sum;  // of the levels, those that add up to the prediction: "together + fixed"

  std::optional<ProductsPicture> products;  // of a kernel of products that has a legal schedule
  StitchTerms times;
  std::vector<HandPicture> hands;

  // ---- Filled by src/explain, from buffers and the bodies of stitched kernels
  std::string computes;  // "gate, up and silu": its words
  bool shares = false;   // whether these are several ops
  std::vector<TensorPicture> reads, writes;
  int64_t border_bytes = 0;
  int64_t saved_bytes = 0;     // that one kernel for each op would move in addition
  std::vector<OpPicture> ops;  // that are not views, in order
  int inlined = 0;  // its other ops (mostly views and constants), computed by their readers
  // Parts packed into one kernel, without hand-overs between them: groups of parts that differ only
  // in extents; a part is its ops.
  std::vector<std::vector<std::vector<int>>> parts;
  std::array<int, kCompositions> edges = {};  // between its ops, by composition

  int PartCount() const;
};

// "reduce sum", "cast f32", "add".
std::string LabelOf(const Op& op);
// The labels of a body's ops, each once; of views and casts only where there is nothing else.
std::vector<std::string> WordsOf(const Chain& body, const std::vector<bool>& without = {});
// The levels of a predicted time that every kernel may have.
LevelCost HbmCost(const Prediction& prediction, const DeviceModel& model);
LevelCost L2Cost(const Prediction& prediction, const DeviceModel& model);
LevelCost DsmCost(const Prediction& prediction, int cluster, const DeviceModel& model);

// KernelFacts: what the schedule of a kernel of products loads and computes: the amounts from which
// the levels of its predicted time follow.

// A level of the prediction: its name in plan texts, its time.
struct LevelTerm {
  absl::string_view name;  // "hbm", "l2", "intake", "shared", "tensor", "dsm", "fixed"
  double Prediction::*us;
};
const std::array<LevelTerm, 7>& LevelTerms();

// The load of a schedule, for the busiest block unless it says otherwise. All zero for a spec that
// CheckScheduleFields refuses.
struct KernelFacts {
  enum class Intake { kBandwidth, kStages, kRing };
  double block_bytes = 0;      // loaded through L2
  double intake_bytes = 0;     // the same, and the extra cost of rows in two cache lines
  double shared_bytes = 0;     // ring writes and operand reads
  double flop = 0;             // padded to whole tiles and 64 rows a warpgroup
  int64_t steps = 0;           // ring stages
  int64_t turns = 0;           // tiles taken one after another
  int64_t busy_blocks = 0;     // blocks with work, in the product with fewer of them
  double bytes_in_flight = 0;  // in the ring: one stage is always with the consumers
  int64_t row_reads = 0;       // times that the first product's rows are loaded: column tiles
  int64_t c_reads = 0;         // times that the second product loads C; 0 within a cluster
  int64_t weight_reads = 0;    // times that weights are loaded: row tiles
  int64_t warpgroups = 0;
  Intake intake = Intake::kBandwidth;  // what limits the intake
};
KernelFacts FactsOf(const PlannedKernel& kernel, const DeviceModel& model);

// One entry a level, in the order of LevelTerms(). Times are the prediction's; amounts follow from
// the schedule.
std::vector<LevelCost> ProductLevels(const PlannedKernel& kernel, const DeviceModel& model);

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_DESCRIPTION_H_
