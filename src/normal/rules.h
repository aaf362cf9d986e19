// Rules: what makes a chain one that plans. Each is a function with a law.
#ifndef SINTER_SRC_NORMAL_RULES_H_
#define SINTER_SRC_NORMAL_RULES_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "src/chain/op.h"
#include "src/normal/graph.h"

namespace sinter {

// What holds of a rule's result, by the reference.
enum class Law {
  kStructural,     // every bit is the same
  kRecomposition,  // equal once rounded to f32, but where the rule's comment lists an exception
};

struct NormalRule {
  absl::string_view name;
  Law law;
  // True if it changed anything.
  bool (*apply)(NormalGraph& graph);
};

// In the order in which they are applied.
absl::Span<const NormalRule> NormalRules();

// idle_ops.cc
// Views that move nothing, views in a row as one, casts of a value that has the type and precision.
bool IdleOpsOut(NormalGraph& graph);
// Equal ops on equal operands are one. Two results of a chain stay two.
bool EqualOpsOnce(NormalGraph& graph);

// recompose.cc
// Every spelling of SiLU, of both GELUs, of softplus, of relu and of a mean as the op or composite
// that kernels know. Exceptions: where x / (1 + exp(-x)) or its like is NaN for -infinity,
// x * sigmoid(x) is too; results below the least normal f32 may differ in their last bit;
// log(1 + exp(x)) below -10 lacks up to 1e-16, and is infinite where exp(x) is; pow(x, -0.5) of
// -infinity is NaN and of -0 is -infinity; a comparison that makes +0 of -0 becomes relu, which
// keeps it.
bool KnownForms(NormalGraph& graph);

// long_rows.cc
// Reductions of a few long rows are reductions of parts, and of these: one block or cluster a row
// leaves most SMs idle. Not where the result is spread over long rows again.
bool LongRowsInParts(NormalGraph& graph);
// The largest elements of a long row are found among the largest of each part. Its running sums are
// the running sums of its parts plus the sum before each part. No unit holds such a row, and one
// block a row leaves most SMs idle. Exception: running sums add up in another order.
bool LongStepsInParts(NormalGraph& graph);

// rows.cc
// M first, and rows that products read not regrouped on their way: [1, M, K] and [B, M, K] become
// rows of M, a reshape that only regroups rows goes. If the rows of a value are contiguous, its
// buffer stays what it is.
bool RowsOfM(NormalGraph& graph);
// Views in a row through which M travels to another axis and back.
bool ViewsInOrder(NormalGraph& graph);

// products.cc
// A product with a vector is a sum: its matrix is read once, and the sum is stitched. Not where the
// matrix is another product's result, whose kernel may take both.
bool SumsOfVectors(NormalGraph& graph);
// A batch of one product is a product; rows of which the product takes the transpose are transposed
// by an op of their own.
bool PlainProducts(NormalGraph& graph);
// Slices of the columns of a product that nobody else reads are products with slices of the
// weight, where the slices are gate and up.
bool PairsOfOneWeight(NormalGraph& graph);
// Operands that products cannot read are copied: rows that lie at several strides, matrices whose
// row pitch is not a multiple of 16 bytes. K and channels that are not such multiples are padded
// with zeros. Filters of narrow groups are joined with zeros between them, which a NaN or infinity
// of one group passes.
bool CopiedOperands(NormalGraph& graph);

// views.cc
// Views of inputs that products read are inputs with other strides.
bool ViewsOfInputs(NormalGraph& graph);
// Reshapes of results of products are strides of outputs.
bool ViewsOfResults(NormalGraph& graph);
// A value with two outputs is copied for the second one: a kernel stores it once.
bool ResultsApart(NormalGraph& graph);

// Layout: where the elements of a view lie in the buffer of what it views.

constexpr int64_t kVectorBytes = 16;  // what tensor maps and wide loads need of addresses and rows

struct NormalLayout {
  std::vector<Dim> dims;
  std::vector<Stride> strides;  // per axis, in elements
  int64_t offset = 0;           // of the first element, in elements
};

// The strides that `to` has where the elements of `layout` are read in row-major order; false where
// no strides say it. M may be any of the dims.
bool ReshapeLayout(const std::vector<Dim>& to, NormalLayout* layout);

// Turns `layout` of a view's operand into the layout of its result. False if no strides express it,
// and for broadcasts.
bool ViewLayout(const Op& view, NormalLayout* layout);

// The layout of `value`, views of `*base`, which is the first value below them that is not a view.
// If it returns false, only `*base` is set.
bool LayoutBelowViews(const NormalGraph& graph, ValueId value, ValueId* base, NormalLayout* layout);

// What products read as a matrix: the last axis without gaps, all others at one stride of a
// multiple of 16 bytes, no shorter than a row.
bool IsMatrix(const NormalLayout& layout, DType dtype);
bool StartsAtVector(const NormalLayout& layout, DType dtype);

// Elements in 16 bytes.
int64_t VectorOf(DType dtype);

}  // namespace sinter

#endif  // SINTER_SRC_NORMAL_RULES_H_
