// What kernels that take elements by ids include besides.
#pragma once
#include "stitch/codes.cuh"
#include "stitch/read_or.cuh"

namespace sinter {

struct ElementS64 {
  using Stored = long long;
  using Word = long long;
  using Pair = void;
  static SINTER_DEVICE long long word(long long stored) { return stored; }
  static SINTER_DEVICE long long stored(long long word) { return word; }
};

// Whether `id` is one of `count` places.
SINTER_DEVICE bool is_place(int id, int count) {
  return static_cast<u32>(id) < static_cast<u32>(count);
}
SINTER_DEVICE bool is_place(long long id, int count) { return id >= 0 && id < count; }

// The place that `id` names, 0 where it names none: what is there may be read.
template <class Id>
SINTER_DEVICE long long place_of(Id id, int count) {
  return is_place(id, count) ? id : 0;
}

}  // namespace sinter
