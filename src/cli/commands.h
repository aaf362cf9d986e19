// The verbs. Each prints its result on standard output and returns how it ended.
#ifndef SINTER_SRC_CLI_COMMANDS_H_
#define SINTER_SRC_CLI_COMMANDS_H_

#include "src/cli/options.h"
#include "src/cli/outcome.h"

namespace sinter::cli {

Outcome RunCommand(const Options& options);
Outcome PlanCommand(const Options& options);
Outcome SearchCommand(const Options& options);
Outcome TuneCommand(const Options& options);
Outcome DeviceCommand(const Options& options);
Outcome CacheListCommand(const Options& options);
Outcome CacheStatCommand(const Options& options);
Outcome CacheVerifyCommand(const Options& options);
Outcome CacheClearCommand(const Options& options);
Outcome CacheExportCommand(const Options& options);
Outcome CacheImportCommand(const Options& options);
Outcome CacheTrimCommand(const Options& options);
Outcome WarmCommand(const Options& options);
Outcome DoctorCommand(const Options& options);
Outcome VersionCommand(const Options& options);

}  // namespace sinter::cli

#endif  // SINTER_SRC_CLI_COMMANDS_H_
