// The list of kernels that are known to compile: what changes a digest, and what a file knows.
#include "tests/compile/kernel_list.h"

#include "tests/support/files.h"
#include "tests/support/test.h"

namespace sinter::testing {
namespace {

CompileRequest Request() {
  CompileRequest request{.options = {"--use_fast_math"}, .arch = "sm_90a", .entry = "kernel"};
  request.source = "#include \"ptx/element.cuh\"\nvoid f();\n";
  return request;
}

TEST(KernelList, AnythingThatTheCompilerGetsChangesADigest) {
  const std::string digest = KernelDigest(Request());
  EXPECT_EQ(digest.size(), 16u);
  CompileRequest other = Request();
  other.source += "void g();\n";
  EXPECT_NE(KernelDigest(other), digest);
  other = Request();
  other.source = "#include \"ptx/memory.cuh\"\nvoid f();\n";
  EXPECT_NE(KernelDigest(other), digest);
  other = Request();
  other.options.clear();
  EXPECT_NE(KernelDigest(other), digest);
  other = Request();
  other.arch = "sm_100";
  EXPECT_NE(KernelDigest(other), digest);
  other = Request();
  other.entry = "other";
  EXPECT_NE(KernelDigest(other), digest);
  other = Request();
  other.most_spill_bytes = 8;
  EXPECT_NE(KernelDigest(other), digest);
}

TEST(KernelList, CommentsAndBlankLinesDoNotChangeADigest) {
  CompileRequest other = Request();
  other.source = "#include \"ptx/element.cuh\"\n\n  // A comment.\nvoid f();\n";
  EXPECT_EQ(KernelDigest(other), KernelDigest(Request()));
}

TEST(KernelList, OnlyTheBranchOfItsArchitectureCounts) {
  const std::string text =
      "a\n#if __CUDA_ARCH__ >= 900\nb\n#ifdef X\nc\n#else\nd\n#endif\n#else\ne\n#endif\n"
      "#ifdef Y\nf\n#else\ng\n#endif\n";
  const std::string beside = "#ifdef Y\nf\n#else\ng\n#endif\n";
  EXPECT_EQ(CodeFor(90, text), "a\nb\n#ifdef X\nc\n#else\nd\n#endif\n" + beside);
  EXPECT_EQ(CodeFor(120, text), CodeFor(90, text));
  EXPECT_EQ(CodeFor(89, text), "a\ne\n" + beside);
}

// The headers that a source includes count by their text; a name of no header counts as itself.
TEST(KernelList, HeadersCountByTheirText) {
  CompileRequest none = Request();
  none.source = "#include \"none.cuh\"\nvoid f();\n";
  CompileRequest also_none = none;
  also_none.source = "#include \"absent.cuh\"\nvoid f();\n";
  EXPECT_NE(KernelDigest(none), KernelDigest(Request()));
  EXPECT_NE(KernelDigest(none), KernelDigest(also_none));
}

TEST(KernelList, AListNamesTheCompilerAndTheOptionsOfItsPort) {
  EXPECT_EQ(ListedCompiler("nvrtc-13.0-abc"),
            "toolchain nvrtc-13.0-abc\noptions --gpu-architecture=sm_90a -default-device "
            "--std=c++17 --ptxas-options=-v\n");
}

TEST(KernelList, AFileOfAnotherCompilerKnowsNothing) {
  const TempDir folder;
  const std::string path = folder / "list.txt";
  KernelList first(path, "nvrtc-13.0-abc");
  first.Add("2222222222222222");
  first.Add("1111111111111111");
  first.Write(false);
  EXPECT_EQ(FileText(path),
            ListedCompiler("nvrtc-13.0-abc") + "1111111111111111\n2222222222222222\n");

  KernelList again(path, "nvrtc-13.0-abc");
  EXPECT_TRUE(again.Knows("1111111111111111"));
  EXPECT_FALSE(again.Knows("3333333333333333"));
  EXPECT_FALSE(KernelList(path, "nvrtc-13.1-abc").Knows("1111111111111111"));
  again.Add("3333333333333333");
  again.Write(true);
  EXPECT_TRUE(KernelList(path, "nvrtc-13.0-abc").Knows("1111111111111111"));
  again.Write(false);
  EXPECT_FALSE(KernelList(path, "nvrtc-13.0-abc").Knows("1111111111111111"));
}

}  // namespace
}  // namespace sinter::testing
