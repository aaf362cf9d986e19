// Layout: where the elements of a view lie in the buffer of what it views.
#ifndef SINTER_SRC_NORMAL_LAYOUT_H_
#define SINTER_SRC_NORMAL_LAYOUT_H_

#include <cstdint>
#include <vector>

#include "src/chain/op.h"
#include "src/normal/graph.h"

namespace sinter {

constexpr int64_t kVectorBytes = 16;  // what tensor maps and wide loads need of addresses and rows

struct NormalLayout {
  std::vector<Dim> dims;
  std::vector<Stride> strides;  // per axis, in elements
  int64_t offset = 0;           // of the first element, in elements
};

// The strides that `to` has where the elements of `layout` are read in row-major order; false where
// no strides say it. M may be any of the dims.
bool ReshapeLayout(const std::vector<Dim>& to, NormalLayout* layout);

// Makes `layout`, of the operand of a view, that of its result. False where no strides say it, for
// broadcasts too.
bool ViewLayout(const Op& view, NormalLayout* layout);

// The layout of `value`, views of `*base`, which is the first value below them that is none.
// `*base` alone is given out where false is returned.
bool LayoutBelowViews(const NormalGraph& graph, ValueId value, ValueId* base, NormalLayout* layout);

// What products read as a matrix: the last axis without gaps, all others at one stride of a
// multiple of 16 bytes, no shorter than a row.
bool IsMatrix(const NormalLayout& layout, DType dtype);
bool StartsAtVector(const NormalLayout& layout, DType dtype);

// Elements in 16 bytes.
int64_t VectorOf(DType dtype);

}  // namespace sinter

#endif  // SINTER_SRC_NORMAL_LAYOUT_H_
