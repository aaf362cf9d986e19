// Prints text from files, records, servers and the command line so that no control character
// reaches the terminal; and prints a command's progress.
#ifndef SINTER_SRC_CLI_PRINT_H_
#define SINTER_SRC_CLI_PRINT_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "src/base/format.h"
#include "src/cli/outcome.h"

namespace sinter::cli {

using Json = nlohmann::ordered_json;

// Member `key`, a string, as a terminal may show it; "" without one.
std::string PrintableAt(const Json& json, const char* key);
// Breaks lines of more than `columns` at blanks. Continuations are indented like the first line's
// text, or like its second column if it has two.
std::string Wrapped(const std::string& text, size_t columns);
constexpr size_t kHelpColumns = 100, kMostColumns = 120;
// Prints one document on standard output in ASCII, other characters as JSON's own escapes.
void PrintJson(const Json& json);

// "; did you mean \"run\"?" or "".
inline std::string DidYouMean(const std::string& word, const std::vector<std::string>& known) {
  const std::string nearest = Nearest(word, known);
  return nearest.empty() ? "" : "; did you mean \"" + nearest + "\"?";
}
inline std::string Join(const std::vector<std::string>& words, const std::string& separator) {
  return absl::StrJoin(words, separator);
}

// Columns of the terminal of standard error, 80 if unknown. Asked again for each line, since
// terminals change size.
int TerminalColumns();
// `text`, ASCII, in at most `columns`. If it is too long, ".." takes the place of its middle, so
// that both the progress and the current step can be seen.
std::string Fitted(const std::string& text, int columns);

// Writes to standard error, only when it is a terminal. The line is wiped at the end.
class Progress {
 public:
  Progress();
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // "37 % bar stage". On a narrow terminal the stage is shortened.
  void Show(const std::string& bar, const std::string& stage, double fraction);
  // "stage: 12 s", for work that does not say how far it is.
  void ShowElapsed(const std::string& stage);
  bool on_terminal() const { return terminal_; }
  // A sinter_progress_callback; user_data is the Progress.
  static void Callback(uintptr_t user_data, const char* stage, double fraction);
  uintptr_t user_data() { return reinterpret_cast<uintptr_t>(this); }

 private:
  bool IsDue() const;  // on a terminal, and after the first second
  void Write(const std::string& line);

  const bool terminal_;
  const std::chrono::steady_clock::time_point start_;
  std::mutex mutex_;  // one line at a time
  bool shown_ = false;
};

// While it lives, shows each second how long `stage` has taken. Does nothing without a terminal.
class Elapsed {
 public:
  explicit Elapsed(std::string stage);
  ~Elapsed();
  Elapsed(const Elapsed&) = delete;
  Elapsed& operator=(const Elapsed&) = delete;

 private:
  Progress progress_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool end_ = false;  // guarded by mutex_
  std::thread thread_;
};

// Files that a command reads and writes. They must be regular files: opening a pipe waits for
// another process, and a device has no end.

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

#endif  // SINTER_SRC_CLI_PRINT_H_
