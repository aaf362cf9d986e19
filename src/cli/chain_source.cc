#include "src/cli/chain_source.h"

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "src/cli/files.h"
#include "src/cli/suggest.h"

namespace sinter::cli {
namespace {

bool IsJson(const std::string& path) { return std::filesystem::path(path).extension() == ".json"; }

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

Outcome FromJson(const std::string& path, LoadedChain* out) {
  std::string json;
  SINTER_CLI_TRY(ReadFile(path, &json));
  sinter_chain* chain = nullptr;
  Outcome parsed = Abi(
      [&](sinter_error** error) { return sinter_x_chain_from_json(json.c_str(), &chain, error); });
  if (!parsed.ok()) return {parsed.exit, path + ": " + parsed.message};
  out->chain.reset(chain);
  out->m = -1;
  return AbiText(&out->text, [&](sinter_x_text** text, sinter_error** error) {
    return sinter_x_chain_to_text(chain, text, error);
  });
}

// The ids of a problem file's lines: a canonical line has one when it has a word before its kind.
std::vector<std::string> IdsOf(const std::string& canonical, const std::string& kinds) {
  const std::vector<std::string> known = Lines(kinds);
  std::vector<std::string> ids;
  for (const std::string& line : Lines(canonical)) {
    const std::string word = line.substr(0, line.find(' '));
    bool is_kind = false;
    for (const std::string& kind : known) is_kind = is_kind || kind == word;
    if (!is_kind) ids.push_back(word);
  }
  return ids;
}

Outcome ProblemIds(const std::string& text, std::vector<std::string>* ids, bool* any) {
  std::string canonical, kinds;
  SINTER_CLI_TRY(AbiText(&canonical, [&](sinter_x_text** lines, sinter_error** error) {
    return sinter_x_problems_list(text.c_str(), lines, error);
  }));
  SINTER_CLI_TRY(AbiText(&kinds, sinter_x_problem_kinds));
  *ids = IdsOf(canonical, kinds);
  *any = !canonical.empty();
  return {};
}

Outcome FromProblems(const std::string& path, const std::string& id, LoadedChain* out) {
  std::string file;
  SINTER_CLI_TRY(ReadFile(path, &file));
  std::vector<std::string> ids;
  bool any = false;
  const Outcome listed = ProblemIds(file, &ids, &any);
  if (!listed.ok()) return {listed.exit, path + ": " + listed.message};
  if (!any) return Usage(path + " holds no problem");
  if (ids.empty()) return Usage(path + ": none of its problems has an id, a word before the kind");
  if (id.empty()) return Usage(path + ": which problem? give one of " + Join(ids, " "));
  sinter_chain* chain = nullptr;
  sinter_x_text* line = nullptr;
  Outcome found = Abi([&](sinter_error** error) {
    return sinter_x_chain_from_problems(file.c_str(), id.c_str(), &chain, &out->m, &line, error);
  });
  if (!found.ok()) return {found.exit, path + ": " + found.message + DidYouMean(id, ids)};
  out->chain.reset(chain);
  out->text = std::string(sinter_x_text_get(TextPtr(line).get())) + "\n";
  return {};
}

// Of a word alone, which may have been meant for a file.
Outcome NoSuchChain(const std::string& word, const Outcome& parsed) {
  const std::string other = OtherThanFile(word);
  if (!other.empty()) return Usage(word + " is " + other + ", not a file");
  if (word.find_first_of("/.") != std::string::npos) {
    return Usage(word +
                 ": no such file, and no kind of chain is called so (sinter help lists them)");
  }
  std::string kinds;
  SINTER_CLI_TRY(AbiText(&kinds, sinter_x_problem_kinds));
  const bool kind = ("\n" + kinds).find("\n" + word + "\n") != std::string::npos;
  const bool meant = parsed.message.find("did you mean") != std::string::npos;
  if (kind || meant) return {parsed.exit, parsed.message + " (and no file is called so)"};
  return Usage(word + ": no kind of chain and no file is called so (sinter help lists the kinds)");
}

Outcome FromText(const std::string& words, LoadedChain* out) {
  sinter_chain* chain = nullptr;
  sinter_x_text* line = nullptr;
  Outcome parsed = Abi([&](sinter_error** error) {
    return sinter_x_chain_from_text(words.c_str(), &chain, &out->m, &line, error);
  });
  if (!parsed.ok()) {
    return words.find_first_of("= ") == std::string::npos ? NoSuchChain(words, parsed) : parsed;
  }
  out->chain.reset(chain);
  out->text = std::string(sinter_x_text_get(TextPtr(line).get())) + "\n";
  return {};
}

Outcome LoadAny(const ChainArgs& args, LoadedChain* out) {
  const std::string words = Join(args.words, " ");
  if (!args.file.empty()) {
    if (!args.id.empty() && !words.empty()) return Usage("--id and CHAIN name two problems");
    if (IsJson(args.file) && !(args.id + words).empty()) {
      return Usage("\"" + args.id + words + "\" names a problem, but " + args.file +
                   " is one chain in JSON");
    }
    return IsJson(args.file) ? FromJson(args.file, out)
                             : FromProblems(args.file, args.id.empty() ? words : args.id, out);
  }
  if (words.empty()) {
    return Usage(
        "no chain given: write one (\"gemm_chain m=128 n=768 k=768 l=768 act=relu layout=oi "
        "dtype=bf16\"), a JSON file, "
        "or --file PROBLEMS ID");
  }
  if (args.words.size() == 1 && IsFile(words)) {
    if (IsJson(words) && !args.id.empty()) {
      return Usage("--id names a problem, but " + words + " is one chain in JSON");
    }
    return IsJson(words) ? FromJson(words, out) : FromProblems(words, args.id, out);
  }
  if (args.words.size() > 1 && IsFile(args.words[0])) {
    return Usage("\"" + args.words[0] + "\" is a file, and \"" + args.words[1] +
                 "\" follows it: give the file alone" +
                 (IsJson(args.words[0]) ? "" : ", --file " + args.words[0] + " ID,") +
                 " or the line alone");
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

// Whether `args` are nothing but several JSON files.
bool AreJsonFiles(const ChainArgs& args) {
  return args.file.empty() && args.id.empty() && args.words.size() > 1 &&
         std::all_of(args.words.begin(), args.words.end(),
                     [](const std::string& word) { return IsJson(word) && IsFile(word); });
}

Outcome FromJsonFiles(const ChainArgs& args, std::vector<LoadedChain>* out) {
  for (const std::string& path : args.words) {
    out->emplace_back();
    SINTER_CLI_TRY(FromJson(path, &out->back()));
    const Outcome rows = FixRows(args, &out->back());
    if (!rows.ok()) return {rows.exit, path + ": " + rows.message};
  }
  return {};
}

// The problem file that `args` names without naming a problem in it; "" otherwise.
std::string WholeFile(const ChainArgs& args) {
  if (!args.id.empty()) return "";
  if (!args.file.empty()) return args.words.empty() && !IsJson(args.file) ? args.file : "";
  return args.words.size() == 1 && IsFile(args.words[0]) && !IsJson(args.words[0]) ? args.words[0]
                                                                                   : "";
}

Outcome FromWholeFile(const std::string& path, const ChainArgs& args,
                      std::vector<LoadedChain>* out) {
  std::string file, canonical;
  SINTER_CLI_TRY(ReadFile(path, &file));
  const Outcome listed = AbiText(&canonical, [&](sinter_x_text** lines, sinter_error** error) {
    return sinter_x_problems_list(file.c_str(), lines, error);
  });
  if (!listed.ok()) return {listed.exit, path + ": " + listed.message};
  for (const std::string& line : Lines(canonical)) {
    out->emplace_back();
    SINTER_CLI_TRY(FromText(line, &out->back()));
    const Outcome rows = FixRows(args, &out->back());
    if (!rows.ok()) return {rows.exit, path + ": " + line + ": " + rows.message};
  }
  return out->empty() ? Usage(path + " holds no problem") : Outcome{};
}

}  // namespace

Outcome LoadChain(const ChainArgs& args, LoadedChain* out) {
  SINTER_CLI_TRY(LoadAny(args, out));
  SINTER_CLI_TRY(CheckRowsAreUsed(args, sinter_chain_uses_m(out->chain.get()) != 0));
  return FixRows(args, out);
}

Outcome LoadChains(const ChainArgs& args, std::vector<LoadedChain>* out) {
  if (AreJsonFiles(args)) {
    SINTER_CLI_TRY(FromJsonFiles(args, out));
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
