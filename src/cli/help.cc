#include <cstdio>
#include <sstream>

#include "src/chain/problem.h"
#include "src/cli/commands.h"
#include "src/cli/print.h"

namespace sinter::cli {
namespace {

constexpr char kExitStatuses[] =
    "Exit status: 0 done, 1 ran and failed, 2 the command line, a chain or a file was not\n"
    "understood or asks for what cannot be, 3 something is missing on this machine: a GPU, a\n"
    "run-time compiler, memory.\n";

class Formatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    return Wrapped(CLI::Formatter::make_help(app, std::move(name), mode), kHelpColumns);
  }
  std::string make_footer(const CLI::App* app) const override {
    const bool logs =
        app->get_parent() != nullptr && app->get_name() != "version" && app->get_name() != "help";
    return logs ? "-v,--verbose is taken too: sinter --help\n" : CLI::Formatter::make_footer(app);
  }
};

// The command that `topics` name, word by word; null when there is none.
CLI::App* FindVerb(CLI::App* app, const std::vector<std::string>& topics) {
  for (const std::string& topic : topics) {
    CLI::App* found = nullptr;
    for (CLI::App* verb : app->get_subcommands({})) {
      if (verb->get_name() == topic) found = verb;
    }
    if (found == nullptr) return nullptr;
    app = found;
  }
  return app;
}

}  // namespace

std::shared_ptr<CLI::Formatter> HelpFormatter() { return std::make_shared<Formatter>(); }

std::string HelpFooter() {
  std::string text = "Kinds of chains (sinter help KIND explains one):\n";
  std::istringstream in(ProblemHelp());
  for (std::string line; std::getline(in, line);) text += "  " + line + "\n";
  return text + "\n" + kExitStatuses;
}

Outcome Help(CLI::App* app, const std::vector<std::string>& topics) {
  if (const CLI::App* verb = FindVerb(app, topics)) {
    // App::help() would tell of `sinter help`, which is what was parsed.
    const std::string name = topics.empty() ? app->get_name() : "sinter " + Join(topics, " ");
    std::printf("%s",
                verb->get_formatter()->make_help(verb, name, CLI::AppFormatMode::Normal).c_str());
    return {};
  }
  if (topics.size() == 1) {
    const absl::StatusOr<std::string> kind = ProblemHelp(topics[0]);
    if (kind.ok()) std::printf("%s", Wrapped(*kind, kHelpColumns).c_str());
    if (kind.ok()) return {};
  }
  std::vector<std::string> known = ProblemKinds();
  for (const CLI::App* verb : app->get_subcommands({})) known.push_back(verb->get_name());
  const std::string topic = Join(topics, " ");
  return Usage("help: \"" + topic + "\" is neither a command nor a kind of chain" +
               DidYouMean(topic, known) + " (sinter help lists them)");
}

}  // namespace sinter::cli
