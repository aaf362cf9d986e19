// A pack file, for people.
#ifndef SINTER_SRC_CLI_PACK_FILE_H_
#define SINTER_SRC_CLI_PACK_FILE_H_

#include "src/cli/options.h"
#include "src/cli/outcome.h"
#include "src/cli/session.h"

namespace sinter::cli {

// What the library says about options.pack; with `read_all`, every byte is checked.
Outcome InspectPack(const Options& options, bool read_all, Json* report);
void PrintPack(const Json& pack);

}  // namespace sinter::cli

#endif  // SINTER_SRC_CLI_PACK_FILE_H_
