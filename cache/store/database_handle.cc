#include "cache/store/database_handle.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/codec.h"

namespace sinter {
namespace {

constexpr size_t kFileBytes = size_t{64} << 20;  // fewer and larger files: far less rewriting
constexpr size_t kBlockCacheBytes = size_t{1} << 20;

}  // namespace

leveldb::ReadOptions Reading(bool fill_cache) {
  leveldb::ReadOptions options;
  options.verify_checksums = true;
  options.fill_cache = fill_cache;
  return options;
}

absl::Status ToStatus(const leveldb::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const std::string text = absl::StrCat("database: ", status.ToString());
  if (status.IsNotFound()) return absl::NotFoundError(text);
  if (status.IsCorruption()) return absl::DataLossError(text);
  return absl::UnavailableError(text);
}

std::string EncodeUse(uint64_t bytes, int64_t last) {
  ByteWriter out;
  out.U64(bytes);
  out.I64(last);
  return out.Take();
}

DatabaseStore::Handle::Handle(std::shared_ptr<const StoreDirectory> dir, bool sync)
    : env(std::move(dir), sync),
      filter(leveldb::NewBloomFilterPolicy(10)),
      cache(leveldb::NewLRUCache(kBlockCacheBytes)) {}

leveldb::Options DatabaseStore::Handle::Options() {
  leveldb::Options options;
  options.create_if_missing = true;
  options.paranoid_checks = true;
  options.env = &env;
  options.info_log = &log;
  options.write_buffer_size = kFileBytes;
  options.max_file_size = kFileBytes;
  options.max_open_files = 200;
  options.block_cache = cache.get();
  options.compression = leveldb::kNoCompression;
  options.filter_policy = filter.get();
  return options;
}

}  // namespace sinter
