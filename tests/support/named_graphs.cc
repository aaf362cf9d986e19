#include "tests/support/named_graphs.h"

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "tests/support/files.h"

namespace sinter::testing {
namespace {

constexpr char kFolder[] = "tests/support/graphs";

[[noreturn]] void Fail(const std::string& why) { throw std::runtime_error(why); }

// "router(M, 8, 4)".
struct Call {
  std::string name;
  std::vector<std::string> arguments;
};

Call ReadCall(absl::string_view text) {
  const size_t open = text.find('(');
  if (open == text.npos || text.back() != ')') Fail(absl::StrCat("no call: ", text));
  Call call{std::string(text.substr(0, open)), {""}};
  int depth = 0;
  for (const char c : text.substr(open + 1, text.size() - open - 2)) {
    depth += (c == '(' || c == '[') - (c == ')' || c == ']');
    if (c == ',' && depth == 0) {
      call.arguments.emplace_back();
    } else {
      call.arguments.back() += c;
    }
  }
  for (std::string& argument : call.arguments) absl::StripAsciiWhitespace(&argument);
  return call;
}

struct Entry {
  std::vector<std::string> parameters;
  std::string text;
};

struct Files {
  std::map<std::string, Entry> entries;
  std::map<std::string, std::vector<std::string>> lists;
};

void ReadFile(const std::filesystem::path& path, Files* files) {
  std::vector<std::string>* list = nullptr;
  Entry* entry = nullptr;
  for (const std::string& line : LinesOf(path)) {
    if (line == "[list]") {
      list = &files->lists[path.stem()];
    } else if (list != nullptr) {
      list->push_back(line);
    } else if (line[0] == ' ') {
      absl::StrAppend(&entry->text, line.substr(1));
    } else {
      const Call call = ReadCall(line);
      entry = &files->entries[call.name];
      entry->parameters = call.arguments;
    }
  }
}

const Files& AllFiles() {
  static const auto* const files = [] {
    auto* read = new Files;
    for (const auto& file : std::filesystem::directory_iterator(kFolder)) {
      if (file.path().extension() == ".txt") ReadFile(file.path(), read);
    }
    return read;
  }();
  return *files;
}

using Values = std::map<std::string, std::string>;

// The number or text that replaces "<columns/2>".
std::string ValueOf(const std::string& expression, const Values& values) {
  const auto whole = values.find(expression);
  if (whole != values.end()) return whole->second;
  const bool real = absl::StrContains(expression, ".");
  double result = 0;
  char op = '+';
  for (size_t at = 0; at < expression.size(); ++at) {
    const size_t end = std::min(expression.find_first_of("+-*/", at), expression.size());
    const std::string word = expression.substr(at, end - at);
    const auto named = values.find(word);
    double value = 0;
    if (!absl::SimpleAtod(named == values.end() ? word : named->second, &value)) {
      Fail(absl::StrCat("no number: ", word, " of ", expression));
    }
    if (op == '+') result += value;
    if (op == '-') result -= value;
    if (op == '*') result *= value;
    if (op == '/') result = real ? result / value : std::floor(result / value);
    if (end < expression.size()) op = expression[end];
    at = end;
  }
  return absl::StrFormat("%.17g", result);
}

std::string TextOf(const Entry& entry, const Values& values) {
  std::string text;
  for (size_t at = 0; at < entry.text.size();) {
    const size_t open = std::min(entry.text.find('<', at), entry.text.size());
    absl::StrAppend(&text, entry.text.substr(at, open - at));
    if (open == entry.text.size()) break;
    const size_t close = entry.text.find('>', open);
    absl::StrAppend(&text, ValueOf(entry.text.substr(open + 1, close - open - 1), values));
    at = close + 1;
  }
  return text;
}

}  // namespace

NamedGraph ReadNamedGraph(const std::string& line) {
  const std::vector<std::string> parts = absl::StrSplit(line, " at ");
  const Call call = ReadCall(parts[0]);
  const auto found = AllFiles().entries.find(call.name);
  if (found == AllFiles().entries.end()) Fail(absl::StrCat(kFolder, " has no ", call.name));
  const std::vector<std::string>& parameters = found->second.parameters;
  if (parameters.size() != call.arguments.size()) Fail(absl::StrCat("other parameters: ", line));
  Values values;
  for (size_t i = 0; i < parameters.size(); ++i) values[parameters[i]] = call.arguments[i];
  NamedGraph graph{parts[0], ChainReader(TextOf(found->second, values)).Finish()};
  if (parts.size() > 1 && !absl::SimpleAtoi(parts[1], &graph.m)) Fail("no rows: " + line);
  return graph;
}

std::vector<NamedGraph> GraphsIn(const std::string& file) {
  std::vector<NamedGraph> graphs;
  for (const std::string& line : AllFiles().lists.at(file)) graphs.push_back(ReadNamedGraph(line));
  return graphs;
}

Chain IndependentRows(const std::vector<RowExtents>& rows, int64_t elements) {
  ChainReader r;
  std::vector<ValueId> outputs;
  for (const RowExtents& one : rows) {
    r.Add("x: f32[$0,$1]; e = exp(x - spread(reduce_max(x, 1, keep), x))", ExtentText(one.rows),
          ExtentText(one.columns));
    outputs.push_back(r("bf16(e / spread(sum(e, 1, keep), e))"));
  }
  if (elements > 0) {
    r.Add("x: f32[$0]; a = abs(x)", elements);
    outputs.push_back(r("bf16(sqrt(a + spread(1:f32, a)))"));
  }
  return Finished(r.builder(), outputs);
}

Chain IndependentUpdates(const std::vector<int64_t>& sizes) {
  ChainReader r("rate: f32[1]; step = rate * spread(0.5:f32, rate)");
  for (const int64_t size : sizes) {
    r.Add(
        "weight, momentum: f32[$0]; g: bf16[$0];"
        "next = momentum * spread(0.75:f32, momentum) + spread(f32(g), momentum);"
        "result = weight - spread(next * spread(step, next), weight);"
        "out next over momentum, result over weight, bf16(result)",
        size);
  }
  return r.Finish();
}

}  // namespace sinter::testing
