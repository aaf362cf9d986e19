// LevelDB makes statics when they are first used, each behind a lock that the child of a fork finds
// held for good if a thread of its parent was there just then.
#include <dlfcn.h>

#include "tests/unit/cache/cache_tests.h"

#if !defined(__SANITIZE_THREAD__)  // TSan replaces the same functions as this file

namespace sinter {
namespace {

std::atomic<bool> started{false};
std::atomic<int> at_start{0}, late{0};  // statics of LevelDB made before main and after

class Start : public testing::Environment {
 public:
  void SetUp() override { started = true; }
};
const testing::Environment* const kStart = testing::AddGlobalTestEnvironment(new Start);

TEST(StaticsTest, LevelDbsAreMadeAsTheLibraryIsLoaded) {
  const std::string file = cache_testing::BuildTable("k/name", "value");
  ASSERT_TRUE(ReadTable(file).ok());
  if (at_start + late == 0) GTEST_SKIP() << "LevelDB is no library of its own here";
  EXPECT_EQ(late, 0);
}

}  // namespace
}  // namespace sinter

// The C++ runtime's lock of a static that is about to be made.
extern "C" __attribute__((visibility("default"))) int __cxa_guard_acquire(int64_t* guard) {
  Dl_info from;
  if (dladdr(__builtin_return_address(0), &from) != 0 &&
      absl::string_view(from.dli_fname).find("leveldb") != absl::string_view::npos) {
    ++(sinter::started ? sinter::late : sinter::at_start);
  }
  using Acquire = int (*)(int64_t*);
  return reinterpret_cast<Acquire>(dlsym(RTLD_NEXT, "__cxa_guard_acquire"))(guard);
}

#else

TEST(StaticsTest, LevelDbsAreMadeAsTheLibraryIsLoaded) {
  GTEST_SKIP() << "ThreadSanitizer replaces the lock that is watched here";
}

#endif
