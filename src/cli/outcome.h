// Outcome: how a step of a command ended: the exit status and, on failure, one line. RunToTheEnd
// reports the end of a command, whatever happened.
#ifndef SINTER_SRC_CLI_OUTCOME_H_
#define SINTER_SRC_CLI_OUTCOME_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "sinter/sinter.h"
#include "src/base/format.h"
#include "src/capi/firewall.h"
#include "src/capi/objects.h"

namespace sinter::cli {

// Exit statuses; users may rely on them.
constexpr int kDone = 0;
constexpr int kFailed = 1;  // it ran and failed: a wrong result, a driver error, a refused kernel
constexpr int kUsage = 2;   // the command line, a chain or a file was not understood or asks for
                            // what cannot be
constexpr int kUnavailable =
    3;  // something is missing on this machine: a GPU, a run-time compiler, memory

struct Outcome {
  int exit = kDone;
  std::string message;
  sinter_status status = SINTER_OK;  // the library's status, where it reported the failure
  bool documented = false;           // a JSON document that reports it was printed
  int op = -1;                       // of the library's error; -1: none
  std::string field = {}, value = {}, bound = {};  // of the library's error; "": none
  bool ok() const { return exit == kDone; }
};

inline Outcome Usage(std::string message) { return {kUsage, std::move(message)}; }
// For an outcome whose document was printed, if `json` asked for one.
inline Outcome Documented(Outcome outcome, bool json) {
  outcome.documented = json;
  return outcome;
}
inline Outcome Failure(std::string message) { return {kFailed, std::move(message)}; }

// Takes a status and its error, which it releases.
Outcome FromStatus(sinter_status status, sinter_error* error);

// Runs `call(sinter_error**) -> sinter_status`.
template <typename Call>
Outcome Abi(Call&& call) {
  sinter_error* error = nullptr;
  const sinter_status status = call(&error);
  return FromStatus(status, error);
}

#define SINTER_CLI_TRY(expr)                                 \
  do {                                                       \
    ::sinter::cli::Outcome sinter_cli_outcome = (expr);      \
    if (!sinter_cli_outcome.ok()) return sinter_cli_outcome; \
  } while (0)

using Command = Outcome (*)(int argc, char** argv);

// Runs `command` and returns its exit status. A failure prints one line on standard error. With
// --json among the arguments it also prints {"error": {"message", "status", "exit"}} on standard
// output, unless the command printed a document of its own. Any exception is a failure with
// kUnavailable. Output that could not be written is a failure too.
int RunToTheEnd(Command command, int argc, char** argv) noexcept;

template <auto kRelease>
struct Releaser {
  template <typename T>
  void operator()(T* object) const {
    kRelease(object);
  }
};

using ContextPtr = std::unique_ptr<sinter_context, Releaser<sinter_context_release>>;
using ChainPtr = std::unique_ptr<sinter_chain, Releaser<sinter_chain_release>>;
using PlanPtr = std::unique_ptr<sinter_plan, Releaser<sinter_plan_release>>;
using BindingPtr = std::unique_ptr<sinter_binding, Releaser<sinter_binding_release>>;
using TuningSetPtr = std::unique_ptr<sinter_tuning_set, Releaser<sinter_tuning_set_release>>;

// Runs `make() -> absl::StatusOr<T>`, a call into the library behind the ABI, and keeps what it
// makes. Its errors and exceptions end the command as the ABI's do.
template <typename T, typename Make>
Outcome Take(T* out, Make&& make) {
  return Abi([&](sinter_error** error) {
    return capi::Guard(error, [&]() -> absl::Status {
      SINTER_ASSIGN_OR_RETURN(*out, make());
      return absl::OkStatus();
    });
  });
}

// Prints text from files, records, servers and the command line so that no control character
// reaches the terminal; and prints a command's progress.

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
// Reads a text of at most 64 MiB; "-" is standard input. A usage error with the reason if it is not
// a regular file, cannot be read or is binary.
Outcome ReadFile(const std::string& path, std::string* out);
// Called before work that needs the file: a usage error if it cannot be read.
Outcome CheckReadable(const std::string& path);
// Called before work whose result goes to `path`: a usage error if no file can be written there.
Outcome CheckWritable(const std::string& path);
// Replaces the file; "-" is standard output.
Outcome WriteFile(const std::string& path, const std::string& text);

}  // namespace sinter::cli

#endif  // SINTER_SRC_CLI_OUTCOME_H_
