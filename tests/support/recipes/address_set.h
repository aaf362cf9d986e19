// AddressSet: the bytes of a buffer that an operand has, as digits: first + sum of index * stride.
#pragma once

#include "tests/support/common.h"

namespace sinter::testing {

class AddressSet {
 public:
  AddressSet() = default;  // of no bytes
  // The bytes of one element, which has `element` of them and begins at `first`.
  AddressSet(int64_t first, int64_t element);

  // All bytes so far `extent` times, `stride` bytes apart; a stride of 0 repeats them.
  void Repeat(int64_t extent, int64_t stride);

  bool empty() const { return empty_; }
  int64_t first() const { return first_; }
  int64_t end() const;    // the byte after the last one
  int64_t count() const;  // of bytes; only if Distinct()
  // Whether no two indices are one byte.
  bool Distinct() const;
  // Whether all bytes from first() to end() belong to it.
  bool Dense() const { return !empty_ && Distinct() && count() == end() - first_; }
  // Whether `byte` belongs to the set, which must be Distinct().
  bool Holds(int64_t byte) const;
  bool Meets(const AddressSet& o) const {
    return !empty_ && !o.empty_ && first_ < o.end() && o.first_ < end();
  }
  bool operator==(const AddressSet& o) const;
  std::string ToString() const;  // "4096 + 256 + 12 x 512": its digits, the innermost first

 private:
  struct Digit {
    int64_t stride = 0, extent = 0;
    bool operator==(const Digit& o) const { return stride == o.stride && extent == o.extent; }
  };
  bool empty_ = true;
  int64_t first_ = 0;
  std::vector<Digit> digits_;  // by stride; none continues the one before
};

}  // namespace sinter::testing
