// Compare: how far an output is from the reference, and how far it may be.
#ifndef SINTER_SRC_REFERENCE_COMPARE_H_
#define SINTER_SRC_REFERENCE_COMPARE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "src/base/dtype.h"
#include "src/chain/chain.h"

namespace sinter {

struct Bounds {
  double relative = 0;    // of ErrorMeasure::relative_but_one
  double max = 0;         // of ErrorMeasure::beyond_over_rms
  double neighbours = 0;  // e4m3: share of the elements that may be one step off; none may be more
};
// bf16: 5e-3 and 0.05; f16: 1e-3 and 0.008; f32: 1e-5 and 1e-4; integers and pred: exact (0 and 0);
// e4m3 and s8: 2 % neighbours, the other two infinite.
Bounds BoundsFor(DType dtype);

struct ErrorMeasure {
  double relative =
      0;  // |out - ref| / |ref|, Frobenius; when ref is all zero: 0 if out is too, else infinity
  // Bounds::relative limits this: the same, but of at most 64 numbers with one of them a step
  // nearer. Among so few, one step of the largest may already exceed the bound.
  double relative_but_one = 0;
  double max_over_rms = 0;  // max|out - ref| / rms(ref), also 0 or infinity if ref is all zero
  // max(|out - ref| - step) / rms(ref), steps to a neighbour being 2^-7 of a value of bf16, 2^-10
  // of f16 and 0 of others: what is held to Bounds::max. A value near the middle of two may be
  // rounded to either, and where most values are small one step of a large one is many of their
  // rms.
  double beyond_over_rms = 0;
  double max_abs = 0;
  int64_t count = 0;
  int64_t worst_index = -1;  // of beyond_over_rms, or of the first not-a-number
  int64_t nans = 0;  // in out where ref has none, or the reverse; infinities that differ count too
  int64_t neighbours = 0;                   // e4m3: elements that are one step from ref's
  int64_t apart = 0;                        // e4m3: elements that are further away
  bool Within(const Bounds& bounds) const;  // false when nans > 0; an empty comparison passes
  std::string ToString() const;             // "rel 1.2e-3 max/rms 0.011 worst at 77"
};

// An infinity equals the same infinity. A NaN matches nothing, not even a NaN: a poisoned output
// never passes. `dtype` is the output's dtype; steps are counted for e4m3 only.
ErrorMeasure Compare(absl::Span<const double> out, absl::Span<const double> ref,
                     DType dtype = DType::kF32);
// `out` is a contiguous buffer of ref.size() elements of dtype.
ErrorMeasure CompareBuffer(const void* out, DType dtype, absl::Span<const double> ref);

// How far an output of a chain may be from its reference, when kernels round between products.

// BoundsFor the output's dtype, or of a coarser one that it had on its way, which a cast rounds to
// and a kernel may round to where it hands the value over: a value near a tie is rounded to either
// side, a whole step of that dtype apart. Those hold for two
// roundings, a product's result and the next one's; a sequence of products is rounded after each,
// and the errors, which are independent, add up by their squares: each product adds one unit, a
// gated one first doubles what it is given, as both halves carry it. The bounds grow with the root
// of the units above two.
Bounds BoundsOf(const Chain& chain, int output);

}  // namespace sinter

#endif  // SINTER_SRC_REFERENCE_COMPARE_H_
