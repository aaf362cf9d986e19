// Where the constants of a device model come from.
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
#include "src/base/format.h"
#include "src/explain/explain.h"

namespace sinter {
namespace {

using Fields = std::vector<std::pair<std::string, std::string>>;  // in the order of the text

std::string StringOf(absl::string_view s) { return std::string(s.data(), s.size()); }

// `key = value` lines, without comments and provenance.
Fields FieldsOf(absl::string_view text) {
  Fields fields;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = line.substr(0, line.find_first_of("#["));
    const size_t equals = line.find('=');
    if (equals == absl::string_view::npos) continue;
    fields.emplace_back(StringOf(absl::StripAsciiWhitespace(line.substr(0, equals))),
                        StringOf(absl::StripAsciiWhitespace(line.substr(equals + 1))));
  }
  return fields;
}

// Comments by key, for the lines that have one.
std::map<std::string, std::string> CommentsOf(absl::string_view text) {
  std::map<std::string, std::string> comments;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const size_t equals = line.find('='), hash = line.find('#');
    if (hash == absl::string_view::npos || hash < equals) continue;
    comments[StringOf(absl::StripAsciiWhitespace(line.substr(0, equals)))] =
        StringOf(absl::StripAsciiWhitespace(line.substr(hash + 1)));
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
    words.push_back(absl::SimpleAtod(word, &number) ? ShownNumber(key, number) : StringOf(word));
  }
  return absl::StrJoin(words, ", ");
}

bool IsNumber(const std::string& key) {
  return key != "name" && key != "arch" && key != "measured";
}

// A built-in model's file, parsed; empty for another name.
struct Known {
  std::map<std::string, std::string> values, comments;
};

Known KnownOf(const std::string& name) {
  Known known;
  const absl::string_view text = BuiltinText(name);
  const absl::StatusOr<DeviceModel> model = DeviceModel::FromText(text);
  if (!model.ok()) return known;
  for (const auto& [key, value] : FieldsOf(model->ToText())) known.values[key] = value;
  known.comments = CommentsOf(text);
  return known;
}

// The source of `value`, as far as the model of the same name knows it.
std::string SourceIn(const Known& known, const std::string& key, const std::string& value) {
  const auto same = known.values.find(key);
  if (same == known.values.end()) return "given by the device or a model file";
  if (same->second != value) {
    return absl::StrCat("given by the device or a model file; built in: ",
                        Shown(key, same->second));
  }
  const auto comment = known.comments.find(key);
  return comment == known.comments.end() ? "" : comment->second;
}

// SourceIn, with the comment of the model that the value was taken over from.
std::string SourceOf(const Known& own, const Known& from, const std::string& key,
                     const std::string& value) {
  std::string source = SourceIn(own, key, value);
  const auto comment = from.comments.find(key);
  if (comment == from.comments.end()) {
    return source.empty() ? "as the model says at its head" : source;
  }
  if (!source.empty()) source += "; there: ";
  return source + comment->second;
}

std::vector<ModelNote> NotesOf(const DeviceModel& model) {
  const Known own = KnownOf(model.name);
  std::map<std::string, Known> others;
  std::vector<ModelNote> notes;
  for (const auto& [key, value] : FieldsOf(model.ToText())) {
    if (!IsNumber(key)) continue;
    const auto provenance = model.provenance.find(key);
    const std::string from = provenance == model.provenance.end() ? "" : provenance->second.from;
    const auto [other, fresh] = others.try_emplace(from);
    if (fresh && !from.empty()) other->second = KnownOf(from);
    notes.push_back({key, Shown(key, value),
                     provenance == model.provenance.end() ? "" : provenance->second.ToText(),
                     SourceOf(own, other->second, key, value)});
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

}  // namespace

ModelStory StoryOf(const DeviceModel& model) {
  return {model.name, HeadNoteOf(model), model.measured, NotesOf(model)};
}

}  // namespace sinter
