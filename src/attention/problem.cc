#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/attention/attention.h"
#include "src/base/format.h"
#include "src/base/numbers.h"
#include "src/base/status.h"
#include "src/chain/linear_finder.h"

namespace sinter {
namespace {

constexpr uint32_t kProblemVersion = 2;
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
        Bits(p.causal, p.zero_unseen, p.zero_overflowed), p.q, p.k, p.v, p.out, p.terms);
}

// Makes the first `group` batches of a matrix of one row its rows. False where they do not lie at
// one stride.
bool JoinBatches(int64_t group, BatchedMatrix* matrix) {
  std::vector<BatchDigit> left;
  matrix->row = 0;
  for (const BatchDigit& digit : matrix->digits) {
    if (digit.inner >= group) {
      if (digit.inner % group != 0) return false;
      left.push_back({digit.inner / group, digit.extent, digit.stride});
      continue;
    }
    if (digit.inner != 1 || digit.extent % group != 0) return false;
    matrix->row = digit.stride;
    if (digit.extent > group) left.push_back({1, digit.extent / group, digit.stride * group});
  }
  matrix->digits = std::move(left);
  return true;
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
    SINTER_RETURN_IF_ERROR(CheckField("terms", p_.Terms(), 0, kMaxScoreTerms));
    for (const BatchedMatrix& term : p_.terms) SINTER_RETURN_IF_ERROR(CheckMatrix("term", term));
    const absl::Status fits = CheckScoreProgram(p_.program, p_.Terms());
    return fits.ok() ? fits : Invalid("attention: ", fits.message());
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

  const AttentionProblem& p_;
};

}  // namespace

bool AttentionProblem::IsPlain() const {
  return !program.present() || (program.form == EpilogueForm{} && Scale() > 0);
}

void AttentionProblem::JoinSharedKeys() {
  if (rows != 1 || causal) return;
  int64_t group = batches;
  for (const BatchedMatrix* keyed : {&k, &v}) {
    if (!keyed->digits.empty()) group = std::min(group, keyed->digits.front().inner);
  }
  AttentionProblem joined = *this;
  const auto join = [&](BatchedMatrix* matrix) { return JoinBatches(group, matrix); };
  bool joins = group > 1 && group <= kMaxAttentionRows && join(&joined.q) && join(&joined.k) &&
               join(&joined.v) && join(&joined.out) && joined.q.row > 0 && joined.out.row > 0;
  for (BatchedMatrix& term : joined.terms) joins = joins && join(&term);
  if (!joins) return;
  joined.k.row = k.row, joined.v.row = v.row;
  joined.rows = group;
  joined.batches = batches / group;
  *this = std::move(joined);
}

absl::Status AttentionProblem::Check() const { return Checker(*this).Run(); }

std::string AttentionProblem::ToString() const {
  std::string text =
      absl::StrCat(NameOf(element), " ", rows, " rows, ", keys, " keys, head ", head);
  if (value_head != head) absl::StrAppend(&text, " and ", value_head);
  absl::StrAppend(&text, ", ", batches, of_m ? " M" : "",
                  batches == 1 && !of_m ? " batch" : " batches");
  if (Scale() != 1) absl::StrAppend(&text, ", * ", Scale());
  if (!IsPlain()) absl::StrAppend(&text, ", program=", sinter::ToString(program));
  for (int i = 0; i < Terms(); ++i) absl::StrAppend(&text, ", ", NameOf(TermType(i)), " term");
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
  if (program.present()) WriteProgram(program, w);
  return w.Take();
}

absl::StatusOr<AttentionProblem> AttentionProblem::FromCanonical(absl::string_view bytes) {
  ByteReader r(bytes);
  const uint32_t version = r.U32();
  AttentionProblem p;
  ProblemFields(r, p);
  if (r.ok() && !r.AtEnd()) {
    SINTER_ASSIGN_OR_RETURN(p.program, ReadProgram(r));
  }
  SINTER_RETURN_IF_ERROR(r.Finish("attention"));
  if (version == kProblemVersion && p.Check().ok() && p.Canonical() == bytes) return p;
  return absl::DataLossError("attention: damaged");
}

// Where operands and results lie.

namespace {

NormalLayout InMemory(const Chain& chain, ValueId value) {
  return {chain.op(value).type.dims, StridesInMemory(chain, value), 0};
}

// Takes `layout` through the views of `path`, last one first. False where strides cannot say one.
bool Through(const Chain& chain, const std::vector<ValueId>& path, NormalLayout* layout) {
  return std::all_of(path.rbegin(), path.rend(), [&](ValueId view) {
    const Op& op = chain.op(view);
    if (op.kind == OpKind::kCast) return true;
    if (op.kind != OpKind::kBroadcast) return ViewLayout(op, layout);
    SpreadTo(op.type.dims, layout);
    return true;
  });
}

}  // namespace

bool Widens(const Chain& chain, const Op& op) {
  return op.kind == OpKind::kCast && op.type.dtype == DType::kF32 &&
         IsFloat(chain.op(op.operands[0]).type.dtype);
}

LaidOut LayoutOf(const Chain& chain, ValueId value) {
  LaidOut best{value, InMemory(chain, value)};
  std::vector<ValueId> path;
  for (ValueId at = value; path.size() < kMostWalk;) {
    const Op& op = chain.op(at);
    if (!IsView(op) && !Widens(chain, op)) break;
    path.push_back(at);
    at = op.operands[0];
    if (chain.op(at).kind == OpKind::kScalar) break;
    NormalLayout layout = InMemory(chain, at);
    if (!Through(chain, path, &layout)) break;
    best = {at, std::move(layout)};
  }
  return best;
}

bool ResultLayout(const Chain& chain, ValueId value, NormalLayout* layout) {
  *layout = InMemory(chain, value);
  int outputs = 0;
  for (const ChainOutput& output : chain.outputs()) {
    if (output.value != value) continue;
    layout->strides = output.strides;
    if (output.alias_input >= 0 || ++outputs > 1) return false;
  }
  return true;
}

bool Unview(const Op& view, const std::vector<Dim>& dims, NormalLayout* layout) {
  if (view.kind == OpKind::kCast) return true;
  if (view.kind == OpKind::kReshape) return ReshapeLayout(dims, layout);
  if (view.kind != OpKind::kTranspose) return false;
  NormalLayout turned{dims, layout->strides, layout->offset};
  for (size_t i = 0; i < view.axes.size(); ++i) {
    turned.strides[static_cast<size_t>(view.axes[i])] = layout->strides[i];
  }
  *layout = std::move(turned);
  return true;
}

void SpreadTo(const std::vector<Dim>& dims, NormalLayout* layout) {
  const size_t missing = dims.size() - layout->dims.size();
  std::vector<Stride> strides(dims.size(), Stride{0, 0});
  for (size_t i = missing; i < dims.size(); ++i) {
    if (layout->dims[i - missing] == dims[i]) strides[i] = layout->strides[i - missing];
  }
  layout->dims = dims;
  layout->strides = std::move(strides);
}

bool ToBatched(const NormalLayout& layout, bool turned, const std::vector<Dim>& batches,
               BatchedMatrix* matrix) {
  if (layout.dims.size() != batches.size() + 2) {
    // An operand of fewer axes is the same for all batches before.
    if (layout.dims.size() > batches.size() + 2 || layout.dims.size() < 2) return false;
    NormalLayout spread = layout;
    std::vector<Dim> dims = batches;
    dims.insert(dims.end(), layout.dims.end() - 2, layout.dims.end());
    SpreadTo(dims, &spread);
    return ToBatched(spread, turned, batches, matrix);
  }
  const size_t last = layout.dims.size() - 1;
  for (const Stride& stride : layout.strides) {
    if (stride.m_power != 0) return false;
  }
  if (layout.dims[last].symbolic || layout.dims[last - 1].symbolic) return false;
  matrix->row = layout.strides[last - 1].value;
  matrix->column = layout.strides[last].value;
  if (turned) std::swap(matrix->row, matrix->column);
  matrix->digits.clear();
  int64_t inner = 1;
  for (size_t i = batches.size(); i-- > 0;) {
    if (batches[i].symbolic && i > 0) return false;
    const bool one = !batches[i].symbolic && batches[i].value == 1;
    const bool spread = !(layout.dims[i] == batches[i]);
    const int64_t stride = one || spread ? 0 : layout.strides[i].value;
    if (spread && !(layout.dims[i] == Dim::Constant(1))) return false;
    const int64_t extent = batches[i].symbolic ? 0 : batches[i].value;
    if (stride != 0) {
      BatchDigit* before = matrix->digits.empty() ? nullptr : &matrix->digits.back();
      const bool joins = before != nullptr && extent != 0 &&
                         before->inner * before->extent == inner &&
                         before->stride * before->extent == stride;
      if (joins) {
        before->extent *= extent;
      } else {
        matrix->digits.push_back({inner, extent, stride});
      }
    }
    if (extent != 0) inner *= extent;
  }
  return true;
}

}  // namespace sinter
