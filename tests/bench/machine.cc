#include "tests/bench/machine.h"

#include "runtime/driver/driver.h"
#include "runtime/query/model_choice.h"
#include "tests/support/common.h"

namespace sinter::bench {
namespace {

std::string Now() {
  const time_t now = time(nullptr);
  tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

// "580.159.04" out of the kernel module's version line; "" when it cannot be read.
std::string DriverVersion() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string word;
  while (file >> word) {
    const size_t dots = static_cast<size_t>(std::count(word.begin(), word.end(), '.'));
    if (dots >= 1 && word.find_first_not_of("0123456789.") == std::string::npos) return word;
  }
  return "";
}

std::string CpuName() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    const size_t colon = line.find(": ");
    if (absl::StartsWith(line, "model name") && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "";
}

}  // namespace

Machine DescribeMachine(const Config& config, int ordinal) {
  Machine machine;
  machine.date = Now();
  machine.host_cpu = CpuName();
  machine.cores = static_cast<int>(std::thread::hardware_concurrency());
  machine.driver = DriverVersion();
  const auto driver = Driver::Open(config.driver_path);
  if (!driver.ok()) return machine;
  const auto device = Device::Open(*driver, ordinal);
  if (!device.ok()) return machine;
  const absl::StatusOr<DeviceInfo> info = QueryDevice(**device);
  if (!info.ok()) return machine;
  machine.gpu = info->name;
  machine.sm_count = info->sm_count;
  machine.clock_mhz = info->clock_mhz;
  machine.cuda = absl::StrCat(info->driver_version / 1000, ".", info->driver_version % 1000 / 10);
  return machine;
}

}  // namespace sinter::bench
