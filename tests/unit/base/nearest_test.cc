#include "src/base/format.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

TEST(Nearest, CountsEdits) {
  EXPECT_EQ(EditDistance("run", "run"), 0);
  EXPECT_EQ(EditDistance("rnu", "run"), 1);  // neighbours swapped
  EXPECT_EQ(EditDistance("", "run"), 3);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
}

TEST(Nearest, IsNearOrNothing) {
  EXPECT_EQ(Nearest("gem_chain", {"gated_ffn", "gemm_chain"}), "gemm_chain");
  EXPECT_EQ(Nearest("zebra", {"gated_ffn", "gemm_chain"}), "");
  EXPECT_EQ(Nearest(std::string(100000, 'x'), {"gemm_chain"}), "");
}

}  // namespace
}  // namespace sinter
