// Files that a command reads and writes. They must be regular files: opening a pipe waits for
// another process, and a device has no end.
#ifndef SINTER_SRC_CLI_FILES_H_
#define SINTER_SRC_CLI_FILES_H_

#include <string>

#include "src/cli/outcome.h"

namespace sinter::cli {

// Standard input where a file is read, standard output where one is written.
constexpr char kStandardStream[] = "-";

bool IsFile(const std::string& path);
// "a folder", "a pipe", "a device" or "a socket" if `path` is one; "" otherwise.
std::string OtherThanFile(const std::string& path);
// Reads a text of at most 64 MiB; "-" is standard input. A usage error with the reason if it is no
// regular file, cannot be read or is binary.
Outcome ReadFile(const std::string& path, std::string* out);
// Called before work that needs the file: a usage error if it cannot be read.
Outcome CheckReadable(const std::string& path);
// Called before work whose result goes to `path`: a usage error if no file can be written there.
Outcome CheckWritable(const std::string& path);
// Replaces the file; "-" is standard output.
Outcome WriteFile(const std::string& path, const std::string& text);

}  // namespace sinter::cli

#endif  // SINTER_SRC_CLI_FILES_H_
