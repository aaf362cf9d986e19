// Rough chains: as frameworks write them, with views, casts and layouts that kernels do not need.
#pragma once

#include <cstdint>

#include "src/chain/chain.h"

namespace sinter::testing {

// Depends only on its argument. One or two GEMMs of bf16 with the ops around them in such chains:
// - rows of two or three axes, M on the first or the second or nowhere
// - views that regroup rows and columns before, between and after GEMMs
// - transposed rows and matrices, views of weights, batches of one
// - weights that are computed, one weight of gate and up, K and N that are not multiples of 8
// - strided inputs, duplicated casts, and activations in all forms
// One to three outputs, in a quarter of the chains stored over inputs of their types. Inputs come
// from RandomInputs.
Chain MakeRoughChain(uint64_t seed);

}  // namespace sinter::testing
