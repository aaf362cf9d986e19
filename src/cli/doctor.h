// Doctor: what `sinter doctor` checked, found and advises.
#ifndef SINTER_SRC_CLI_DOCTOR_H_
#define SINTER_SRC_CLI_DOCTOR_H_

#include <string>
#include <vector>

#include "src/cli/options.h"
#include "src/cli/print.h"

namespace sinter::cli {

// kMissing counts as a failure too: this machine lacks something.
enum class Health { kOk, kWarn, kFail, kMissing };

struct Finding {
  std::string check;  // one word
  Health health = Health::kOk;
  std::string found;
  std::string way_out;  // what to do; "" where nothing is to be done
};
using Findings = std::vector<Finding>;

// ---- doctor_context.cc: what the library tells

// Checks driver, GPU, model, compiler, cache and packs, prepares a small chain and, on a GPU,
// launches it; reports the library's warnings. A check that fails is a finding, and the next one is
// made. `variables` are those of the environment: [{"name", "value", "error"}].
void CheckContext(const Options& options, const Json& variables, Findings* findings);

// ---- doctor_machine.cc: what NVIDIA's management library tells

// Whether the GPU is divided (MIG), its persistence mode, and what limits its clocks. `ordinal` is
// the driver's number of the GPU; the driver is open.
void CheckNvml(int ordinal, Findings* findings);

// ---- doctor_machine.cc: what the operating system tells

// Paths of the shared libraries in this process whose file name contains `part`.
std::vector<std::string> LoadedLibraries(const std::string& part);
// The version of NVIDIA's kernel module, "580.65.06"; "" without one.
std::string KernelModuleVersion();
// Who may use the cache folder, which file system it is on, and how much is free there.
Finding CheckFolder(const std::string& folder, bool read_only);

}  // namespace sinter::cli

#endif  // SINTER_SRC_CLI_DOCTOR_H_
