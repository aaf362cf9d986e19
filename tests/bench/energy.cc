#include "tests/bench/energy.h"

#include <dlfcn.h>

namespace sinter::bench {
namespace {

constexpr double kSeconds = 1.2;

absl::StatusOr<void*> OpenLibrary(const char* name) {
  void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return absl::UnavailableError(absl::StrCat("no ", name));
  return handle;
}

template <typename Function>
absl::Status Find(void* library, const char* symbol, Function** function) {
  *function = reinterpret_cast<Function*>(dlsym(library, symbol));
  if (*function != nullptr) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("no ", symbol));
}

absl::Status Check(int result, const char* call) {
  if (result == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(call, " gives ", result));
}

absl::StatusOr<std::string> PciAddress(const Config& config, int ordinal) {
  SINTER_ASSIGN_OR_RETURN(
      void* library,
      OpenLibrary(config.driver_path.empty() ? "libcuda.so.1" : config.driver_path.c_str()));
  int (*init)(unsigned) = nullptr;
  int (*get)(int*, int) = nullptr;
  int (*address)(char*, int, int) = nullptr;
  SINTER_RETURN_IF_ERROR(Find(library, "cuInit", &init));
  SINTER_RETURN_IF_ERROR(Find(library, "cuDeviceGet", &get));
  SINTER_RETURN_IF_ERROR(Find(library, "cuDeviceGetPCIBusId", &address));
  int device = 0;
  char text[32] = "";
  SINTER_RETURN_IF_ERROR(Check(init(0), "cuInit"));
  SINTER_RETURN_IF_ERROR(Check(get(&device, ordinal), "cuDeviceGet"));
  SINTER_RETURN_IF_ERROR(Check(address(text, sizeof text, device), "cuDeviceGetPCIBusId"));
  return std::string(text);
}

class NvmlMeter : public EnergyMeter {
 public:
  absl::Status Start(const std::string& pci_address) {
    SINTER_ASSIGN_OR_RETURN(void* library, OpenLibrary("libnvidia-ml.so.1"));
    int (*init)() = nullptr;
    int (*by_address)(const char*, void**) = nullptr;
    SINTER_RETURN_IF_ERROR(Find(library, "nvmlInit_v2", &init));
    SINTER_RETURN_IF_ERROR(Find(library, "nvmlDeviceGetHandleByPciBusId_v2", &by_address));
    SINTER_RETURN_IF_ERROR(Find(library, "nvmlDeviceGetTotalEnergyConsumption", &energy_));
    SINTER_RETURN_IF_ERROR(Check(init(), "nvmlInit"));
    SINTER_RETURN_IF_ERROR(
        Check(by_address(pci_address.c_str(), &device_), "nvmlDeviceGetHandleByPciBusId"));
    return MilliJoules().status();
  }

  absl::StatusOr<uint64_t> MilliJoules() const override {
    unsigned long long value = 0;  // NVML's type
    SINTER_RETURN_IF_ERROR(Check(energy_(device_, &value), "nvmlDeviceGetTotalEnergyConsumption"));
    return static_cast<uint64_t>(value);
  }

 private:
  int (*energy_)(void*, unsigned long long*) = nullptr;
  void* device_ = nullptr;
};

}  // namespace

absl::StatusOr<std::unique_ptr<EnergyMeter>> EnergyMeter::Open(const Config& config, int ordinal) {
  SINTER_ASSIGN_OR_RETURN(const std::string pci_address, PciAddress(config, ordinal));
  auto meter = std::make_unique<NvmlMeter>();
  SINTER_RETURN_IF_ERROR(meter->Start(pci_address));
  return std::unique_ptr<EnergyMeter>(std::move(meter));
}

int ReplaysFor(double seconds, int calls, double us) {
  return static_cast<int>(std::ceil(std::max(1.0, seconds * 1e6 / (calls * us))));
}

absl::StatusOr<double> MilliJoulesPerCall(Measurer* measurer, const EnergyMeter& meter,
                                          const Runnable& runnable, TimingOptions timing,
                                          double us) {
  const int calls = CallsOf(runnable, timing);
  timing.replays = ReplaysFor(kSeconds, calls, us);
  SINTER_ASSIGN_OR_RETURN(const uint64_t before, meter.MilliJoules());
  SINTER_RETURN_IF_ERROR(TimeInGraph(measurer, runnable, timing).status());
  SINTER_ASSIGN_OR_RETURN(const uint64_t after, meter.MilliJoules());
  const double done = static_cast<double>(calls) * (timing.replays + 1);  // one warms up
  return static_cast<double>(after - before) / done;
}

}  // namespace sinter::bench
