// The `sinter` command: reads the command line and runs one verb. Exit status: 0 done, 1 failed,
// 2 not understood, 3 something is missing on this machine.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <new>
#include <string>

#include "CLI/CLI.hpp"
#include "src/chain/problem.h"
#include "src/cli/options.h"
#include "src/cli/outcome.h"

namespace sinter::cli {
namespace {

int ExitOf(sinter_status status) {
  switch (status) {
    case SINTER_OK:
      return kDone;
    case SINTER_INVALID_ARGUMENT:
    case SINTER_NOT_FOUND:
    case SINTER_OUT_OF_RANGE:
    case SINTER_FAILED_PRECONDITION:  // for a chain, a pack, a compiler that was denied
    case SINTER_PERMISSION_DENIED:    // for a key, a pack, a folder that others may write
    case SINTER_ERROR_NO_LEGAL_PLAN:  // for a chain
      return kUsage;
    case SINTER_UNAVAILABLE:
    case SINTER_RESOURCE_EXHAUSTED:
      return kUnavailable;
    default:
      return kFailed;
  }
}

constexpr char kOutOfMemory[] = "out of memory";

bool AsksForJson(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0) return true;
  }
  return false;
}

// Flushes standard output: a full disk or a reader that has gone may show only with the last bytes.
Outcome Flushed(Outcome outcome) {
  std::cout.flush();
  errno = 0;
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good();
  if (written || !outcome.ok()) return outcome;
  return Failure(std::string("standard output could not be written") +
                 (errno != 0 ? std::string(": ") + std::strerror(errno) : ""));
}

// Allocates nothing.
int TellShortly(const char* message, bool json) {
  std::fprintf(stderr, "sinter: %s\n", message);
  if (json) {
    std::printf("{\"error\": {\"message\": \"%s\", \"exit\": %d}}\n", message, kUnavailable);
    std::fflush(stdout);
  }
  return kUnavailable;
}

int Tell(const Outcome& outcome, bool json) {
  if (outcome.ok()) return outcome.exit;
  const std::string line = Printable(outcome.message);
  if (line.empty() && !outcome.message.empty()) throw std::bad_alloc();
  if (json && !outcome.documented) {
    Json error = {{"message", line}};
    if (outcome.status != SINTER_OK) error["status"] = sinter_status_name(outcome.status);
    if (outcome.op >= 0) error["op"] = outcome.op;
    if (!outcome.field.empty()) error["field"] = outcome.field;
    if (!outcome.value.empty()) error["value"] = outcome.value;
    if (!outcome.bound.empty()) error["bound"] = outcome.bound;
    error["exit"] = outcome.exit;
    PrintJson({{"error", error}});
    std::fflush(stdout);
  }
  std::fprintf(stderr, "sinter: %s\n", line.c_str());
  return outcome.exit;
}

// The terminate handler. Destructors of the JSON library, of Abseil's formatter and of
// std::filesystem allocate but may not throw. If memory runs out there the command cannot go on,
// but it can still print a line and exit with a status.
template <bool kJson>
[[noreturn]] void TellAndExit() {
  const char* message = "an exception where none may be";
  try {
    if (std::current_exception() != nullptr) throw;
  } catch (const std::bad_alloc&) {
    message = kOutOfMemory;
  } catch (...) {
  }
  std::fflush(stdout);
  _exit(TellShortly(message, kJson));
}

}  // namespace

Outcome FromStatus(sinter_status status, sinter_error* error) {
  if (status == SINTER_OK) return {};
  Outcome outcome{ExitOf(status), sinter_error_get_message(error), status};
  if (outcome.message.empty()) outcome.message = sinter_status_name(status);
  outcome.op = sinter_error_get_op(error);
  if (const char* text = sinter_error_get_field(error)) outcome.field = text;
  if (const char* text = sinter_error_get_value(error)) outcome.value = text;
  if (const char* text = sinter_error_get_bound(error)) outcome.bound = text;
  if (status >= 100) {
    outcome.message = std::string(sinter_status_name(status)) + ": " + outcome.message;
  }
  sinter_error_release(error);
  return outcome;
}

int RunToTheEnd(Command command, int argc, char** argv) noexcept {
  const bool json = AsksForJson(argc, argv);
  std::set_terminate(json ? TellAndExit<true> : TellAndExit<false>);
  try {
    return Tell(Flushed(command(argc, argv)), json);
  } catch (const std::bad_alloc&) {
    return TellShortly(kOutOfMemory, json);
  } catch (...) {
    return TellShortly("an exception that nobody expected", json);
  }
}

namespace {

// The innermost of the verbs that were given.
const CLI::App* Innermost(const CLI::App* app) {
  const std::vector<CLI::App*> given = app->get_subcommands();
  return given.empty() ? app : Innermost(given.back());
}

std::vector<std::string> NamesOf(const CLI::App* app, bool options) {
  std::vector<std::string> names;
  if (!options) {
    for (const CLI::App* sub : app->get_subcommands({})) names.push_back(sub->get_name());
    return names;
  }
  for (const CLI::Option* option : app->get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// Explains the first word that nothing took; if there is none, the parser's own message.
std::string Complain(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* at = Innermost(&app);
  const std::string prefix = at == &app ? "" : at->get_name() + ": ";
  const std::vector<std::string> extras = app.remaining(true);
  const std::vector<std::string> verbs = NamesOf(at, false);
  if (extras.empty()) return prefix + error.what();
  const bool option = extras[0].rfind("-", 0) == 0;
  const std::string word = extras[0].substr(0, extras[0].find('='));
  const std::vector<std::string> known = NamesOf(at, option);
  if (option) return prefix + "unknown option \"" + word + "\"" + DidYouMean(word, known);
  if (known.empty()) return prefix + "unexpected argument \"" + word + "\"";
  const std::vector<std::string> kinds = ProblemKinds();
  const bool kind = at == &app && std::find(kinds.begin(), kinds.end(), word) != kinds.end();
  return prefix + "unknown command \"" + word + "\"" +
         (kind ? ", a kind of chain: sinter run " + word + " .. (sinter help " + word + ")"
               : DidYouMean(word, known) + " (commands: " + Join(known, ", ") + ")");
}

// Finds an option without its value, which the parser would fill with the next word.
std::string OptionWithoutValue(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--") break;
    if (word.rfind("--", 0) == 0 && word.find('=') == word.size() - 1) return word;
  }
  return "";
}

// The kind of chain whose keys `sinter KIND .. --help` asks for; "" for other arguments.
std::string KindInQuestion(int argc, char** argv) {
  const std::vector<std::string> words(argv, argv + argc), kinds = ProblemKinds();
  const bool asks = std::any_of(words.begin(), words.end(), [](const std::string& word) {
    return word == "--help" || word == "-h";
  });
  const bool kind = argc > 1 && std::find(kinds.begin(), kinds.end(), words[1]) != kinds.end();
  return asks && kind ? words[1] : "";
}

Outcome Main(int argc, char** argv) {
  Options options;
  Verb verb = nullptr;
  CLI::App app(
      "Fuses chains of GPU operators at run time, by the fastest plan that its cost model finds.",
      "sinter");
  app.require_subcommand(0, 1);
  app.formatter(HelpFormatter());
  app.footer(HelpFooter);
  app.set_version_flag("--version", std::string(sinter_build_info()));
  AddVerbs(&app, &options, &verb);
  if (const std::string kind = KindInQuestion(argc, argv); !kind.empty()) return Help(&app, {kind});
  if (const std::string word = OptionWithoutValue(argc, argv); !word.empty()) {
    return Usage("\"" + word + "\" has no value; an empty one is a word of its own: " +
                 word.substr(0, word.size() - 1) + " \"\"");
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    app.exit(success);
    return {};
  } catch (const CLI::ParseError& error) {
    return Usage(Complain(app, error));
  }
  const bool opens_a_context = verb != nullptr && verb != VersionCommand;
  if (options.device.verbose && !opens_a_context && !app.get_subcommands().empty()) {
    return Usage(Innermost(&app)->get_name() + ": --verbose would do nothing: it logs nothing");
  }
  return verb == nullptr ? Help(&app, options.topics) : verb(options);
}

}  // namespace
}  // namespace sinter::cli

int main(int argc, char** argv) { return sinter::cli::RunToTheEnd(sinter::cli::Main, argc, argv); }
