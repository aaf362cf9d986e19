#include "src/stitch/reduce_use.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/stitch/needs.h"
#include "src/stitch/program.h"
#include "src/stitch/segment.h"

namespace sinter {
namespace {

bool Contains(const std::vector<int32_t>& axes, size_t axis) {
  return std::find(axes.begin(), axes.end(), static_cast<int32_t>(axis)) != axes.end();
}

// Whether the reduced axes are the last ones. Axes of extent 1 count as either.
bool ReducesTail(const Op& op, const std::vector<Dim>& dims) {
  bool reduced = false;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == Dim::Constant(1)) continue;
    if (reduced && !Contains(op.axes, i)) return false;
    reduced |= Contains(op.axes, i);
  }
  return reduced;
}

bool ReducesHead(const Op& op, const std::vector<Dim>& dims) {
  bool kept = false;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == Dim::Constant(1)) continue;
    if (kept && Contains(op.axes, i)) return false;
    kept |= !Contains(op.axes, i);
  }
  return kept;
}

struct Span {
  int64_t elements = 1;
  bool symbolic = false;
};

// The span of the axes that are reduced (or kept).
Span SpanOf(const Op& op, const std::vector<Dim>& dims, bool reduced) {
  Span span;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (Contains(op.axes, i) != reduced) continue;
    span.symbolic |= dims[i].symbolic;
    if (!dims[i].symbolic) span.elements *= dims[i].value;
  }
  return span;
}

}  // namespace

ReduceUse UseOf(const Chain& body, const Op& op, const StitchProgram& program) {
  if (op.kind == OpKind::kMatmul) return ReduceUse::kSerial;
  if (op.kind != OpKind::kReduce) return ReduceUse::kNone;
  const std::vector<Dim>& dims = body.op(op.operands[0]).type.dims;
  const auto is_units = [&](const Span& span) {
    return program.owner >= 0 && span.elements == program.units &&
           span.symbolic == program.units_symbolic;
  };
  if (ReducesTail(op, dims) && is_units(SpanOf(op, dims, false))) return ReduceUse::kRow;
  if (ReducesHead(op, dims) && is_units(SpanOf(op, dims, true))) return ReduceUse::kColumn;
  if (program.owner >= 0 && HasSegments(body, program, op)) return ReduceUse::kSegment;
  return ReduceUse::kSerial;
}

int64_t ReducedElements(const Chain& body, const Op& op) {
  const std::vector<Dim>& dims = body.op(op.operands[0]).type.dims;
  if (op.kind == OpKind::kMatmul) {
    const Dim k = dims[dims.size() - (op.transpose_a ? 2 : 1)];
    return k.symbolic ? 0 : k.value;
  }
  const Span span = SpanOf(op, dims, true);
  return span.symbolic ? 0 : span.elements;
}

std::vector<ValueId> OwnerCandidates(const Chain& body) {
  std::vector<ValueId> owners = {-1};
  std::set<std::pair<int64_t, bool>> seen;
  for (size_t id = 0; id < body.ops().size(); ++id) {
    const Op& op = body.op(static_cast<ValueId>(id));
    if (op.kind != OpKind::kReduce) continue;
    const std::vector<Dim>& dims = body.op(op.operands[0]).type.dims;
    const bool tail = ReducesTail(op, dims);
    if (!tail && !ReducesHead(op, dims)) continue;
    const Span units = SpanOf(op, dims, !tail);
    if (seen.insert({units.elements, units.symbolic}).second) {
      owners.push_back(static_cast<ValueId>(id));
    }
  }
  return owners;
}

absl::Status SetOwner(const Chain& body, ValueId owner, StitchProgram& program) {
  program.owner = owner;
  if (owner < 0) return absl::OkStatus();
  if (static_cast<size_t>(owner) >= body.ops().size() || body.op(owner).kind != OpKind::kReduce) {
    return absl::InvalidArgumentError(absl::StrCat("owner ", owner, " is not a reduction"));
  }
  const Op& op = body.op(owner);
  const std::vector<Dim>& dims = body.op(op.operands[0]).type.dims;
  const bool tail = ReducesTail(op, dims);
  if (!tail && !ReducesHead(op, dims)) {
    return RefuseOp(owner, op, "reduces axes that are neither the last nor the first ones");
  }
  const Span units = SpanOf(op, dims, !tail);
  program.units = units.elements;
  program.units_symbolic = units.symbolic;
  return absl::OkStatus();
}

}  // namespace sinter
