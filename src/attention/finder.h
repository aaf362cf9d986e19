// FindAttention: attention in a chain, however it is spelled: a batched product, what is done to
// its result, a softmax, and a batched product with that.
#ifndef SINTER_SRC_ATTENTION_FINDER_H_
#define SINTER_SRC_ATTENTION_FINDER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "src/attention/problem.h"
#include "src/chain/chain.h"

namespace sinter {

// A value that lies in memory, and where in it an operand begins.
struct AttentionInput {
  ValueId value = -1;
  int64_t offset = 0;  // in elements
};

struct FoundAttention {
  AttentionProblem problem;
  std::vector<AttentionInput> inputs;  // q, k, v, the terms
  std::vector<ValueId> values;         // of the kernel, ascending; `end` alone is read outside
  ValueId end = -1;                    // its result: with the views and the cast behind the product
};

// All of a chain, by `end`. None shares a value with another one. `refused`, where given, gets why
// no kernel takes what is attention otherwise: by both of its products.
std::vector<FoundAttention> FindAttention(const Chain& chain,
                                          std::map<ValueId, std::string>* refused = nullptr);

}  // namespace sinter

#endif  // SINTER_SRC_ATTENTION_FINDER_H_
