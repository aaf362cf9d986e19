// Structs changed by text, where tests list their changes: Changed(problem, "columns=12
// result=f32").
//
// Words are separated by spaces. Each one sets a field of a struct with a field table
// (src/base/fields.h), by its path: `out.column` is a field of a field, `args[3].kind` one of an
// element of a list. A path into an optional field fills it first.
//   threads=256         a number, true or false, text, M or a number of a Dim, an enum's name or,
//                       where it has none, its number
//   threads+=8          adds to it
//   handed=4,9  args=   a list of numbers, an empty list
//   args.size=6         so many elements; further ones are copies of the first
//   norm=none           an optional field without a value
#pragma once

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "src/base/dtype.h"
#include "src/base/fields.h"
#include "tests/support/common.h"

namespace sinter {
namespace changed_fields {

template <typename Field, typename = void>
struct HasTable : std::false_type {};
template <typename Field>
struct HasTable<Field, std::void_t<decltype(Field::kFieldNames)>> : std::true_type {};

template <typename Field, typename = void>
struct HasNames : std::false_type {};
template <typename Field>
struct HasNames<Field, std::void_t<decltype(absl::string_view(NameOf(std::declval<Field>())))>>
    : std::true_type {};

template <typename Field>
struct IsOptional : std::false_type {};
template <typename Field>
struct IsOptional<std::optional<Field>> : std::true_type {};

template <typename Field>
struct IsArray : std::false_type {};
template <typename Element, size_t kSize>
struct IsArray<std::array<Element, kSize>> : std::true_type {};

template <typename Field>
struct IsVector : std::false_type {};
template <typename Element>
struct IsVector<std::vector<Element>> : std::true_type {};

// "out.column", "+=" and "2" of "out.column+=2".
struct FieldWord {
  explicit FieldWord(absl::string_view word) {
    const std::pair<absl::string_view, absl::string_view> sides =
        absl::StrSplit(word, absl::MaxSplits('=', 1));
    path = sides.first;
    value = sides.second;
    adds = absl::ConsumeSuffix(&path, "+");
  }
  [[noreturn]] void Refuse() const {
    throw std::runtime_error(absl::StrCat("no field takes ", path, "=", value));
  }
  absl::string_view path, value;
  bool adds;
};

template <typename Number>
Number NumberOf(const FieldWord& word) {
  Number number = 0;
  bool read = false;
  if constexpr (std::is_floating_point_v<Number>) {
    double wide = 0;
    read = absl::SimpleAtod(word.value, &wide);
    number = static_cast<Number>(wide);
  } else {
    read = absl::SimpleAtoi(word.value, &number);
  }
  if (!read) word.Refuse();
  return number;
}

template <typename Field>
void Set(Field* field, const FieldWord& word) {
  if constexpr (std::is_same_v<Field, bool>) {
    if (!absl::SimpleAtob(word.value, field)) word.Refuse();
  } else if constexpr (std::is_arithmetic_v<Field>) {
    using Number =
        std::conditional_t<std::is_floating_point_v<Field>, Field,
                           std::conditional_t<std::is_signed_v<Field>, int64_t, uint64_t>>;
    const Number number = NumberOf<Number>(word);
    *field = static_cast<Field>(word.adds ? *field + number : number);
  } else if constexpr (std::is_enum_v<Field>) {
    if constexpr (HasNames<Field>::value) {
      for (int i = 0; i < 16; ++i) {
        if (absl::string_view(NameOf(static_cast<Field>(i))) != word.value) continue;
        *field = static_cast<Field>(i);
        return;
      }
    }
    *field = static_cast<Field>(NumberOf<int64_t>(word));
  } else if constexpr (std::is_same_v<Field, std::string>) {
    *field = word.adds ? absl::StrCat(*field, word.value) : std::string(word.value);
  } else if constexpr (std::is_same_v<Field, Dim>) {
    *field = word.value == "M" ? Dim::M() : Dim::Constant(NumberOf<int64_t>(word));
  } else {
    word.Refuse();
  }
}

// Sets what the rest of a word's path names in `field`.
template <typename Field>
void Change(Field* field, absl::string_view path, const FieldWord& word) {
  if constexpr (IsOptional<Field>::value) {
    if (path.empty() && word.value == "none") return field->reset();
    if (!field->has_value()) field->emplace();
    if (!path.empty() || word.value != "default") Change(&**field, path, word);
  } else if constexpr (HasTable<Field>::value) {
    absl::ConsumePrefix(&path, ".");
    const absl::string_view name = path.substr(0, path.find_first_of(".["));
    bool found = false;
    ForEachField(*field, [&](absl::string_view known, auto& one) {
      if (known != name) return;
      found = true;
      Change(&one, path.substr(name.size()), word);
    });
    if (!found) word.Refuse();
  } else if constexpr (IsVector<Field>::value || IsArray<Field>::value) {
    if (absl::ConsumePrefix(&path, "[")) {
      const size_t end = path.find(']');
      size_t at = 0;
      if (!absl::SimpleAtoi(path.substr(0, end), &at) || at >= field->size()) word.Refuse();
      return Change(&(*field)[at], path.substr(end + 1), word);
    }
    if constexpr (IsVector<Field>::value) {
      using Element = typename Field::value_type;
      const Element like = field->empty() ? Element() : field->front();
      if (path == ".size") {
        field->resize(NumberOf<size_t>(word), like);
      } else {
        field->clear();
        for (const absl::string_view one : absl::StrSplit(word.value, ',', absl::SkipEmpty())) {
          Change(&field->emplace_back(like), path, FieldWord(absl::StrCat("=", one)));
        }
      }
    } else {
      word.Refuse();
    }
  } else if constexpr (std::is_same_v<Field, std::string>) {
    if (path == ".size") {
      field->resize(NumberOf<size_t>(word), field->empty() ? 'a' : field->front());
    } else {
      Set(field, word);
    }
  } else {
    Set(field, word);
  }
}

}  // namespace changed_fields

template <typename Struct>
Struct Changed(Struct of, absl::string_view words) {
  for (const absl::string_view text : absl::StrSplit(words, ' ', absl::SkipEmpty())) {
    const changed_fields::FieldWord word(text);
    changed_fields::Change(&of, word.path, word);
  }
  return of;
}

}  // namespace sinter
