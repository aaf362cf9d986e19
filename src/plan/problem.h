// FfnProblem: the shape that the chain and gemm families compile for. One product, a gate-up pair,
// or two products:
//   one product : E[m,n]  = act(A W1 + b1)                    (gated: act(A Wg + bg) * (A Wu + bu))
//   two products: C[m,n]  = the same;   E[m,l] = C W2 + b2
// and with a residual R of E's extents: E + R. Scaled, each A W is s r (A W) there: a constant s,
// and a number r of each row.
#ifndef SINTER_SRC_PLAN_PROBLEM_H_
#define SINTER_SRC_PLAN_PROBLEM_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/base/dtype.h"
#include "src/chain/activation.h"  // Activation, Layout

namespace sinter {

// Whether a tensor is added to the result, behind bias, activation and gate.
enum class Residual : uint8_t {
  kNone = 0,
  kAdded = 1,         // in f32; the sum is rounded
  kAddedRounded = 2,  // the result is rounded to dtype first, because the chain casts it
};

// Where the number that multiplies a row of a product comes from.
enum class RowFactor : uint8_t {
  kNone = 0,
  kF32 = 1,      // memory, one a row, as f32
  kElement = 2,  // as dtype
};

// Of a row factor in memory, beside products of `dtype`.
DType FactorType(RowFactor rows, DType dtype);

// What multiplies a product's accumulators, before bias and activation.
struct Scaling {
  float constant = 1;  // finite, not 0
  RowFactor rows = RowFactor::kNone;

  bool any() const { return constant != 1 || rows != RowFactor::kNone; }
  bool operator==(const Scaling& o) const { return constant == o.constant && rows == o.rows; }
};

struct FfnProblem {
  int products = 2;    // 1 or 2
  bool gated = false;  // the first product is the gate-up pair
  Activation activation = Activation::kIdentity;
  bool bias1 = false;  // of the first product (both halves when gated)
  bool bias2 = false;
  Residual residual = Residual::kNone;  // to the last product's result
  Scaling scaling1, scaling2;           // of the first product (both halves when gated); the second
  Layout layout = Layout::kOI;
  DType dtype = DType::kBF16;   // of every operand and of the output; accumulation is f32
  int64_t n = 0, k = 0, l = 0;  // l is 0 when products == 1
  int64_t bucket = 0;           // rows the kernel is made for; the launch's m is 0..bucket

  bool operator==(const FfnProblem& o) const;
  std::string Canonical()
      const;  // versioned bytes with M symbolic: part of the kernel key, without the bucket
  // The problem of such bytes, its bucket 0. DATA_LOSS unless CheckProblem takes it for a bucket.
  static absl::StatusOr<FfnProblem> FromCanonical(absl::string_view bytes);
  std::string ToString() const;  // "gated_ffn m<=128 n=3072 k=1024 l=1024 act=silu layout=oi
                                 // dtype=bf16"; no m<= with bucket 0
  bool scaled() const { return scaling1.any() || scaling2.any(); }
  int FirstWidth() const { return gated ? 2 : 1; }  // weight matrices of the first product
  int64_t WeightBytes() const;
  double Flop(int64_t m) const;
};

// The two kernels of the unfused plan: the first product into a C of the problem's dtype, and the
// second one.
FfnProblem FirstProductOf(const FfnProblem& chain);
FfnProblem SecondProductOf(const FfnProblem& chain);

constexpr int64_t kLargestExtent = int64_t{1} << 24;  // of n, k and l

// OK, or why no schedule of the chain (products == 2) or gemm family (products == 1) can take this
// problem: dtype, sizes, and the 16-byte rows that tensor maps need (oi: k, and n where it is also
// the K of a second product, multiples of 8; io: k, n and l).
absl::Status CheckProblem(const FfnProblem& problem);

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_PROBLEM_H_
