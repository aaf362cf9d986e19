
#include "src/reference/rows.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

TEST(ParallelTest, WhatAThreadThrowsReachesTheCaller) {
  for (int at = 0; at < 16; ++at) {
    std::atomic<int> begun{0};
    EXPECT_THROW(reference::ForEachIndex(16,
                                         [&](int i) {
                                           ++begun;
                                           if (i == at) throw std::bad_alloc();
                                         }),
                 std::bad_alloc);
    EXPECT_LE(begun, 16);
  }
}

TEST(ParallelTest, WhenAllThrowOneIsTold) {
  EXPECT_THROW(reference::ForEachIndex(64, [](int) { throw std::bad_alloc(); }), std::bad_alloc);
  std::atomic<int> done{0};
  reference::ForEachIndex(64, [&](int) { ++done; });
  EXPECT_EQ(done, 64);
}

TEST(ParallelTest, NoMoreThreadsThanAsked) {
  std::atomic<int> inside{0}, most{0};
  reference::ForEachIndex(
      16,
      [&](int) {
        most = std::max(most.load(), ++inside);
        std::this_thread::yield();
        --inside;
      },
      1);
  EXPECT_EQ(most, 1);
}

TEST(ParallelTest, TheReferencesThreadsTellTooWhatTheyThrow) {
  EXPECT_THROW(reference::ParallelFor(4, 1000, 1, [](int64_t, int64_t) { throw std::bad_alloc(); }),
               std::bad_alloc);
}

}  // namespace
}  // namespace sinter
