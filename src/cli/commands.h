// The verbs: each prints its result on standard output and returns how it ended. The command line:
// their options and the bounds of each; help.
#ifndef SINTER_SRC_CLI_COMMANDS_H_
#define SINTER_SRC_CLI_COMMANDS_H_

#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "src/cli/options.h"
#include "src/cli/outcome.h"

namespace sinter::cli {

Outcome RunCommand(const Options& options);
Outcome PlanCommand(const Options& options);
Outcome SearchCommand(const Options& options);
Outcome TuneCommand(const Options& options);
Outcome DeviceCommand(const Options& options);
Outcome CacheListCommand(const Options& options);
Outcome CacheStatCommand(const Options& options);
Outcome CacheVerifyCommand(const Options& options);
Outcome CacheClearCommand(const Options& options);
Outcome CacheExportCommand(const Options& options);
Outcome CacheImportCommand(const Options& options);
Outcome CacheTrimCommand(const Options& options);
Outcome WarmCommand(const Options& options);
Outcome DoctorCommand(const Options& options);
Outcome VersionCommand(const Options& options);

using Verb = Outcome (*)(const Options&);

// Parsing fills `options` and sets `chosen` to the verb's function, or to null for `help`. Both
// must outlive `app`.
void AddVerbs(CLI::App* app, Options* options, Verb* chosen);

// Formats help so that its lists fit a terminal.
std::shared_ptr<CLI::Formatter> HelpFormatter();
// What stands below the command's own help: kinds of chains, exit statuses.
std::string HelpFooter();
// Prints help on `topics`: a command's words or a kind of chain; without topics, an overview.
Outcome Help(CLI::App* app, const std::vector<std::string>& topics);

}  // namespace sinter::cli

#endif  // SINTER_SRC_CLI_COMMANDS_H_
