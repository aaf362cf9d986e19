#include "src/engine/measured_choice.h"
#include "src/engine/tune.h"
#include "tests/support/product_in.h"
#include "tests/support/sequences.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

GeneratedKernel Kernel() {
  GeneratedKernel kernel;
  kernel.request.source = "#include \"a.cuh\"\n__global__ void k() {}\n";
  kernel.request.headers = {{"a.cuh", "  #  include \"b.cuh\"\n#include <c.cuh>\n"},
                            {"b.cuh", "#include \"a.cuh\"\nint b;\n"},
                            {"c.cuh", "int c;\n"},
                            {"d.cuh", "int d;\n"}};
  kernel.request.arch = "sm_90a";
  kernel.request.options = {"-O3"};
  kernel.recipe.entry = "k";
  return kernel;
}

Digest IdentityOf(const GeneratedKernel& kernel) { return KernelIdentity(KernelSpec(), kernel); }

TEST(KernelIdentityTest, CoversWhatTheCompilerAndTheLaunchSee) {
  const Digest before = IdentityOf(Kernel());
  GeneratedKernel kernel = Kernel();
  kernel.request.source += "int k2;\n";
  EXPECT_NE(IdentityOf(kernel), before);
  kernel = Kernel();
  kernel.request.options.push_back("-DX");
  EXPECT_NE(IdentityOf(kernel), before);
  kernel = Kernel();
  kernel.request.arch = "sm_100a";
  EXPECT_NE(IdentityOf(kernel), before);
  kernel = Kernel();
  kernel.recipe.grid[0] += 1;
  EXPECT_NE(IdentityOf(kernel), before);
  for (const int reached : {0, 1}) {
    kernel = Kernel();
    kernel.request.headers[static_cast<size_t>(reached)].second += "#define X\n";
    EXPECT_NE(IdentityOf(kernel), before) << reached;
  }
}

// Equal code in launches of other rows or another grid was not measured.
TEST(KernelIdentityTest, RowsAndGridAreTheLaunchs) {
  KernelSpec spec;
  ProductIn(&spec).sequence = MakeSequence(64, MakeProduct(256, 128));
  ProductIn(&spec).schedule.grid = 120;
  const Digest before = KernelIdentity(spec, Kernel());
  KernelSpec rows = spec, grid = spec;
  ProductIn(&rows).sequence.m = 128;
  ProductIn(&grid).schedule.grid = 128;
  EXPECT_NE(KernelIdentity(rows, Kernel()), before);
  EXPECT_NE(KernelIdentity(grid, Kernel()), before);
}

TEST(KernelIdentityTest, HeadersThatItDoesNotIncludeMayChange) {
  const Digest before = IdentityOf(Kernel());
  GeneratedKernel kernel = Kernel();
  kernel.request.headers[3].second += "//\n";
  kernel.request.headers.push_back({"e.cuh", "new"});
  EXPECT_EQ(IdentityOf(kernel), before);
  std::swap(kernel.request.headers[0], kernel.request.headers[1]);
  EXPECT_EQ(IdentityOf(kernel), before);
}

TEST(KernelIdentityTest, HeadersMayBeNamedAndCommentedAnew) {
  GeneratedKernel kernel = Kernel();
  kernel.request.source = "// a head\n/* and\n more */#include \"x/y.cuh\"  // why\n\n" +
                          std::string("  __global__ void k() {}");
  kernel.request.headers = {{"x/y.cuh", "#include \"z.cuh\"\n\n// c\n#include <c.cuh>\n"},
                            {"z.cuh", "#pragma once\n#include \"x/y.cuh\"\n\tint b;  /* b */\n"}};
  EXPECT_EQ(IdentityOf(kernel), IdentityOf(Kernel()));
}

GeneratedKernel OfSource(const std::string& source) {
  GeneratedKernel kernel = Kernel();
  kernel.request.source = source;
  return kernel;
}

// Text that looks like a comment inside a literal is not a comment, and a digit separator does not
// begin a literal.
TEST(KernelIdentityTest, LiteralsAreNoComments) {
  const auto differ = [](const std::string& a, const std::string& b) {
    EXPECT_NE(IdentityOf(OfSource(a)), IdentityOf(OfSource(b))) << a << " and " << b;
  };
  differ("asm(\"add; // x\");", "asm(\"add; // y\");");
  differ("asm(\"\\\" // x\");", "asm(\"\\\" // y\");");
  differ("char c = '\"'; int x; // \"", "char c = '\"'; int y; // \"");
  differ("char c = '\\''; // x\nint x;", "char c = '\\''; // x\nint y;");
  EXPECT_EQ(IdentityOf(OfSource("int x = 1'000; // it's one\nint y;")),
            IdentityOf(OfSource("int x = 1'000;\nint y;")));
  differ("int a; /* open", "int b; /* open");
}

// A plan of two products; a kernel is known by its stages.
Plan TwoKernels(int first_stages, int second_stages) {
  Plan plan{.bucket = 16};
  for (const int stages : {first_stages, second_stages}) {
    PlannedKernel kernel;
    const auto columns = 64 * static_cast<int64_t>(plan.kernels.size() + 1);
    ProductIn(&kernel.spec).sequence = MakeSequence(16, MakeProduct(columns, 64));
    ProductIn(&kernel.spec).schedule.stages = stages;
    kernel.ops = {{9}, false, static_cast<int>(plan.kernels.size())};
    kernel.prediction.total_us = stages;
    plan.kernels.push_back(kernel);
  }
  return plan;
}

std::vector<int> StagesOf(const std::vector<Decisions>& swaps, size_t kernel) {
  std::vector<int> stages;
  for (const Decisions& swap : swaps) stages.push_back(swap.kernels[kernel].schedule.stages);
  return stages;
}

TEST(KernelSwapsTest, TakesEachOtherScheduleOfOneKernelOnce) {
  const Plan plan = TwoKernels(2, 3);
  const std::vector<Plan> ranking = {TwoKernels(2, 3), TwoKernels(4, 5), TwoKernels(4, 6),
                                     TwoKernels(7, 3)};
  const std::vector<Decisions> swaps = KernelSwaps(plan, 0, ranking, 11);
  EXPECT_EQ(StagesOf(swaps, 0), (std::vector<int>{4, 7}));
  EXPECT_EQ(StagesOf(swaps, 1), (std::vector<int>{3, 3}));
  EXPECT_EQ(swaps[0].kernels[0].prediction.total_us, 4);
  EXPECT_EQ(swaps[0].kernels[1].prediction.total_us, 3);
  EXPECT_EQ(StagesOf(KernelSwaps(plan, 1, ranking, 11), 1), (std::vector<int>{5, 6}));
}

TEST(KernelSwapsTest, LooksAtSoManyPlansOfTheCut) {
  const std::vector<Plan> ranking = {TwoKernels(2, 3), TwoKernels(4, 5), TwoKernels(6, 7)};
  EXPECT_EQ(StagesOf(KernelSwaps(ranking[0], 0, ranking, 2), 0), std::vector<int>{4});
  EXPECT_TRUE(KernelSwaps(ranking[0], 0, ranking, 1).empty());
}

TEST(KernelSwapsTest, PlansOfOtherCutsGiveNothing) {
  const Plan plan = TwoKernels(2, 3);
  Plan fewer = TwoKernels(4, 5), other_ops = fewer, other_absorbed = fewer, other_rows = fewer;
  fewer.kernels.pop_back();
  other_ops.kernels[1].ops.values = {8};
  other_absorbed.absorbed.norms = true;
  other_rows.bucket = 32;
  EXPECT_TRUE(KernelSwaps(plan, 0, {fewer, other_ops, other_absorbed, other_rows}, 11).empty());
}

// A plan of one stitched kernel; it is known by its grid.
Plan Stitched(std::vector<ValueId> values, int grid) {
  auto spec = std::make_shared<StitchSpec>();
  spec->body = ReadChain("x: f32[8]; out x + x");
  spec->operands = {{0, 0}, {1, 0}};
  spec->schedule.grid = grid;
  Plan plan{.bucket = 16};
  plan.kernels.emplace_back();
  plan.kernels[0].spec.family = &StitchFamily();
  plan.kernels[0].spec.body = MakeBody(std::move(*spec));
  plan.kernels[0].ops.values = std::move(values);
  return plan;
}

TEST(KernelSwapsTest, StitchedKernelsOfOtherOpsGiveNothing) {
  const Plan plan = Stitched({1}, 1);
  const std::vector<Plan> ranking = {Stitched({2}, 2), Stitched({1, 2}, 3), Stitched({1}, 4)};
  const std::vector<Decisions> swaps = KernelSwaps(plan, 0, ranking, 11);
  ASSERT_EQ(swaps.size(), 1u);
  EXPECT_EQ(swaps[0].kernels[0].stitch.grid, 4);
}

}  // namespace
}  // namespace sinter
