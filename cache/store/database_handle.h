// The open database, and what the store and LevelDB say to each other.
#ifndef SINTER_CACHE_STORE_DATABASE_HANDLE_H_
#define SINTER_CACHE_STORE_DATABASE_HANDLE_H_

#include <leveldb/cache.h>
#include <leveldb/db.h>
#include <leveldb/filter_policy.h>

#include <cstdarg>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "cache/store/database_env.h"
#include "cache/store/database_store.h"

namespace sinter {

constexpr char kUsePrefix[] = "m/";  // then the user key: bytes and last use

inline leveldb::Slice ToSlice(absl::string_view v) { return leveldb::Slice(v.data(), v.size()); }
inline absl::string_view ToView(const leveldb::Slice& v) {
  return absl::string_view(v.data(), v.size());
}

leveldb::ReadOptions Reading(bool fill_cache);

// What LevelDB says, as the store says it: NOT_FOUND, DATA_LOSS or UNAVAILABLE.
absl::Status ToStatus(const leveldb::Status& status);

// The value under kUsePrefix.
std::string EncodeUse(uint64_t bytes, int64_t last);

class NoLog : public leveldb::Logger {
 public:
  void Logv(const char*, std::va_list) override {}
};

struct DatabaseStore::Handle {
  Handle(std::shared_ptr<const StoreDirectory> dir, bool sync);

  leveldb::Options Options();

  DatabaseEnv env;
  NoLog log;
  std::unique_ptr<const leveldb::FilterPolicy> filter;
  std::unique_ptr<leveldb::Cache> cache;
  std::unique_ptr<leveldb::DB> db;  // last: it borrows the others
};

}  // namespace sinter

#endif  // SINTER_CACHE_STORE_DATABASE_HANDLE_H_
