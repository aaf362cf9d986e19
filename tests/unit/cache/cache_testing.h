// What the cache tests share: a folder that cleans up after itself, keys, and a small cubin.
#pragma once

#include "cache/record/record.h"
#include "cache/store/local_store.h"
#include "cache/store/table.h"
#include "tests/support/files.h"
#include "tests/support/small_cubin.h"
#include "tests/unit/cache/faulty_files.h"

namespace sinter {

// Inspects the store of a folder, which is made if it is missing.
inline absl::StatusOr<LocalReport> InspectLocalStore(const std::string& root) {
  LocalStore store(LocalStoreOptions{.root = root});
  return InspectStore(&store);
}

namespace cache_testing {

using sinter::TempDir;

constexpr RecordKind kKernel = RecordKind::kKernel, kPlan = RecordKind::kPlan;

inline std::unique_ptr<LocalStore> OpenStore(const std::string& root,
                                             std::shared_ptr<FileOps> ops = nullptr,
                                             bool sync = false, const RecordFormat& format = {}) {
  return std::make_unique<LocalStore>(LocalStoreOptions{.root = root,
                                                        .producer = "sinter 0.1.0",
                                                        .sync = sync,
                                                        .ops = std::move(ops),
                                                        .format = format});
}

// A table of one record, as the local store's files are.
inline std::string BuildTable(absl::string_view user_key, absl::string_view value) {
  std::string table;
  const absl::Status written = WriteTable(user_key, value, [&](absl::string_view piece) {
    table.append(piece.data(), piece.size());
    return absl::OkStatus();
  });
  return written.ok() ? table : std::string();
}

inline std::string ReadFile(const std::string& path) { return FileText(path); }

// Overwrites in place, as bit rot does: same inode.
inline void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  chmod(path.c_str(), 0600);
}

inline std::string RandomBytes(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; i += 8) {
    const uint64_t word = random();
    std::memcpy(&bytes[i], &word, std::min<size_t>(8, size - i));
  }
  return bytes;
}

inline KernelKey SampleKernelKey(int i = 0) {
  return KernelKey{.format_version = 1,
                   .code = absl::StrCat("dag-", i),
                   .schedule = "schedule",
                   .device_headers = Sha256("device headers"),
                   .arch = "sm_90a",
                   .options = {"-O3", "--std=c++17"},
                   .toolchain_id = "nvrtc 13.0 build 00ff"};
}

inline PlanKey SamplePlanKey(int i = 0) {
  return PlanKey{.format_version = 1,
                 .chain = absl::StrCat("chain-", i),
                 .bucket = 64,
                 .device_model = Sha256("h200"),
                 .library_version = "0.1.0",
                 .search_version = 3,
                 .flags = 1,
                 .tuning_set = Sha256("tuning")};
}

// <root>/v1/<record path> of a key.
inline std::string PathIn(const std::string& root, RecordKind kind, const std::string& key) {
  return absl::StrCat(root, "/v1/", RecordPath(kind, Sha256(key)));
}
inline std::string TombstoneIn(const std::string& root, RecordKind kind, const std::string& key) {
  return absl::StrCat(root, "/v1/", TombstonePath(kind, Sha256(key)));
}

inline int CountFiles(const std::string& folder) {
  std::error_code ignored;
  int count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, ignored)) {
    if (entry.is_regular_file()) ++count;
  }
  return count;
}

inline KernelRecord SampleKernelRecord() {
  return KernelRecord{.cubin = SmallCubin(RandomBytes(64, 64)),
                      .entry = "sinter_chain_0",
                      .log = "used 168 registers",
                      .registers = 168};
}

}  // namespace cache_testing
}  // namespace sinter
