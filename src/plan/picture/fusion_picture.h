// FusionPicture: what a plan's kernels fuse, as data to draw: each stitch kernel's ops and how
// results reach them, the tensors at its border, the bytes saved, and why kernels with a hand-over
// between them are not one. Made by src/fusion/explain/explain_fusion.h; drawn as text, JSON and
// SVG.
#ifndef SINTER_SRC_PLAN_PICTURE_FUSION_PICTURE_H_
#define SINTER_SRC_PLAN_PICTURE_FUSION_PICTURE_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "src/draw/svg.h"
#include "src/plan/plan.h"
#include "src/stitch/composition.h"

namespace sinter {

struct OpRead {
  int op = -1;                            // index in KernelFusion::ops
  int tensor = -1;                        // when op is -1: index in KernelFusion::reads
  Composition by = Composition::kThread;  // for an op
  std::vector<std::string> through = {};  // what the reader computes between source and itself,
                                          // from the source: "cast f32", "broadcast", "slice"
};

struct OpPicture {
  std::string name;  // "reduce sum"
  std::string type;  // "f32[M,1]"
  std::vector<OpRead> reads;
  std::vector<int> writes;  // indices in KernelFusion::writes
  int64_t saved_bytes = 0;  // because its result is not written to memory and read back
};

struct TensorPicture {
  std::string place;  // "#0": a buffer of the plan, "ws+65536"
  std::string type;
  int64_t bytes = 0;
  int kernel = -1;  // that wrote it; -1: an input of the chain
};

// A value that threads hand over through shared memory.
struct HandPicture {
  std::string value;   // "%4 exp": an op of the kernel; or a value without an op in the drawing
  int64_t bytes = 0;   // in one unit
  int64_t offset = 0;  // its slot, in the shared memory of a unit's threads
  int instead = -1;    // index in KernelFusion::hands: the earlier value whose slot it reuses
};

// The terms of a stitch kernel's predicted time: `together_us` for what overlaps, plus `fixed_us`.
struct FusionTimes {
  bool known = false;  // the cost model and the plan agree
  double issue_us = 0, latency_us = 0, together_us = 0, fixed_us = 0;
};

struct KernelFusion {
  std::vector<OpPicture> ops;  // a stitch kernel's ops that are no views, in order
  int inlined = 0;  // its other ops (mostly views and constants), computed by their readers
  FusionTimes times;
  std::vector<TensorPicture> reads, writes;
  // Parts packed into one kernel, without hand-overs between them: groups of parts that differ only
  // in extents; a part is its ops.
  std::vector<std::vector<std::vector<int>>> parts;
  std::vector<HandPicture> hands;
  std::array<int, kCompositions> edges = {};  // fused edges by composition
  int64_t border_bytes = 0;
  int64_t saved_bytes = 0;  // that one kernel for each op would move in addition

  int PartCount() const;
};

// Two kernels of which the second reads what the first wrote, or neighbours that share nothing.
struct ApartKernels {
  int from = 0, to = 0;
  int64_t bytes = 0;  // handed over; 0: nothing
  std::string why;
};

struct FusionPicture {
  std::vector<KernelFusion> kernels;  // as in the plan
  std::vector<ApartKernels> apart;
  std::vector<std::vector<int>> equal;  // kernels that differ only in the places of their operands
  int64_t saved_bytes = 0;

  // Entries of `apart` with one reason: pairs of groups of `equal`.
  struct Reason {
    int from_group = 0, to_group = 0;
    int count = 0;
    int64_t bytes = 0;  // of one entry
    std::string why;
  };
  std::vector<Reason> Reasons() const;
  int GroupOf(int kernel) const;
};

// "0", "0, 3, 6", "0, 3, 6 .. 57 (20)".
std::string KernelNumbers(const std::vector<int>& kernels);

// Lines below a kernel's head: parts, ops, compositions, bytes. "" for a kernel that is not a
// stitch kernel.
std::string KernelFusionText(const KernelFusion& fusion);
// Why kernels are not one; "" when nothing is handed over.
std::string ApartText(const FusionPicture& picture);

// {"saved_bytes", "equal_kernels", "kernels": [{"ops", "inlined", "reads", "writes", "parts",
// "edges", "border_bytes", "saved_bytes", "times" (if known), "hands" (if any)}], "not_fused":
// [{"from", "to", "bytes", "why"}]}. A read of an op has "through" where it passes views.
std::string FusionJson(const FusionPicture& picture);

// Draws one kernel's graph of ops in rows by depth; returns the height taken.
double DrawFusion(const KernelFusion& fusion, Point at, Svg* svg);

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_PICTURE_FUSION_PICTURE_H_
