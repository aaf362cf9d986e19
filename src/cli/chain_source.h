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
  int64_t m = 0;     // 1 for a chain without M
  std::string text;  // the canonical line; the ops, one a line, of a chain from JSON
};

// Reads `args`: with a file, its words or id name a problem in it; one word that is a file is that
// file, JSON when it ends so; everything else is a line of text. Rows for a chain without M are an
// error, of several chains when none has it.
Outcome LoadChain(const ChainArgs& args, LoadedChain* out);
// The same, every problem of a problem file when none is named, and each of several JSON files. At
// least one.
Outcome LoadChains(const ChainArgs& args, std::vector<LoadedChain>* out);

}  // namespace sinter::cli

#endif  // SINTER_SRC_CLI_CHAIN_SOURCE_H_
