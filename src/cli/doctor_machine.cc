#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>

#include "src/cli/doctor.h"

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
  char text[32];
  std::snprintf(text, sizeof(text), "file system 0x%lx", static_cast<unsigned long>(info.f_type));
  return text;
}

// The folder itself, or the nearest above it that is there.
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

std::string Gibibytes(uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f GiB", static_cast<double>(bytes) / (1u << 30));
  return text;
}

void CheckOwner(const std::string& folder, Finding* finding) {
  struct stat info {};
  if (stat(folder.c_str(), &info) != 0) return;
  char text[64];
  std::snprintf(text, sizeof(text), ", mode %03o of user %u", info.st_mode & 07777, info.st_uid);
  finding->found += text;
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
  finding->found += ", " + Gibibytes(bytes) + " free";
  const bool few_inodes = room.f_files > 0 && room.f_favail < kLowInodes;
  if (few_inodes) finding->found += ", " + std::to_string(room.f_favail) + " inodes free";
  if (bytes >= kLowBytes && !few_inodes) return;
  finding->health = Health::kWarn;
  finding->way_out = "almost full: free some room, or lower SINTER_CACHE_MAX_BYTES";
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

}  // namespace sinter::cli
