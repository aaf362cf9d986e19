#include "src/attention/problem.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "src/base/format.h"
#include "src/base/numbers.h"
#include "src/base/status.h"

namespace sinter {
namespace {

constexpr uint32_t kProblemVersion = 1;
constexpr int64_t kMapAlignment = 16;
constexpr int64_t kMaxStride = int64_t{1} << 40;
constexpr int64_t kMaxSets = int64_t{1} << 30;

absl::Status Bad(absl::string_view field, int64_t value, absl::string_view bound) {
  return Invalid("attention: ", field, " ", value, ", ", bound);
}

absl::Status CheckField(absl::string_view field, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return Bad(field, value, absl::StrCat("must be in [", low, ", ", high, "]"));
}

// Writes or reads a problem, by the codec.
template <typename Codec, typename Problem>
void ProblemFields(Codec& codec, Problem& p) {
  codec(p.element, p.result, p.rows, p.keys, p.head, p.value_head, p.batches, p.diagonal, p.of_m,
        Bits(p.causal, p.zero_unseen, p.zero_overflowed), p.q, p.k, p.v, p.out, p.steps);
}

class Checker {
 public:
  explicit Checker(const AttentionProblem& problem) : p_(problem) {}

  absl::Status Run() const {
    if (p_.element != DType::kBF16 && p_.element != DType::kF16) {
      return Invalid("attention: q, k and v are ", NameOf(p_.element), ", must be bf16 or f16");
    }
    if (p_.result != p_.element && p_.result != DType::kF32) {
      return Invalid("attention: the result is ", NameOf(p_.result), ", must be ",
                     NameOf(p_.element), " or f32");
    }
    SINTER_RETURN_IF_ERROR(CheckField("rows", p_.rows, 1, kMaxAttentionRows));
    SINTER_RETURN_IF_ERROR(CheckField("keys", p_.keys, 1, kMaxAttentionRows));
    SINTER_RETURN_IF_ERROR(CheckField("batches", p_.batches, 1, kMaxBatches));
    // A kernel counts them in 32 bits, and adds its blocks.
    SINTER_RETURN_IF_ERROR(CheckField("sets of 64 rows in all batches",
                                      p_.BatchesAt(kLargestBucket) * CeilDiv(p_.rows, 64), 1,
                                      kMaxSets));
    SINTER_RETURN_IF_ERROR(CheckHead("head", p_.head));
    SINTER_RETURN_IF_ERROR(CheckHead("value head", p_.value_head));
    if (p_.zero_overflowed && !p_.zero_unseen) {
      return Invalid("attention: rows whose scores are all low are 0, then rows that see no key ",
                     "must be 0, too");
    }
    if (p_.causal) {
      SINTER_RETURN_IF_ERROR(
          CheckField("diagonal", p_.diagonal, -kMaxAttentionRows, kMaxAttentionRows));
    }
    SINTER_RETURN_IF_ERROR(CheckOperand("q", p_.q));
    SINTER_RETURN_IF_ERROR(CheckOperand("k", p_.k));
    SINTER_RETURN_IF_ERROR(CheckOperand("v", p_.v));
    SINTER_RETURN_IF_ERROR(CheckMatrix("result", p_.out));
    if (p_.out.column != 1) return Bad("result's column stride", p_.out.column, "must be 1");
    SINTER_RETURN_IF_ERROR(CheckPairs());
    SINTER_RETURN_IF_ERROR(
        CheckField("steps", static_cast<int64_t>(p_.steps.size()), 0, kMaxScoreSteps));
    SINTER_RETURN_IF_ERROR(CheckField("terms", p_.Terms(), 0, kMaxScoreTerms));
    for (const ScoreStep& step : p_.steps) SINTER_RETURN_IF_ERROR(CheckStep(step));
    return absl::OkStatus();
  }

 private:
  static absl::Status CheckHead(absl::string_view name, int64_t head) {
    SINTER_RETURN_IF_ERROR(CheckField(name, head, 8, kMaxHead));
    return head % 8 == 0 ? absl::OkStatus() : Bad(name, head, "must be a multiple of 8");
  }

  absl::Status CheckMatrix(absl::string_view name, const BatchedMatrix& matrix) const {
    SINTER_RETURN_IF_ERROR(
        CheckField(absl::StrCat(name, "'s row stride"), matrix.row, 0, kMaxStride));
    SINTER_RETURN_IF_ERROR(
        CheckField(absl::StrCat(name, "'s column stride"), matrix.column, 0, kMaxStride));
    int64_t inner = 1;
    for (const BatchDigit& digit : matrix.digits) {
      SINTER_RETURN_IF_ERROR(
          CheckField(absl::StrCat(name, "'s batch stride"), digit.stride, 1, kMaxStride));
      const bool last = &digit == &matrix.digits.back();
      const bool of_m = digit.extent == 0;
      const bool fits = digit.inner >= inner && digit.inner <= p_.batches &&
                        digit.inner % inner == 0 && p_.batches % digit.inner == 0 &&
                        (of_m ? p_.of_m && last && digit.inner == p_.batches
                              : digit.extent >= 1 && digit.extent <= p_.batches / digit.inner);
      if (!fits) return Bad(absl::StrCat(name, "'s batch axis"), digit.extent, "is none of q k^T");
      inner = of_m ? inner : digit.inner * digit.extent;
    }
    return absl::OkStatus();
  }

  absl::Status CheckOperand(absl::string_view name, const BatchedMatrix& matrix) const {
    SINTER_RETURN_IF_ERROR(CheckMatrix(name, matrix));
    if (matrix.column != 1) {
      return Bad(absl::StrCat(name, "'s column stride"), matrix.column, "must be 1: copy it");
    }
    SINTER_RETURN_IF_ERROR(CheckField(absl::StrCat(name, "'s batch axes"),
                                      static_cast<int64_t>(matrix.digits.size()), 0, kMaxDigits));
    const int64_t vector = kMapAlignment / SizeOf(p_.element);
    std::vector<int64_t> strides = {matrix.row};
    for (const BatchDigit& digit : matrix.digits) strides.push_back(digit.stride);
    for (const int64_t stride : strides) {
      if (stride > 0 && stride % vector == 0) continue;
      return Bad(absl::StrCat(name, "'s stride"), stride,
                 absl::StrCat("must be a multiple of ", vector, " (16 bytes): copy it"));
    }
    return absl::OkStatus();
  }

  // Pairs of columns of a result are stored together.
  absl::Status CheckPairs() const {
    bool even = p_.out.row % 2 == 0 && p_.out.row > 0;
    for (const BatchDigit& digit : p_.out.digits) even = even && digit.stride % 2 == 0;
    return even ? absl::OkStatus() : Bad("result's row stride", p_.out.row, "must be even");
  }

  absl::Status CheckStep(const ScoreStep& step) const {
    const bool pred = step.kind == ScoreStep::kSelect || step.kind == ScoreStep::kHide;
    const bool sixteen = step.dtype == DType::kBF16 || step.dtype == DType::kF16;
    const bool fits = pred                             ? step.dtype == DType::kPred
                      : step.kind == ScoreStep::kAdd   ? sixteen || step.dtype == DType::kF32
                      : step.kind == ScoreStep::kRound ? sixteen
                                                       : step.dtype == DType::kF32;
    if (!fits || step.kind > ScoreStep::kHide) {
      return Invalid("attention: step ", int{step.kind}, " of ", NameOf(step.dtype));
    }
    if (std::isnan(step.number)) return Bad("a step's number", 0, "must not be NaN");
    return step.HasTerm() ? CheckMatrix("term", step.term) : absl::OkStatus();
  }

  const AttentionProblem& p_;
};

}  // namespace

bool AttentionProblem::IsPlain() const {
  if (steps.empty()) return true;
  return steps.size() == 1 && steps[0].kind == ScoreStep::kScale && steps[0].number > 0 &&
         std::isfinite(steps[0].number);
}

double AttentionProblem::Scale() const { return steps.empty() ? 1 : steps[0].number; }

int AttentionProblem::Terms() const {
  return static_cast<int>(std::count_if(steps.begin(), steps.end(),
                                        [](const ScoreStep& step) { return step.HasTerm(); }));
}

absl::Status AttentionProblem::Check() const { return Checker(*this).Run(); }

std::string AttentionProblem::ToString() const {
  std::string text =
      absl::StrCat(NameOf(element), " ", rows, " rows, ", keys, " keys, head ", head);
  if (value_head != head) absl::StrAppend(&text, " and ", value_head);
  absl::StrAppend(&text, ", ", batches, of_m ? " M" : "",
                  batches == 1 && !of_m ? " batch" : " batches");
  for (const ScoreStep& step : steps) {
    switch (step.kind) {
      case ScoreStep::kScale:
        absl::StrAppend(&text, ", * ", step.number);
        break;
      case ScoreStep::kRound:
        absl::StrAppend(&text, ", ", NameOf(step.dtype));
        break;
      case ScoreStep::kAdd:
        absl::StrAppend(&text, ", + ", NameOf(step.dtype));
        break;
      case ScoreStep::kSelect:
      case ScoreStep::kHide:
        absl::StrAppend(&text, ", masked");
        break;
    }
  }
  if (causal) absl::StrAppend(&text, ", causal");
  if (diagonal != 0) absl::StrAppend(&text, " ", diagonal);
  if (zero_unseen) absl::StrAppend(&text, ", 0 where no key is seen");
  if (zero_overflowed) absl::StrAppend(&text, " or all scores are below ", kLeastBase2Score);
  if (result != element) absl::StrAppend(&text, ", to ", NameOf(result));
  return text;
}

std::string AttentionProblem::Canonical() const {
  ByteWriter w;
  w(kProblemVersion);
  ProblemFields(w, *this);
  return w.Take();
}

absl::StatusOr<AttentionProblem> AttentionProblem::FromCanonical(absl::string_view bytes) {
  ByteReader r(bytes);
  const uint32_t version = r.U32();
  AttentionProblem p;
  ProblemFields(r, p);
  SINTER_RETURN_IF_ERROR(r.Finish("attention"));
  if (version == kProblemVersion && p.Check().ok() && p.Canonical() == bytes) return p;
  return absl::DataLossError("attention: damaged");
}

}  // namespace sinter
