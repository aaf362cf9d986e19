// sinter help: what --help says, and the kinds of chains.
#ifndef SINTER_SRC_CLI_HELP_H_
#define SINTER_SRC_CLI_HELP_H_

#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "src/cli/outcome.h"

namespace sinter::cli {

// Lists that fit a terminal.
std::shared_ptr<CLI::Formatter> HelpFormatter();
// Below the command's own help: kinds of chains, exit statuses.
std::string HelpFooter();
// `topics`: a command's words, or a kind of chain; none: everything in short.
Outcome Help(CLI::App* app, const std::vector<std::string>& topics);

}  // namespace sinter::cli

#endif  // SINTER_SRC_CLI_HELP_H_
