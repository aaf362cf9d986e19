#include <algorithm>

#include "src/base/status.h"
#include "src/chain/op.h"
#include "src/fusion/plan_assembly.h"
#include "src/fusion/product_runs.h"
#include "src/fusion/stitch/stitch_graph.h"
#include "src/product/matcher.h"

namespace sinter {
namespace {

// Operands that some blocks may still read when another block stores its part of the result:
// weights, biases, factors, the rows of a lone product, and pixels, which windows of other tiles
// read too. With several products all blocks have read a tile's rows when the last product stores
// it. A residual's element is read by the thread that stores there, before it stores what is made
// of it: a result among others may be made without it.
std::vector<ValueId> ReadByOthers(const MatchedSequence& matched) {
  std::vector<int> operands;
  const bool windows = matched.sequence.front().rows.source == Source::kWindow;
  if (matched.size() == 1 || windows) operands.push_back(matched.rows);
  for (int i = 0; i < matched.size(); ++i) {
    const ProductInputs& in = matched.InputsOf(i);
    operands.insert(operands.end(), {in.weights, in.weights_up, in.scale_rows, in.scale_weights,
                                     in.scale_up, in.given_scale});
    for (const Leaf& leaf : matched.sequence[i].Leaves()) {
      if (leaf.kind == LeafKind::kMatrix && matched.sequence.back().AuxResults() == 0) continue;
      operands.push_back(matched.NumberOf(i, leaf));
    }
  }
  std::vector<ValueId> values;
  for (int operand : operands) {
    if (operand >= 0) values.push_back(matched.ValueOf(operand));
  }
  return values;
}

constexpr size_t kMostBeforeCodes = 64;  // values between a result and its codes

// Whether a relative error of an operand of f32 is about as large in the result, of f32 too.
bool PassesSmallErrors(const Op& op) {
  if (op.type.dtype != DType::kF32) return false;
  if (op.kind == OpKind::kReduce) {
    return op.reduce == ReduceKind::kMax || op.reduce == ReduceKind::kMin;
  }
  const bool has_traits = op.kind == OpKind::kUnary || op.kind == OpKind::kBinary;
  return has_traits ? TraitsOf(op).errors == ErrorRule::kPassed : IsView(op);
}

// Whether kernels compute an f32 result by other functions than one of 16 bits, of which each has a
// small relative error: 1 + erf has not, near -1.
bool HasFasterFunctions(const ProductEpilogue& e) {
  if (!e.program.present()) return false;
  const Chain& body = *e.program.body;
  const bool erf = std::any_of(body.ops().begin(), body.ops().end(),
                               [](const Op& op) { return IsUnary(op, UnaryKind::kErf); });
  const auto has = [](Activation a) {
    return a == Activation::kSilu || a == Activation::kGeluTanh;
  };
  return !erf && (e.program.written() || has(e.activation()) || has(e.sum_activation()));
}

}  // namespace

RunMatcher::RunMatcher(const Chain& chain, int64_t bucket)
    : chain_(chain), bucket_(bucket), users_(chain) {
  for (ValueId id = 0; id < static_cast<ValueId>(chain.ops().size()); ++id) {
    const OpKind kind = chain.op(id).kind;
    if (kind != OpKind::kMatmul && kind != OpKind::kConv2d) continue;
    if (ClassOf(chain, id) != OpClass::kProduct) continue;
    const ValueId weight = WeightOf(id);
    if (chain.op(weight).kind != OpKind::kInput) weights_.insert(weight);
  }
}

ValueId RunMatcher::WeightOf(ValueId product) const {
  const Op& op = chain_.op(product);
  const auto below_widening = [&](ValueId value) {
    while (chain_.op(value).kind == OpKind::kCast && chain_.op(value).type.dtype == DType::kF32) {
      value = chain_.op(value).operands[0];
    }
    return value;
  };
  ValueId weight = below_widening(op.operands[1]);
  while (op.kind == OpKind::kMatmul && chain_.op(weight).kind == OpKind::kTranspose &&
         chain_.op(weight).type.rank() == 2) {
    weight = below_widening(chain_.op(weight).operands[0]);
  }
  if (op.kind != OpKind::kMatmul || chain_.op(weight).kind != OpKind::kReshape) return weight;
  const ValueId below = below_widening(chain_.op(weight).operands[0]);
  const bool reads = chain_.op(below).type.rank() >= 2 &&
                     chain_.op(below).type.dims.back() == chain_.op(weight).type.dims.back();
  return reads && chain_.op(below).kind == OpKind::kInput ? below : weight;
}

Subgraph RunMatcher::GraphOf(const Values& members, ValueId a, DType dtype, ValueId end,
                             const std::vector<ValueId>& aux) const {
  const auto is_operand = [&](ValueId value) {
    if (value == a || chain_.op(value).kind == OpKind::kInput) return true;
    if (members.count(value) > 0) return false;
    if (IsComputedWeight(value) || made_.count(value) > 0) return true;
    const OpClass op_class = ClassOf(chain_, value);
    return op_class != OpClass::kView && op_class != OpClass::kSource;
  };
  Subgraph graph(chain_, end, {ResultOf(end, dtype), chain_.op(end).type.dims},
                 StridesInMemory(chain_, end));
  std::set<ValueId> seen;
  std::vector<ValueId> open = aux;  // that may not lead to the end
  open.push_back(end);
  while (!open.empty()) {
    const ValueId value = open.back();
    open.pop_back();
    if (!seen.insert(value).second) continue;
    const Op& op = chain_.op(value);
    if (is_operand(value)) {
      const bool rounded = value == a && op.kind != OpKind::kInput;
      graph.AddOperand(value, rounded ? dtype : op.type.dtype, StridesInMemory(chain_, value));
      continue;
    }
    open.insert(open.end(), op.operands.begin(), op.operands.end());
  }
  return graph;
}

DType RunMatcher::ResultOf(ValueId end, DType dtype) const {
  if (!IsCode(dtype) && OnlyMultiplied(end, dtype)) return dtype;
  return ResultType(dtype, chain_.op(end).type.dtype);
}

bool RunMatcher::OnlyMultiplied(ValueId value, DType dtype) const {
  if (users_.IsOutput(value)) return false;
  const std::vector<ValueId>& users = users_.Of(value);
  return std::all_of(users.begin(), users.end(), [&](ValueId user) {
    const Op& op = chain_.op(user);
    if (op.kind == OpKind::kCast && op.type.dtype == dtype) return true;
    const bool own = op.kind == OpKind::kGroupedMatmul || IsCollective(op);
    if (own) return false;  // reads what the chain has
    if (ClassOf(chain_, user) != OpClass::kProduct || op.operands[0] != value) return false;
    ValueId weight = op.operands[1];
    while (ClassOf(chain_, weight) == OpClass::kView) weight = chain_.op(weight).operands[0];
    return weight != value && chain_.op(weight).type.dtype == dtype;
  });
}

bool RunMatcher::OnlyMadeIntoCodes(ValueId value) const {
  std::set<ValueId> seen;
  std::vector<ValueId> open = {value};
  while (!open.empty()) {
    const ValueId id = open.back();
    open.pop_back();
    if (!seen.insert(id).second) continue;
    if (users_.IsOutput(id) || seen.size() > kMostBeforeCodes) return false;
    for (const ValueId user : users_.Of(id)) {
      const Op& op = chain_.op(user);
      const bool float_codes = IsCode(op.type.dtype) && HoldsFloats(op.type.dtype);
      if (op.kind == OpKind::kCast && float_codes) continue;
      if (op.kind == OpKind::kScaledMatmul || IsScaledGrouped(op)) continue;  // as a scale
      if (!PassesSmallErrors(op)) return false;
      open.push_back(user);
    }
  }
  return seen.size() > 1;
}

absl::StatusOr<GraphRun> RunMatcher::Match(const Values& members, ValueId a, DType dtype,
                                           ValueId end, const std::vector<ValueId>& aux) const {
  SINTER_RETURN_IF_ERROR(CheckStored(a, dtype));
  SINTER_RETURN_IF_ERROR(CheckStored(end, ResultOf(end, dtype)));
  for (const ValueId member : members) {
    if (member == end || made_.count(member) > 0 || rounded_.count(member) == 0) continue;
    return Invalid("op ", member, " (", NameOf(chain_.op(member)), ") is read by another kernel");
  }
  Subgraph graph = GraphOf(members, a, dtype, end, aux);
  for (const ValueId value : aux) {
    SINTER_RETURN_IF_ERROR(CheckAux(value));
    graph.AddAux(value, chain_.op(value).type, StridesInMemory(chain_, value));
  }
  GraphRun run;
  SINTER_ASSIGN_OR_RETURN(run.matched, MatchProducts(graph));
  SINTER_RETURN_IF_ERROR(CheckOperands(run.matched));
  SINTER_RETURN_IF_ERROR(CheckEnd(run.matched, end));
  SINTER_RETURN_IF_ERROR(CheckStrides(run.matched, chain_, bucket_));
  ProductSequence& sequence = run.matched.sequence;
  run.matched.SetBucket(bucket_);
  MatrixProduct& last = sequence[sequence.size() - 1];
  last.epilogue.program.for_codes = last.result == DType::kF32 && last.AuxResults() == 0 &&
                                    HasFasterFunctions(last.epilogue) && OnlyMadeIntoCodes(end);
  for (int i = 0; i < sequence.size(); ++i) {
    SINTER_RETURN_IF_ERROR(CheckSequence(sequence.Part(i, 1)));
  }
  run.values.assign(members.begin(), members.end());
  run.end = end;
  run.aux = aux;
  run.constant_rows = !run.matched.m.symbolic;
  return run;
}

// A computed operand must be stored as all its readers expect. A product's result is rounded to the
// weights' dtype, so it cannot be a row factor.
absl::Status RunMatcher::CheckOperands(const MatchedSequence& matched) const {
  for (const ProductOperand& operand : matched.operands) {
    const Op& op = chain_.op(operand.value);
    if (op.kind == OpKind::kInput || RoundedAlike(operand.value, operand.type.dtype)) continue;
    return Invalid("op ", operand.value, " (", NameOf(op), ") is read as ",
                   NameOf(operand.type.dtype), " and lies in memory as another dtype");
  }
  for (int i = 0; i < matched.size(); ++i) {
    for (const Leaf& leaf : matched.sequence[i].Leaves()) {
      const ValueId factor = matched.ValueOf(matched.NumberOf(i, leaf));
      if (leaf.kind != LeafKind::kRow || ClassOf(chain_, factor) != OpClass::kProduct) continue;
      return Invalid("op ", factor, " (", NameOf(chain_.op(factor)), ") is a factor and a product");
    }
  }
  return absl::OkStatus();
}

// A sum must be rounded by the chain itself: it may be the residual stream, which the chain carries
// from layer to layer.
absl::Status RunMatcher::CheckEnd(const MatchedSequence& matched, ValueId end) const {
  const MatrixProduct& last = matched.sequence.back();
  if (last.epilogue.has_residual() && chain_.op(end).type.dtype != last.result) {
    return Invalid("op ", end, " (", NameOf(chain_.op(end)),
                   ") is a sum that the chain does not round");
  }
  const auto given = std::count_if(chain_.outputs().begin(), chain_.outputs().end(),
                                   [&](const ChainOutput& out) { return out.value == end; });
  if (given > 1) {
    return Invalid("op ", end, " (", NameOf(chain_.op(end)), ") is given out ", given,
                   " times, kernels of products store it once: make the other outputs copies");
  }
  for (const ChainOutput& out : chain_.outputs()) {
    if (out.value != end || out.alias_input < 0) continue;
    for (ValueId read : ReadByOthers(matched)) {
      if (read != chain_.input(out.alias_input)) continue;
      return Invalid("its result shares the buffer of input ", out.alias_input,
                     ", of which other blocks read what one writes");
    }
  }
  return absl::OkStatus();
}

absl::Status RunMatcher::CheckAux(ValueId aux) const {
  const auto given = std::count_if(chain_.outputs().begin(), chain_.outputs().end(),
                                   [&](const ChainOutput& out) { return out.value == aux; });
  const auto& out = chain_.outputs()[static_cast<size_t>(OutputOf(chain_, aux))];
  if (given == 1 && out.alias_input < 0) return absl::OkStatus();
  return Invalid("op ", aux, " (", NameOf(chain_.op(aux)),
                 ") is an auxiliary result, and given out ", given, " times",
                 out.alias_input < 0 ? "" : ", over an input");
}

// Whether `value` may be stored as `dtype`. Only a cast rounds, except for values that only
// products read: they multiply values of the weights' dtype. Readers of a view compute it for
// themselves.
absl::Status RunMatcher::CheckStored(ValueId value, DType dtype) const {
  const Op& op = chain_.op(value);
  if (op.type.dtype == dtype) return absl::OkStatus();
  const bool own = ClassOf(chain_, value) == OpClass::kView && !users_.IsOutput(value);
  const bool computed = op.kind != OpKind::kInput && op.type.dtype == DType::kF32;
  const bool elsewhere = computed && !RoundedAlike(value, dtype);
  if (computed && (own || OnlyMultiplied(value, dtype)) && RoundedAlike(value, dtype)) {
    return absl::OkStatus();
  }
  return Invalid("op ", value, " (", NameOf(op), ") is ", NameOf(op.type.dtype),
                 elsewhere ? " in memory for another kernel" : " in memory", ", the weights are ",
                 NameOf(dtype),
                 computed && !elsewhere ? ", and others read it too: cast it to " : ": cast it to ",
                 NameOf(dtype), computed ? " for the product" : "");
}

// Whether no earlier run has rounded it to another dtype.
bool RunMatcher::RoundedAlike(ValueId value, DType dtype) const {
  const auto known = rounded_.find(value);
  return known == rounded_.end() || known->second == dtype;
}

void RunMatcher::Note(const GraphRun& run) {
  rounded_[run.end] = run.dtype();
  made_.insert(run.end);
  if (run.scale >= 0) {
    made_.insert(run.scale);
    rounded_[run.scale] = DType::kF32;
  }
  for (const ValueId value : run.aux) {
    made_.insert(value);
    rounded_[value] = chain_.op(value).type.dtype;
  }
  for (const ProductOperand& operand : run.matched.operands) {
    rounded_[operand.value] = operand.type.dtype;
  }
}

bool RunMatcher::IsRounded(ValueId value, DType dtype) const {
  const auto known = rounded_.find(value);
  return known != rounded_.end() && known->second == dtype;
}

}  // namespace sinter
