// M: the buckets that plans of a chain are made for, and whether its rows are apart.
#ifndef SINTER_SRC_CHAIN_BUCKETS_H_
#define SINTER_SRC_CHAIN_BUCKETS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "src/chain/chain.h"

namespace sinter {

// Rows that products of one pass work on, where each index of M has many: 32 images of 56 x 56
// pixels and more. A pass is never cut inside an index of M.
constexpr int64_t kMostRowsOfPass = int64_t{1} << 17;

// The largest bucket of plans of the chain, which take any number of rows. kLargestBucket, or
// less where products have many rows for each index of M.
int64_t LargestBucketOf(const Chain& chain);
// The smallest bucket that holds m, the largest of the chain where none does.
int64_t BucketOf(const Chain& chain, int64_t m);

// OK where every op keeps the dimension M of its operands: index i of it in the result is made of
// index i of it in each operand that has it. Else FAILED_PRECONDITION naming the first op that does
// not: one that reduces over M, contracts it, or has M twice.
absl::Status CheckRowsApart(const Chain& chain);

// Whether `op` takes rows by ids from all M of them, or writes M rows or among them.
bool MixesRowsByIds(const Chain& chain, const Op& op);

}  // namespace sinter

#endif  // SINTER_SRC_CHAIN_BUCKETS_H_
