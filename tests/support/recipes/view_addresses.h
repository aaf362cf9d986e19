// ViewAddresses: where the elements of a chain's values lie, index by index through the ops that
// only move them.
#pragma once

#include "src/chain/chain.h"
#include "tests/support/recipes/address_set.h"

namespace sinter::testing {

// A value that lies in memory: byte of its first element, bytes between neighbours of each axis.
struct StoredValue {
  ValueId value = -1;
  int64_t first = 0, element = 0;
  std::vector<int64_t> strides;
};

class ViewAddresses {
 public:
  explicit ViewAddresses(const Chain& chain);

  // All bytes of `stored` at `m`.
  AddressSet All(const StoredValue& stored, int64_t m) const;
  // Whether `bytes` are all bytes of `stored`, or of a value of the chain that is a view of it.
  bool Match(const AddressSet& bytes, const StoredValue& stored, int64_t m) const;
  // The same, with only the views through which `reader` reads `stored`; all views if it reads
  // `stored` through other ops, or is -1.
  bool MatchAbove(const AddressSet& bytes, ValueId reader, const StoredValue& stored,
                  int64_t m) const;

 private:
  bool MatchView(const AddressSet& bytes, ValueId view, const StoredValue& stored, int64_t m) const;
  int64_t AddressOf(ValueId view, std::vector<int64_t> index, const StoredValue& stored,
                    int64_t m) const;

  const Chain& chain_;
  std::vector<std::vector<ValueId>> views_;  // by value: what only moves its elements
};

}  // namespace sinter::testing
