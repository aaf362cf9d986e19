#include "src/base/enough_stack.h"

#include <pthread.h>

#include "tests/support/test.h"

namespace sinter {
namespace {

void RunOnStackOf(size_t bytes, std::function<void()> work) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, bytes), 0);
  pthread_t thread;
  const auto run = [](void* given) -> void* {
    (*static_cast<std::function<void()>*>(given))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, run, &work), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

// Takes `bytes` of stack.
void Touch(size_t bytes) {
  volatile char piece[4096];
  piece[0] = 1;
  if (bytes > sizeof(piece)) Touch(bytes - sizeof(piece));
  piece[sizeof(piece) - 1] = piece[0];
}

TEST(EnoughStack, LargeStacksAreUsedAndSmallOnesAreNot) {
  for (const size_t bytes :
       {size_t{128} << 10, size_t{1} << 20, size_t{2} << 20, size_t{8} << 20}) {
    RunOnStackOf(bytes, [&] {
      const std::thread::id caller = std::this_thread::get_id();
      EXPECT_GT(StackLeft(), bytes / 2);  // glibc may give a larger one, of a thread that ended
      bool here = false;
      EXPECT_TRUE(OnEnoughStack([&] {
                    here = std::this_thread::get_id() == caller;
                    Touch(kEnoughStack - (64 << 10));
                    return absl::OkStatus();
                  }).ok());
      EXPECT_EQ(here, StackLeft() >= kEnoughStack);
      EXPECT_TRUE(here || bytes < kEnoughStack);
    });
  }
}

TEST(EnoughStack, WhatIsReturnedOrThrownComesBack) {
  RunOnStackOf(128 << 10, [] {
    EXPECT_EQ(OnEnoughStack([] { return NotFound("it"); }).message(), "it");
    EXPECT_THROW((void)OnEnoughStack([]() -> absl::Status { throw std::length_error("it"); }),
                 std::length_error);
  });
}

}  // namespace
}  // namespace sinter
