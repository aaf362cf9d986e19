// Runs a plan on the CPU, kernel by kernel, with the reference: what its bindings and its workspace
// make of a chain.
#pragma once

#include "src/chain/chain.h"
#include "src/plan/plan.h"
#include "tests/support/common.h"

namespace sinter::testing {

using Bytes = std::vector<uint8_t>;

// Reproducible contents of the chain's inputs, canonical order.
std::vector<Bytes> RandomInputs(const Chain& chain, int64_t m, uint32_t seed);

// The outputs of `plan` as float64, contiguous. Outputs that share a buffer with an input do so
// here. The workspace begins as garbage. Fails the test on an operand outside its buffer.
std::vector<std::vector<double>> Interpret(const Chain& chain, const Plan& plan, int64_t m,
                                           std::vector<Bytes> inputs);

// Runs `plan` and the chain's reference; the largest difference of any output, over that output's
// largest value.
double WorstError(const Chain& chain, const Plan& plan, int64_t m, uint32_t seed);

}  // namespace sinter::testing
