// Where operands and results of attention lie: views as strides, axes of batches as digits.
#ifndef SINTER_SRC_ATTENTION_LAYOUT_H_
#define SINTER_SRC_ATTENTION_LAYOUT_H_

#include <vector>

#include "src/attention/problem.h"
#include "src/chain/chain.h"
#include "src/normal/rules.h"

namespace sinter {

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

}  // namespace sinter

#endif  // SINTER_SRC_ATTENTION_LAYOUT_H_
