#include "src/fusion/fit/access.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/launch_recipe.h"
#include "src/base/status.h"
#include "src/fusion/fit/refusal.h"
#include "src/product/role_shape.h"

namespace sinter {
namespace {

constexpr uint64_t kMapAlignment = 16;     // of tensor maps
constexpr uint64_t kStitchAlignment = 16;  // of the widest load of a stitched kernel
constexpr uint64_t kBarrierBytes = 8;      // two words
constexpr int64_t kElementsMost = int64_t{1} << 50;

// A matrix of elements, its rows `stride` elements apart. Precondition: sizes that CheckSequence
// and the codec accept, so that nothing here overflows.
struct MatrixExtent {
  int64_t rows = 0, columns = 0, stride = 0, element = 0, column_stride = 1;
  absl::StatusOr<uint64_t> Bytes() const {
    if (rows <= 0 || columns <= 0) return uint64_t{0};
    if (stride > kElementsMost / rows) return RefuseFit(rows, " rows of ", stride, " elements");
    if (column_stride > kElementsMost / columns)
      return RefuseFit(columns, " columns of ", column_stride, " elements");
    return static_cast<uint64_t>(((rows - 1) * stride + (columns - 1) * column_stride + 1) *
                                 element);
  }
};

// Lowers a kernel of products.
class ProductLowering {
 public:
  ProductLowering(const KernelSpec& spec, const KernelLaunch& launch, const LaunchRows& rows)
      : spec_(spec),
        p_(spec.sequence),
        launch_(launch),
        rows_(rows),
        sizes_(SizesOf(spec.sequence, spec.schedule)) {}

  absl::StatusOr<KernelAccesses> Run() {
    for (const OperandBinding& operand : spec_.operands) SINTER_RETURN_IF_ERROR(Add(operand));
    if (launch_.cooperative) {
      const auto bytes = static_cast<uint64_t>(sizes_.flag_bytes);
      result_.list.push_back({"ready flags",
                              AccessKind::kFlags,
                              kWorkspaceBuffer,
                              spec_.workspace_flags_offset,
                              {bytes, bytes, bytes},
                              4});
    }
    return std::move(result_);
  }

 private:
  // Operands of tensor maps, whether read or stored, are aligned to 16 bytes; the others to
  // elements.
  static uint64_t AlignmentOf(Role role, const RoleShape& shape) {
    const bool mapped = role == Role::kA || role == Role::kC || role == Role::kW1 ||
                        role == Role::kWUp || role == Role::kW2;
    return mapped ? kMapAlignment : static_cast<uint64_t>(SizeOf(shape.element));
  }

  static AccessKind KindOf(Role role) {
    if (role == Role::kC || role == Role::kPartialOut) return AccessKind::kOwn;
    return role == Role::kOut || role == Role::kScaleOut ? AccessKind::kWrite : AccessKind::kRead;
  }

  absl::Status Add(const OperandBinding& operand) {
    BufferAccess access{std::string(NameOf(operand.role)),
                        KindOf(operand.role),
                        operand.buffer,
                        operand.offset_bytes,
                        {0, 0, 0},
                        kMapAlignment};
    if (operand.role == Role::kPartialOut) {
      for (uint64_t& bytes : access.bytes) bytes = static_cast<uint64_t>(sizes_.partial_out_bytes);
      result_.list.push_back(std::move(access));
      return absl::OkStatus();
    }
    const RoleShape shape = ShapeOf(p_, operand.role);
    access.alignment = AlignmentOf(operand.role, shape);
    for (int i = 0; i < 3; ++i) {
      int64_t rows = std::max<int64_t>(shape.rows, 1);
      // An operand in the workspace has space for the bucket's rows, whatever a launch's are.
      if (shape.of_launch) {
        rows = spec_.constant_rows || operand.buffer == kWorkspaceBuffer
                   ? shape.rows
                   : rows_.at[i] * shape.rows_per_m;
      }
      const int64_t apart = shape.column_stride * (shape.of_m ? rows_.at[i] : 1);
      const MatrixExtent extent{rows, shape.columns, operand.row_stride, SizeOf(shape.element),
                                apart};
      SINTER_ASSIGN_OR_RETURN(access.bytes[i], extent.Bytes());
    }
    result_.list.push_back(std::move(access));
    return absl::OkStatus();
  }

  const KernelSpec& spec_;
  const ProductSequence& p_;
  const KernelLaunch& launch_;
  const LaunchRows& rows_;
  const ScheduleSizes sizes_;
  KernelAccesses result_;
};

absl::Status AddTensor(const std::string& name, AccessKind kind, const StitchOperand& operand,
                       const TensorType& type, const std::vector<Stride>& strides,
                       const LaunchRows& rows, KernelAccesses* result) {
  BufferAccess access{
      name, kind, operand.buffer, operand.offset_bytes, {0, 0, 0}, kStitchAlignment};
  for (int i = 0; i < 3; ++i) {
    const int64_t m = operand.buffer == kWorkspaceBuffer ? rows.bucket : rows.at[i];
    SINTER_ASSIGN_OR_RETURN(const int64_t bytes, BufferBytes(type, strides, m));
    access.bytes[i] = static_cast<uint64_t>(bytes);
  }
  result->list.push_back(std::move(access));
  return absl::OkStatus();
}

absl::StatusOr<KernelAccesses> StitchAccesses(const KernelSpec& spec, const KernelLaunch& launch,
                                              const LaunchRows& rows) {
  const StitchSpec& stitch = *spec.stitch;
  const Chain& body = stitch.body;
  const int inputs = body.num_inputs();
  if (stitch.operands.size() != static_cast<size_t>(inputs + body.num_outputs())) {
    return RefuseFit(stitch.operands.size(), " operands, the body has ",
                     inputs + body.num_outputs());
  }
  KernelAccesses result;
  result.through_l1 = true;
  for (int i = 0; i < inputs; ++i) {
    SINTER_RETURN_IF_ERROR(AddTensor(absl::StrCat("input ", i), AccessKind::kRead,
                                     stitch.operands[static_cast<size_t>(i)], body.input_op(i).type,
                                     body.input_op(i).strides, rows, &result));
  }
  for (int i = 0; i < body.num_outputs(); ++i) {
    SINTER_RETURN_IF_ERROR(
        AddTensor(absl::StrCat("output ", i), AccessKind::kWrite,
                  stitch.operands[static_cast<size_t>(inputs + i)], body.output_type(i),
                  body.outputs()[static_cast<size_t>(i)].strides, rows, &result));
  }
  if (!launch.cooperative) return result;
  const uint64_t scratch = launch.scratch_bytes;
  result.list.push_back({"scratch",
                         AccessKind::kOwn,
                         kWorkspaceBuffer,
                         stitch.scratch_offset,
                         {scratch, scratch, scratch},
                         kStitchAlignment});
  result.list.push_back({"grid barrier",
                         AccessKind::kBarrier,
                         kWorkspaceBuffer,
                         spec.workspace_flags_offset,
                         {kBarrierBytes, kBarrierBytes, kBarrierBytes},
                         4});
  return result;
}

}  // namespace

absl::StatusOr<KernelAccesses> AccessesOf(const KernelSpec& spec, const KernelLaunch& launch,
                                          const LaunchRows& rows) {
  if (spec.stitch != nullptr) return StitchAccesses(spec, launch, rows);
  return ProductLowering(spec, launch, rows).Run();
}

}  // namespace sinter
