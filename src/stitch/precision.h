// Precision: how exactly a kernel computes each op. The error of the stored values stays within the
// error of f32 arithmetic or, where that is coarser, of the stored type.
#ifndef SINTER_SRC_STITCH_PRECISION_H_
#define SINTER_SRC_STITCH_PRECISION_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "src/chain/chain.h"
#include "src/chain/op.h"

namespace sinter {

// The forms of src/device/stitch/math.cuh.
enum class Precision {
  kFast,       // by approximate instructions
  kBesideOne,  // within 4e-7: only 1 is added to it, or it is subtracted from 1
  kTaken,      // its one reader computes it as a part of a Compound, within 5e-7. Where a schedule
               // hands it over instead, it is computed as kBesideOne
  kExact,      // within a few units in the last place of f32
};

// By op. Approximate forms have small relative errors. They are left where these stay small on the
// way to a result of 16 bits or fewer: through products, quotients, roots, the larger or smaller of
// two, sums of numbers that are not negative, and sums over an axis, whose own rounding errors are
// as large. Exact is
// - every value from which an f32 result is computed. Excepted are exponentials about their row's
//   largest element in their sum, which is at least 1;
// - what is compared, cast to integers or predicates, or passed to floor or another function that
//   grows errors;
// - an operand of an addition or a subtraction that may cancel. Excepted are tanh and erf (and
//   their squares) added to 1, and exponentials added to a predicate's 0 and 1;
// - the quotients by which 8-bit values are multiplied once a row: they decide on which side a
//   tie falls;
// - a tanh or an erf in log(1 + x), which is computed without a sum that would hide its errors;
// - erf; tanh for f16; a logarithm for f16 or of a value that is not stored in 16 bits.
// `for_codes`: f32 results are only quantized to 8-bit floats, elsewhere: they ask for no more than
// f16 does.
// Computed once for a body and its copies; the list lives as long as one of them.
const std::vector<Precision>& PrecisionsOf(const Chain& body, bool for_codes = false);
int64_t ComputedPrecisions();  // lists that this process has computed, for tests

// How the op is computed in that precision. An op without a form for kBesideOne, a square of one
// that has, is computed in the fast form.
const DeviceForm& FormOf(const OpTraits& traits, Precision precision);

// Ops that a kernel computes as one function: log(1 + x) and log(1 - x), which would lose the
// digits of a small x, and 1 + tanh(x), 1 - tanh(x), 1 - tanh(x)^2 and their negatives, which take
// fewer instructions than tanh.
struct Compound {
  enum Function { kNone, kLog1p, kOnePlusTanh, kOneMinusTanhSquare };
  Function function = kNone;
  // Ops and which of their operands is gone on with, from the compound's own to what it is of.
  std::vector<std::pair<ValueId, size_t>> path;
  bool minus = false;     // it is of the operand's negative
  bool negative = false;  // it is the function's negative
};
// The one whose result op `id` is; kNone where it is by itself. `precisions` are
// PrecisionsOf(body).
Compound CompoundAt(const Chain& body, const std::vector<Precision>& precisions, ValueId id);

// By op: whether it is a subtraction that must not be fused with a product before it. An
// exponential is taken of the difference, and a compiler that fuses x c - m computes the product
// exactly where m was rounded: from 2^30 on the largest element's power would be 0 or infinite.
// `inputs`: values that the body reads may be products too.
std::vector<bool> SubtractsAlone(const Chain& body, bool inputs);

// What the elements of a mean are multiplied by before they are added: a power of two that is at
// most 1 / count, so that no sum of finite elements overflows.
double MeanShare(int64_t count);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_PRECISION_H_
