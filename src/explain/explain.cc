#include "src/explain/explain.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/base/format.h"
#include "src/base/launch_recipe.h"
#include "src/draw/units.h"
#include "src/explain/tensors.h"

namespace sinter {
namespace {

using Lines = std::vector<std::pair<std::string, std::string>>;

// "#0", "ws+65536"; with its rows' distance, if any: "/4096".
std::string PlaceText(int buffer, uint64_t offset) {
  const std::string place = buffer == kWorkspaceBuffer ? "ws" : absl::StrCat("#", buffer);
  return offset > 0 ? absl::StrCat(place, "+", offset) : place;
}

std::string BindingText(const OperandBinding& b, int products, const BufferNames& names) {
  const std::string& name = names.Of(b.buffer);
  return absl::StrCat(NameOf(b.role, products), "=", PlaceText(b.buffer, b.offset_bytes),
                      b.row_stride > 0 ? absl::StrCat("/", b.row_stride) : "",
                      name.empty() ? "" : absl::StrCat(" (", name, ")"));
}

Lines LaunchLines(const KernelSpec& spec, const BufferNames& names) {
  const Schedule& s = spec.schedule;
  const ScheduleSizes z = SizesOf(spec.sequence, s);
  const std::string clusters =
      s.cluster > 1
          ? absl::StrCat(" in ", Counted(s.grid / s.cluster, "cluster"), " of ", s.cluster)
          : "";
  const auto binding = [&](std::string* out, const OperandBinding& b) {
    *out += BindingText(b, spec.sequence.size(), names);
  };
  return {{"launch", absl::StrCat(Counted(s.grid, "block"), clusters, ", shared memory ",
                                  SizeText(static_cast<double>(z.shared_bytes)), " (",
                                  Counted(s.stages, "stage"), " of ",
                                  SizeText(static_cast<double>(z.stage_bytes)), "), accumulators ",
                                  z.accumulators)},
          {"operands", absl::StrJoin(spec.operands, ", ", binding)}};
}

// One line each, for any number of operands.
Lines StitchLines(const StitchSpec& spec, const BufferNames& names) {
  std::vector<std::string> reads, writes;
  const int inputs = spec.body.num_inputs();
  for (int i = 0; i < static_cast<int>(spec.operands.size()); ++i) {
    const StitchOperand& at = spec.operands[static_cast<size_t>(i)];
    const TensorType& type =
        i < inputs ? spec.body.input_op(i).type : spec.body.output_type(i - inputs);
    const std::string place = at.buffer == kWorkspaceBuffer ? absl::StrCat("ws+", at.offset_bytes)
                                                            : absl::StrCat("#", at.buffer);
    (i < inputs ? reads : writes)
        .push_back(absl::StrCat(WithName(place, names.Of(at.buffer)), " ", sinter::ToString(type)));
  }
  return {{"reads", absl::StrJoin(reads, ", ")}, {"writes", absl::StrJoin(writes, ", ")}};
}

ExplainedKernel StoryOf(const PlannedKernel& kernel, const DeviceModel& model,
                        const BufferNames& names) {
  const KernelSpec& spec = kernel.spec;
  ExplainedKernel story;
  NameOps(spec, names, &story);
  story.problem = ProblemText(spec);
  story.schedule = ScheduleText(spec);
  story.lines =
      spec.stitch == nullptr ? LaunchLines(spec, names) : StitchLines(*spec.stitch, names);
  if (CheckScheduleFields(spec.sequence, spec.schedule).ok()) {
    story.products = PictureOf(spec, names);
  }
  story.levels = LevelsOf(kernel, {}, model);
  return story;
}

// Kernels with equal keys are told of once.
std::string KeyOf(const PlannedKernel& kernel) {
  const KernelSpec& spec = kernel.spec;
  const std::string computed =
      spec.stitch != nullptr
          ? spec.stitch->body.CanonicalBytes()
          : absl::StrCat(spec.sequence.Canonical(), spec.sequence.rows(), spec.constant_rows);
  return absl::StrCat(NameOf(spec.family), computed, ScheduleBytes(spec),
                      FormatText("%a %a", kernel.prediction.total_us, kernel.measured_us));
}

std::vector<std::vector<int>> EqualKernels(const Plan& plan) {
  std::vector<std::vector<int>> groups;
  std::map<std::string, size_t> known;
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    const auto [at, fresh] = known.try_emplace(KeyOf(plan.kernels[i]), groups.size());
    if (fresh) groups.emplace_back();
    groups[at->second].push_back(static_cast<int>(i));
  }
  return groups;
}

void AddBorders(const BufferNames& names, Explanation* out) {
  const PlanTensors tensors = TensorsOf(out->plan, names);
  for (size_t i = 0; i < out->kernels.size(); ++i) {
    ExplainedKernel& story = out->kernels[i];
    for (const bool write : {false, true}) {
      for (int t : write ? tensors.kernels[i].writes : tensors.kernels[i].reads) {
        const PlanTensor& tensor = tensors.tensors[static_cast<size_t>(t)];
        (write ? story.writes : story.reads)
            .push_back(
                {tensor.place, tensor.type, tensor.bytes, write ? -1 : tensor.writer, tensor.name});
        story.border_bytes += tensor.bytes;
      }
    }
  }
}

}  // namespace

const std::string& BufferNames::Of(int buffer) const {
  static const std::string none;
  const auto i = static_cast<size_t>(buffer);
  return buffer >= 0 && i < names.size() ? names[i] : none;
}

std::string BufferNames::Given(const KernelSpec& spec, Role role) const {
  for (const OperandBinding& b : spec.operands) {
    const auto i = static_cast<size_t>(b.buffer);
    if (b.role == role && b.buffer >= 0 && i < given.size() && given[i]) return names[i];
  }
  return "";
}

std::string WithName(const std::string& place, const std::string& name) {
  return name.empty() ? place : absl::StrCat(name, " (", place, ")");
}

std::string MatrixPicture::Label() const {
  const std::string argument = Argument();
  return name.empty() || name == argument ? argument : absl::StrCat(argument, " = ", name);
}

Explanation Describe(const Plan& plan, const DeviceModel& model, const BufferNames& names) {
  Explanation out;
  out.plan = plan;
  for (const PlannedKernel& kernel : plan.kernels) {
    out.kernels.push_back(StoryOf(kernel, model, names));
    out.stitched |= kernel.spec.stitch != nullptr;
  }
  out.computes = ComputesOf(out.kernels);
  out.equal = EqualKernels(plan);
  AddBorders(names, &out);
  out.model = StoryOf(model);
  return out;
}

int ExplainedKernel::PartCount() const {
  size_t count = 0;
  for (const auto& alike : parts) count += alike.size();
  return static_cast<int>(count);
}

std::vector<Explanation::Reason> Explanation::Reasons() const {
  std::vector<int> group(kernels.size());
  for (size_t i = 0; i < equal.size(); ++i) {
    for (int kernel : equal[i]) group[static_cast<size_t>(kernel)] = static_cast<int>(i);
  }
  std::vector<Reason> list;
  std::map<std::tuple<int, int, int64_t, std::string>, size_t> known;
  for (const ApartKernels& pair : apart) {
    const int from = group[static_cast<size_t>(pair.from)];
    const int to = group[static_cast<size_t>(pair.to)];
    const auto [at, fresh] = known.try_emplace({from, to, pair.bytes, pair.why}, list.size());
    if (fresh) list.push_back({from, to, 0, pair.bytes, pair.why});
    ++list[at->second].count;
  }
  return list;
}

}  // namespace sinter
