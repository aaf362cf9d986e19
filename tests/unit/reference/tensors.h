// Inputs and outputs of reference tests.
#pragma once

#include "src/chain/builder.h"
#include "src/reference/reference.h"
#include "tests/support/common.h"

namespace sinter::testing {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

inline Dim C(int64_t v) { return Dim::Constant(v); }

// Bytes of `values` as dtype, which must be able to hold them.
std::vector<uint8_t> Encode(DType dtype, const std::vector<double>& values);
std::vector<double> Decode(DType dtype, const std::vector<uint8_t>& bytes);

// Reproducible values in [-1, 1), already rounded to dtype (integers in [-50, 50] for s32, 0 or 1
// for pred).
std::vector<double> Random(DType dtype, int64_t count, uint64_t seed);

// The f64 outputs of `chain` for contiguous inputs in the caller's order; fails the test on an
// error.
std::vector<std::vector<double>> RunF64(const Chain& chain, int64_t m,
                                        const std::vector<std::vector<double>>& inputs,
                                        const ReferenceOptions& options = {});

void ExpectNear(const std::vector<double>& actual, const std::vector<double>& expected,
                double tolerance);

// Each entry of a section of values.txt: a chain, and its inputs and outputs, equal to the sign of
// zeros. NaN stands for any NaN.
void ExpectValues(const std::string& section);

}  // namespace sinter::testing
