// Sequences changed by text: Changed(sequence, "1.k=1020 bias2=true") sets fields as changed.h
// says, "1." and "2." for products[0] and [1], and calls the functions of sequences.h:
//   element=f16 layout=io pair=false act=relu        of all products, or the first one's pair
//   n1=3080                       columns of product 1, the K of product 2
//   bias1=true scale1=0.5 scale_w1=f32 factor1=f32   f32 or element
//   residual=added sum_act=relu   of the last product: none, added or rounded
//   rows1=block,1,128 weights2=tensor                scales of an operand
//   codes=f32,vector,tensor,s8    result, scales of both operands, codes: e4m3 if not given
//   quantize=128,1e-10            columns, eps and bound of the last result
//   form1.bias=s32                a field of the form that the program is made from
//   program1=relu,f16             a program of an activation and a result; none
#pragma once

#include "tests/support/changed.h"
#include "tests/support/sequences.h"

namespace sinter {

ProductSequence Changed(ProductSequence of, absl::string_view words);

}  // namespace sinter
