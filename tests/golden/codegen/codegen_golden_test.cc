// Source and recipe of fixed kernels of products, byte for byte.
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/golden/codegen/kernel_text.h"
#include "tests/unit/codegen/sample_kernels.h"

namespace sinter {
namespace {

TEST(CodegenGolden, ClustersThatShareAnMTile) {
  for (const auto& [id, problem] : {std::make_pair("s8", SampleS8()), {"g7", SampleG7()}}) {
    ExpectGoldenKernel(absl::StrCat(id, "-cluster-ranges"),
                       SampleSpec(problem, SampleRanges(problem)));
  }
}

TEST(CodegenGolden, SlabsThatDoNotHoldAllOfC) {
  for (const auto& [id, problem] : {std::make_pair("s8", SampleS8()), {"g7", SampleG7()}}) {
    ExpectGoldenKernel(absl::StrCat(id, "-cluster-slab"), SampleSpec(problem, SampleSlab(problem)));
  }
}

TEST(CodegenGolden, SpatialGates) {
  ExpectGoldenKernel("s8-spatial-gate", SampleSpec(SampleS8(), SampleSpatialGate(SampleS8())));
}

TEST(CodegenGolden, SourcesAndRecipes) {
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
      ExpectGoldenKernel(absl::StrCat(id, "-", NameOf(dataflow)), spec);
    }
  }
}

}  // namespace
}  // namespace sinter
