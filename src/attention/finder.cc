#include <algorithm>
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
      : chain_(chain), users_(users), product_(product), members_{product} {}

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
  const Op& op(ValueId id) const { return chain_.op(id); }
  ValueId Below(ValueId id) const { return op(id).operands[0]; }
  void Take(ValueId id) { members_.insert(id); }
  bool Has(ValueId id) const { return members_.count(id) > 0; }

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
    return Scores(scores) || NoPath();
  }

  // Notes which op keeps scores from being those of a product, if there is one below it.
  bool NoPath() {
    for (size_t i = 0; i < stuck_.size() && why_.empty(); ++i) {
      const ValueId id = stuck_[i];
      NoneFrom(id, op(id).kind == OpKind::kMatmul
                       ? absl::StrCat("the product of q and k ", Text(id),
                                      " has q transposed: give the rows of q")
                       : absl::StrCat(Text(id), " is between the product of q and k and the ",
                                      "softmax, where kernels take element-wise ops ",
                                      "that keep no array", kMatricesAlone));
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

  // Finds the product of q and k below the softmax's operand, and the values between.
  bool Scores(ValueId id) {
    if (!FindProduct(id) || !Carries(id)) return false;
    for (const auto& [value, carries] : carries_) {
      if (carries) between_.push_back(value);
    }
    members_.insert(between_.begin(), between_.end());
    const CausalMask mask = FindCausalMask(chain_, users_, scores_, between_);
    problem_.causal = mask.select >= 0;
    problem_.diagonal = mask.diagonal;
    causal_ = mask.select;
    if (problem_.causal) AddCone(chain_, mask.condition, &cone_);
    return true;
  }

  bool FindProduct(ValueId id) {
    if (visited_.size() >= kMostVisits || !visited_.insert(id).second) return false;
    const Op& at = op(id);
    if (at.kind == OpKind::kMatmul && at.type.rank() >= 3 && !at.transpose_a) {
      scores_ = id;
      return true;
    }
    const size_t stuck = stuck_.size();
    const bool arrives = IsOfScores(id) && std::any_of(at.operands.begin(), at.operands.end(),
                                                       [&](ValueId x) { return FindProduct(x); });
    if (!arrives && stuck_.size() == stuck) stuck_.push_back(id);
    return arrives;
  }

  // Whether kernels compute it of one score.
  bool IsOfScores(ValueId id) const {
    const Op& at = op(id);
    const DType dtype = at.type.dtype;
    switch (at.kind) {
      case OpKind::kCast:
        return IsFloat(op(Below(id)).type.dtype) && IsFloat(dtype);
      case OpKind::kReshape:
        return Regroups(id);
      case OpKind::kUnary:
      case OpKind::kBinary:
        return IsInPrograms(at);
      case OpKind::kSelect:
        return dtype == DType::kF32 || dtype == DType::kPred;
      default:
        return at.kind == OpKind::kCompare;
    }
  }

  // Whether it is made of the product of q and k.
  bool Carries(ValueId id) {
    if (id == scores_) return carries_[id] = true;
    if (carries_.size() >= kMostVisits || !IsOfScores(id)) return false;
    const auto [known, fresh] = carries_.try_emplace(id, false);
    if (!fresh) return known->second;
    bool carries = false;
    for (const ValueId operand : op(id).operands) carries |= Carries(operand);
    return carries_[id] = carries;
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
           Operand("v", second.operands[1], second.transpose_b, own, &p.v) && TakeProgram();
  }

  bool TakeProgram() {
    absl::StatusOr<FoundScores> made = ScoresOf(chain_, between_, causal_);
    if (!made.ok()) return No(made.status().message());
    problem_.program = std::move(made->program);
    problem_.terms = std::move(made->terms);
    found_.inputs.insert(found_.inputs.end(), made->inputs.begin(), made->inputs.end());
    cone_.insert(made->inside.begin(), made->inside.end());
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
    for (const ValueId value : members_) {
      if (value == found_.end) continue;
      if (users_.IsOutput(value)) return No(Text(value), " is inside, and an output");
      for (const ValueId user : users_.Of(value)) {
        if (Has(user)) continue;
        return No(Text(value), " is inside, and ", Text(user), " outside reads it");
      }
    }
    for (auto at = cone_.rbegin(); at != cone_.rend(); ++at) {
      if (users_.AreAmong(members_, *at)) Take(*at);
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
    found_.values.assign(members_.begin(), members_.end());
    return true;
  }

  const Chain& chain_;
  const Users& users_;
  const ValueId product_;      // the second one
  std::set<ValueId> members_;  // ops of the kernel
  // What masks and terms that it computes are computed from; Finish takes the ones that only the
  // kernel reads.
  std::set<ValueId> cone_;
  ValueId scores_ = -1;              // the product of q and k
  ValueId causal_ = -1;              // the selection of problem_.causal
  std::set<ValueId> visited_;        // by FindProduct
  std::map<ValueId, bool> carries_;  // Carries
  std::vector<ValueId> between_;     // made of scores_, from it to the softmax's operand, ascending
  std::vector<ValueId> stuck_;       // values at which FindProduct went no further
  std::string why_;                  // no kernel takes it
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
