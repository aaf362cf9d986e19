// Damage to the files of the database: flips, cuts and zero tails of every file. Never a wrong
// value, never a death, and always a store that works again. SINTER_TEST_LONG=1: ten times as many.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <random>

#include "cache/store/database_store.h"
#include "tests/unit/cache/cache_testing.h"
#include "tests/unit/cache/store_kinds.h"

namespace sinter {
namespace {

using cache_testing::OpenKind;
using cache_testing::RandomBytes;
using cache_testing::ReadFile;
using cache_testing::TempDir;
using cache_testing::WriteFile;

using cache_testing::kKernel;
constexpr int kRecords = 12;

std::string KeyOf(int i) { return absl::StrCat("key ", i); }
std::string ValueOf(int i) { return RandomBytes(900 + 100 * i, 77 + i); }

void PutAll(RecordStore* store) {
  for (int i = 0; i < kRecords; ++i)
    (void)store->Put(kKernel, KeyOf(i), Sha256(KeyOf(i)), ValueOf(i));
}

// Opens the damaged database and uses it. 0, or what went wrong.
int Use(const std::string& root, int* hits) {
  const auto store = OpenKind(LocalStoreKind::kDatabase, root);
  if (!store->usable().ok()) return 1;
  *hits = 0;
  for (int i = 0; i < kRecords; ++i) {
    const Lookup lookup = store->Get(kKernel, KeyOf(i), Sha256(KeyOf(i)));
    if (lookup.hit && lookup.payload != ValueOf(i)) return 2;
    *hits += lookup.hit ? 1 : 0;
  }
  PutAll(store.get());
  for (int i = 0; i < kRecords; ++i) {
    const Lookup lookup = store->Get(kKernel, KeyOf(i), Sha256(KeyOf(i)));
    if (lookup.hit && lookup.payload != ValueOf(i)) return 2;
    if (!lookup.hit) return 3;
  }
  return 0;
}

TEST(DatabaseDamageTest, EveryKindOfFile) {
  TempDir temp(access("/dev/shm", W_OK) == 0 ? "/dev/shm" : nullptr);
  const std::string good = temp / "good", root = temp / "root", db = root + "/v1/db";
  for (int round = 0; round < 2; ++round) PutAll(OpenKind(LocalStoreKind::kDatabase, good).get());
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(good + "/v1/db")) {
    if (entry.file_size() > 0) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  const int tries = getenv("SINTER_TEST_LONG") != nullptr ? 1500 : 60;
  std::mt19937_64 random(5);
  for (const std::string& name : names) {
    const std::string bytes = ReadFile(good + "/v1/db/" + name);
    int outcomes[4] = {}, deaths = 0, whole = 0;
    for (int i = 0; i < tries; ++i) {
      std::filesystem::remove_all(root);
      std::filesystem::copy(good, root, std::filesystem::copy_options::recursive);
      std::string bad = bytes;
      const size_t at = random() % bad.size();
      if (i % 3 == 0) {
        bad.resize(at);
      } else if (i % 3 == 1) {
        std::fill(bad.begin() + static_cast<std::ptrdiff_t>(at), bad.end(), '\0');
      } else {
        bad[at] = static_cast<char>(bad[at] ^ (1 << (random() % 8)));
      }
      WriteFile(db + "/" + name, bad);
      const pid_t child = fork();
      if (child == 0) {
        int hits = 0;
        const int outcome = Use(root, &hits);
        _exit(outcome != 0 ? outcome : (hits == kRecords ? 100 : 0));
      }
      int status = 0;
      waitpid(child, &status, 0);
      if (!WIFEXITED(status)) {
        ++deaths;
      } else if (WEXITSTATUS(status) == 100) {
        ++whole;
        ++outcomes[0];
      } else {
        ++outcomes[std::min(WEXITSTATUS(status), 3)];
      }
    }
    std::cout << "database, " << name << " (" << bytes.size() << " bytes): damaged " << tries
              << " all hits " << whole << " unusable " << outcomes[1] << " not healed "
              << outcomes[3] << " wrong " << outcomes[2] << " deaths " << deaths << "\n";
    EXPECT_EQ(deaths, 0) << name;
    EXPECT_EQ(outcomes[1], 0) << name;
    EXPECT_EQ(outcomes[2], 0) << name;
    EXPECT_EQ(outcomes[3], 0) << name;
  }
}

}  // namespace
}  // namespace sinter
