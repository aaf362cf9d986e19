// Two copies of the library in one process, as when two plug-ins each carry their own: they share
// no variable, and must still lose nothing to one another.
#include <dlfcn.h>

#include "tests/unit/cache/cache_tests.h"

namespace sinter {
namespace {

struct Copy {
  explicit Copy(const char* path) : library(dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
    if (library == nullptr) return;
    Find(&open, "copy_open");
    Find(&close, "copy_close");
    Find(&put, "copy_put");
    Find(&has, "copy_has");
    Find(&may_build, "copy_may_build");
  }
  template <typename T>
  void Find(T* function, const char* name) {
    *function = reinterpret_cast<T>(dlsym(library, name));
  }
  void* library;
  void* (*open)(const char*) = nullptr;
  void (*close)(void*) = nullptr;
  void (*put)(void*, const char*, const char*) = nullptr;
  int (*has)(void*, const char*, const char*) = nullptr;
  int (*may_build)(void*, const char*) = nullptr;
};

TEST(TwoCopiesTest, LoseNothing) {
  TempDir temp;
  Copy a(SINTER_COPY_A), b(SINTER_COPY_B);
  ASSERT_NE(a.library, nullptr) << dlerror();
  ASSERT_NE(b.library, nullptr) << dlerror();
  ASSERT_NE(reinterpret_cast<void*>(a.open), reinterpret_cast<void*>(b.open));
  void* one = a.open(temp.path().c_str());
  void* two =
      b.open((temp / "../" + std::filesystem::path(temp.path()).filename().string()).c_str());
  for (int i = 0; i < 20; ++i) {
    a.put(one, absl::StrCat("a", i).c_str(), "from a");
    b.put(two, absl::StrCat("b", i).c_str(), "from b");
  }
  EXPECT_EQ(b.has(two, "a3", "from a"), 1);
  {
    const auto third = std::make_unique<TieredStore>(TierOptions{.local_root = temp.path()});
    const auto lock = third->LockForBuild(RecordKind::kKernel, "x", 0);
    EXPECT_EQ(a.may_build(one, "x"), 0);
    EXPECT_EQ(b.may_build(two, "x"), 0);
  }
  EXPECT_EQ(a.may_build(one, "x"), 1);
  a.close(one);
  b.close(two);
  one = b.open(temp.path().c_str());
  two = a.open(temp.path().c_str());
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(b.has(one, absl::StrCat("a", i).c_str(), "from a"), 1) << i;
    EXPECT_EQ(a.has(two, absl::StrCat("b", i).c_str(), "from b"), 1) << i;
  }
  b.close(one);
  a.close(two);
}

}  // namespace
}  // namespace sinter
