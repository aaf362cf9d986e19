#include "src/base/file_place.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "src/base/status.h"

namespace sinter {
namespace {

constexpr int kMostLinks = 40;  // as many as the kernel follows

bool IsTrusted(uid_t owner) { return owner == 0 || owner == geteuid(); }

absl::Status Failed(const char* call, const std::string& path, int error) {
  return Unavailable(call, " ", path, ": ", strerror(error));
}

absl::Status Foreign(const std::string& path, const char* what) {
  return PermissionDenied(path, ": is ", what, " that another user made; give a path in a folder ",
                          "where only this user may make files");
}

bool IsOpenToAll(int folder) {
  struct stat info {};
  return fstat(folder, &info) == 0 && (info.st_mode & S_IWOTH) != 0;
}

// Closes `*fd` if it is open, and stores `next`.
void Reset(int* fd, int next) {
  if (*fd >= 0) close(*fd);
  *fd = next;
}

// A descriptor of a name itself, be it a link.
struct Entry {
  int fd;
  struct stat info {};
  Entry(int folder, const std::string& name)
      : fd(openat(folder, name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC)) {
    if (fd >= 0 && fstat(fd, &info) != 0) Reset(&fd, -1);
  }
  ~Entry() { Reset(&fd, -1); }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;

  std::string Target() const {
    char text[PATH_MAX];
    const ssize_t size = readlinkat(fd, "", text, sizeof(text));
    return size < 0 ? std::string() : std::string(text, static_cast<size_t>(size));
  }
};

}  // namespace

FilePlace::~FilePlace() { Reset(&folder_, -1); }

absl::StatusOr<FilePlace> FilePlace::Of(const std::string& path) {
  FilePlace place;
  SINTER_RETURN_IF_ERROR(place.Walk(path));
  return place;
}

absl::Status FilePlace::Walk(std::string rest) {
  const std::string whole = rest;
  bool from_start = true;
  for (int links = 0;;) {
    if (std::exchange(from_start, false)) {
      path_ = absl::StartsWith(rest, "/") ? "/" : "";
      Reset(&folder_, open(path_.empty() ? "." : "/", O_PATH | O_DIRECTORY | O_CLOEXEC));
      if (folder_ < 0) return Failed("open", path_.empty() ? "." : "/", errno);
    }
    rest.erase(0, std::min(rest.find_first_not_of('/'), rest.size()));
    const size_t end = std::min(rest.find('/'), rest.size());
    name_ = rest.substr(0, end);
    const bool last = end == rest.size();
    if (name_.empty() || (last && (name_ == "." || name_ == ".."))) {
      return Invalid(whole, ": ", strerror(EISDIR));
    }
    const std::string here = absl::StrCat(path_, name_);
    Entry entry(folder_, name_);
    if (entry.fd < 0 && !(last && errno == ENOENT)) return Failed("create", whole, errno);
    if (entry.fd >= 0 && S_ISLNK(entry.info.st_mode)) {
      if (!IsTrusted(entry.info.st_uid)) {
        return Foreign(here, "a link");
      }
      struct stat target {};
      if (last && fstatat(folder_, name_.c_str(), &target, 0) != 0) {
        return Failed("open", here, errno);
      }
      if (last && !S_ISREG(target.st_mode) && !S_ISDIR(target.st_mode)) {
        special_ = true;  // such as /dev/stdout: only the kernel knows the way
        break;
      }
      if (++links > kMostLinks) return Failed("open", whole, ELOOP);
      rest = absl::StrCat(entry.Target(), rest.substr(end));
      from_start = absl::StartsWith(rest, "/");
      continue;
    }
    if (last) {
      if (entry.fd >= 0 && S_ISDIR(entry.info.st_mode)) {
        return Invalid(whole, ": ", strerror(EISDIR));
      }
      if (entry.fd >= 0 && S_ISFIFO(entry.info.st_mode) && !IsTrusted(entry.info.st_uid) &&
          IsOpenToAll(folder_)) {
        return Foreign(here, "a pipe");
      }
      special_ = entry.fd >= 0 && !S_ISREG(entry.info.st_mode);
      break;
    }
    if (!S_ISDIR(entry.info.st_mode)) return Failed("create", whole, ENOTDIR);
    Reset(&folder_, std::exchange(entry.fd, -1));
    absl::StrAppend(&path_, name_, "/");
    rest.erase(0, end);
  }
  absl::StrAppend(&path_, name_);
  return absl::OkStatus();
}

int FilePlace::OpenSpecial() const {
  int fd = openat(folder_, name_.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  struct stat info {};
  if (fd < 0 || (fstat(fd, &info) == 0 && !S_ISREG(info.st_mode))) return fd;
  Reset(&fd, -1);  // a file has taken the place of the device or pipe
  errno = EEXIST;
  return -1;
}

}  // namespace sinter
