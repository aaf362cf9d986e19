// Where a chain comes from: a line of text, a problem file, a JSON file.
#ifndef SINTER_SRC_CLI_CHAIN_SOURCE_H_
#define SINTER_SRC_CLI_CHAIN_SOURCE_H_

#include <string>
#include <vector>

#include "src/cli/options.h"
#include "src/cli/outcome.h"

namespace sinter::cli {

struct LoadedChain {
  ChainPtr chain;
  int64_t m = 0;     // rows; 1 for a chain without M
  std::string text;  // the problem's line; for a chain from JSON its ops, one per line
};

// Reads the chain that `args` name. With a file given, words or id choose a problem in it. One word
// that is the name of a file is that file, JSON if its name ends so. Anything else is a line of
// text. Giving rows for a chain without M is an error; for several chains, only when none has M.
Outcome LoadChain(const ChainArgs& args, LoadedChain* out);
// The same for several chains: every problem of a problem file when none is chosen, and each of
// several JSON files. At least one.
Outcome LoadChains(const ChainArgs& args, std::vector<LoadedChain>* out);

}  // namespace sinter::cli

#endif  // SINTER_SRC_CLI_CHAIN_SOURCE_H_
