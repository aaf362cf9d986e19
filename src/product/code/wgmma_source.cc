#include "src/product/code/wgmma_source.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/substitute.h"

namespace sinter {
namespace {

constexpr char kTemplate[] = R"(template <>
struct Wgmma<$0, $1, $2, $A> {
  static SINTER_DEVICE void mma($S (&d)[$3], u64 a, u64 b, u32 accumulate) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %$6, 0;"
        "wgmma.mma_async.sync.aligned.m64n$0k$K.$D.$7.$7 {$8}, %$4, %$5, p$9;}"
        : $B
        : "l"(a), "l"(b), "r"(accumulate));
  }
};
)";

constexpr char kRegisterTemplate[] = R"(template <>
struct RegisterWgmma<$0, $1, $2> {
  static SINTER_DEVICE void mma(float (&d)[$3], const u32 (&a)[4], u64 b, u32 accumulate) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %$P, 0;"
        "wgmma.mma_async.sync.aligned.m64n$0k$K.f32.$4.$4 {$5}, {$6}, %$7, p, 1, 1, $8;}"
        : $B
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
  }
};
)";

struct Accumulators {
  std::string names, outputs;  // in PTX, and as operands
};

Accumulators AccumulatorText(int registers, char constraint) {
  Accumulators text;
  for (int i = 0; i < registers; ++i) {
    absl::StrAppend(&text.names, i ? "," : "", "%", i);
    absl::StrAppend(&text.outputs, i ? ", " : "", "\"+", std::string(1, constraint), "\"(d[", i,
                    "])");
  }
  return text;
}

}  // namespace

std::string RegisterWgmmaSource(int n, const ElementRow& element, bool b_transposed) {
  const int registers = n / 2;
  const Accumulators d = AccumulatorText(registers, 'f');
  std::string a;
  for (int i = 0; i < 4; ++i) absl::StrAppend(&a, i ? ", " : "", "%", registers + i);
  const std::string text =
      absl::StrReplaceAll(kRegisterTemplate, {{"$B", d.outputs},
                                              {"$K", absl::StrCat(element.wgmma_k)},
                                              {"$P", absl::StrCat(registers + 5)}});
  return absl::Substitute(text, n, element.device_type, b_transposed ? "true" : "false", registers,
                          element.wgmma_type, d.names, a, registers + 4, b_transposed ? 1 : 0);
}

std::string WgmmaSource(int n, const ElementRow& element, bool a_transposed, bool b_transposed) {
  const int registers = n / 2;
  const Accumulators d = AccumulatorText(registers, element.exact ? 'r' : 'f');
  // Signs of the operands, of floats alone, and how they lie: those of 8 bits are always K-major.
  std::string options = element.exact ? "" : ", 1, 1";
  if (element.bytes != 1)
    absl::StrAppend(&options, ", ", a_transposed ? 1 : 0, ", ", b_transposed ? 1 : 0);
  // absl::Substitute takes at most ten arguments; five more are replaced first.
  const std::string text =
      absl::StrReplaceAll(kTemplate, {{"$A", b_transposed ? "true" : "false"},
                                      {"$B", d.outputs},
                                      {"$D", element.exact ? "s32" : "f32"},
                                      {"$K", absl::StrCat(element.wgmma_k)},
                                      {"$S", element.exact ? "int" : "float"}});
  return absl::Substitute(text, n, element.device_type, a_transposed ? "true" : "false", registers,
                          registers, registers + 1, registers + 2, element.wgmma_type, d.names,
                          options);
}

}  // namespace sinter
