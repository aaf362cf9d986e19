// The checks of sinter doctor that ask NVML: parts of a GPU, persistence, clocks. NVML comes with
// the driver; without it nothing is said.
#include <dlfcn.h>

#include <cstdio>
#include <memory>

#include "src/cli/doctor.h"

namespace sinter::cli {
namespace {

// nvml.h's values; its functions return 0 for success.
constexpr int kGraphicsClock = 0, kSmClock = 1;
constexpr struct {
  unsigned long long bit;
  const char* name;
} kSlowdowns[] = {{0x4, "the power cap"},
                  {0x8, "a hardware slowdown"},
                  {0x20, "heat"},
                  {0x40, "heat (hardware)"},
                  {0x80, "the power brake"}};

struct Close {
  void operator()(void* library) const { dlclose(library); }
};
using Library = std::unique_ptr<void, Close>;

// Calls `symbol`; false where it is not there or fails, as for what a GPU does not support.
template <typename... Args>
bool Ask(const Library& library, const char* symbol, Args... args) {
  const auto function = reinterpret_cast<int (*)(Args...)>(dlsym(library.get(), symbol));
  return function != nullptr && function(args...) == 0;
}

class Nvml {
 public:
  // The GPU that the driver at `libcuda` calls `ordinal`; neither counts as nvidia-smi does.
  static std::unique_ptr<Nvml> Open(const std::string& libcuda, int ordinal) {
    auto nvml = std::make_unique<Nvml>();
    const Library cuda(dlopen(libcuda.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD));
    int device = 0;
    char address[32] = "";
    if (cuda == nullptr || !Ask(cuda, "cuDeviceGet", &device, ordinal) ||
        !Ask(cuda, "cuDeviceGetPCIBusId", address, int{sizeof(address)}, device)) {
      return nullptr;
    }
    nvml->address_ = address;
    nvml->library_.reset(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL));
    if (nvml->library_ == nullptr) return nullptr;
    nvml->open_ = Ask(nvml->library_, "nvmlInit_v2");
    const auto* name = static_cast<const char*>(address);
    if (!nvml->open_ ||
        !Ask(nvml->library_, "nvmlDeviceGetHandleByPciBusId_v2", name, &nvml->device_)) {
      return nullptr;
    }
    return nvml;
  }
  ~Nvml() {
    if (open_) Ask(library_, "nvmlShutdown");
  }

  const std::string& address() const { return address_; }
  // `args` follow the device.
  template <typename... Args>
  bool Get(const char* symbol, Args... args) const {
    return Ask(library_, symbol, device_, args...);
  }

 private:
  Library library_;
  bool open_ = false;
  void* device_ = nullptr;
  std::string address_;
};

void CheckParts(const Nvml& nvml, Findings* findings) {
  unsigned now = 0, next = 0;
  if (!nvml.Get("nvmlDeviceGetMigMode", &now, &next)) return;
  Finding finding{"mig", Health::kOk, now != 0 ? "on" : "off", ""};
  if (next != now) finding.found += next != 0 ? "; on after a reset" : "; off after a reset";
  if (now != 0 || next != 0) {
    finding.health = Health::kWarn;
    finding.way_out =
        "predictions and tuning sets are of a whole GPU: measure the part (sinter device "
        "--measure), or turn it off (nvidia-smi -i " +
        nvml.address() + " -mig 0)";
  }
  findings->push_back(finding);
}

void CheckPersistence(const Nvml& nvml, Findings* findings) {
  unsigned on = 0;
  if (!nvml.Get("nvmlDeviceGetPersistenceMode", &on)) return;
  Finding finding{"persist", Health::kOk, "persistence mode is on", ""};
  if (on == 0) {
    finding.health = Health::kWarn;
    finding.found = "persistence mode is off: the first process to open the GPU waits for it";
    finding.way_out = "run nvidia-persistenced, or nvidia-smi -i " + nvml.address() + " -pm 1";
  }
  findings->push_back(finding);
}

std::string Slowdowns(const Nvml& nvml) {
  unsigned long long reasons = 0;
  // The second name is that of drivers before 535.
  if (!nvml.Get("nvmlDeviceGetCurrentClocksEventReasons", &reasons) &&
      !nvml.Get("nvmlDeviceGetCurrentClocksThrottleReasons", &reasons)) {
    return "";
  }
  std::string said;
  for (const auto& slowdown : kSlowdowns) {
    if ((reasons & slowdown.bit) == 0) continue;
    said += (said.empty() ? "" : ", ") + std::string(slowdown.name);
  }
  return said;
}

void CheckClocks(const Nvml& nvml, Findings* findings) {
  unsigned now = 0, most = 0, set = 0;
  if (!nvml.Get("nvmlDeviceGetClockInfo", kSmClock, &now) ||
      !nvml.Get("nvmlDeviceGetMaxClockInfo", kSmClock, &most)) {
    return;
  }
  Finding finding{"clocks", Health::kOk,
                  std::to_string(now) + " of " + std::to_string(most) + " MHz", ""};
  if (nvml.Get("nvmlDeviceGetApplicationsClock", kGraphicsClock, &set)) {
    finding.found += ", applications get " + std::to_string(set) + " MHz";
    if (set < most) {
      finding.health = Health::kWarn;
      finding.way_out = "give them all of it: nvidia-smi -i " + nvml.address() + " -rac";
    }
  }
  if (const std::string slowed = Slowdowns(nvml); !slowed.empty()) {
    finding.health = Health::kWarn;
    finding.found += ", slowed down by " + slowed;
    finding.way_out += (finding.way_out.empty() ? "" : "; ") +
                       std::string("look at power limit and cooling: nvidia-smi -q -d ") +
                       "PERFORMANCE,POWER -i " + nvml.address();
  }
  findings->push_back(finding);
}

}  // namespace

void CheckNvml(int ordinal, Findings* findings) {
  std::unique_ptr<Nvml> nvml;
  for (const std::string& libcuda : LoadedLibraries("libcuda.so")) {
    if (nvml == nullptr) nvml = Nvml::Open(libcuda, ordinal);
  }
  if (nvml == nullptr) {
    findings->push_back({"clocks", Health::kOk, "not known: NVML does not answer", ""});
    return;
  }
  CheckParts(*nvml, findings);
  CheckPersistence(*nvml, findings);
  CheckClocks(*nvml, findings);
}

}  // namespace sinter::cli
