#include "tests/gpu/other_chip.h"

#include "src/base/arch.h"
#include "tests/support/common.h"

namespace sinter::gpu_testing {

absl::StatusOr<Ports> PortsOfPtx(Config config, DeviceModel model, const std::string& arch) {
  SINTER_ASSIGN_OR_RETURN(const ArchFeatures features, FeaturesOf(arch));
  model.arch = arch;
  if (!features.clusters) model.resident_clusters = {model.sm_count};
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / absl::StrCat("sinter-", getpid(), ".model");
  std::ofstream(file) << model.ToText();
  config.device_model = file.string();
  absl::StatusOr<Ports> ports = MakePorts(config, 0, "", LogSink());
  std::filesystem::remove(file);
  return ports;
}

}  // namespace sinter::gpu_testing
