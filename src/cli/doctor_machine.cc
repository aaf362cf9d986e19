// The doctor's checks of the operating system and NVML.
#include <dlfcn.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <set>
#include <sstream>

#include "src/cli/session.h"

namespace sinter::cli {
namespace {

constexpr uint64_t kLowBytes = 256u << 20;
constexpr uint64_t kLowInodes = 1000;

std::string TypeOf(const std::string& folder) {
  struct statfs info {};
  if (statfs(folder.c_str(), &info) != 0) return "unknown file system";
  const struct {
    unsigned long magic;
    const char* name;
  } known[] = {{0x6969, "NFS"},        {0x794c7630, "overlay"}, {0x01021994, "tmpfs"},
               {0xef53, "ext4"},       {0x58465342, "XFS"},     {0x9123683e, "btrfs"},
               {0x0bd00bd0, "Lustre"}, {0x65735546, "FUSE"},    {0xff534d42, "CIFS"},
               {0x47504653, "GPFS"},   {0x2fc12fc1, "ZFS"},     {0x01021997, "9p"},
               {0x00c36400, "CephFS"}};
  for (const auto& type : known) {
    if (static_cast<unsigned long>(info.f_type) == type.magic) return type.name;
  }
  return FormatText("file system 0x%x", static_cast<unsigned long>(info.f_type));
}

// The folder itself, or the nearest folder above it that exists.
std::string NearestThere(std::string folder) {
  struct stat info {};
  while (stat(folder.c_str(), &info) != 0) {
    const size_t slash = folder.rfind('/');
    if (slash == std::string::npos) return ".";
    folder.resize(slash);
    if (folder.empty()) return "/";
  }
  return folder;
}

void CheckOwner(const std::string& folder, Finding* finding) {
  struct stat info {};
  if (stat(folder.c_str(), &info) != 0) return;
  finding->found += FormatText(", mode %03o of user %d", info.st_mode & 07777, info.st_uid);
  if (info.st_uid != geteuid()) {
    finding->health = Health::kWarn;
    finding->way_out = "the folder is another user's: name one of your own with SINTER_CACHE_DIR";
  } else if ((info.st_mode & 022) != 0) {
    finding->health = Health::kWarn;
    finding->way_out = "others may write it, so it is not trusted: chmod go-w " + folder;
  }
}

void CheckWritable(const std::string& folder, bool read_only, Finding* finding) {
  if (read_only || access(folder.c_str(), W_OK) == 0) return;
  finding->health = Health::kWarn;
  finding->way_out =
      "it cannot be written: what it lacks is compiled at every start. Mount it writable, or use a "
      "pack (sinter warm --pack)";
}

void CheckRoom(const std::string& folder, Finding* finding) {
  struct statvfs room {};
  if (statvfs(folder.c_str(), &room) != 0) return;
  const uint64_t bytes = uint64_t{room.f_bavail} * room.f_frsize;
  finding->found += FormatText(", %.1f GiB free", static_cast<double>(bytes) / (1u << 30));
  const bool few_inodes = room.f_files > 0 && room.f_favail < kLowInodes;
  if (few_inodes) finding->found += ", " + std::to_string(room.f_favail) + " inodes free";
  if (bytes >= kLowBytes && !few_inodes) return;
  finding->health = Health::kWarn;
  finding->way_out = "almost full: free some room, or lower SINTER_CACHE_MAX_BYTES";
}

// Values from nvml.h, whose functions return 0 for success.
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

// Calls `symbol`. False if it is not there or fails, as it does for what a GPU does not support.
template <typename... Args>
bool Ask(const Library& library, const char* symbol, Args... args) {
  const auto function = reinterpret_cast<int (*)(Args...)>(dlsym(library.get(), symbol));
  return function != nullptr && function(args...) == 0;
}

class Nvml {
 public:
  // The GPU with `ordinal` in the driver at `libcuda`. nvidia-smi may number GPUs differently.
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
  // `args` come after the device.
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
  // Drivers before 535 have the second name.
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

std::vector<std::string> LoadedLibraries(const std::string& part) {
  std::ifstream maps("/proc/self/maps");
  std::set<std::string> found;
  for (std::string line; std::getline(maps, line);) {
    const size_t path = line.find('/');
    if (path == std::string::npos || line.find(".so", path) == std::string::npos) continue;
    const std::string file = line.substr(path);
    if (file.find(part, file.rfind('/')) != std::string::npos) found.insert(file);
  }
  return {found.begin(), found.end()};
}

std::string KernelModuleVersion() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string line;
  std::getline(file, line);
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    if (word.find_first_not_of("0123456789.") == std::string::npos) return word;
  }
  return "";
}

Finding CheckFolder(const std::string& folder, bool read_only) {
  Finding finding{"folder", Health::kOk, folder, ""};
  const std::string there = NearestThere(folder);
  finding.found += there == folder ? " on " + TypeOf(there)
                                   : " is not there yet; " + there + " on " + TypeOf(there);
  if (there == folder) CheckOwner(folder, &finding);
  CheckWritable(there, read_only, &finding);
  CheckRoom(there, &finding);
  return finding;
}

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
