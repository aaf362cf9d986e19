// The rows and columns that a kernel of rows walks, and where elements of values lie: places that
// move with the dims of a domain of rows and columns.
#ifndef SINTER_SRC_STANDIN_ROW_PLACES_H_
#define SINTER_SRC_STANDIN_ROW_PLACES_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "src/chain/chain.h"

namespace sinter {

constexpr int kRowDims = 5;  // of a domain: rows, then columns

// A place that moves with the domain's dims.
struct RowPlace {
  int64_t base = 0;
  std::array<int64_t, kRowDims> steps{};
  bool operator<(const RowPlace& o) const {
    return base != o.base ? base < o.base : steps < o.steps;
  }
  bool operator==(const RowPlace& o) const { return base == o.base && steps == o.steps; }
};

struct RowDomain {
  std::vector<int64_t> dims;  // the last are the columns; the first is 1 where it is M
  bool of_m = false;          // whether the first is M
  int64_t columns() const { return dims.back(); }
  size_t last() const { return dims.size() - 1; }
};

// Rows of the body's first reduction, or of its first output, cut where they are too long.
// FAILED_PRECONDITION naming the op that is not of rows.
absl::StatusOr<RowDomain> RowDomainOf(const Chain& body);

// Where an element of a value is: a place on each of its axes, or one among all its elements.
struct RowPosition {
  bool flat = false;
  std::vector<RowPlace> axes;
};

RowPlace Times(RowPlace p, int64_t factor);
RowPlace Sum(RowPlace a, const RowPlace& b);

// The place among all elements of a value of `dims`.
RowPlace Flattened(const std::vector<Dim>& dims, const RowPosition& at);
// Axes where each of the domain's dims moves along one of them; else flat.
RowPosition Unflattened(const RowDomain& domain, const std::vector<Dim>& dims,
                        const RowPlace& flat);

// FAILED_PRECONDITION: op `v` of `body` is not of rows.
absl::Status RefuseRows(const Chain& body, ValueId v, absl::string_view why);
// The domain's dims behind one another as the axes of value `v`. `number`: without the columns.
absl::StatusOr<RowPosition> AxesOf(const Chain& body, ValueId v, const RowDomain& domain,
                                   bool* number);
// The place in memory of an element of value `v`, stored with these strides.
absl::StatusOr<RowPlace> InMemory(const Chain& body, ValueId v, const RowPosition& at,
                                  const std::vector<Stride>& strides);

}  // namespace sinter

#endif  // SINTER_SRC_STANDIN_ROW_PLACES_H_
