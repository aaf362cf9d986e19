#include "src/plan/kernel_code.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/codec.h"
#include "src/base/status.h"
#include "src/product/role_shape.h"

namespace sinter {
namespace {

constexpr uint32_t kCodeVersion = 2;
constexpr int64_t kVectorBytes = 16;  // the widest access of a thread

absl::Status LostCode(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("kernel code: ", what));
}

// One word of a code: 1 for two products, 2 for a stitched kernel, 3 for a product alone, and
// whether the kernel is batch-invariant.
constexpr uint32_t kBatchInvariantCode = 256;
uint32_t FamilyWord(KernelFamily family, int products, bool batch_invariant) {
  const uint32_t number = family == KernelFamily::kStitch ? 2 : products == 2 ? 1 : 3;
  return number | (batch_invariant ? kBatchInvariantCode : 0);
}

// The number of products.
absl::StatusOr<int> ReadFamilyWord(uint32_t word, KernelFamily* family, bool* batch_invariant) {
  const uint32_t number = word & ~kBatchInvariantCode;
  if (number < 1 || number > 3) {
    return LostCode(absl::StrCat("family ", number, " is not 1 to 3"));
  }
  *family = number == 2 ? KernelFamily::kStitch : KernelFamily::kProduct;
  *batch_invariant = number != word;
  return number == 1 ? 2 : number == 3 ? 1 : 0;
}

// The layout of a matrix with the result's extents.
RowLayout RowLayoutOf(const KernelSpec& spec, Role role) {
  const OperandBinding* rows = FindOperand(spec.operands, role);
  if (rows == nullptr || spec.sequence.products.empty()) return {};
  const RoleShape shape = ShapeOf(spec.sequence, role);
  const int64_t vector = kVectorBytes / SizeOf(shape.element);
  return {rows->row_stride, shape.columns % vector == 0 && rows->row_stride % vector == 0 &&
                                rows->offset_bytes % kVectorBytes == 0};
}

void WriteLayout(const RowLayout& layout, ByteWriter& w) {
  w.I64(layout.stride);
  w.U8(layout.aligned);
}

absl::Status ReadLayout(ByteReader& r, RowLayout* layout) {
  layout->stride = r.I64();
  const uint8_t aligned = r.U8();
  layout->aligned = aligned == 1;
  return aligned > 1 ? LostCode("alignment") : absl::OkStatus();
}

absl::Status ReadProductCode(ByteReader& r, absl::string_view schedule, ProductCode* code) {
  SINTER_ASSIGN_OR_RETURN(code->sequence, ProductSequence::FromCanonical(r.Bytes()));
  const uint8_t constant = r.U8();
  if (constant > 1) return LostCode("constant weights");
  code->constant_weights = constant == 1;
  SINTER_RETURN_IF_ERROR(ReadLayout(r, &code->out));
  SINTER_RETURN_IF_ERROR(ReadLayout(r, &code->residual));
  SINTER_ASSIGN_OR_RETURN(code->schedule, Schedule::FromCanonical(schedule));
  return absl::OkStatus();
}

absl::Status ReadStitchCode(ByteReader& r, absl::string_view schedule, KernelCode* code) {
  SINTER_ASSIGN_OR_RETURN(Chain body, ChainFromCanonicalBytes(r.Bytes()));
  auto stitch = std::make_shared<StitchCode>();
  stitch->body = std::make_shared<const Chain>(std::move(body));
  const uint8_t packed = r.U8();
  if (packed > 1) return LostCode("packed");
  ByteReader s(schedule);
  SINTER_ASSIGN_OR_RETURN(stitch->schedule, StitchSchedule::FromCanonical(s.Bytes()));
  if (packed == 1) {
    SINTER_ASSIGN_OR_RETURN(stitch->parts, ReadParts(s));
  }
  SINTER_RETURN_IF_ERROR(s.Finish("kernel code"));
  code->stitch = std::move(stitch);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<KernelCode> CodeOf(const KernelSpec& spec) {
  KernelCode code;
  code.family = spec.family;
  code.batch_invariant = spec.batch_invariant;
  if (spec.family == KernelFamily::kStitch) {
    if (spec.stitch == nullptr) return absl::InvalidArgumentError("a stitch kernel has no body");
    SINTER_ASSIGN_OR_RETURN(StitchCode stitch, CodeOf(spec.stitch));
    code.stitch = std::make_shared<const StitchCode>(std::move(stitch));
    return code;
  }
  ProductCode& product = code.product;
  product.sequence = spec.sequence;
  product.sequence.m = 0;
  if (spec.sequence.front().rows.source != Source::kWindow) {
    product.sequence.rows_per_m = 1;  // the recipe tells a launch its rows
  }
  product.schedule = spec.schedule;
  product.schedule.grid = 0;
  product.constant_weights = spec.constant_weights;
  product.out = RowLayoutOf(spec, Role::kOut);
  product.residual = RowLayoutOf(spec, Role::kResidual);
  return code;
}

absl::StatusOr<std::vector<KernelCode>> CodesOf(const Plan& plan) {
  std::vector<KernelCode> codes;
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    absl::StatusOr<KernelCode> code = CodeOf(plan.kernels[i].spec);
    if (!code.ok()) return Annotate(code.status(), absl::StrCat("kernel ", i));
    codes.push_back(*std::move(code));
  }
  return codes;
}

KernelBinding BindingOf(const KernelSpec& spec) {
  KernelBinding binding;
  if (spec.stitch != nullptr) {
    binding.stitch = {spec.stitch->operands, spec.stitch->schedule.grid,
                      spec.workspace_flags_offset, spec.stitch->scratch_offset};
    return binding;
  }
  binding.product = {spec.operands,      spec.sequence.rows(), spec.sequence.rows_per_m,
                     spec.constant_rows, spec.schedule.grid,   spec.workspace_flags_offset};
  return binding;
}

std::string KernelCode::Bytes() const {
  ByteWriter w;
  w.U32(kCodeVersion);
  w.U32(FamilyWord(family, product.sequence.size(), batch_invariant));
  if (stitch != nullptr) {
    w.Bytes(stitch->body->CanonicalBytes());
    w.U8(!stitch->parts.empty());
    return w.Take();
  }
  w.Bytes(product.sequence.Canonical());
  w.U8(product.constant_weights);
  WriteLayout(product.out, w);
  WriteLayout(product.residual, w);
  return w.Take();
}

std::string KernelCode::ScheduleBytes() const {
  return stitch == nullptr ? product.schedule.Canonical() : stitch->ScheduleBytes();
}

std::string KernelCode::ProblemText() const {
  return stitch == nullptr ? product.sequence.ToString() : BodyText(*stitch->body);
}

std::string KernelCode::ScheduleText() const {
  return stitch == nullptr ? product.schedule.ToString() : stitch->Text();
}

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
  SINTER_ASSIGN_OR_RETURN(const int products,
                          ReadFamilyWord(word, &code.family, &code.batch_invariant));
  SINTER_RETURN_IF_ERROR(code.family == KernelFamily::kStitch
                             ? ReadStitchCode(r, schedule, &code)
                             : ReadProductCode(r, schedule, &code.product));
  SINTER_RETURN_IF_ERROR(r.Finish("kernel code"));
  if (products != code.product.sequence.size()) return LostCode("number of products");
  if (code.Bytes() != bytes || code.ScheduleBytes() != schedule) {
    return LostCode("a field is written otherwise");
  }
  return code;
}

}  // namespace sinter
