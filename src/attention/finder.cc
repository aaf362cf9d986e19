#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "src/attention/attention.h"
#include "src/chain/chain.h"

namespace sinter {
namespace {

constexpr double kHiddenBelow = -1e30;  // no score that nothing is added to is as low
constexpr double kMostScale = 1e6;      // of such a score
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLeastFloat = -std::numeric_limits<float>::max();
constexpr size_t kMostVisits = 256;  // of a search among sums for the product
// The remedy when no attention kernel takes the chain.
constexpr char kMatricesAlone[] =
    ": give each batch a chain of its own, whose products have rank 2";

// The dims before a matrix, which is the last two.
std::vector<Dim> BatchesOf(const std::vector<Dim>& dims) { return {dims.begin(), dims.end() - 2}; }

// Whether a reshape leaves rows and columns as they are.
bool KeepsMatrices(const std::vector<Dim>& from, const std::vector<Dim>& to) {
  return from.size() >= 2 && to.size() >= 2 && from.back() == to.back() &&
         from[from.size() - 2] == to[to.size() - 2];
}

// Whether batches are numbered alike: only axes of one element or split ones differ. M is the first
// axis of `b` or none.
bool SameBatches(const std::vector<Dim>& a, const std::vector<Dim>& b) {
  int64_t product = 1, other = 1;
  int symbols = 0;
  for (const Dim& dim : a) dim.symbolic ? ++symbols : static_cast<int>(product *= dim.value);
  for (size_t i = 0; i < b.size(); ++i) {
    b[i].symbolic ? --symbols : static_cast<int>(other *= b[i].value);
    if (b[i].symbolic && i > 0) return false;
  }
  return product == other && symbols == 0;
}

bool Has16Bits(DType dtype) { return dtype == DType::kBF16 || dtype == DType::kF16; }

// Attention that ends with one product.
class Finder {
 public:
  Finder(const Chain& chain, const Users& users, ValueId product)
      : chain_(chain), users_(users), product_(product), path_{{product}, {}} {}

  // Whether it is attention that a kernel takes. `refused`: as FindAttention has it.
  bool Run(std::map<ValueId, std::string>* refused) {
    if (BehindSoftmax() && Operands() && End() && Finish()) return true;
    if (!why_.empty() && refused != nullptr) {
      (*refused)[scores_] = (*refused)[product_] = absl::StrCat("as attention: ", why_);
    }
    return false;
  }

  FoundAttention& found() { return found_; }

 private:
  // A step on the way back from the softmax, with the term that it reads, if any, and the dims that
  // scores have there.
  struct FoundStep {
    ScoreStep step;
    ValueId term = -1;
    std::vector<Dim> dims;
  };
  struct Path {
    std::set<ValueId> members;  // ops of the kernel
    std::vector<FoundStep> steps;
  };

  const Op& op(ValueId id) const { return chain_.op(id); }
  ValueId Below(ValueId id) const { return op(id).operands[0]; }
  void Take(ValueId id) { path_.members.insert(id); }
  bool Has(ValueId id) const { return path_.members.count(id) > 0; }

  ValueId SkipWidening(ValueId id) const {
    while (Widens(chain_, op(id))) id = Below(id);
    return id;
  }
  bool Regroups(ValueId id) const {
    return op(id).kind == OpKind::kReshape &&
           KeepsMatrices(op(Below(id)).type.dims, op(id).type.dims);
  }
  // Below casts to f32 and reshapes that leave each batch's matrix as it is, which are taken.
  ValueId SkipRegrouping(ValueId id) {
    for (; Widens(chain_, op(id)) || Regroups(id); id = Below(id)) Take(id);
    return id;
  }

  // The operand of the reduction of the last axis that `id` spreads over it again; -1: none. Takes
  // what is between. `*bound`: the number that the statistic is at least, as its maximum with that
  // one; else kept.
  ValueId StatisticAt(ValueId id, ReduceKind kind, double* bound) {
    const std::vector<Dim>& dims = op(id).type.dims;
    const auto below = [&] {
      Take(id);
      id = Below(id);
    };
    if (op(id).kind != OpKind::kBroadcast) return -1;
    below();
    // One number a row, with the last axis.
    std::vector<Dim> rows = dims;
    rows.back() = Dim::Constant(1);
    if (op(id).type.dims != rows) return -1;
    if (op(id).kind == OpKind::kReshape) below();
    if (IsBinary(op(id), BinaryKind::kMax)) {
      const std::vector<ValueId>& sides = op(id).operands;
      const bool second = NumberAt(chain_, sides[1], bound);
      if (!second && !NumberAt(chain_, sides[0], bound)) return -1;
      Take(id);
      id = sides[second ? 0 : 1];
      if (op(id).kind == OpKind::kReshape) below();
    }
    const Op& reduce = op(id);
    const bool fits = reduce.kind == OpKind::kReduce && reduce.reduce == kind &&
                      reduce.type.dtype == DType::kF32 &&
                      reduce.axes == std::vector<int32_t>{static_cast<int32_t>(dims.size()) - 1} &&
                      op(Below(id)).type.dims == dims;
    if (!fits) return -1;
    below();
    return id;
  }

  bool BehindSoftmax() {
    ValueId id = SkipRegrouping(Below(product_));
    problem_.element = op(id).type.dtype;
    const bool rounded = Has16Bits(problem_.element) && op(id).kind == OpKind::kCast &&
                         op(Below(id)).type.dtype == DType::kF32;
    if (rounded) {
      Take(id);
      id = SkipRegrouping(Below(id));
    }
    const Op& quotient = op(id);
    if (!IsBinary(quotient, BinaryKind::kDiv)) return false;
    Take(id);
    const ValueId powers = quotient.operands[0];
    double least_sum = 0, least_score = -kInfinity;
    if (StatisticAt(quotient.operands[1], ReduceKind::kSum, &least_sum) != powers) return false;
    if (!IsUnary(op(powers), UnaryKind::kExp)) return false;
    Take(powers);
    const Op& difference = op(Below(powers));
    if (!IsBinary(difference, BinaryKind::kSub)) return false;
    Take(Below(powers));
    const ValueId scores = difference.operands[0];
    if (StatisticAt(difference.operands[1], ReduceKind::kMax, &least_score) != scores) return false;
    if (!Bounds(least_score, least_sum)) return false;
    if (!rounded) {
      return NoneFrom(scores, absl::StrCat("the probabilities ", Text(id), " are f32, must be ",
                                           "bf16 or f16: cast them to the dtype of v"));
    }
    // All of a score's dims: digits are counted in those of the product.
    return Scores(scores, kMostWalk) || NoPath();
  }

  // Notes which op keeps scores from being those of a product, if there is one below it.
  bool NoPath() {
    for (size_t i = 0; i < stuck_.size() && why_.empty(); ++i) {
      const ValueId id = stuck_[i];
      NoneFrom(id, op(id).kind == OpKind::kMatmul
                       ? absl::StrCat("the product of q and k ", Text(id),
                                      " has q transposed: give the rows of q")
                       : absl::StrCat(Text(id), " is between the product of q and k and the ",
                                      "softmax, where kernels take scales, casts, added terms ",
                                      "and masks", kMatricesAlone));
    }
    return false;
  }

  // Notes why no kernel takes scores that are made of `from`. Does nothing without a product below.
  bool NoneFrom(ValueId from, std::string why) {
    std::set<ValueId> seen;
    std::vector<ValueId> open = {from};
    while (!open.empty() && seen.size() < kMostVisits) {
      const ValueId id = open.back();
      open.pop_back();
      if (op(id).kind == OpKind::kMatmul && op(id).type.rank() >= 3) {
        scores_ = id;
        why_ = std::move(why);
        return false;
      }
      if (!seen.insert(id).second) continue;
      open.insert(open.end(), op(id).operands.rbegin(), op(id).operands.rend());
    }
    return false;
  }

  // Whether the bounds of a row's largest score and of its sum of powers change a row without keys
  // alone: powers of 0, then, are divided by a number. A sum is 1 or more otherwise.
  bool Bounds(double least_score, double least_sum) {
    problem_.zero_overflowed = static_cast<float>(least_score) == kLeastBase2Score;
    problem_.zero_unseen = (least_score == kLeastFloat || problem_.zero_overflowed) &&
                           least_sum > 0 && least_sum <= 0.5;
    return problem_.zero_unseen || (least_score == -kInfinity && least_sum == 0);
  }

  // Walks back from `id` to the product of q and k. Keeps the path where it arrives.
  bool Scores(ValueId id, int left) {
    if (left == 0 || budget_ == 0) return false;
    --budget_;
    Path before = path_;
    const size_t stuck = stuck_.size();
    Take(id);
    if (Step(id, left - 1)) return true;
    path_ = std::move(before);
    if (stuck_.size() == stuck) stuck_.push_back(id);
    return false;
  }
  // The same from `below` a step.
  bool Scores(FoundStep step, ValueId below, int left) {
    path_.steps.push_back(std::move(step));
    if (Scores(below, left)) return true;
    path_.steps.pop_back();
    return false;
  }

  bool Step(ValueId id, int left) {
    const Op& at = op(id);
    switch (at.kind) {
      case OpKind::kMatmul:
        scores_ = id;
        return at.type.rank() >= 3 && !at.transpose_a;
      case OpKind::kCast: {
        const DType from = op(Below(id)).type.dtype;
        if (!IsFloat(from) || !IsFloat(at.type.dtype)) return false;
        if (!Has16Bits(at.type.dtype) || at.type.dtype == from) return Scores(Below(id), left);
        return Scores({{ScoreStep::kRound, 0, at.type.dtype, {}}, -1, {}}, Below(id), left);
      }
      case OpKind::kReshape:
        return Regroups(id) && Scores(Below(id), left);
      case OpKind::kBinary:
        return Binary(at, left);
      case OpKind::kSelect:
        return Select(at, left);
      default:
        return false;
    }
  }

  bool Binary(const Op& at, int left) {
    if (at.type.dtype != DType::kF32) return false;
    const bool product = at.binary == BinaryKind::kMul;
    const size_t sides = product ? 2 : at.binary == BinaryKind::kDiv ? 1 : 0;
    double number = 0;
    for (size_t i = 0; i < sides; ++i) {
      if (!NumberAt(chain_, at.operands[1 - i], &number)) continue;
      const double scale = product ? number : 1 / number;
      return Scores({{ScoreStep::kScale, scale, DType::kF32, {}}, -1, {}}, at.operands[i], left);
    }
    if (at.binary != BinaryKind::kAdd) return false;
    for (size_t i = 0; i < 2; ++i) {
      const FoundStep add{{ScoreStep::kAdd, 0, DType::kF32, {}}, at.operands[1 - i], at.type.dims};
      if (Scores(add, at.operands[i], left)) return true;
    }
    return false;
  }

  bool Select(const Op& at, int left) {
    const ValueId condition = at.operands[0];
    double number = 0;
    for (const bool keeps : {true, false}) {
      const ValueId score = at.operands[keeps ? 1 : 2];
      if (!NumberAt(chain_, at.operands[keeps ? 2 : 1], &number)) continue;
      int64_t diagonal = 0;
      const bool finite = std::isfinite(static_cast<float>(number));
      if (!problem_.causal && HidesBehindSteps(number) &&
          IsCausal(chain_, condition, at.type.dims, keeps, &diagonal) &&
          (diagonal >= 0 || !finite)) {
        const Path before = path_;
        problem_.causal = true;
        problem_.diagonal = diagonal;
        const bool arrives = Scores(score, left);
        if (arrives && (!finite || AreFarAbove(before.steps.size()))) {
          AddCone(condition);
          return true;
        }
        problem_.causal = false;
        problem_.diagonal = 0;
        if (!arrives) continue;
        path_ = before;
      }
      const ScoreStep::Kind kind = keeps ? ScoreStep::kSelect : ScoreStep::kHide;
      const FoundStep step{{kind, number, DType::kPred, {}}, condition, at.type.dims};
      if (Scores(step, score, left)) return true;
    }
    return false;
  }

  // Whether a score of `number` has no share after the steps found so far, which come after it:
  // then the kernel may hide it last.
  bool HidesBehindSteps(double number) const {
    auto x = static_cast<float>(number);
    for (auto found = path_.steps.rbegin(); found != path_.steps.rend(); ++found) {
      const ScoreStep& step = found->step;
      const auto by = static_cast<float>(step.number);
      switch (step.kind) {
        case ScoreStep::kScale:
          if (!(by > 0) || !std::isfinite(by)) return false;
          x *= by;
          break;
        case ScoreStep::kRound:
          if (std::isfinite(x) && step.dtype == DType::kF16) return false;
          break;
        case ScoreStep::kAdd:
          if (std::isfinite(x)) return false;
          break;
        case ScoreStep::kSelect:
        case ScoreStep::kHide:
          if (std::isfinite(x) || step.number != -kInfinity) return false;
          break;
      }
    }
    return x <= kHiddenBelow;
  }

  // Whether the scores that result from the steps from `first` on, applied to products, are far
  // above kHiddenBelow.
  bool AreFarAbove(size_t first) const {
    return std::all_of(path_.steps.begin() + static_cast<std::ptrdiff_t>(first), path_.steps.end(),
                       [](const FoundStep& found) {
                         const ScoreStep& step = found.step;
                         if (step.kind == ScoreStep::kRound) return step.dtype != DType::kF16;
                         return step.kind == ScoreStep::kScale &&
                                std::abs(step.number) <= kMostScale;
                       });
  }

  // Notes `id` and the values that it is computed from; Finish takes the ones that only the kernel
  // reads.
  void AddCone(ValueId id) {
    if (op(id).kind == OpKind::kInput || !cone_.insert(id).second) return;
    for (const ValueId operand : op(id).operands) AddCone(operand);
  }

  // Where an operand of 16 bits lies, of which the last two axes are a matrix.
  bool Operand(absl::string_view name, ValueId id, bool turned, std::vector<Dim> batches,
               BatchedMatrix* matrix) {
    id = SkipWidening(id);
    // Below a reshape of batches, whose numbers it keeps, a head may be one of a group that shares
    // its keys.
    ValueId below = id;
    while (Regroups(below)) below = Below(below);
    if (below != id && SameBatches(batches, BatchesOf(op(below).type.dims))) {
      id = below;
      batches = BatchesOf(op(below).type.dims);
    }
    if (op(id).type.dtype != problem_.element) {
      return No(name, " ", Text(id), " is ", NameOf(op(id).type.dtype), ", must be ",
                NameOf(problem_.element), " as the probabilities are: cast it");
    }
    const LaidOut at = LayoutOf(chain_, id);
    found_.inputs.push_back({at.base, at.layout.offset});
    if (at.layout.offset * SizeOf(problem_.element) % 16 != 0) {
      return No(name, " ", Text(id), " begins ", at.layout.offset, " elements into ", Text(at.base),
                ", must be at a multiple of 8 (16 bytes): copy it");
    }
    return ToBatched(at.layout, turned, batches, matrix) || LiesApart(name, id);
  }

  template <typename... Pieces>
  bool No(const Pieces&... pieces) {
    why_ = absl::StrCat(pieces...);
    return false;
  }
  bool LiesApart(absl::string_view name, ValueId id) {
    return No(name, " ", Text(id), " has no strides as a matrix of each batch, or ones ",
              "with M, which only the first axis may have: copy it");
  }
  std::string Text(ValueId id) const { return absl::StrCat("(op ", id, ", ", NameOf(op(id)), ")"); }

  bool Operands() {
    const Op& first = op(scores_);
    const Op& second = op(product_);
    const std::vector<Dim>& dims = first.type.dims;
    const std::vector<Dim> batches = BatchesOf(dims), own = BatchesOf(second.type.dims);
    for (size_t i = 1; i < dims.size(); ++i) {
      if (!dims[i].symbolic) continue;
      return No("axis ", i, " of the scores ", Text(scores_), " is M, which may be axis 0 alone");
    }
    if (!SameBatches(batches, own)) {
      return No("the batches of ", Text(product_), " are not those of the scores ", Text(scores_));
    }
    AttentionProblem& p = problem_;
    p.rows = dims[dims.size() - 2].value;
    p.keys = dims.back().value;
    const Dim head = chain_.FactorsOf(first), columns = second.type.dims.back();
    if (columns.symbolic) return No("the columns of ", Text(product_), " are M, must be a number");
    p.head = head.symbolic ? 0 : head.value;
    p.value_head = columns.value;
    p.of_m = !batches.empty() && batches[0].symbolic;
    p.batches = 1;
    for (const Dim& dim : batches) {
      if (!dim.symbolic) p.batches *= dim.value;
      if (p.batches < 1 || p.batches > kMaxBatches) {
        return No("batches ", p.batches, ", must be in [1, ", kMaxBatches, "]");
      }
    }
    return Operand("q", first.operands[0], false, batches, &p.q) &&
           Operand("k", first.operands[1], !first.transpose_b, batches, &p.k) &&
           Operand("v", second.operands[1], second.transpose_b, own, &p.v) && TakeSteps();
  }

  bool TakeSteps() {
    for (auto found = path_.steps.rbegin(); found != path_.steps.rend(); ++found) {
      ScoreStep step = found->step;
      if (step.HasTerm() && !TakeTerm(*found, &step)) return false;
      problem_.steps.push_back(std::move(step));
    }
    return true;
  }

  bool TakeTerm(const FoundStep& found, ScoreStep* step) {
    const ValueId id = SkipWidening(found.term);
    if (op(id).type.rank() == 0) return No("a term ", Text(id), " is one number: broadcast it");
    LaidOut at = LayoutOf(chain_, id);
    step->dtype = op(at.base).type.dtype;
    const bool adds = step->kind == ScoreStep::kAdd;
    if (adds ? !IsFloat(step->dtype) : step->dtype != DType::kPred) {
      return No("a term ", Text(at.base), " is ", NameOf(step->dtype), ", must be ",
                adds ? "f32, bf16 or f16" : "pred");
    }
    const int64_t offset = at.layout.offset;
    found_.inputs.push_back({at.base, offset});
    SpreadTo(found.dims, &at.layout);
    if (!ToBatched(at.layout, false, BatchesOf(found.dims), &step->term)) {
      return LiesApart("a term", id);
    }
    if (step->term.column == 1 && offset % 2 != 0) {
      return No("a term ", Text(id), " begins ", offset, " elements into ", Text(at.base),
                ", must be even: copy it");
    }
    return true;
  }

  // The last value after the product that can be stored in its place, and its layout.
  bool End() {
    std::vector<ValueId> path = {product_};
    bool rounded = false;
    while (path.size() < kMostWalk) {
      const ValueId next = users_.Only(path.back());
      if (next < 0) break;
      const OpKind kind = op(next).kind;
      const bool cast =
          kind == OpKind::kCast && !rounded && op(next).type.dtype == problem_.element;
      if (!cast && kind != OpKind::kReshape && kind != OpKind::kTranspose) break;
      rounded = rounded || cast;
      path.push_back(next);
    }
    const std::vector<Dim> batches = BatchesOf(op(product_).type.dims);
    for (; !path.empty(); path.pop_back()) {
      const ValueId end = path.back();
      problem_.result = op(end).type.dtype;
      if (problem_.result != DType::kF32 && problem_.result != problem_.element) continue;
      NormalLayout layout;
      bool fits = ResultLayout(chain_, end, &layout);
      for (size_t i = path.size(); fits && i-- > 1;) {
        fits = Unview(op(path[i]), op(path[i - 1]).type.dims, &layout);
      }
      if (!fits || !ToBatched(layout, false, batches, &problem_.out)) continue;
      if (problem_.out.column != 1) continue;
      found_.end = end;
      for (const ValueId value : path) Take(value);
      return true;
    }
    return No("the result ", Text(product_), " is not stored once, as ", NameOf(problem_.element),
              " or f32, in rows without gaps in a buffer ", "of its own: store a copy");
  }

  // Whether nobody else reads what is inside, and the kernel takes it.
  bool Finish() {
    for (const AttentionInput& input : found_.inputs) {
      if (!Has(input.value)) continue;
      return No("it reads ", Text(input.value), ", which is inside, as an operand");
    }
    for (const ValueId value : path_.members) {
      if (value == found_.end) continue;
      if (users_.IsOutput(value)) return No(Text(value), " is inside, and an output");
      for (const ValueId user : users_.Of(value)) {
        if (Has(user)) continue;
        return No(Text(value), " is inside, and ", Text(user), " outside reads it");
      }
    }
    for (auto at = cone_.rbegin(); at != cone_.rend(); ++at) {
      if (users_.AreAmong(path_.members, *at)) Take(*at);
    }
    AttentionProblem& p = problem_;
    if (p.rows == 1) p.q.row = p.head, p.out.row = p.value_head;  // no stride matters
    if (p.keys == 1) p.k.row = p.head, p.v.row = p.value_head;
    p.JoinSharedKeys();
    const absl::Status fits = p.Check();
    if (!fits.ok()) {
      const absl::string_view why = absl::StripPrefix(fits.message(), "attention: ");
      return No(why, absl::StrContains(why, ": ") ? "" : kMatricesAlone);
    }
    found_.values.assign(path_.members.begin(), path_.members.end());
    return true;
  }

  const Chain& chain_;
  const Users& users_;
  const ValueId product_;  // the second one
  Path path_;
  std::set<ValueId> cone_;  // what a causal mask is computed from
  ValueId scores_ = -1;     // the product of q and k
  size_t budget_ = kMostVisits;
  std::vector<ValueId> stuck_;  // scores at which a search among sums went no further
  std::string why_;             // no kernel takes it
  FoundAttention found_;
  AttentionProblem& problem_ = found_.problem;
};

}  // namespace

std::vector<FoundAttention> FindAttention(const Chain& chain,
                                          std::map<ValueId, std::string>* refused) {
  const Users users(chain);
  std::vector<FoundAttention> all;
  std::set<ValueId> taken;
  for (ValueId id = 0; id < static_cast<ValueId>(chain.ops().size()); ++id) {
    const Op& op = chain.op(id);
    if (op.kind != OpKind::kMatmul || op.type.rank() < 3 || op.transpose_a) continue;
    Finder finder(chain, users, id);
    if (!finder.Run(refused)) continue;
    const std::vector<ValueId>& values = finder.found().values;
    const bool free = std::none_of(values.begin(), values.end(),
                                   [&](ValueId value) { return taken.count(value) > 0; });
    if (!free) continue;
    taken.insert(values.begin(), values.end());
    all.push_back(std::move(finder.found()));
  }
  return all;
}

}  // namespace sinter
