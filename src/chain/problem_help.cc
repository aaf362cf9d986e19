// The kinds of the text form, explained: made from the table that the reader reads by.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "src/chain/problem.h"
#include "src/chain/problem_kinds.h"
#include "src/chain/tensor_type.h"

namespace sinter {
namespace {

constexpr size_t kShownKind = 40;  // characters of a bad one

std::string ValuesText(const FieldSpec& field) {
  const std::string names = absl::StrReplaceAll(field.choices, {{" ", ", "}});
  const std::string list = absl::StrCat(", a list of 1 to ", kMaxListItems, " separated by ','");
  switch (field.type) {
    case FieldType::kRows:
      return absl::StrCat("an integer from 0 to ", kMaxExtent, ", or M to leave it open");
    case FieldType::kExtent:
      return absl::StrCat("an integer from 1 to ", kMaxExtent);
    case FieldType::kNumber:
      return "a finite number";
    case FieldType::kFlag:
      return "0 or 1";
    case FieldType::kName:
      return names;
    case FieldType::kExtents:
      return absl::StrCat("integers from 1 to ", kMaxExtent, list);
    case FieldType::kFlags:
      return absl::StrCat("0 or 1", list);
    case FieldType::kNames:
      return absl::StrCat(names, list);
    case FieldType::kPair:
      return absl::StrCat("an integer from 1 to ", kMaxConvStep, ", or height,width");
    case FieldType::kPads:
      return absl::StrCat("same, an integer from 0 to ", kMaxConvPad, ", or top,bottom,left,right");
  }
  return "";
}

std::string FieldLines(const FieldSpec& field) {
  return absl::StrFormat(
      "  %-8s %s; %s\n           %s\n", field.key, field.about,
      field.fallback == nullptr ? "required" : absl::StrCat("default ", field.fallback),
      ValuesText(field));
}

// A line that works: small numbers for what is required.
std::string ExampleText(const KindSpec& kind) {
  std::string line = kind.name;
  for (const FieldSpec& field : kind.fields) {
    if (field.fallback != nullptr) continue;
    const bool rows = field.type == FieldType::kRows;
    const std::string choices = field.choices;
    const std::string value = field.type == FieldType::kName ? choices.substr(0, choices.find(' '))
                              : field.type == FieldType::kExtents ? "512,256"
                              : field.type == FieldType::kPair    ? "3"
                              : rows                              ? "128"
                                                                  : "256";
    absl::StrAppend(&line, " ", field.key, "=", value);
  }
  return line;
}

}  // namespace

absl::StatusOr<std::string> ProblemHelp(absl::string_view name) {
  for (const KindSpec& kind : KindSpecs()) {
    if (name != kind.name) continue;
    std::string text = absl::StrCat(kind.name, ": ", kind.about, "\n", "inputs: ", kind.inputs,
                                    "   (* constant)\nkeys:\n");
    for (const FieldSpec& field : kind.fields) text += FieldLines(field);
    return absl::StrCat(text, "example: ", ExampleText(kind), "\n");
  }
  return absl::InvalidArgumentError(absl::StrCat("kind is ", name.substr(0, kShownKind),
                                                 ", must be one of ",
                                                 absl::StrJoin(ProblemKinds(), " ")));
}

std::string ProblemHelp() {
  size_t width = 0;
  const std::vector<KindSpec> kinds = KindSpecs();
  for (const KindSpec& kind : kinds) {
    width = std::max(width, absl::string_view(kind.name).size());
  }
  std::string text;
  for (const KindSpec& kind : kinds) {
    const std::string padding(width - absl::string_view(kind.name).size(), ' ');
    absl::StrAppend(&text, kind.name, padding, "  ", kind.about, "\n");
  }
  return text;
}

}  // namespace sinter
