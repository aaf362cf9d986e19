// ProductFamily: kernels of one or two products, or of a convolution. Each answer is declared and
// given once, here; what is told of a kernel is in product_description.cc.
#ifndef SINTER_SRC_PLAN_PRODUCT_FAMILY_H_
#define SINTER_SRC_PLAN_PRODUCT_FAMILY_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "src/base/status.h"
#include "src/plan/family.h"
#include "src/plan/plan.h"
#include "src/product/code/kernel_source.h"
#include "src/product/dataflow/dataflow.h"
#include "src/product/schedule_check.h"
#include "src/product/search/search.h"
#include "src/product/sequence.h"

namespace sinter {

constexpr int kProductsShift = 2;  // of a choice's flags: the number of products
// In one launch of one product, which walks over its tiles: numbers of tiles and of ring stages
// are ints.
constexpr int64_t kProductRowsAtOnce = int64_t{1} << 24;

// Of a spec: what its launch needs besides its code.
inline ProductBinding ProductBindingOf(const KernelSpec& spec) {
  return {spec.operands,      spec.sequence.rows(), spec.sequence.rows_per_m,
          spec.constant_rows, spec.schedule.grid,   spec.workspace_flags_offset};
}

// The picture of a kernel. Precondition: CheckScheduleFields(spec.sequence, spec.schedule) is OK.
ProductsPicture PictureOf(const KernelSpec& spec, const BufferNames& names = {});

// Bytes at each level of memory, fastest first.
enum class MemoryLevel : uint8_t { kRegister = 0, kShared, kDsm, kL2, kGlobal, kCount };
constexpr size_t kMemoryLevels = static_cast<size_t>(MemoryLevel::kCount);
using LevelBytes = std::array<double, kMemoryLevels>;

// Bytes of the C that the second product of one row tile (or of one range of N, where clusters
// share a row tile) reads, by the level that the cluster's first block reads them from: its own
// shared memory, distributed shared memory (sent by peers), L2. All zero for one product. This is
// the mapping of a reused tensor in FlashFuser's Algorithm 1.
LevelBytes IntermediateSplit(const ProductSequence& sequence, const Schedule& schedule);

class ProductKernels : public KernelFamily {
 public:
  absl::string_view name() const override { return "product"; }
  uint8_t number() const override { return 0; }
  std::string ProblemText(const KernelSpec& spec) const override {
    const std::string text = spec.sequence.ToString();
    return spec.constant_rows ? absl::StrReplaceAll(text, {{" m<=", " m="}}) : text;
  }
  std::string ScheduleText(const KernelSpec& spec) const override {
    return spec.schedule.ToString();
  }
  bool TakesSeveralOps(const KernelSpec& spec) const override {
    const MatrixProduct& first = spec.sequence.front();
    const ProductEpilogue& e = first.epilogue;
    return spec.sequence.size() > 1 || first.pair || e.norm.has_value() || e.quantize.has_value() ||
           (e.program.present() && CountComputed(*e.program.body) > 0);
  }

  // product_description.cc
  std::vector<KernelBuffer> Buffers(const KernelSpec& spec, int64_t bucket) const override;
  KernelDescription Describe(const PlannedKernel& kernel, int64_t bucket, const DeviceModel& model,
                             const BufferNames& names) const override;
  void WriteJson(const KernelSpec& spec, nlohmann::ordered_json* out) const override;
  ApartReasons WhyApart() const override {
    return {"two products that one kernel does not make faster",
            "a product's kernel takes element-wise ops of its result along, no other ops",
            "a product's kernel reads its operands from memory"};
  }

  bool Equal(const KernelSpec& a, const KernelSpec& b) const override {
    return std::tie(a.sequence, a.schedule, a.operands, a.constant_weights) ==
           std::tie(b.sequence, b.schedule, b.operands, b.constant_weights);
  }
  std::string ScheduleBytes(const KernelSpec& spec) const override {
    return spec.schedule.Canonical();
  }
  void WriteExecuted(const KernelSpec& spec, ByteWriter& w) const override {
    w.Bytes(spec.sequence.Canonical());
    w.I64(spec.sequence.m);
    w.U8(spec.constant_weights);
    w.U8(spec.constant_rows);
    w.U64(spec.operands.size());
    for (const OperandBinding& operand : spec.operands) {
      w(operand.role.Number(), operand.buffer, operand.offset_bytes, operand.row_stride);
    }
  }
  void WriteSourceKey(const KernelSpec& spec, ByteWriter& w) const override {
    w.Bytes(spec.sequence.Canonical());
    w.U8(spec.constant_weights);
    for (const OperandBinding& operand : spec.operands) {
      w(operand.role.Number(), operand.row_stride, operand.offset_bytes % kVectorBytes,
        operand.buffer == kWorkspaceBuffer);
    }
  }
  std::string IdentityText(const KernelSpec& spec) const override {
    return spec.sequence.ToString();
  }

  bool UsesM(const KernelSpec& spec) const override {
    return !spec.constant_rows || MixesRows(spec);
  }
  int64_t Rows(const KernelSpec& spec, int64_t) const override { return spec.sequence.rows(); }
  int64_t RowsAtOnce(const KernelSpec& spec) const override {
    const ProductSequence& p = spec.sequence;
    const bool walks = spec.schedule.dataflow == Dataflow::kProduct && p.rows_per_m == 1;
    const bool own_rows = !spec.constant_rows && p.front().rows.source == Source::kBuffer &&
                          !p.front().HasTransposedRows();
    return walks && own_rows && !MixesRows(spec) ? kProductRowsAtOnce : 0;
  }
  // A sum over M.
  bool MixesRows(const KernelSpec& spec) const override {
    return !spec.sequence.products.empty() && spec.sequence.front().k_is_m;
  }
  int Ranks(const KernelSpec& spec) const override { return std::max(1, spec.schedule.pushes); }
  int64_t RowsOfSlots(const KernelSpec& spec, uint64_t slot_bytes) const override {
    const MatrixProduct& last = spec.sequence.back();
    const int64_t most = static_cast<int64_t>(slot_bytes) / (last.n * last.ResultBytes());
    if (spec.constant_rows) return spec.sequence.rows() <= most ? kMaxExtent : 0;
    return most;
  }
  std::string RowOrder(const KernelSpec& spec) const override {
    return RowOrderOfProducts(spec.sequence, spec.schedule);
  }
  absl::Status CheckRowOrder(const KernelSpec& spec) const override {
    return sinter::CheckRowOrder(spec.sequence, spec.schedule);
  }

  absl::StatusOr<KernelLaunch> Check(const KernelSpec& spec, const KernelCode&,
                                     const DeviceModel& model, StitchBudget*) const override {
    SINTER_RETURN_IF_ERROR(CheckSchedule(spec.sequence, spec.schedule, model));
    return KernelLaunch{IsCooperative(spec.schedule), 0};
  }
  bool IsJoined(const KernelDecision& decision) const override { return decision.products > 1; }
  bool LeavesInWorkspace(const KernelSpec& spec) const override {
    for (const OperandBinding& operand : spec.operands) {
      if (IsResult(operand.role) && operand.buffer == kWorkspaceBuffer) return true;
    }
    return false;
  }

  absl::StatusOr<Prediction> Predict(const KernelSpec& spec, int64_t,
                                     const DeviceModel& model) const override {
    SINTER_RETURN_IF_ERROR(CheckSchedule(spec.sequence, spec.schedule, model));
    return sinter::Predict(spec.sequence, spec.schedule, model);
  }
  bool IsForTuning(const KernelSpec& spec) const override {
    return RowOf(spec.schedule).offered == Offered::kTuning;
  }
  bool MultipliesCodes(const KernelSpec& spec) const override {
    return IsCode(spec.sequence.element());
  }

  absl::StatusOr<KernelCode> Code(const KernelSpec& spec) const override {
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
    for (int i = 0; i < AuxResultsOf(spec.sequence); ++i) {
      product.aux.push_back(RowLayoutOf(spec, {Role::kAux, 0, i}));
    }
    return code;
  }
  absl::StatusOr<KernelCode> CheckedCode(const KernelSpec& spec,
                                         const DeviceModel& model) const override {
    SINTER_RETURN_IF_ERROR(CheckSchedule(spec.sequence, spec.schedule, model));
    SINTER_ASSIGN_OR_RETURN(KernelCode code, Code(spec));
    SINTER_RETURN_IF_ERROR(CheckOperands(spec, code));
    return code;
  }
  absl::Status WriteRequest(const KernelSpec& spec, const KernelCode& code,
                            CompileRequest* request) const override {
    SINTER_ASSIGN_OR_RETURN(request->source, ProductSource(code.product));
    request->name = absl::StrCat(Entry(code), ".cu");
    if (SizeOf(spec.sequence.element()) == 2) request->least_nvrtc = kLeastNvrtcOf16BitProducts;
    return absl::OkStatus();
  }
  std::string Entry(const KernelCode& code) const override {
    return EntryName(code.product.schedule);
  }
  std::vector<std::string> Headers(const KernelSpec& spec) const override {
    std::vector<std::string> headers = {KernelHeader(spec.schedule)};
    if (HasPrograms(spec.sequence)) headers.push_back(kProgramHeader);
    if (spec.schedule.pushes > 0) headers.push_back(kPushHeader);
    return headers;
  }
  // Number 0 had no word of its own: a second product has one instead.
  uint32_t CodeWord(const KernelCode& code) const override {
    return code.product.sequence.size() == 2 ? kTwoProductsWord : kOneProductWord;
  }
  void WriteCode(const KernelCode& code, ByteWriter& w) const override {
    const ProductCode& product = code.product;
    w(product.sequence.Canonical(), product.constant_weights, product.out, product.residual);
    for (const RowLayout& layout : product.aux) w(layout);
  }
  std::string CodeScheduleBytes(const KernelCode& code) const override {
    return code.product.schedule.Canonical();
  }
  std::string CodeProblemText(const KernelCode& code) const override {
    return code.product.sequence.ToString();
  }
  std::string CodeScheduleText(const KernelCode& code) const override {
    return code.product.schedule.ToString();
  }
  absl::Status ReadCode(ByteReader& r, absl::string_view schedule,
                        KernelCode* code) const override {
    ProductCode& product = code->product;
    SINTER_ASSIGN_OR_RETURN(product.sequence, ProductSequence::FromCanonical(r.Bytes()));
    r(product.constant_weights, product.out, product.residual);
    product.aux.resize(static_cast<size_t>(AuxResultsOf(product.sequence)));
    for (RowLayout& layout : product.aux) r(layout);
    SINTER_ASSIGN_OR_RETURN(product.schedule, Schedule::FromCanonical(schedule));
    return absl::OkStatus();
  }

  absl::StatusOr<LaunchRecipe> Recipe(const KernelSpec& spec,
                                      const KernelCode& code) const override {
    return ProductRecipe(code.product, ProductBindingOf(spec));
  }

  void Decide(const KernelSpec& spec, KernelDecision* decision) const override {
    decision->products = spec.sequence.size();
    decision->schedule = spec.schedule;
  }
  uint32_t ChoiceFlags(const KernelDecision& decision) const override {
    return static_cast<uint32_t>(decision.products) << kProductsShift;
  }
  void WriteChoice(const KernelDecision& decision, ByteWriter& w) const override {
    w.Bytes(decision.schedule.Canonical());
  }
  absl::Status ReadChoice(uint32_t flags, ByteReader& r, KernelDecision* decision) const override {
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
  bool SameSource(const KernelDecision& a, const KernelDecision& b) const override {
    Schedule x = a.schedule, y = b.schedule;
    x.grid = y.grid = 0;
    return x == y;
  }

 private:
  static constexpr int64_t kVectorBytes = 16;  // the widest access of a thread

  // The layout of a matrix with the result's extents.
  static RowLayout RowLayoutOf(const KernelSpec& spec, Role role) {
    const OperandBinding* rows = FindOperand(spec.operands, role);
    if (rows == nullptr || spec.sequence.products.empty()) return {};
    const RoleShape shape = ShapeOf(spec.sequence, role);
    const int64_t vector = kVectorBytes / SizeOf(shape.element);
    return {rows->row_stride, shape.columns % vector == 0 && rows->row_stride % vector == 0 &&
                                  rows->offset_bytes % kVectorBytes == 0};
  }

  static absl::Status Refuse(const std::string& operand, absl::string_view field, int64_t value,
                             absl::string_view bound) {
    return Invalid("operand ", operand, ": ", field, " ", value, " ", bound);
  }

  static bool IsScale(Role role) {
    return role == Role::kScaleA || role.kind == Role::kScaleW || role == Role::kScaleUp ||
           role == Role::kScaleOut;
  }

  static absl::Status CheckOperand(const ProductSequence& sequence, const OperandBinding& operand) {
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

  static absl::Status CheckOperands(const KernelSpec& spec, const KernelCode& code) {
    if (spec.workspace_flags_offset % 4 != 0) {
      return Invalid("workspace flags offset ", spec.workspace_flags_offset,
                     " is not a multiple of 4");
    }
    for (Role role : ParametersOf(code.product).pointers) {
      if (FindOperand(spec.operands, role) != nullptr) continue;
      return Invalid("kernel has no operand ", NameOf(role, spec.sequence.size()));
    }
    for (const OperandBinding& operand : spec.operands) {
      SINTER_RETURN_IF_ERROR(CheckOperand(spec.sequence, operand));
    }
    return absl::OkStatus();
  }

  static int AuxResultsOf(const ProductSequence& sequence) {
    return sequence.products.empty() ? 0 : sequence.back().AuxResults();
  }
  static bool IsResult(Role role) {
    return role == Role::kOut || role == Role::kScaleOut || role.kind == Role::kAux;
  }
};

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_PRODUCT_FAMILY_H_
