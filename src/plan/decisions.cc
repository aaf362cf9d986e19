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
constexpr uint32_t kFormat = 2;
constexpr int kMaxKernels = 8192;  // one for every op of a large graph
constexpr uint32_t kMaxRunnersUp = 256;
constexpr uint64_t kMaxText = 4096;
constexpr uint32_t kFused = 1, kBatchInvariant = 2, kNorms = 4, kGroups = 8, kAttention = 16,
                   kFourBits = 32, kMma = 64;
constexpr uint32_t kPlanFlags = 127;
// A kernel's word: whether its ops are turned, the flags of its family's choice, and the family's
// number. Products have 0, and flags; stitched kernels have 0 too, and no products.
constexpr uint32_t kTurned = 1;
constexpr int kFamilyShift = 16;

// Writes or reads, by the codec, a kernel's times: they explain a plan and decide nothing.
template <typename Codec, typename Decision>
void FigureFields(Codec& codec, Decision& kernel) {
  auto& p = kernel.prediction;
  codec(p.total_us, p.hbm_us, p.l2_us, p.intake_us, p.shared_us, p.dsm_us, p.tensor_us, p.fixed_us,
        p.hbm_bytes, p.l2_bytes, p.dsm_bytes, p.bound, kernel.measured_us);
}

absl::Status CheckRead(double figure) {
  if (std::isfinite(figure) && figure >= 0) return absl::OkStatus();
  return LostDecision("a figure is negative or not finite");
}
absl::Status CheckRead(const std::string& text) {
  if (text.size() > kMaxText) return LostDecision(absl::StrCat("text of ", text.size(), " bytes"));
  if (!IsPrintable(text)) return LostDecision("a text that is not one printable line");
  return absl::OkStatus();
}
absl::Status CheckRead(const Digest&) { return absl::OkStatus(); }
// Checks the fields of a Prediction or of a Candidate.
template <typename Struct>
absl::Status CheckReadFields(const Struct& of) {
  absl::Status status;
  ForEachField(of, [&](absl::string_view, const auto& v) { status.Update(CheckRead(v)); });
  return status;
}

uint32_t WordOf(const KernelDecision& kernel, uint32_t choice_flags) {
  const uint32_t number =
      kernel.family->number() == StitchFamily().number() ? 0 : kernel.family->number();
  return number << kFamilyShift | choice_flags | (kernel.ops.turned ? kTurned : 0);
}

// Null when there is none.
const KernelFamily* FamilyOfChoice(uint32_t word) {
  const uint32_t number = word >> kFamilyShift;
  if (number > 0) return FamilyOfNumber(number);
  return (word & kChoiceFlags) > kPackedChoice ? &ProductFamily() : &StitchFamily();
}

void WriteKernel(const KernelDecision& kernel, ByteWriter& w) {
  ByteWriter choice;
  const uint32_t flags = kernel.family->WriteChoice(kernel, choice);
  w(WordOf(kernel, flags), Word(kernel.ops.first), Word(kernel.ops.values));
  w.Raw(choice.str());
  FigureFields(w, kernel);
}

absl::StatusOr<KernelDecision> ReadKernel(ByteReader& r) {
  KernelDecision kernel;
  const uint32_t word = r.U32();
  kernel.family = FamilyOfChoice(word);
  if (kernel.family == nullptr) {
    return LostDecision(absl::StrCat("a kernel of family ", word >> kFamilyShift));
  }
  kernel.ops.turned = (word & kTurned) != 0;
  constexpr uint32_t kMostValue = std::numeric_limits<ValueId>::max();
  r(Word(kernel.ops.first), Word(kernel.ops.values, kMostValue));
  if (!r.ok() || kernel.ops.values.empty()) {
    return LostDecision(absl::StrCat("a kernel of ", kernel.ops.values.size(), " values"));
  }
  if (kernel.ops.first < 0 || kernel.ops.first > kMaxKernels) {
    return LostDecision(absl::StrCat("product ", kernel.ops.first));
  }
  SINTER_RETURN_IF_ERROR(kernel.family->ReadChoice(word & kChoiceFlags, r, &kernel));
  FigureFields(r, kernel);
  SINTER_RETURN_IF_ERROR(CheckReadFields(kernel.prediction));
  SINTER_RETURN_IF_ERROR(CheckRead(kernel.measured_us));
  return kernel;
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
  w(kMagic, kFormat);
  w.U32((d.fused ? kFused : 0) | (d.batch_invariant ? kBatchInvariant : 0) |
        (d.absorbed.norms ? kNorms : 0) | (d.absorbed.groups ? kGroups : 0) |
        (d.absorbed.attention ? kAttention : 0) | (d.absorbed.four_bits ? kFourBits : 0) |
        (d.absorbed.mma ? kMma : 0));
  w(d.bucket, d.note, static_cast<uint32_t>(d.kernels.size()));
  for (const KernelDecision& kernel : d.kernels) WriteKernel(kernel, w);
  w(d.runners_up);
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
  d.absorbed.four_bits = (flags & kFourBits) != 0;
  d.absorbed.mma = (flags & kMma) != 0;
  r(d.bucket, d.note);
  SINTER_RETURN_IF_ERROR(CheckRead(d.note));
  const uint32_t kernels = r.U32();
  if (kernels < 1 || kernels > uint32_t{kMaxKernels})
    return LostDecision(absl::StrCat(kernels, " kernels"));
  for (uint32_t i = 0; i < kernels; ++i) {
    SINTER_ASSIGN_OR_RETURN(KernelDecision kernel, ReadKernel(r));
    d.kernels.push_back(std::move(kernel));
  }
  r(d.runners_up);
  SINTER_RETURN_IF_ERROR(r.Finish("plan record"));
  if (d.runners_up.size() > kMaxRunnersUp) {
    return LostDecision(absl::StrCat(d.runners_up.size(), " runners-up"));
  }
  for (const Candidate& c : d.runners_up) SINTER_RETURN_IF_ERROR(CheckReadFields(c));
  if (EncodeDecisions(d) != bytes) return LostDecision("a field is written otherwise");
  return d;
}

}  // namespace sinter
