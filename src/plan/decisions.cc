#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/codec.h"
#include "src/base/format.h"
#include "src/base/status.h"
#include "src/plan/family.h"
#include "src/plan/plan.h"
#include "src/plan/stitch_family.h"

namespace sinter {
namespace {

constexpr uint32_t kMagic = 0x43454453;  // "SDEC"
constexpr uint32_t kFormat = 1;
constexpr uint32_t kMaxKernels = 8192;  // one for every op of a large graph
constexpr uint32_t kMaxRunnersUp = 256;
constexpr uint64_t kMaxText = 4096;
constexpr uint32_t kFused = 1, kBatchInvariant = 2, kNorms = 4, kGroups = 8, kAttention = 16;
constexpr uint32_t kPlanFlags = 31;
// A kernel's word: whether its ops are turned, the flags of its family's choice, and the family's
// number. Products have 0, and flags; stitched kernels have 0 too, and no products.
constexpr uint32_t kTurned = 1;
constexpr int kFamilyShift = 16;

template <typename P, typename F>
void ForEachFigure(P& p, F&& f) {
  for (auto* v : {&p.total_us, &p.hbm_us, &p.l2_us, &p.intake_us, &p.shared_us, &p.dsm_us,
                  &p.tensor_us, &p.fixed_us, &p.hbm_bytes, &p.l2_bytes, &p.dsm_bytes}) {
    f(*v);
  }
}

absl::StatusOr<double> ReadFigure(ByteReader& r) {
  const double v = r.F64();
  if (!std::isfinite(v) || v < 0) return LostDecision("a figure is negative or not finite");
  return v;
}

absl::StatusOr<std::string> ReadText(ByteReader& r) {
  const absl::string_view text = r.Bytes();
  if (text.size() > kMaxText) return LostDecision(absl::StrCat("text of ", text.size(), " bytes"));
  if (!IsPrintable(text)) return LostDecision("a text that is not one printable line");
  return std::string(text);
}

absl::StatusOr<Digest> ReadDigest(ByteReader& r) {
  Digest digest;
  const absl::string_view bytes = r.Raw(digest.bytes.size());
  if (!r.ok()) return LostDecision("truncated");
  std::copy(bytes.begin(), bytes.end(), digest.bytes.begin());
  return digest;
}

uint32_t WordOf(const KernelDecision& kernel) {
  const uint32_t number =
      kernel.family->number() == StitchFamily().number() ? 0 : kernel.family->number();
  return number << kFamilyShift | kernel.family->ChoiceFlags(kernel) |
         (kernel.ops.turned ? kTurned : 0);
}

// Null when there is none.
const KernelFamily* FamilyOfChoice(uint32_t word) {
  const uint32_t number = word >> kFamilyShift;
  if (number > 0) return FamilyOfNumber(number);
  return (word & kChoiceFlags) > kPackedChoice ? &ProductFamily() : &StitchFamily();
}

void WriteKernel(const KernelDecision& kernel, ByteWriter& w) {
  w.U32(WordOf(kernel));
  w.U32(static_cast<uint32_t>(kernel.ops.first));
  w.U32(static_cast<uint32_t>(kernel.ops.values.size()));
  for (const ValueId value : kernel.ops.values) w.U32(static_cast<uint32_t>(value));
  kernel.family->WriteChoice(kernel, w);
  ForEachFigure(kernel.prediction, [&](const double& v) { w.F64(v); });
  w.Bytes(kernel.prediction.bound);
  w.F64(kernel.measured_us);
}

absl::Status ReadOps(ByteReader& r, KernelOps* ops) {
  const uint32_t first = r.U32(), values = r.U32();
  if (!r.ok() || values < 1 || values > r.remaining() / sizeof(uint32_t)) {
    return LostDecision(absl::StrCat("a kernel of ", values, " values"));
  }
  if (first > kMaxKernels) return LostDecision(absl::StrCat("product ", first));
  ops->first = static_cast<int>(first);
  for (uint32_t i = 0; i < values; ++i) {
    const uint32_t value = r.U32();
    if (value > static_cast<uint32_t>(std::numeric_limits<ValueId>::max())) {
      return LostDecision(absl::StrCat("value ", value));
    }
    ops->values.push_back(static_cast<ValueId>(value));
  }
  return absl::OkStatus();
}

absl::StatusOr<KernelDecision> ReadKernel(ByteReader& r) {
  KernelDecision kernel;
  const uint32_t word = r.U32();
  kernel.family = FamilyOfChoice(word);
  if (kernel.family == nullptr) {
    return LostDecision(absl::StrCat("a kernel of family ", word >> kFamilyShift));
  }
  kernel.ops.turned = (word & kTurned) != 0;
  SINTER_RETURN_IF_ERROR(ReadOps(r, &kernel.ops));
  SINTER_RETURN_IF_ERROR(kernel.family->ReadChoice(word & kChoiceFlags, r, &kernel));
  absl::Status status;
  ForEachFigure(kernel.prediction, [&](double& v) {
    absl::StatusOr<double> figure = ReadFigure(r);
    if (figure.ok()) v = *figure;
    status.Update(figure.status());
  });
  SINTER_RETURN_IF_ERROR(status);
  SINTER_ASSIGN_OR_RETURN(kernel.prediction.bound, ReadText(r));
  SINTER_ASSIGN_OR_RETURN(kernel.measured_us, ReadFigure(r));
  return kernel;
}

absl::StatusOr<Candidate> ReadCandidate(ByteReader& r) {
  Candidate c;
  SINTER_ASSIGN_OR_RETURN(c.name, ReadText(r));
  SINTER_ASSIGN_OR_RETURN(c.predicted_us, ReadFigure(r));
  SINTER_ASSIGN_OR_RETURN(c.why_not, ReadText(r));
  SINTER_ASSIGN_OR_RETURN(c.plan, ReadDigest(r));
  return c;
}

}  // namespace

absl::Status LostDecision(absl::string_view what) { return DataLoss("plan record: ", what); }

Decisions DecisionsOf(const Plan& plan) {
  Decisions decisions;
  decisions.fused = plan.fused;
  decisions.batch_invariant = plan.IsBatchInvariant();
  decisions.bucket = plan.bucket;
  decisions.absorbed = plan.absorbed;
  for (const PlannedKernel& kernel : plan.kernels) {
    KernelDecision decision;
    decision.ops = kernel.ops;
    decision.family = kernel.spec.family;
    kernel.spec.family->Decide(kernel.spec, &decision);
    decision.prediction = kernel.prediction;
    decision.measured_us = kernel.measured_us;
    decisions.kernels.push_back(std::move(decision));
  }
  decisions.note = plan.note;
  decisions.runners_up = plan.runners_up;
  return decisions;
}

std::string EncodeDecisions(const Decisions& d) {
  ByteWriter w;
  w.U32(kMagic);
  w.U32(kFormat);
  w.U32((d.fused ? kFused : 0) | (d.batch_invariant ? kBatchInvariant : 0) |
        (d.absorbed.norms ? kNorms : 0) | (d.absorbed.groups ? kGroups : 0) |
        (d.absorbed.attention ? kAttention : 0));
  w.I64(d.bucket);
  w.Bytes(d.note);
  w.U32(static_cast<uint32_t>(d.kernels.size()));
  for (const KernelDecision& kernel : d.kernels) WriteKernel(kernel, w);
  w.U32(static_cast<uint32_t>(d.runners_up.size()));
  for (const Candidate& c : d.runners_up) {
    w.Bytes(c.name);
    w.F64(c.predicted_us);
    w.Bytes(c.why_not);
    w.Raw(c.plan.View());
  }
  return w.Take();
}

absl::StatusOr<Decisions> DecodeDecisions(absl::string_view bytes) {
  ByteReader r(bytes);
  if (r.U32() != kMagic) return LostDecision("wrong magic");
  const uint32_t format = r.U32();
  if (format != kFormat) return LostDecision(absl::StrCat("format ", format, " is not ", kFormat));
  Decisions d;
  const uint32_t flags = r.U32();
  if (flags > kPlanFlags) return LostDecision(absl::StrCat("flags ", flags));
  d.fused = (flags & kFused) != 0;
  d.batch_invariant = (flags & kBatchInvariant) != 0;
  d.absorbed.norms = (flags & kNorms) != 0;
  d.absorbed.groups = (flags & kGroups) != 0;
  d.absorbed.attention = (flags & kAttention) != 0;
  d.bucket = r.I64();
  SINTER_ASSIGN_OR_RETURN(d.note, ReadText(r));
  const uint32_t kernels = r.U32();
  if (kernels < 1 || kernels > kMaxKernels) return LostDecision(absl::StrCat(kernels, " kernels"));
  for (uint32_t i = 0; i < kernels; ++i) {
    SINTER_ASSIGN_OR_RETURN(KernelDecision kernel, ReadKernel(r));
    d.kernels.push_back(std::move(kernel));
  }
  const uint32_t runners_up = r.U32();
  if (runners_up > kMaxRunnersUp) return LostDecision(absl::StrCat(runners_up, " runners-up"));
  for (uint32_t i = 0; i < runners_up; ++i) {
    SINTER_ASSIGN_OR_RETURN(Candidate candidate, ReadCandidate(r));
    d.runners_up.push_back(std::move(candidate));
  }
  SINTER_RETURN_IF_ERROR(r.Finish("plan record"));
  if (EncodeDecisions(d) != bytes) return LostDecision("a field is written otherwise");
  return d;
}

}  // namespace sinter
