#include "src/stitch/rows/row_domain.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace sinter {
namespace {

constexpr int64_t kMostColumns = 16384;

absl::StatusOr<RowDomain> MakeDomain(const Chain& body, ValueId v, std::vector<Dim> dims,
                                     bool may_cut) {
  int64_t columns = dims.back().value;
  if (columns > kMostColumns && may_cut) {
    int64_t part = kMostColumns / 2;
    while (columns % part != 0) --part;
    dims.back() = Dim::Constant(columns / part);
    dims.push_back(Dim::Constant(part));
    columns = part;
  }
  if (columns > kMostColumns)
    return RefuseRows(body, v, absl::StrCat("rows of ", columns, " elements"));
  if (dims.size() > kRowDims)
    return RefuseRows(body, v, absl::StrCat("rows of ", dims.size(), " dims"));
  RowDomain domain;
  for (Dim dim : dims) domain.dims.push_back(dim.symbolic ? 1 : dim.value);
  domain.of_m = dims.front().symbolic;
  return domain;
}

absl::StatusOr<RowDomain> DomainOf(const Chain& body, const Op& op) {
  const std::vector<Dim>& dims = body.op(op.operands[0]).type.dims;
  std::vector<Dim> domain;
  int64_t columns = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    const bool reduced = std::count(op.axes.begin(), op.axes.end(), static_cast<int>(i)) > 0;
    if (!reduced) domain.push_back(dims[i]);
    if (reduced && dims[i].symbolic)
      return RefuseRows(body, op.operands[0], "a reduction over rows");
    if (reduced) columns *= dims[i].value;
  }
  domain.push_back(Dim::Constant(columns));
  return MakeDomain(body, op.operands[0], std::move(domain), false);
}

}  // namespace

absl::StatusOr<RowDomain> RowDomainOf(const Chain& body) {
  for (size_t v = 0; v < body.ops().size(); ++v) {
    const Op& op = body.op(static_cast<ValueId>(v));
    if (op.kind == OpKind::kReduce) return DomainOf(body, op);
  }
  ValueId first = body.outputs().front().value;
  if (body.op(first).kind == OpKind::kConcat) first = body.op(first).operands.front();
  std::vector<Dim> dims = body.op(first).type.dims;
  if (dims.empty() || dims.back().symbolic) dims.push_back(Dim::Constant(1));
  return MakeDomain(body, first, std::move(dims), true);
}

}  // namespace sinter
