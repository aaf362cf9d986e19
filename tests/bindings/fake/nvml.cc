// libnvidia-ml.so.1 for sinter doctor: one GPU, of which FAKE_NVML tells "MIG MIG_NEXT PERSISTENCE
// CLOCK MAX_CLOCK APPLICATIONS_CLOCK REASONS"; a number below 0 is not supported.
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr int kNotSupported = 3;

int Tell(int index, unsigned* out) {
  long values[7] = {0, 0, 1, 1980, 1980, 1980, 0};
  const char* given = std::getenv("FAKE_NVML");
  if (given != nullptr) {
    std::sscanf(given, "%ld %ld %ld %ld %ld %ld %ld", &values[0], &values[1], &values[2],
                &values[3], &values[4], &values[5], &values[6]);
  }
  if (values[index] < 0) return kNotSupported;
  *out = static_cast<unsigned>(values[index]);
  return 0;
}

int g_device;

}  // namespace

#define SINTER_FAKE extern "C" __attribute__((visibility("default"))) int
SINTER_FAKE nvmlInit_v2() { return 0; }
SINTER_FAKE nvmlShutdown() { return 0; }
SINTER_FAKE nvmlDeviceGetHandleByPciBusId_v2(const char* address, void** device) {
  *device = &g_device;
  return std::strcmp(address, "0000:3b:00.0") == 0 ? 0 : 6;  // not found
}
SINTER_FAKE nvmlDeviceGetMigMode(void*, unsigned* now, unsigned* next) {
  const int status = Tell(0, now);
  return status != 0 ? status : Tell(1, next);
}
SINTER_FAKE nvmlDeviceGetPersistenceMode(void*, unsigned* on) { return Tell(2, on); }
SINTER_FAKE nvmlDeviceGetClockInfo(void*, int, unsigned* mhz) { return Tell(3, mhz); }
SINTER_FAKE nvmlDeviceGetMaxClockInfo(void*, int, unsigned* mhz) { return Tell(4, mhz); }
SINTER_FAKE nvmlDeviceGetApplicationsClock(void*, int, unsigned* mhz) { return Tell(5, mhz); }
SINTER_FAKE nvmlDeviceGetCurrentClocksEventReasons(void*, unsigned long long* reasons) {
  unsigned value = 0;
  const int status = Tell(6, &value);
  *reasons = value;
  return status;
}
