#include "src/search/model_notes.h"

#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "src/base/builtin_models.h"
#include "src/plan/units.h"

namespace sinter {
namespace {

using Fields = std::vector<std::pair<std::string, std::string>>;  // in the order of the text

std::string Str(absl::string_view s) { return std::string(s.data(), s.size()); }

// `key = value` lines, comments left out.
Fields FieldsOf(absl::string_view text) {
  Fields fields;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = line.substr(0, line.find('#'));
    const size_t equals = line.find('=');
    if (equals == absl::string_view::npos) continue;
    fields.emplace_back(Str(absl::StripAsciiWhitespace(line.substr(0, equals))),
                        Str(absl::StripAsciiWhitespace(line.substr(equals + 1))));
  }
  return fields;
}

// Key to comment, of the lines that have one.
std::map<std::string, std::string> CommentsOf(absl::string_view text) {
  std::map<std::string, std::string> comments;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const size_t equals = line.find('='), hash = line.find('#');
    if (hash == absl::string_view::npos || hash < equals) continue;
    comments[Str(absl::StripAsciiWhitespace(line.substr(0, equals)))] =
        Str(absl::StripAsciiWhitespace(line.substr(hash + 1)));
  }
  return comments;
}

const char* BuiltinText(const std::string& name) {
  for (const BuiltinModelText& builtin : kBuiltinModelTexts) {
    if (name == builtin.name) return builtin.text;
  }
  return "";
}

std::string ShownNumber(const std::string& key, double value) {
  if (absl::EndsWith(key, "bytes_per_us")) return RateText(value, "B");
  if (absl::EndsWith(key, "flop_per_us")) return RateText(value, "FLOP");
  if (absl::EndsWith(key, "_us")) return absl::StrCat(value, " us");
  if (absl::EndsWith(key, "_mhz")) return absl::StrCat(value, " MHz");
  if (absl::StrContains(key, "_bytes")) return SizeText(value);
  return absl::StrCat(value);
}

std::string Shown(const std::string& key, const std::string& value) {
  std::vector<std::string> words;
  for (absl::string_view word : absl::StrSplit(value, ' ', absl::SkipWhitespace())) {
    double number = 0;
    words.push_back(absl::SimpleAtod(word, &number) ? ShownNumber(key, number) : Str(word));
  }
  return absl::StrJoin(words, ", ");
}

bool IsNumber(const std::string& key) {
  return key != "name" && key != "arch" && key != "measured";
}

}  // namespace

std::vector<ModelNote> NotesOf(const DeviceModel& model) {
  const absl::string_view text = BuiltinText(model.name);
  const absl::StatusOr<DeviceModel> builtin = DeviceModel::FromText(text);
  std::map<std::string, std::string> values;
  if (builtin.ok()) {
    for (const auto& [key, value] : FieldsOf(builtin->ToText())) values[key] = value;
  }
  std::map<std::string, std::string> comments = CommentsOf(text);
  std::vector<ModelNote> notes;
  for (const auto& [key, value] : FieldsOf(model.ToText())) {
    if (!IsNumber(key)) continue;
    std::string source = "given by the device or a model file";
    const auto known = values.find(key);
    if (known != values.end() && known->second == value) {
      source = comments.count(key) > 0 ? comments[key] : "as the model says at its head";
    } else if (known != values.end()) {
      absl::StrAppend(&source, "; built in: ", Shown(key, known->second));
    }
    notes.push_back({key, Shown(key, value), std::move(source)});
  }
  return notes;
}

std::string HeadNoteOf(const DeviceModel& model) {
  std::vector<absl::string_view> head;
  for (absl::string_view line : absl::StrSplit(BuiltinText(model.name), '\n')) {
    if (!absl::ConsumePrefix(&line, "#")) break;
    head.push_back(absl::StripAsciiWhitespace(line));
  }
  return absl::StrJoin(head, " ");
}

}  // namespace sinter
