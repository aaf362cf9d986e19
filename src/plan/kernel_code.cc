#include "src/plan/kernel_code.h"

#include "absl/strings/str_cat.h"
#include "src/base/codec.h"
#include "src/base/status.h"
#include "src/plan/family.h"

namespace sinter {
namespace {

constexpr uint32_t kCodeVersion = 2;
constexpr uint32_t kBatchInvariantCode = 256;  // a flag beside the family's word

// Null when there is none.
const KernelFamily* FamilyOfCode(uint32_t word) {
  if (word == kTwoProductsWord || word == kOneProductWord) return &ProductFamily();
  if (word == kStitchWord) return &StitchFamily();
  return word < kOneProductWord ? nullptr : FamilyOfNumber(word - kStitchWord);
}

}  // namespace

absl::Status LostCode(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("kernel code: ", what));
}

absl::StatusOr<KernelCode> CodeOf(const KernelSpec& spec) { return spec.family->Code(spec); }

absl::StatusOr<std::vector<KernelCode>> CodesOf(const Plan& plan) {
  std::vector<KernelCode> codes;
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    absl::StatusOr<KernelCode> code = CodeOf(plan.kernels[i].spec);
    if (!code.ok()) return Annotate(code.status(), absl::StrCat("kernel ", i));
    codes.push_back(*std::move(code));
  }
  return codes;
}

std::string KernelCode::Bytes() const {
  ByteWriter w;
  w.U32(kCodeVersion);
  w.U32(family->CodeWord(*this) | (batch_invariant ? kBatchInvariantCode : 0));
  family->WriteCode(*this, w);
  return w.Take();
}

std::string KernelCode::ScheduleBytes() const { return family->CodeScheduleBytes(*this); }

std::string KernelCode::ProblemText() const { return family->CodeProblemText(*this); }

std::string KernelCode::ScheduleText() const { return family->CodeScheduleText(*this); }

std::vector<std::string> CompileOptionsOf(const KernelSpec& spec) {
  std::vector<std::string> options;
  // Otherwise the rest of a kernel decides which sums become fused multiply-adds (row_order.h).
  if (spec.batch_invariant) options.push_back("--fmad=false");
  return options;
}

absl::StatusOr<KernelCode> ReadCode(absl::string_view bytes, absl::string_view schedule) {
  ByteReader r(bytes);
  const uint32_t version = r.U32(), word = r.U32();
  if (version != kCodeVersion) return LostCode(absl::StrCat("version ", version));
  KernelCode code;
  code.batch_invariant = (word & kBatchInvariantCode) != 0;
  code.family = FamilyOfCode(word & ~kBatchInvariantCode);
  if (code.family == nullptr) return LostCode(absl::StrCat("family ", word));
  SINTER_RETURN_IF_ERROR(code.family->ReadCode(r, schedule, &code));
  SINTER_RETURN_IF_ERROR(r.Finish("kernel code"));
  if (code.Bytes() != bytes || code.ScheduleBytes() != schedule) {
    return LostCode("a field is written otherwise");
  }
  return code;
}

}  // namespace sinter
