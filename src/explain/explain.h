// Fills explanations.
#ifndef SINTER_SRC_EXPLAIN_EXPLAIN_H_
#define SINTER_SRC_EXPLAIN_EXPLAIN_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "src/base/device_model.h"
#include "src/plan/description.h"

namespace sinter {

// Explanation: all that is told of a plan, as data. Filled once (explain.h); the text, the JSON and
// the drawing (render.h) say what stands here and work nothing out.

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
  Plan plan;                               // its runners_up are all plans that do not run
  std::string computes;                    // "2 kernels: gate, up and silu in one; down"
  std::vector<KernelDescription> kernels;  // as in the plan
  std::vector<std::vector<int>> equal;  // kernels that differ only in the places of their operands
  bool has_ops = false;                 // any kernel is described op by op
  std::vector<ApartKernels> apart;
  int64_t saved_bytes = 0;  // by kernels that are described op by op
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

// What kernels, by their families, and the model say by themselves: ops, schedules, buffers,
// pictures, levels, constants.
Explanation Describe(const Plan& plan, const DeviceModel& model, const BufferNames& names = {});

// Adds what kernels whose ops are a graph fuse, the bytes that this saves, and why there are not
// fewer kernels. Depends on the plan and the model alone. Bytes saved are those that one kernel for
// each op (StitchGraph, uncontracted) would move in addition to the plan's own. To find why two
// neighbouring kernels are not one, joins them and searches, for at most kMostJoined different
// pairs.
void ExplainFusion(const DeviceModel& model, Explanation* explanation);
constexpr int kMostJoined = 64;

// ---- Parts of Describe

struct PlanTensor {
  std::string place;  // "#0", "ws+65536"
  std::string type;
  std::string name;        // of a buffer of the caller's
  int64_t bytes = 0;       // distinct elements at the plan's bucket
  int writer = -1;         // kernel; -1: an input of the chain
  bool given_out = false;  // an output of the chain
  std::vector<int> readers;
};

struct KernelTensors {
  std::vector<int> reads, writes;  // indices in PlanTensors::tensors, in the order of the operands
};

// The tensors that each kernel of a plan reads and writes. A place in the workspace holds several
// tensors, one after another.
struct PlanTensors {
  std::vector<PlanTensor> tensors;
  std::vector<KernelTensors> kernels;
  std::vector<std::set<int>> readers;  // by kernel: the kernels that read its results
};

// A read of a place belongs to the last kernel before it that wrote the place.
PlanTensors TensorsOf(const Plan& plan, const BufferNames& names = {});

// "2 kernels: gate, up and silu in one; down".
std::string ComputesOf(const std::vector<KernelDescription>& kernels);

// One constant a number of the model, in the order of its text form. The source of a value that
// equals that of the built-in model of the same name is that file's comment, or "as the model says
// at its head" for a line without one. Any other value was given by the device or by a model file.
// A value taken over from a built-in model also has that model's comment. The note is the comment
// at the head of the built-in model of that name; "" if there is none.
ModelStory StoryOf(const DeviceModel& model);

}  // namespace sinter

#endif  // SINTER_SRC_EXPLAIN_EXPLAIN_H_
