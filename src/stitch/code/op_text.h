// One op's arithmetic in generated source.
#ifndef SINTER_SRC_STITCH_CODE_OP_TEXT_H_
#define SINTER_SRC_STITCH_CODE_OP_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "src/base/format.h"
#include "src/chain/chain.h"
#include "src/stitch/precision.h"

namespace sinter {

// The C++ type of arithmetic on `dtype`: "float", "int" or "bool".
const char* WordName(DType dtype);
// The C++ type of an element in memory: "u16".
const char* StoredName(DType dtype);
// The struct that describes an element: "ElementBF16" (device library, stitch/pack.cuh).
const char* ElementTypeName(DType dtype);
// The same of what arithmetic on `dtype` gives and memory holds unrounded: "ElementF32".
const char* WordElement(DType dtype);
// "Sum", "Largest", "Smallest"; "Sum" for a mean (device library, stitch/math.cuh).
const char* JoinName(ReduceKind kind);
std::string ScalarText(const Op& scalar);

// Whether a kernel of the body needs the device library's stitch/codes.cuh.
bool NeedsCodes(const Chain& body);
// Whether the cast may change a value: also one to the type that a value of 16 bits already has,
// which is computed in f32 and not rounded.
bool CastRounds(const Chain& body, const Op& cast);
// The expression of a unary, binary, compare, select or cast on the expressions `x` of its
// operands, the first of which has the type `operand`. Arithmetic is in WordName's types. `alone`:
// see SubtractsAlone.
std::string OpText(const Op& op, DType operand, absl::Span<const std::string> x,
                   Precision precision, bool alone = false);
// The expression of a compound of `x`.
std::string CompoundText(const Compound& compound, const std::string& x);
// The statement by which `sum`, of reduction or product `op`, takes `value`. `share`: the share of
// an element in a mean.
std::string TakeText(const Op& op, const std::string& sum, const std::string& value,
                     const std::string& share);
// What the shares of `count` elements (MeanShare), added up, are multiplied by to be their mean.
double MeanRest(int64_t count);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_CODE_OP_TEXT_H_
