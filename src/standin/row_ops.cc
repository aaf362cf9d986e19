#include "src/standin/row_ops.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "src/chain/op_traits.h"

namespace sinter {
namespace {

constexpr int kLong = 8;  // instructions from which on all elements call one function

// $0, $1: the cases of long and of other functions; $2, $4: parameters and arguments; $3: a name.
constexpr char kSource[] = R"(  // Apart, because their code is long.
  static __device__ __noinline__ float long_$3(int op, $2) {
    switch (op) {
$0      default:
        return x;
    }
  }
  template <class Each>
  static SINTER_DEVICE void $3(int op, Each each) {
    switch (op) {
$1      default:
        return each([op]($2) { return long_$3(op, $4); });
    }
  }
)";

template <typename Kind>
std::string Functions(absl::Span<const Kind> kinds, absl::string_view name,
                      absl::string_view parameters, absl::string_view arguments) {
  std::string far, near;
  for (const Kind kind : kinds) {
    const OpTraits& traits = TraitsOf(kind);
    if (traits.on_rows == nullptr) continue;
    const bool own = *traits.on_rows != 0;
    const std::string text =
        own ? traits.on_rows : absl::StrCat(traits.exact.function, "(", arguments, ")");
    const std::string label = absl::StrCat("      case ", static_cast<int>(kind), ":\n        ");
    if (!own && traits.exact.issue >= kLong) {
      absl::StrAppend(&far, label, "return ", text, ";\n");
    } else {
      absl::StrAppend(&near, label, "return each([](", parameters, ") { return ", text, "; });\n");
    }
  }
  return absl::Substitute(kSource, far, near, parameters, name, arguments);
}

}  // namespace

static_assert(static_cast<int>(kRowUnary) + 100 < kRowFirstTwo,
              "room for the numbers of unary ops");

bool RowsHave(UnaryKind kind) { return TraitsOf(kind).on_rows != nullptr; }

std::string RowOpsSource() {
  return absl::StrCat("struct RowOps {\n", Functions(UnaryKinds(), "one", "float x", "x"),
                      Functions(BinaryKinds(), "two", "float x, float y", "x, y"), "};\n");
}

}  // namespace sinter
