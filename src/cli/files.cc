#include "src/cli/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace sinter::cli {
namespace {

constexpr size_t kMostFileBytes = size_t{64} << 20;

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ > STDERR_FILENO) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

std::string KindOf(const struct stat& info) {
  if (S_ISREG(info.st_mode)) return "";
  if (S_ISDIR(info.st_mode)) return "a folder";
  if (S_ISFIFO(info.st_mode)) return "a pipe";
  return S_ISSOCK(info.st_mode) ? "a socket" : "a device";
}

Outcome NotAFile(const std::string& path, const std::string& kind, const char* stream) {
  return Usage(path + " is " + kind + ", not a file" +
               (kind == "a folder" ? "" : " (\"-\" is " + std::string(stream) + ")"));
}

Outcome CannotRead(const std::string& path) {
  return Usage("cannot read " + path + ": " + std::strerror(errno));
}

Outcome CannotWrite(const std::string& path, int error) {
  return Usage("cannot write " + path + ": " + std::strerror(error));
}

Outcome ReadAll(int fd, const std::string& path, std::string* out) {
  out->clear();
  char part[1 << 16];
  for (;;) {
    const ssize_t n = read(fd, part, sizeof(part));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return CannotRead(path);
    if (n == 0) break;
    out->append(part, static_cast<size_t>(n));
    if (out->size() > kMostFileBytes) return Usage(path + " has more than 64 MiB");
  }
  if (out->find('\0') != std::string::npos) return Usage(path + " is not a text file");
  return {};
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

bool IsFile(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

std::string OtherThanFile(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 ? KindOf(info) : "";
}

Outcome ReadFile(const std::string& path, std::string* out) {
  if (path == kStandardStream) return ReadAll(STDIN_FILENO, "standard input", out);
  // Checked before opening, since opening may act on a device, and after, in case it changed.
  const std::string other = OtherThanFile(path);
  if (!other.empty()) return NotAFile(path, other, "standard input");
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat info;
  if (file.fd() < 0 || fstat(file.fd(), &info) != 0) return CannotRead(path);
  if (!S_ISREG(info.st_mode)) return NotAFile(path, KindOf(info), "standard input");
  return ReadAll(file.fd(), path, out);
}

Outcome CheckReadable(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0 || access(path.c_str(), R_OK) != 0) return CannotRead(path);
  if (S_ISREG(info.st_mode)) return {};
  return Usage(path + " is " + KindOf(info) + ", not a file");
}

Outcome CheckWritable(const std::string& path) {
  if (path == kStandardStream) return {};
  struct stat info;
  if (stat(path.c_str(), &info) == 0) {
    if (!S_ISREG(info.st_mode)) return NotAFile(path, KindOf(info), "standard output");
    return access(path.c_str(), W_OK) == 0 ? Outcome{} : CannotWrite(path, errno);
  }
  if (errno != ENOENT) return CannotWrite(path, errno);
  return access(FolderOf(path).c_str(), W_OK | X_OK) == 0 ? Outcome{} : CannotWrite(path, errno);
}

Outcome WriteFile(const std::string& path, const std::string& text) {
  if (path == kStandardStream) {
    std::fwrite(text.data(), 1, text.size(), stdout);  // the end of the command reports a failure
    return {};
  }
  SINTER_CLI_TRY(CheckWritable(path));
  std::FILE* file = std::fopen(path.c_str(), "wbe");
  if (file == nullptr) return CannotWrite(path, errno);
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (std::fclose(file) == 0 && written) return {};
  return Failure("cannot write " + path + ": " + std::strerror(errno));
}

}  // namespace sinter::cli
