#include "src/chain/problem.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "src/base/refusal.h"
#include "src/base/status.h"
#include "src/chain/choices.h"
#include "src/chain/problem_kinds.h"
#include "src/chain/tensor_type.h"

namespace sinter {
namespace {

constexpr size_t kMaxLine = 4096;
constexpr size_t kMaxText = size_t{64} << 20;
constexpr size_t kMaxProblems = 16384;     // of one text
constexpr size_t kMaxOpsOfList = 1 << 20;  // of all of its chains
constexpr size_t kMaxId = 64;
constexpr size_t kShown = 40;  // characters of a bad word that an error repeats

// A word of the input as errors show it: cut, and without unprintable characters.
std::string Shown(absl::string_view word) {
  std::string text(word.substr(0, kShown));
  for (char& c : text) {
    if (!absl::ascii_isprint(static_cast<unsigned char>(c))) c = '?';
  }
  return word.size() > kShown ? text + "..." : text;
}

bool IsWord(absl::string_view word) {
  for (char c : word) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '-' && c != '.') {
      return false;
    }
  }
  return !word.empty() && word.size() <= kMaxId;
}

// Decimal digits only, so that a value has one meaning everywhere.
bool ParseInteger(absl::string_view text, int64_t* value) {
  for (char c : text) {
    if (!absl::ascii_isdigit(static_cast<unsigned char>(c))) return false;
  }
  return !text.empty() && absl::SimpleAtoi(text, value);
}

// Fewest digits that read back as the same number.
std::string ShortestNumber(double value) {
  for (int digits = 1; digits < 17; ++digits) {
    std::string text = absl::StrFormat("%.*g", digits, value);
    double back = 0;
    if (absl::SimpleAtod(text, &back) && back == value) return text;
  }
  return absl::StrFormat("%.17g", value);
}

absl::StatusOr<std::string> CanonicalInteger(const FieldSpec& field, absl::string_view text,
                                             int64_t low, absl::string_view or_else) {
  int64_t value = 0;
  if (!ParseInteger(text, &value) || value < low || value > kMaxExtent) {
    return InvalidField(field.key, Shown(text),
                        absl::StrCat("an integer in [", low, ", ", BoundText(kMaxExtent), "]"),
                        or_else);
  }
  return absl::StrCat(value);
}

absl::StatusOr<std::string> CanonicalNumber(const FieldSpec& field, absl::string_view text) {
  double value = 0;
  if (!absl::SimpleAtod(text, &value) || !std::isfinite(value)) {
    return InvalidField(field.key, Shown(text), "a finite number");
  }
  return ShortestNumber(value);
}

absl::StatusOr<std::string> CanonicalName(const FieldSpec& field, absl::string_view text) {
  const std::vector<std::string> choices = absl::StrSplit(field.choices, ' ');
  for (const std::string& choice : choices) {
    if (text == choice) return choice;
  }
  const std::string way_out = *field.way_out == '\0' ? "" : absl::StrCat(" (", field.way_out, ")");
  return InvalidField(field.key, Shown(text),
                      absl::StrCat(choices.size() == 1 ? "" : "one of ", field.choices), way_out,
                      KnownAs(text, choices));
}

// Numbers of the axes of a convolution, `most` of them or one for all.
absl::StatusOr<std::string> CanonicalAxes(const FieldSpec& field, absl::string_view text,
                                          size_t most, int64_t low, int64_t high) {
  std::vector<std::string> items = absl::StrSplit(text, ',');
  bool good = items.size() == 1 || items.size() == most;
  for (std::string& item : items) {
    int64_t value = 0;
    good = good && ParseInteger(item, &value) && value >= low && value <= high;
    item = absl::StrCat(value);
  }
  if (good) return absl::StrJoin(items, ",");
  return InvalidField(field.key, Shown(text),
                      absl::StrCat(field.type == FieldType::kPads ? "same, or " : "", "1 or ", most,
                                   " integers in [", low, ", ", high, "]"));
}

absl::StatusOr<std::string> CanonicalFlag(const FieldSpec& field, absl::string_view text) {
  if (text == "0" || text == "1") return std::string(text);
  return InvalidField(field.key, Shown(text), "0 or 1");
}

absl::StatusOr<std::string> CanonicalItem(const FieldSpec& field, absl::string_view text) {
  if (field.type == FieldType::kExtents) return CanonicalInteger(field, text, 1, "");
  return field.type == FieldType::kFlags ? CanonicalFlag(field, text) : CanonicalName(field, text);
}

absl::StatusOr<std::string> CanonicalList(const FieldSpec& field, absl::string_view text) {
  std::vector<std::string> items = absl::StrSplit(text, ',');
  if (items.size() > kMaxListItems) {
    return WithField(
        Invalid(field.key, " has ", items.size(), " items, must have at most ", kMaxListItems),
        field.key, items.size(), absl::StrCat("at most ", kMaxListItems));
  }
  for (std::string& item : items) {
    absl::StatusOr<std::string> value = CanonicalItem(field, item);
    if (!value.ok()) return value.status();
    item = *std::move(value);
  }
  return absl::StrJoin(items, ",");
}

// As the canonical line has it. Done after the chain was made, which counts the items.
std::string Shortened(const FieldSpec& field, const std::string& value) {
  if (field.type == FieldType::kExtents || value.find(',') == std::string::npos) return value;
  const std::vector<absl::string_view> items = absl::StrSplit(value, ',');
  const auto same = std::count(items.begin(), items.end(), items[0]);
  return same == static_cast<std::ptrdiff_t>(items.size()) ? std::string(items[0]) : value;
}

absl::StatusOr<std::string> CanonicalValue(const FieldSpec& field, absl::string_view text) {
  switch (field.type) {
    case FieldType::kRows:
      if (text == "M") return std::string("M");
      return CanonicalInteger(field, text, 0, " or M");
    case FieldType::kExtent:
      return CanonicalInteger(field, text, 1, "");
    case FieldType::kCount:
      return CanonicalInteger(field, text, 0, "");
    case FieldType::kNumber:
      return CanonicalNumber(field, text);
    case FieldType::kFlag:
      return CanonicalFlag(field, text);
    case FieldType::kName:
      return CanonicalName(field, text);
    case FieldType::kExtents:
    case FieldType::kFlags:
    case FieldType::kNames:
      return CanonicalList(field, text);
    case FieldType::kPair:
      return CanonicalAxes(field, text, 2, 1, kMaxConvStep);
    case FieldType::kPads:
      if (text == "same") return std::string(text);
      return CanonicalAxes(field, text, 4, 0, kMaxConvPad);
  }
  return Internal("unreachable");
}

bool IsKind(absl::string_view word) {
  const std::vector<KindSpec> kinds = KindSpecs();
  return std::any_of(kinds.begin(), kinds.end(),
                     [&](const KindSpec& kind) { return word == kind.name; });
}

absl::StatusOr<KindSpec> FindKind(absl::string_view name) {
  for (KindSpec& kind : KindSpecs()) {
    if (name == kind.name) return kind;
  }
  const std::string meant = DidYouMean(name, ProblemKinds());
  const std::string bound = absl::StrCat("one of ", absl::StrJoin(ProblemKinds(), " "));
  const std::string is = absl::StrCat("kind is ", Shown(name), ActivationHint(name));
  if (!meant.empty()) return WithField(Invalid(is, meant), "kind", Shown(name));
  return WithField(Invalid(is, ", must be ", bound), "kind", Shown(name), bound);
}

std::vector<std::string> KeyNames(const KindSpec& kind) {
  std::vector<std::string> names;
  for (const FieldSpec& field : kind.fields) names.push_back(field.key);
  return names;
}

std::string Keys(const KindSpec& kind) { return absl::StrJoin(KeyNames(kind), " "); }

// Values as written, by key. Refuses words without '=', unknown keys and repeats.
absl::StatusOr<std::map<std::string, std::string>> SplitFields(
    const KindSpec& kind, const std::vector<absl::string_view>& words, size_t first) {
  std::map<std::string, std::string> given;
  for (size_t i = first; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    if (equals == absl::string_view::npos) {
      return InvalidField("word", Shown(words[i]),
                          absl::StrCat("key=value with a key of ", Keys(kind)));
    }
    const std::string key(words[i].substr(0, equals));
    bool known = false;
    for (const FieldSpec& field : kind.fields) known = known || key == field.key;
    if (!known) {
      return InvalidField("key", Shown(key), absl::StrCat("one of ", Keys(kind)),
                          DidYouMean(key, KeyNames(kind)));
    }
    if (!given.emplace(key, std::string(words[i].substr(equals + 1))).second) {
      return Invalid("key ", key, " is given twice");
    }
  }
  return given;
}

constexpr absl::string_view kBlanks = " \t\r\v\f";

// Without its comment.
absl::string_view Code(absl::string_view line) { return line.substr(0, line.find('#')); }

std::vector<absl::string_view> Words(absl::string_view line) {
  return absl::StrSplit(Code(line), absl::ByAnyChar(kBlanks), absl::SkipEmpty());
}

absl::StatusOr<Problem> ParseWords(const std::vector<absl::string_view>& words) {
  if (words.empty()) return Invalid("the line is empty");
  Problem problem;
  // A word before the kind is an id. A kind's name is one only if another kind's name follows it.
  const bool has_id = words.size() > 1 && words[1].find('=') == absl::string_view::npos &&
                      (!IsKind(words[0]) || IsKind(words[1]));
  const absl::string_view kind_name = words[has_id ? 1 : 0];
  if (has_id) {
    if (!IsWord(words[0])) {
      return InvalidField("id", Shown(words[0]), "1 to 64 letters, digits, '_', '-' or '.'");
    }
    problem.id = std::string(words[0]);
  }
  SINTER_ASSIGN_OR_RETURN(const KindSpec kind, FindKind(kind_name));
  problem.kind = kind.name;
  absl::StatusOr<std::map<std::string, std::string>> split =
      SplitFields(kind, words, has_id ? 2 : 1);
  if (!split.ok()) return Annotate(split.status(), kind.name);
  FieldValues values;
  for (const FieldSpec& field : kind.fields) {
    const auto it = split->find(field.key);
    if (it == split->end() && field.fallback == nullptr) {
      return WithField(Invalid(kind.name, ": key ", field.key, " is missing"), field.key);
    }
    const std::string text = it == split->end() ? field.fallback : it->second;
    absl::StatusOr<std::string> value = CanonicalValue(field, text);
    if (!value.ok()) return Annotate(value.status(), kind.name);
    if (field.type == FieldType::kRows && *value != "M") {
      int64_t m = 0;
      ParseInteger(*value, &m);
      problem.m = m;
    }
    values.Set(field.key, *value);
    problem.fields.emplace_back(field.key, Shortened(field, *value));
  }
  absl::StatusOr<Chain> chain = kind.make(values);
  if (!chain.ok()) return Annotate(chain.status(), kind.name);
  problem.chain = *std::move(chain);
  return problem;
}

}  // namespace

absl::StatusOr<Problem> ParseProblem(absl::string_view line) {
  line = absl::StripSuffix(line, "\n");
  if (line.size() > kMaxLine) {
    return Invalid("line has ", line.size(), " bytes, must be at most ", kMaxLine);
  }
  if (line.find('\n') != absl::string_view::npos) return Invalid("the text has more than one line");
  if (line.find('\0') != absl::string_view::npos) return Invalid("the line holds a zero byte");
  return ParseWords(Words(line));
}

absl::StatusOr<std::vector<Problem>> ParseProblems(absl::string_view text) {
  if (text.size() > kMaxText) {
    return Invalid("the text has ", text.size(), " bytes, must have at most ", kMaxText);
  }
  std::vector<Problem> problems;
  std::set<std::string> ids;
  int number = 0;
  size_t ops = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    if (Code(line).find_first_not_of(kBlanks) == absl::string_view::npos) continue;
    const std::string where = absl::StrCat("line ", number);
    if (problems.size() == kMaxProblems) {
      return Invalid(where, ": a list has at most ", kMaxProblems, " problems");
    }
    absl::StatusOr<Problem> problem = ParseProblem(line);
    if (!problem.ok()) return Annotate(problem.status(), where);
    if (!problem->id.empty() && !ids.insert(problem->id).second) {
      return Invalid(where, ": id ", problem->id, " is given twice");
    }
    ops += problem->chain.ops().size();
    if (ops > kMaxOpsOfList) {
      return Invalid(where, ": the problems of a list have together at most ", kMaxOpsOfList,
                     " ops");
    }
    problems.push_back(*std::move(problem));
  }
  return problems;
}

std::string WriteProblem(const Problem& problem) {
  std::string line = problem.id.empty() ? problem.kind : problem.id + " " + problem.kind;
  for (const auto& [key, value] : problem.fields) absl::StrAppend(&line, " ", key, "=", value);
  return line;
}

std::vector<std::string> ProblemKinds() {
  std::vector<std::string> names;
  for (const KindSpec& kind : KindSpecs()) names.push_back(kind.name);
  return names;
}

// The kinds of the text form, explained: made from the table that the reader reads by.

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
    case FieldType::kCount:
      return absl::StrCat("an integer from 0 to ", kMaxExtent);
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

// A line that works: small numbers for required keys.
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
  return InvalidField("kind", name.substr(0, kShownKind),
                      absl::StrCat("one of ", absl::StrJoin(ProblemKinds(), " ")));
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
