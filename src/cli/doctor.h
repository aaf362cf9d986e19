// Doctor: what `sinter doctor` looked at, found and advises.
#ifndef SINTER_SRC_CLI_DOCTOR_H_
#define SINTER_SRC_CLI_DOCTOR_H_

#include <string>
#include <vector>

#include "src/cli/options.h"
#include "src/cli/print.h"

namespace sinter::cli {

// kMissing is a failure too: something that this machine does not have.
enum class Health { kOk, kWarn, kFail, kMissing };

struct Finding {
  std::string check;  // one word
  Health health = Health::kOk;
  std::string found;
  std::string way_out;  // "" where nothing needs to be done
};
using Findings = std::vector<Finding>;

// ---- doctor_context.cc: what the library tells

// Driver, GPU, model, compiler, cache, packs; a small chain prepared and, on a GPU, launched; the
// library's warnings. A failure of one check is a finding, and the next is made. `variables` are
// those of the environment: [{"name", "value", "error"}].
void CheckContext(const Options& options, const Json& variables, Findings* findings);

// ---- doctor_machine.cc: what NVIDIA's management library tells

// Whether the GPU is cut into parts, its persistence mode, and what holds its clocks down. For GPU
// `ordinal` of the driver, which is open.
void CheckNvml(int ordinal, Findings* findings);

// ---- doctor_machine.cc: what the operating system tells

// Paths of the shared libraries in this process whose file name contains `part`.
std::vector<std::string> LoadedLibraries(const std::string& part);
// The version of NVIDIA's kernel module, "580.65.06"; "" without one.
std::string KernelModuleVersion();
// Who may use the folder of the cache, the file system it is on, and what is free there.
Finding CheckFolder(const std::string& folder, bool read_only);

}  // namespace sinter::cli

#endif  // SINTER_SRC_CLI_DOCTOR_H_
