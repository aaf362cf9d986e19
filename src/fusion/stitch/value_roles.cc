
#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "src/fusion/stitch/stitch_graph.h"
#include "src/stitch/body_work.h"
#include "src/stitch/phases.h"

namespace sinter {
namespace {

// The bound for a value that its readers compute: as many values may be inlined in one another as
// kTinyOps.
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

// The transposed filter of windows, made from an input that has each channel's taps side by side: a
// thread would read the taps of its channels number by number, so it may be worth a kernel that
// turns it.
bool IsTurnedFilter(const Chain& chain, ValueId value, const ValueRoles& roles) {
  const Op& op = chain.op(value);
  if (op.kind != OpKind::kTranspose || op.axes.empty()) return false;
  if (op.axes.back() == op.type.rank() - 1) return false;
  ValueId from = op.operands[0];
  while (IsView(chain.op(from))) from = chain.op(from).operands[0];
  if (chain.op(from).kind != OpKind::kInput) return false;
  const auto user_of = [&](ValueId id) {
    const std::vector<ValueId>& users = roles.users.Of(id);
    return users.size() == 1 ? users[0] : -1;
  };
  ValueId reader = user_of(value);
  while (reader >= 0 && ClassOf(chain, reader) == OpClass::kView) reader = user_of(reader);
  if (reader < 0 || chain.op(reader).kind != OpKind::kBinary) return false;
  const std::vector<ValueId>& factors = chain.op(reader).operands;
  return std::any_of(factors.begin(), factors.end(), [&](ValueId factor) {
    while (chain.op(factor).kind == OpKind::kCast) factor = chain.op(factor).operands[0];
    return chain.op(factor).kind == OpKind::kWindow;
  });
}

struct Need {
  int64_t elements = 0;
  int64_t units = 0;  // 0: none yet; gcd(0, x) is x
};

// Visits users before operands: a value is complete when it is removed.
using OpenNeeds = std::map<ValueId, Need, std::greater<ValueId>>;

void AskOperands(const Chain& chain, ValueId value, const Need& need, int64_t bucket,
                 OpenNeeds* needs) {
  const Op& op = chain.op(value);
  const bool in_place = WritesInPlace(chain, value);
  for (size_t slot = 0; slot < op.operands.size(); ++slot) {
    const Op& operand = chain.op(op.operands[slot]);
    const int64_t all = ElementsOf(operand, bucket);
    const bool takes_all = TakesRow(op) || op.kind == OpKind::kReduce ||
                           op.kind == OpKind::kMatmul || op.kind == OpKind::kScaledMatmul ||
                           op.kind == OpKind::kConv2d || op.kind == OpKind::kGroupedMatmul ||
                           op.kind == OpKind::kScatter || IsCollective(op);
    Need& below = (*needs)[op.operands[slot]];
    const int64_t read = in_place && slot == 0 ? 0 : takes_all ? all : need.elements;
    below.elements = std::min(all, below.elements + read);
    below.units = std::gcd(below.units, std::gcd(need.units, LocalUnits(chain, op, slot, bucket)));
  }
}

// Ops of one vertex: a kernel follows consecutive ops by recursion (kMostBodyDepth).
constexpr size_t kMostContracted = 512;
// Branches in the source of what joins an op, so that its vertex is never refused for them. A
// concatenation has up to 64 operands.
constexpr int64_t kMostBranchesJoined = kMostBranches / 4;
constexpr int64_t kMostBranchesOfASide = 2;

}  // namespace

ValueRoles RolesOf(const Chain& chain, int64_t bucket, const std::vector<GraphRun>& runs) {
  const size_t count = chain.ops().size();
  ValueRoles roles;
  roles.inlined.assign(count, false);
  roles.stored.assign(count, false);
  roles.vertex.assign(count, false);
  roles.run.assign(count, -1);
  roles.users = Users(chain);
  for (const Op& op : chain.ops()) roles.stored_dtype.push_back(op.type.dtype);
  MarkRuns(chain, runs, &roles);
  for (const ChainOutput& out : chain.outputs()) {
    const auto value = static_cast<size_t>(out.value);
    roles.stored[value] = true;
    roles.stored_dtype[value] = chain.op(out.value).type.dtype;
  }
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
    // A window has each pixel as often as there are taps: its readers read the pixels.
    const bool window = chain.op(value).kind == OpKind::kWindow;
    roles.inlined[i] = !scatter && !written[i] && !IsTurnedFilter(chain, value, roles) &&
                       (window || IsInlined(ClassOf(chain, value), cones.back())) &&
                       BranchesOf(chain.op(value)) <= kMostBranchesInlined;
    roles.vertex[i] = !roles.inlined[i] || roles.stored[i];
  }
  return roles;
}

VertexReads ReadsOf(const Chain& chain, ValueId root, int64_t bucket,
                    const std::vector<bool>& through, const std::vector<bool>& listed) {
  VertexReads result;
  OpenNeeds needs;
  const Op& top = chain.op(root);
  const bool scatter = top.kind == OpKind::kScatter;  // walks its rows
  const Op& walked = scatter ? chain.op(top.operands[2]) : top;
  const int64_t iteration = ElementsOf(
      top.kind == OpKind::kReduce || TakesRow(top) ? chain.op(top.operands[0]) : walked, bucket);
  needs[root] = {ElementsOf(walked, bucket), iteration};
  while (!needs.empty()) {
    const auto [value, need] = *needs.begin();
    needs.erase(needs.begin());
    ++result.visits;
    const Op& op = chain.op(value);
    const bool source =
        op.kind == OpKind::kInput || (value != root && !through[static_cast<size_t>(value)]);
    if (source) {
      result.sources.push_back({value, need.elements, need.units});
      continue;
    }
    if (value != root && listed[static_cast<size_t>(value)]) result.along.push_back(value);
    AskOperands(chain, value, need, bucket, &needs);
  }
  return result;
}

// Whether `reader` is a scatter that computes `operand` again for each row, its ids, or whose
// buffer is among what it would be computed from.
bool Contraction::IsKeptFrom(ValueId reader, ValueId operand, const VertexReads& reads) const {
  const Op& op = chain_.op(reader);
  if (op.kind != OpKind::kScatter) return false;
  if (op.operands[1] == operand) return true;
  return WritesInPlace(chain_, reader) &&
         std::any_of(reads.sources.begin(), reads.sources.end(),
                     [&](const SourceRead& read) { return read.source == op.operands[0]; });
}

bool Contraction::Joins(ValueId value, const VertexReads& reads) const {
  const OpClass op_class = ClassOf(chain_, value);
  if (op_class != OpClass::kLight && op_class != OpClass::kExpensive) return false;
  if (roles_.stored[static_cast<size_t>(value)]) return false;
  if (reads.along.size() >= kMostContracted) return false;
  int64_t branches = BranchesOf(chain_.op(value));
  for (const ValueId along : reads.along) branches += BranchesOf(chain_.op(along));
  const int64_t elements = ElementsOf(chain_.op(value), bucket_);
  int64_t most = elements;
  ValueId reader = value;
  do {
    const std::vector<ValueId>& users = roles_.users.Of(reader);
    if (users.size() != 1) return false;
    if (IsKeptFrom(users[0], reader, reads)) return false;
    reader = users[0];
    const bool side = chain_.op(reader).kind == OpKind::kConcat;
    if (branches > (side ? kMostBranchesOfASide : kMostBranchesJoined)) return false;
    if (ClassOf(chain_, reader) != OpClass::kReduction) {
      most = std::max(most, ElementsOf(chain_.op(reader), bucket_));
    }
  } while (roles_.inlined[static_cast<size_t>(reader)] &&
           !roles_.stored[static_cast<size_t>(reader)]);
  const bool stored_view = roles_.inlined[static_cast<size_t>(reader)];
  if (stored_view ? !roles_.users.Of(reader).empty() : !contract_) return false;
  if (roles_.run[static_cast<size_t>(reader)] >= 0) return false;
  if (ClassOf(chain_, reader) == OpClass::kProduct) return false;
  if (op_class == OpClass::kExpensive && most > elements) return false;
  return 4 * HandOverOf(reads) <=
         9 * elements * SizeOf(roles_.stored_dtype[static_cast<size_t>(value)]);
}

int64_t Contraction::HandOverOf(const VertexReads& reads) const {
  int64_t bytes = 0;
  for (const SourceRead& read : reads.sources) {
    const bool input = chain_.op(read.source).kind == OpKind::kInput;
    const int64_t size = SizeOf(roles_.stored_dtype[static_cast<size_t>(read.source)]);
    bytes += read.elements * size * (input ? 1 : 2);
  }
  return bytes;
}

}  // namespace sinter
