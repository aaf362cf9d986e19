// The description of a stitched kernel.
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "src/base/status.h"
#include "src/plan/fields_json.h"
#include "src/plan/stitch_family.h"
#include "src/stitch/phases.h"

namespace sinter {
namespace {

using Json = nlohmann::ordered_json;

int64_t DistinctBytes(const TensorType& type, const std::vector<Stride>& strides, int64_t m) {
  int64_t count = SizeOf(type.dtype);
  for (size_t i = 0; i < type.dims.size(); ++i) {
    if (strides[i].value != 0) count *= type.dims[i].At(m);
  }
  return count;
}

// Empty where the model disagrees with the plan, as for a plan of another version.
StitchTerms TermsOf(const PlannedKernel& kernel, int64_t bucket, const DeviceModel& model) {
  constexpr double kRounding = 1e-9;
  StitchTerms times;
  StitchOverlap overlap;
  const absl::StatusOr<Prediction> again =
      AccountOf(*StitchOf(kernel.spec), bucket, model, &overlap);
  const double total = kernel.prediction.total_us;
  times.known = again.ok() && std::abs(again->total_us - total) <= kRounding * total;
  if (!times.known) return times;
  times.issue_us = overlap.issue_us;
  times.latency_us = overlap.latency_us;
  times.together_us = overlap.together_us;
  times.fixed_us = again->fixed_us;
  return times;
}

// The hand-overs of all phases, in the order in which they are written.
std::vector<HandPicture> HandsOf(const StitchSpec& spec) {
  std::vector<HandPicture> hands;
  if (spec.schedule.handed.empty()) return hands;
  const absl::StatusOr<StitchProgram> program =
      MakeStitchProgram(spec.body, spec.schedule.owner, spec.schedule.handed);
  if (!program.ok()) return hands;
  const HandLayout layout = LayOutHands(spec.body, *program, spec.schedule);
  for (size_t phase = 0; phase < layout.phases.size(); ++phase) {
    std::map<int, int> latest;  // by slot
    for (size_t i = 0; i < layout.phases[phase].size(); ++i) {
      const HandPlace& place = layout.phases[phase][i];
      const int slot = program->phases[phase].hands[i].slot;
      const auto old = latest.find(slot);
      hands.push_back({LabelOf(spec.body.op(place.value)), place.bytes, place.offset,
                       old == latest.end() ? -1 : old->second, place.value});
      latest[slot] = static_cast<int>(hands.size()) - 1;
    }
  }
  return hands;
}

absl::StatusOr<std::vector<Composition>> CompositionsOfAlone(const Chain& body,
                                                             const StitchSchedule& schedule) {
  SINTER_ASSIGN_OR_RETURN(const StitchProgram program,
                          MakeStitchProgram(body, schedule.owner, schedule.handed));
  return CompositionsOf(body, program, schedule);
}

}  // namespace

std::vector<LevelCost> StitchLevels(const PlannedKernel& kernel, const StitchTerms& times,
                                    const DeviceModel& model) {
  const Prediction& p = kernel.prediction;
  std::vector<LevelCost> levels = {HbmCost(p, model)};
  if (p.l2_us > 0) levels.push_back(L2Cost(p, model));
  if (times.known) {
    levels.push_back({"issue", times.issue_us, "instructions", "", "clock_mhz"});
    levels.push_back({"latency", times.latency_us, "first reads, joins, turns of blocks", "",
                      "sm_intake_bytes_per_us cluster_barrier_us"});
  }
  for (LevelCost& level : levels) level.bound = level.level == p.bound;
  const char* overlap = times.known ? "the above, which overlap" : "bytes, instructions and waits";
  levels.push_back({"together", p.total_us - p.fixed_us, overlap, "", ""});
  levels.push_back({"fixed", p.fixed_us, "launch, and what no other block hides", "",
                    "launch_us grid_barrier_us behind_codes_us"});
  return levels;
}

std::vector<KernelBuffer> StitchKernels::Buffers(const KernelSpec& spec, int64_t bucket) const {
  const StitchSpec& stitch = *StitchOf(spec);
  std::vector<KernelBuffer> list;
  const int inputs = stitch.body.num_inputs();
  for (size_t i = 0; i < stitch.operands.size(); ++i) {
    const int n = static_cast<int>(i);
    const bool write = n >= inputs;
    const TensorType& type =
        write ? stitch.body.output_type(n - inputs) : stitch.body.input_op(n).type;
    const std::vector<Stride>& strides =
        write ? stitch.body.outputs()[static_cast<size_t>(n - inputs)].strides
              : stitch.body.input_op(n).strides;
    list.push_back({stitch.operands[i].buffer, stitch.operands[i].offset_bytes, ToString(type),
                    DistinctBytes(type, strides, bucket), write, SymbolicAxis(type.dims) >= 0});
  }
  return list;
}

KernelDescription StitchKernels::Describe(const PlannedKernel& kernel, int64_t bucket,
                                          const DeviceModel& model,
                                          const BufferNames& names) const {
  const StitchSpec& stitch = *StitchOf(kernel.spec);
  KernelDescription out = KernelFamily::Describe(kernel, bucket, model, names);
  out.words = WordsOf(stitch.body);
  out.alike = stitch.body.CanonicalBytes();
  out.kind = "stitched";
  out.times = TermsOf(kernel, bucket, model);
  out.levels = StitchLevels(kernel, out.times, model);
  out.hands = HandsOf(stitch);
  return out;
}

// The composition of each op; in a packed kernel, its composition in its part.
absl::StatusOr<std::vector<Composition>> CompositionsOf(const StitchSpec& spec) {
  if (spec.parts.empty()) return CompositionsOfAlone(spec.body, spec.schedule);
  std::vector<Composition> all(spec.body.ops().size(), Composition::kThread);
  for (const StitchPart& part : spec.parts) {
    SINTER_ASSIGN_OR_RETURN(const PartBody own, ExtractPart(spec.body, part.outputs));
    SINTER_ASSIGN_OR_RETURN(const std::vector<Composition> list,
                            CompositionsOfAlone(own.body, part.schedule));
    for (size_t i = 0; i < list.size(); ++i) all[static_cast<size_t>(own.ops[i])] = list[i];
  }
  return all;
}

void StitchKernels::WriteJson(const KernelSpec& spec, Json* out) const {
  const StitchSpec& stitch = *StitchOf(spec);
  Json parts = Json::array();
  for (const StitchPart& part : stitch.parts) {
    parts.push_back({{"outputs", part.outputs}, {"schedule", part.schedule.ToString()}});
  }
  out->update({{"ops", stitch.body.ops().size()},
               {"schedule", FieldsJson(stitch.schedule)},
               {"operands", FieldsJsonOfEach(stitch.operands)},
               {"scratch_offset_bytes", stitch.scratch_offset},
               {"packed_parts", parts}});
  if (stitch.schedule.pixels == 1) (*out)["schedule"].erase("pixels");
}

}  // namespace sinter
