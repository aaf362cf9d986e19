// Grouped products of a chain, with the ops that their kernels take along.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/chain/chain.h"
#include "src/chain/infer.h"
#include "src/chain/linear_finder.h"
#include "src/fusion/four_bit_weights_finder.h"
#include "src/fusion/grouped_end.h"
#include "src/fusion/product_runs.h"
#include "src/fusion/stitch/stitch_graph.h"
#include "src/plan/grouped_family.h"

namespace sinter {
namespace {

// For notes of plans.
std::string NoteOf(const GroupedProduct& p) {
  std::string text = p.IsPair() ? "grouped gated pair" : "grouped product";
  for (const std::string& word : GroupedWords(p)) absl::StrAppend(&text, " + ", word);
  return text;
}

constexpr int64_t kMostSlotsOfAll = int64_t{1} << 30;  // the device counts them in 32 bits

class GroupedFinder {
 public:
  // What products take along where it is optional: quantisers of their results, or what unpacks
  // their weights of four bits.
  enum class Optional { kNothing, kQuantizers, kUnpacking };
  GroupedFinder(const Chain& chain, const std::vector<bool>& claimed, Optional optional)
      : chain_(chain), graph_(chain), users_(chain), claimed_(claimed), optional_(optional) {}

  std::vector<GraphRun> Run(std::map<ValueId, std::string>* refused) {
    std::vector<GraphRun> runs;
    for (ValueId id = 0; id < static_cast<ValueId>(chain_.ops().size()); ++id) {
      if (chain_.op(id).kind != OpKind::kGroupedMatmul || claimed_[At(id)]) continue;
      absl::StatusOr<GraphRun> run = Of(id);
      if (run.ok()) {
        for (const ValueId value : run->values) claimed_[At(value)] = true;
        taken_.push_back(id);
        runs.push_back(*std::move(run));
      } else if (refused != nullptr) {
        (*refused)[id] = std::string(run.status().message());
      }
    }
    return runs;
  }

 private:
  static size_t At(ValueId id) { return static_cast<size_t>(id); }

  // A product with what its kernel takes along: the values that it computes, of which others read
  // `end` and `scale`.
  struct Found {
    GroupedProduct product;
    OwnRun own;
    std::set<ValueId> values;
    ValueId end = -1;
    ValueId scale = -1;  // of a result that the kernel quantises
  };

  // The strides of `id` in elements, or why a kernel cannot read it. `inner`: the last must be 1.
  absl::StatusOr<std::vector<int64_t>> Lie(ValueId id, bool inner) const {
    std::vector<int64_t> result;
    const std::vector<Stride> strides = StridesInMemory(chain_, id);
    for (size_t i = 0; i < strides.size(); ++i) {
      const bool one = chain_.op(id).type.dims[i] == Dim::Constant(1);
      const bool last = inner && i + 1 == strides.size();
      if (!one && (strides[i].m_power != 0 || (last && strides[i].value != 1))) {
        return Invalid(NameOfValue(chain_, id), " has strides ",
                       ToString(absl::MakeConstSpan(strides)),
                       ", kernels of grouped products read ",
                       last ? "elements of rows side by side" : "strides that do not depend on M",
                       ": copy it");
      }
      result.push_back(one ? 0 : strides[i].value);
    }
    return result;
  }

  absl::StatusOr<GraphRun> Of(ValueId id) {
    const Op& op = chain_.op(id);
    const ValueId a = BelowWidening(chain_, op.operands[0]),
                  w = BelowWidening(chain_, op.operands[1]);
    const ValueId ids = op.operands[2];
    Found found;
    GroupedProduct& p = found.product;
    p.by_ends = IsByEnds(op);
    const std::vector<Dim>& w_dims = chain_.op(w).type.dims;
    p.rows = chain_.op(a).type.dtype;
    p.weights = chain_.op(w).type.dtype;
    p.experts = w_dims[0].value;
    p.slots = p.by_ends ? 1 : op.type.dims[1].value;
    p.n = op.type.dims.back().value;
    p.k = chain_.op(a).type.dims.back().value;
    p.slot_rows = chain_.op(a).type.rank() == 3;
    p.input_major = !op.transpose_b;
    const Dim rows = op.type.dims[0];
    p.fixed_rows = rows.symbolic ? 0 : rows.value;
    if (p.fixed_rows > kMostSlotsOfAll / p.slots) {
      return Invalid("rows are ", p.fixed_rows, ", must be at most ", kMostSlotsOfAll / p.slots,
                     " of ", p.slots, " slots");
    }
    const std::optional<FoundFourBitWeights> codes = CodesOf(w);
    SINTER_ASSIGN_OR_RETURN(const std::vector<int64_t> of_a, Lie(a, true));
    std::vector<int64_t> of_w = {0, 0};
    if (!codes.has_value()) {
      SINTER_ASSIGN_OR_RETURN(of_w, Lie(w, true));
    }
    SINTER_ASSIGN_OR_RETURN(const std::vector<int64_t> of_ids, Lie(ids, false));
    p.row_stride = of_a[0];
    p.row_slot_stride = p.slot_rows ? of_a[1] : 0;
    p.expert_stride = of_w[0];
    p.weight_stride = of_w[1];
    p.id_stride = of_ids[0];
    p.id_slot_stride = p.by_ends ? 0 : of_ids[1];

    p.early = IsEarly(a, codes.has_value() ? codes->bytes : w, ids);
    found.own.family = &GroupedFamily();
    for (const ValueId operand : {a, codes.has_value() ? codes->bytes : w, ids}) {
      found.own.operands.push_back({operand});
    }
    if (codes.has_value()) {
      p.codes = codes->format;
      found.own.operands.push_back({codes->scale});
      if (codes->zero >= 0) found.own.operands.push_back({codes->zero});
      found.values.insert(codes->values.begin(), codes->values.end());
    }
    if (IsScaledGrouped(op)) SINTER_RETURN_IF_ERROR(TakeScales(op, &found));
    found.values.insert(id);

    const GroupedEndFinder ends(chain_, users_, id,
                                [this](ValueId value) { return Lie(value, false); });
    std::optional<Found> best;
    absl::Status refused;
    for (const ValueId end : ends.Ends(claimed_)) {
      // An earlier end is taken only if it has fewer bytes; an output is stored anyway.
      const DType dtype = chain_.op(end).type.dtype;
      if (best.has_value() &&
          (users_.IsOutput(best->end) || SizeOf(dtype) >= SizeOf(best->product.result))) {
        continue;
      }
      Found next = found;
      refused = TakeEnd(ends, end, &next);
      if (refused.ok()) best = std::move(next);
    }
    if (!best.has_value()) return refused;
    best->own.result = best->product.result;
    best->own.text = NoteOf(best->product);
    best->own.problem = MakeBody(best->product);
    GraphRun run = MakeOwnRun(chain_, std::move(best->own),
                              {best->values.begin(), best->values.end()}, best->end);
    run.scale = best->scale;
    run.four_bits = codes.has_value();
    return run;
  }

  // Takes along the ops that lead to `end`, and the quantiser of that.
  absl::Status TakeEnd(const GroupedEndFinder& ends, ValueId end, Found* found) const {
    GroupedProduct& p = found->product;
    const TensorType& type = chain_.op(end).type;
    p.n = type.dims.back().value;
    p.result = type.dtype;
    if (IsCode(p.result) && !p.HasScales()) return Invalid("its rows are not e4m3, its result is");
    found->end = end;
    if (optional_ == Optional::kQuantizers) found->scale = TakeQuantizer(found);
    SINTER_ASSIGN_OR_RETURN(GroupedEnd taken, ends.At(end, p.result, claimed_, p));
    p.pair = taken.pair;
    p.program = std::move(taken.program);
    p.leaves = std::move(taken.leaves);
    found->values.insert(taken.values.begin(), taken.values.end());
    for (const ValueId operand : taken.operands) found->own.operands.push_back({operand});
    return PlaceResult(found);
  }

  // The weights of four bits that W is unpacked from, only for this product; none where a
  // kernel reads W.
  std::optional<FoundFourBitWeights> CodesOf(ValueId w) const {
    if (optional_ != Optional::kUnpacking) return std::nullopt;
    std::optional<FoundFourBitWeights> found = FindFourBitWeights(chain_, w, 3);
    if (!found.has_value()) return std::nullopt;
    for (const ValueId value : found->values) {
      const bool apart = value == w ? users_.Of(w).size() == 1 && !users_.IsOutput(w)
                                    : users_.AreAmong(found->values, value);
      if (!apart || claimed_[At(value)]) return std::nullopt;
    }
    const std::vector<Dim>& dims = chain_.op(w).type.dims;
    const bool taken = CheckFourBitWeights(found->format, dims[1].value, dims[2].value).ok();
    return taken ? std::move(found) : std::nullopt;
  }

  // Whether W is the caller's, and `rows` are computed from what a kernel of this family makes of
  // the same ids. It lets the kernels after it begin only once all before it have ended.
  bool IsEarly(ValueId rows, ValueId w, ValueId ids) const {
    if (chain_.op(w).kind != OpKind::kInput) return false;
    std::set<ValueId> seen = {rows};
    std::vector<ValueId> open = {rows};
    while (!open.empty()) {
      const ValueId id = open.back();
      open.pop_back();
      const bool taken = std::find(taken_.begin(), taken_.end(), id) != taken_.end();
      if (taken && chain_.op(id).operands[2] == ids) return true;
      for (const ValueId operand : chain_.op(id).operands) {
        if (seen.insert(operand).second) open.push_back(operand);
      }
    }
    return false;
  }

  // Where the values of both scales lie.
  absl::Status TakeScales(const Op& op, Found* found) const {
    GroupedProduct* const p = &found->product;
    const auto kind = [](const ScaleGrain& grain) {
      return grain.k > 0 ? GroupedScales::kGroups : GroupedScales::kWhole;
    };
    const ValueId of_a = op.operands[3], of_w = op.operands[4];
    const auto type = [&](ValueId id) -> const TensorType& { return chain_.op(id).type; };
    SINTER_ASSIGN_OR_RETURN(const ScaleGrain rows,
                            GroupedGrainOf("scale_a", type(op.operands[0]), type(of_a), false));
    SINTER_ASSIGN_OR_RETURN(const ScaleGrain weights,
                            GroupedGrainOf("scale_w", type(op.operands[1]), type(of_w), true));
    SINTER_ASSIGN_OR_RETURN(const std::vector<int64_t> row_lies, Lie(of_a, false));
    SINTER_ASSIGN_OR_RETURN(const std::vector<int64_t> weight_lies, Lie(of_w, false));
    p->row_scales = kind(rows);
    p->weight_scales = kind(weights);
    if (!row_lies.empty()) {
      p->row_scale_stride = row_lies.front();
      p->row_scale_slot_stride = p->slot_rows ? row_lies[1] : 0;
      p->row_scale_group = row_lies.back();
    }
    if (!weight_lies.empty()) {
      p->weight_scale_expert = weight_lies[0];
      p->weight_scale_column = weight_lies[1];
      p->weight_scale_group = weight_lies[2];
    }
    for (const ValueId scales : {of_a, of_w}) found->own.operands.push_back({scales});
    return absl::OkStatus();
  }

  // The quantiser of the result by groups of columns, which nobody else reads; the end is then its
  // codes. Returns the scales; -1: there is none.
  ValueId TakeQuantizer(Found* found) const {
    GroupedProduct* const p = &found->product;
    const ValueId x = found->end;
    if (!p->HasScales() || p->n % kScaleBlock != 0) return -1;
    for (ValueId codes = x + 1; codes < static_cast<ValueId>(chain_.ops().size()); ++codes) {
      FoundQuantizer quantizer;
      if (!QuantizerAt(graph_, codes, &quantizer) || quantizer.x != x ||
          quantizer.rule.granularity != Granularity::kGroup) {
        continue;
      }
      std::set<ValueId> inside;
      AddBelow(chain_, codes, x, &inside);
      const ValueId scale = ScaleOf(quantizer, x, &inside);
      if (scale < 0 || !users_.AreAmong(inside, x)) return -1;
      for (const ValueId id : inside) {
        if (claimed_[At(id)]) return -1;
        const bool apart = id == scale ? !users_.IsOutput(id) : users_.AreAmong(inside, id);
        if (id != codes && !apart) return -1;
      }
      p->result = DType::kE4M3;
      p->quantizer = {true, quantizer.rule.ue8m0, quantizer.rule.eps, quantizer.rule.upper_bound};
      found->values.insert(inside.begin(), inside.end());
      found->end = codes;
      return scale;
    }
    return -1;
  }

  // The scales [.., columns / 128] of a quantiser, which is added to `inside` with what leads to
  // it; -1: there is none, or others have another view of it.
  ValueId ScaleOf(const FoundQuantizer& quantizer, ValueId x, std::set<ValueId>* inside) const {
    for (ValueId id = x + 1; id < static_cast<ValueId>(chain_.ops().size()); ++id) {
      if (!IsScaleOfGroups(graph_, quantizer, id)) continue;
      AddBelow(chain_, id, x, inside);
      ValueId view = -1;
      for (const ValueId user : users_.Of(id)) {
        if (inside->count(user) > 0) continue;
        const Op& op = chain_.op(user);
        const bool drops_last =
            op.kind == OpKind::kReshape && op.type.rank() + 1 == chain_.op(id).type.rank();
        if (view >= 0 || !drops_last) return -1;
        view = user;
      }
      if (view >= 0) inside->insert(view);
      return view;
    }
    return -1;
  }

  // Where the result lies: in the first output that it is, or without gaps in the workspace.
  absl::Status PlaceResult(Found* found) const {
    const ValueId end = found->end;
    GroupedProduct* const p = &found->product;
    std::vector<Stride> strides = ContiguousStrides(chain_.op(end).type.dims);
    int outputs = 0;
    for (const ChainOutput& out : chain_.outputs()) {
      if (out.value != end) continue;
      if (++outputs > 1) return Invalid("it is an output more than once: make it one output");
      strides = out.strides;
      for (const OwnRun::Operand& operand : found->own.operands) {
        const Op& from = chain_.op(operand.value);
        if (out.alias_input >= 0 && from.kind == OpKind::kInput && from.input == out.alias_input) {
          return Invalid("its result may share the buffer of ", NameOfValue(chain_, operand.value),
                         ", which other blocks still read: leave out the alias");
        }
      }
    }
    const std::vector<Dim>& dims = chain_.op(end).type.dims;
    for (size_t i = 0; i < strides.size(); ++i) {
      const bool last = i + 1 == strides.size();
      if (dims[i] == Dim::Constant(1)) {
        strides[i] = last ? Stride{1, 0} : Stride{0, 0};
      } else if (strides[i].m_power != 0 || (last && strides[i].value != 1)) {
        return Invalid("its result has strides ", ToString(absl::MakeConstSpan(strides)),
                       ", kernels of grouped products store rows without gaps: give it out so");
      }
    }
    p->out_stride = strides[0].value;
    p->out_slot_stride = p->by_ends ? 0 : strides[1].value;
    return absl::OkStatus();
  }

  const Chain& chain_;
  const Subgraph graph_;
  const Users users_;
  std::vector<bool> claimed_;
  const Optional optional_;
  std::vector<ValueId> taken_;  // grouped products that kernels of this family compute
};

}  // namespace

std::vector<GraphRun> FindGroupedRuns(const Chain& chain, const std::vector<bool>& claimed,
                                      std::map<ValueId, std::string>* refused) {
  if (!chain.Has(OpKind::kGroupedMatmul)) return {};
  return GroupedFinder(chain, claimed, GroupedFinder::Optional::kNothing).Run(refused);
}

std::vector<GraphRun> FindQuantizedGroupedRuns(const Chain& chain, const std::vector<bool>& claimed,
                                               std::map<ValueId, std::string>*) {
  if (!chain.Has(OpKind::kGroupedMatmul)) return {};
  std::vector<GraphRun> runs =
      GroupedFinder(chain, claimed, GroupedFinder::Optional::kQuantizers).Run(nullptr);
  const bool any =
      std::any_of(runs.begin(), runs.end(), [](const GraphRun& run) { return run.scale >= 0; });
  return any ? runs : std::vector<GraphRun>();
}

std::vector<GraphRun> FindFourBitGroupedRuns(const Chain& chain, const std::vector<bool>& claimed,
                                             std::map<ValueId, std::string>*) {
  if (!chain.Has(OpKind::kGroupedMatmul) || !MayHaveFourBits(chain)) return {};
  std::vector<GraphRun> runs =
      GroupedFinder(chain, claimed, GroupedFinder::Optional::kUnpacking).Run(nullptr);
  const bool any =
      std::any_of(runs.begin(), runs.end(), [](const GraphRun& run) { return run.four_bits; });
  return any ? runs : std::vector<GraphRun>();
}

}  // namespace sinter
