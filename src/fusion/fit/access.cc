#include "src/fusion/fit/access.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/launch_recipe.h"
#include "src/base/status.h"
#include "src/fusion/fit/refusal.h"

namespace sinter {
namespace {

constexpr uint64_t kMapAlignment = 16;     // of tensor maps
constexpr uint64_t kStitchAlignment = 16;  // of the widest load of a stitched kernel
constexpr uint64_t kBarrierBytes = 8;      // two words
constexpr int64_t kElementsMost = int64_t{1} << 50;

// A matrix of elements, its rows `stride` elements apart. Precondition: sizes that CheckProblem and
// the codec's bounds let through, so that nothing here overflows.
struct MatrixExtent {
  int64_t rows = 0, columns = 0, stride = 0, element = 0;
  absl::StatusOr<uint64_t> Bytes() const {
    if (rows <= 0 || columns <= 0) return uint64_t{0};
    if (stride > kElementsMost / rows) return RefuseFit(rows, " rows of ", stride, " elements");
    return static_cast<uint64_t>(((rows - 1) * stride + columns) * element);
  }
};

// Lowers a kernel of the chain or gemm family.
class ProductLowering {
 public:
  ProductLowering(const KernelSpec& spec, const KernelLaunch& launch, const LaunchRows& rows)
      : spec_(spec),
        p_(spec.problem),
        launch_(launch),
        rows_(rows),
        sizes_(SizesOf(spec.problem, spec.schedule)) {}

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
  struct Shape {
    bool of_launch = false;  // a row for each row of the launch
    int64_t rows = 1, columns = 0;
    DType dtype = DType::kBF16;
    uint64_t alignment = 2;
  };

  Shape Weight(int64_t in, int64_t out) const {
    const bool oi = p_.layout == Layout::kOI;
    return {false, oi ? out : in, oi ? in : out, p_.dtype, kMapAlignment};
  }
  Shape Vector(int64_t columns) const { return {false, 1, columns, p_.dtype, 2}; }
  Shape Rows(int64_t columns, DType dtype, uint64_t alignment) const {
    return {true, 0, columns, dtype, alignment};
  }

  Shape ShapeOf(Role role) const {
    const int64_t result = p_.products == 2 ? p_.l : p_.n;
    const DType factor1 = FactorType(p_.scaling1.rows, p_.dtype);
    const DType factor2 = FactorType(p_.scaling2.rows, p_.dtype);
    switch (role) {
      case Role::kA:
        return Rows(p_.k, p_.dtype, kMapAlignment);
      case Role::kC:
        return Rows(p_.n, p_.dtype, kMapAlignment);
      case Role::kOut:
      case Role::kResidual:
        return Rows(result, p_.dtype, 2);
      case Role::kFactor1:
        return Rows(1, factor1, static_cast<uint64_t>(SizeOf(factor1)));
      case Role::kFactor2:
        return Rows(1, factor2, static_cast<uint64_t>(SizeOf(factor2)));
      case Role::kW1:
      case Role::kWUp:
        return Weight(p_.k, p_.n);
      case Role::kW2:
        return Weight(p_.n, p_.l);
      case Role::kB1:
      case Role::kBUp:
        return Vector(p_.n);
      case Role::kB2:
        return Vector(p_.l);
      case Role::kParts:
      case Role::kCount:
        break;
    }
    return {};
  }

  static AccessKind KindOf(Role role) {
    if (role == Role::kC || role == Role::kParts) return AccessKind::kOwn;
    return role == Role::kOut ? AccessKind::kWrite : AccessKind::kRead;
  }

  absl::Status Add(const OperandBinding& operand) {
    BufferAccess access{std::string(NameOf(operand.role)),
                        KindOf(operand.role),
                        operand.buffer,
                        operand.offset_bytes,
                        {0, 0, 0},
                        kMapAlignment};
    if (operand.role == Role::kParts) {
      for (uint64_t& bytes : access.bytes) bytes = static_cast<uint64_t>(sizes_.parts_bytes);
      result_.list.push_back(std::move(access));
      return absl::OkStatus();
    }
    const Shape shape = ShapeOf(operand.role);
    access.alignment = shape.alignment;
    for (int i = 0; i < 3; ++i) {
      int64_t rows = shape.rows;
      // What lies in the workspace has its place whatever a launch's rows are.
      if (shape.of_launch) {
        rows = spec_.constant_rows || operand.buffer == kWorkspaceBuffer ? p_.bucket : rows_.at[i];
      }
      const MatrixExtent extent{rows, shape.columns, operand.row_stride, SizeOf(shape.dtype)};
      SINTER_ASSIGN_OR_RETURN(access.bytes[i], extent.Bytes());
    }
    result_.list.push_back(std::move(access));
    return absl::OkStatus();
  }

  const KernelSpec& spec_;
  const FfnProblem& p_;
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
