#include "src/fusion/stitch/plan_tensors.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/launch_recipe.h"

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

// Rows and columns of a role; no rows for vectors.
std::pair<int64_t, int64_t> ShapeOf(const FfnProblem& p, Role role) {
  switch (role) {
    case Role::kA:
      return {p.bucket, p.k};
    case Role::kW1:
    case Role::kWUp:
      return p.layout == Layout::kOI ? std::make_pair(p.n, p.k) : std::make_pair(p.k, p.n);
    case Role::kB1:
    case Role::kBUp:
      return {0, p.n};
    case Role::kW2:
      return p.layout == Layout::kOI ? std::make_pair(p.l, p.n) : std::make_pair(p.n, p.l);
    case Role::kB2:
      return {0, p.l};
    case Role::kOut:
    case Role::kResidual:
      return {p.bucket, p.products == 2 ? p.l : p.n};
    case Role::kFactor1:
    case Role::kFactor2:
      return {p.bucket, 1};
    default:
      return {p.bucket, p.n};
  }
}

// Whether its rows are those of the launch.
bool IsOfLaunch(Role role) {
  return role == Role::kA || role == Role::kOut || role == Role::kResidual ||
         role == Role::kFactor1 || role == Role::kFactor2;
}

DType TypeOf(const FfnProblem& p, Role role) {
  if (role == Role::kFactor1) return FactorType(p.scaling1.rows, p.dtype);
  if (role == Role::kFactor2) return FactorType(p.scaling2.rows, p.dtype);
  return p.dtype;
}

// What is handed over inside a kernel (kC, kParts) is no tensor of the plan.
std::vector<Access> AccessesOf(const KernelSpec& spec) {
  std::vector<Access> list;
  for (const OperandBinding& operand : spec.operands) {
    if (operand.role == Role::kC || operand.role == Role::kParts) continue;
    const auto [rows, columns] = ShapeOf(spec.problem, operand.role);
    std::vector<Dim> dims = {Dim::Constant(columns)};
    if (rows > 0) {
      const bool of_launch = IsOfLaunch(operand.role) && !spec.constant_rows;
      dims.insert(dims.begin(), of_launch ? Dim::M() : Dim::Constant(rows));
    }
    const DType dtype = TypeOf(spec.problem, operand.role);
    const int64_t bytes = std::max<int64_t>(rows, 1) * columns * SizeOf(dtype);
    list.push_back({{operand.buffer, operand.offset_bytes},
                    ToString(TensorType{dtype, dims}),
                    bytes,
                    operand.role == Role::kOut});
  }
  return list;
}

class Scanner {
 public:
  explicit Scanner(const Plan& plan) : plan_(plan) { result_.readers.resize(plan.kernels.size()); }

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
  PlanTensors result_;
  std::map<std::pair<int, uint64_t>, int> last_;  // by place
};

}  // namespace

PlanTensors TensorsOf(const Plan& plan) { return Scanner(plan).Run(); }

}  // namespace sinter
