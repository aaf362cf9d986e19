// Buckets of M: what plans of a chain are made for.
#ifndef SINTER_SRC_CHAIN_BUCKETS_H_
#define SINTER_SRC_CHAIN_BUCKETS_H_

#include <cstdint>

#include "src/chain/chain.h"

namespace sinter {

// Rows that products of one pass work on, where each index of M has many: 32 images of 56 x 56
// pixels and more. A pass is never cut inside an index of M.
constexpr int64_t kMostRowsOfPass = int64_t{1} << 17;

// The largest bucket of plans of the chain; longer launches are passes of it. kLargestBucket, or
// less where products have many rows for each index of M.
int64_t LargestBucketOf(const Chain& chain);
// The smallest bucket that holds m, the largest of the chain where none does.
int64_t BucketOf(const Chain& chain, int64_t m);

}  // namespace sinter

#endif  // SINTER_SRC_CHAIN_BUCKETS_H_
