// Chains of one or two GEMMs followed by element-wise ops, for which kernels have programs.
#pragma once

#include "src/chain/chain.h"
#include "tests/support/common.h"

namespace sinter::testing {

// Operands of `dtype`, results of `result`, biases of `bias`, matrices as results or of `matrix`.
struct EpilogueTypes {
  DType dtype = DType::kBF16, bias = DType::kBF16, result = DType::kBF16;
  std::optional<DType> matrix = std::nullopt;
};
struct EpilogueSizes {
  int64_t n = 96, k = 64, l = 72;  // l: of a second product
};

struct EpilogueChain {
  std::string name;
  Chain chain;
};

// One GEMM with a bias and the ops after it: activations in many forms, roundings, vectors of
// columns, a matrix.
std::vector<EpilogueChain> ProductEpilogues(const EpilogueTypes& types,
                                            const EpilogueSizes& sizes = {});
// One product, a pair, a convolution and products of codes of 8 bits with ops that read a matrix.
std::vector<EpilogueChain> MatrixEpilogues(const EpilogueTypes& types,
                                           const EpilogueSizes& sizes = {});
// Elements of operands, biases, results and matrices, where results or matrices are not as the
// operands.
constexpr EpilogueTypes kMatrixTypes[] = {
    {DType::kBF16, DType::kF32, DType::kBF16, DType::kF32},
    {DType::kBF16, DType::kF32, DType::kF32, DType::kF32},
    {DType::kF16, DType::kF16, DType::kF32, DType::kF16},
    {DType::kF16, DType::kF16, DType::kF16, DType::kF32},
};
// Functions of gate and up.
std::vector<EpilogueChain> PairEpilogues(const EpilogueTypes& types,
                                         const EpilogueSizes& sizes = {});
// Convolutions, and GEMMs of codes of 8 bits with scales of rows and columns. `aux`: the value
// before activation is an output too.
std::vector<EpilogueChain> OtherEpilogues(bool aux = false);
// One GEMM or a gate/up pair whose value before activation is an output too: of bf16, f16 or f32,
// of the result's element or another, with leaves, before or after a matrix, both halves of a pair;
// activated rounded or not.
std::vector<EpilogueChain> AuxEpilogues(const EpilogueTypes& types,
                                        const EpilogueSizes& sizes = {});
// Two products, or a pair and a product, which one kernel may take.
std::vector<EpilogueChain> FusedEpilogues(const EpilogueTypes& types,
                                          const EpilogueSizes& sizes = {});
// One GEMM, a gate/up pair or a convolution of random sizes and types, followed by up to eight
// random ops: any unary or binary op, roundings, selections, vectors of columns and rows, numbers,
// a matrix. Some also output another of their values. A function of `seed`.
EpilogueChain RandomEpilogue(uint64_t seed);

}  // namespace sinter::testing
