// Source and recipe of fixed kernels, byte for byte. SINTER_UPDATE_GOLDEN=1 writes the files anew.
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "src/codegen/codegen.h"
#include "tests/unit/codegen/sample_kernels.h"

namespace sinter {
namespace {

constexpr char kFolder[] = "tests/golden/codegen/";

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
    case ArgKind::kInt32:
      return absl::StrCat("int ", arg.int_value);
    case ArgKind::kFloat32:
      return absl::StrCat("float ", arg.float_value);
  }
  return "";
}

std::string MapText(const TensorMapTemplate& map) {
  std::string dims;
  for (Dim dim : map.dims) absl::StrAppend(&dims, dims.empty() ? "" : " x ", ToString(dim));
  return absl::StrCat("buffer ", map.buffer, " + ", map.offset_bytes, ", ", NameOf(map.dtype), " ",
                      dims, ", strides ", absl::StrJoin(map.stride_bytes, " "), ", box ",
                      absl::StrJoin(map.box, " x "), ", swizzle ", static_cast<int>(map.swizzle));
}

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

void ExpectFile(const std::string& name, const std::string& text) {
  const std::string path = kFolder + name;
  const char* update = getenv("SINTER_UPDATE_GOLDEN");
  if (update != nullptr && std::string(update) == "1") {
    std::ofstream(path, std::ios::binary) << text;
    return;
  }
  std::ifstream in(path, std::ios::binary);
  ASSERT_TRUE(in.good()) << path << " is missing: run with SINTER_UPDATE_GOLDEN=1";
  std::stringstream want;
  want << in.rdbuf();
  EXPECT_EQ(text, want.str()) << path
                              << ": if the change is meant, run with SINTER_UPDATE_GOLDEN=1";
}

TEST(CodegenGolden, ClustersThatShareAnMTile) {
  const DeviceModel model = *BuiltinModel("h200");
  for (const auto& [id, problem] : {std::make_pair("s8", SampleS8()), {"g7", SampleG7()}}) {
    const auto kernel = Generate(SampleSpec(problem, SampleRanges(problem)), model);
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    ExpectFile(absl::StrCat(id, "-cluster-ranges.cu"), kernel->request.source);
    ExpectFile(absl::StrCat(id, "-cluster-ranges.recipe.txt"), RecipeText(kernel->recipe));
  }
}

TEST(CodegenGolden, SlabsThatDoNotHoldAllOfC) {
  const DeviceModel model = *BuiltinModel("h200");
  for (const auto& [id, problem] : {std::make_pair("s8", SampleS8()), {"g7", SampleG7()}}) {
    const auto kernel = Generate(SampleSpec(problem, SampleSlab(problem)), model);
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    ExpectFile(absl::StrCat(id, "-cluster-slab.cu"), kernel->request.source);
    ExpectFile(absl::StrCat(id, "-cluster-slab.recipe.txt"), RecipeText(kernel->recipe));
  }
}

TEST(CodegenGolden, SpatialGates) {
  const auto kernel =
      Generate(SampleSpec(SampleS8(), SampleSpatialGate(SampleS8())), *BuiltinModel("h200"));
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  ExpectFile("s8-spatial-gate.cu", kernel->request.source);
  ExpectFile("s8-spatial-gate.recipe.txt", RecipeText(kernel->recipe));
}

TEST(CodegenGolden, SourcesAndRecipes) {
  const DeviceModel model = *BuiltinModel("h200");
  FfnProblem residual = SampleG7();
  residual.residual = Residual::kAddedRounded;
  FfnProblem scaled = SampleS8();
  scaled.scaling1 = {0.125f, RowFactor::kF32};
  scaled.scaling2 = {1, RowFactor::kElement};
  const std::pair<const char*, FfnProblem> problems[] = {
      {"s8", SampleS8()}, {"g7", SampleG7()}, {"g7-residual", residual}, {"s8-scaled", scaled}};
  for (const auto& [id, problem] : problems) {
    for (Dataflow dataflow : kDataflows) {
      KernelSpec spec = SampleSpec(problem, dataflow);
      if (dataflow == Dataflow::kProduct && problem.residual != Residual::kNone) {
        spec = SampleSpec(SecondProductOf(problem), spec.schedule);
      }
      const auto kernel = Generate(spec, model);
      ASSERT_TRUE(kernel.ok()) << kernel.status();
      const std::string stem = absl::StrCat(id, "-", NameOf(dataflow));
      ExpectFile(stem + ".cu", kernel->request.source);
      ExpectFile(stem + ".recipe.txt", RecipeText(kernel->recipe));
    }
  }
}

}  // namespace
}  // namespace sinter
