// Outcome: how a step of a command ended: the exit status and, on failure, one line. RunToTheEnd
// reports the end of a command, whatever happened.
#ifndef SINTER_SRC_CLI_OUTCOME_H_
#define SINTER_SRC_CLI_OUTCOME_H_

#include <memory>
#include <string>
#include <utility>

#include "sinter/sinter.h"
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
// makes. Its errors and exceptions end the command as those of the ABI do.
template <typename T, typename Make>
Outcome Take(T* out, Make&& make) {
  return Abi([&](sinter_error** error) {
    return capi::Guard(error, [&]() -> absl::Status {
      SINTER_ASSIGN_OR_RETURN(*out, make());
      return absl::OkStatus();
    });
  });
}

}  // namespace sinter::cli

#endif  // SINTER_SRC_CLI_OUTCOME_H_
