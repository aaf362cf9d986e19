// Both local stores behind one name, for tests that run over each.
#ifndef SINTER_TESTS_UNIT_CACHE_STORE_KINDS_H_
#define SINTER_TESTS_UNIT_CACHE_STORE_KINDS_H_

#include <memory>
#include <string>
#include <utility>

#include "cache/store/convert.h"
#include "cache/store/database_store.h"
#include "cache/store/local_store.h"

namespace sinter {
namespace cache_testing {

template <typename Options>
Options StoreOptions(const std::string& root, std::shared_ptr<FileOps> ops, bool sync,
                     const RecordFormat& format) {
  Options options;
  options.root = root;
  options.producer = "sinter 0.1.0";
  options.sync = sync;
  options.ops = std::move(ops);
  options.format = format;
  return options;
}

inline std::unique_ptr<RecordStore> OpenKind(LocalStoreKind kind, const std::string& root,
                                             std::shared_ptr<FileOps> ops = nullptr,
                                             bool sync = false, const RecordFormat& format = {}) {
  if (kind == LocalStoreKind::kTables) {
    return std::make_unique<LocalStore>(
        StoreOptions<LocalStoreOptions>(root, std::move(ops), sync, format));
  }
  auto options = StoreOptions<DatabaseStoreOptions>(root, std::move(ops), sync, format);
  options.first_retry_ms = 0;
  return std::make_unique<DatabaseStore>(std::move(options));
}

inline std::string TestNameOf(LocalStoreKind kind) {
  return kind == LocalStoreKind::kTables ? "Tables" : "Database";
}

}  // namespace cache_testing
}  // namespace sinter

#endif  // SINTER_TESTS_UNIT_CACHE_STORE_KINDS_H_
