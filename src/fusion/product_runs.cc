#include "src/fusion/product_runs.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "src/base/status.h"
#include "src/chain/linear_finder.h"
#include "src/fusion/stitch/stitch_graph.h"
#include "src/standin/stand_in.h"

namespace sinter {
namespace {

constexpr size_t kMostTailSteps = 8;  // ends tried after one product
constexpr size_t kMostValues = 64;    // of one product with its tail
constexpr int64_t kMostNormBucket = 64;

bool IsComputed(OpClass op_class) {
  return op_class == OpClass::kLight || op_class == OpClass::kExpensive;
}

class Finder {
 public:
  Finder(const Chain& chain, int64_t bucket, Pace* pace, Absorbed absorbed)
      : chain_(chain),
        graph_(chain),
        linear_(graph_),
        matcher_(chain, bucket),
        users_(matcher_.users()),
        claimed_(chain.ops().size(), false),
        pace_(pace),
        absorbed_(absorbed) {
    for (ValueId user = 0; user < static_cast<ValueId>(chain.ops().size()); ++user) {
      FoundQuantizer found;
      if (QuantizerAt(graph_, user, &found)) {
        quantizers_[SkipWidening(found.x)] = {user, found};
      }
    }
  }

  ProductRuns Run() {
    // Products take what families of their own leave.
    own_ = FindOwnRuns(chain_, absorbed_, &claimed_, &result_.refused);
    for (const GraphRun& run : own_) {
      matcher_.Note(run);
      result_.four_bits |= run.four_bits;
    }
    for (ValueId v = 0; v < static_cast<ValueId>(chain_.ops().size()); ++v) {
      const OpKind kind = chain_.op(v).kind;
      const bool product =
          kind == OpKind::kMatmul || kind == OpKind::kScaledMatmul || kind == OpKind::kConv2d;
      if (product && !claimed_[At(v)]) FindOne(v);
    }
    result_.not_optional = WhyNotOptional(chain_, result_.refused);
    std::move(own_.begin(), own_.end(), std::back_inserter(result_.runs));
    std::sort(result_.runs.begin(), result_.runs.end(), [](const GraphRun& a, const GraphRun& b) {
      return a.values.front() < b.values.front();
    });
    return std::move(result_);
  }

 private:
  using Values = RunMatcher::Values;

  // A product and the ops that follow it.
  struct Tail {
    Values members;
    ValueId end = -1;  // what they compute
    Values aux;        // outputs among them, but the end
  };

  static size_t At(ValueId value) { return static_cast<size_t>(value); }

  ValueId SkipWidening(ValueId value) const { return linear_.SkipWidening(value); }

  void FindOne(ValueId product) {
    Tail tail{{product}, product, {}};
    absl::StatusOr<GraphRun> best = Try(product, tail);
    absl::StatusOr<GraphRun> codes = Quantized(best);
    for (size_t step = 0; !codes.ok() && step < kMostTailSteps && Extend(&tail); ++step) {
      absl::StatusOr<GraphRun> longer = Try(product, tail);
      if (best.ok() && !longer.ok() && tail.aux.empty() && !MayLeadOn(tail)) break;
      if (!longer.ok() || LosesStandIn(best, *longer)) continue;
      if (best.ok() && OnlyWidens(tail.end)) continue;
      if (!longer->aux.empty() && LeadsOn(tail)) continue;
      best = std::move(longer);
      codes = Quantized(best);
    }
    if (!best.ok()) {
      result_.refused[product] = std::string(best.status().message());
      return;
    }
    if (codes.ok()) best = std::move(codes);
    absl::StatusOr<GraphRun> own = absl::NotFoundError("not asked for");
    if (absorbed_.four_bits) own = FourBitRunOf(chain_, users_, claimed_, *best);
    result_.four_bits |= own.ok();
    if (absorbed_.mma) own = MmaRunOf(chain_, *best);
    if (own.ok()) best = std::move(own);
    for (ValueId value : best->values) claimed_[At(value)] = true;
    if (best->IsOwn()) {
      matcher_.Note(*best);
      own_.push_back(*std::move(best));
    } else {
      Append(*std::move(best));
    }
  }

  // Whether readers of `end` can widen what is stored before it, in fewer bytes.
  bool OnlyWidens(ValueId end) const {
    return chain_.op(end).kind == OpKind::kCast && ClassOf(chain_, end) == OpClass::kView &&
           !users_.IsOutput(end);
  }

  // Whether ops after a tail belong to another kernel that could also take the ops before them.
  // Then auxiliary results save no kernel.
  bool LeadsOn(Tail tail) const {
    tail.aux.clear();  // only outputs of the ops ahead count
    return !users_.IsOutput(tail.end) && Extend(&tail);
  }

  // Whether a stand-in takes `shorter` and none takes `longer`.
  bool LosesStandIn(const absl::StatusOr<GraphRun>& shorter, const GraphRun& longer) const {
    return absorbed_.stand_ins && shorter.ok() && CheckStandIn(shorter->matched.sequence).ok() &&
           !CheckStandIn(longer.matched.sequence).ok();
  }

  // The run with the quantiser of its result.
  absl::StatusOr<GraphRun> Quantized(const absl::StatusOr<GraphRun>& found) const {
    return found.ok() ? Quantized(*found) : found.status();
  }
  absl::StatusOr<GraphRun> Quantized(const GraphRun& run) const {
    const auto found = quantizers_.find(run.end);
    if (found == quantizers_.end() || !IsCode(run.matched.sequence.element()) || !run.aux.empty() ||
        absorbed_.mma) {
      return absl::NotFoundError("no quantiser of its result");
    }
    const ValueId codes = found->second.first;
    Values members(run.values.begin(), run.values.end());
    ValueId scale = -1;
    if (!TakeQuantizer(run.end, codes, found->second.second, &members, &scale)) {
      return absl::NotFoundError("its result or what its quantiser computes is used outside");
    }
    const ValueId a = run.matched.ValueOf(run.matched.rows);
    const DType weights = run.matched.sequence.element();
    SINTER_ASSIGN_OR_RETURN(GraphRun whole, matcher_.Match(members, a, weights, codes));
    if (whole.matched.limits >= 0 && scale < 0) return absl::NotFoundError("no scale");
    if (!absorbed_.groups && HasGroups(whole)) return absl::NotFoundError("left to another kernel");
    whole.scale = scale;
    return whole;
  }

  // Adds the ops from `x` to its codes and their scale. False where others use any but those two,
  // or use the scale without the codes.
  bool TakeQuantizer(ValueId x, ValueId codes, const FoundQuantizer& quantizer, Values* members,
                     ValueId* scale) const {
    Values inside;
    AddBelow(chain_, codes, x, &inside);
    for (const ValueId user : quantizer.limits < 0 ? Values() : ScalesOf(quantizer)) {
      if (*scale >= 0) return false;
      *scale = user;
      AddBelow(chain_, user, x, &inside);
    }
    for (const ValueId value : inside) {
      if (claimed_[At(value)]) return false;
      if (value == codes) continue;
      const bool fits = value == *scale ? ReadWithCodes(value, codes, inside)
                                        : UsedOnlyByThroughViews(value, inside);
      if (!fits) return false;
    }
    members->insert(inside.begin(), inside.end());
    return UsedOnlyByThroughViews(x, *members);
  }

  Values ScalesOf(const FoundQuantizer& quantizer) const {
    Values scales;
    for (ValueId value = 0; value < static_cast<ValueId>(chain_.ops().size()); ++value) {
      if (IsScaleOfGroups(graph_, quantizer, value)) scales.insert(value);
    }
    return scales;
  }

  // Whether only products of `codes` read `scale`, through views, besides the values `inside`.
  bool ReadWithCodes(ValueId scale, ValueId codes, const Values& inside) const {
    if (users_.IsOutput(scale)) return false;
    for (const ValueId user : users_.Of(scale)) {
      if (inside.count(user) > 0) continue;
      const Op& op = chain_.op(user);
      const bool product = op.kind == OpKind::kScaledMatmul && op.operands[0] == codes;
      if (product ||
          (ClassOf(chain_, user) == OpClass::kView && ReadWithCodes(user, codes, inside))) {
        continue;
      }
      return false;
    }
    return true;
  }

  // Whether a tail, which is not a product step, may become one: before an addition (widening),
  // before the rounding of a sum, or inside ops with a value that another kernel computes.
  bool MayLeadOn(const Tail& tail) const {
    return ClassOf(chain_, tail.end) == OpClass::kView || IsSum(chain_.op(tail.end)) ||
           ResidualOf(tail.members) >= 0 || !MatricesOf(tail.members, tail.end).empty();
  }
  static bool IsSum(const Op& op) { return IsBinary(op, BinaryKind::kAdd); }

  // Moves the end to the next op through which all its uses pass. Outputs that it passes are
  // auxiliary results.
  bool Extend(Tail* tail) const {
    Values pending(users_.Of(tail->end).begin(), users_.Of(tail->end).end()), added;
    if (pending.empty()) return false;
    Values& aux = tail->aux;
    if (users_.IsOutput(tail->end)) aux.insert(tail->end);
    for (;;) {
      const ValueId value = *pending.begin();
      pending.erase(pending.begin());
      const OpClass op_class = ClassOf(chain_, value);
      if (claimed_[At(value)] || !(IsComputed(op_class) || op_class == OpClass::kView)) {
        return false;
      }
      added.insert(value);
      if (pending.empty()) {
        tail->members.insert(added.begin(), added.end());
        tail->end = value;
        return tail->members.size() <= kMostValues && aux.size() <= kMostAuxResults;
      }
      if (users_.IsOutput(value)) aux.insert(value);
      if (aux.size() > kMostAuxResults || added.size() > kMostValues) return false;
      pending.insert(users_.Of(value).begin(), users_.Of(value).end());
    }
  }

  // Adds the values that only members use, down to the rows `a`, `residual` and row factors: the
  // other product of a gated pair, and the ops that scale the rows. Where `aux` is not null, the
  // other product may also be an output, which is added to `aux`.
  void Close(ValueId a, ValueId residual, Values* members, Values* aux) const {
    std::vector<ValueId> open(members->begin(), members->end());
    while (!open.empty() && members->size() <= kMostValues) {
      const ValueId value = open.back();
      open.pop_back();
      for (ValueId operand : chain_.op(value).operands) {
        const OpClass op_class = ClassOf(chain_, operand);
        if (linear_.SpreadColumnAt(operand) >= 0 || IsScaleOf(value, operand)) continue;
        if (matcher_.IsComputedWeight(operand)) continue;
        const bool candidate = IsComputed(op_class) || op_class == OpClass::kProduct;
        if (op_class == OpClass::kView && operand != a && members->count(operand) == 0) {
          if (users_.AreAmong(*members, operand)) open.push_back(operand);
          continue;
        }
        if (operand == a || operand == residual || !candidate || claimed_[At(operand)]) continue;
        const Values outputs = aux == nullptr ? Values() : OutputsOfHalf(operand, *members);
        if (outputs.empty() && !UsedOnlyByThroughViews(operand, *members)) continue;
        for (const ValueId output : outputs) {
          aux->insert(output);
          members->insert(output);
        }
        if (members->insert(operand).second || !outputs.empty()) open.push_back(operand);
      }
    }
  }

  // Adds the values of a factor that is the norm of the rows `a`, unless others use one of them.
  void TakeNorm(ValueId a, Values* members) const {
    for (const ValueId value : Values(*members)) {
      for (const ValueId operand : chain_.op(value).operands) {
        const ValueId column = linear_.SpreadColumnAt(operand);
        RowNorm norm;
        if (column < 0 || !linear_.NormAt(column, &norm) || norm.rows != a) continue;
        Values with = *members;
        bool alone = true;
        for (const ValueId part : norm.values) {
          alone = alone && !claimed_[At(part)] && UsedOnlyByThroughViews(part, with);
          with.insert(part);
        }
        if (alone) *members = std::move(with);
      }
    }
  }

  // Whether `operand` dequantises what `product` multiplies: other kernels make it.
  bool IsScaleOf(ValueId product, ValueId operand) const {
    const Op& op = chain_.op(product);
    return op.kind == OpKind::kScaledMatmul &&
           (operand == op.operands[2] || operand == op.operands[3]);
  }

  // Whether `value` is a product, scaled and biased or not, perhaps rounded.
  bool IsHalf(ValueId value) const {
    const Op& op = chain_.op(value);
    Linear found;
    return linear_.LinearAt(SkipWidening(op.kind == OpKind::kCast ? op.operands[0] : value),
                            &found);
  }

  // The outputs of the chain that store `half` of a pair: itself, or a cast of it that no op reads.
  // Empty if an op that is not a member reads the half.
  Values OutputsOfHalf(ValueId half, const Values& members) const {
    if (!IsHalf(half)) return {};
    Values outputs, with = members;
    if (users_.IsOutput(half)) outputs.insert(half);
    for (const ValueId user : users_.Of(half)) {
      const bool stored = chain_.op(user).kind == OpKind::kCast && users_.IsOutput(user);
      if (members.count(user) > 0 || !stored || !users_.Of(user).empty()) continue;
      outputs.insert(user);
      with.insert(user);
    }
    return ReadOnlyBy(half, with) ? outputs : Values();
  }

  bool UsedOnlyByThroughViews(ValueId value, const Values& members) const {
    return !users_.IsOutput(value) && ReadOnlyBy(value, members);
  }
  bool ReadOnlyBy(ValueId value, const Values& members) const {
    for (ValueId user : users_.Of(value)) {
      if (members.count(user) > 0) continue;
      if (ClassOf(chain_, user) != OpClass::kView || !users_.AreAmong(members, user)) return false;
    }
    return true;
  }

  absl::StatusOr<GraphRun> Try(ValueId product, const Tail& tail) const {
    Step(pace_, static_cast<int64_t>(kMostValues));
    const Op& op = chain_.op(product);
    const ValueId weight = matcher_.WeightOf(product);
    if (op.kind == OpKind::kMatmul && chain_.op(op.operands[1]).type.rank() > 2) {
      return absl::InvalidArgumentError(
          "it is a batch of products that are too large for threads, and no attention that one "
          "kernel takes: leave it to a kernel of batched products, and plan what is before and "
          "behind it");
    }
    const DType dtype = chain_.op(weight).type.dtype;
    const ValueId rows = SkipWidening(op.operands[0]);
    const ValueId unscaled = BelowFactor(rows, dtype);
    if (unscaled >= 0) {
      absl::StatusOr<GraphRun> scaled = TryFrom(unscaled, dtype, tail);
      if (scaled.ok()) return scaled;
    }
    return TryFrom(rows, dtype, tail);
  }

  // The value that `rows` are before their multiplication by a row factor, if it is stored as
  // `dtype` and nothing is rounded in between; else -1.
  ValueId BelowFactor(ValueId rows, DType dtype) const {
    double scale = 1;
    ValueId column = -1;
    while (rows >= 0 && column < 0) rows = linear_.SkipScale(rows, &scale, &column);
    if (rows < 0) return -1;
    const bool stored = chain_.op(rows).type.dtype == dtype || matcher_.IsRounded(rows, dtype);
    return stored ? rows : -1;
  }

  absl::StatusOr<GraphRun> TryFrom(ValueId a, DType dtype, const Tail& tail) const {
    absl::StatusOr<GraphRun> run = TryWith(ResidualOf(tail.members), a, dtype, tail);
    if (run.ok()) return run;
    for (const ValueId matrix : MatricesOf(tail.members, tail.end)) {
      Step(pace_, static_cast<int64_t>(kMostValues));
      absl::StatusOr<GraphRun> other = TryWith(matrix, a, dtype, tail);
      if (other.ok()) return other;
    }
    return run;
  }

  // With `matrix` as an operand from another kernel, even if nobody else reads it. First with the
  // other half of a pair among the auxiliary results.
  absl::StatusOr<GraphRun> TryWith(ValueId matrix, ValueId a, DType dtype, const Tail& tail) const {
    Tail pair = tail;
    Close(a, matrix, &pair.members, &pair.aux);
    if (pair.aux.size() > tail.aux.size()) {
      absl::StatusOr<GraphRun> run = MatchClosed(a, dtype, std::move(pair));
      if (run.ok()) return run;
    }
    Tail alone = tail;
    Close(a, matrix, &alone.members, nullptr);
    return MatchClosed(a, dtype, std::move(alone));
  }
  absl::StatusOr<GraphRun> MatchClosed(ValueId a, DType dtype, Tail tail) const {
    if (absorbed_.norms) TakeNorm(a, &tail.members);
    absl::StatusOr<GraphRun> run =
        matcher_.Match(tail.members, a, dtype, tail.end, {tail.aux.begin(), tail.aux.end()});
    if (run.ok() && absorbed_.mma) SINTER_RETURN_IF_ERROR(MmaRunOf(chain_, *run).status());
    return run;
  }

  // What members read of what other kernels compute, with the extents of `end`.
  std::vector<ValueId> MatricesOf(const Values& members, ValueId end) const {
    std::set<ValueId> found;
    for (const ValueId member : members) {
      const OpClass op_class = ClassOf(chain_, member);
      if (!IsComputed(op_class)) continue;
      for (const ValueId operand : chain_.op(member).operands) {
        const ValueId below = SkipWidening(operand);
        const Op& op = chain_.op(below);
        const bool computed = IsStored(below) && op.kind != OpKind::kInput;
        if (computed && members.count(below) == 0 && op.type.dims == chain_.op(end).type.dims) {
          found.insert(below);
        }
      }
    }
    return {found.begin(), found.end()};
  }

  // The operand that the last sum of a member and a value in memory adds; -1 when there is none.
  ValueId ResidualOf(const Values& members) const {
    for (auto value = members.rbegin(); value != members.rend(); ++value) {
      const Op& sum = chain_.op(*value);
      if (!IsSum(sum)) continue;
      const ValueId sides[] = {SkipWidening(sum.operands[0]), SkipWidening(sum.operands[1])};
      const bool inside[] = {members.count(sides[0]) > 0, members.count(sides[1]) > 0};
      const ValueId other = sides[inside[0] ? 1 : 0];
      if (inside[0] != inside[1] && IsStored(other)) return other;
    }
    return -1;
  }
  // An input, or what a kernel may store: no view, no constant.
  bool IsStored(ValueId value) const {
    const OpClass op_class = ClassOf(chain_, value);
    if (op_class == OpClass::kSource) return chain_.op(value).kind == OpKind::kInput;
    return op_class != OpClass::kView;
  }

  // Appends it to the run that computes its rows for it alone, or as a run of its own.
  void Append(GraphRun run) {
    for (GraphRun& before : result_.runs) {
      Step(pace_);
      absl::StatusOr<GraphRun> both = Join(before, run);
      if (!both.ok()) continue;
      matcher_.Note(*both);
      before = *std::move(both);
      return;
    }
    matcher_.Note(run);
    result_.runs.push_back(std::move(run));
  }

  absl::StatusOr<GraphRun> Join(const GraphRun& before, const GraphRun& run) const {
    const ValueId rows = run.matched.ValueOf(run.matched.rows);
    Values members(run.values.begin(), run.values.end());
    if (rows != before.end || !before.aux.empty() || !UsedOnlyByThroughViews(rows, members)) {
      return absl::NotFoundError("not its rows");
    }
    members.insert(before.values.begin(), before.values.end());
    Ask(pace_);
    const ValueId a = before.matched.ValueOf(before.matched.rows);
    SINTER_ASSIGN_OR_RETURN(GraphRun both,
                            matcher_.Match(members, a, run.dtype(), run.end, run.aux));
    if (both.matched.size() != before.matched.size() + run.matched.size()) {
      return absl::NotFoundError("not one sequence");
    }
    return both;
  }

  const Chain& chain_;
  const Subgraph graph_;
  const LinearFinder linear_;
  RunMatcher matcher_;
  const Users& users_;
  std::vector<bool> claimed_;
  std::map<ValueId, std::pair<ValueId, FoundQuantizer>> quantizers_;  // by the quantised value: its
                                                                      // FP8/INT8 values
  Pace* const pace_;
  const Absorbed absorbed_;
  std::vector<GraphRun> own_;  // of families' own
  ProductRuns result_;
};

}  // namespace

void AddBelow(const Chain& chain, ValueId value, ValueId x, std::set<ValueId>* inside) {
  if (value == x || ClassOf(chain, value) == OpClass::kSource) return;
  if (!inside->insert(value).second) return;
  for (const ValueId operand : chain.op(value).operands) AddBelow(chain, operand, x, inside);
}

GraphRun RunOf(const Chain& chain, MatchedSequence matched) {
  GraphRun run;
  run.matched = std::move(matched);
  for (ValueId value = 0; value < static_cast<ValueId>(chain.ops().size()); ++value) {
    if (chain.op(value).kind != OpKind::kInput) run.values.push_back(value);
  }
  run.end = chain.outputs()[0].value;
  run.constant_rows = run.matched.sequence.front().HasTransposedRows();
  return run;
}

bool HasGroups(const GraphRun& run) {
  return run.IsOwn() ? run.scale >= 0 : run.matched.sequence.back().HasGroups();
}

ProductRuns FindProductRuns(const Chain& chain, int64_t bucket, Pace* pace, Absorbed absorbed) {
  absl::StatusOr<MatchedSequence> all = MatchWhole(chain, bucket, absorbed.norms);
  const bool apart = absorbed.mma || (all.ok() && absorbed.stand_ins && HasPrograms(all->sequence));
  if (all.ok() && !apart) return {{RunOf(chain, *std::move(all))}, true, {}, {}, false};
  ProductRuns found = Finder(chain, bucket, pace, absorbed).Run();
  if (found.refused.empty() || absorbed.mma) return found;
  // Where no family takes the sequence, MatchProducts says why, with the chain's operand numbers.
  absl::StatusOr<MatchedSequence> refused = MatchProducts(chain, bucket);
  if (!refused.ok() || refused->sequence.back().HasGroups()) return found;
  return {{RunOf(chain, *std::move(refused))}, true, {}, {}, false};
}

bool MayTakeNorms(const Chain& chain, int64_t bucket) {
  if (bucket > kMostNormBucket) return false;
  return std::any_of(chain.ops().begin(), chain.ops().end(),
                     [](const Op& op) { return IsUnary(op, UnaryKind::kRsqrt); });
}

}  // namespace sinter
