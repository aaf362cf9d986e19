#include "src/plan/plan.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "src/base/codec.h"
#include "src/base/format.h"

namespace sinter {

namespace {

// What is executed of a kernel: its code and where its operands lie.
void WriteSpec(const KernelSpec& spec, ByteWriter& w) {
  w.U8(static_cast<uint8_t>(spec.family));
  w.U8(spec.batch_invariant);
  w.Bytes(ScheduleBytes(spec));
  w.U64(spec.workspace_flags_offset);
  if (spec.stitch != nullptr) {
    w.Bytes(spec.stitch->body.CanonicalBytes());
    w.U64(spec.stitch->scratch_offset);
    for (const StitchOperand& operand : spec.stitch->operands) {
      w.I64(operand.buffer);
      w.U64(operand.offset_bytes);
    }
    return;
  }
  w.Bytes(spec.sequence.Canonical());
  w.I64(spec.sequence.m);
  w.U8(spec.constant_weights);
  w.U8(spec.constant_rows);
  w.U64(spec.operands.size());
  for (const OperandBinding& operand : spec.operands) {
    w.U32(static_cast<uint32_t>(operand.role));
    w.I64(operand.buffer);
    w.U64(operand.offset_bytes);
    w.I64(operand.row_stride);
  }
}

}  // namespace

absl::string_view NameOf(KernelFamily family) {
  return family == KernelFamily::kStitch ? "stitch" : "product";
}

bool KernelSpec::operator==(const KernelSpec& o) const {
  if ((stitch == nullptr) != (o.stitch == nullptr)) return false;
  if (stitch != nullptr && !(*stitch == *o.stitch)) return false;
  const auto fields = [](const KernelSpec& s) {
    return std::tie(s.family, s.sequence, s.schedule, s.operands, s.workspace_flags_offset,
                    s.constant_weights, s.constant_rows, s.batch_invariant, s.stand_in);
  };
  return fields(*this) == fields(o);
}

std::string ProblemText(const KernelSpec& spec) {
  if (spec.stitch == nullptr) {
    const std::string text = spec.sequence.ToString();
    return spec.constant_rows ? absl::StrReplaceAll(text, {{" m<=", " m="}}) : text;
  }
  return BodyText(spec.stitch->body);
}

std::string BodyText(const Chain& body) {
  return absl::StrCat(Counted(body.ops().size() - static_cast<size_t>(body.num_inputs()), "op"),
                      ", ", Counted(static_cast<uint64_t>(body.num_inputs()), "input"), ", ",
                      Counted(static_cast<uint64_t>(body.num_outputs()), "output"));
}

std::string ScheduleText(const KernelSpec& spec) {
  if (spec.stitch == nullptr) return spec.schedule.ToString();
  if (spec.stand_in) return absl::StrCat("rows grid", spec.stitch->schedule.grid);
  return spec.stitch->ScheduleText();
}

std::string ScheduleBytes(const KernelSpec& spec) {
  return spec.stitch == nullptr ? spec.schedule.Canonical() : spec.stitch->ScheduleCanonical();
}

double Plan::PredictedUs() const {
  double total = 0;
  for (const PlannedKernel& kernel : kernels) total += kernel.prediction.total_us;
  return total;
}

bool Plan::UsesM() const {
  return std::any_of(kernels.begin(), kernels.end(), [](const PlannedKernel& kernel) {
    if (kernel.spec.stitch == nullptr) return !kernel.spec.constant_rows;
    return kernel.spec.stitch->body.UsesM();
  });
}

bool Plan::IsBatchInvariant() const {
  return !kernels.empty() && std::all_of(kernels.begin(), kernels.end(), [](const auto& kernel) {
    return kernel.spec.batch_invariant;
  });
}

Digest Plan::PlanDigest() const {
  ByteWriter w;
  w.Raw(IsStandIn() ? "sinter stand-in 2" : "sinter plan 3");
  w.I64(bucket);
  w.U64(workspace_bytes);
  w.U64(kernels.size());
  for (const PlannedKernel& kernel : kernels) WriteSpec(kernel.spec, w);
  return Sha256(w.str());
}

}  // namespace sinter
