#include "src/base/ports.h"

#include "tests/support/test.h"

namespace sinter {
namespace {

TEST(MissReason, EveryReasonHasItsOwnName) {
  std::set<std::string> names;
  for (int i = 0; i < static_cast<int>(MissReason::kCount); ++i) {
    const std::string name(NameOf(static_cast<MissReason>(i)));
    EXPECT_NE(name, "invalid") << i;
    EXPECT_TRUE(names.insert(name).second) << name;
  }
  EXPECT_EQ(NameOf(MissReason::kCount), "invalid");
}

}  // namespace
}  // namespace sinter
