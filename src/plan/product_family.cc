#include "src/plan/product_family.h"

#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "src/base/status.h"
#include "src/product/code/program_source.h"
#include "src/product/role_shape.h"
#include "src/product/search/search.h"

namespace sinter {
namespace {

constexpr int64_t kVectorBytes = 16;  // the widest access of a thread

// What NVRTC 12.4 to 12.8 make of a 16-bit product waits for each tensor core instruction (remark
// C7515); of 8-bit products it does not.
constexpr int kLeastNvrtcOf16BitProducts = 1209;

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

absl::Status Refuse(const std::string& operand, absl::string_view field, int64_t value,
                    absl::string_view bound) {
  return absl::InvalidArgumentError(
      absl::StrCat("operand ", operand, ": ", field, " ", value, " ", bound));
}

bool IsScale(Role role) {
  return role == Role::kScaleA || role.kind == Role::kScaleW || role == Role::kScaleUp ||
         role == Role::kScaleOut;
}

absl::Status CheckOperand(const ProductSequence& sequence, const OperandBinding& operand) {
  const std::string name = NameOf(operand.role, sequence.size());
  if (operand.role.product >= sequence.size()) {
    return Refuse(name, "product", operand.role.product,
                  absl::StrCat("is not one of the kernel's ", sequence.size()));
  }
  const RoleShape shape = ShapeOf(sequence, operand.role);
  const bool matrix = shape.rows > 0;
  if (IsScale(operand.role) && operand.row_stride != ScaleRowStride(sequence, operand.role)) {
    return Refuse(name, "row stride", operand.row_stride,
                  absl::StrCat("is not ", ScaleRowStride(sequence, operand.role)));
  }
  if (matrix && !IsScale(operand.role) && operand.row_stride < shape.columns) {
    return Refuse(name, "row stride", operand.row_stride,
                  absl::StrCat("is below its ", shape.columns, " columns"));
  }
  const bool factor = operand.role.kind == Role::kFactor;
  if ((factor || operand.role == Role::kC) && operand.row_stride != shape.columns) {
    return Refuse(name, "row stride", operand.row_stride,
                  absl::StrCat("is not ", factor ? "" : "n = ", shape.columns));
  }
  const auto size = static_cast<uint64_t>(SizeOf(shape.element));
  if (operand.offset_bytes % size != 0) {
    return Refuse(name, "offset", static_cast<int64_t>(operand.offset_bytes),
                  absl::StrCat("is not a multiple of ", size));
  }
  return absl::OkStatus();
}

absl::Status CheckOperands(const KernelSpec& spec, const KernelCode& code) {
  if (spec.workspace_flags_offset % 4 != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "workspace flags offset ", spec.workspace_flags_offset, " is not a multiple of 4"));
  }
  for (Role role : ParametersOf(code.product).pointers) {
    if (FindOperand(spec.operands, role) != nullptr) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("kernel has no operand ", NameOf(role, spec.sequence.size())));
  }
  for (const OperandBinding& operand : spec.operands) {
    SINTER_RETURN_IF_ERROR(CheckOperand(spec.sequence, operand));
  }
  return absl::OkStatus();
}

bool IsResult(Role role) { return role == Role::kOut || role == Role::kScaleOut; }

}  // namespace

const KernelFamily& ProductFamily() {
  static const ProductKernels family;
  return family;
}

ProductBinding ProductBindingOf(const KernelSpec& spec) {
  return {spec.operands,      spec.sequence.rows(), spec.sequence.rows_per_m,
          spec.constant_rows, spec.schedule.grid,   spec.workspace_flags_offset};
}

std::string ProductKernels::ProblemText(const KernelSpec& spec) const {
  const std::string text = spec.sequence.ToString();
  return spec.constant_rows ? absl::StrReplaceAll(text, {{" m<=", " m="}}) : text;
}

bool ProductKernels::Equal(const KernelSpec& a, const KernelSpec& b) const {
  return std::tie(a.sequence, a.schedule, a.operands, a.constant_weights) ==
         std::tie(b.sequence, b.schedule, b.operands, b.constant_weights);
}

void ProductKernels::WriteExecuted(const KernelSpec& spec, ByteWriter& w) const {
  w.Bytes(spec.sequence.Canonical());
  w.I64(spec.sequence.m);
  w.U8(spec.constant_weights);
  w.U8(spec.constant_rows);
  w.U64(spec.operands.size());
  for (const OperandBinding& operand : spec.operands) {
    w.U32(operand.role.Number());
    w.I64(operand.buffer);
    w.U64(operand.offset_bytes);
    w.I64(operand.row_stride);
  }
}

void ProductKernels::WriteSourceKey(const KernelSpec& spec, ByteWriter& w) const {
  w.Bytes(spec.sequence.Canonical());
  w.U8(spec.constant_weights);
  for (const OperandBinding& operand : spec.operands) {
    w.U32(operand.role.Number());
    w.I64(operand.row_stride);
    w.U64(operand.offset_bytes % kVectorBytes);
    w.U8(operand.buffer == kWorkspaceBuffer);
  }
}

ConstantPlaces ProductKernels::PlacesOf(const KernelSpec& spec) const {
  ConstantPlaces places;
  if (!spec.constant_rows) return places;  // all that it writes has rows of M
  for (const OperandBinding& operand : spec.operands) {
    (IsResult(operand.role) ? places.writes : places.reads)
        .emplace_back(operand.buffer, operand.offset_bytes);
  }
  return places;
}

absl::StatusOr<KernelLaunch> ProductKernels::Check(const KernelSpec& spec, const KernelCode&,
                                                   const DeviceModel& model, StitchBudget*) const {
  SINTER_RETURN_IF_ERROR(CheckSchedule(spec.sequence, spec.schedule, model));
  return KernelLaunch{IsCooperative(spec.schedule), 0};
}

bool ProductKernels::LeavesInWorkspace(const KernelSpec& spec) const {
  for (const OperandBinding& operand : spec.operands) {
    if (IsResult(operand.role) && operand.buffer == kWorkspaceBuffer) return true;
  }
  return false;
}

absl::StatusOr<Prediction> ProductKernels::Predict(const KernelSpec& spec, int64_t,
                                                   const DeviceModel& model) const {
  SINTER_RETURN_IF_ERROR(CheckSchedule(spec.sequence, spec.schedule, model));
  return sinter::Predict(spec.sequence, spec.schedule, model);
}

absl::StatusOr<KernelCode> ProductKernels::Code(const KernelSpec& spec) const {
  KernelCode code;
  code.family = spec.family;
  code.batch_invariant = spec.batch_invariant;
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

absl::StatusOr<KernelCode> ProductKernels::CheckedCode(const KernelSpec& spec,
                                                       const DeviceModel& model) const {
  SINTER_RETURN_IF_ERROR(CheckSchedule(spec.sequence, spec.schedule, model));
  SINTER_ASSIGN_OR_RETURN(KernelCode code, Code(spec));
  SINTER_RETURN_IF_ERROR(CheckOperands(spec, code));
  return code;
}

absl::Status ProductKernels::WriteRequest(const KernelSpec& spec, const KernelCode& code,
                                          CompileRequest* request) const {
  SINTER_ASSIGN_OR_RETURN(request->source, KernelSource(code.product));
  request->name = absl::StrCat(Entry(code), ".cu");
  if (SizeOf(spec.sequence.element()) == 2) request->least_nvrtc = kLeastNvrtcOf16BitProducts;
  return absl::OkStatus();
}

std::vector<std::string> ProductKernels::Headers(const KernelSpec& spec) const {
  std::vector<std::string> headers = {KernelHeader(spec.schedule)};
  if (HasPrograms(spec.sequence)) headers.push_back(kProgramHeader);
  return headers;
}

// Number 0 had no word of its own: a second product has one instead.
uint32_t ProductKernels::CodeWord(const KernelCode& code) const {
  return code.product.sequence.size() == 2 ? kTwoProductsWord : kOneProductWord;
}

void ProductKernels::WriteCode(const KernelCode& code, ByteWriter& w) const {
  w.Bytes(code.product.sequence.Canonical());
  w.U8(code.product.constant_weights);
  WriteLayout(code.product.out, w);
  WriteLayout(code.product.residual, w);
}

absl::Status ProductKernels::ReadCode(ByteReader& r, absl::string_view schedule,
                                      KernelCode* code) const {
  ProductCode& product = code->product;
  SINTER_ASSIGN_OR_RETURN(product.sequence, ProductSequence::FromCanonical(r.Bytes()));
  const uint8_t constant = r.U8();
  if (constant > 1) return LostCode("constant weights");
  product.constant_weights = constant == 1;
  SINTER_RETURN_IF_ERROR(ReadLayout(r, &product.out));
  SINTER_RETURN_IF_ERROR(ReadLayout(r, &product.residual));
  SINTER_ASSIGN_OR_RETURN(product.schedule, Schedule::FromCanonical(schedule));
  return absl::OkStatus();
}

void ProductKernels::Decide(const KernelSpec& spec, KernelDecision* decision) const {
  decision->products = spec.sequence.size();
  decision->schedule = spec.schedule;
}

uint32_t ProductKernels::ChoiceFlags(const KernelDecision& decision) const {
  return static_cast<uint32_t>(decision.products) << kProductsShift;
}

void ProductKernels::WriteChoice(const KernelDecision& decision, ByteWriter& w) const {
  w.Bytes(decision.schedule.Canonical());
}

absl::Status ProductKernels::ReadChoice(uint32_t flags, ByteReader& r,
                                        KernelDecision* decision) const {
  decision->products = static_cast<int>(flags >> kProductsShift);
  if (decision->products > kMaxKernelProducts) {
    return LostDecision(absl::StrCat("a kernel of ", decision->products, " products"));
  }
  if (decision->ops.turned || flags != ChoiceFlags(*decision)) {
    return LostDecision("flags of a product");
  }
  SINTER_ASSIGN_OR_RETURN(decision->schedule, Schedule::FromCanonical(r.Bytes()));
  return absl::OkStatus();
}

bool ProductKernels::SameSource(const KernelDecision& a, const KernelDecision& b) const {
  Schedule x = a.schedule, y = b.schedule;
  x.grid = y.grid = 0;
  return x == y;
}

}  // namespace sinter
