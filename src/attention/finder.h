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
#include "src/normal/rules.h"

namespace sinter {

constexpr int kMostWalk = 24;  // ops on a way through a chain, walked from each of its ends

// A number that is the same for all of a value.
bool NumberAt(const Chain& chain, ValueId value, double* number);

// Whether those scores of `dims` stay whose key is at most row + diagonal, where `condition` keeps
// (or, without `keeps`, hides) those for which it holds.
bool IsCausal(const Chain& chain, ValueId condition, const std::vector<Dim>& dims, bool keeps,
              int64_t* diagonal);

// Where operands and results of attention lie: views as strides, axes of batches as digits.

// A cast to f32 of floats, which changes no value.
bool Widens(const Chain& chain, const Op& op);

// A value as a view of `base`, which lies in memory.
struct LaidOut {
  ValueId base = -1;
  NormalLayout layout;
};

// Through as many views, and casts to f32, as strides can say, up to 24. No scalar is a base: a
// kernel stores it spread. Computed values lie without gaps, or as their first output says.
LaidOut LayoutOf(const Chain& chain, ValueId value);

// How a value lies that a kernel stores. False where it may share an input's buffer, or is stored
// otherwise than by strides without M.
bool ResultLayout(const Chain& chain, ValueId value, NormalLayout* layout);

// From the layout of a view's result to that of its operand, which has `dims`. A cast is one too.
bool Unview(const Op& view, const std::vector<Dim>& dims, NormalLayout* layout);

// Spreads a layout over the leading and the single-element axes of `dims`.
void SpreadTo(const std::vector<Dim>& dims, NormalLayout* layout);

// The last two axes as a matrix (turned: the other way round), those before as digits. `batches`:
// the dims before the last two, as the layout has them. False where M is no outermost axis or an
// axis lies at strides that use it.
bool ToBatched(const NormalLayout& layout, bool turned, const std::vector<Dim>& batches,
               BatchedMatrix* matrix);

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
