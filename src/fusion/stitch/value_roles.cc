#include "src/fusion/stitch/value_roles.h"

#include <algorithm>

#include "src/stitch/body_work.h"
#include "src/stitch/in_place.h"

namespace sinter {
namespace {

// Of a value that its readers compute: as many values may be inlined in one another as kTinyOps.
constexpr int64_t kMostBranchesInlined = 2;

// The cost of computing a value again, if it depends only on sources.
struct Cone {
  bool only_sources = false;
  int64_t input_bytes = 0;
  int ops = 0;
};

Cone ConeOf(const Chain& chain, ValueId value, int64_t bucket, const std::vector<Cone>& below) {
  const Op& op = chain.op(value);
  if (op.kind == OpKind::kInput) {
    return {true, ElementsOf(op, bucket) * SizeOf(op.type.dtype), 0};
  }
  Cone cone{true, 0, 1};
  for (ValueId operand : op.operands) {
    const Cone& from = below[static_cast<size_t>(operand)];
    cone.only_sources = cone.only_sources && from.only_sources;
    cone.input_bytes = std::min(cone.input_bytes + from.input_bytes, StitchGraph::kTinyBytes + 1);
    cone.ops = std::min(cone.ops + from.ops, StitchGraph::kTinyOps + 1);
  }
  return cone;
}

bool IsInlined(OpClass op_class, const Cone& cone) {
  if (op_class == OpClass::kSource || op_class == OpClass::kView) return true;
  return op_class == OpClass::kLight && cone.only_sources &&
         cone.input_bytes <= StitchGraph::kTinyBytes && cone.ops <= StitchGraph::kTinyOps;
}

void MarkRuns(const Chain& chain, const std::vector<GraphRun>& runs, ValueRoles* roles) {
  for (size_t r = 0; r < runs.size(); ++r) {
    for (ValueId value : runs[r].values) {
      roles->run[static_cast<size_t>(value)] = static_cast<int>(r);
    }
    roles->stored_dtype[static_cast<size_t>(runs[r].end)] = runs[r].dtype();
    for (const ProductOperand& operand : runs[r].matched.operands) {
      if (chain.op(operand.value).kind == OpKind::kInput) continue;
      roles->stored[static_cast<size_t>(operand.value)] = true;
      roles->stored_dtype[static_cast<size_t>(operand.value)] = operand.type.dtype;
    }
  }
}

void FindUsers(const Chain& chain, ValueRoles* roles) {
  for (ValueId user = 0; user < static_cast<ValueId>(chain.ops().size()); ++user) {
    for (ValueId operand : chain.op(user).operands) {
      std::vector<ValueId>& users = roles->users[static_cast<size_t>(operand)];
      if (users.empty() || users.back() != user) users.push_back(user);
    }
  }
}

// Values that a scatter in place writes, or that are its ids: computed by it, they might read what
// it writes over. Views of that itself are copied by a kernel before it.
std::vector<bool> WrittenInPlace(const Chain& chain) {
  std::vector<bool> written(chain.ops().size());
  for (const ChainOutput& output : chain.outputs()) {
    if (!WritesInPlace(chain, output)) continue;
    const Op& scatter = chain.op(output.value);
    for (size_t i = 1; i < scatter.operands.size(); ++i) {
      ValueId value = scatter.operands[i];
      while (ClassOf(chain, value) == OpClass::kView) value = chain.op(value).operands[0];
      if (value == scatter.operands[0]) {
        written[static_cast<size_t>(scatter.operands[i])] = scatter.operands[i] != value;
      } else if (ClassOf(chain, value) == OpClass::kLight) {
        written[static_cast<size_t>(value)] = true;
      }
    }
  }
  return written;
}

}  // namespace

ValueRoles RolesOf(const Chain& chain, int64_t bucket, const std::vector<GraphRun>& runs) {
  const size_t count = chain.ops().size();
  ValueRoles roles;
  roles.inlined.assign(count, false);
  roles.stored.assign(count, false);
  roles.vertex.assign(count, false);
  roles.run.assign(count, -1);
  roles.users.resize(count);
  for (const Op& op : chain.ops()) roles.stored_dtype.push_back(op.type.dtype);
  MarkRuns(chain, runs, &roles);
  for (const ChainOutput& out : chain.outputs()) {
    const auto value = static_cast<size_t>(out.value);
    roles.stored[value] = true;
    roles.stored_dtype[value] = chain.op(out.value).type.dtype;
  }
  FindUsers(chain, &roles);
  const std::vector<bool> written = WrittenInPlace(chain);
  std::vector<Cone> cones;
  for (size_t i = 0; i < count; ++i) {
    const auto value = static_cast<ValueId>(i);
    cones.push_back(ConeOf(chain, value, bucket, cones));
    if (roles.run[i] >= 0) {
      cones.back().only_sources = false;
      roles.vertex[i] = runs[static_cast<size_t>(roles.run[i])].end == value;
      continue;
    }
    // A reader would write the sides of a concatenation wherever it reads them.
    const bool scatter = chain.op(value).kind == OpKind::kScatter;
    roles.stored[i] = roles.stored[i] || scatter;
    roles.inlined[i] = !scatter && !written[i] && IsInlined(ClassOf(chain, value), cones.back()) &&
                       BranchesOf(chain.op(value)) <= kMostBranchesInlined;
    roles.vertex[i] = !roles.inlined[i] || roles.stored[i];
  }
  return roles;
}

}  // namespace sinter
