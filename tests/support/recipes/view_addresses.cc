#include "tests/support/recipes/view_addresses.h"

namespace sinter::testing {
namespace {

// Elements that are looked at of a view that has more.
constexpr int64_t kSamples = 96;

bool Moves(const Op& op) { return IsView(op) || op.kind == OpKind::kCast; }

int64_t Elements(const Op& op, int64_t m) {
  int64_t count = 1;
  for (const Dim& dim : op.type.dims) count *= dim.At(m);
  return count;
}

std::vector<int64_t> IndexOf(const Op& op, int64_t element, int64_t m) {
  std::vector<int64_t> index(op.type.dims.size());
  for (size_t axis = index.size(); axis-- > 0;) {
    const int64_t extent = op.type.dims[axis].At(m);
    index[axis] = element % extent;
    element /= extent;
  }
  return index;
}

// The index in the operand of `op`, whose dims are `from`'s, of `index` in its result.
std::vector<int64_t> IndexBelow(const Op& op, const Op& from, std::vector<int64_t> index,
                                int64_t m) {
  switch (op.kind) {
    case OpKind::kTranspose: {
      std::vector<int64_t> below(index.size());
      for (size_t i = 0; i < index.size(); ++i) below[static_cast<size_t>(op.axes[i])] = index[i];
      return below;
    }
    case OpKind::kSlice:
      for (size_t i = 0; i < index.size(); ++i) index[i] = op.starts[i] + index[i] * op.steps[i];
      return index;
    case OpKind::kReshape: {
      int64_t element = 0;
      for (size_t i = 0; i < index.size(); ++i) {
        element = element * op.type.dims[i].At(m) + index[i];
      }
      return IndexOf(from, element, m);
    }
    case OpKind::kBroadcast: {
      const size_t missing = op.type.dims.size() - from.type.dims.size();
      std::vector<int64_t> below(index.begin() + static_cast<std::ptrdiff_t>(missing), index.end());
      for (size_t i = 0; i < below.size(); ++i) {
        if (from.type.dims[i] != op.type.dims[i + missing]) below[i] = 0;
      }
      return below;
    }
    default:
      return index;
  }
}

}  // namespace

ViewAddresses::ViewAddresses(const Chain& chain) : chain_(chain), views_(chain.ops().size()) {
  for (ValueId value = 0; value < static_cast<ValueId>(chain.ops().size()); ++value) {
    for (ValueId below = value; Moves(chain.op(below));) {
      below = chain.op(below).operands[0];
      views_[static_cast<size_t>(below)].push_back(value);
    }
  }
}

AddressSet ViewAddresses::All(const StoredValue& stored, int64_t m) const {
  AddressSet all(stored.first, stored.element);
  const std::vector<Dim>& dims = chain_.op(stored.value).type.dims;
  for (size_t i = 0; i < dims.size(); ++i) all.Repeat(dims[i].At(m), stored.strides[i]);
  return all;
}

int64_t ViewAddresses::AddressOf(ValueId view, std::vector<int64_t> index,
                                 const StoredValue& stored, int64_t m) const {
  while (view != stored.value) {
    const ValueId below = chain_.op(view).operands[0];
    index = IndexBelow(chain_.op(view), chain_.op(below), std::move(index), m);
    view = below;
  }
  int64_t address = stored.first;
  for (size_t i = 0; i < index.size(); ++i) address += index[i] * stored.strides[i];
  return address;
}

// The views keep the order of each axis, so that the first and the last element are the outermost.
bool ViewAddresses::MatchView(const AddressSet& bytes, ValueId view, const StoredValue& stored,
                              int64_t m) const {
  const Op& op = chain_.op(view);
  const int64_t elements = Elements(op, m);
  if (elements == 0 || bytes.empty()) return (elements == 0) == bytes.empty();
  int64_t distinct = elements;
  for (ValueId at = view; at != stored.value; at = chain_.op(at).operands[0]) {
    if (chain_.op(at).kind == OpKind::kBroadcast) {
      distinct = std::min(distinct, Elements(chain_.op(chain_.op(at).operands[0]), m));
    }
  }
  const int64_t last = AddressOf(view, IndexOf(op, elements - 1, m), stored, m);
  if (AddressOf(view, IndexOf(op, 0, m), stored, m) != bytes.first()) return false;
  if (last + stored.element != bytes.end()) return false;
  if (!bytes.Distinct()) return true;
  if (bytes.count() != distinct * stored.element) return false;
  const int64_t step = std::max<int64_t>(1, elements / kSamples);
  for (int64_t i = 0; i < elements; i += step + (step > 1 ? i % 3 : 0)) {
    const int64_t address = AddressOf(view, IndexOf(op, i, m), stored, m);
    if (!bytes.Holds(address) || !bytes.Holds(address + stored.element - 1)) return false;
  }
  return true;
}

bool ViewAddresses::MatchAbove(const AddressSet& bytes, ValueId reader, const StoredValue& stored,
                               int64_t m) const {
  std::vector<ValueId> way = {reader};
  while (way.back() >= 0 && way.back() != stored.value && Moves(chain_.op(way.back()))) {
    way.push_back(chain_.op(way.back()).operands[0]);
  }
  if (way.back() != stored.value) return Match(bytes, stored, m);
  return std::any_of(way.begin(), way.end(),
                     [&](ValueId view) { return MatchView(bytes, view, stored, m); });
}

bool ViewAddresses::Match(const AddressSet& bytes, const StoredValue& stored, int64_t m) const {
  if (bytes == All(stored, m)) return true;
  for (const ValueId view : views_[static_cast<size_t>(stored.value)]) {
    if (MatchView(bytes, view, stored, m)) return true;
  }
  return false;
}

}  // namespace sinter::testing
