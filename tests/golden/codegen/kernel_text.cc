#include "tests/golden/codegen/kernel_text.h"

#include "src/plan/kernel_code.h"
#include "tests/support/golden_file.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

constexpr char kDigests[] = "tests/golden/codegen/digests.txt";

std::string SlotText(const ArgSlot& arg) {
  switch (arg.kind) {
    case ArgKind::kTensorMap:
      return absl::StrCat("tensor map ", arg.index);
    case ArgKind::kPointer:
      return absl::StrCat(
          "buffer ", arg.index, " + ", arg.offset_bytes,
          arg.int_value == 0 ? "" : absl::StrCat(", ", arg.int_value, " bytes for each row of m"));
    case ArgKind::kSymbolM:
      return "m";
    case ArgKind::kFirstRow:
      return "first row";
    case ArgKind::kRoom:
      return "room of the group";
    case ArgKind::kPlan:
      return "word of the plan";
    case ArgKind::kInt32:
      return absl::StrCat("int ", arg.int_value);
    case ArgKind::kFloat32:
      return absl::StrCat("float ", arg.float_value);
    case ArgKind::kBytes:
      return absl::StrCat(arg.bytes.size(), " bytes");
  }
  return "";
}

std::string WalkText(const std::optional<PixelWalk>& walk) {
  if (!walk.has_value()) return "";
  return absl::StrCat(", pixels from ", absl::StrJoin(walk->lower, " "), " to ",
                      absl::StrJoin(walk->upper, " "), " by ", absl::StrJoin(walk->strides, " "));
}

std::string MapText(const TensorMapTemplate& map) {
  std::string dims;
  for (Dim dim : map.dims) absl::StrAppend(&dims, dims.empty() ? "" : " x ", ToString(dim));
  return absl::StrCat("buffer ", map.buffer, " + ", map.offset_bytes, ", ", NameOf(map.dtype), " ",
                      dims, ", strides ", absl::StrJoin(map.stride_bytes, " "), ", box ",
                      absl::StrJoin(map.box, " x "), ", swizzle ", static_cast<int>(map.swizzle),
                      WalkText(map.walk));
}

}  // namespace

std::string RecipeText(const LaunchRecipe& r) {
  std::string text = absl::StrCat("entry ", r.entry, "\ngrid ", absl::StrJoin(r.grid, " "),
                                  "\nblock ", absl::StrJoin(r.block, " "), "\ncluster ",
                                  absl::StrJoin(r.cluster, " "), "\nshared ", r.shared_bytes,
                                  "\ncooperative ", r.cooperative, "\npdl ", r.pdl, "\n");
  for (size_t i = 0; i < r.tensor_maps.size(); ++i)
    absl::StrAppend(&text, "tensor map ", i, ": ", MapText(r.tensor_maps[i]), "\n");
  for (size_t i = 0; i < r.args.size(); ++i)
    absl::StrAppend(&text, "argument ", i, ": ", SlotText(r.args[i]), "\n");
  return text;
}

void ExpectGoldenKernel(const std::string& stem, const KernelSpec& spec) {
  const auto kernel = Got(Generate(spec, *BuiltinModel("h200")), stem);
  const std::string path = absl::StrCat("tests/golden/codegen/", stem);
  if (std::filesystem::exists(path + ".cu")) {
    testing::ExpectGoldenFile(path + ".cu", kernel.request.source);
  } else {
    testing::ExpectGoldenDigest(kDigests, stem, kernel.request.source);
  }
  testing::ExpectGoldenFile(path + ".recipe.txt", RecipeText(kernel.recipe));
}

}  // namespace sinter
