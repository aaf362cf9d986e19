#include "tests/gpu/mutations.h"

#include "absl/strings/ascii.h"
#include "src/product/dataflow/dataflow.h"

namespace sinter::gpu_testing {
namespace {

constexpr char kTable[] = "tests/gpu/mutations.txt";  // programs run in the root of the tree

// By Needs.
constexpr absl::string_view kNeeds[] = {
    "",        "split",      "both split", "many tiles", "pairs",       "slab",
    "early C", "short ring", "long ring",  "window",     "half window", "chunks",
    "norm",    "norm tiles", "grouped",    "swapped",    "split keys",  "mma"};

[[noreturn]] void Refuse(absl::string_view what) {
  throw std::runtime_error(absl::StrCat(kTable, ": ", what));
}

Dataflow DataflowOf(absl::string_view name) {
  for (const DataflowRow* row : AllDataflows()) {
    if (row->name == name) return row->dataflow;
  }
  Refuse(absl::StrCat(name, " is not a dataflow"));
}

// Reads "in HEADER: DATAFLOW" or "in HEADER: DATAFLOW, NEEDS".
void ReadPlace(absl::string_view line, Mutation* mutation) {
  const std::vector<std::string> words = absl::StrSplit(line, absl::MaxSplits(": ", 1));
  const std::vector<std::string> on = absl::StrSplit(words.back(), ", ");
  const auto needs =
      std::find(std::begin(kNeeds), std::end(kNeeds), on.size() > 1 ? on[1] : std::string());
  if (words.size() != 2 || needs == std::end(kNeeds)) Refuse(line);
  mutation->header = words[0].substr(std::strlen("in "));
  mutation->dataflow = DataflowOf(on[0]);
  mutation->needs = static_cast<Needs>(needs - std::begin(kNeeds));
}

// The first place where `text` reads `wanted`, however its lines are broken.
bool FindIgnoringSpace(const std::string& text, const std::string& wanted, size_t* begin,
                       size_t* end) {
  for (size_t start = 0; start < text.size(); ++start) {
    size_t at = start, matched = 0;
    while (matched < wanted.size()) {
      if (absl::ascii_isspace(static_cast<unsigned char>(wanted[matched]))) {
        ++matched;
      } else if (at > start && at < text.size() &&
                 absl::ascii_isspace(static_cast<unsigned char>(text[at]))) {
        ++at;
      } else if (at < text.size() && text[at] == wanted[matched]) {
        ++at;
        ++matched;
      } else {
        break;
      }
    }
    if (matched < wanted.size()) continue;
    *begin = start;
    *end = at;
    return true;
  }
  return wanted.empty();
}

}  // namespace

std::vector<Mutation> AllMutations() {
  std::ifstream file(kTable);
  if (!file) Refuse("cannot be read");
  std::vector<Mutation> all;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    if (line[0] != ' ') {
      const absl::string_view name = absl::StripSuffix(line, " (may live)");
      all.push_back({std::string(name), "", "", "", Dataflow::kNone, Needs::kAny, name == line});
      continue;
    }
    const absl::string_view words = absl::StripAsciiWhitespace(line);
    if (absl::StartsWith(words, "in ")) {
      ReadPlace(words, &all.back());
      continue;
    }
    if (words[0] != '-' && words[0] != '+') Refuse(line);
    absl::StrAppend(words[0] == '-' ? &all.back().find : &all.back().replace, words.substr(2),
                    "\n");
  }
  return all;
}

absl::Status Apply(const Mutation& mutation, CompileRequest* request) {
  for (auto& [name, text] : request->headers) {
    if (name != mutation.header) continue;
    size_t begin = 0, end = 0;
    if (!FindIgnoringSpace(text, mutation.find, &begin, &end)) break;
    size_t again = 0, behind = 0;
    if (end > 0 && FindIgnoringSpace(text.substr(end), mutation.find, &again, &behind)) {
      return absl::FailedPreconditionError(
          absl::StrCat("'", mutation.name, "': ", mutation.header, " has the text twice"));
    }
    text.replace(begin, end - begin, mutation.replace);
    return absl::OkStatus();
  }
  return absl::NotFoundError(
      absl::StrCat("'", mutation.name, "': ", mutation.header, " has no such text"));
}

}  // namespace sinter::gpu_testing
