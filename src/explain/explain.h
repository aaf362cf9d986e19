// Fills explanations.
#ifndef SINTER_SRC_EXPLAIN_EXPLAIN_H_
#define SINTER_SRC_EXPLAIN_EXPLAIN_H_

#include <string>
#include <vector>

#include "src/base/device_model.h"
#include "src/explain/explanation.h"
#include "src/product/paper/dataflow_analyzer.h"

namespace sinter {

// What a plan's buffers are called, by their number: the names that the caller gave, and "input 2"
// or "output" for others. May hold fewer than there are, or none.
struct BufferNames {
  std::vector<std::string> names;
  std::vector<bool> given;

  // "" without one.
  const std::string& Of(int buffer) const;
  // Of what a kernel of products takes as `role`; "" where the caller gave none.
  std::string Given(const KernelSpec& spec, Role role) const;
};

// What a plan and the model say by themselves: ops, schedules, buffers, drawings of products,
// levels, constants.
Explanation Describe(const Plan& plan, const DeviceModel& model, const BufferNames& names = {});

// Adds what stitched kernels fuse, the bytes that this saves, and why there are not fewer kernels.
// Depends on the plan and the model alone. Bytes saved
// are those that one kernel for each op (StitchGraph, uncontracted) would move in addition to the
// plan's own. To find why two neighbouring kernels are not one, joins them and searches, for at
// most kMostJoined different pairs.
void ExplainFusion(const DeviceModel& model, Explanation* explanation);
constexpr int kMostJoined = 64;

// Parts of Describe.

// Sets what a kernel computes, in words.
void NameOps(const KernelSpec& spec, const BufferNames& names, ExplainedKernel* story);
// "2 kernels: gate, up and silu in one; down".
std::string ComputesOf(const std::vector<ExplainedKernel>& kernels);
// "reduce sum", "cast f32", "add".
std::string LabelOf(const Op& op);

// Precondition: CheckScheduleFields(spec.sequence, spec.schedule) is OK.
ProductsPicture PictureOf(const KernelSpec& spec, const BufferNames& names = {});

// Bytes of the C that the second product of one row tile (or of one range of N, where clusters
// share a row tile) reads, by the level that the cluster's first block reads them from: its own
// shared memory, distributed shared memory (sent by peers), L2. All zero for one product. This is
// the mapping of a reused tensor in FlashFuser's Algorithm 1 (dataflow_analyzer.h).
LevelBytes IntermediateSplit(const ProductSequence& sequence, const Schedule& schedule);
// "registers", "shared memory", "DSM", "L2", "global memory".
absl::string_view NameOf(MemoryLevel level);

// For a kernel of products: one entry a level, in the order of LevelTerms(). For a stitched kernel
// with known `times`: hbm and l2 (one after the other), issue and latency; then "together", the
// time of these as they overlap, and "fixed". The last two add up to the prediction. With unknown
// `times`: the prediction's fields.
std::vector<LevelCost> LevelsOf(const PlannedKernel& kernel, const StitchTerms& times,
                                const DeviceModel& model);

// One constant a number of the model, in the order of its text form. The source of a value that
// equals that of the built-in model of the same name is that file's comment, or "as the model says
// at its head" for a line without one. Any other value was given by the device or by a model file.
// A value taken over from a built-in model also has that model's comment. The note is the comment
// at the head of the built-in model of that name; "" if there is none.
ModelStory StoryOf(const DeviceModel& model);

}  // namespace sinter

#endif  // SINTER_SRC_EXPLAIN_EXPLAIN_H_
