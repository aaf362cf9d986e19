// ProductFamily: kernels of one or two products, or of a convolution. Each answer is declared and
// given once, here; the description of a kernel is in product_description.cc.
#ifndef SINTER_SRC_PLAN_PRODUCT_FAMILY_H_
#define SINTER_SRC_PLAN_PRODUCT_FAMILY_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
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

// The binding of a spec: the data that its launch needs besides its code.
inline ProductBinding ProductBindingOf(const KernelSpec& spec) {
  const ProductBody& body = ProductOf(spec);
  return {body.operands,      body.sequence.rows(), body.sequence.rows_per_m,
          body.constant_rows, body.schedule.grid,   spec.workspace_flags_offset};
}

// The picture of a kernel. Precondition: CheckScheduleFields is OK.
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
  static const ProductCode& Of(const KernelCode& code) { return *BodyAs<ProductCode>(code.body); }

  explicit ProductKernels(bool is_stand_in = false)
      : KernelFamily(
            {"product",
             0,
             {"two products that one kernel does not make faster",
              "a product's kernel takes element-wise ops of its result along, no other ops",
              "a product's kernel reads its operands from memory"},
             false,
             false,
             is_stand_in}) {}

  KernelTraits TraitsOf(const KernelSpec& spec) const override {
    const ProductBody& body = ProductOf(spec);
    return {TakesSeveralOps(body), !body.constant_rows || MixesRows(spec),
            std::max(1, body.schedule.pushes), RowOf(body.schedule).offered == Offered::kTuning};
  }
  KernelTexts TextsOf(const KernelSpec& spec) const override {
    const ProductBody& body = ProductOf(spec);
    const std::string text = body.sequence.products.empty() ? "" : body.sequence.ToString();
    return {body.constant_rows ? absl::StrReplaceAll(text, {{" m<=", " m="}}) : text,
            body.schedule.ToString(), text};
  }

  // product_description.cc
  std::vector<KernelBuffer> Buffers(const KernelSpec& spec, int64_t bucket) const override;
  KernelDescription Describe(const PlannedKernel& kernel, int64_t bucket, const DeviceModel& model,
                             const BufferNames& names) const override;
  void WriteJson(const KernelSpec& spec, nlohmann::ordered_json* out) const override;
  std::string ScheduleBytes(const KernelSpec& spec) const override {
    return ProductOf(spec).schedule.Canonical();
  }
  void WriteExecuted(const KernelSpec& spec, ByteWriter& w) const override {
    const ProductBody& body = ProductOf(spec);
    w.Bytes(body.sequence.Canonical());
    w.I64(body.sequence.m);
    w.U8(body.constant_weights);
    w.U8(body.constant_rows);
    w.U64(body.operands.size());
    for (const OperandBinding& operand : body.operands) {
      w(operand.role.Number(), operand.buffer, operand.offset_bytes, operand.row_stride);
    }
  }
  void WriteSourceKey(const KernelSpec& spec, ByteWriter& w) const override {
    const ProductBody& body = ProductOf(spec);
    w.Bytes(body.sequence.Canonical());
    w.U8(body.constant_weights);
    for (const OperandBinding& operand : body.operands) {
      w(operand.role.Number(), operand.row_stride, operand.offset_bytes % kVectorBytes,
        operand.buffer == kWorkspaceBuffer);
    }
  }
  KernelRows RowsOf(const KernelSpec& spec, int64_t) const override {
    const ProductBody& body = ProductOf(spec);
    const ProductSequence& p = body.sequence;
    const bool walks = body.schedule.dataflow == Dataflow::kProduct && p.rows_per_m == 1;
    const bool own_rows = !body.constant_rows && p.front().rows.source == Source::kBuffer &&
                          !p.front().HasTransposedRows();
    return {p.rows(), walks && own_rows && !MixesRows(spec) ? kProductRowsAtOnce : 0};
  }
  // A sum over M.
  bool MixesRows(const KernelSpec& spec) const override {
    const ProductBody& body = ProductOf(spec);
    return !body.sequence.products.empty() && body.sequence.front().k_is_m;
  }
  int64_t RowsOfSlots(const KernelSpec& spec, uint64_t slot_bytes) const override {
    const ProductBody& body = ProductOf(spec);
    const MatrixProduct& last = body.sequence.back();
    const int64_t most = static_cast<int64_t>(slot_bytes) / (last.n * last.ResultBytes());
    if (body.constant_rows) return body.sequence.rows() <= most ? kMaxExtent : 0;
    return most;
  }
  std::string RowOrder(const KernelSpec& spec) const override {
    const ProductBody& body = ProductOf(spec);
    return RowOrderOfProducts(body.sequence, body.schedule);
  }
  absl::Status CheckRowOrder(const KernelSpec& spec) const override {
    const ProductBody& body = ProductOf(spec);
    return sinter::CheckRowOrder(body.sequence, body.schedule);
  }

  absl::StatusOr<KernelLaunch> Check(const KernelSpec& spec, const KernelCode&,
                                     const DeviceModel& model, StitchBudget*) const override {
    const ProductBody& body = ProductOf(spec);
    SINTER_RETURN_IF_ERROR(CheckSchedule(body.sequence, body.schedule, model));
    return KernelLaunch{IsCooperative(body.schedule), 0};
  }
  absl::StatusOr<Prediction> Predict(const KernelSpec& spec, int64_t,
                                     const DeviceModel& model) const override {
    const ProductBody& body = ProductOf(spec);
    SINTER_RETURN_IF_ERROR(CheckSchedule(body.sequence, body.schedule, model));
    return sinter::Predict(body.sequence, body.schedule, model);
  }
  absl::StatusOr<KernelCode> Code(const KernelSpec& spec) const override {
    const ProductBody& body = ProductOf(spec);
    KernelCode code;
    code.family = spec.family;
    code.batch_invariant = spec.batch_invariant;
    ProductCode product;
    product.sequence = body.sequence;
    product.sequence.m = 0;
    if (body.sequence.front().rows.source != Source::kWindow) {
      product.sequence.rows_per_m = 1;  // the recipe tells a launch its rows
    }
    product.schedule = body.schedule;
    product.schedule.grid = 0;
    product.constant_weights = body.constant_weights;
    product.out = RowLayoutOf(spec, Role::kOut);
    product.residual = RowLayoutOf(spec, Role::kResidual);
    for (int i = 0; i < AuxResultsOf(body.sequence); ++i) {
      product.aux.push_back(RowLayoutOf(spec, {Role::kAux, 0, i}));
    }
    code.body = MakeBody(std::move(product));
    return code;
  }
  absl::StatusOr<KernelCode> CheckedCode(const KernelSpec& spec,
                                         const DeviceModel& model) const override {
    const ProductBody& body = ProductOf(spec);
    SINTER_RETURN_IF_ERROR(CheckSchedule(body.sequence, body.schedule, model));
    SINTER_ASSIGN_OR_RETURN(KernelCode code, Code(spec));
    SINTER_RETURN_IF_ERROR(CheckOperands(spec, code));
    return code;
  }
  absl::Status WriteRequest(const KernelSpec& spec, const KernelCode& code,
                            CompileRequest* request) const override {
    SINTER_ASSIGN_OR_RETURN(request->source, ProductSource(Of(code)));
    if (SizeOf(ProductOf(spec).sequence.element()) == 2)
      request->least_nvrtc = kLeastNvrtcOf16BitProducts;
    return absl::OkStatus();
  }
  std::vector<std::string> Headers(const KernelSpec& spec) const override {
    const ProductBody& body = ProductOf(spec);
    std::vector<std::string> headers = {KernelHeader(body.schedule)};
    if (HasPrograms(body.sequence)) headers.push_back(kProgramHeader);
    if (body.schedule.pushes > 0) headers.push_back(kPushHeader);
    return headers;
  }
  // Number 0 had no word of its own: a second product has one instead.
  CodeBytes BytesOfCode(const KernelCode& code) const override {
    const ProductCode& product = Of(code);
    ByteWriter w;
    w(product.sequence.Canonical(), product.constant_weights, product.out, product.residual);
    for (const RowLayout& layout : product.aux) w(layout);
    return {product.sequence.size() == 2 ? kTwoProductsWord : kOneProductWord, w.Take(),
            product.schedule.Canonical()};
  }
  CodeTexts TextsOfCode(const KernelCode& code) const override {
    const ProductCode& product = Of(code);
    return {product.sequence.ToString(), product.schedule.ToString(), EntryName(product.schedule)};
  }
  absl::Status ReadCode(ByteReader& r, absl::string_view schedule,
                        KernelCode* code) const override {
    ProductCode product;
    SINTER_ASSIGN_OR_RETURN(product.sequence, ProductSequence::FromCanonical(r.Bytes()));
    r(product.constant_weights, product.out, product.residual);
    product.aux.resize(static_cast<size_t>(AuxResultsOf(product.sequence)));
    for (RowLayout& layout : product.aux) r(layout);
    SINTER_ASSIGN_OR_RETURN(product.schedule, Schedule::FromCanonical(schedule));
    code->body = MakeBody(std::move(product));
    return absl::OkStatus();
  }

  absl::StatusOr<LaunchRecipe> Recipe(const KernelSpec& spec,
                                      const KernelCode& code) const override {
    return ProductRecipe(Of(code), ProductBindingOf(spec));
  }

  void Decide(const KernelSpec& spec, KernelDecision* decision) const override {
    const ProductBody& body = ProductOf(spec);
    decision->products = body.sequence.size();
    decision->schedule = body.schedule;
  }
  uint32_t WriteChoice(const KernelDecision& decision, ByteWriter& w) const override {
    w.Bytes(decision.schedule.Canonical());
    return FlagsOf(decision);
  }
  absl::Status ReadChoice(uint32_t flags, ByteReader& r, KernelDecision* decision) const override {
    decision->products = static_cast<int>(flags >> kProductsShift);
    if (decision->products > kMaxKernelProducts) {
      return LostDecision(absl::StrCat("a kernel of ", decision->products, " products"));
    }
    if (decision->ops.turned || flags != FlagsOf(*decision)) {
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

  static uint32_t FlagsOf(const KernelDecision& decision) {
    return static_cast<uint32_t>(decision.products) << kProductsShift;
  }

  static bool TakesSeveralOps(const ProductBody& body) {
    if (body.sequence.products.empty()) return false;
    const MatrixProduct& first = body.sequence.front();
    const ProductEpilogue& e = first.epilogue;
    return body.sequence.size() > 1 || first.pair || e.norm.has_value() || e.quantize.has_value() ||
           (e.program.present() && CountComputed(*e.program.body) > 0);
  }

  // The layout of a matrix with the result's extents.
  static RowLayout RowLayoutOf(const KernelSpec& spec, Role role) {
    const ProductBody& body = ProductOf(spec);
    const OperandBinding* rows = FindOperand(body.operands, role);
    if (rows == nullptr || body.sequence.products.empty()) return {};
    const RoleShape shape = ShapeOf(body.sequence, role);
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
    const ProductBody& body = ProductOf(spec);
    if (spec.workspace_flags_offset % 4 != 0) {
      return Invalid("workspace flags offset ", spec.workspace_flags_offset,
                     " is not a multiple of 4");
    }
    for (Role role : ParametersOf(Of(code)).pointers) {
      if (FindOperand(body.operands, role) != nullptr) continue;
      return Invalid("kernel has no operand ", NameOf(role, body.sequence.size()));
    }
    for (const OperandBinding& operand : body.operands) {
      SINTER_RETURN_IF_ERROR(CheckOperand(body.sequence, operand));
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
