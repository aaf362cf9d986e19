// Explanation: all that is told of a plan, as data. Filled once (explain.h); the text, the JSON and
// the drawing (render.h) say what stands here and work nothing out.
#ifndef SINTER_SRC_EXPLAIN_EXPLANATION_H_
#define SINTER_SRC_EXPLAIN_EXPLANATION_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/plan/plan.h"
#include "src/product/dataflow/dataflow.h"
#include "src/stitch/composition.h"

namespace sinter {

// "x (#0)"; the place alone where there is no name.
std::string WithName(const std::string& place, const std::string& name);

// A level of a kernel's predicted time.
struct LevelCost {
  std::string level;  // "hbm"
  double us = 0;
  std::string amount;    // "19.5 MB", "862 kB a block"; "" for a level that moves nothing
  std::string rate;      // "4.55 TB/s"
  std::string constant;  // the device model's fields behind the rate
  bool bound = false;    // the largest of all levels
};

// What a kernel of products does, beside its buffers.

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
  // "K 3072", "K 3072 over 4 blocks (DSM)".
  std::string SplitText() const;
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
  std::string title;               // of the dataflow: who owns what
  bool cluster_owns_rows = false;  // DataflowRow::cluster_owns_rows
  std::vector<ProductPicture> products;
  std::optional<WindowPicture> window;  // of the first product's rows
  std::vector<HandOver> hand_overs;     // one between consecutive products
  // Of two products, the bytes of c that the second one's row tile reads, by level, and that as
  // text: "c of a row tile: 3 KiB shared memory + 9 KiB DSM".
  std::vector<std::pair<std::string, double>> split;
  std::string split_text;
  std::string result_to;  // "HBM", or "L2" when another kernel of the plan reads it
  int64_t blocks = 0, cluster = 1;
  int64_t ranges = 1;  // clusters that share a row tile, by ranges of N
  int warpgroups_m = 1, warpgroups_n = 1;
  int stages = 0;
  int64_t stage_bytes = 0;
  std::vector<SharedPart> shared;  // adds up to shared_bytes
  int64_t shared_bytes = 0;

  int64_t Clusters() const { return cluster > 0 ? blocks / cluster : 0; }
};

// What a stitched kernel does.

struct OpRead {
  int op = -1;                            // index in ExplainedKernel::ops
  int tensor = -1;                        // when op is -1: index in ExplainedKernel::reads
  Composition by = Composition::kThread;  // for an op
  std::vector<std::string> through = {};  // what the reader computes between source and itself,
                                          // from the source: "cast f32", "broadcast", "slice"
};

struct OpPicture {
  std::string name;  // "reduce sum"
  std::string type;  // "f32[M,1]"
  std::vector<OpRead> reads;
  std::vector<int> writes;  // indices in ExplainedKernel::writes
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
  int instead = -1;    // index in ExplainedKernel::hands: the earlier value whose slot it reuses
};

// The terms of a stitched kernel's predicted time: `together_us` for what overlaps, plus
// `fixed_us`.
struct StitchTerms {
  bool known = false;  // the cost model and the plan agree
  double issue_us = 0, latency_us = 0, together_us = 0, fixed_us = 0;
};

// A kernel, whose spec and predicted time are in Explanation::plan.
struct ExplainedKernel {
  std::string computes;           // "gate, up and silu": a few words for the ops
  bool shares = false;            // whether these are several ops
  std::string problem, schedule;  // one line each
  // Names and texts of lines: "launch", "operands", or "reads", "writes".
  std::vector<std::pair<std::string, std::string>> lines;
  std::vector<LevelCost> levels;
  // Of a kernel of products; none for a schedule that CheckScheduleFields refuses.
  std::optional<ProductsPicture> products;

  std::vector<TensorPicture> reads, writes;
  int64_t border_bytes = 0;

  // The rest is of a stitched kernel.
  int64_t saved_bytes = 0;     // that one kernel for each op would move in addition
  std::vector<OpPicture> ops;  // that are no views, in order
  int inlined = 0;  // its other ops (mostly views and constants), computed by their readers
  StitchTerms times;
  // Parts packed into one kernel, without hand-overs between them: groups of parts that differ only
  // in extents; a part is its ops.
  std::vector<std::vector<std::vector<int>>> parts;
  std::vector<HandPicture> hands;
  std::array<int, kCompositions> edges = {};  // between its ops, by composition

  int PartCount() const;
};

// Two kernels of which the second reads what the first wrote, or neighbours that share nothing.
struct ApartKernels {
  int from = 0, to = 0;
  int64_t bytes = 0;  // handed over; 0: nothing
  std::string why;
};

// Kernels of one key, and where their code came from.
struct KernelOrigin {
  std::vector<int> kernels;
  Digest digest;
  std::string origin;  // "compiled", "stand-in", "memory", ..
  double compile_us = 0;
  uint64_t registers = 0;
  bool verified = false;
};

// What the engine knows beside the plan.
struct PlanOrigin {
  std::string device, model, arch;
  std::string no_gpu;  // why there is none; "": there is one
  Digest chosen;       // PlanDigest of what planning chose
  uint64_t considered = 0, legal = 0;
  bool from_cache = false;
  Digest tuning_digest, agreed;
  std::string tuning;
  std::vector<KernelOrigin> kernels;
};

// A constant of the device model.
struct ModelNote {
  std::string key;         // a field of DeviceModel, "hbm_bytes_per_us"
  std::string value;       // for people: "4.55 TB/s"
  std::string provenance;  // "measured", "fitted from h200"
  std::string source;      // "cp.async.bulk read stream into shared memory, .."
};

struct ModelStory {
  std::string name, note;
  bool measured = false;
  std::vector<ModelNote> constants;
};

struct Explanation {
  Plan plan;                             // its runners_up are all plans that do not run
  std::string computes;                  // "2 kernels: gate, up and silu in one; down"
  std::vector<ExplainedKernel> kernels;  // as in the plan
  std::vector<std::vector<int>> equal;   // kernels that differ only in the places of their operands
  bool stitched = false;                 // any kernel is
  std::vector<ApartKernels> apart;
  int64_t saved_bytes = 0;  // by its stitched kernels
  PlanOrigin origin;
  ModelStory model;

  // Entries of `apart` with one reason: pairs of groups of `equal`.
  struct Reason {
    int from_group = 0, to_group = 0;
    int count = 0;
    int64_t bytes = 0;  // of one entry
    std::string why;
  };
  std::vector<Reason> Reasons() const;
};

}  // namespace sinter

#endif  // SINTER_SRC_EXPLAIN_EXPLANATION_H_
