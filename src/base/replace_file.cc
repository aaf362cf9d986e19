#include "src/base/replace_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "src/base/transfer.h"

namespace sinter {
namespace {

absl::Status FileError(const char* call, const std::string& path) {
  return absl::UnavailableError(absl::StrCat(call, " ", path, ": ", strerror(errno)));
}

}  // namespace

absl::Status ReplaceFile(const std::string& path, absl::string_view text, mode_t mode) {
  std::string beside = absl::StrCat(path, ".XXXXXX");
  const int fd = mkostemp(&beside[0], O_CLOEXEC);
  if (fd < 0) return FileError("create", path);
  const bool written = WriteAll(fd, text) && fchmod(fd, mode) == 0;
  const absl::Status status = written ? absl::OkStatus() : FileError("write", path);
  close(fd);
  if (written && rename(beside.c_str(), path.c_str()) == 0) return absl::OkStatus();
  const absl::Status failed = written ? FileError("rename", path) : status;
  unlink(beside.c_str());
  return failed;
}

std::string PathOfProcess(absl::string_view path) {
  return absl::StrReplaceAll(path, {{"%p", absl::StrCat(getpid())}});
}

}  // namespace sinter
