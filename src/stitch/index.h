// Index: where an element lies, as an integer expression of a kernel's loop variables. Indices are
// built by following a value to its operands (pull.h) and end as addresses in generated source.
#ifndef SINTER_SRC_STITCH_INDEX_H_
#define SINTER_SRC_STITCH_INDEX_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"

namespace sinter {

using IndexVar = int;

// offset + sum of factor * variable. Terms are ordered by variable; no factor is 0.
class Index {
 public:
  // Nearly all have at most three terms: planning a large graph makes millions of indices.
  using Terms = absl::InlinedVector<std::pair<IndexVar, int64_t>, 3>;

  Index() = default;
  explicit Index(int64_t offset) : offset_(offset) {}
  static Index Of(IndexVar var);

  const Terms& terms() const { return terms_; }
  int64_t FactorOf(IndexVar var) const;  // 0 where it is no term
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

// The variables of one kernel. A loop variable counts elements of a row-major box; its dims are
// variables of their own until Canonical() folds neighbours back together, so that the address of a
// contiguous tensor is the loop variable itself and nothing is divided. Not thread-safe.
class IndexSpace {
 public:
  // How a canonical variable is computed: the loop variable `loop`, or `of` divided by `divisor`,
  // or the remainder.
  struct Var {
    enum Kind { kLoop, kQuotient, kRemainder, kDim } kind = kLoop;
    Index of;               // kQuotient, kRemainder
    int64_t divisor = 1;    // kQuotient, kRemainder
    int64_t extent = 0;     // values are below it; 0: unbounded (rows M)
    int depth = 0;          // of the loop that changes it; the deepest of what it is made of
    int64_t terms = 1;      // of its text
    std::string name;       // kLoop: its name in source
    int box = -1, dim = 0;  // kDim
  };

  // A loop variable; `extent` 0 is unbounded.
  IndexVar AddLoop(const std::string& name, int64_t extent, int depth);
  // The position in a box of `dims` (row-major, dims[0] may be 0: unbounded) that `loop` counts
  // through; one index a dim.
  std::vector<Index> Box(IndexVar loop, const std::vector<int64_t>& dims);

  const Var& var(IndexVar v) const { return vars_[v]; }
  // Dims replaced by the loop variable, its quotients and its remainders: what source can spell.
  Index Canonical(const Index& index);
  Index Quotient(const Index& index, int64_t divisor);
  Index Remainder(const Index& index, int64_t divisor);
  // Terms of its text, quotients and remainders spelled out: what walks of it, and its source,
  // cost.
  int64_t TermsOf(const Index& index) const;
  // The deepest loop that changes it; 0 for a constant.
  int Depth(const Index& index) const;
  bool MovesWith(const Index& index, IndexVar loop) const;
  // Of a canonical index, where `loop` stands at `at` and every other loop at 0.
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

  IndexVar Intern(Var::Kind kind, const Index& of, int64_t divisor);
  Split SplitBy(const Index& index, int64_t divisor);
  Index Run(const BoxDims& box, size_t first, size_t last);
  Index FoldBox(const BoxDims& box, const Index& index);
  // Largest value; -1: unbounded, or below 0 somewhere.
  int64_t Largest(const Index& index) const;

  std::vector<Var> vars_;
  std::vector<BoxDims> boxes_;
  std::map<std::pair<IndexVar, std::vector<int64_t>>, size_t> box_of_;  // by loop and dims
  std::map<std::tuple<int, Index, int64_t>, IndexVar> interned_;
};

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_INDEX_H_
