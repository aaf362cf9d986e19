#include "src/standin/stand_in.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

TEST(StandInCodeTest, WhatWasStoredIsGivenOut) {
  EXPECT_EQ(CheckStandIn("stand_in_x", StoredStandIn("code")).value(), "code");
}

TEST(StandInCodeTest, EveryFlippedByteIsFound) {
  const std::string stored = StoredStandIn("some machine code");
  for (size_t i = 0; i < stored.size(); ++i) {
    std::string damaged = stored;
    damaged[i] ^= 0x40;
    const absl::Status status = CheckStandIn("stand_in_x", damaged).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << i;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("stand_in_x"), HasSubstr("SHA-256"), HasSubstr("install")));
  }
  for (const size_t length : {size_t{0}, size_t{31}, size_t{32}, stored.size() - 1}) {
    EXPECT_FALSE(CheckStandIn("stand_in_x", stored.substr(0, length)).ok()) << length;
  }
}

TEST(StandInCodeTest, TheEmbeddedOnesAreWhole) {
  for (int i = 0; i < EmbeddedStandIns(); ++i) {
    EXPECT_TRUE(EmbeddedStandIn(StandInName(i)).ok()) << StandInName(i);
  }
  EXPECT_TRUE(absl::IsFailedPrecondition(EmbeddedStandIn("stand_in_of_nothing").status()));
}

}  // namespace
}  // namespace sinter
