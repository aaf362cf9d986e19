#include "tests/support/changed_sequence.h"

namespace sinter {
namespace {

using changed_fields::FieldWord;

ScaleKind KindOfScales(absl::string_view name) {
  const char* const kNames[] = {"none", "tensor", "vector", "block"};
  const auto* at = std::find(std::begin(kNames), std::end(kNames), name);
  if (at == std::end(kNames)) throw std::runtime_error(absl::StrCat("no scales are ", name));
  return static_cast<ScaleKind>(at - kNames);
}

// Sets what a word without a path in a field table names; false if there is none.
bool SetOne(ProductSequence* s, const FieldWord& word) {
  absl::string_view name = word.path;
  const int i = absl::EndsWith(name, "2") ? 1 : 0;
  if (absl::EndsWith(name, "1") || i == 1) name.remove_suffix(1);
  const std::vector<std::string> parts = absl::StrSplit(word.value, ',', absl::SkipEmpty());
  const auto dtype = [&] { return ParseDType(parts.at(0)).value(); };
  const auto number = [&](size_t at, auto fallback) {
    if (at >= parts.size()) return fallback;
    return changed_fields::NumberOf<decltype(fallback)>(FieldWord("=" + parts[at]));
  };
  MatrixProduct* product = i < s->size() ? &(*s)[i] : nullptr;
  if (name == "element") {
    SetElement(s, dtype());
  } else if (name == "layout") {
    const absl::StatusOr<Layout> layout = ParseLayout(word.value);
    SetLayout(s, layout.ok() ? *layout : static_cast<Layout>(number(0, 0)));
  } else if (name == "pair") {
    SetPair(s, word.value == "true");
  } else if (name == "act") {
    ChangeForm(product,
               [&](FormSpec& form) { form.activation = ParseActivation(word.value).value(); });
  } else if (name == "n" && word.path != "n") {
    SetColumns(s, i, number(0, int64_t{0}));
  } else if (name == "bias") {
    SetBias(s, i, word.value == "true");
  } else if (name == "scale") {
    SetScale(s, i, number(0, 1.0f));
  } else if (name == "scale_w") {
    SetColumnScale(s, i, dtype());
  } else if (name == "factor") {
    SetFactor(s, i, word.value == "f32" ? RowFactor::kF32 : RowFactor::kElement);
  } else if (name == "residual") {
    SetResidual(s, word.value == "rounded" ? Residual::kAddedRounded : Residual::kAdded);
  } else if (name == "sum_act") {
    SetSumActivation(s, ParseActivation(word.value).value());
  } else if (name == "rows" || name == "weights") {
    Scales& scales = name == "rows" ? product->rows.scales : product->weights.scales;
    scales.kind = KindOfScales(parts.at(0));
    scales.block_rows = number(1, int64_t{0});
    scales.block_columns = number(2, int64_t{0});
  } else if (name == "codes") {
    SetCodes(s, dtype(), KindOfScales(parts.at(1)), KindOfScales(parts.at(2)),
             parts.size() > 3 ? ParseDType(parts[3]).value() : DType::kE4M3);
  } else if (name == "quantize") {
    SetQuantized(s, {number(0, int64_t{0}), number(1, 0.0f), number(2, 0.0f)});
  } else if (absl::StartsWith(word.path, "form")) {
    FormSpec form = FormOf((*s)[word.path[4] - '1'].epilogue);
    const absl::string_view field = word.path.substr(6);
    if (field == "bias") form.bias = dtype();
    if (field == "factor") form.factor = dtype();
    if (field == "residual") form.residual = word.value == "true";
    SetForm(&(*s)[word.path[4] - '1'], form);
  } else if (name == "program") {
    product->epilogue.program =
        word.value == "none"
            ? EpilogueProgram()
            : ProgramOf({ParseActivation(parts.at(0)).value()}, ParseDType(parts.at(1)).value());
  } else {
    return false;
  }
  return true;
}

}  // namespace

ProductSequence Changed(ProductSequence of, absl::string_view words) {
  for (const absl::string_view text : absl::StrSplit(words, ' ', absl::SkipEmpty())) {
    const FieldWord word(text);
    if (SetOne(&of, word)) continue;
    const bool numbered = absl::StartsWith(word.path, "1.") || absl::StartsWith(word.path, "2.");
    if (numbered) {
      changed_fields::Change(&of[word.path[0] - '1'], word.path.substr(1), word);
    } else {
      changed_fields::Change(&of, word.path, word);
    }
  }
  return of;
}

}  // namespace sinter
