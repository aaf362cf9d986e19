#include "src/product/code/wgmma_source.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/substitute.h"

namespace sinter {
namespace {

constexpr char kTemplate[] = R"(template <>
struct Wgmma<$0, $1, $2, $A> {
  static SINTER_DEVICE void mma(float (&d)[$3], u64 a, u64 b, u32 accumulate) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %$6, 0;"
        "wgmma.mma_async.sync.aligned.m64n$0k$K.f32.$7.$7 {$8}, %$4, %$5, p, 1, 1$9;}"
        : $B
        : "l"(a), "l"(b), "r"(accumulate));
  }
};
)";

}  // namespace

std::string WgmmaSource(int n, const ElementRow& element, bool a_transposed, bool b_transposed) {
  const int registers = n / 2;
  std::string names, outputs;
  for (int i = 0; i < registers; ++i) {
    absl::StrAppend(&names, i ? "," : "", "%", i);
    absl::StrAppend(&outputs, i ? ", " : "", "\"+f\"(d[", i, "])");
  }
  // Operands of 8 bits are always K-major.
  const std::string majorness =
      element.bytes == 1 ? ""
                         : absl::StrCat(", ", a_transposed ? 1 : 0, ", ", b_transposed ? 1 : 0);
  // absl::Substitute takes at most ten arguments; three more are replaced first.
  const std::string text = absl::StrReplaceAll(kTemplate, {{"$A", b_transposed ? "true" : "false"},
                                                           {"$B", outputs},
                                                           {"$K", absl::StrCat(element.wgmma_k)}});
  return absl::Substitute(text, n, element.device_type, a_transposed ? "true" : "false", registers,
                          registers, registers + 1, registers + 2, element.wgmma_type, names,
                          majorness);
}

}  // namespace sinter
