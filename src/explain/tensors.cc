#include "src/explain/tensors.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/launch_recipe.h"
#include "src/product/role_shape.h"

namespace sinter {
namespace {

struct Access {
  StitchOperand at;
  std::string type;
  int64_t bytes = 0;
  bool write = false;
};

int64_t DistinctBytes(const TensorType& type, const std::vector<Stride>& strides, int64_t m) {
  int64_t count = SizeOf(type.dtype);
  for (size_t i = 0; i < type.dims.size(); ++i) {
    if (strides[i].value != 0) count *= type.dims[i].At(m);
  }
  return count;
}

std::vector<Access> AccessesOf(const StitchSpec& spec, int64_t bucket) {
  std::vector<Access> list;
  const int inputs = spec.body.num_inputs();
  for (size_t i = 0; i < spec.operands.size(); ++i) {
    const int n = static_cast<int>(i);
    const bool write = n >= inputs;
    const TensorType& type = write ? spec.body.output_type(n - inputs) : spec.body.input_op(n).type;
    const std::vector<Stride>& strides =
        write ? spec.body.outputs()[static_cast<size_t>(n - inputs)].strides
              : spec.body.input_op(n).strides;
    list.push_back({spec.operands[i], ToString(type), DistinctBytes(type, strides, bucket), write});
  }
  return list;
}

// kC and kParts stay inside a kernel and are no tensors of the plan.
std::vector<Access> AccessesOf(const KernelSpec& spec) {
  std::vector<Access> list;
  for (const OperandBinding& operand : spec.operands) {
    if (operand.role == Role::kC || operand.role == Role::kPartialOut) continue;
    const RoleShape shape = ShapeOf(spec.sequence, operand.role);
    std::vector<Dim> dims = {Dim::Constant(shape.columns)};
    if (shape.rows > 0) {
      const bool of_launch = shape.of_launch && !spec.constant_rows;
      dims.insert(dims.begin(), of_launch ? Dim::M() : Dim::Constant(shape.rows));
    }
    const int64_t bytes = std::max<int64_t>(shape.rows, 1) * shape.RowBytes();
    list.push_back({{operand.buffer, operand.offset_bytes},
                    ToString(TensorType{shape.element, dims}),
                    bytes,
                    operand.role == Role::kOut});
  }
  return list;
}

class Scanner {
 public:
  Scanner(const Plan& plan, const BufferNames& names) : plan_(plan), names_(names) {
    result_.readers.resize(plan.kernels.size());
  }

  PlanTensors Run() {
    for (const PlannedKernel& kernel : plan_.kernels) {
      const std::vector<Access> accesses = kernel.spec.stitch != nullptr
                                               ? AccessesOf(*kernel.spec.stitch, plan_.bucket)
                                               : AccessesOf(kernel.spec);
      result_.kernels.emplace_back();
      for (const bool write : {false, true}) {
        for (const Access& access : accesses) {
          if (access.write == write) Add(access);
        }
      }
    }
    return std::move(result_);
  }

 private:
  void Add(const Access& access) {
    const int kernel = static_cast<int>(result_.kernels.size()) - 1;
    const std::pair<int, uint64_t> at = {access.at.buffer, access.at.offset_bytes};
    int& tensor = last_.try_emplace(at, -1).first->second;
    if (access.write || tensor < 0) {
      tensor = static_cast<int>(result_.tensors.size());
      const bool workspace = access.at.buffer == kWorkspaceBuffer;
      result_.tensors.push_back({workspace ? absl::StrCat("ws+", access.at.offset_bytes)
                                           : absl::StrCat("#", access.at.buffer),
                                 access.type,
                                 names_.Of(access.at.buffer),
                                 access.bytes,
                                 access.write ? kernel : -1,
                                 access.write && !workspace,
                                 {}});
    }
    KernelTensors& own = result_.kernels.back();
    (access.write ? own.writes : own.reads).push_back(tensor);
    if (access.write) return;
    PlanTensor& read = result_.tensors[static_cast<size_t>(tensor)];
    if (read.readers.empty() || read.readers.back() != kernel) read.readers.push_back(kernel);
    if (read.writer >= 0) result_.readers[static_cast<size_t>(read.writer)].insert(kernel);
  }

  const Plan& plan_;
  const BufferNames& names_;
  PlanTensors result_;
  std::map<std::pair<int, uint64_t>, int> last_;  // by place
};

}  // namespace

PlanTensors TensorsOf(const Plan& plan, const BufferNames& names) {
  return Scanner(plan, names).Run();
}

}  // namespace sinter
