#include "tests/support/read_chain.h"

#include "tests/support/op_calls.h"

namespace sinter {

using chain_text::Arguments;
using chain_text::Fail;
using chain_text::Must;
using chain_text::Term;

// Reads one text by recursive descent and calls the builder for each op.
class ChainParser {
 public:
  ChainParser(ChainReader* reader, absl::string_view text)
      : r_(*reader), b_(reader->builder_), text_(text) {}

  // An error in the text names its place.
  void Read() {
    try {
      Statements();
    } catch (const std::runtime_error& wrong) {
      Fail(absl::StrCat(wrong.what(), " at '", text_.substr(at_), "' of ", text_));
    }
  }

 private:
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

  Term Made(absl::StatusOr<ValueId> id) { return Term{.id = Must(std::move(id))}; }
  ValueId Id(const Term& term) { return chain_text::ValueOf(b_, term); }

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
    InputOptions options{.constant = Take("const "), .name = name};
    TensorType type{chain_text::TypeNamed(Word()), {}};
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
      OutputOptions options{.strides = Strides()};
      if (Take("over ")) options.alias = r_.values_.at(Word());
      const absl::Status status = b_.Output(id, options);
      if (!status.ok()) throw status;
    } while (Take(","));
  }

  Term Sum() {
    Term left = Product();
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
  Term Product() {
    Term left = Unary();
    for (;;) {
      if (Take("*")) {
        left = Both(BinaryKind::kMul, left, Unary());
      } else if (Take("/")) {
        left = Both(BinaryKind::kDiv, left, Unary());
      } else if (Take("@")) {
        const Term right = Unary();
        left = Made(b_.Matmul(left.id, right.id, left.transposed, right.transposed));
      } else {
        return left;
      }
    }
  }
  Term Both(BinaryKind kind, const Term& left, const Term& right) {
    const ValueId a = Id(left);
    return Made(b_.Binary(kind, a, Id(right)));
  }
  Term Unary() {
    if (!Take("-")) return Behind(Primary());
    if (NumberIsNext()) return Literal(-1);
    Term term = Unary();
    if (!term.number.has_value()) return Made(b_.Unary(UnaryKind::kNeg, Id(term)));
    term.number = -*term.number;
    return term;
  }
  Term Literal(double sign) {
    Term term{.number = sign * Number()};
    return Take(":") ? Made(b_.Scalar(*term.number, chain_text::TypeNamed(Word()))) : term;
  }
  Term Behind(Term term) {
    for (;;) {
      if (Take(".T")) {
        term.transposed = !term.transposed;
      } else if (Take("[")) {
        term = Part(Id(term));
      } else {
        return term;
      }
    }
  }
  Term Primary() {
    Term term;
    if (Take("(")) {
      term = Sum();
      Expect(")");
      return term;
    }
    if (Take("[")) {
      term.dims = Dims();
      return term;
    }
    if (Take("{")) {
      term.id = Input("");
      Expect("}");
      return term;
    }
    if (NumberIsNext()) return Literal(1);
    const std::string word = Word();
    if (Take("(")) return Call(word);
    if (word == "nan" || word == "inf") {
      term.number = std::strtod(word.c_str(), nullptr);
      return term;
    }
    const auto value = r_.values_.find(word);
    if (value == r_.values_.end()) {
      term.word = word;
    } else {
      term.id = value->second;
    }
    return term;
  }

  // Reads what follows "x[".
  Term Part(ValueId x) {
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

  // Keys whose words may be names of values, too.
  static bool TakesWord(const std::string& key) {
    for (const char* of_words : {"granularity", "codes", "accumulate", "layout", "act"}) {
      if (key == of_words) return true;
    }
    return false;
  }

  Term Call(const std::string& f) {
    Arguments a;
    while (!Take(")")) {
      const size_t begin = at_;
      SkipSpace();
      const bool may_be_key = at_ < text_.size() && isalpha(static_cast<unsigned char>(text_[at_]));
      const std::string key = may_be_key ? Word() : "";
      if (may_be_key && Take("=")) {
        a.keys[key] = TakesWord(key) ? Term{kNoValue, {}, false, {}, Word()} : Sum();
      } else {
        at_ = begin;
        a.push_back(Sum());
      }
      Take(",");
    }
    return Made(chain_text::AddCall(b_, f, a, &second_));
  }

  ChainReader& r_;
  ChainBuilder& b_;
  const absl::string_view text_;
  size_t at_ = 0;
  ValueId second_ = kNoValue;  // of an op with two results
};

absl::Status ChainReader::TryAdd(const std::string& text) {
  try {
    ChainParser(this, text).Read();
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
