#include "src/product/code/kernel_source.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

// Operands are numbered: registers first, then both descriptors and the predicate's word.
TEST(WgmmaSource, NumbersEveryOperandForEveryN) {
  for (int n = 8; n <= 256; n += 8) {
    for (const ElementRow& element : kElementRows) {
      for (int which : {0, 1, 2}) {  // neither operand is transposed, A is, B is
        const bool a = which == 1, b = which == 2;
        if (element.bytes == 1 && which != 0) continue;  // always K-major, and not said
        const std::string majorness =
            element.bytes == 1 ? "" : absl::StrCat(", ", a ? 1 : 0, ", ", b ? 1 : 0);
        const std::string text = WgmmaSource(n, element, a, b);
        const int registers = n / 2;
        const char* type = element.wgmma_type;
        EXPECT_THAT(text,
                    HasSubstr(absl::StrCat("Wgmma<", n, ", ", element.device_type, ", ",
                                           a ? "true" : "false", ", ", b ? "true" : "false", ">")));
        const bool s32 = element.element == DType::kS8;
        EXPECT_THAT(text, HasSubstr(absl::StrCat(s32 ? "int" : "float", " (&d)[", registers, "]")));
        EXPECT_THAT(text,
                    HasSubstr(absl::StrCat("m64n", n, "k", element.wgmma_k, s32 ? ".s32." : ".f32.",
                                           type, ".", type, " {%0,")));
        EXPECT_THAT(text, HasSubstr(absl::StrCat("%", registers - 1, "}, %", registers, ", %",
                                                 registers + 1, s32 ? ", p" : ", p, 1, 1",
                                                 majorness, ";}")));
        EXPECT_THAT(text, HasSubstr(absl::StrCat("setp.ne.b32 p, %", registers + 2, ", 0;")));
        EXPECT_THAT(
            text, HasSubstr(absl::StrCat(s32 ? "\"+r\"(d[" : "\"+f\"(d[", registers - 1, "])\n")));
        EXPECT_EQ(text.find('$'), std::string::npos);
      }
    }
  }
}

}  // namespace
}  // namespace sinter
