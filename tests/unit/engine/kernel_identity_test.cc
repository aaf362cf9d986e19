#include "src/engine/measured_choice.h"
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

}  // namespace
}  // namespace sinter
