// AttentionProblem: what one kernel of attention computes: softmax(steps(q k^T)) v for each batch.
#ifndef SINTER_SRC_ATTENTION_PROBLEM_H_
#define SINTER_SRC_ATTENTION_PROBLEM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/base/codec.h"
#include "src/base/dtype.h"

namespace sinter {

// Batches are numbered row-major over the axes of the scores before the last two. A digit is an
// axis, or several that lie one behind the other: number / inner % extent, times `stride` elements.
struct BatchDigit {
  int64_t inner = 1;
  int64_t extent = 1;  // 0: M, which is the outermost axis
  int64_t stride = 0;
  bool operator==(const BatchDigit& o) const {
    return inner == o.inner && extent == o.extent && stride == o.stride;
  }
};

// Where the matrices of the batches lie, in elements from the first one. A result's and an
// operand's columns have no gaps.
struct BatchedMatrix {
  int64_t row = 0, column = 1;     // strides; of terms 0 for what is the same in each
  std::vector<BatchDigit> digits;  // innermost first, none with stride 0
  bool operator==(const BatchedMatrix& o) const {
    return row == o.row && column == o.column && digits == o.digits;
  }
};

// One op on every score, in f32. Numbers are part of records and keys: never reused.
struct ScoreStep {
  enum Kind : uint8_t {
    kScale = 0,   // times `number`
    kRound = 1,   // to the dtype, of 16 bits
    kAdd = 2,     // a term of dtype, at `term`
    kSelect = 3,  // where a term is true the score, elsewhere `number`
    kHide = 4,    // where a term is true `number`, elsewhere the score
  };
  Kind kind = kScale;
  double number = 0;
  DType dtype = DType::kF32;
  BatchedMatrix term;
  bool HasTerm() const { return kind >= kAdd; }
  bool operator==(const ScoreStep& o) const {
    return kind == o.kind && number == o.number && dtype == o.dtype && term == o.term;
  }
};

constexpr int kMaxScoreTerms = 2;
constexpr int kMaxScoreSteps = 8;
constexpr int64_t kMaxHead = 128;             // of q and k, and of v
constexpr int64_t kMaxAttentionRows = 65536;  // of q, and of keys
constexpr int64_t kMaxBatches = int64_t{1} << 24;
constexpr int kMaxDigits = 3;  // of q, k, v: a tensor map has five dimensions

struct AttentionProblem {
  DType element = DType::kBF16;  // of q, k, v
  DType result = DType::kBF16;   // the same, or f32
  int64_t rows = 0, keys = 0;
  int64_t head = 0, value_head = 0;
  int64_t batches = 1;  // of_m: for each of M
  bool of_m = false;
  BatchedMatrix q, k, v, out;
  std::vector<ScoreStep> steps;  // in the order in which they are applied
  bool causal = false;           // keys behind row + diagonal are hidden
  int64_t diagonal = 0;
  bool zero_unseen = false;  // a row that sees no key is 0; else it is NaN

  // Whether scores are scaled by one number above 0 at most.
  bool IsPlain() const;
  double Scale() const;  // of a plain one
  int Terms() const;
  int64_t BatchesAt(int64_t m) const { return of_m ? batches * m : batches; }
  // INVALID_ARGUMENT naming the field, its value and the bound where no kernel takes it.
  absl::Status Check() const;
  std::string ToString() const;  // "bf16 197 rows, 197 keys, head 64, 96 batches, *0.125"
  std::string Canonical() const;
  static absl::StatusOr<AttentionProblem> FromCanonical(absl::string_view bytes);
  bool operator==(const AttentionProblem& o) const { return Canonical() == o.Canonical(); }
};

}  // namespace sinter

#endif  // SINTER_SRC_ATTENTION_PROBLEM_H_
