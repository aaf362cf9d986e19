// Churn: threads of one process get and put 10,000 keys on a folder whose cap is a quarter of what
// they would take, and load a module for each kernel that they get. Host memory, files, loaded
// modules and descriptors stay where they are once they are warm. Twenty seconds;
// `cache_churn_test --seconds 3600` for as long as one likes.
#include "cache/tiers/tiers.h"
#include "src/engine/module_cache.h"
#include "tests/stress/process_use.h"
#include "tests/support/test.h"
#include "tests/unit/cache/cache_testing.h"

namespace sinter {
namespace {

using cache_testing::RandomBytes;
using cache_testing::TempDir;
using Clock = std::chrono::steady_clock;

constexpr int kKeys = 10000;
constexpr int kThreads = 4;
constexpr uint64_t kFolderCap = uint64_t{40} << 20;
constexpr uint64_t kMemoryCap = uint64_t{16} << 20;
constexpr uint64_t kModuleCap = uint64_t{8} << 20;
int seconds = 20;

size_t BytesOf(int i) { return 4000 + static_cast<size_t>(i * 7919 % 28000); }
std::string KeyOf(int i) { return absl::StrCat("churn key ", i); }

struct Sample {
  uint64_t resident = 0, allocated = 0, folder = 0, modules = 0;
  int descriptors = 0;
};

struct Counts {
  std::atomic<uint64_t> gets{0}, hits{0}, wrong{0};
  std::atomic<bool> stop{false};
};

// Half of all gets go to a tenth of the keys.
void Work(int thread, TieredStore* store, ModuleCache* modules, Counts* counts) {
  std::mt19937 random(static_cast<unsigned>(thread));
  while (!counts->stop) {
    const int i = static_cast<int>(random() % (random() % 2 == 0 ? kKeys : kKeys / 10));
    const std::string key = KeyOf(i);
    const Lookup lookup = store->Get(RecordKind::kKernel, key);
    ++counts->gets;
    if (!lookup.hit) {
      store->Put(RecordKind::kKernel, key, RandomBytes(BytesOf(i), static_cast<uint64_t>(i)));
      continue;
    }
    ++counts->hits;
    if (lookup.payload.size() != BytesOf(i)) ++counts->wrong;
    ModuleCache::Module module = std::make_shared<const std::string>(lookup.payload.str());
    modules->Add(key, module, lookup.payload.size());
    module.reset();
    modules->Released({key});
  }
}

std::vector<Sample> Watch(const std::string& root, const ModuleCache& modules) {
  LocalStore folder({.root = root});
  std::vector<Sample> samples;
  const auto end = Clock::now() + std::chrono::seconds(seconds);
  const auto step = std::chrono::milliseconds(std::max(250, seconds * 10));
  while (Clock::now() < end) {
    std::this_thread::sleep_for(std::min<Clock::duration>(step, end - Clock::now()));
    Sample sample;
    const auto entries = folder.List();
    for (const StoredEntry& entry : *entries) sample.folder += entry.bytes;
    sample.modules = modules.Stats().bytes;
    sample.resident = ResidentBytes();
    sample.allocated = AllocatedBytes();
    sample.descriptors = Descriptors();
    samples.push_back(sample);
  }
  return samples;
}

uint64_t Mean(const std::vector<Sample>& samples, uint64_t Sample::*what, double from, double to) {
  uint64_t sum = 0, count = 0;
  const auto size = static_cast<double>(samples.size());
  for (auto i = static_cast<size_t>(from * size); i < static_cast<size_t>(to * size);
       ++i, ++count) {
    sum += samples[i].*what;
  }
  return count == 0 ? 0 : sum / count;
}

TEST(ChurnTest, MemoryFilesModulesAndDescriptorsStayFlat) {
  TempDir temp("/dev/shm");  // a disk would be too slow to pass the cap in twenty seconds
  const auto store = std::make_unique<TieredStore>(TierOptions{.local_root = temp.path(),
                                                               .local_bytes = kFolderCap,
                                                               .memory_bytes = kMemoryCap,
                                                               .sync = false,
                                                               .queue_bytes = uint64_t{4} << 20});
  ModuleCache modules(kModuleCap);
  Counts counts;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) threads.emplace_back(Work, t, store.get(), &modules, &counts);
  const std::vector<Sample> samples = Watch(temp.path(), modules);
  counts.stop = true;
  for (std::thread& thread : threads) thread.join();
  Sample worst;
  for (const Sample& sample : samples) {
    worst.folder = std::max(worst.folder, sample.folder);
    worst.modules = std::max(worst.modules, sample.modules);
    worst.descriptors = std::max(worst.descriptors, sample.descriptors);
  }
  const auto before = [&](uint64_t Sample::*what) { return Mean(samples, what, 0.4, 0.6); };
  const auto after = [&](uint64_t Sample::*what) { return Mean(samples, what, 0.8, 1); };
  const StoreStats stats = store->Stats();
  std::cout << "churn of " << seconds << " s over " << kKeys << " keys: gets " << counts.gets
            << " hits " << counts.hits << " wrong " << counts.wrong << " evicted " << stats.evicted
            << "; allocated MB " << before(&Sample::allocated) / 1000000 << " -> "
            << after(&Sample::allocated) / 1000000 << ", resident MB "
            << before(&Sample::resident) / 1000000 << " -> " << after(&Sample::resident) / 1000000
            << ", folder MB at worst " << worst.folder / 1000000 << " of " << kFolderCap / 1000000
            << ", modules MB at worst " << worst.modules / 1000000 << ", unloaded "
            << modules.Stats().unloaded << ", descriptors at worst " << worst.descriptors << "\n";
  EXPECT_EQ(counts.wrong, 0u);
  EXPECT_GT(stats.evicted, 0u);
  EXPECT_LE(worst.folder, kFolderCap + kFolderCap / 16);
  EXPECT_LE(worst.modules, kModuleCap);
  EXPECT_LE(worst.descriptors, 64);
  EXPECT_LE(after(&Sample::allocated), before(&Sample::allocated) * 11 / 10);
  EXPECT_LE(after(&Sample::resident), before(&Sample::resident) * 3 / 2);
}

}  // namespace
}  // namespace sinter

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  sinter::seconds = sinter::SecondsOf(argc, argv, sinter::seconds);
  return RUN_ALL_TESTS();
}
