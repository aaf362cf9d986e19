// FusionPicture: what a plan's kernels fuse, as data to draw: the ops of each stitch kernel and how
// results travel between them, the tensors at its border, what fusing them saves, and why kernels
// that hand something over are not one. Made by src/fusion/stitch/explain_fusion.h; drawn as text,
// JSON and SVG, none of which knows how it was found out.
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
  int op = -1;                            // of the kernel, by its place in KernelFusion::ops
  int tensor = -1;                        // when op is -1: of KernelFusion::reads
  Composition by = Composition::kThread;  // meaningful for an op
  std::vector<std::string> through = {};  // what the reader computes on the way, from the source
                                          // on: "cast f32", "broadcast", "slice"
};

struct OpPicture {
  std::string name;  // "reduce sum"
  std::string type;  // "f32[M,1]"
  std::vector<OpRead> reads;
  std::vector<int> writes;  // of KernelFusion::writes
  int64_t saved_bytes = 0;  // that its result does not travel to memory and back
};

struct TensorPicture {
  std::string place;  // "#0": a buffer of the plan, "ws+65536"
  std::string type;
  int64_t bytes = 0;
  int kernel = -1;  // that wrote what is read; -1: an input of the chain
};

// A value that threads hand over through shared memory.
struct HandPicture {
  std::string value;   // "%4 exp": an op of the kernel; or what is drawn with none
  int64_t bytes = 0;   // of one unit
  int64_t offset = 0;  // in the share of a unit's threads: its slot
  int instead = -1;    // of the kernel's hands: whose slot it takes, that is dead by then
};

// What a stitch kernel's predicted time adds up from: `together_us` of what overlaps, and
// `fixed_us`.
struct FusionTimes {
  bool known = false;  // the cost model says what the plan says
  double issue_us = 0, latency_us = 0, together_us = 0, fixed_us = 0;
};

struct KernelFusion {
  std::vector<OpPicture> ops;  // of a stitch kernel: what is not a view, in order
  int inlined = 0;  // its other ops, views and constants above all, which readers compute
  FusionTimes times;
  std::vector<TensorPicture> reads, writes;
  // What no hand-over connects, packed into one kernel: groups of parts that are alike but for
  // extents, each part its ops.
  std::vector<std::vector<std::vector<int>>> parts;
  std::vector<HandPicture> hands;
  std::array<int, kCompositions> edges = {};  // fused edges by composition
  int64_t border_bytes = 0;
  int64_t saved_bytes = 0;  // that one kernel for each op would move beside that

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
  std::vector<std::vector<int>> equal;  // kernels that are alike but for their operands' places
  int64_t saved_bytes = 0;

  // Kernels that `apart` joins for one reason: pairs of groups of `equal`.
  struct Reason {
    int from_group = 0, to_group = 0;
    int count = 0;
    int64_t bytes = 0;  // of one
    std::string why;
  };
  std::vector<Reason> Reasons() const;
  int GroupOf(int kernel) const;
};

// "0", "0, 3, 6", "0, 3, 6 .. 57 (20)".
std::string KernelNumbers(const std::vector<int>& kernels);

// Lines that belong below a kernel's head: parts, ops, compositions, bytes. "" for a kernel that is
// no stitch.
std::string KernelFusionText(const KernelFusion& fusion);
// Which kernels are not one and why; "" when nothing is handed over.
std::string ApartText(const FusionPicture& picture);

// {"saved_bytes", "equal_kernels", "kernels": [{"ops", "inlined", "reads", "writes", "parts",
// "edges", "border_bytes", "saved_bytes", where they are known "times", where there are any
// "hands"}], "not_fused": [{"from", "to", "bytes", "why"}]}. A read of an op has "through" where it
// goes through views.
std::string FusionJson(const FusionPicture& picture);

// One kernel's graph of ops, below one another by depth; returns the height taken.
double DrawFusion(const KernelFusion& fusion, Point at, Svg* svg);

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_PICTURE_FUSION_PICTURE_H_
