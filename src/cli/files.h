// Files that a command reads and writes. Only regular files are: to open a pipe waits for another
// process, and a device has no end.
#ifndef SINTER_SRC_CLI_FILES_H_
#define SINTER_SRC_CLI_FILES_H_

#include <string>

#include "src/cli/outcome.h"

namespace sinter::cli {

// Standard input where a file is read, standard output where one is written.
constexpr char kStandardStream[] = "-";

bool IsFile(const std::string& path);
// "a folder", "a pipe", "a device", "a socket": what has the name and is no file; "" otherwise.
std::string OtherThanFile(const std::string& path);
// Text of at most 64 MiB; "-" is standard input. What is no file, cannot be read or is binary is a
// usage error with the reason.
Outcome ReadFile(const std::string& path, std::string* out);
// Before work that a file is to help: a usage error where it cannot be read.
Outcome CheckReadable(const std::string& path);
// Before work whose result goes to `path`: a usage error where no file can be written there.
Outcome CheckWritable(const std::string& path);
// Replaces the file; "-" is standard output.
Outcome WriteFile(const std::string& path, const std::string& text);

}  // namespace sinter::cli

#endif  // SINTER_SRC_CLI_FILES_H_
