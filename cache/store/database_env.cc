#include "cache/store/database_env.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "absl/strings/match.h"
#include "cache/store/database_check.h"
#include "cache/store/table_map.h"
#include "src/base/status.h"

namespace sinter {
namespace {

constexpr mode_t kFileMode = 0600;
constexpr size_t kBufferBytes = 64 << 10;

leveldb::Status ErrorOf(int error, const std::string& name) {
  if (error == ENOENT) return leveldb::Status::NotFound(name, strerror(error));
  return leveldb::Status::IOError(name, strerror(error));
}

leveldb::Status Outcome(int rc, const std::string& name) {
  return rc == 0 ? leveldb::Status::OK() : ErrorOf(errno, name);
}

// Up to `n` bytes at `offset`; fewer only at the end of the file.
leveldb::Status ReadAt(FileOps* ops, int fd, uint64_t offset, size_t n, leveldb::Slice* result,
                       char* scratch, const std::string& name) {
  const ssize_t got = PReadAll(ops, fd, offset, scratch, n);
  *result = got < 0 ? leveldb::Slice() : leveldb::Slice(scratch, static_cast<size_t>(got));
  if (got < 0) return ErrorOf(errno, name);
  return leveldb::Status::OK();
}

// LevelDB is built without exceptions: none passes through it.
template <typename Check>
leveldb::Status Guarded(const std::string& name, const Check& check) {
  try {
    const absl::Status status = check();
    if (status.ok()) return leveldb::Status::OK();
    const std::string why(status.message());
    return absl::IsDataLoss(status) ? leveldb::Status::Corruption(name, why)
                                    : leveldb::Status::IOError(name, why);
  } catch (const std::bad_alloc&) {
    return leveldb::Status::IOError("out of memory");
  }
}

class Sequential : public leveldb::SequentialFile {
 public:
  Sequential(FileOps* ops, Fd fd, std::string name)
      : ops_(ops), fd_(std::move(fd)), name_(std::move(name)) {}
  leveldb::Status Read(size_t n, leveldb::Slice* result, char* scratch) override {
    const leveldb::Status status = ReadAt(ops_, fd_.get(), offset_, n, result, scratch, name_);
    offset_ += result->size();
    return status;
  }
  leveldb::Status Skip(uint64_t n) override {
    offset_ += n;
    return leveldb::Status::OK();
  }

 private:
  FileOps* ops_;
  Fd fd_;
  std::string name_;
  uint64_t offset_ = 0;
};

class RandomAccess : public leveldb::RandomAccessFile {
 public:
  RandomAccess(FileOps* ops, Fd fd, std::string name)
      : ops_(ops), fd_(std::move(fd)), name_(std::move(name)) {}
  leveldb::Status Read(uint64_t offset, size_t n, leveldb::Slice* result,
                       char* scratch) const override {
    return ReadAt(ops_, fd_.get(), offset, n, result, scratch, name_);
  }

 private:
  FileOps* ops_;
  Fd fd_;
  std::string name_;
};

// A table: LevelDB is given its footer and its blocks, each whole and walked before, and nothing
// else, whatever a handle or the manifest says.
class TableFile : public leveldb::RandomAccessFile {
 public:
  TableFile(FileOps* ops, Fd fd, std::string name, TableMap map)
      : ops_(ops), fd_(std::move(fd)), name_(std::move(name)), map_(std::move(map)) {}
  leveldb::Status Read(uint64_t offset, size_t n, leveldb::Slice* result,
                       char* scratch) const override {
    const leveldb::Status read = ReadAt(ops_, fd_.get(), offset, n, result, scratch, name_);
    if (!read.ok()) return read;
    const leveldb::Status sound = Guarded(name_, [&] {
      return map_.CheckPart(offset, absl::string_view(result->data(), result->size()));
    });
    if (!sound.ok()) *result = leveldb::Slice();
    return sound;
  }

 private:
  FileOps* ops_;
  Fd fd_;
  std::string name_;
  TableMap map_;
};

class Writable : public leveldb::WritableFile {
 public:
  Writable(std::shared_ptr<const StoreDirectory> dir, Fd fd, std::string name, bool sync)
      : dir_(std::move(dir)), fd_(std::move(fd)), name_(std::move(name)), sync_(sync) {}
  ~Writable() override { (void)Close(); }

  leveldb::Status Append(const leveldb::Slice& data) override {
    if (buffer_.size() + data.size() <= kBufferBytes) {
      buffer_.append(data.data(), data.size());
      return leveldb::Status::OK();
    }
    const leveldb::Status flushed = Flush();
    if (!flushed.ok()) return flushed;
    return Write(absl::string_view(data.data(), data.size()));
  }
  leveldb::Status Flush() override {
    const leveldb::Status status = Write(buffer_);
    buffer_.clear();
    return status;
  }
  leveldb::Status Sync() override {
    const leveldb::Status flushed = Flush();
    if (!flushed.ok() || !sync_) return flushed;
    if (absl::StrContains(name_, "/MANIFEST")) SyncFolder();
    return Outcome(dir_->ops()->Sync(fd_.get()), name_);
  }
  leveldb::Status Close() override {
    if (!fd_.valid()) return leveldb::Status::OK();
    const leveldb::Status flushed = Flush();
    fd_ = Fd();
    return flushed;
  }

 private:
  leveldb::Status Write(absl::string_view bytes) {
    if (bytes.empty()) return leveldb::Status::OK();
    const absl::Status status = WriteAll(dir_->ops(), fd_.get(), bytes, /*sync=*/false, name_);
    return status.ok() ? leveldb::Status::OK()
                       : leveldb::Status::IOError(name_, std::string(status.message()));
  }
  // The names of the files that a manifest lists must be on disk before it is.
  void SyncFolder() {
    const Fd folder(dir_->ops(), dir_->ops()->OpenAt(dir_->fd(), FolderOf(name_).c_str(),
                                                     O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0));
    if (folder.valid()) (void)dir_->ops()->Sync(folder.get());
  }

  std::shared_ptr<const StoreDirectory> dir_;
  Fd fd_;
  std::string name_;
  bool sync_;
  std::string buffer_;
};

class HeldLock : public leveldb::FileLock {
 public:
  explicit HeldLock(Fd held) : fd(std::move(held)) {}
  Fd fd;
};

bool IsTableName(const std::string& name) {
  return absl::EndsWith(name, ".ldb") || absl::EndsWith(name, ".sst");
}

}  // namespace

leveldb::Status DatabaseEnv::OpenForReading(const std::string& name, Fd* fd, uint64_t* size) {
  FileOps* ops = dir_->ops();
  *fd = Fd(ops, ops->OpenAt(dir_->fd(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0));
  if (!fd->valid()) return ErrorOf(errno, name);
  struct stat st;
  if (ops->Stat(fd->get(), &st) != 0) return ErrorOf(errno, name);
  if (!S_ISREG(st.st_mode)) return leveldb::Status::IOError(name, "not a regular file");
  const absl::Status owner = CheckOwner(st, name);
  if (!owner.ok()) return leveldb::Status::IOError(std::string(owner.message()));
  *size = static_cast<uint64_t>(st.st_size);
  return leveldb::Status::OK();
}

leveldb::Status DatabaseEnv::NewSequentialFile(const std::string& name,
                                               leveldb::SequentialFile** file) {
  *file = nullptr;
  Fd fd;
  uint64_t size = 0;
  const leveldb::Status opened = OpenForReading(name, &fd, &size);
  if (opened.ok()) *file = new Sequential(dir_->ops(), std::move(fd), name);
  return opened;
}

leveldb::Status DatabaseEnv::NewRandomAccessFile(const std::string& name,
                                                 leveldb::RandomAccessFile** file) {
  *file = nullptr;
  Fd fd;
  uint64_t size = 0;
  const leveldb::Status opened = OpenForReading(name, &fd, &size);
  if (!opened.ok()) return opened;
  if (!IsTableName(name)) {
    *file = new RandomAccess(dir_->ops(), std::move(fd), name);
    return leveldb::Status::OK();
  }
  return Guarded(name, [&]() -> absl::Status {
    SINTER_ASSIGN_OR_RETURN(TableMap map, ReadTableMap(dir_->ops(), fd.get(), size, name));
    *file = new TableFile(dir_->ops(), std::move(fd), name, std::move(map));
    return absl::OkStatus();
  });
}

leveldb::Status DatabaseEnv::OpenForWriting(const std::string& name, int flags,
                                            leveldb::WritableFile** file) {
  *file = nullptr;
  FileOps* ops = dir_->ops();
  Fd fd(ops,
        ops->OpenAt(dir_->fd(), name.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | flags, kFileMode));
  if (!fd.valid()) return ErrorOf(errno, name);
  *file = new Writable(dir_, std::move(fd), name, sync_);
  return leveldb::Status::OK();
}

leveldb::Status DatabaseEnv::NewWritableFile(const std::string& name,
                                             leveldb::WritableFile** file) {
  return OpenForWriting(name, O_TRUNC, file);
}

leveldb::Status DatabaseEnv::NewAppendableFile(const std::string& name,
                                               leveldb::WritableFile** file) {
  return OpenForWriting(name, O_APPEND, file);
}

bool DatabaseEnv::FileExists(const std::string& name) {
  struct stat st;
  return dir_->ops()->StatAt(dir_->fd(), name.c_str(), &st) == 0;
}

leveldb::Status DatabaseEnv::GetChildren(const std::string& folder,
                                         std::vector<std::string>* names) {
  names->clear();
  return Outcome(dir_->ops()->List(dir_->fd(), folder.c_str(), names), folder);
}

leveldb::Status DatabaseEnv::RemoveFile(const std::string& name) {
  return Outcome(dir_->ops()->UnlinkAt(dir_->fd(), name.c_str()), name);
}

leveldb::Status DatabaseEnv::CreateDir(const std::string& folder) {
  return Outcome(dir_->ops()->MkdirAt(dir_->fd(), folder.c_str(), 0700), folder);
}

leveldb::Status DatabaseEnv::RemoveDir(const std::string& folder) {
  return Outcome(dir_->ops()->RmdirAt(dir_->fd(), folder.c_str()), folder);
}

leveldb::Status DatabaseEnv::GetFileSize(const std::string& name, uint64_t* size) {
  struct stat st {};
  const int rc = dir_->ops()->StatAt(dir_->fd(), name.c_str(), &st);
  *size = rc == 0 ? static_cast<uint64_t>(st.st_size) : 0;
  return Outcome(rc, name);
}

leveldb::Status DatabaseEnv::RenameFile(const std::string& from, const std::string& to) {
  return Outcome(dir_->ops()->RenameAt(dir_->fd(), from.c_str(), to.c_str(), 0), from);
}

leveldb::Status DatabaseEnv::LockFile(const std::string& name, leveldb::FileLock** lock) {
  *lock = nullptr;
  FileOps* ops = dir_->ops();
  Fd fd(ops, ops->OpenAt(dir_->fd(), name.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW, kFileMode));
  if (!fd.valid()) return ErrorOf(errno, name);
  if (ops->LockByte(fd.get(), 0) != 0) {
    lock_held_elsewhere_ = errno == EAGAIN;
    return ErrorOf(errno, "lock " + name);
  }
  *lock = new HeldLock(std::move(fd));
  return leveldb::Status::OK();
}

leveldb::Status DatabaseEnv::UnlockFile(leveldb::FileLock* lock) {
  HeldLock* held = static_cast<HeldLock*>(lock);
  const int rc = dir_->ops()->UnlockByte(held->fd.get(), 0);
  delete held;
  return Outcome(rc, "unlock");
}

leveldb::Status DatabaseEnv::GetTestDirectory(std::string*) {
  return leveldb::Status::NotSupported("test directory");
}

leveldb::Status DatabaseEnv::NewLogger(const std::string&, leveldb::Logger**) {
  return leveldb::Status::NotSupported("log file");
}

}  // namespace sinter
