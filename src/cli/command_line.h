// The command line: the verbs, their options, and what each option may be.
#ifndef SINTER_SRC_CLI_COMMAND_LINE_H_
#define SINTER_SRC_CLI_COMMAND_LINE_H_

#include "CLI/CLI.hpp"
#include "src/cli/options.h"
#include "src/cli/outcome.h"

namespace sinter::cli {

using Verb = Outcome (*)(const Options&);

// Parsing fills `options` and sets `chosen` to the verb's function; null for `help`. Both outlive
// `app`.
void AddVerbs(CLI::App* app, Options* options, Verb* chosen);

}  // namespace sinter::cli

#endif  // SINTER_SRC_CLI_COMMAND_LINE_H_
