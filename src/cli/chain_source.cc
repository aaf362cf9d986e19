#include <algorithm>
#include <filesystem>

#include "src/base/status.h"
#include "src/chain/chain.h"
#include "src/chain/problem.h"
#include "src/cli/outcome.h"
#include "src/cli/session.h"

namespace sinter::cli {
namespace {

// A file that holds one chain in JSON or a list of problems.
struct ChainFile {
  std::string name;  // as messages show it
  std::string text;
  bool json = false;
};

// JSON by its name or, whatever its name is, by its first character.
Outcome ReadChainFile(const std::string& path, ChainFile* out) {
  SINTER_CLI_TRY(ReadFile(path, &out->text));
  out->name = path == kStandardStream ? "standard input" : path;
  const size_t first = out->text.find_first_not_of(" \t\r\n");
  out->json = std::filesystem::path(path).extension() == ".json" ||
              (first != std::string::npos && out->text[first] == '{');
  return {};
}

// `outcome` with the file's name before its message.
Outcome In(const std::string& file, Outcome outcome) {
  outcome.message = file + ": " + outcome.message;
  return outcome;
}

Outcome FromJson(const ChainFile& file, LoadedChain* out) {
  const Outcome parsed = Take(&out->chain, [&]() -> absl::StatusOr<ChainPtr> {
    SINTER_ASSIGN_OR_RETURN(Chain chain, ChainFromJson(file.text));
    return ChainPtr(capi::NewFinishedChain(std::move(chain)));
  });
  if (!parsed.ok()) return In(file.name, parsed);
  out->m = -1;
  out->text = out->chain->chain->ToString();
  return {};
}

void Keep(Problem problem, LoadedChain* out) {
  out->m = problem.m.has_value() ? *problem.m : -1;
  out->text = WriteProblem(problem) + "\n";
  out->chain.reset(capi::NewFinishedChain(std::move(problem.chain)));
}

Outcome ParseFile(const ChainFile& file, std::vector<Problem>* out) {
  const Outcome read = Take(out, [&] { return ParseProblems(file.text); });
  if (!read.ok()) return In(file.name, read);
  return out->empty() ? Usage(file.name + " holds no problem") : Outcome{};
}

Outcome FromProblems(const ChainFile& file, const std::string& id, LoadedChain* out) {
  std::vector<Problem> problems;
  SINTER_CLI_TRY(ParseFile(file, &problems));
  std::vector<std::string> ids;
  for (Problem& problem : problems) {
    if (!id.empty() && problem.id == id) return Keep(std::move(problem), out), Outcome{};
    if (!problem.id.empty()) ids.push_back(problem.id);
  }
  if (ids.empty()) {
    return Usage(file.name + ": none of its problems has an id, a word before the kind");
  }
  if (id.empty()) {
    return Usage(file.name + ": which problem? give one of " + Join(ids, " "));
  }
  return Usage(file.name + ": no problem is called \"" + id + "\"; there are " + Join(ids, " ") +
               DidYouMean(id, ids));
}

// The chain in the file at `path`, or its problem `id`.
Outcome FromFile(const std::string& path, const std::string& id, LoadedChain* out) {
  ChainFile file;
  SINTER_CLI_TRY(ReadChainFile(path, &file));
  if (!file.json) return FromProblems(file, id, out);
  if (id.empty()) return FromJson(file, out);
  return Usage("\"" + id + "\" names a problem, but " + file.name + " is one chain in JSON");
}

// The error for a single word that is not a chain: it may have been meant as a file.
Outcome NoSuchChain(const std::string& word, const Outcome& parsed) {
  const std::string other = OtherThanFile(word);
  if (!other.empty()) return Usage(word + " is " + other + ", not a file");
  if (word.find_first_of("/.") != std::string::npos) {
    return Usage(word +
                 ": no such file, and no kind of chain is called so (sinter help lists them)");
  }
  const std::vector<std::string> kinds = ProblemKinds();
  const bool kind = std::find(kinds.begin(), kinds.end(), word) != kinds.end();
  const bool meant = parsed.field == "kind" && parsed.bound.empty();  // another kind is suggested
  if (kind || meant) return {parsed.exit, parsed.message + " (and no file is called so)"};
  return Usage(word + ": no kind of chain and no file is called so (sinter help lists the kinds)");
}

Outcome FromText(const std::string& words, LoadedChain* out) {
  Problem problem;
  const Outcome parsed = Take(&problem, [&] { return ParseProblem(words); });
  if (!parsed.ok()) {
    return words.find_first_of("= ") == std::string::npos ? NoSuchChain(words, parsed) : parsed;
  }
  Keep(std::move(problem), out);
  return {};
}

Outcome LoadAny(const ChainArgs& args, LoadedChain* out) {
  const std::string words = Join(args.words, " ");
  if (!args.file.empty()) {
    if (!args.id.empty() && !words.empty()) return Usage("--id and CHAIN name two problems");
    return FromFile(args.file, args.id.empty() ? words : args.id, out);
  }
  if (words.empty()) {
    return Usage(
        "no chain given: write one (\"gemm_chain m=128 n=768 k=768 l=768 act=relu layout=oi "
        "dtype=bf16\"), a JSON file, "
        "or --file PROBLEMS ID");
  }
  if (args.words.size() == 1 && IsFile(words)) return FromFile(words, args.id, out);
  if (args.words.size() > 1 && IsFile(args.words[0])) {
    return Usage("\"" + args.words[0] + "\" is a file, and \"" + args.words[1] +
                 "\" follows it: give only the file, --file " + args.words[0] +
                 " ID for a problem of it, or only the line");
  }
  if (!args.id.empty()) return Usage("--id needs a problem file; there is no file " + words);
  return FromText(words, out);
}

Outcome FixRows(const ChainArgs& args, LoadedChain* chain) {
  if (args.m >= 0) chain->m = args.m;
  if (!sinter_chain_uses_m(chain->chain.get())) chain->m = 1;
  if (chain->m < 0) return Usage("the chain leaves m open: give --m ROWS");
  return {};
}

bool AnyUsesM(const std::vector<LoadedChain>& chains) {
  return std::any_of(chains.begin(), chains.end(), [](const LoadedChain& chain) {
    return sinter_chain_uses_m(chain.chain.get()) != 0;
  });
}

Outcome CheckRowsAreUsed(const ChainArgs& args, bool uses_m) {
  if (args.m < 0 || uses_m) return {};
  return Usage("--m is " + std::to_string(args.m) +
               ", but no extent of the chain is M: it has the rows that it has");
}

// Whether `args` are several files and nothing else.
bool AreFiles(const ChainArgs& args) {
  return args.file.empty() && args.id.empty() && args.words.size() > 1 &&
         std::all_of(args.words.begin(), args.words.end(), IsFile);
}

Outcome FromFiles(const ChainArgs& args, std::vector<LoadedChain>* out) {
  for (const std::string& path : args.words) {
    ChainFile file;
    SINTER_CLI_TRY(ReadChainFile(path, &file));
    if (!file.json) {
      return Usage(file.name + " is not a chain in JSON: give only one list of problems");
    }
    out->emplace_back();
    SINTER_CLI_TRY(FromJson(file, &out->back()));
    const Outcome rows = FixRows(args, &out->back());
    if (!rows.ok()) return {rows.exit, path + ": " + rows.message};
  }
  return {};
}

// The file that `args` name without choosing a problem in it; "" otherwise.
std::string WholeFile(const ChainArgs& args) {
  if (!args.id.empty()) return "";
  if (!args.file.empty()) return args.words.empty() ? args.file : "";
  return args.words.size() == 1 && IsFile(args.words[0]) ? args.words[0] : "";
}

Outcome FromWholeFile(const std::string& path, const ChainArgs& args,
                      std::vector<LoadedChain>* out) {
  ChainFile file;
  SINTER_CLI_TRY(ReadChainFile(path, &file));
  if (file.json) {
    out->emplace_back();
    SINTER_CLI_TRY(FromJson(file, &out->back()));
    return FixRows(args, &out->back());
  }
  std::vector<Problem> problems;
  SINTER_CLI_TRY(ParseFile(file, &problems));
  for (Problem& problem : problems) {
    out->emplace_back();
    const std::string line = WriteProblem(problem);
    Keep(std::move(problem), &out->back());
    const Outcome rows = FixRows(args, &out->back());
    if (!rows.ok()) return {rows.exit, file.name + ": " + line + ": " + rows.message};
  }
  return {};
}

}  // namespace

Outcome LoadChain(const ChainArgs& args, LoadedChain* out) {
  SINTER_CLI_TRY(LoadAny(args, out));
  SINTER_CLI_TRY(CheckRowsAreUsed(args, sinter_chain_uses_m(out->chain.get()) != 0));
  return FixRows(args, out);
}

Outcome LoadChains(const ChainArgs& args, std::vector<LoadedChain>* out) {
  if (AreFiles(args)) {
    SINTER_CLI_TRY(FromFiles(args, out));
    return CheckRowsAreUsed(args, AnyUsesM(*out));
  }
  const std::string path = WholeFile(args);
  if (path.empty()) {
    out->emplace_back();
    return LoadChain(args, &out->back());
  }
  SINTER_CLI_TRY(FromWholeFile(path, args, out));
  return CheckRowsAreUsed(args, AnyUsesM(*out));
}

}  // namespace sinter::cli
