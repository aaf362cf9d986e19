#include "src/base/key_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/base/transfer.h"

namespace sinter {
namespace {

constexpr off_t kMostBytes = 64 << 10;

absl::Status FromErrno(const std::string& name, const char* call) {
  const int error = errno;
  const std::string text = absl::StrCat(name, ": ", call, ": ", strerror(error));
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(text);
  if (error == EACCES || error == EPERM) return absl::PermissionDeniedError(text);
  return absl::UnavailableError(text);
}

// `name`: what the file is called in errors.
absl::Status CheckAccess(const struct stat& st, const std::string& name, KeyFileKind kind) {
  const auto refuse = [&](absl::string_view why) {
    return absl::PermissionDeniedError(absl::StrCat(name, ": ", why));
  };
  const absl::Status trusted = CheckTrustedFile(st);
  if (!trusted.ok()) return refuse(trusted.message());
  if (kind == KeyFileKind::kSecret && (st.st_mode & S_IRWXO) != 0) {
    return refuse("readable by others; chmod o-rwx it");
  }
  if (st.st_size <= 0 || st.st_size > kMostBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": ", st.st_size, " bytes, allowed 1..", kMostBytes));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadOpen(int fd, const std::string& name, KeyFileKind kind) {
  struct stat st;
  if (fstat(fd, &st) != 0) return FromErrno(name, "stat");
  SINTER_RETURN_IF_ERROR(CheckAccess(st, name, kind));
  std::string bytes(static_cast<size_t>(st.st_size), '\0');
  if (!ReadAll(fd, &bytes)) return FromErrno(name, "read");
  return bytes;
}

}  // namespace

absl::Status CheckTrustedFile(const struct stat& info) {
  if (!S_ISREG(info.st_mode)) return absl::PermissionDeniedError("not a regular file");
  if (info.st_uid != geteuid() && info.st_uid != 0) {
    return absl::PermissionDeniedError("owned by another user");
  }
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return absl::PermissionDeniedError("writable by group or others");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadKeyFile(const std::string& path, KeyFileKind kind,
                                        absl::string_view what) {
  const std::string name = absl::StrCat(what, " ", path);
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return FromErrno(name, "open");
  absl::StatusOr<std::string> bytes = ReadOpen(fd, name, kind);
  close(fd);
  return bytes;
}

}  // namespace sinter
