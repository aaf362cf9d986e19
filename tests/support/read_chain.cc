#include "tests/support/read_chain.h"

#include "absl/strings/strip.h"

namespace sinter {

// One text's reader: recursive descent, a call of the builder at each node.
class ChainParser {
 public:
  ChainParser(ChainReader* reader, absl::string_view text)
      : r_(*reader), b_(reader->builder_), text_(text) {}

  void Statements() {
    for (; !AtEnd(); Expect(";")) {
      if (Take("out ")) {
        Outputs();
        continue;
      }
      const std::vector<std::string> names = Names();
      if (names.empty()) {
        r_.values_["_"] = Id(Sum());
      } else if (Take("=")) {
        r_.values_[names[0]] = Id(Sum());
        if (names.size() > 1) r_.values_[names[1]] = second_;
      } else {
        Expect(":");
        Inputs(names);
      }
      if (AtEnd()) return;
    }
  }

 private:
  // What an expression is before an op takes it: a number becomes a scalar where a value is needed.
  struct Node {
    ValueId id = kNoValue;
    std::optional<double> number;
    bool transposed = false;
    std::optional<std::vector<Dim>> dims;
    std::string word;
  };
  // The arguments of a call: in their order, and by key.
  struct Nodes : std::vector<Node> {
    std::map<std::string, Node> keys;
    const Node* Find(const std::string& key) const {
      const auto found = keys.find(key);
      return found == keys.end() ? nullptr : &found->second;
    }
    std::string Word(const std::string& key, const std::string& other) const {
      const Node* node = Find(key);
      return node == nullptr ? other : node->word;
    }
    double Number(const std::string& key, double other) const {
      const Node* node = Find(key);
      return node == nullptr ? other : node->number.value();
    }
    // Numbers of a list.
    template <size_t kCount>
    std::array<int64_t, kCount> List(const std::string& key,
                                     std::array<int64_t, kCount> list) const {
      const Node* node = Find(key);
      for (size_t i = 0; node != nullptr && i < kCount; ++i) list[i] = node->dims->at(i).value;
      return list;
    }
  };

  [[noreturn]] void Fail(const std::string& why) const {
    throw std::runtime_error(absl::StrCat(why, " at '", text_.substr(at_), "' of ", text_));
  }
  void SkipSpace() {
    while (at_ < text_.size() && isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool AtEnd() {
    SkipSpace();
    return at_ == text_.size();
  }
  bool Take(absl::string_view token) {
    SkipSpace();
    if (!absl::StartsWith(text_.substr(at_), token)) return false;
    at_ += token.size();
    return true;
  }
  void Expect(absl::string_view token) {
    if (!Take(token) && !AtEnd()) Fail(absl::StrCat("'", token, "' is missing"));
  }
  std::string Word() {
    SkipSpace();
    const size_t begin = at_;
    while (at_ < text_.size() &&
           (isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_'))
      ++at_;
    if (at_ == begin) Fail("a name is missing");
    return std::string(text_.substr(begin, at_ - begin));
  }
  double Number() {
    SkipSpace();
    const std::string rest(text_.substr(at_));
    char* end = nullptr;
    const double value = std::strtod(rest.c_str(), &end);
    if (end == rest.c_str()) Fail("a number is missing");
    at_ += static_cast<size_t>(end - rest.c_str());
    return value;
  }
  // Reads the names that a statement defines; an expression defines none.
  std::vector<std::string> Names() {
    const size_t begin = at_;
    std::vector<std::string> names;
    do {
      if (NumberIsNext() || AtEnd() || absl::StrContains("([-", text_.substr(at_, 1))) break;
      names.push_back(Word());
    } while (Take(","));
    SkipSpace();
    if (at_ < text_.size() && (text_[at_] == '=' || text_[at_] == ':')) return names;
    at_ = begin;
    return {};
  }
  bool NumberIsNext() {
    SkipSpace();
    return at_ < text_.size() &&
           (isdigit(static_cast<unsigned char>(text_[at_])) || text_[at_] == '.');
  }

  ValueId Must(absl::StatusOr<ValueId> id) {
    if (!id.ok()) throw id.status();
    return *id;
  }
  Node Made(absl::StatusOr<ValueId> id) {
    Node node;
    node.id = Must(std::move(id));
    return node;
  }
  ValueId Id(const Node& node) {
    if (node.number.has_value()) return Must(b_.Scalar(*node.number));
    if (node.word == "none") return kNoValue;
    if (!node.word.empty() || node.dims.has_value()) Fail("no value is named '" + node.word + "'");
    if (!node.transposed) return node.id;
    std::vector<int32_t> axes(b_.TypeOf(node.id).dims.size());
    std::iota(axes.begin(), axes.end(), 0);
    std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
    return Must(b_.Transpose(node.id, axes));
  }
  DType Type(const std::string& word) {
    const absl::StatusOr<DType> dtype = ParseDType(word);
    if (!dtype.ok()) Fail("'" + word + "' does not name a dtype");
    return *dtype;
  }

  std::vector<Dim> Dims() {
    std::vector<Dim> dims;
    while (!Take("]")) {
      dims.push_back(Take("M") ? Dim::M() : Dim::Constant(static_cast<int64_t>(Number())));
      Take(",");
    }
    return dims;
  }

  // One input for each name.
  void Inputs(const std::vector<std::string>& names) {
    const size_t begin = at_;
    for (const std::string& name : names) {
      at_ = begin;
      r_.values_[name] = Input(name);
    }
  }
  ValueId Input(const std::string& name) {
    InputOptions options;
    options.name = name;
    options.constant = Take("const ");
    TensorType type{Type(Word()), {}};
    Expect("[");
    type.dims = Dims();
    options.strides = Strides();
    return Must(b_.Input(type, options));
  }

  std::vector<Stride> Strides() {
    std::vector<Stride> strides;
    if (!Take("strides(")) return strides;
    while (!Take(")")) {
      Stride stride{static_cast<int64_t>(Number()), 0};
      if (Take("*M")) stride.m_power = Take("^") ? static_cast<int32_t>(Number()) : 1;
      strides.push_back(stride);
      Take(",");
    }
    return strides;
  }

  void Outputs() {
    do {
      const ValueId id = Id(Sum());
      OutputOptions options;
      options.strides = Strides();
      if (Take("over ")) options.alias = r_.values_.at(Word());
      const absl::Status status = b_.Output(id, options);
      if (!status.ok()) throw status;
    } while (Take(","));
  }

  Node Sum() {
    Node left = Product();
    for (;;) {
      if (Take("+")) {
        left = Both(BinaryKind::kAdd, left, Product());
      } else if (Take("-")) {
        left = Both(BinaryKind::kSub, left, Product());
      } else {
        return left;
      }
    }
  }
  Node Product() {
    Node left = Unary();
    for (;;) {
      if (Take("*")) {
        left = Both(BinaryKind::kMul, left, Unary());
      } else if (Take("/")) {
        left = Both(BinaryKind::kDiv, left, Unary());
      } else if (Take("@")) {
        const Node right = Unary();
        left = Made(b_.Matmul(left.id, right.id, left.transposed, right.transposed));
      } else {
        return left;
      }
    }
  }
  Node Both(BinaryKind kind, const Node& left, const Node& right) {
    const ValueId a = Id(left);
    return Made(b_.Binary(kind, a, Id(right)));
  }
  Node Unary() {
    if (!Take("-")) return Behind(Primary());
    if (NumberIsNext()) return Literal(-1);
    Node node = Unary();
    if (!node.number.has_value()) return Made(b_.Unary(UnaryKind::kNeg, Id(node)));
    node.number = -*node.number;
    return node;
  }
  Node Literal(double sign) {
    Node node;
    node.number = sign * Number();
    return Take(":") ? Made(b_.Scalar(*node.number, Type(Word()))) : node;
  }
  Node Behind(Node node) {
    for (;;) {
      if (Take(".T")) {
        node.transposed = !node.transposed;
      } else if (Take("[")) {
        node = Part(Id(node));
      } else {
        return node;
      }
    }
  }
  Node Primary() {
    Node node;
    if (Take("(")) {
      node = Sum();
      Expect(")");
      return node;
    }
    if (Take("[")) {
      node.dims = Dims();
      return node;
    }
    if (Take("{")) {
      node.id = Input("");
      Expect("}");
      return node;
    }
    if (NumberIsNext()) return Literal(1);
    const std::string word = Word();
    if (Take("(")) return Call(word);
    if (word == "nan" || word == "inf") {
      node.number = std::strtod(word.c_str(), nullptr);
      return node;
    }
    const auto value = r_.values_.find(word);
    if (value == r_.values_.end()) {
      node.word = word;
    } else {
      node.id = value->second;
    }
    return node;
  }

  // Reads what follows "x[".
  Node Part(ValueId x) {
    const std::vector<Dim>& dims = b_.TypeOf(x).dims;
    std::vector<int64_t> starts, steps;
    std::vector<Dim> limits;
    while (!Take("]")) {
      starts.push_back(NumberIsNext() ? static_cast<int64_t>(Number()) : 0);
      Expect(":");
      const size_t axis = limits.size();
      if (NumberIsNext()) {
        limits.push_back(Dim::Constant(static_cast<int64_t>(Number())));
      } else {
        Take("M");
        limits.push_back(axis < dims.size() ? dims[axis] : Dim::M());
      }
      steps.push_back(Take(":") ? static_cast<int64_t>(Number()) : 1);
      Take(",");
    }
    return Made(b_.Slice(x, starts, limits, steps));
  }

  static int Int(const Node& node) { return static_cast<int>(node.number.value()); }
  static std::vector<int32_t> Axes(const Nodes& a, size_t from) {
    std::vector<int32_t> axes;
    for (size_t i = from; i < a.size(); ++i) {
      if (a[i].number.has_value()) axes.push_back(Int(a[i]));
    }
    return axes;
  }

  // Keys whose words may be names of values, too.
  static bool TakesWord(const std::string& key) {
    for (const char* of_words : {"granularity", "codes", "accumulate", "layout", "act"}) {
      if (key == of_words) return true;
    }
    return false;
  }

  Node Call(const std::string& f) {
    Nodes a;
    while (!Take(")")) {
      const size_t begin = at_;
      SkipSpace();
      const bool may_be_key = at_ < text_.size() && isalpha(static_cast<unsigned char>(text_[at_]));
      const std::string key = may_be_key ? Word() : "";
      if (may_be_key && Take("=")) {
        a.keys[key] = TakesWord(key) ? Node{kNoValue, {}, false, {}, Word()} : Sum();
      } else {
        at_ = begin;
        a.push_back(Sum());
      }
      Take(",");
    }
    return Made(Called(f, a));
  }

  absl::StatusOr<ValueId> Called(const std::string& f, const Nodes& a) {
    const auto id = [&](size_t i) { return i < a.size() ? Id(a[i]) : kNoValue; };
    const auto number = [&](size_t i, double other) {
      return i < a.size() ? a[i].number.value() : other;
    };
    const auto dtype = ParseDType(f);
    if (dtype.ok()) return b_.Cast(id(0), *dtype);
    const auto unary = ParseUnaryKind(f);
    if (unary.ok()) return b_.Unary(*unary, id(0));
    const auto binary = ParseBinaryKind(f);
    if (binary.ok()) return Both(*binary, a.at(0), a.at(1)).id;
    const auto compare = ParseCompareKind(f);
    if (compare.ok()) {
      const ValueId x = id(0);
      return b_.Compare(*compare, x, id(1));
    }
    const auto reduce = ParseReduceKind(std::string(absl::StripPrefix(f, "reduce_")));
    if (reduce.ok()) return b_.Reduce(*reduce, id(0), Axes(a, 1), a.back().word == "keep");
    const auto activation = ParseActivation(f);
    if (activation.ok()) return AddActivation(b_, *activation, id(0));
    if (f == "value") return Int(a.at(0));
    if (f == "scalar") {
      return b_.Scalar(number(0, 0), a.size() > 1 ? Type(a[1].word) : DType::kF32);
    }
    if (f == "select") {
      const ValueId c = id(0), x = id(1);
      return b_.Select(c, x, id(2));
    }
    if (f == "spread") return b_.Broadcast(id(0), DimsOf(a.at(1)));
    if (f == "reshape") return b_.Reshape(id(0), DimsOf(a.at(1)));
    if (f == "slice") {
      const auto list = [&](const char* key) {
        std::vector<int64_t> values;
        if (a.Find(key) == nullptr) return values;
        for (const Dim& dim : *a.Find(key)->dims) values.push_back(dim.value);
        return values;
      };
      return b_.Slice(id(0), list("starts"), *a.keys.at("limits").dims, list("steps"));
    }
    if (f == "transpose") return b_.Transpose(id(0), Axes(a, 1));
    if (f == "concat") {
      std::vector<ValueId> parts;
      for (size_t i = 0; i + 1 < a.size(); ++i) parts.push_back(id(i));
      return b_.Concat(parts, Int(a.back()));
    }
    if (f == "gather") return b_.Gather(id(0), id(1), static_cast<int>(number(2, 0)));
    if (f == "scatter") return b_.Scatter(id(0), id(1), id(2));
    if (f == "topk") return b_.TopK(id(0), Int(a.at(1)));
    if (f == "scan_max") return b_.Scan(ReduceKind::kMax, id(0));
    if (f == "cumsum") return b_.Scan(ReduceKind::kSum, id(0));
    if (f == "iota") return b_.Iota(*a.at(0).dims, Int(a.at(1)), Type(a.at(2).word));
    if (f == "random") return b_.Random(*a.at(0).dims, id(1), id(2));
    if (f == "conv") {
      Conv2d conv = ConvOf(a);
      conv.groups = static_cast<int64_t>(a.Number("groups", 1));
      return b_.Convolve(id(0), id(1), conv);
    }
    if (f == "grouped") return b_.GroupedMatmul(id(0), a.at(1).id, id(2), a[1].transposed);
    if (f == "grouped_by_ends") {
      return b_.GroupedMatmulByEnds(id(0), a.at(1).id, id(2), a[1].transposed);
    }
    if (f == "scaled") {
      return b_.ScaledMatmul(id(0), id(1), id(2), id(3), AccumulateOf(a));
    }
    if (f == "scaled_grouped") return b_.ScaledGroupedMatmul(id(0), id(1), id(2), id(3), id(4));
    if (f == "all_reduce") return b_.AllReduce(id(0), Int(a.at(1)));
    if (f == "all_gather") return b_.AllGather(id(0), Int(a.at(1)), Int(a.at(2)));
    if (f == "reduce_scatter") return b_.ReduceScatter(id(0), Int(a.at(1)), Int(a.at(2)));
    return Composite(f, a);
  }

  std::vector<Dim> DimsOf(const Node& node) {
    return node.dims.has_value() ? *node.dims : b_.TypeOf(node.id).dims;
  }

  static Accumulate AccumulateOf(const Nodes& a) {
    return ParseAccumulate(a.Word("accumulate", "promoted")).value();
  }
  static Conv2d ConvOf(const Nodes& a) {
    Conv2d conv;
    conv.strides = a.List<2>("strides", conv.strides);
    conv.dilations = a.List<2>("dilations", conv.dilations);
    conv.pads = a.List<4>("pads", conv.pads);
    if (a.Find("layout") != nullptr) conv.filter = FilterLayout::kHWIO;
    return conv;
  }
  QuantizeSpec QuantizerOf(const Nodes& a) {
    QuantizeSpec spec;
    if (const Node* granularity = a.Find("granularity")) {
      spec.granularity = ParseGranularity(granularity->word).value();
    }
    if (const Node* codes = a.Find("codes")) spec.codes = Type(codes->word);
    if (const Node* scale = a.Find("scale")) spec.scale = Id(*scale);
    spec.eps = a.Number("eps", spec.eps);
    spec.upper_bound = a.Number("upper_bound", 0);
    spec.ue8m0 = a.Number("ue8m0", 0) != 0;
    return spec;
  }

  absl::StatusOr<ValueId> Composite(const std::string& f, const Nodes& a) {
    const auto id = [&](size_t i) { return i < a.size() ? Id(a[i]) : kNoValue; };
    const auto number = [&](size_t i, double other) {
      return i < a.size() ? a[i].number.value() : other;
    };
    if (f == "linear") {
      const std::string act = a.size() > 3 ? a[3].word : "identity";
      const Layout layout = ParseLayout(a.Word("layout", "oi")).value();
      return AddLinear(b_, id(0), id(1), id(2), layout, ParseActivation(act).value());
    }
    if (f == "softplus") return AddSoftplus(b_, id(0));
    if (f == "swiglu") return AddSwiglu(b_, id(0), id(1));
    if (f == "clamp") return AddClamp(b_, id(0), number(1, 0), number(2, 0));
    if (f == "argmax") return AddArgmax(b_, id(0));
    if (f == "argmin") return AddArgmin(b_, id(0));
    if (f == "softmax") {
      return AddSoftmax(b_, id(0), static_cast<int>(number(1, -1)), number(2, 1), id(3));
    }
    if (f == "layernorm") return AddLayerNorm(b_, id(0), number(1, 0), id(2), id(3));
    if (f == "rmsnorm") return AddRmsNorm(b_, id(0), number(1, 0), id(2));
    if (f == "attention") {
      AttentionOptions options;
      options.scale = a.Number("scale", 0);
      if (const Node* bias = a.Find("bias")) options.bias = Id(*bias);
      if (const Node* mask = a.Find("mask")) options.mask = Id(*mask);
      return AddAttention(b_, id(0), id(1), id(2), options);
    }
    if (f == "rope") return AddRope(b_, id(0), id(1), id(2));
    if (f == "gru_cell") return AddGruCell(b_, id(0), id(1), id(2));
    if (f == "lstm_cell") {
      const auto cell = AddLstmCell(b_, id(0), id(1));
      if (cell.ok()) second_ = cell->c;
      return cell.ok() ? absl::StatusOr<ValueId>(cell->h) : cell.status();
    }
    if (f == "activation") return AddActivation(b_, ParseActivation(a.at(1).word).value(), id(0));
    if (f == "quantize") {
      const auto scaled = AddQuantize(b_, id(0), QuantizerOf(a));
      if (scaled.ok()) second_ = scaled->scale;
      return scaled.ok() ? absl::StatusOr<ValueId>(scaled->codes) : scaled.status();
    }
    return OfManyOperands(f, a);
  }

  absl::StatusOr<ValueId> OfManyOperands(const std::string& f, const Nodes& a) {
    const auto id = [&](size_t i) { return i < a.size() ? Id(a[i]) : kNoValue; };
    const auto act = [&] { return ParseActivation(a.back().word).value(); };
    const Layout layout = ParseLayout(a.Word("layout", "oi")).value_or(Layout::kOI);
    const std::array<int64_t, 2> taps = a.List<2>("taps", {1, 1});
    if (f == "window") return b_.Window(id(0), id(1), taps, ConvOf(a));
    if (f == "max_pool2d") return AddMaxPool2d(b_, id(0), taps, ConvOf(a));
    if (f == "avg_pool2d") {
      return AddAvgPool2d(b_, id(0), taps, ConvOf(a), a.Number("count_pads", 0) != 0);
    }
    if (f == "conv2d") {
      return AddConv2d(b_, id(0), id(1), ConvOf(a), static_cast<int64_t>(a.Number("groups", 1)));
    }
    if (f == "gemm_chain") {
      return AddGemmChain(b_, {id(0), id(1), id(2), id(3), id(4)}, act(), layout);
    }
    if (f == "gated_ffn") {
      const GatedFfnOperands in{id(0), id(1), id(2), id(3), id(4), id(5), id(6)};
      return AddGatedFfn(b_, in, act(), layout);
    }
    if (f == "grouped_gated_ffn") {
      GroupedFfnOptions options{ParseActivation(a.Word("act", "silu")).value(), layout};
      options.alpha = a.Number("alpha", 1);
      options.beta = a.Number("beta", 0);
      options.limit = a.Number("limit", 0);
      return AddGroupedGatedFfn(b_, {id(0), id(1), id(2), id(3), id(4), id(5), id(6)}, options);
    }
    Fail("'" + f + "' does not name an op");
  }

  ChainReader& r_;
  ChainBuilder& b_;
  const absl::string_view text_;
  size_t at_ = 0;
  ValueId second_ = kNoValue;  // of an op with two results
};

absl::Status ChainReader::TryAdd(const std::string& text) {
  try {
    ChainParser(this, text).Statements();
    return absl::OkStatus();
  } catch (const absl::Status& refused) {
    return refused;
  }
}

Chain ChainReader::Finish() {
  absl::StatusOr<Chain> chain = builder_.Finish();
  Need(chain.status());
  return *std::move(chain);
}

}  // namespace sinter
