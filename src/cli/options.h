// What the command line says.
#ifndef SINTER_SRC_CLI_OPTIONS_H_
#define SINTER_SRC_CLI_OPTIONS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "src/cli/outcome.h"

namespace sinter::cli {

// Which device and cache the context is for.
struct DeviceArgs {
  int device = 0;
  bool device_given = false;  // then no other device may take its place
  // A model's name or file. Without one: the GPU, or where there is none the built-in h200 model.
  std::optional<std::string> target;
  std::optional<std::string> cache_dir, tuning_set;  // none: the environment's
  std::vector<std::string> packs;                    // empty: the environment's
  std::string pack_keys;                             // PEM file; "" = the environment's
  bool unsigned_packs = false;
  bool verbose = false;
};

// Which chain, and how many rows.
struct ChainArgs {
  std::vector<std::string> words;  // a line of text, an id, or a file
  std::string file;                // problem file
  std::string id;                  // problem in a file
  int64_t m = -1;                  // -1: the chain's own
};

struct PrepareArgs {
  std::string choice = "best";
  bool batch_invariant = false;
  bool must_hit = false;
  bool verify = false;
  int measure = 0;  // as sinter_prepare_options.measure
  double measure_s = 0;
  double deadline_s = 0;
};

// What -m of a workload says: numbers of rows, and the buckets of ranges.
struct Rows {
  std::vector<int64_t> given, buckets;
  bool empty() const { return given.empty() && buckets.empty(); }
};

struct Options {
  bool json = false;
  DeviceArgs device;
  ChainArgs chain;
  PrepareArgs prepare;
  // run
  uint64_t seed = 1;
  bool no_time = false;
  bool no_reference = false;
  bool large_reference = false;
  // plan
  bool source = false;
  int kernel = -1;
  std::string svg;  // file for the drawing
  // tune
  double budget_s = 0;  // for each chain
  int top_k = 0;
  double margin = 0;              // 0 = the library's
  bool keep = false;              // keep usable entries of the base sets
  std::vector<std::string> base;  // sets that the result extends
  std::string out;                // file of the resulting set
  // device
  bool model = false;
  bool measure = false;
  std::string report;  // file for what a user sends of a chip
  // cache, warm
  bool yes = false;
  std::string pack;        // file
  std::string sign;        // PEM file of a private key; "" = not signed
  uint64_t max_bytes = 0;  // to trim to
  Rows rows;               // to prepare each chain with M for; empty: the rows in its line
  uint32_t jobs = 0;       // 0: as many as memory allows
  // help
  std::vector<std::string> topics;
};

// The verbs: each prints its result on standard output and returns how it ended. The command line:
// their options and the bounds of each; help.

Outcome RunCommand(const Options& options);
Outcome PlanCommand(const Options& options);
Outcome TuneCommand(const Options& options);
Outcome DeviceCommand(const Options& options);
Outcome CacheListCommand(const Options& options);
Outcome CacheStatCommand(const Options& options);
Outcome CacheVerifyCommand(const Options& options);
Outcome CacheClearCommand(const Options& options);
Outcome CacheExportCommand(const Options& options);
Outcome CacheImportCommand(const Options& options);
Outcome CacheTrimCommand(const Options& options);
Outcome CachePushCommand(const Options& options);
Outcome WarmCommand(const Options& options);
Outcome DoctorCommand(const Options& options);
Outcome VersionCommand(const Options& options);

using Verb = Outcome (*)(const Options&);

// Parsing fills `options` and sets `chosen` to the verb's function, or to null for `help`. Both
// must outlive `app`.
void AddVerbs(CLI::App* app, Options* options, Verb* chosen);

// Formats help so that its lists fit a terminal.
std::shared_ptr<CLI::Formatter> HelpFormatter();
// The text below the command's own help: kinds of chains, exit statuses.
std::string HelpFooter();
// Prints help on `topics`: a command's words or a kind of chain; without topics, an overview.
Outcome Help(CLI::App* app, const std::vector<std::string>& topics);

// Limits: which values the command line accepts. A refusal names the value and the bounds, and the
// parser puts the option before it. Help shows the bounds: `--jobs UINT:1..256`.

// Decimal digits, with a sign if `low` is negative. A value outside the bounds is refused, not
// clamped.
CLI::Validator Integer(int64_t low, uint64_t high);
// A finite number.
CLI::Validator Number(double low, double high);
// A size of at least 1, as the library reads it (src/base/format.h). The text is replaced by the
// number of bytes.
CLI::Validator Bytes();
// A number of rows, or LOW..HIGH: every bucket that plans of LOW to HIGH rows are for; LOW is 1 if
// it is left out.
CLI::Validator RowsOrRange();
// Adds what such a word says.
void AddRows(const std::string& word, Rows* rows);
// One of `words`.
CLI::Validator OneOf(const std::vector<std::string>& words);
// The path of a file; not empty.
CLI::Validator Path();

// Most seconds of a deadline or budget: 31 years, whose microseconds fit into an int64_t.
constexpr double kMostSeconds = 1e9;
constexpr uint64_t kMostRows = (uint64_t{1} << 31) - 1;

// Microseconds of `seconds`. At least 1 if `seconds` > 0, since the library takes 0 as no limit.
int64_t MicrosecondsOf(double seconds);

// The most host memory that one compilation uses.
constexpr uint64_t kBytesPerJob = uint64_t{768} << 20;

// Bytes of memory that can still be used: the lesser of the kernel's estimate and what the control
// group leaves. 0 when neither can be read.
uint64_t FreeMemory();

// One per processor, fewer if memory is short, at least one.
uint32_t JobsThatFit();

}  // namespace sinter::cli

#endif  // SINTER_SRC_CLI_OPTIONS_H_
