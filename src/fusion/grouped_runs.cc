// Grouped products of a chain, with the ops that their kernels take along.
#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/chain/builder.h"
#include "src/chain/composites.h"
#include "src/chain/infer.h"
#include "src/chain/linear_finder.h"
#include "src/fusion/product_runs.h"
#include "src/fusion/stitch/stitch_graph.h"
#include "src/plan/grouped_family.h"

namespace sinter {
namespace {

constexpr int64_t kMostSlotsOfAll = int64_t{1} << 30;  // the device counts them in 32 bits
constexpr ValueId kMostOpsOfGate = 64;                 // behind the product

template <typename... Args>
absl::Status Refuse(const Args&... args) {
  return absl::UnimplementedError(absl::StrCat(args...));
}

// gate and up of f32 as inputs 0 and 1, and act(gate) * up.
Chain GatePattern(Activation act) {
  ChainBuilder b;
  const TensorType type{DType::kF32, {Dim::Constant(1)}};
  const ValueId gate = b.Input(type).value(), up = b.Input(type).value();
  const ValueId active = AddActivation(b, act, gate).value();
  b.Output(b.Binary(BinaryKind::kMul, active, up).value()).IgnoreError();
  return b.Finish().value();
}

class GroupedFinder {
 public:
  // `quantize`: whether products take along the quantisers of their results.
  GroupedFinder(const Chain& chain, const std::vector<bool>& claimed, bool quantize)
      : chain_(chain),
        graph_(chain),
        users_(chain.ops().size()),
        claimed_(claimed),
        quantize_(quantize) {
    for (ValueId user = 0; user < static_cast<ValueId>(chain.ops().size()); ++user) {
      for (const ValueId operand : chain.op(user).operands) {
        std::vector<ValueId>& of = users_[At(operand)];
        if (of.empty() || of.back() != user) of.push_back(user);
      }
    }
  }

  std::vector<GraphRun> Run(std::map<ValueId, std::string>* refused) {
    std::vector<GraphRun> runs;
    for (ValueId id = 0; id < static_cast<ValueId>(chain_.ops().size()); ++id) {
      if (chain_.op(id).kind != OpKind::kGroupedMatmul || claimed_[At(id)]) continue;
      absl::StatusOr<GraphRun> run = Of(id);
      if (run.ok()) {
        for (const ValueId value : run->values) claimed_[At(value)] = true;
        taken_.push_back(id);
        runs.push_back(*std::move(run));
      } else {
        if (refused != nullptr) (*refused)[id] = std::string(run.status().message());
      }
    }
    return runs;
  }

 private:
  static size_t At(ValueId id) { return static_cast<size_t>(id); }

  // Below a cast to f32 that loses nothing.
  ValueId SkipWidening(ValueId id) const {
    const Op& op = chain_.op(id);
    if (op.kind != OpKind::kCast || op.type.dtype != DType::kF32) return id;
    const DType below = chain_.op(op.operands[0]).type.dtype;
    return below == DType::kBF16 || below == DType::kF16 ? op.operands[0] : id;
  }

  // The strides of `id` in elements, or why a kernel cannot read it. `inner`: the last must be 1.
  absl::StatusOr<std::vector<int64_t>> Lie(ValueId id, bool inner) const {
    std::vector<int64_t> result;
    const std::vector<Stride> strides = StridesInMemory(chain_, id);
    for (size_t i = 0; i < strides.size(); ++i) {
      const bool one = chain_.op(id).type.dims[i] == Dim::Constant(1);
      const bool last = inner && i + 1 == strides.size();
      if (!one && (strides[i].m_power != 0 || (last && strides[i].value != 1))) {
        return Refuse(NameOfValue(chain_, id), " has strides ",
                      ToString(absl::MakeConstSpan(strides)), ", kernels of grouped products read ",
                      last ? "elements of rows side by side" : "strides that do not depend on M",
                      ": copy it");
      }
      result.push_back(one ? 0 : strides[i].value);
    }
    return result;
  }

  absl::StatusOr<GraphRun> Of(ValueId id) {
    const Op& op = chain_.op(id);
    const ValueId a = SkipWidening(op.operands[0]), w = SkipWidening(op.operands[1]);
    const ValueId ids = op.operands[2];
    GroupedProduct p;
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
      return Refuse("rows are ", p.fixed_rows, ", must be at most ", kMostSlotsOfAll / p.slots,
                    " of ", p.slots, " slots");
    }
    SINTER_ASSIGN_OR_RETURN(const std::vector<int64_t> of_a, Lie(a, true));
    SINTER_ASSIGN_OR_RETURN(const std::vector<int64_t> of_w, Lie(w, true));
    SINTER_ASSIGN_OR_RETURN(const std::vector<int64_t> of_ids, Lie(ids, false));
    p.row_stride = of_a[0];
    p.row_slot_stride = p.slot_rows ? of_a[1] : 0;
    p.expert_stride = of_w[0];
    p.weight_stride = of_w[1];
    p.id_stride = of_ids[0];
    p.id_slot_stride = p.by_ends ? 0 : of_ids[1];

    p.early = IsEarly(a, w, ids);
    OwnRun own;
    own.family = &GroupedFamily();
    for (const ValueId operand : {a, w, ids}) own.operands.push_back({operand});
    if (IsScaledGrouped(op)) SINTER_RETURN_IF_ERROR(TakeScales(op, &p, &own));
    ValueId end = id;
    std::set<ValueId> values = {id};
    TakeBias(op.operands[2], &end, &values, &p, &own);
    TakeFactor(&end, &values, &p, &own);
    Pair pair;
    TakeGate(&end, &values, &p, &pair);
    if (!p.has_factor) {
      TakeFactor(&end, &values, &p, &own);
    } else {
      p.factor_on_sums = p.gate != GroupedGate::kNone;
    }
    const ValueId scale = quantize_ ? TakeQuantizer(&end, &values, &p) : -1;
    if (scale < 0) TakeCast(&end, &values);
    own.result = p.result = chain_.op(end).type.dtype;
    if (pair.end >= 0) {
      SINTER_ASSIGN_OR_RETURN(p.program, ProgramOfPair(pair, p.result));
    }
    SINTER_RETURN_IF_ERROR(PlaceResult(end, own, &p));
    own.problem = std::make_shared<const GroupedProduct>(p);
    GraphRun run = MakeOwnRun(chain_, std::move(own), {values.begin(), values.end()}, end);
    run.scale = scale;
    return run;
  }

  // Whether W is the caller's, and `rows` are computed from what a kernel of this family makes of
  // the same ids. It lets the kernels behind it begin only once all before it have ended.
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
  absl::Status TakeScales(const Op& op, GroupedProduct* p, OwnRun* own) const {
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
    own->operands.push_back({of_a});
    own->operands.push_back({of_w});
    return absl::OkStatus();
  }

  // The only reader of `id`; -1 where there are others or it is given out.
  ValueId OnlyUser(ValueId id) const {
    const std::vector<ValueId>& of = users_[At(id)];
    return of.size() == 1 && OutputOf(chain_, id) < 0 && !claimed_[At(of[0])] ? of[0] : -1;
  }

  // Whether `id` is half `half` of the last axis of `whole`: n elements behind one another, or
  // every second one.
  bool IsHalf(ValueId id, ValueId whole, int half, bool in_turns, int64_t n) const {
    const Op& op = chain_.op(id);
    if (op.kind != OpKind::kSlice || op.operands[0] != whole) return false;
    const size_t last = op.starts.size() - 1;
    for (size_t i = 0; i < last; ++i) {
      if (op.type.dims[i] != chain_.op(whole).type.dims[i]) return false;
    }
    return op.starts[last] == (in_turns ? half : half * n) &&
           op.type.dims[last] == Dim::Constant(n) &&
           (n == 1 || op.steps[last] == (in_turns ? 2 : 1));
  }

  // A sum with the rows that the same ids name of a matrix, [experts, columns].
  void TakeBias(ValueId ids, ValueId* end, std::set<ValueId>* values, GroupedProduct* p,
                OwnRun* own) const {
    const ValueId user = OnlyUser(*end);
    if (user < 0) return;
    const Op& op = chain_.op(user);
    if (op.kind != OpKind::kBinary || op.binary != BinaryKind::kAdd) return;
    const ValueId other = op.operands[0] == *end ? op.operands[1] : op.operands[0];
    const ValueId rows = SkipWidening(other);
    const Op& gather = chain_.op(rows);
    if (other == *end || gather.kind != OpKind::kGather || gather.axis != 0 ||
        gather.operands[1] != ids) {
      return;
    }
    const ValueId bias = SkipWidening(gather.operands[0]);
    const TensorType& type = chain_.op(bias).type;
    const std::vector<Dim> dims = {Dim::Constant(p->experts), Dim::Constant(p->n)};
    if (!IsFloat(type.dtype) || type.dims != dims) return;
    const absl::StatusOr<std::vector<int64_t>> lies = Lie(bias, true);
    if (!lies.ok()) return;
    p->has_bias = true;
    p->bias = type.dtype;
    p->bias_stride = (*lies)[0];
    own->operands.push_back({bias});
    // What others read of it is computed for them.
    if (OnlyUser(other) == user) {
      values->insert(other);
      if (rows != other && OnlyUser(rows) == other) values->insert(rows);
    }
    values->insert(user);
    *end = user;
  }

  // What leads from gate and up to `end`; -1: nothing, or act(gate) * up.
  struct Pair {
    ValueId gate = -1, up = -1, end = -1;
    std::set<ValueId> values;
  };

  // `*pair`: where it is no act(gate) * up.
  void TakeGate(ValueId* end, std::set<ValueId>* values, GroupedProduct* p, Pair* pair) const {
    const std::vector<ValueId>& halves = users_[At(*end)];
    if (p->n % 2 != 0 || OutputOf(chain_, *end) >= 0 || halves.size() != 2) return;
    const int64_t n = p->n / 2;
    for (const int form : {0, 1, 2, 3}) {
      const int first = form % 2;
      const bool in_turns = form > 1;
      if (!IsHalf(halves[0], *end, first, in_turns, n) ||
          !IsHalf(halves[1], *end, 1 - first, in_turns, n)) {
        continue;
      }
      const ValueId left = halves[static_cast<size_t>(first)];
      const ValueId right = halves[static_cast<size_t>(1 - first)];
      const ValueId last =
          std::min<ValueId>(static_cast<ValueId>(chain_.ops().size()), *end + kMostOpsOfGate);
      for (ValueId product = std::max(left, right) + 1; product < last; ++product) {
        if (TakePair(*end, left, right, product, in_turns, values, p)) {
          p->n = n;
          *end = product;
          return;
        }
      }
      for (ValueId product = last - 1; product > std::max(left, right); --product) {
        if (TakeProgram(*end, left, right, product, pair)) {
          values->insert(*end);
          values->insert(pair->values.begin(), pair->values.end());
          p->gate = in_turns ? GroupedGate::kInTurnsGateFirst : GroupedGate::kGateFirst;
          p->n = n;
          *end = product;
          return;
        }
      }
    }
  }

  // Whether `product` is act(gate) * up of the halves, in either order, which nobody else reads.
  bool TakePair(ValueId whole, ValueId left, ValueId right, ValueId product, bool in_turns,
                std::set<ValueId>* values, GroupedProduct* p) const {
    const Op& op = chain_.op(product);
    if (op.kind != OpKind::kBinary || op.binary != BinaryKind::kMul || claimed_[At(product)] ||
        op.type.dims != chain_.op(left).type.dims) {
      return false;
    }
    std::set<ValueId> inside = {left, right, product};
    if (!Collect(product, left, right, &inside)) return false;
    Subgraph graph(chain_, product, op.type, ContiguousStrides(op.type.dims));
    for (const ValueId half : {left, right}) {
      graph.AddOperand(half, DType::kF32, ContiguousStrides(op.type.dims));
    }
    for (const Activation act : kActivations) {
      const Chain pattern = GatePattern(act);
      const std::vector<int32_t> canonical = pattern.CallerOrder();
      for (const bool gate_first : {true, false}) {
        const ValueId gate = gate_first ? left : right, up = gate_first ? right : left;
        const bool found =
            MatchPattern(graph, product, pattern, [&](const std::vector<ValueId>& bound) {
              return bound[static_cast<size_t>(canonical[0])] == gate &&
                     bound[static_cast<size_t>(canonical[1])] == up;
            });
        if (!found) continue;
        p->act = act;
        p->gate = in_turns
                      ? gate_first ? GroupedGate::kInTurnsGateFirst : GroupedGate::kInTurnsUpFirst
                  : gate_first ? GroupedGate::kGateFirst
                               : GroupedGate::kUpFirst;
        values->insert(inside.begin(), inside.end());
        values->insert(whole);
        return true;
      }
    }
    return false;
  }

  // Whether `product` is any element-wise program of the halves, which nobody else reads.
  bool TakeProgram(ValueId whole, ValueId left, ValueId right, ValueId product, Pair* pair) const {
    const Op& op = chain_.op(product);
    if (op.type.dtype != DType::kF32 || claimed_[At(product)] ||
        op.type.dims != chain_.op(left).type.dims) {
      return false;
    }
    Pair found{left, right, product, {left, right, product}};
    if (!Collect(product, left, right, &found.values)) return false;
    if (!ProgramOfPair(found, DType::kF32).ok()) return false;
    *pair = std::move(found);
    return true;
  }

  // A number, or the same for each element.
  bool IsNumber(ValueId id) const {
    const Op& op = chain_.op(id);
    return op.kind == OpKind::kScalar ||
           (op.kind == OpKind::kBroadcast && chain_.op(op.operands[0]).kind == OpKind::kScalar);
  }

  // The program that stores `result`, or why no kernel computes it.
  absl::StatusOr<EpilogueProgram> ProgramOfPair(const Pair& pair, DType result) const {
    ChainBuilder b;
    std::map<ValueId, ValueId> made;
    std::vector<LeafKind> kinds;
    const auto number = [&](ValueId id) {
      const Op& op = chain_.op(id);
      const Op& scalar = op.kind == OpKind::kScalar ? op : chain_.op(op.operands[0]);
      return b.Scalar(scalar.scalar, scalar.type.dtype);
    };
    for (const ValueId id : pair.values) {
      Op op = chain_.op(id);
      if (id == pair.gate || id == pair.up) {
        SINTER_ASSIGN_OR_RETURN(made[id], b.Input({DType::kF32, {Dim::Constant(2)}}));
        kinds.push_back(id == pair.gate ? LeafKind::kValue : LeafKind::kUp);
        continue;
      }
      for (ValueId& operand : op.operands) {
        if (IsNumber(operand)) {
          SINTER_ASSIGN_OR_RETURN(operand, number(operand));
        } else {
          operand = made.at(operand);
        }
      }
      op.type.dims = {Dim::Constant(2)};
      SINTER_ASSIGN_OR_RETURN(made[id], Replay(b, op, false));
    }
    SINTER_ASSIGN_OR_RETURN(const ValueId stored, b.Cast(made.at(pair.end), result));
    SINTER_RETURN_IF_ERROR(b.Output(stored));
    SINTER_ASSIGN_OR_RETURN(Chain body, b.Finish());
    std::vector<LeafKind> canonical;
    for (const int32_t input : body.InputOrder()) {
      canonical.push_back(kinds[static_cast<size_t>(input)]);
    }
    EpilogueProgram program =
        ProgramOf(std::make_shared<const Chain>(std::move(body)), std::move(canonical));
    if (!program.written()) return Refuse("a pair with a form");
    SINTER_RETURN_IF_ERROR(CheckProgram(program, result, true));
    return program;
  }

  // Adds what leads from the halves to `product`. False where that is long, reads anything else but
  // numbers, or is read by others.
  bool Collect(ValueId product, ValueId left, ValueId right, std::set<ValueId>* inside) const {
    std::vector<ValueId> open = {product};
    while (!open.empty()) {
      const ValueId id = open.back();
      open.pop_back();
      for (const ValueId operand : chain_.op(id).operands) {
        if (IsNumber(operand)) continue;
        if (operand < std::min(left, right) || claimed_[At(operand)]) return false;
        if (inside->insert(operand).second) open.push_back(operand);
        if (inside->size() > kMostOpsOfGate) return false;
      }
      if (id == left || id == right) return false;
    }
    return std::all_of(inside->begin(), inside->end(), [&](ValueId id) {
      if (id == product) return true;
      if (OutputOf(chain_, id) >= 0) return false;
      return std::all_of(users_[At(id)].begin(), users_[At(id)].end(),
                         [&](ValueId user) { return inside->count(user) > 0; });
    });
  }

  // A product with one number of each slot, which spreads over the columns.
  void TakeFactor(ValueId* end, std::set<ValueId>* values, GroupedProduct* p, OwnRun* own) const {
    const ValueId user = OnlyUser(*end);
    if (user < 0) return;
    const Op& op = chain_.op(user);
    if (op.kind != OpKind::kBinary || op.binary != BinaryKind::kMul) return;
    const ValueId spread = op.operands[0] == *end ? op.operands[1] : op.operands[0];
    if (spread == *end || chain_.op(spread).kind != OpKind::kBroadcast) return;
    ValueId column = SkipWidening(chain_.op(spread).operands[0]);
    const std::vector<Dim>& dims = op.type.dims;
    const std::vector<Dim> slots(dims.begin(), dims.end() - 1);
    std::vector<Dim> one_of_slots = slots;
    one_of_slots.push_back(Dim::Constant(1));
    if (chain_.op(column).type.dims != one_of_slots) return;
    const Op& reshape = chain_.op(column);
    if (reshape.kind == OpKind::kReshape && chain_.op(reshape.operands[0]).type.dims == slots) {
      column = SkipWidening(reshape.operands[0]);
    }
    if (!IsFloat(chain_.op(column).type.dtype)) return;
    const absl::StatusOr<std::vector<int64_t>> lies = Lie(column, false);
    if (!lies.ok()) return;
    p->has_factor = true;
    p->factor = chain_.op(column).type.dtype;
    p->factor_stride = (*lies)[0];
    p->factor_slot_stride = p->by_ends ? 0 : (*lies)[1];
    own->operands.push_back({column});
    values->insert(user);
    *end = user;
  }

  void TakeCast(ValueId* end, std::set<ValueId>* values) const {
    const ValueId user = OnlyUser(*end);
    if (user < 0 || chain_.op(user).kind != OpKind::kCast) return;
    if (!IsFloat(chain_.op(user).type.dtype)) return;
    values->insert(user);
    *end = user;
  }

  // The quantiser of the result by groups of columns, which nobody else reads; `*end` is then its
  // codes. Returns the scales; -1: there is none.
  ValueId TakeQuantizer(ValueId* end, std::set<ValueId>* values, GroupedProduct* p) const {
    if (!p->HasScales() || p->n % kScaleBlock != 0 || OutputOf(chain_, *end) >= 0) return -1;
    const ValueId last = static_cast<ValueId>(chain_.ops().size());
    for (ValueId codes = *end + 1; codes < last; ++codes) {
      FoundQuantizer found;
      if (!QuantizerAt(graph_, codes, &found) || found.x != *end ||
          found.rule.granularity != Granularity::kGroup) {
        continue;
      }
      std::set<ValueId> inside;
      AddBelow(codes, *end, &inside);
      const ValueId scale = ScaleOf(found, *end, &inside);
      if (scale < 0) return -1;
      const auto are_inside = [&](ValueId id) {
        return std::all_of(users_[At(id)].begin(), users_[At(id)].end(),
                           [&](ValueId user) { return inside.count(user) > 0; });
      };
      for (const ValueId id : inside) {
        if (claimed_[At(id)]) return -1;
        if (id == codes) continue;
        if (OutputOf(chain_, id) >= 0 || (id != scale && !are_inside(id))) return -1;
      }
      if (!are_inside(*end)) return -1;
      p->quantizer = {true, found.rule.ue8m0, found.rule.eps, found.rule.upper_bound};
      values->insert(inside.begin(), inside.end());
      *end = codes;
      return scale;
    }
    return -1;
  }
  // The scales [.., columns / 128] of a quantiser, which is added to `inside` with what leads to
  // it; -1: there is none, or others have another view of it.
  ValueId ScaleOf(const FoundQuantizer& found, ValueId x, std::set<ValueId>* inside) const {
    for (ValueId id = x + 1; id < static_cast<ValueId>(chain_.ops().size()); ++id) {
      if (!IsScaleOfGroups(graph_, found, id)) continue;
      AddBelow(id, x, inside);
      ValueId view = -1;
      for (const ValueId user : users_[At(id)]) {
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
  void AddBelow(ValueId id, ValueId x, std::set<ValueId>* inside) const {
    if (id == x || ClassOf(chain_, id) == OpClass::kSource || !inside->insert(id).second) return;
    for (const ValueId operand : chain_.op(id).operands) AddBelow(operand, x, inside);
  }

  // Where the result lies: in the first output that it is, or without gaps in the workspace.
  absl::Status PlaceResult(ValueId end, const OwnRun& own, GroupedProduct* p) const {
    std::vector<Stride> strides = ContiguousStrides(chain_.op(end).type.dims);
    int outputs = 0;
    for (const ChainOutput& out : chain_.outputs()) {
      if (out.value != end) continue;
      if (++outputs > 1) return Refuse("it is given out more than once: give it out once");
      strides = out.strides;
      for (const OwnRun::Operand& operand : own.operands) {
        const Op& from = chain_.op(operand.value);
        if (out.alias_input >= 0 && from.kind == OpKind::kInput && from.input == out.alias_input) {
          return Refuse("its result may share the buffer of ", NameOfValue(chain_, operand.value),
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
        return Refuse("its result has strides ", ToString(absl::MakeConstSpan(strides)),
                      ", kernels of grouped products store rows without gaps: give it out so");
      }
    }
    p->out_stride = strides[0].value;
    p->out_slot_stride = p->by_ends ? 0 : strides[1].value;
    return absl::OkStatus();
  }

  const Chain& chain_;
  const Subgraph graph_;
  std::vector<std::vector<ValueId>> users_;
  std::vector<bool> claimed_;
  const bool quantize_;
  std::vector<ValueId> taken_;  // grouped products that kernels of this family compute
};

}  // namespace

std::vector<GraphRun> FindGroupedRuns(const Chain& chain, const std::vector<bool>& claimed,
                                      std::map<ValueId, std::string>* refused) {
  return chain.Has(OpKind::kGroupedMatmul) ? GroupedFinder(chain, claimed, false).Run(refused)
                                           : std::vector<GraphRun>();
}

std::vector<GraphRun> FindQuantizedGroupedRuns(const Chain& chain, const std::vector<bool>& claimed,
                                               std::map<ValueId, std::string>*) {
  if (!chain.Has(OpKind::kGroupedMatmul)) return {};
  std::vector<GraphRun> runs = GroupedFinder(chain, claimed, true).Run(nullptr);
  const bool any =
      std::any_of(runs.begin(), runs.end(), [](const GraphRun& run) { return run.scale >= 0; });
  return any ? runs : std::vector<GraphRun>();
}

}  // namespace sinter
