// Ending: how the command tells its end, whatever happened.
#ifndef SINTER_SRC_CLI_ENDING_H_
#define SINTER_SRC_CLI_ENDING_H_

#include "src/cli/outcome.h"

namespace sinter::cli {

using Command = Outcome (*)(int argc, char** argv);

// Runs `command` and returns its exit status. A failure is one line on standard error; with --json
// among the arguments also {"error": {"message", "status", "exit"}} on standard output, unless the
// command printed a document of its own. Nothing escapes that is thrown: it is a failure with
// kUnavailable. Output that could not be written is a failure too.
int RunToTheEnd(Command command, int argc, char** argv) noexcept;

}  // namespace sinter::cli

#endif  // SINTER_SRC_CLI_ENDING_H_
