// Index: the position of an element, as an integer expression of a kernel's loop variables. Indices
// are built by following a value to its operands (PullPosition); they become addresses in generated
// source.
#ifndef SINTER_SRC_STITCH_INDEX_H_
#define SINTER_SRC_STITCH_INDEX_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "src/chain/chain.h"

namespace sinter {

using IndexVar = int;

// offset + sum of factor * variable. Terms are ordered by variable; no factor is 0.
class Index {
 public:
  // Most indices have at most three terms, and planning a large graph makes millions of them.
  using Terms = absl::InlinedVector<std::pair<IndexVar, int64_t>, 3>;

  Index() = default;
  explicit Index(int64_t offset) : offset_(offset) {}
  static Index Of(IndexVar var);

  const Terms& terms() const { return terms_; }
  int64_t FactorOf(IndexVar var) const;  // 0 where it has no such term
  int64_t offset() const { return offset_; }
  bool IsConstant() const { return terms_.empty(); }
  Index Plus(const Index& other) const;
  Index Plus(int64_t constant) const { return Plus(Index(constant)); }
  Index Times(int64_t factor) const;
  bool operator==(const Index& o) const { return offset_ == o.offset_ && terms_ == o.terms_; }
  bool operator<(const Index& o) const {
    return std::tie(offset_, terms_) < std::tie(o.offset_, o.terms_);
  }

 private:
  Terms terms_;
  int64_t offset_ = 0;
};

// The variables of one kernel. A loop variable counts the elements of a row-major box, whose dims
// are variables too. Canonical() folds neighbouring dims back together, so that the address of a
// contiguous tensor is the loop variable itself, without a division. Not thread-safe.
class IndexSpace {
 public:
  // How a canonical variable is computed: it is the loop variable, the quotient or remainder of
  // `of` by `divisor`, the place below `extent` that is nearest to `of`, or read from memory:
  // element `at` of value `ids`, 0 where it is not below `extent`.
  struct Var {
    enum Kind { kLoop, kQuotient, kRemainder, kNearest, kDim, kRead } kind = kLoop;
    Index of;               // kQuotient, kRemainder, kNearest
    int64_t divisor = 1;    // kQuotient, kRemainder; kNearest: the extent
    int64_t extent = 0;     // values are below it; 0: unbounded (rows M)
    int depth = 0;          // of the deepest loop that it depends on
    int64_t terms = 1;      // in its text
    std::string name;       // kLoop, kRead: its name in source
    bool is_int = false;    // source computes it with 32 bits, not 64
    int box = -1, dim = 0;  // kDim
    int ids = -1;           // kRead
    std::vector<Index> at;  // kRead: canonical
  };

  // A loop variable; `extent` 0 is unbounded. `is_int`: source declares it as an int.
  IndexVar AddLoop(const std::string& name, int64_t extent, int depth, bool is_int = false);
  // The number of the segment of `elements` elements that `loop` is in: a variable of its own.
  IndexVar SegmentOf(IndexVar loop, int64_t elements);
  // Indices of the dims of a row-major box that `loop`, a loop variable or a quotient of one,
  // counts through; dims[0] may be 0: unbounded.
  std::vector<Index> Box(IndexVar loop, const std::vector<int64_t>& dims);

  // The place in [0, extent) that is nearest to `index`, which may lie outside: `index` itself
  // where it never does.
  Index Nearest(const Index& index, int64_t extent);
  // A position that element `at` of value `ids` names; `extent` 0 is unbounded.
  IndexVar Read(int ids, const std::vector<Index>& at, int64_t extent);
  // How source names it from here on, and the depth of the scope that declares it.
  void NameRead(IndexVar read, const std::string& name, int depth);
  // What a position depends on that is read from memory; not what those reads depend on.
  std::vector<IndexVar> ReadsIn(const std::vector<Index>& at) const;

  const Var& var(IndexVar v) const { return vars_[v]; }
  // Replaces dims by the loop variable, its quotients and its remainders, which source can express.
  Index Canonical(const Index& index);
  std::vector<Index> Canonical(const std::vector<Index>& at);
  Index Quotient(const Index& index, int64_t divisor);
  Index Remainder(const Index& index, int64_t divisor);
  // Terms of its text, with quotients and remainders written out: the cost of walking and of
  // compiling it.
  int64_t TermsOf(const Index& index) const;
  // Depth of the deepest loop that it depends on; 0 for a constant.
  int Depth(const Index& index) const;
  // Whether the sum of its ints may be too large for one.
  bool LeavesInt(const Index& index) const;
  bool MovesWith(const Index& index, IndexVar loop) const;
  bool MovesWith(const std::vector<Index>& at, IndexVar loop) const;  // whether any index does
  // A canonical index with loop variable `with` instead of `loop`.
  Index WithLoop(const Index& index, IndexVar loop, IndexVar with);
  // The value of a canonical index where `loop` is `at` and every other loop variable 0. For a
  // nearest place it is the value without the clamp, so that steps are the steps inside.
  int64_t ValueAt(const Index& index, IndexVar loop, int64_t at) const;

 private:
  struct BoxDims {
    IndexVar loop = 0;
    std::vector<int64_t> dims;
    std::vector<IndexVar> vars;  // -1 where the extent is 1
  };
  struct Split {
    Index quotient, remainder;
  };

  bool Reaches(const Index& index, IndexVar loop, std::set<IndexVar>* seen) const;
  void AddReads(const Index& index, std::vector<IndexVar>* reads) const;
  IndexVar Intern(Var::Kind kind, const Index& of, int64_t divisor);
  Split SplitBy(const Index& index, int64_t divisor);
  Index Run(const BoxDims& box, size_t first, size_t last);
  Index FoldBox(const BoxDims& box, const Index& index);
  IndexVar QuotientIn(const Index& index, const Index& of, int64_t divisor) const;
  bool JoinDivision(Index* index) const;
  int64_t GuessOf(const Var& read, IndexVar loop, int64_t at) const;
  // The largest value; -1: unbounded, or negative somewhere.
  int64_t Largest(const Index& index) const;

  std::vector<Var> vars_;
  std::vector<BoxDims> boxes_;
  std::map<std::pair<IndexVar, std::vector<int64_t>>, size_t> box_of_;  // by loop and dims
  std::map<std::tuple<int, Index, int64_t>, IndexVar> interned_;
  std::map<std::tuple<int, std::vector<Index>, int64_t>, IndexVar> reads_;
};

// Pull: from an element of an op's result to the elements of its operands (index propagation,
// FusionStitching 4.2: a non-sub-root's schedule follows from its consumer's).

using Position = std::vector<Index>;  // one index per axis of a value
// An element (or a vector of elements) of a value.
using ElementKey = std::pair<ValueId, Position>;

// The element of operand `number` that element `at` of `op` is computed from. For all kinds but
// input, scalar, iota, reduce and matmul. For a concat: the element of that operand if `at` lies in
// it. For the operand of a gather: the element that its id names, or the first one if the id does
// not name a place. For a window: the pixel that a tap meets, or the nearest one where it meets
// none.
// For a scatter `at` is an element of its rows, for operand 0 of what it writes over.
Position PullPosition(const Chain& body, const Op& op, size_t number, const Position& at,
                      IndexSpace& space);

// The position that an id names, at element `at` of a gather's result or of a scatter's rows, along
// the axis that is taken or written.
IndexVar ReadOfIds(const Chain& body, const Op& op, const Position& at, IndexSpace& space);

// The row and the column of the image that element `at` of a window has, which may lie outside.
struct WindowPixel {
  Index row, column;
};
WindowPixel PixelOf(const Op& window, const Position& at);

// The element of a value with dims `from` that has the row-major place of element `at` of one with
// dims `to`, of equally many elements.
Position ReshapedPosition(const std::vector<Dim>& to, const std::vector<Dim>& from,
                          const Position& at, IndexSpace& space);

// For a reduction or a product: the element of operand `number` at loop `k`, which counts through
// the reduced axes, the last one fastest, or through the factors.
Position PullReduced(const Chain& body, const Op& op, size_t number, const Position& at, IndexVar k,
                     IndexSpace& space);

// The row-major index of `at` in `dims`; the first extent is not needed and may be symbolic.
Index LinearIndex(const std::vector<Dim>& dims, const Position& at);

// IdBounds: what is known of the numbers that a gather takes as ids. Computed ids, such as the ids
// of the pixels around a point between them, are often kept inside by a minimum and a maximum. Then
// no check is needed that they name a place.

// Whether every id of `gather` names a place of its axis, whatever the inputs are. False where it
// is not known.
bool NamesAPlace(const Chain& body, const Op& gather);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_INDEX_H_
