#include "src/cli/outcome.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <new>
#include <string>

#include "src/cli/print.h"

namespace sinter::cli {
namespace {

int ExitOf(sinter_status status) {
  switch (status) {
    case SINTER_OK:
      return kDone;
    case SINTER_INVALID_ARGUMENT:
    case SINTER_NOT_FOUND:
    case SINTER_OUT_OF_RANGE:
    case SINTER_FAILED_PRECONDITION:  // for a chain, a pack, a compiler that was denied
    case SINTER_PERMISSION_DENIED:    // for a key, a pack, a folder that others may write
      return kUsage;
    case SINTER_UNAVAILABLE:
    case SINTER_RESOURCE_EXHAUSTED:
      return kUnavailable;
    default:
      return kFailed;
  }
}

constexpr char kOutOfMemory[] = "out of memory";

bool AsksForJson(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0) return true;
  }
  return false;
}

// Flushes standard output: a full disk or a reader that has gone may show only with the last bytes.
Outcome Flushed(Outcome outcome) {
  std::cout.flush();
  errno = 0;
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good();
  if (written || !outcome.ok()) return outcome;
  return Failure(std::string("standard output could not be written") +
                 (errno != 0 ? std::string(": ") + std::strerror(errno) : ""));
}

// Allocates nothing.
int TellShortly(const char* message, bool json) {
  std::fprintf(stderr, "sinter: %s\n", message);
  if (json) {
    std::printf("{\"error\": {\"message\": \"%s\", \"exit\": %d}}\n", message, kUnavailable);
    std::fflush(stdout);
  }
  return kUnavailable;
}

int Tell(const Outcome& outcome, bool json) {
  if (outcome.ok()) return outcome.exit;
  const std::string line = Printable(outcome.message);
  if (line.empty() && !outcome.message.empty()) throw std::bad_alloc();
  if (json && !outcome.documented) {
    Json error = {{"message", line}};
    if (outcome.status != SINTER_OK) error["status"] = sinter_status_name(outcome.status);
    error["exit"] = outcome.exit;
    PrintJson({{"error", error}});
    std::fflush(stdout);
  }
  std::fprintf(stderr, "sinter: %s\n", line.c_str());
  return outcome.exit;
}

// The terminate handler. Destructors of the JSON library, of Abseil's formatter and of
// std::filesystem allocate but may not throw. If memory runs out there the command cannot go on,
// but it can still print a line and exit with a status.
template <bool kJson>
[[noreturn]] void TellAndExit() {
  const char* message = "an exception where none may be";
  try {
    if (std::current_exception() != nullptr) throw;
  } catch (const std::bad_alloc&) {
    message = kOutOfMemory;
  } catch (...) {
  }
  std::fflush(stdout);
  _exit(TellShortly(message, kJson));
}

}  // namespace

Outcome FromStatus(sinter_status status, sinter_error* error) {
  if (status == SINTER_OK) return {};
  Outcome outcome{ExitOf(status), sinter_error_get_message(error), status};
  if (outcome.message.empty()) outcome.message = sinter_status_name(status);
  if (status >= 100) {
    outcome.message = std::string(sinter_status_name(status)) + ": " + outcome.message;
  }
  sinter_error_release(error);
  return outcome;
}

int RunToTheEnd(Command command, int argc, char** argv) noexcept {
  const bool json = AsksForJson(argc, argv);
  std::set_terminate(json ? TellAndExit<true> : TellAndExit<false>);
  try {
    return Tell(Flushed(command(argc, argv)), json);
  } catch (const std::bad_alloc&) {
    return TellShortly(kOutOfMemory, json);
  } catch (...) {
    return TellShortly("an exception that nobody expected", json);
  }
}

}  // namespace sinter::cli
