#include "src/plan/description.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/base/format.h"
#include "src/base/launch_recipe.h"
#include "src/plan/family.h"

namespace sinter {
namespace {

bool IsView(OpKind kind) {
  return kind == OpKind::kBroadcast || kind == OpKind::kTranspose || kind == OpKind::kReshape ||
         kind == OpKind::kSlice;
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

std::string KernelBuffer::Place() const {
  return buffer == kWorkspaceBuffer ? absl::StrCat("ws+", offset_bytes) : absl::StrCat("#", buffer);
}

std::string MatrixPicture::Label() const {
  const std::string argument = Argument();
  return name.empty() || name == argument ? argument : absl::StrCat(argument, " = ", name);
}

int KernelDescription::PartCount() const {
  size_t count = 0;
  for (const auto& alike : parts) count += alike.size();
  return static_cast<int>(count);
}

std::string LabelOf(const Op& op) {
  switch (op.kind) {
    case OpKind::kReduce:
      return absl::StrCat("reduce ", NameOf(op.reduce));
    case OpKind::kCast:
      return absl::StrCat("cast ", NameOf(op.type.dtype));
    default:
      return std::string(NameOf(op));
  }
}

std::vector<std::string> WordsOf(const Chain& body) {
  std::vector<std::string> words, views;
  for (const Op& op : body.ops()) {
    if (op.kind == OpKind::kInput || op.kind == OpKind::kScalar) continue;
    std::vector<std::string>& list = IsView(op.kind) || op.kind == OpKind::kCast ? views : words;
    std::string label = LabelOf(op);
    if (std::find(list.begin(), list.end(), label) == list.end()) list.push_back(std::move(label));
  }
  return words.empty() ? views : words;
}

LevelCost HbmCost(const Prediction& p, const DeviceModel& model) {
  return {"hbm", p.hbm_us, AmountText(p.hbm_bytes, "B"), RateText(model.hbm_bytes_per_us, "B"),
          "hbm_bytes_per_us"};
}

LevelCost L2Cost(const Prediction& p, const DeviceModel& model) {
  return {"l2", p.l2_us, AmountText(p.l2_bytes, "B"), RateText(model.l2_bytes_per_us, "B"),
          "l2_bytes_per_us"};
}

KernelDescription KernelFamily::Describe(const PlannedKernel& kernel, int64_t bucket,
                                         const DeviceModel&, const BufferNames& names) const {
  const KernelSpec& spec = kernel.spec;
  KernelDescription out;
  out.words = {std::string(name())};
  out.kind = std::string(name());
  out.problem = out.alike = ProblemText(spec);
  out.schedule = ScheduleText(spec);
  std::vector<std::string> reads, writes;
  for (const KernelBuffer& at : Buffers(spec, bucket)) {
    (at.write ? writes : reads)
        .push_back(absl::StrCat(WithName(at.Place(), names.Of(at.buffer)), " ", at.type));
  }
  out.lines = {{"reads", absl::StrJoin(reads, ", ")}, {"writes", absl::StrJoin(writes, ", ")}};
  const Prediction& p = kernel.prediction;
  out.sum = "together + fixed";
  out.levels = {{"together", p.total_us - p.fixed_us, "bytes, instructions and waits", "", ""},
                {"fixed", p.fixed_us, "launch", "", "launch_us"}};
  return out;
}

}  // namespace sinter
