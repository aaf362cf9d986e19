#include "src/attention/finder.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace sinter {
namespace {

constexpr double kHiddenBelow = -1e30;  // no score that nothing is added to is as low
constexpr double kMostScale = 1e6;      // of such a score
constexpr double kLeastFloat = -std::numeric_limits<float>::max();
constexpr int kMostSteps = 24;           // of a walk through a chain
constexpr int kMostVisits = 256;         // of a search among sums for the product
constexpr double kMostOffset = 1 << 29;  // of an index: its sums never wrap

class Finder {
 public:
  Finder(const Chain& chain, std::map<ValueId, std::string>* refused)
      : chain_(chain), refused_(refused), users_(chain.ops().size()) {
    for (ValueId user = 0; user < static_cast<ValueId>(chain.ops().size()); ++user) {
      for (const ValueId operand : chain.op(user).operands) users_[At(operand)].insert(user);
    }
    for (const ChainOutput& output : chain.outputs()) outputs_.insert(output.value);
  }

  std::vector<FoundAttention> Run() {
    std::vector<FoundAttention> all;
    std::set<ValueId> taken;
    for (ValueId id = 0; id < static_cast<ValueId>(chain_.ops().size()); ++id) {
      const Op& op = chain_.op(id);
      if (op.kind != OpKind::kMatmul || op.type.rank() < 3 || op.transpose_a) continue;
      FoundAttention found;
      if (!BehindSoftmax(id, &found)) continue;
      const bool free = std::none_of(found.values.begin(), found.values.end(),
                                     [&](ValueId value) { return taken.count(value) > 0; });
      if (!free) continue;
      taken.insert(found.values.begin(), found.values.end());
      all.push_back(std::move(found));
    }
    return all;
  }

 private:
  static size_t At(ValueId value) { return static_cast<size_t>(value); }
  const Op& op(ValueId id) const { return chain_.op(id); }
  ValueId Below(ValueId id) const { return op(id).operands[0]; }

  // Below casts to f32 of floats, which change no value.
  ValueId SkipWidening(ValueId id) const {
    while (op(id).kind == OpKind::kCast && op(id).type.dtype == DType::kF32 &&
           IsFloat(op(Below(id)).type.dtype)) {
      id = Below(id);
    }
    return id;
  }
  static bool Has16Bits(DType dtype) { return dtype == DType::kBF16 || dtype == DType::kF16; }

  // A number that is the same for all of a value.
  bool NumberAt(ValueId id, double* number) const {
    for (int i = 0; i < kMostSteps; ++i) {
      const Op& at = op(id);
      if (at.kind == OpKind::kScalar) {
        *number = at.scalar;
        return true;
      }
      const bool through = at.kind == OpKind::kBroadcast || at.kind == OpKind::kReshape ||
                           (at.kind == OpKind::kCast && IsFloat(at.type.dtype));
      if (!through) return false;
      if (at.kind == OpKind::kCast && at.type.dtype != DType::kF32) return false;
      id = Below(id);
    }
    return false;
  }

  // Adds what lies between `from` and what it was reached through.
  void Take(ValueId id) { members_.insert(id); }

  // Below casts to f32 and reshapes that leave each batch's matrix as it is, which are taken.
  ValueId Regrouped(ValueId id) {
    for (;; id = Below(id)) {
      const Op& at = op(id);
      const bool through =
          SkipWidening(id) != id ||
          (at.kind == OpKind::kReshape && KeepsMatrices(op(Below(id)).type.dims, at.type.dims));
      if (!through) return id;
      Take(id);
    }
  }

  // The operand of the reduction of the last axis that `id` spreads over it again; -1: none.
  // `*bound`: the number that the statistic is at least, as its maximum with that one; else kept.
  ValueId StatisticAt(ValueId id, ReduceKind kind, double* bound) {
    std::vector<ValueId> through;
    const std::vector<Dim>& dims = op(id).type.dims;
    if (op(id).kind != OpKind::kBroadcast) return -1;
    through.push_back(id);
    id = Below(id);
    const size_t last = dims.size() - 1;
    // One number a row, with or without the last axis.
    const auto has_rows = [&](const std::vector<Dim>& of) {
      return of.size() == dims.size() && of[last] == Dim::Constant(1) &&
             std::equal(of.begin(), of.end() - 1, dims.begin());
    };
    if (!has_rows(op(id).type.dims)) return -1;
    const auto skip_reshape = [&] {
      if (op(id).kind != OpKind::kReshape) return;
      through.push_back(id);
      id = Below(id);
    };
    skip_reshape();
    if (op(id).kind == OpKind::kBinary && op(id).binary == BinaryKind::kMax) {
      const std::vector<ValueId>& sides = op(id).operands;
      const bool second = NumberAt(sides[1], bound);
      if (!second && !NumberAt(sides[0], bound)) return -1;
      through.push_back(id);
      id = sides[second ? 0 : 1];
      skip_reshape();
    }
    const Op& reduce = op(id);
    const bool fits = reduce.kind == OpKind::kReduce && reduce.reduce == kind &&
                      reduce.type.dtype == DType::kF32 &&
                      reduce.axes == std::vector<int32_t>{static_cast<int32_t>(last)} &&
                      op(Below(id)).type.dims == dims;
    if (!fits) return -1;
    through.push_back(id);
    for (const ValueId value : through) Take(value);
    return Below(id);
  }

  bool BehindSoftmax(ValueId product, FoundAttention* found) {
    members_ = {product};
    steps_.clear();
    terms_.clear();
    cone_.clear();
    scores_ = -1;
    budget_ = kMostVisits;
    why_.clear();
    found_ = found;
    problem_ = &found->problem;
    ValueId id = Regrouped(Below(product));
    problem_->element = op(id).type.dtype;
    if (!Has16Bits(problem_->element)) return false;
    if (op(id).kind != OpKind::kCast || op(Below(id)).type.dtype != DType::kF32) return false;
    Take(id);
    id = Regrouped(Below(id));
    const Op& quotient = op(id);
    if (quotient.kind != OpKind::kBinary || quotient.binary != BinaryKind::kDiv) return false;
    Take(id);
    const ValueId powers = quotient.operands[0];
    double least_sum = 0, least_score = -std::numeric_limits<double>::infinity();
    if (StatisticAt(quotient.operands[1], ReduceKind::kSum, &least_sum) != powers) return false;
    if (op(powers).kind != OpKind::kUnary || op(powers).unary != UnaryKind::kExp) return false;
    Take(powers);
    const ValueId shifted = Below(powers);
    const Op& difference = op(shifted);
    if (difference.kind != OpKind::kBinary || difference.binary != BinaryKind::kSub) return false;
    Take(shifted);
    const ValueId scores = difference.operands[0];
    if (StatisticAt(difference.operands[1], ReduceKind::kMax, &least_score) != scores) return false;
    if (!Bounds(least_score, least_sum)) return false;
    // All of a score's dims: digits are counted in those of the product.
    if (!Scores(scores, kMostSteps)) return false;
    const bool found_all = Operands(product) && End(product) && Finish();
    if (!found_all && refused_ != nullptr) {
      (*refused_)[scores_] = (*refused_)[product] = absl::StrCat("as attention: ", why_);
    }
    return found_all;
  }

  // Whether the bounds of a row's largest score and of its sum of powers change a row without keys
  // alone: powers of 0, then, are divided by a number. A sum is 1 or more otherwise.
  bool Bounds(double least_score, double least_sum) {
    const bool none = !std::isfinite(least_score) && least_score < 0 && least_sum == 0;
    problem_->zero_unseen = least_score == kLeastFloat && least_sum > 0 && least_sum <= 0.5;
    return none || problem_->zero_unseen;
  }

  // Walks back from `id` to the product of q and k. Keeps the steps on the way where it arrives.
  bool Scores(ValueId id, int left) {
    if (left == 0 || --budget_ < 0) return false;
    const std::set<ValueId> members = members_;
    const std::vector<ScoreStep> steps = steps_;
    const std::vector<std::pair<ValueId, std::vector<Dim>>> terms = terms_;
    if (Step(id, left)) return true;
    members_ = members;
    steps_ = steps;
    terms_ = terms;
    return false;
  }

  bool Step(ValueId id, int left) {
    const Op& at = op(id);
    Take(id);
    switch (at.kind) {
      case OpKind::kMatmul:
        scores_ = id;
        return at.type.rank() >= 3 && !at.transpose_a;
      case OpKind::kCast: {
        const DType from = op(Below(id)).type.dtype;
        if (!IsFloat(from) || !IsFloat(at.type.dtype)) return false;
        if (Has16Bits(at.type.dtype) && at.type.dtype != from) {
          steps_.push_back({ScoreStep::kRound, 0, at.type.dtype, {}});
        }
        return Scores(Below(id), left - 1);
      }
      case OpKind::kReshape:
        return KeepsMatrices(op(Below(id)).type.dims, at.type.dims) && Scores(Below(id), left - 1);
      case OpKind::kBinary:
        return Binary(id, left);
      case OpKind::kSelect:
        return Select(id, left);
      default:
        return false;
    }
  }

  // Whether a reshape leaves rows and columns as they are.
  static bool KeepsMatrices(const std::vector<Dim>& from, const std::vector<Dim>& to) {
    return from.size() >= 2 && to.size() >= 2 && from.back() == to.back() &&
           from[from.size() - 2] == to[to.size() - 2];
  }

  bool Binary(ValueId id, int left) {
    const Op at = op(id);
    if (at.type.dtype != DType::kF32) return false;
    double number = 0;
    const bool product = at.binary == BinaryKind::kMul;
    for (size_t i = 0; i < 2 && (product || i == 0); ++i) {
      if (!product && at.binary != BinaryKind::kDiv) break;
      if (!NumberAt(at.operands[1 - i], &number)) continue;
      steps_.push_back({ScoreStep::kScale, product ? number : 1 / number, DType::kF32, {}});
      return Scores(at.operands[i], left - 1);
    }
    if (at.binary != BinaryKind::kAdd) return false;
    for (size_t i = 0; i < 2; ++i) {
      steps_.push_back({ScoreStep::kAdd, 0, DType::kF32, {}});
      terms_.push_back({at.operands[1 - i], at.type.dims});
      if (Scores(at.operands[i], left - 1)) return true;
      steps_.pop_back();
      terms_.pop_back();
    }
    return false;
  }

  bool Select(ValueId id, int left) {
    const Op at = op(id);
    double number = 0;
    for (const bool keeps : {true, false}) {
      const ValueId score = at.operands[keeps ? 1 : 2];
      if (!NumberAt(at.operands[keeps ? 2 : 1], &number)) continue;
      int64_t diagonal = 0;
      const bool finite = std::isfinite(static_cast<float>(number));
      if (!problem_->causal && HidesBehindSteps(number) &&
          IsCausal(at.operands[0], at.type.dims, keeps, &diagonal) && (diagonal >= 0 || !finite)) {
        const std::set<ValueId> members = members_;
        const size_t steps = steps_.size(), terms = terms_.size();
        problem_->causal = true;
        problem_->diagonal = diagonal;
        const bool arrives = Scores(score, left - 1);
        if (arrives && (!finite || AreFarAbove(steps))) {
          AddCone(at.operands[0]);
          return true;
        }
        problem_->causal = false;
        problem_->diagonal = 0;
        if (!arrives) continue;
        members_ = members;
        steps_.resize(steps);
        terms_.resize(terms);
      }
      steps_.push_back({keeps ? ScoreStep::kSelect : ScoreStep::kHide, number, DType::kPred, {}});
      terms_.push_back({at.operands[0], at.type.dims});
      if (Scores(score, left - 1)) return true;
      steps_.pop_back();
      terms_.pop_back();
    }
    return false;
  }

  // Whether a score of `number` has no share behind the steps found so far, which come after it:
  // then the kernel may hide it last.
  bool HidesBehindSteps(double number) const {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    auto x = static_cast<float>(number);
    for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
      const auto by = static_cast<float>(step->number);
      switch (step->kind) {
        case ScoreStep::kScale:
          if (!(by > 0) || !std::isfinite(by)) return false;
          x *= by;
          break;
        case ScoreStep::kRound:
          if (std::isfinite(x) && step->dtype == DType::kF16) return false;
          break;
        case ScoreStep::kAdd:
          if (std::isfinite(x)) return false;
          break;
        case ScoreStep::kSelect:
        case ScoreStep::kHide:
          if (std::isfinite(x) || step->number != -kInfinity) return false;
          break;
      }
    }
    return x <= kHiddenBelow;
  }

  // Whether scores that steps from `first` on give are far above kHiddenBelow: those of products.
  bool AreFarAbove(size_t first) const {
    return std::all_of(steps_.begin() + static_cast<std::ptrdiff_t>(first), steps_.end(),
                       [](const ScoreStep& step) {
                         if (step.kind == ScoreStep::kRound) return step.dtype != DType::kF16;
                         return step.kind == ScoreStep::kScale &&
                                std::abs(step.number) <= kMostScale;
                       });
  }

  // Notes `id` and what it is computed from; Finish takes what the kernel alone reads.
  void AddCone(ValueId id) {
    if (op(id).kind == OpKind::kInput || !cone_.insert(id).second) return;
    for (const ValueId operand : op(id).operands) AddCone(operand);
  }

  // The axis, counted from the last one, along which `id` is the index plus `*offset`; -1: none.
  // `matrix`: the dims of what it is read with, of which the index has all of the axis.
  int IndexAt(ValueId id, const std::vector<Dim>& matrix, int64_t* offset) const {
    *offset = 0;
    std::vector<ValueId> views;
    for (int i = 0; i < kMostSteps; ++i) {
      const Op& at = op(id);
      if (at.kind == OpKind::kIota) break;
      double number = 0;
      if (at.kind == OpKind::kBroadcast || at.kind == OpKind::kReshape ||
          (at.kind == OpKind::kCast && at.type.dtype == DType::kS32)) {
        if (at.kind != OpKind::kCast) views.push_back(id);
        id = Below(id);
      } else if (at.kind == OpKind::kBinary &&
                 (at.binary == BinaryKind::kAdd || at.binary == BinaryKind::kSub) &&
                 NumberAt(at.operands[1], &number)) {
        const bool whole = std::abs(number) <= kMostOffset && number == std::trunc(number);
        if (!whole || at.type.dtype != DType::kS32) return -1;
        *offset += static_cast<int64_t>(at.binary == BinaryKind::kAdd ? number : -number);
        if (std::abs(*offset) > static_cast<int64_t>(kMostOffset)) return -1;
        id = Below(id);
      } else {
        return -1;
      }
    }
    const Op& iota = op(id);
    if (iota.kind != OpKind::kIota || iota.type.dtype != DType::kS32) return -1;
    const Dim extent = iota.type.dims[static_cast<size_t>(iota.axis)];
    int axis = iota.type.rank() - 1 - iota.axis;
    std::vector<Dim> dims = iota.type.dims;
    for (size_t i = views.size(); i-- > 0;) {
      const Op& view = op(views[i]);
      if (view.kind == OpKind::kReshape) {
        if (!(dims[dims.size() - 1 - static_cast<size_t>(axis)] == extent)) return -1;
        // An axis of its extent among axes of one element.
        int found = -1;
        for (size_t d = 0; d < view.type.dims.size(); ++d) {
          const Dim dim = view.type.dims[d];
          if (dim == Dim::Constant(1)) continue;
          if (!(dim == extent) || found >= 0) return -1;
          found = view.type.rank() - 1 - static_cast<int>(d);
        }
        if (found < 0) return -1;
        axis = found;
      }
      dims = view.type.dims;
    }
    // An index of one element is 0 wherever it is spread to.
    const auto from_last = static_cast<size_t>(axis);
    const bool whole = from_last < matrix.size() && matrix[matrix.size() - 1 - from_last] == extent;
    return whole ? axis : -1;
  }

  // Whether scores of `dims` are kept (or hidden) by `condition` where the key is at most row +
  // diagonal.
  bool IsCausal(ValueId condition, const std::vector<Dim>& dims, bool keeps,
                int64_t* diagonal) const {
    while (op(condition).kind == OpKind::kBroadcast) condition = Below(condition);
    const Op& at = op(condition);
    if (at.kind != OpKind::kCompare || at.type.rank() < 2) return false;
    int64_t left = 0, right = 0;
    const int a = IndexAt(at.operands[0], dims, &left);
    const int b = IndexAt(at.operands[1], dims, &right);
    if (!((a == 0 && b == 1) || (a == 1 && b == 0))) return false;
    CompareKind kind = at.compare;
    // As: column + of_column `kind` row + of_row.
    if (a == 1) {
      kind = kind == CompareKind::kLt   ? CompareKind::kGt
             : kind == CompareKind::kLe ? CompareKind::kGe
             : kind == CompareKind::kGt ? CompareKind::kLt
             : kind == CompareKind::kGe ? CompareKind::kLe
                                        : kind;
    }
    const int64_t shift = a == 1 ? left - right : right - left;  // row's minus column's
    if (kind == (keeps ? CompareKind::kLe : CompareKind::kGt)) {
      *diagonal = shift;
    } else if (kind == (keeps ? CompareKind::kLt : CompareKind::kGe)) {
      *diagonal = shift - 1;
    } else {
      return false;
    }
    return std::abs(*diagonal) <= kMaxAttentionRows;
  }

  // Where an operand of 16 bits lies, of which the last two axes are a matrix.
  bool Operand(absl::string_view name, ValueId id, bool turned, std::vector<Dim> batches,
               BatchedMatrix* matrix) {
    id = SkipWidening(id);
    // Below a reshape of batches, whose numbers it keeps, a head may be one of a group that shares
    // its keys.
    ValueId below = id;
    while (op(below).kind == OpKind::kReshape &&
           KeepsMatrices(op(Below(below)).type.dims, op(below).type.dims)) {
      below = Below(below);
    }
    const std::vector<Dim>& dims = op(below).type.dims;
    if (below != id && SameBatches(batches, dims)) {
      id = below;
      batches.assign(dims.begin(), dims.end() - 2);
    }
    if (op(id).type.dtype != problem_->element) {
      return No(absl::StrCat(name, " ", Text(id), " is ", NameOf(op(id).type.dtype), ", must be ",
                             NameOf(problem_->element), " as the probabilities are: cast it"));
    }
    const LaidOut at = LayoutOf(chain_, id);
    found_->inputs.push_back({at.base, at.layout.offset});
    if (at.layout.offset * SizeOf(problem_->element) % 16 != 0) {
      return No(absl::StrCat(name, " ", Text(id), " begins ", at.layout.offset, " elements into ",
                             Text(at.base), ", must be at a multiple of 8 (16 bytes): copy it"));
    }
    return ToBatched(at.layout, turned, batches, matrix) || No(LiesApart(name, id));
  }

  bool No(std::string why) {
    why_ = std::move(why);
    return false;
  }
  std::string Text(ValueId id) const { return absl::StrCat("(op ", id, ", ", NameOf(op(id)), ")"); }
  std::string LiesApart(absl::string_view name, ValueId id) const {
    return absl::StrCat(name, " ", Text(id), " has no strides as a matrix of each batch, or ones ",
                        "with M, which may be the first axis alone: copy it");
  }

  bool Operands(ValueId product) {
    const Op& first = op(scores_);
    const Op& second = op(product);
    const std::vector<Dim>& dims = first.type.dims;
    const std::vector<Dim> batches(dims.begin(), dims.end() - 2);
    for (size_t i = 0; i < dims.size(); ++i) {
      if (dims[i].symbolic && i > 0) {
        return No(absl::StrCat("axis ", i, " of the scores ", Text(scores_),
                               " is M, which may be axis 0 alone"));
      }
    }
    if (!SameBatches(batches, second.type.dims)) {
      return No(absl::StrCat("the batches of ", Text(product), " are not those of the scores ",
                             Text(scores_)));
    }
    AttentionProblem& p = *problem_;
    p.rows = dims[dims.size() - 2].value;
    p.keys = dims.back().value;
    const Dim head = chain_.FactorsOf(first);
    p.head = head.symbolic ? 0 : head.value;
    p.value_head = second.type.dims.back().symbolic ? 0 : second.type.dims.back().value;
    if (second.type.dims.back().symbolic) {
      return No(absl::StrCat("the columns of ", Text(product), " are M, must be a number"));
    }
    p.of_m = !batches.empty() && batches[0].symbolic;
    p.batches = 1;
    for (const Dim& dim : batches) {
      if (!dim.symbolic) p.batches *= dim.value;
      if (p.batches < 1 || p.batches > kMaxBatches) {
        return No(absl::StrCat("batches ", p.batches, ", must be in [1, ", kMaxBatches, "]"));
      }
    }
    const std::vector<Dim> own(second.type.dims.begin(), second.type.dims.end() - 2);
    return Operand("q", first.operands[0], false, batches, &p.q) &&
           Operand("k", first.operands[1], !first.transpose_b, batches, &p.k) &&
           Operand("v", second.operands[1], second.transpose_b, own, &p.v) && TakeTerms();
  }

  // Whether batches are numbered alike: only axes of one element or split ones differ.
  static bool SameBatches(const std::vector<Dim>& batches, const std::vector<Dim>& dims) {
    int64_t a = 1, b = 1;
    int symbols = 0;
    for (const Dim& dim : batches) dim.symbolic ? ++symbols : static_cast<int>(a *= dim.value);
    for (size_t i = 0; i + 2 < dims.size(); ++i) {
      dims[i].symbolic ? --symbols : static_cast<int>(b *= dims[i].value);
      if (dims[i].symbolic && i > 0) return false;
    }
    return a == b && symbols == 0;
  }

  bool TakeTerms() {
    std::reverse(steps_.begin(), steps_.end());
    std::reverse(terms_.begin(), terms_.end());
    size_t next = 0;
    for (ScoreStep& step : steps_) {
      if (!step.HasTerm()) continue;
      const auto& [value, dims] = terms_[next++];
      const ValueId id = SkipWidening(value);
      if (op(id).type.rank() == 0) {
        return No(absl::StrCat("a term ", Text(id), " is one number: broadcast it"));
      }
      const LaidOut at = LayoutOf(chain_, id);
      const DType dtype = op(at.base).type.dtype;
      if (step.kind == ScoreStep::kAdd ? !IsFloat(dtype) : dtype != DType::kPred) {
        return No(absl::StrCat("a term ", Text(at.base), " is ", NameOf(dtype), ", must be ",
                               step.kind == ScoreStep::kAdd ? "f32, bf16 or f16" : "pred"));
      }
      step.dtype = dtype;
      found_->inputs.push_back({at.base, at.layout.offset});
      NormalLayout layout = at.layout;
      SpreadTo(dims, &layout);
      const std::vector<Dim> batches(dims.begin(), dims.end() - 2);
      if (!ToBatched(layout, false, batches, &step.term)) return No(LiesApart("a term", id));
      if (step.term.column == 1 && at.layout.offset % 2 != 0) {
        return No(absl::StrCat("a term ", Text(id), " begins ", at.layout.offset, " elements into ",
                               Text(at.base), ", must be even: copy it"));
      }
    }
    terms_.clear();
    problem_->steps = steps_;
    return true;
  }

  // The last value behind the product that can be stored in its place, and how it lies.
  bool End(ValueId product) {
    std::vector<ValueId> path = {product};
    DType dtype = op(product).type.dtype;
    bool rounded = false;
    while (outputs_.count(path.back()) == 0 && path.size() < kMostSteps &&
           users_[At(path.back())].size() == 1) {
      const ValueId next = *users_[At(path.back())].begin();
      const Op& at = op(next);
      const bool view = at.kind == OpKind::kReshape || at.kind == OpKind::kTranspose;
      const bool cast = at.kind == OpKind::kCast && !rounded && at.type.dtype == problem_->element;
      if (!view && !cast) break;
      if (cast) rounded = true;
      path.push_back(next);
    }
    for (; !path.empty(); path.pop_back()) {
      const ValueId end = path.back();
      dtype = op(end).type.dtype;
      if (dtype != DType::kF32 && dtype != problem_->element) continue;
      NormalLayout layout;
      if (!ResultLayout(chain_, end, &layout)) continue;
      bool fits = true;
      for (size_t i = path.size(); fits && i-- > 1;) {
        fits = Unview(op(path[i]), op(path[i - 1]).type.dims, &layout);
      }
      const std::vector<Dim>& dims = op(product).type.dims;
      const std::vector<Dim> batches(dims.begin(), dims.end() - 2);
      if (!fits || !ToBatched(layout, false, batches, &problem_->out)) continue;
      if (problem_->out.column != 1) continue;
      problem_->result = dtype;
      found_->end = end;
      for (const ValueId value : path) Take(value);
      return true;
    }
    return No(absl::StrCat("the result ", Text(product), " is not stored once, as ",
                           NameOf(problem_->element), " or f32, in rows without gaps in a buffer ",
                           "of its own: store a copy"));
  }

  // Whether nobody else reads what is inside, and the kernel takes it.
  bool Finish() {
    for (const AttentionInput& input : found_->inputs) {
      if (members_.count(input.value) > 0) {
        return No(absl::StrCat("it reads ", Text(input.value), ", which is inside, as an operand"));
      }
    }
    for (const ValueId value : members_) {
      if (value == found_->end) continue;
      if (outputs_.count(value) > 0) {
        return No(absl::StrCat(Text(value), " is inside, and an output"));
      }
      for (const ValueId user : users_[At(value)]) {
        if (members_.count(user) > 0) continue;
        return No(absl::StrCat(Text(value), " is inside, and ", Text(user), " outside reads it"));
      }
    }
    for (auto at = cone_.rbegin(); at != cone_.rend(); ++at) {
      const std::set<ValueId>& users = users_[At(*at)];
      const bool own = outputs_.count(*at) == 0 &&
                       std::all_of(users.begin(), users.end(),
                                   [&](ValueId user) { return members_.count(user) > 0; });
      if (own) Take(*at);
    }
    AttentionProblem& p = *problem_;
    if (p.rows == 1) p.q.row = p.head, p.out.row = p.value_head;  // no stride matters
    if (p.keys == 1) p.k.row = p.head, p.v.row = p.value_head;
    const absl::Status fits = p.Check();
    if (!fits.ok()) {
      why_ = std::string(absl::StripPrefix(fits.message(), "attention: "));
      return false;
    }
    found_->values.assign(members_.begin(), members_.end());
    return true;
  }

  const Chain& chain_;
  std::map<ValueId, std::string>* const refused_;
  std::vector<std::set<ValueId>> users_;
  std::set<ValueId> outputs_;
  std::set<ValueId> members_;
  std::set<ValueId> cone_;                                   // what a causal mask is computed from
  std::vector<ScoreStep> steps_;                             // from the softmax back
  std::vector<std::pair<ValueId, std::vector<Dim>>> terms_;  // of these, with the dims of scores
  ValueId scores_ = -1;                                      // the product of q and k
  int budget_ = 0;
  std::string why_;  // no kernel takes it
  FoundAttention* found_ = nullptr;
  AttentionProblem* problem_ = nullptr;
};

}  // namespace

std::vector<FoundAttention> FindAttention(const Chain& chain,
                                          std::map<ValueId, std::string>* refused) {
  return Finder(chain, refused).Run();
}

}  // namespace sinter
