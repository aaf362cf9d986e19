// What kernels that write rows by ids include besides.
#pragma once
#include "stitch/gather.cuh"

namespace sinter {

// Whether an id of [first, count) is `id`. Lanes of a warp that ask together on behalf of one
// `asker` share the search; the answer does not depend on which ones run together.
template <class Id, class IdAt>
SINTER_DEVICE bool finds_id(Id id, long long asker, long long first, long long count,
                            const IdAt& id_at) {
  const u32 lanes = __match_any_sync(__activemask(), static_cast<unsigned long long>(asker));
  const u32 below = lanes & ((1u << threadIdx.x % 32) - 1);
  bool found = false;
#pragma unroll 4
  for (long long k = first + __popc(below); k < count; k += __popc(lanes)) {
    found |= id_at(k) == id;
  }
  return __any_sync(lanes, found);
}

// Whether no id behind number `at` of `count` is `id`: of equal ids the last one writes.
template <class Id, class IdAt>
SINTER_DEVICE bool is_last(Id id, long long at, long long count, const IdAt& id_at) {
  return !finds_id(id, at, at + 1, count, id_at);
}

// Whether one of `count` ids names a row.
template <class IdAt>
SINTER_DEVICE bool is_named(long long row, long long count, const IdAt& id_at) {
  return finds_id(row, row, 0, count, id_at);
}

}  // namespace sinter
