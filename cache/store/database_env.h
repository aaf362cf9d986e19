// The file system as the database sees it: paths below the store's folder, through FileOps.
//
// Differs from LevelDB's own Env where that one is dangerous here. Files are read, never mapped:
// one that shrinks is an error, not a signal. A file's owner and mode are judged when it is opened.
// LevelDB gets a table's block only after TableMap has checked it (table_map.h). An
// open-file-description lock holds LOCK: it excludes a second opener of the same process and of
// another copy of the library too, however they spell the path, and no close() elsewhere drops it.
#ifndef SINTER_CACHE_STORE_DATABASE_ENV_H_
#define SINTER_CACHE_STORE_DATABASE_ENV_H_

#include <leveldb/env.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cache/store/directory.h"

namespace sinter {

// Thread-safe. Threads and clock are the default Env's. `sync` false: nothing waits for the disk.
class DatabaseEnv : public leveldb::Env {
 public:
  DatabaseEnv(std::shared_ptr<const StoreDirectory> dir, bool sync)
      : dir_(std::move(dir)), sync_(sync) {}

  leveldb::Status NewSequentialFile(const std::string& name,
                                    leveldb::SequentialFile** file) override;
  leveldb::Status NewRandomAccessFile(const std::string& name,
                                      leveldb::RandomAccessFile** file) override;
  leveldb::Status NewWritableFile(const std::string& name, leveldb::WritableFile** file) override;
  leveldb::Status NewAppendableFile(const std::string& name, leveldb::WritableFile** file) override;
  bool FileExists(const std::string& name) override;
  leveldb::Status GetChildren(const std::string& folder, std::vector<std::string>* names) override;
  leveldb::Status RemoveFile(const std::string& name) override;
  leveldb::Status CreateDir(const std::string& folder) override;
  leveldb::Status RemoveDir(const std::string& folder) override;
  leveldb::Status GetFileSize(const std::string& name, uint64_t* size) override;
  leveldb::Status RenameFile(const std::string& from, const std::string& to) override;
  leveldb::Status LockFile(const std::string& name, leveldb::FileLock** lock) override;
  leveldb::Status UnlockFile(leveldb::FileLock* lock) override;
  // Whether LockFile was refused because somebody, by whatever library, holds the lock.
  bool lock_held_elsewhere() const { return lock_held_elsewhere_; }

  void Schedule(void (*function)(void*), void* arg) override {
    leveldb::Env::Default()->Schedule(function, arg);
  }
  void StartThread(void (*function)(void*), void* arg) override {
    leveldb::Env::Default()->StartThread(function, arg);
  }
  leveldb::Status GetTestDirectory(std::string* path) override;
  leveldb::Status NewLogger(const std::string& name, leveldb::Logger** logger) override;
  uint64_t NowMicros() override { return leveldb::Env::Default()->NowMicros(); }
  void SleepForMicroseconds(int micros) override {
    leveldb::Env::Default()->SleepForMicroseconds(micros);
  }

 private:
  leveldb::Status OpenForReading(const std::string& name, Fd* fd, uint64_t* size);
  leveldb::Status OpenForWriting(const std::string& name, int flags, leveldb::WritableFile** file);

  std::shared_ptr<const StoreDirectory> dir_;
  bool sync_;
  std::atomic<bool> lock_held_elsewhere_{false};
};

}  // namespace sinter

#endif  // SINTER_CACHE_STORE_DATABASE_ENV_H_
