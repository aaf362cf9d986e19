// Small graphs that write rows by ids, one composition each. Extent 0 is M.
#pragma once

#include "src/chain/chain.h"
#include "tests/support/common.h"

namespace sinter::testing {

// A cache [slots, columns] of `dtype` with r[rows, columns] written where ids [rows] of `ids` say.
// `in_place`: the output may share the cache's buffer.
Chain CacheWrite(int64_t rows, int64_t slots, int64_t columns, DType dtype, DType ids,
                 bool in_place);

// Keys and values of a layer into their caches [slots, heads, dim] of e4m3 and bf16, in place, by
// the same ids [rows]: rmsnorm(k[rows, heads, dim]) of each head over 0.25, cast; v scaled by a
// number of each row.
Chain CachesWrite(int64_t rows, int64_t slots, int64_t heads, int64_t dim);

struct ScatterGraph {
  std::string name;
  Chain chain;
  int64_t m = 0;
};
// Those in several sizes, and others: what is written over computed, of M rows, all zeros, a view,
// another scatter; ids computed, numbered, of several axes; rows that were read from what they are
// written over; results that others read; in place and not.
std::vector<ScatterGraph> ScatterGraphs();

}  // namespace sinter::testing
