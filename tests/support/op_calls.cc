#include "tests/support/op_calls.h"

#include "absl/strings/strip.h"
#include "src/chain/composites_four_bits.h"
#include "src/chain/composites_next_token.h"
#include "src/chain/composites_packing.h"

namespace sinter::chain_text {

void Fail(const std::string& why) { throw std::runtime_error(why); }

ValueId Must(absl::StatusOr<ValueId> id) {
  if (!id.ok()) throw id.status();
  return *id;
}

DType TypeNamed(const std::string& word) {
  const absl::StatusOr<DType> dtype = ParseDType(word);
  if (!dtype.ok()) Fail("'" + word + "' does not name a dtype");
  return *dtype;
}

ValueId ValueOf(ChainBuilder& builder, const Term& term) {
  if (term.number.has_value()) return Must(builder.Scalar(*term.number));
  if (term.word == "none") return kNoValue;
  if (!term.word.empty() || term.dims.has_value()) Fail("no value is named '" + term.word + "'");
  if (!term.transposed) return term.id;
  std::vector<int32_t> axes(builder.TypeOf(term.id).dims.size());
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  return Must(builder.Transpose(term.id, axes));
}

namespace {

// A call and the op that it adds. Ops with a value for each operand come first, then composites.
class OpCall {
 public:
  OpCall(ChainBuilder* builder, const std::string& name, const Arguments& arguments,
         ValueId* second)
      : b_(*builder), name_(name), a_(arguments), second_(*second) {}

  absl::StatusOr<ValueId> Add() {
    const auto dtype = ParseDType(name_);
    if (dtype.ok()) return b_.Cast(Id(0), *dtype);
    const auto unary = ParseUnaryKind(name_);
    if (unary.ok()) return b_.Unary(*unary, Id(0));
    const auto binary = ParseBinaryKind(name_);
    if (binary.ok()) {
      const ValueId x = Id(0);
      return b_.Binary(*binary, x, Id(1));
    }
    const auto compare = ParseCompareKind(name_);
    if (compare.ok()) {
      const ValueId x = Id(0);
      return b_.Compare(*compare, x, Id(1));
    }
    const auto reduce = ParseReduceKind(std::string(absl::StripPrefix(name_, "reduce_")));
    if (reduce.ok()) return b_.Reduce(*reduce, Id(0), Axes(1), a_.back().word == "keep");
    const auto activation = ParseActivation(name_);
    if (activation.ok()) return AddActivation(b_, *activation, Id(0));
    if (name_ == "value") return Int(a_.at(0));
    if (name_ == "scalar") {
      return b_.Scalar(Number(0, 0), a_.size() > 1 ? TypeNamed(a_[1].word) : DType::kF32);
    }
    if (name_ == "select") {
      const ValueId c = Id(0), x = Id(1);
      return b_.Select(c, x, Id(2));
    }
    if (name_ == "spread") return b_.Broadcast(Id(0), DimsOf(a_.at(1)));
    if (name_ == "reshape") return b_.Reshape(Id(0), DimsOf(a_.at(1)));
    if (name_ == "slice") {
      const auto list = [&](const char* key) {
        std::vector<int64_t> values;
        if (a_.Find(key) == nullptr) return values;
        for (const Dim& dim : *a_.Find(key)->dims) values.push_back(dim.value);
        return values;
      };
      return b_.Slice(Id(0), list("starts"), *a_.keys.at("limits").dims, list("steps"));
    }
    if (name_ == "transpose") return b_.Transpose(Id(0), Axes(1));
    if (name_ == "concat") {
      std::vector<ValueId> parts;
      for (size_t i = 0; i + 1 < a_.size(); ++i) parts.push_back(Id(i));
      return b_.Concat(parts, Int(a_.back()));
    }
    if (name_ == "gather") return b_.Gather(Id(0), Id(1), static_cast<int>(Number(2, 0)));
    if (name_ == "scatter") return b_.Scatter(Id(0), Id(1), Id(2));
    if (name_ == "topk") return b_.TopK(Id(0), Int(a_.at(1)));
    if (name_ == "scan_max") return b_.Scan(ReduceKind::kMax, Id(0));
    if (name_ == "cumsum") return b_.Scan(ReduceKind::kSum, Id(0));
    if (name_ == "iota") return b_.Iota(*a_.at(0).dims, Int(a_.at(1)), TypeNamed(a_.at(2).word));
    if (name_ == "random") return b_.Random(*a_.at(0).dims, Id(1), Id(2));
    if (name_ == "conv") {
      Conv2d conv = ConvOf();
      conv.groups = static_cast<int64_t>(a_.Number("groups", 1));
      return b_.Convolve(Id(0), Id(1), conv);
    }
    if (name_ == "grouped") return b_.GroupedMatmul(Id(0), a_.at(1).id, Id(2), a_[1].transposed);
    if (name_ == "grouped_by_ends") {
      return b_.GroupedMatmulByEnds(Id(0), a_.at(1).id, Id(2), a_[1].transposed);
    }
    if (name_ == "scaled") return b_.ScaledMatmul(Id(0), Id(1), Id(2), Id(3), AccumulateOf());
    if (name_ == "scaled_grouped") return b_.ScaledGroupedMatmul(Id(0), Id(1), Id(2), Id(3), Id(4));
    if (name_ == "all_reduce") return b_.AllReduce(Id(0), Int(a_.at(1)));
    if (name_ == "all_gather") return b_.AllGather(Id(0), Int(a_.at(1)), Int(a_.at(2)));
    if (name_ == "reduce_scatter") return b_.ReduceScatter(Id(0), Int(a_.at(1)), Int(a_.at(2)));
    return Composite();
  }

 private:
  ValueId Id(size_t i) { return i < a_.size() ? ValueOf(b_, a_[i]) : kNoValue; }
  double Number(size_t i, double other) const {
    return i < a_.size() ? a_[i].number.value() : other;
  }
  static int Int(const Term& term) { return static_cast<int>(term.number.value()); }
  std::vector<int32_t> Axes(size_t from) const {
    std::vector<int32_t> axes;
    for (size_t i = from; i < a_.size(); ++i) {
      if (a_[i].number.has_value()) axes.push_back(Int(a_[i]));
    }
    return axes;
  }

  std::vector<Dim> DimsOf(const Term& term) {
    return term.dims.has_value() ? *term.dims : b_.TypeOf(term.id).dims;
  }

  // The value of a key; none where it is not given.
  ValueId Named(const std::string& key) {
    const Term* term = a_.Find(key);
    return term == nullptr ? kNoValue : ValueOf(b_, *term);
  }
  Activation ActOf() { return ParseActivation(a_.Word("act", "identity")).value(); }
  Checkpoint CheckpointOf() { return ParseCheckpoint(a_.at(1).word).value(); }
  Accumulate AccumulateOf() { return ParseAccumulate(a_.Word("accumulate", "promoted")).value(); }
  Conv2d ConvOf() {
    Conv2d conv;
    conv.strides = a_.List<2>("strides", conv.strides);
    conv.dilations = a_.List<2>("dilations", conv.dilations);
    conv.pads = a_.List<4>("pads", conv.pads);
    if (a_.Find("layout") != nullptr) conv.filter = FilterLayout::kHWIO;
    return conv;
  }
  QuantizeSpec QuantizerOf() {
    QuantizeSpec spec;
    if (const Term* granularity = a_.Find("granularity")) {
      spec.granularity = ParseGranularity(granularity->word).value();
    }
    if (const Term* codes = a_.Find("codes")) spec.codes = TypeNamed(codes->word);
    spec.scale = Named("scale");
    spec.eps = a_.Number("eps", spec.eps);
    spec.upper_bound = a_.Number("upper_bound", 0);
    spec.ue8m0 = a_.Number("ue8m0", 0) != 0;
    return spec;
  }

  absl::StatusOr<ValueId> Composite() {
    if (name_ == "linear") {
      const std::string act = a_.size() > 3 ? a_[3].word : "identity";
      const Layout layout = ParseLayout(a_.Word("layout", "oi")).value();
      return AddLinear(b_, Id(0), Id(1), Id(2), layout, ParseActivation(act).value());
    }
    if (name_ == "softplus") return AddSoftplus(b_, Id(0));
    if (name_ == "swiglu") return AddSwiglu(b_, Id(0), Id(1));
    if (name_ == "clamp") return AddClamp(b_, Id(0), Number(1, 0), Number(2, 0));
    if (name_ == "argmax") return AddArgmax(b_, Id(0));
    if (name_ == "argmin") return AddArgmin(b_, Id(0));
    if (name_ == "softmax") {
      return AddSoftmax(b_, Id(0), static_cast<int>(Number(1, -1)), Number(2, 1), Id(3));
    }
    if (name_ == "layernorm") return AddLayerNorm(b_, Id(0), Number(1, 0), Id(2), Id(3));
    if (name_ == "rmsnorm") return AddRmsNorm(b_, Id(0), Number(1, 0), Id(2));
    if (name_ == "attention") {
      AttentionOptions options{.scale = a_.Number("scale", 0)};
      options.bias = Named("bias");
      options.mask = Named("mask");
      return AddAttention(b_, Id(0), Id(1), Id(2), options);
    }
    if (name_ == "rope") return AddRope(b_, Id(0), Id(1), Id(2));
    if (name_ == "gru_cell") return AddGruCell(b_, Id(0), Id(1), Id(2));
    if (name_ == "lstm_cell") {
      const auto cell = AddLstmCell(b_, Id(0), Id(1));
      if (cell.ok()) second_ = cell->c;
      return cell.ok() ? absl::StatusOr<ValueId>(cell->h) : cell.status();
    }
    if (name_ == "activation")
      return AddActivation(b_, ParseActivation(a_.at(1).word).value(), Id(0));
    if (name_ == "dequantize_u4") return AddDequantizeU4(b_, Id(0), Id(1), Id(2));
    if (name_ == "dequantize_e2m1") return AddDequantizeE2M1(b_, Id(0), Id(1));
    if (name_ == "dequantize_u4_packed") return AddDequantizeU4Packed(b_, Id(0), Id(1), Id(2));
    if (name_ == "dequantize_e2m1_packed") return AddDequantizeE2M1Packed(b_, Id(0), Id(1));
    if (name_ == "dequantize_e8m0") return AddDequantizeE8M0(b_, Id(0));
    if (name_ == "pack_codes") return AddPackCodes(b_, Id(0), CheckpointOf());
    if (name_ == "pack_scales") return AddPackScales(b_, Id(0), CheckpointOf());
    if (name_ == "pack_zeros") return AddPackZeros(b_, Id(0), CheckpointOf());
    if (name_ == "next_token") return AddDraw();
    if (name_ == "quantize") {
      const auto scaled = AddQuantize(b_, Id(0), QuantizerOf());
      if (scaled.ok()) second_ = scaled->scale;
      return scaled.ok() ? absl::StatusOr<ValueId>(scaled->codes) : scaled.status();
    }
    return OfManyOperands();
  }

  absl::StatusOr<ValueId> AddDraw() {
    NextTokenOperands in{Id(0), Id(1), Id(2)};
    in.temperature = Named("temperature");
    in.k = Named("k");
    in.top_p = Named("top_p");
    in.min_p = Named("min_p");
    const NextTokenOptions options{static_cast<int64_t>(a_.Number("count", 0)),
                                   a_.Number("logprob", 0) != 0};
    const auto drawn = AddNextToken(b_, in, options);
    if (drawn.ok()) second_ = drawn->log_probability;
    return drawn.ok() ? absl::StatusOr<ValueId>(drawn->token) : drawn.status();
  }

  absl::StatusOr<ValueId> OfManyOperands() {
    const auto act = [&] { return ParseActivation(a_.back().word).value(); };
    const Layout layout = ParseLayout(a_.Word("layout", "oi")).value_or(Layout::kOI);
    const std::array<int64_t, 2> taps = a_.List<2>("taps", {1, 1});
    if (name_ == "window") return b_.Window(Id(0), Id(1), taps, ConvOf());
    if (name_ == "max_pool2d") return AddMaxPool2d(b_, Id(0), taps, ConvOf());
    if (name_ == "avg_pool2d") {
      return AddAvgPool2d(b_, Id(0), taps, ConvOf(), a_.Number("count_pads", 0) != 0);
    }
    if (name_ == "conv2d") {
      return AddConv2d(b_, Id(0), Id(1), ConvOf(), static_cast<int64_t>(a_.Number("groups", 1)));
    }
    if (name_ == "gemm_chain") {
      return AddGemmChain(b_, {Id(0), Id(1), Id(2), Id(3), Id(4)}, act(), layout);
    }
    if (name_ == "gated_ffn") {
      const GatedFfnOperands in{Id(0), Id(1), Id(2), Id(3), Id(4), Id(5), Id(6)};
      return AddGatedFfn(b_, in, act(), layout);
    }
    if (name_ == "grouped_gated_ffn") {
      GroupedFfnOptions options{ParseActivation(a_.Word("act", "silu")).value(), layout};
      options.alpha = a_.Number("alpha", 1);
      options.beta = a_.Number("beta", 0);
      options.limit = a_.Number("limit", 0);
      return AddGroupedGatedFfn(b_, {Id(0), Id(1), Id(2), Id(3), Id(4), Id(5), Id(6)}, options);
    }
    if (name_ == "scaled_linear") {
      return AddScaledLinear(b_, {Id(0), Id(1)}, {Id(2), Id(3)}, Id(4), ActOf(), AccumulateOf());
    }
    if (name_ == "scaled_gemm_chain" || name_ == "scaled_gated_ffn") {
      ScaledFfnOperands in{{Id(0), Id(1)}, {Id(2), Id(3)}, {Id(4), Id(5)}, {Id(6), Id(7)}};
      in.bias1 = Named("bias1");
      in.bias_up = Named("bias_up");
      in.bias2 = Named("bias2");
      const bool gated = name_ == "scaled_gated_ffn";
      return AddScaledFfn(b_, in, gated, QuantizerOf(), ActOf(), AccumulateOf());
    }
    Fail("'" + name_ + "' does not name an op");
  }

  ChainBuilder& b_;
  const std::string& name_;
  const Arguments& a_;
  ValueId& second_;
};

}  // namespace

absl::StatusOr<ValueId> AddCall(ChainBuilder& builder, const std::string& name,
                                const Arguments& arguments, ValueId* second) {
  return OpCall(&builder, name, arguments, second).Add();
}

}  // namespace sinter::chain_text
