// The composite from logits to a token. Exact formulas: docs/tokens.md.
#ifndef SINTER_SRC_CHAIN_COMPOSITES_NEXT_TOKEN_H_
#define SINTER_SRC_CHAIN_COMPOSITES_NEXT_TOKEN_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "src/chain/composites.h"

namespace sinter {

// logits [.., v], floating, v constant. seed and offset as ChainBuilder::Random takes them. Each of
// the others is kNoValue, of rank 0 (one value for all rows), or has the leading dims of logits.
struct NextTokenOperands {
  ValueId logits = kNoValue, seed = kNoValue, offset = kNoValue;
  ValueId temperature = kNoValue;              // floating; kNoValue: 1
  ValueId k = kNoValue;                        // s32; kNoValue: `count`
  ValueId top_p = kNoValue, min_p = kNoValue;  // floating; kNoValue: every token is kept
};
constexpr int64_t kMostTokenCount = 64;  // what top_k takes
struct NextTokenOptions {
  int64_t count = 0;  // the largest logits that are drawn from, at most 64 and v; 0: the whole row
  bool log_probability = false;
};
struct NextToken {
  ValueId token = kNoValue;            // s32 of the leading dims; -1 for a row that has none
  ValueId log_probability = kNoValue;  // f32 of the same dims, if it was asked for
};
// Draws a token of each row, by the Gumbel numbers of its places, from the k largest logits, of
// these the fewest whose probabilities reach top_p, of these the ones that are at least min_p times
// as probable as the first. k and top_p need a count.
absl::StatusOr<NextToken> AddNextToken(ChainBuilder& b, const NextTokenOperands& in,
                                       const NextTokenOptions& options);

}  // namespace sinter

#endif  // SINTER_SRC_CHAIN_COMPOSITES_NEXT_TOKEN_H_
