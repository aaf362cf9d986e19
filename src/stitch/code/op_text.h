// One op's arithmetic in generated source.
#ifndef SINTER_SRC_STITCH_CODE_OP_TEXT_H_
#define SINTER_SRC_STITCH_CODE_OP_TEXT_H_

#include <string>
#include <vector>

#include "src/base/float_text.h"
#include "src/chain/chain.h"

namespace sinter {

// "float", "int" or "bool": what arithmetic on the type is done in.
const char* WordName(DType dtype);
// "ElementBF16": how the type lies in memory (device library, stitch/pack.cuh).
const char* ElementTypeName(DType dtype);
// "Sum", "Largest", "Smallest"; of a mean "Sum" (device library, stitch/math.cuh).
const char* JoinName(ReduceKind kind);
std::string ScalarText(const Op& scalar);

// Whether a cast changes any value.
bool CastRounds(const Chain& body, const Op& cast);
// Of an element-wise op on operands that are spelled out. `exact`: an f32 result is made of it.
std::string OpText(const Chain& body, const Op& op, const std::vector<std::string>& operands,
                   bool exact);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_CODE_OP_TEXT_H_
