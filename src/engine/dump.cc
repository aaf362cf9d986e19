// What SINTER_DUMP writes, and the folder that it is written to.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/base/transfer.h"
#include "src/chain/chain.h"
#include "src/engine/prepared_plan.h"
#include "src/explain/explain.h"

namespace sinter {
namespace {

// Logs one warning for a whole dump that could not be written.
void LogTrouble(const EngineCore& core, const absl::Status& status) {
  if (status.ok()) return;
  core.log.Log(LogLevel::kWarn, absl::StrCat("dump: cannot write: ", status.message()));
}

absl::Status WritePlan(const EngineCore& core, const LoadedPlan& plan) {
  absl::StatusOr<DumpFolder> top = DumpFolder::Open(core.config.dump_dir);
  if (!top.ok()) return top.status();
  absl::StatusOr<DumpFolder> folder = top->Sub(plan.plan.PlanDigest().Hex().substr(0, 16));
  if (!folder.ok()) return folder.status();
  absl::Status status;
  const auto write = [&](const std::string& name, absl::string_view text) {
    status.Update(folder->Write(name, text));
  };
  write("chain.json", ChainToJson(plan.chain()));
  if (plan.form->changed()) write("normal_chain.json", ChainToJson(*plan.form->chain));
  write("plan.txt",
        ExplanationText(ExplanationOf(plan, core, Detail::kWhole, NamesIn(plan.chain(), plan))));
  write("plan.json", PlanJson(plan.plan));
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    const absl::StatusOr<GeneratedKernel> generated =
        core.hooks.generate(plan.plan.kernels[i].spec, core.ports.model);
    if (generated.ok()) write(absl::StrCat("kernel", i, ".cu"), generated->request.source);
    write(absl::StrCat("kernel", i, ".log"), plan.kernels[i]->log);
  }
  return status;
}

// A file that already has a refused kernel's name is the same kernel, from an earlier dump.
absl::Status WriteRefused(const EngineCore& core, absl::string_view name, absl::string_view source,
                          absl::string_view log) {
  absl::StatusOr<DumpFolder> top = DumpFolder::Open(core.config.dump_dir);
  if (!top.ok()) return top.status();
  absl::Status status = top->Write(absl::StrCat("refused-", name, ".cu"), source);
  if (absl::IsAlreadyExists(status)) return absl::OkStatus();
  status.Update(top->Write(absl::StrCat("refused-", name, ".log"), log));
  return status;
}

constexpr char kDumpMark[] = ".sinter-dump";
constexpr int kOpenFolder = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
constexpr int kOpenFile = O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;  // a fifo does not block

absl::Status DumpError(int error, absl::string_view call, absl::string_view path) {
  return Unavailable(call, " ", path, ": ", strerror(error));
}

absl::Status JudgeFolder(int fd, const std::string& path, bool last) {
  struct stat st;
  if (fstat(fd, &st) != 0) return DumpError(errno, "stat", path);
  if (st.st_uid != geteuid() && st.st_uid != 0) {
    return PermissionDenied(path, ": owned by another user");
  }
  const bool open_to_all = (st.st_mode & S_IWOTH) != 0;
  if (open_to_all && (last || (st.st_mode & S_ISVTX) == 0)) {
    return PermissionDenied(path, ": writable by everybody");
  }
  return absl::OkStatus();
}

// OK only for a regular file of ours that has one name: no other is written into.
absl::Status JudgeFile(int fd, const std::string& path) {
  struct stat st;
  if (fstat(fd, &st) != 0) return DumpError(errno, "stat", path);
  if (S_ISREG(st.st_mode) && st.st_uid == geteuid() && st.st_nlink == 1) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat(path, ": is not a file of an earlier dump"));
}

bool IsPlainName(absl::string_view name) {
  for (const char c : name) {
    const bool plain = absl::ascii_isalnum(static_cast<unsigned char>(c));
    if (!plain && c != '-' && c != '_' && c != '.') return false;
  }
  return !name.empty() && name != "." && name != ".." && name != kDumpMark;
}

absl::Status WriteAndClose(int fd, const std::string& path, absl::string_view text) {
  const bool written = ftruncate(fd, 0) == 0 && WriteAll(fd, text);
  const absl::Status status = written ? absl::OkStatus() : DumpError(errno, "write", path);
  close(fd);
  return status;
}

}  // namespace

void DumpPlan(const EngineCore& core, const LoadedPlan& plan) {
  if (!core.config.dump_dir.empty()) LogTrouble(core, WritePlan(core, plan));
}

void DumpRefusedKernel(const EngineCore& core, absl::string_view name, absl::string_view source,
                       absl::string_view log) {
  if (!core.config.dump_dir.empty()) LogTrouble(core, WriteRefused(core, name, source, log));
}

DumpFolder::~DumpFolder() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<DumpFolder> DumpFolder::Step(int in, const std::string& name, std::string path,
                                            bool last, bool* made) {
  *made = mkdirat(in, name.c_str(), 0700) == 0;
  const int error = errno;
  const int fd = openat(in, name.c_str(), kOpenFolder);
  if (fd < 0) {
    struct stat st;
    const bool there = fstatat(in, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (there && !S_ISDIR(st.st_mode)) return PermissionDenied(path, ": is a link, or no folder");
    return there ? DumpError(errno, "open", path) : DumpError(error, "mkdir", path);
  }
  DumpFolder folder(fd, std::move(path));
  SINTER_RETURN_IF_ERROR(JudgeFolder(fd, folder.path_, last));
  return folder;
}

absl::StatusOr<DumpFolder> DumpFolder::Open(const std::string& path) {
  const bool absolute = !path.empty() && path[0] == '/';
  const int start = open(absolute ? "/" : ".", kOpenFolder);
  if (start < 0) return DumpError(errno, "open", absolute ? "/" : ".");
  DumpFolder here(start, absolute ? "/" : ".");
  for (size_t at = 0; at < path.size();) {
    const size_t slash = std::min(path.find('/', at), path.size());
    const std::string name = path.substr(at, slash - at);
    at = slash + 1;
    if (name.empty() || name == ".") continue;
    const bool last = path.find_first_not_of("/.", slash) == std::string::npos;
    bool made = false;
    SINTER_ASSIGN_OR_RETURN(DumpFolder next,
                            Step(here.fd_, name, path.substr(0, slash), last, &made));
    std::swap(here.fd_, next.fd_);
    std::swap(here.path_, next.path_);
  }
  return here;
}

absl::StatusOr<DumpFolder> DumpFolder::Sub(const std::string& name) const {
  if (!IsPlainName(name)) return Invalid("\"", name, "\" is not a name for a folder");
  bool made = false;
  SINTER_ASSIGN_OR_RETURN(DumpFolder sub,
                          Step(fd_, name, absl::StrCat(path_, "/", name), /*last=*/true, &made));
  const int mark = openat(sub.fd_, kDumpMark, kOpenFile | (made ? O_CREAT | O_EXCL : 0), 0600);
  if (mark >= 0) sub.ours_ = JudgeFile(mark, kDumpMark).ok();
  if (mark >= 0) close(mark);
  return sub;
}

absl::Status DumpFolder::Write(absl::string_view name, absl::string_view text) const {
  if (!IsPlainName(name)) return Invalid("\"", name, "\" is not a name for a file");
  const std::string file(name), path = absl::StrCat(path_, "/", name);
  int fd = openat(fd_, file.c_str(), kOpenFile | O_CREAT | O_EXCL, 0600);
  if (fd >= 0) return WriteAndClose(fd, path, text);
  if (errno != EEXIST) return DumpError(errno, "create", path);
  if (!ours_) {
    return absl::AlreadyExistsError(absl::StrCat(path, ": is there, in a folder of no dump"));
  }
  fd = openat(fd_, file.c_str(), kOpenFile);
  if (fd < 0 && (errno == ELOOP || errno == ENXIO)) {
    return absl::AlreadyExistsError(absl::StrCat(path, ": is not a file of an earlier dump"));
  }
  if (fd < 0) return DumpError(errno, "open", path);
  const absl::Status own = JudgeFile(fd, path);
  if (own.ok()) return WriteAndClose(fd, path, text);
  close(fd);
  return own;
}

}  // namespace sinter
