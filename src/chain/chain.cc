#include "src/chain/chain.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/codec.h"
#include "src/base/refusal.h"
#include "src/base/status.h"
#include "src/chain/builder.h"

namespace sinter {

std::vector<int32_t> Chain::CallerOrder() const {
  std::vector<int32_t> result(input_order_.size());
  for (size_t i = 0; i < input_order_.size(); ++i) {
    result[input_order_[i]] = static_cast<int32_t>(i);
  }
  return result;
}

bool Chain::Has(OpKind kind) const {
  return std::any_of(ops_.begin(), ops_.end(), [&](const Op& op) { return op.kind == kind; });
}

std::vector<int> Chain::UseCounts() const {
  std::vector<int> counts(ops_.size(), 0);
  for (const Op& op : ops_) {
    for (ValueId id : op.operands) ++counts[id];
  }
  for (const ChainOutput& out : outputs_) ++counts[out.value];
  return counts;
}

Dim Chain::FactorsOf(const Op& op) const {
  const std::vector<Dim>& in = ops_[op.operands[0]].type.dims;
  if (op.kind == OpKind::kMatmul) return in[in.size() - (op.transpose_a ? 2 : 1)];
  int64_t factors = in.back().value;
  if (op.kind == OpKind::kScaledMatmul || op.kind == OpKind::kGroupedMatmul) {
    return Dim::Constant(factors);
  }
  const std::vector<Dim>& w = ops_[op.operands[1]].type.dims;
  factors = w[op.conv.in_axis()].value;
  for (int axis : {0, 1}) factors *= w[op.conv.height_axis() + axis].value;
  return Dim::Constant(factors);
}

double Chain::MatmulFlops(int64_t m) const {
  double flops = 0;
  for (const Op& op : ops_) {
    const bool other = op.kind == OpKind::kScaledMatmul || op.kind == OpKind::kGroupedMatmul;
    if (op.kind != OpKind::kMatmul && op.kind != OpKind::kConv2d && !other) continue;
    double product = 2.0 * static_cast<double>(FactorsOf(op).At(m));
    for (Dim dim : op.type.dims) product *= static_cast<double>(dim.At(m));
    flops += product;
  }
  return flops;
}

std::string Chain::ToString() const {
  std::string text;
  for (size_t i = 0; i < ops_.size(); ++i) {
    const Op& op = ops_[i];
    absl::StrAppend(&text, i, " ", NameOf(op));
    if (op.kind == OpKind::kReduce) absl::StrAppend(&text, " ", NameOf(op.reduce));
    if (op.kind == OpKind::kScalar) absl::StrAppend(&text, " ", op.scalar);
    for (ValueId id : op.operands) absl::StrAppend(&text, " ", id);
    if (op.accumulate == Accumulate::kFast) absl::StrAppend(&text, " accumulate=fast");
    if (op.ranks > 1) absl::StrAppend(&text, " ranks=", op.ranks);
    absl::StrAppend(&text, " : ", sinter::ToString(op.type), "\n");
  }
  for (const ChainOutput& out : outputs_) absl::StrAppend(&text, "output ", out.value, "\n");
  return text;
}

std::string NameOfValue(const Chain& chain, ValueId id) {
  const Op& op = chain.op(id);
  if (op.kind != OpKind::kInput) return absl::StrCat("op ", id, " (", NameOf(op), ")");
  const int32_t input = chain.InputOrder()[static_cast<size_t>(op.input)];
  const std::string& name = chain.InputName(input);
  return name.empty() ? absl::StrCat("input ", input) : absl::StrCat("'", name, "'");
}

// ChainBuilder::Finish: the canonical order and its bytes, and the way back.

namespace {

constexpr absl::string_view kMagic = "SNCH";
constexpr uint32_t kVersion = 1;

constexpr uint8_t kGroupsFollow = 0x80;  // in the byte of a filter's layout

// The functions below write fields or read them, by the codec.
template <typename Codec, typename Dims>
void DimsFields(Codec& codec, Dims& dims) {
  auto rank = static_cast<uint8_t>(dims.size());
  codec(rank);
  if constexpr (Codec::kReads) dims.resize(rank);
  for (auto& dim : dims) {
    int64_t extent = dim.symbolic ? -1 : dim.value;
    codec(extent);
    if constexpr (Codec::kReads) dim = extent == -1 ? Dim::M() : Dim::Constant(extent);
  }
}

// Bytes do not hold the rank: it is the type's.
template <typename Codec, typename Strides>
void StridesFields(Codec& codec, Strides& strides, size_t rank) {
  if constexpr (Codec::kReads) strides.resize(rank);
  for (auto& stride : strides) codec(stride.value, Byte(stride.m_power));
}

template <typename Codec, typename Conv>
void ConvFields(Codec& codec, Conv& conv) {
  auto filter = static_cast<uint8_t>(static_cast<uint8_t>(conv.filter) |
                                     (conv.groups == 1 ? 0 : kGroupsFollow));
  codec(filter, conv.strides, conv.dilations, conv.pads);
  if constexpr (Codec::kReads) conv.filter = static_cast<FilterLayout>(filter & ~kGroupsFollow);
  if ((filter & kGroupsFollow) != 0) codec(conv.groups);
}

// Every field of every kind but the rare ones at the end: unused ones cost a few bytes and
// spare a second list of what each kind uses.
template <typename Codec, typename Fields>
void OpFields(Codec& codec, Fields& op) {
  codec(op.kind, Word(op.operands), op.type.dtype);
  DimsFields(codec, op.type.dims);
  codec(op.unary, op.binary, op.compare, op.reduce,
        Bits(op.transpose_a, op.transpose_b, op.keepdims, op.constant, op.accumulate), op.axis,
        op.scalar, ByteList(op.axes), ByteList(op.starts), ByteList(op.steps));
  if (op.kind == OpKind::kInput) StridesFields(codec, op.strides, op.type.dims.size());
  if (op.kind == OpKind::kConv2d || op.kind == OpKind::kWindow) ConvFields(codec, op.conv);
  if (IsCollective(op)) codec(Byte(op.ranks));
  if (op.kind == OpKind::kWindow) codec(op.taps);
}

std::string Serialize(const std::vector<Op>& ops, const std::vector<ChainOutput>& outputs) {
  ByteWriter out;
  out.Raw(kMagic);
  out(kVersion, static_cast<uint32_t>(ops.size()));
  for (const Op& op : ops) OpFields(out, op);
  out.U32(static_cast<uint32_t>(outputs.size()));
  for (const ChainOutput& o : outputs) {
    out(Word(o.value));
    StridesFields(out, o.strides, o.strides.size());
    out(o.alias_input);
  }
  return out.Take();
}

// Canonical number of every op of the builder, -1 for dead ones. Depth-first and post-order,
// without recursion.
class Numbering {
 public:
  explicit Numbering(const std::vector<Op>& ops) : ops_(ops), number_(ops.size(), -1) {}

  void Visit(ValueId root) {
    Push(root);
    while (!stack_.empty()) {
      auto& [id, next] = stack_.back();
      if (next < ops_[id].operands.size()) {
        Push(ops_[id].operands[next++]);
      } else {
        number_[id] = static_cast<ValueId>(order_.size());
        order_.push_back(id);
        stack_.pop_back();
      }
    }
  }
  const std::vector<ValueId>& order() const { return order_; }
  ValueId operator[](ValueId id) const { return number_[id]; }

 private:
  void Push(ValueId id) {
    if (number_[id] < 0) stack_.emplace_back(id, 0);
  }
  const std::vector<Op>& ops_;
  std::vector<ValueId> number_;
  std::vector<ValueId> order_;
  std::vector<std::pair<ValueId, size_t>> stack_;
};

bool HasSymbol(const Op& op) { return SymbolicAxis(op.type.dims) >= 0; }

}  // namespace

absl::StatusOr<Chain> ChainBuilder::Finish() {
  if (outputs_.empty()) return FailedPrecondition("the chain has no output");
  Numbering needed(ops_);
  for (const ChainOutput& out : outputs_) needed.Visit(out.value);
  for (ValueId id = 0; id < size(); ++id) {
    if (needed[id] >= 0) continue;
    return OfOp(id, NameOf(ops_[id]), Invalid("no output needs its value"));
  }
  SINTER_RETURN_IF_ERROR(MakeProducts());
  Numbering numbering(ops_);
  for (const ChainOutput& out : outputs_) numbering.Visit(out.value);
  Chain chain;
  std::vector<int32_t> canonical_input(input_names_.size());
  for (ValueId id : numbering.order()) {
    Op op = std::move(ops_[id]);
    for (ValueId& operand : op.operands) operand = numbering[operand];
    chain.uses_m_ = chain.uses_m_ || HasSymbol(op);
    chain.ranks_ = std::max(chain.ranks_, static_cast<int>(op.ranks));
    if (op.kind == OpKind::kInput) {
      canonical_input[op.input] = chain.num_inputs();
      chain.input_order_.push_back(op.input);
      op.input = chain.num_inputs();
      chain.inputs_.push_back(static_cast<ValueId>(chain.ops_.size()));
    }
    chain.ops_.push_back(std::move(op));
  }
  chain.outputs_ = std::move(outputs_);
  for (ChainOutput& out : chain.outputs_) {
    out.value = numbering[out.value];
    if (out.alias_input >= 0) out.alias_input = canonical_input[out.alias_input];
  }
  chain.input_names_ = std::move(input_names_);
  chain.canonical_ = Serialize(chain.ops_, chain.outputs_);
  chain.digest_ = Sha256(chain.canonical_);
  chain.once_ = std::make_shared<decltype(chain.once_)::element_type>();
  *this = ChainBuilder();
  return chain;
}

absl::StatusOr<Chain> ChainFromCanonicalBytes(absl::string_view bytes) {
  ByteReader in(bytes);
  if (in.Raw(kMagic.size()) != kMagic) return DataLoss("chain: wrong magic");
  if (const uint32_t version = in.U32(); version != kVersion) {
    return DataLoss("chain: version is ", version, ", must be ", kVersion);
  }
  ChainBuilder builder;
  const uint32_t ops = in.U32();
  for (uint32_t i = 0; i < ops; ++i) {
    Op op;
    OpFields(in, op);
    if (!in.ok()) return in.Finish("chain");
    SINTER_RETURN_IF_ERROR(Replay(builder, op).status());
  }
  const uint32_t outputs = in.U32();
  for (uint32_t i = 0; i < outputs && in.ok(); ++i) {
    const ValueId value = static_cast<ValueId>(in.U32());
    if (!builder.Contains(value)) return DataLoss("chain: output of no value");
    OutputOptions options;
    StridesFields(in, options.strides, builder.TypeOf(value).dims.size());
    const int64_t alias = in.I64();
    for (ValueId id = 0; alias >= 0 && id < builder.size(); ++id) {
      if (builder.OpOf(id).input == alias) options.alias = id;
    }
    SINTER_RETURN_IF_ERROR(builder.Output(value, options));
  }
  SINTER_RETURN_IF_ERROR(in.Finish("chain"));
  SINTER_ASSIGN_OR_RETURN(Chain chain, builder.Finish());
  if (chain.CanonicalBytes() != bytes) return DataLoss("chain: not in canonical form");
  return chain;
}

}  // namespace sinter
