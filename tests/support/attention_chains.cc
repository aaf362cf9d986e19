#include "tests/support/attention_chains.h"

#include "tests/support/files.h"
#include "tests/support/read_chain.h"

namespace sinter::testing {
namespace {

using FormLayout = AttentionForm::Layout;
using Term = AttentionForm::Term;

std::string Number(double value) { return absl::StrFormat("%.17g", value); }

class AttentionMaker {
 public:
  explicit AttentionMaker(const AttentionForm& form)
      : f_(form),
        value_head_(form.value_head > 0 ? form.value_head : form.head),
        batch_(form.of_m ? "M" : absl::StrCat(form.batch)),
        type_(NameOf(form.dtype)),
        scores_(absl::StrCat(batch_, ",", f_.heads, ",", f_.rows, ",", f_.keys)) {}

  Chain Make() {
    AddOperands();
    if (f_.scale_first) r_.Add("q = $0(f32(q) * $1)", type_, Number(f_.scale));
    Share("k", f_.head);
    Share("v", value_head_);
    if (f_.batched) {
      Join("q", f_.rows, f_.head);
      Join("k", f_.keys, f_.head);
      Join("v", f_.keys, value_head_);
    }
    r_.Add("s = q @ k.T");
    if (f_.batched) r_.Add("s = reshape(s, [$0])", scores_);
    if (f_.rounds) r_.Add("s = f32($0(s))", type_);
    if (!f_.scale_first && f_.divides) r_.Add("s = s / $0", Number(1 / f_.scale));
    if (!f_.scale_first && !f_.divides) r_.Add("s = s * $0", Number(f_.scale));
    AddTerm();
    AddSoftmax();
    if (f_.batched) Join("p", f_.rows, f_.keys);
    r_.Add("o = p @ v");
    if (f_.batched) r_.Add("o = reshape(o, [$0,$1,$2,$3])", batch_, f_.heads, f_.rows, value_head_);
    if (!f_.wide) r_.Add("o = $0(o)", type_);
    if (f_.layout != FormLayout::kHeadsFirst) {
      r_.Add("o = reshape(transpose(o, 0, 2, 1, 3), [$0,$1,$2])", batch_, f_.rows,
             f_.heads * value_head_);
    }
    r_.Add("out o");
    return r_.Finish();
  }

 private:
  // Batch and heads of `name` as one axis.
  void Join(const char* name, int64_t rows, int64_t columns) {
    r_.Add("$0 = reshape($0, [$1,$2,$3])", name, f_.batch * f_.heads, rows, columns);
  }

  void AddOperand(const char* name, int64_t heads, int64_t rows, int64_t head) {
    r_.Add(f_.layout == FormLayout::kHeadsFirst ? "$0 = {$1[$2,$3,$4,$5]}"
                                                : "$0 = transpose({$1[$2,$4,$3,$5]}, 0, 2, 1, 3)",
           name, type_, batch_, heads, rows, head);
  }

  // For all heads of a group.
  void Share(const char* name, int64_t head) {
    if (f_.group == 1) return;
    r_.Add(
        "$0 = reshape($0, [$1,$2,1,$4,$5]); $0 = spread($0, [$1,$2,$3,$4,$5]);"
        "$0 = reshape($0, [$1,$6,$4,$5])",
        name, batch_, f_.heads / f_.group, f_.group, f_.keys, head, f_.heads);
  }

  void AddOperands() {
    if (f_.layout != FormLayout::kPacked) {
      AddOperand("q", f_.heads, f_.rows, f_.head);
      AddOperand("k", f_.heads / f_.group, f_.keys, f_.head);
      return AddOperand("v", f_.heads / f_.group, f_.keys, value_head_);
    }
    r_.Add("all = {$0[$1,$2,3,$3,$4]}", type_, batch_, f_.rows, f_.heads, f_.head);
    for (int i = 0; i < 3; ++i) {
      r_.Add("$0 = transpose(reshape(all[:, :, $1:$2, :, :], [$3,$4,$5,$6]), 0, 2, 1, 3)",
             std::string(1, "qkv"[i]), i, i + 1, batch_, f_.rows, f_.heads, f_.head);
    }
  }

  void AddTerm() {
    const int64_t half = f_.batch / 2;
    constexpr char kCap[] = "s = tanh(s / 30) * 30;";
    constexpr char kDistance[] =
        "row = iota([$0,$1], 0, s32); column = iota([$0,$1], 1, s32);"
        "far = spread(f32(column - row), [$2,$0,$1]);"
        "s = s + spread(spread({f32[$2,1,1]}, far) * far, s)";
    switch (f_.term) {
      case Term::kNone:
        return;
      case Term::kOfHeads:
        return AddTermOfHeads();
      case Term::kOfKeys:
        return r_.Add("s = s + spread({f32[$0,1,1,$1]}, s)", batch_, f_.keys);
      case Term::kMask:
        return r_.Add("s = select(spread({pred[$0,1,$1,$2]}, s), s, spread(-inf, s))", batch_,
                      f_.rows, f_.keys);
      case Term::kHiddenKeys:
        return r_.Add("s = select(spread({pred[$0,1,1,$1]}, s), spread($2, s), s)", batch_, f_.keys,
                      least_);
      case Term::kWindows:
        AddTermOfHeads();
        return r_.Add(
            "mask = {f32[$0,1,$1,$2]}; apart = reshape(s, [2,$0,$3,$1,$2]);"
            "s = reshape(apart + spread(mask, apart), [$4])",
            half, f_.rows, f_.keys, f_.heads, scores_);
      case Term::kCausal:
      case Term::kCausalBehind:
        r_.Add("row = iota([$0,$1], 0, s32); column = iota([$0,$1], 1, s32)", f_.rows, f_.keys);
        if (f_.term == Term::kCausalBehind)
          r_.Add("row = row + spread($0:s32, row)", f_.keys - f_.rows);
        return r_.Add("s = select(spread(ge(row, column), s), s, spread(-inf, s))");
      case Term::kCapped:
        return r_.Add(kCap);
      case Term::kAlibi:
        return r_.Add(kDistance, f_.rows, f_.keys, f_.heads);
      case Term::kBand:
        r_.Add(kCap);
        r_.Add(kDistance, f_.rows, f_.keys, f_.heads);
        return r_.Add(
            "near = and(ge(row, column), lt(row - column, spread(21:s32, row)));"
            "s = select(spread(near, s), s, spread(-inf, s))");
      case Term::kGatedCap:
        r_.Add("s = s * spread(f32({bf16[$0,$1,1]}), s)", f_.heads, f_.rows);
        r_.Add(kCap);
        return r_.Add("s = select(spread({pred[$0,1,1,$1]}, s), spread($2, s), s)", batch_, f_.keys,
                      least_);
    }
  }
  void AddTermOfHeads() {
    r_.Add("s = s + spread(f32({$0[$1,$2,$3]}), s)", type_, f_.heads, f_.rows, f_.keys);
  }

  // Bounds keep a row of -infinity from being divided by 0.
  void AddSoftmax() {
    r_.Add(f_.zero_unseen ? "e = exp(s - spread(max(reduce_max(s, 3, keep), $1), s));"
                            "p = $0(e / spread(max(sum(e, 3, keep), 0.5), s))"
                          : "p = $0(softmax(s))",
           type_, least_);
  }

  const std::string least_ = Number(-std::numeric_limits<float>::max());
  const AttentionForm f_;
  const int64_t value_head_;
  const std::string batch_, type_, scores_;
  ChainReader r_;
};

constexpr const char* kLayouts[] = {"heads_first", "rows_first", "packed"};
constexpr const char* kTerms[] = {"plain",       "of_heads", "of_keys", "mask",
                                  "hidden_keys", "windows",  "causal",  "causal_behind",
                                  "capped",      "alibi",    "band",    "gated_cap"};
struct Flag {
  const char* name;
  bool AttentionForm::*field;
};
constexpr Flag kFlags[] = {{"scale_first", &AttentionForm::scale_first},
                           {"rounds", &AttentionForm::rounds},
                           {"divides", &AttentionForm::divides},
                           {"batched", &AttentionForm::batched},
                           {"wide", &AttentionForm::wide},
                           {"zero_unseen", &AttentionForm::zero_unseen}};

// Whether `word` says a layout, a term or a flag.
bool SetNamed(const std::string& word, AttentionForm* form) {
  for (size_t i = 0; i < std::size(kLayouts); ++i) {
    if (word == kLayouts[i]) return form->layout = static_cast<FormLayout>(i), true;
  }
  for (size_t i = 0; i < std::size(kTerms); ++i) {
    if (word == kTerms[i]) return form->term = static_cast<Term>(i), true;
  }
  for (const Flag& flag : kFlags) {
    if (word == flag.name) return form->*flag.field = true;
  }
  if (word == "of_m") return form->of_m = true;
  if (word == "f16") form->dtype = DType::kF16;
  return word == "f16";
}

}  // namespace

std::string AttentionForm::Name() const {
  std::string name = absl::StrCat(NameOf(dtype), "_", of_m ? "M" : absl::StrCat(batch), "x", heads,
                                  "_", rows, "x", keys, "_", head);
  if (value_head > 0) absl::StrAppend(&name, "_", value_head);
  absl::StrAppend(&name, "_", kLayouts[static_cast<int>(layout)], "_",
                  kTerms[static_cast<int>(term)]);
  if (group > 1) absl::StrAppend(&name, "_group", group);
  for (const Flag& flag : kFlags) {
    if (this->*flag.field) absl::StrAppend(&name, "_", flag.name);
  }
  return name;
}

Chain MakeAttention(const AttentionForm& form) { return AttentionMaker(form).Make(); }

AttentionForm ReadAttentionForm(const std::string& text) {
  AttentionForm form;
  const std::vector<std::string> words = absl::StrSplit(text, ' ');
  bool read = std::sscanf(text.c_str(), "%ldx%ld %ldx%ld %ld", &form.batch, &form.heads, &form.rows,
                          &form.keys, &form.head) == 5;
  for (size_t i = 3; i < words.size(); ++i) {
    read &= std::sscanf(words[i].c_str(), "group%ld", &form.group) == 1 ||
            std::sscanf(words[i].c_str(), "value%ld", &form.value_head) == 1 ||
            SetNamed(words[i], &form);
  }
  if (!read) throw std::runtime_error("not a form of attention: " + text);
  return form;
}

std::vector<AttentionForm> AttentionForms(const std::string& section) {
  std::vector<AttentionForm> forms;
  for (const std::string& line : SectionOf("tests/support/attention_forms.txt", section)) {
    forms.push_back(ReadAttentionForm(line));
  }
  return forms;
}

Chain MakeEncoderLayer(int64_t batch, int64_t rows, int64_t heads, int64_t head) {
  const int64_t width = heads * head;
  ChainReader r("x = {bf16[$0,$1,$2]}", batch, rows, width);
  // y = x w^T + bias, of n columns
  const auto linear = [&](const char* y, const char* x, int64_t n, int64_t k) {
    r.Add("$0 = $1 @ {const bf16[$2,$3]}.T; $0 = $0 + spread({const bf16[$2]}, $0)", y, x, n, k);
  };
  for (const char* y : {"q", "k", "v"}) {
    linear(y, "x", width, width);
    r.Add("$0 = transpose(reshape(bf16($0), [$1,$2,$3,$4]), 0, 2, 1, 3)", y, batch, rows, heads,
          head);
  }
  r.Add("p = bf16(softmax(q @ k.T * 0.125)); o = transpose(bf16(p @ v), 0, 2, 1, 3)");
  r.Add("merged = reshape(o, [$0,$1,$2])", batch, rows, width);
  linear("sum", "merged", width, width);
  r.Add(
      "beta = {const bf16[$0]}; gamma = {const bf16[$0]};"
      "norm = bf16(layernorm(sum + f32(x), 1e-5, gamma, beta))",
      width);
  linear("inner", "norm", 4 * width, width);
  r.Add("inner = bf16(gelu_erf(inner))");
  linear("y", "inner", width, 4 * width);
  r.Add("out bf16(y + f32(norm))");
  return r.Finish();
}

}  // namespace sinter::testing
