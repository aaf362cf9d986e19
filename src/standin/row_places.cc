#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/standin/row_kernel.h"

namespace sinter {
namespace {

// Row-major steps of the axes. M may only be the first extent, so no step depends on it.
std::vector<int64_t> StepsOf(const std::vector<Dim>& dims) {
  std::vector<int64_t> steps(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) steps[i - 1] = steps[i] * dims[i].value;
  return steps;
}

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

RowPlace Times(RowPlace p, int64_t factor) {
  p.base *= factor;
  for (int64_t& step : p.steps) step *= factor;
  return p;
}
RowPlace Sum(RowPlace a, const RowPlace& b) {
  a.base += b.base;
  for (size_t i = 0; i < a.steps.size(); ++i) a.steps[i] += b.steps[i];
  return a;
}

RowPlace Flattened(const std::vector<Dim>& dims, const RowPosition& at) {
  if (at.flat) return at.axes.front();
  const std::vector<int64_t> steps = StepsOf(dims);
  RowPlace sum;
  for (size_t i = 0; i < steps.size(); ++i) sum = Sum(sum, Times(at.axes[i], steps[i]));
  return sum;
}

RowPosition Unflattened(const RowDomain& domain, const std::vector<Dim>& dims,
                        const RowPlace& flat) {
  const std::vector<int64_t> steps = StepsOf(dims);
  RowPosition at;
  at.axes.resize(dims.size());
  std::vector<int64_t> most(dims.size(), 0);
  int64_t base = flat.base;
  for (size_t i = 0; i < dims.size(); ++i) {
    at.axes[i].base = base / steps[i];
    base %= steps[i];
    most[i] = at.axes[i].base;
  }
  bool apart = true;
  for (size_t d = 0; d < domain.dims.size(); ++d) {
    const int64_t step = flat.steps[d];
    size_t axis = 0;
    while (axis < dims.size() && steps[axis] > step) ++axis;
    if (step == 0) continue;
    if (axis == dims.size() || step % steps[axis] != 0) return {true, {flat}};
    at.axes[axis].steps[d] = step / steps[axis];
    most[axis] += (domain.dims[d] - 1) * (step / steps[axis]);
    apart &= !(d == 0 && domain.of_m) || axis == 0;
  }
  for (size_t i = 0; i < dims.size(); ++i) apart &= dims[i].symbolic || most[i] < dims[i].value;
  return apart ? at : RowPosition{true, {flat}};
}

absl::Status RefuseRows(const Chain& body, ValueId v, absl::string_view why) {
  return absl::FailedPreconditionError(
      absl::StrCat("op ", v, " (", NameOf(body.op(v)), "): no stand-in computes ", why));
}

absl::StatusOr<RowPosition> AxesOf(const Chain& body, ValueId v, const RowDomain& domain,
                                   bool* number) {
  RowPosition at;
  size_t next = 0;
  for (Dim dim : body.op(v).type.dims) {
    RowPlace place;
    int64_t extent = 1;
    if (dim.symbolic) {
      if (next != 0 || !domain.of_m) return RefuseRows(body, v, "rows that M does not count");
      place.steps[next++] = 1;
      at.axes.push_back(place);
      continue;
    }
    const size_t begin = next;
    while (extent < dim.value && next < domain.dims.size() && !(next == 0 && domain.of_m) &&
           dim.value % (extent * domain.dims[next]) == 0) {
      extent *= domain.dims[next++];
    }
    if (extent != dim.value) return RefuseRows(body, v, "a result of other extents than its rows");
    int64_t step = 1;
    for (size_t i = next; i-- > begin; step *= domain.dims[i]) place.steps[i] = step;
    at.axes.push_back(place);
  }
  while (next < domain.last() && domain.dims[next] == 1 && !(next == 0 && domain.of_m)) ++next;
  *number = next == domain.last() && domain.columns() > 1;
  if (next < domain.last()) return RefuseRows(body, v, "a result without its rows");
  return at;
}

absl::StatusOr<RowPlace> InMemory(const Chain& body, ValueId v, const RowPosition& at,
                                  const std::vector<Stride>& strides) {
  const std::vector<Dim>& dims = body.op(v).type.dims;
  if (at.flat) {
    if (strides != ContiguousStrides(dims))
      return RefuseRows(body, v, "a reshape of a strided input");
    return at.axes.front();
  }
  RowPlace sum;
  for (size_t i = 0; i < strides.size(); ++i) {
    if (strides[i].m_power != 0) return RefuseRows(body, v, "strides that M changes");
    sum = Sum(sum, Times(at.axes[i], strides[i].value));
  }
  return sum;
}

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
