// What the command line says.
#ifndef SINTER_SRC_CLI_OPTIONS_H_
#define SINTER_SRC_CLI_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace sinter::cli {

// Which device and cache the context is for.
struct DeviceArgs {
  int device = 0;
  bool device_given = false;  // then no other device may take its place
  std::string target;         // a model's name or file
  bool target_given = false;  // if not: the GPU, or without one the built-in h200 model
  std::string cache_dir;      // "" = the environment's
  bool cache_dir_given = false;
  std::string tuning_set;  // file; "" = none
  bool tuning_set_given = false;
  std::vector<std::string> packs;  // empty: the environment's
  std::string pack_keys;           // PEM file; "" = the environment's
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
  double deadline_s = 0;
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
  // plan
  bool source = false;
  bool paper = false;
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
  // cache, warm
  bool yes = false;
  std::string pack;           // file
  std::string sign;           // PEM file of a private key; "" = not signed
  uint64_t max_bytes = 0;     // to trim to
  std::vector<int64_t> rows;  // to prepare each chain with M for; empty: the rows in its line
  uint32_t jobs = 0;          // 0: as many as memory allows
  // help
  std::vector<std::string> topics;
};

}  // namespace sinter::cli

#endif  // SINTER_SRC_CLI_OPTIONS_H_
