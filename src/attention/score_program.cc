// ScoreMaker: the ops between the product of q and k and the softmax as a program of one score.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/attention/attention.h"
#include "src/base/status.h"
#include "src/product/matcher.h"

namespace sinter {
namespace {

constexpr double kMostIndex = 1 << 24;  // integers up to it are exact in f32
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

int64_t ElementsOf(const std::vector<Dim>& dims) {
  int64_t count = 1;
  for (const Dim& dim : dims) count *= dim.symbolic ? kLargestBucket : dim.value;
  return count;
}

// Whether a view leaves elements where they are, counted from the last axis.
bool KeepsTrailing(const Chain& chain, const Op& view) {
  if (view.kind == OpKind::kBroadcast) return true;
  if (view.kind != OpKind::kReshape) return false;
  const auto trailing = [](const std::vector<Dim>& dims) {
    const auto first = std::find_if(dims.begin(), dims.end(),
                                    [](const Dim& dim) { return !(dim == Dim::Constant(1)); });
    return std::vector<Dim>(first, dims.end());
  };
  return trailing(view.type.dims) == trailing(chain.op(view.operands[0]).type.dims);
}

class ScoreMaker {
 public:
  ScoreMaker(const Chain& chain, ValueId causal, bool folds)
      : chain_(chain),
        causal_(causal),
        folds_(folds),
        maker_([&chain](ValueId id) { return chain.op(id); },
               [](ValueId) { return std::nullopt; }) {}

  absl::StatusOr<FoundScores> Run(const std::vector<ValueId>& between) {
    for (const ValueId id : between) {
      SINTER_ASSIGN_OR_RETURN(made_[id], id == between.front()
                                             ? maker_.MakeLeaf({LeafKind::kValue}, DType::kF32)
                                             : Between(op(id), id));
    }
    const ValueId value = made_[between.back()];
    if (value == made_[between.front()]) return std::move(found_);
    SINTER_ASSIGN_OR_RETURN(const ValueId result, maker_.builder().Cast(value, DType::kF32));
    SINTER_RETURN_IF_ERROR(maker_.builder().Output(result));
    SINTER_ASSIGN_OR_RETURN(ProgramMaker::Made made, maker_.Finish());
    for (size_t i = 0; i < made.kinds.size(); ++i) {
      if (made.kinds[i] != LeafKind::kMatrix) continue;
      const Term& term = terms_[static_cast<size_t>(made.numbers[i])];
      found_.terms.push_back(term.matrix);
      found_.inputs.push_back(term.input);
    }
    found_.program = ProgramOf(std::move(made.body), std::move(made.kinds));
    return std::move(found_);
  }

 private:
  struct Term {
    AttentionInput input;
    BatchedMatrix matrix;
  };
  struct Leaf {
    ValueId id = -1;
    std::vector<Dim> dims;  // of the op that reads it
    ValueId made = -1;
  };

  const Op& op(ValueId id) const { return chain_.op(id); }
  std::string Text(ValueId id) const { return absl::StrCat("(op ", id, ", ", NameOf(op(id)), ")"); }

  // Makes the value of an op between the product and the softmax.
  absl::StatusOr<ValueId> Between(const Op& at, ValueId id) {
    if (id == causal_) return made_.at(at.operands[made_.count(at.operands[1]) > 0 ? 1 : 2]);
    const bool same = at.kind == OpKind::kCast &&
                      (Widens(chain_, at) || at.type.dtype == op(at.operands[0]).type.dtype);
    if (same || at.kind == OpKind::kReshape) return made_.at(at.operands[0]);
    double number = 0;
    if (IsBinary(at, BinaryKind::kDiv) && NumberAt(chain_, at.operands[1], &number)) {
      SINTER_ASSIGN_OR_RETURN(const ValueId scale, maker_.builder().Scalar(1 / number));
      return maker_.builder().Binary(BinaryKind::kMul, made_.at(at.operands[0]), scale);
    }
    return Replayed(at, at.type.dims);
  }

  // `dims`: of the scores that the value is read with.
  absl::StatusOr<ValueId> Replayed(Op at, const std::vector<Dim>& dims) {
    for (ValueId& operand : at.operands) {
      const auto between = made_.find(operand);
      if (between != made_.end()) {
        operand = between->second;
      } else {
        SINTER_ASSIGN_OR_RETURN(operand, MakeLeaf(operand, dims));
      }
    }
    return Replay(maker_.builder(), at, false);
  }

  absl::StatusOr<ValueId> MakeLeaf(ValueId id, const std::vector<Dim>& dims) {
    for (const Leaf& leaf : leaves_) {
      if (leaf.id == id && leaf.dims == dims) return leaf.made;
    }
    SINTER_ASSIGN_OR_RETURN(const ValueId made, NewLeaf(id, dims));
    leaves_.push_back({id, dims, made});
    return made;
  }

  absl::StatusOr<ValueId> NewLeaf(ValueId id, const std::vector<Dim>& dims) {
    double number = 0;
    if (NumberAt(chain_, id, &number)) {
      const bool pred = op(id).type.dtype == DType::kPred;
      return maker_.builder().Scalar(number, pred ? DType::kPred : DType::kF32);
    }
    ValueId below = id;
    std::vector<ValueId> views;
    for (; KeepsTrailing(chain_, op(below)); below = op(below).operands[0]) views.push_back(below);
    if (!folds_ || Loads(below, dims, kMostWalk) >= ElementsOf(op(below).type.dims)) {
      return MakeTerm(id, dims);
    }
    found_.inside.insert(views.begin(), views.end());
    return Folded(below, dims);
  }

  // The fewest elements that `id` can be computed from, read from memory, itself among them;
  // kNever: kernels cannot read it. `left`: ops that may still be followed.
  int64_t Loads(ValueId id, const std::vector<Dim>& dims, int left) const {
    const Op& at = op(id);
    double number = 0;
    if (NumberAt(chain_, id, &number)) return 0;
    if (at.type.dtype == DType::kS32)
      return LargestIndex(id, dims, left) <= kMostIndex ? 0 : kNever;
    if (IndexAt(chain_, id, dims).IsOfMatrix()) return 0;
    if (KeepsTrailing(chain_, at)) return Loads(at.operands[0], dims, left);
    const bool read = IsFloat(at.type.dtype) || at.type.dtype == DType::kPred;
    const int64_t itself = read ? ElementsOf(at.type.dims) : kNever;
    if (left == 0 || !IsComputed(at)) return itself;
    int64_t sum = 0;
    for (const ValueId operand : at.operands) {
      const int64_t more = Loads(operand, dims, left - 1);
      if (more >= itself - sum) return itself;
      sum += more;
    }
    return sum;
  }

  // Whether a program computes it for each score.
  static bool IsComputed(const Op& at) {
    if (at.kind == OpKind::kUnary || at.kind == OpKind::kBinary) return IsInPrograms(at);
    return IsElementWise(at) && !IsCode(at.type.dtype);
  }

  // The largest magnitude of integers computed from indices and whole numbers, in f32; infinity:
  // they are computed otherwise.
  double LargestIndex(ValueId id, const std::vector<Dim>& dims, int left) const {
    constexpr double kNone = std::numeric_limits<double>::infinity();
    const Op& at = op(id);
    double number = 0;
    if (NumberAt(chain_, id, &number)) return std::abs(number);
    const AxisIndex index = IndexAt(chain_, id, dims);
    if (index.IsOfMatrix()) {
      const Dim extent = dims[dims.size() - 1 - static_cast<size_t>(index.axis)];
      return static_cast<double>(extent.value + std::abs(index.offset));
    }
    if (left == 0 || at.type.dtype != DType::kS32 || at.operands.empty()) return kNone;
    const auto below = [&](size_t i) { return LargestIndex(at.operands[i], dims, left - 1); };
    if (KeepsTrailing(chain_, at)) return below(0);
    double most = kNone;
    if (IsUnary(at, UnaryKind::kNeg) || IsUnary(at, UnaryKind::kAbs)) most = below(0);
    if (IsBinary(at, BinaryKind::kAdd) || IsBinary(at, BinaryKind::kSub))
      most = below(0) + below(1);
    if (IsBinary(at, BinaryKind::kMax) || IsBinary(at, BinaryKind::kMin)) {
      most = std::max(below(0), below(1));
    }
    return most <= kMostIndex ? most : kNone;
  }

  absl::StatusOr<ValueId> Folded(ValueId id, const std::vector<Dim>& dims) {
    const Op& at = op(id);
    const AxisIndex index = IndexAt(chain_, id, dims);
    if (index.IsOfMatrix()) {
      AddCone(chain_, id, &found_.inside);
      return MakeIndex(index, dims);
    }
    found_.inside.insert(id);
    // Integers are f32 here.
    const bool of_integers = at.kind == OpKind::kCast &&
                             op(at.operands[0]).type.dtype == DType::kS32 &&
                             at.type.dtype != DType::kPred;
    if (of_integers && SizeOf(at.type.dtype) == 4) return MakeLeaf(at.operands[0], dims);
    return Replayed(at, dims);
  }

  absl::StatusOr<ValueId> MakeIndex(const AxisIndex& index, const std::vector<Dim>& dims) {
    const Dim extent = dims[dims.size() - 1 - static_cast<size_t>(index.axis)];
    const auto offset = static_cast<double>(index.offset);
    if (extent == Dim::Constant(1)) return maker_.builder().Scalar(offset);
    const LeafKind kind = index.axis == 0 ? LeafKind::kColumnIndex : LeafKind::kRowIndex;
    SINTER_ASSIGN_OR_RETURN(const ValueId leaf, maker_.MakeLeaf({kind}, DType::kF32));
    if (index.offset == 0) return leaf;
    SINTER_ASSIGN_OR_RETURN(const ValueId by, maker_.builder().Scalar(offset));
    return maker_.builder().Binary(BinaryKind::kAdd, leaf, by);
  }

  absl::StatusOr<ValueId> MakeTerm(ValueId id, const std::vector<Dim>& dims) {
    while (Widens(chain_, op(id))) id = op(id).operands[0];
    if (op(id).type.rank() == 0) {
      return Invalid("a term ", Text(id), " is one number: broadcast it");
    }
    LaidOut at = LayoutOf(chain_, id);
    const DType dtype = op(at.base).type.dtype;
    if (!IsFloat(dtype) && dtype != DType::kPred) {
      return Invalid("a term ", Text(at.base), " is ", NameOf(dtype),
                     ", must be f32, bf16, f16 or pred: cast it");
    }
    const AttentionInput input{at.base, at.layout.offset};
    SpreadTo(dims, &at.layout);
    BatchedMatrix matrix;
    if (!ToBatched(at.layout, false, {dims.begin(), dims.end() - 2}, &matrix)) {
      return Invalid("a term ", Text(id), " has no strides as a matrix of each batch, or ones ",
                     "with M, which only the first axis may have: copy it");
    }
    if (matrix.column == 1 && input.offset % 2 != 0) {
      return Invalid("a term ", Text(id), " begins ", input.offset, " elements into ",
                     Text(at.base), ", must be even: copy it");
    }
    const auto same = std::find_if(terms_.begin(), terms_.end(), [&](const Term& term) {
      return term.input.value == input.value && term.input.offset == input.offset &&
             term.matrix == matrix;
    });
    const auto number = static_cast<int>(same - terms_.begin());
    if (same == terms_.end()) terms_.push_back({input, std::move(matrix)});
    const bool pred = dtype == DType::kPred;
    return maker_.MakeLeaf({LeafKind::kMatrix, number, dtype}, pred ? dtype : DType::kF32);
  }

  const Chain& chain_;
  const ValueId causal_;
  const bool folds_;
  ProgramMaker maker_;
  std::map<ValueId, ValueId> made_;  // values between, in the program
  std::vector<Leaf> leaves_;
  std::vector<Term> terms_;
  FoundScores found_;
};

}  // namespace

void AddCone(const Chain& chain, ValueId id, std::set<ValueId>* cone) {
  if (chain.op(id).kind == OpKind::kInput || !cone->insert(id).second) return;
  for (const ValueId operand : chain.op(id).operands) AddCone(chain, operand, cone);
}

bool IsInPrograms(const Op& op) {
  const DType dtype = op.type.dtype;
  return (dtype == DType::kF32 || dtype == DType::kPred) && TraitsOf(op).in_products;
}

absl::StatusOr<FoundScores> ScoresOf(const Chain& chain, const std::vector<ValueId>& between,
                                     ValueId causal) {
  absl::StatusOr<FoundScores> folded = ScoreMaker(chain, causal, true).Run(between);
  const bool fits = folded.ok() && folded->terms.size() <= kMaxScoreTerms &&
                    CheckScoreProgram(folded->program, static_cast<int>(folded->terms.size())).ok();
  return fits ? folded : ScoreMaker(chain, causal, false).Run(between);
}

std::vector<Precision> ScorePrecisions(const EpilogueProgram& program) {
  constexpr double kMostGrowth = 64;  // 64 times 4e-7 is less than half a rounding to f16
  const Chain& body = *program.body;
  std::vector<Precision> precisions = PrecisionsOf(body);
  // By op: by what its error is multiplied on the way to the score.
  std::vector<double> growth(body.ops().size());
  growth[static_cast<size_t>(body.outputs()[0].value)] = 1;
  for (size_t id = growth.size(); id-- > 0;) {
    const Op& op = body.ops()[id];
    for (size_t i = 0; i < op.operands.size(); ++i) {
      double by = std::numeric_limits<double>::infinity();
      const bool sum = IsBinary(op, BinaryKind::kAdd) || IsBinary(op, BinaryKind::kSub);
      const Op& other = body.op(op.operands[op.operands.size() - 1 - i]);
      if (sum || op.kind == OpKind::kCast || (op.kind == OpKind::kSelect && i > 0)) by = 1;
      if (IsBinary(op, BinaryKind::kMul) && other.kind == OpKind::kScalar) {
        by = std::abs(other.scalar);
      }
      double& most = growth[static_cast<size_t>(op.operands[i])];
      most = std::max(most, growth[id] == 0 ? 0 : growth[id] * by);
    }
    if (IsUnary(op, UnaryKind::kTanh) && precisions[id] == Precision::kExact &&
        growth[id] <= kMostGrowth) {
      precisions[id] = Precision::kBesideOne;
    }
  }
  return precisions;
}

}  // namespace sinter
