// Fills explanations.
#ifndef SINTER_SRC_EXPLAIN_EXPLAIN_H_
#define SINTER_SRC_EXPLAIN_EXPLAIN_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/device_model.h"
#include "src/plan/description.h"

namespace sinter {

// Explanation: every reported fact about a plan, as data. Filled once; the text, the JSON and
// the drawing say what stands here and work nothing out.

// Two kernels of which the second reads what the first wrote, or neighbours that share nothing.
struct ApartKernels {
  int from = 0, to = 0;
  int64_t bytes = 0;  // handed over; 0: nothing
  std::string why;
  SINTER_FIELDS(ApartKernels, from, to, bytes, why);
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

// What the engine knows in addition to the plan.
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
  SINTER_FIELDS(ModelNote, key, value, provenance, source);
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
  // The group of each kernel, an index in `equal`.
  std::vector<int> Groups() const;
};

// What kernels, by their families, and the model say by themselves: ops, schedules, buffers,
// pictures, levels, constants.
Explanation Describe(const Plan& plan, const DeviceModel& model, const BufferNames& names = {});

// Adds what kernels whose ops are a graph fuse, the bytes that this saves, and why there are not
// fewer kernels. Depends only on the plan and the model. Bytes saved are those that one kernel for
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

// Renders explanations, and parts of them, as text, JSON and SVG. Texts end with a newline.

// The plan on one screen: drawings, bytes and time per level, where each kernel came from; below it
// the best plans that were not chosen, each with the reason.
std::string ExplanationText(const Explanation& explanation);
// The plan in a few lines: schedules, times, search, where each kernel came from.
std::string SummaryText(const Explanation& explanation);
// The first of these lines: the plan's, without where it came from.
std::string PlanText(const Explanation& explanation);

// {"schema": 3, "kernels": [{"title", "formulas", "launch", "shared", "products", "window" (of
// a convolution), "hand_overs", "intermediate_bytes" (c's bytes by level), "levels"}],
// "runners_up", "fusion" (FusionJson, for plans with stitched kernels), "model":
// {"name", "measured", "note", "constants"}}. The names are a stable format.
std::string ExplanationJson(const Explanation& explanation);
// {"saved_bytes", "equal_kernels", "kernels": [{"ops", "inlined", "reads", "writes", "parts",
// "edges", "border_bytes", "saved_bytes", "times" (if known), "hands" (if any)}], "not_fused":
// [{"from", "to", "bytes", "why"}]}. A read of an op has "through" where it passes views.
std::string FusionJson(const Explanation& explanation);
// The plan itself, for tools: docs/plan-formats.md has the names.
std::string PlanJson(const Plan& plan);
// Both as values, for a document that holds them.
nlohmann::ordered_json PlanDocument(const Plan& plan);
nlohmann::ordered_json ExplanationDocument(const Explanation& explanation);

// A self-contained SVG document, well-formed for any plan: kernels that are alike once, with their
// schedule, times and bytes, what they read and write, their products or ops, and the way of each
// value between these; why kernels are apart; a legend.
std::string PlanSvg(const Explanation& explanation);

// One kernel: its schedule, drawing, bytes and time of each level, predicted and measured time.
std::string KernelText(const Explanation& explanation, size_t kernel);
// A kernel of products in ASCII: its products as boxes from left to right, their operands above,
// the transfer of the intermediate between them, shared memory below. At most 100 columns for two
// products; no trailing blanks.
std::string ProductsText(const ProductsPicture& products);
// Parts, ops, compositions and bytes of a stitched kernel; "" for another.
std::string FusionText(const KernelDescription& kernel);
// "%2 (broadcast) warp"; of an input, its name: "x (cast f32)".
std::string ReadText(const KernelDescription& kernel, const OpRead& read);
// What threads hand over through shared memory; "" for nothing.
std::string HandsText(const KernelDescription& kernel);
// "kernel 0, 2 | kernel 1 (2 times): 262 kB handed over".
std::string ReasonText(const Explanation& explanation, const Explanation::Reason& reason);
// Why kernels are not one; "" when nothing is handed over.
std::string ApartText(const Explanation& explanation);
// The first candidates, so that a plan fits a screen; "" for none.
std::string RunnersUpText(const std::vector<Candidate>& runners_up);
// "predicted 11.50 us, measured 12.10 us: 5.2 % more than predicted". Without a measurement: how to
// get one.
std::string MeasuredText(double predicted_us, double measured_us);
// "262 kB".
std::string BytesText(int64_t bytes);
// "0", "0, 3, 6", "0, 3, 6 .. 57 (20)".
std::string KernelNumbers(const std::vector<int>& kernels);

// Parts of ExplainFusion.

// Adds the ops of the kernel's body, each of which would be a kernel of its own, to a description
// that has the tensors at its border. None when the body makes no StitchGraph or no program.
void AddOps(const KernelSpec& spec, int64_t bucket, KernelDescription* kernel);

// A body, and the tensor of each of its inputs and outputs: equal numbers are one tensor in any
// body.
struct NamedBody {
  const Chain* body = nullptr;
  std::vector<int> tensors;
};

// `first` followed by `second`. An output of `first` that `second` reads is computed, an input of
// both is read once. Outputs of `first` among `wanted` stay outputs, and so do all of `second`.
// Outputs keep the inputs' buffers that they share. An error names the op that does not fit.
absl::StatusOr<Chain> JoinBodies(const NamedBody& first, const NamedBody& second,
                                 const std::set<int>& wanted);

}  // namespace sinter

#endif  // SINTER_SRC_EXPLAIN_EXPLAIN_H_
