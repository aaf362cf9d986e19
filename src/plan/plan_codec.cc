// Plan records: Encode and Decode. The format is described in the README.
#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/base/codec.h"
#include "src/base/launch_recipe.h"
#include "src/base/printable.h"
#include "src/base/status.h"
#include "src/plan/plan.h"
#include "src/plan/spec_codec.h"
#include "src/product/role_shape.h"
#include "src/stitch/body_work.h"

namespace sinter {
namespace {

constexpr uint32_t kMagic = 0x4e4c5053;  // "SPLN"
constexpr uint32_t kFormat = 1;
constexpr uint8_t kFixedOrder = 1;      // sums are added in one fixed order
constexpr uint32_t kMaxKernels = 8192;  // one for every op of a large graph
constexpr uint32_t kMaxRunnersUp = 256;
constexpr uint64_t kMaxText = 4096;

absl::Status Lost(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("plan record: ", what));
}

template <typename P, typename F>
void ForEachFigure(P& p, F&& f) {
  for (auto* v : {&p.total_us, &p.hbm_us, &p.l2_us, &p.intake_us, &p.shared_us, &p.dsm_us,
                  &p.tensor_us, &p.fixed_us, &p.hbm_bytes, &p.l2_bytes, &p.dsm_bytes}) {
    f(*v);
  }
}

absl::StatusOr<double> ReadFigure(ByteReader& r) {
  const double v = r.F64();
  if (!std::isfinite(v) || v < 0) return Lost("a figure is negative or not finite");
  return v;
}

absl::StatusOr<std::string> ReadText(ByteReader& r) {
  const absl::string_view text = r.Bytes();
  if (text.size() > kMaxText) return Lost(absl::StrCat("text of ", text.size(), " bytes"));
  if (Printable(text) != text) return Lost("a text that is not one printable line");
  return std::string(text);
}

absl::StatusOr<Digest> ReadDigest(ByteReader& r) {
  Digest digest;
  const absl::string_view bytes = r.Raw(digest.bytes.size());
  if (!r.ok()) return Lost("truncated");
  std::copy(bytes.begin(), bytes.end(), digest.bytes.begin());
  return digest;
}

absl::StatusOr<bool> ReadFused(ByteReader& r) {
  SINTER_ASSIGN_OR_RETURN(const std::string name, ReadText(r));
  for (const bool fused : {false, true}) {
    if (name == PlanName(fused)) return fused;
  }
  return Lost("it is neither fused nor unfused");
}

absl::StatusOr<PlannedKernel> ReadKernel(ByteReader& r, StitchBudget* budget,
                                         uint64_t* scratch_bytes) {
  PlannedKernel kernel;
  SINTER_ASSIGN_OR_RETURN(kernel.spec, ReadSpec(r, budget, scratch_bytes));
  absl::Status status;
  ForEachFigure(kernel.prediction, [&](double& v) {
    absl::StatusOr<double> figure = ReadFigure(r);
    if (figure.ok()) v = *figure;
    status.Update(figure.status());
  });
  SINTER_RETURN_IF_ERROR(status);
  SINTER_ASSIGN_OR_RETURN(kernel.prediction.bound, ReadText(r));
  SINTER_ASSIGN_OR_RETURN(kernel.measured_us, ReadFigure(r));
  SINTER_ASSIGN_OR_RETURN(kernel.kernel_digest, ReadDigest(r));
  return kernel;
}

// `scratch_bytes`: of each kernel, 0 of a product.
absl::Status ReadKernels(ByteReader& r, Plan& plan, std::vector<uint64_t>* scratch_bytes) {
  const uint32_t count = r.U32();
  if (count < 1 || count > kMaxKernels) return Lost(absl::StrCat(count, " kernels"));
  StitchBudget budget;
  for (uint32_t i = 0; i < count; i++) {
    uint64_t scratch = 0;
    SINTER_ASSIGN_OR_RETURN(PlannedKernel kernel, ReadKernel(r, &budget, &scratch));
    const bool rows_of_launch = kernel.spec.stitch == nullptr && !kernel.spec.constant_rows;
    if (rows_of_launch && kernel.spec.sequence.m != plan.bucket)
      return Lost("a kernel of another bucket");
    plan.kernels.push_back(std::move(kernel));
    scratch_bytes->push_back(scratch);
  }
  return absl::OkStatus();
}

absl::Status ReadRunnersUp(ByteReader& r, Plan& plan) {
  const uint32_t count = r.U32();
  if (count > kMaxRunnersUp) return Lost(absl::StrCat(count, " runners-up"));
  for (uint32_t i = 0; i < count; i++) {
    Candidate c;
    SINTER_ASSIGN_OR_RETURN(c.name, ReadText(r));
    SINTER_ASSIGN_OR_RETURN(c.predicted_us, ReadFigure(r));
    SINTER_ASSIGN_OR_RETURN(c.why_not, ReadText(r));
    SINTER_ASSIGN_OR_RETURN(c.plan, ReadDigest(r));
    plan.runners_up.push_back(std::move(c));
  }
  return absl::OkStatus();
}

// Bytes of a body's input or output at the plan's bucket.
absl::StatusOr<int64_t> OperandBytes(const StitchSpec& stitch, int i, int64_t bucket) {
  const int inputs = stitch.body.num_inputs();
  if (i < inputs) {
    const Op& op = stitch.body.input_op(i);
    return BufferBytes(op.type, op.strides, bucket);
  }
  return BufferBytes(stitch.body.output_type(i - inputs),
                     stitch.body.outputs()[static_cast<size_t>(i - inputs)].strides, bucket);
}

absl::Status CheckStitchWorkspace(const Plan& plan, const StitchSpec& stitch,
                                  uint64_t scratch_bytes) {
  for (size_t i = 0; i < stitch.operands.size(); ++i) {
    if (stitch.operands[i].buffer != kWorkspaceBuffer) continue;
    const absl::StatusOr<int64_t> bytes = OperandBytes(stitch, static_cast<int>(i), plan.bucket);
    if (!bytes.ok()) return Lost(bytes.status().message());
    if (stitch.operands[i].offset_bytes + static_cast<uint64_t>(*bytes) > plan.workspace_bytes) {
      return Lost(absl::StrCat("stitch operand ", i, " lies outside the workspace"));
    }
  }
  if (scratch_bytes > 0 && stitch.scratch_offset + scratch_bytes > plan.workspace_bytes) {
    return Lost("stitch scratch lies outside the workspace");
  }
  return absl::OkStatus();
}

absl::Status CheckInside(const Plan& plan, const OperandBinding& b, uint64_t bytes) {
  if (b.offset_bytes + bytes <= plan.workspace_bytes) return absl::OkStatus();
  return Lost(absl::StrCat("role ", NameOf(b.role), " lies outside the workspace"));
}

// C, parts and flags must lie inside the plan's workspace.
absl::Status CheckWorkspace(const Plan& plan, const std::vector<uint64_t>& scratch_bytes) {
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    const KernelSpec& spec = plan.kernels[i].spec;
    if (spec.stitch != nullptr) {
      SINTER_RETURN_IF_ERROR(CheckStitchWorkspace(plan, *spec.stitch, scratch_bytes[i]));
      continue;
    }
    const ScheduleSizes z = SizesOf(spec.sequence, spec.schedule);
    if (z.flag_bytes > 0 &&
        spec.workspace_flags_offset + static_cast<uint64_t>(z.flag_bytes) > plan.workspace_bytes) {
      return Lost("ready flags lie outside the workspace");
    }
    for (const OperandBinding& b : spec.operands) {
      if (b.buffer != kWorkspaceBuffer) continue;
      const RoleShape shape = ShapeOf(spec.sequence, b.role);
      const int64_t rows = std::max<int64_t>(shape.rows, 1);  // of a launch: the bucket's
      const int64_t bytes =
          b.role == Role::kPartialOut ? z.partial_out_bytes : rows * shape.RowBytes();
      SINTER_RETURN_IF_ERROR(CheckInside(plan, b, static_cast<uint64_t>(bytes)));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string Plan::Encode() const {
  ByteWriter w;
  w.U32(kMagic);
  w.U32(kFormat);
  w.Bytes(name());
  w.I64(bucket);
  w.U64(workspace_bytes);
  w.U8(kFixedOrder);
  w.Bytes(note);
  w.U32(static_cast<uint32_t>(kernels.size()));
  for (const PlannedKernel& kernel : kernels) {
    WriteSpec(kernel.spec, w);
    ForEachFigure(kernel.prediction, [&](const double& v) { w.F64(v); });
    w.Bytes(kernel.prediction.bound);
    w.F64(kernel.measured_us);
    w.Raw(kernel.kernel_digest.View());
  }
  w.U32(static_cast<uint32_t>(runners_up.size()));
  for (const Candidate& c : runners_up) {
    w.Bytes(c.name);
    w.F64(c.predicted_us);
    w.Bytes(c.why_not);
    w.Raw(c.plan.View());
  }
  return w.Take();
}

absl::StatusOr<Plan> Plan::Decode(absl::string_view bytes) {
  ByteReader r(bytes);
  if (r.U32() != kMagic) return Lost("wrong magic");
  const uint32_t format = r.U32();
  if (format != kFormat) return Lost(absl::StrCat("format ", format, " is not ", kFormat));
  Plan plan;
  SINTER_ASSIGN_OR_RETURN(plan.fused, ReadFused(r));
  plan.bucket = r.I64();
  plan.workspace_bytes = r.U64();
  const uint8_t order = r.U8();
  SINTER_ASSIGN_OR_RETURN(plan.note, ReadText(r));
  if (order != kFixedOrder || plan.workspace_bytes > kMaxOffset) {
    return Lost("header out of bounds");
  }
  std::vector<uint64_t> scratch_bytes;
  SINTER_RETURN_IF_ERROR(ReadKernels(r, plan, &scratch_bytes));
  SINTER_RETURN_IF_ERROR(ReadRunnersUp(r, plan));
  SINTER_RETURN_IF_ERROR(r.Finish("plan record"));
  SINTER_RETURN_IF_ERROR(CheckWorkspace(plan, scratch_bytes));
  if (plan.Encode() != bytes) return Lost("a field is written otherwise");
  return plan;
}

}  // namespace sinter
