// The installed NVRTC in folders of which the loader knows nothing. The test copies it there and
// runs itself without the loader's cache, so that builtins are found where NVRTC lies or nowhere.
#include <dlfcn.h>
#include <sys/auxv.h>

#include "runtime/nvrtc/nvrtc_compiler.h"
#include "runtime/nvrtc/nvrtc_library.h"
#include "src/base/config.h"
#include "tests/support/no_compiler.h"

namespace sinter {
namespace {

namespace fs = std::filesystem;

// What a child says of an NVRTC: "compiled", or why not, and which builtins it holds then.
int Compile(const std::string& nvrtc) {
  CompileRequest request{.name = "folder_test.cu"};
  request.source = "extern \"C\" __global__ void k(float* p) { p[threadIdx.x] = 1; }";
  request.arch = "sm_90a";
  request.entry = "k";
  const auto kernel = MakeNvrtcCompiler(nvrtc)->Compile(request);
  std::cout << (kernel.ok() ? "compiled" : kernel.status().ToString()) << "\n";
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const size_t path = line.find('/');
    if (absl::StrContains(line, "r-xp") && absl::StrContains(line, "libnvrtc-builtins")) {
      std::cout << "mapped " << line.substr(path) << "\n";
    }
  }
  return 0;
}

// "known" if the loader finds a library of that name by itself.
int AskLoader(const std::string& name) {
  std::cout << (dlopen(name.c_str(), RTLD_NOW) != nullptr ? "known" : "unknown") << "\n";
  return 0;
}

// The loader's own program, which can run another without its cache. A sanitizer's runtime wants to
// be started by the kernel: there the child has the cache, and only what it mapped tells.
std::string Loader() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return "";
#else
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(getauxval(AT_BASE)), &info) == 0) return "";
  return absl::StrCat("'", info.dli_fname, "' --inhibit-cache ");
#endif
}

// This program's answer to `verb` in a process of its own.
std::string InAChild(const std::string& verb, const std::string& argument) {
  const std::string self = fs::read_symlink("/proc/self/exe").string();
  const std::string command = absl::StrCat("env -u LD_LIBRARY_PATH -u LD_PRELOAD ", Loader(), "'",
                                           self, "' ", verb, " '", argument, "' 2>&1");
  FILE* pipe = popen(command.c_str(), "r");
  std::string text;
  for (int c; pipe != nullptr && (c = fgetc(pipe)) != EOF;) text.push_back(static_cast<char>(c));
  return pipe != nullptr && pclose(pipe) == 0 ? text
                                              : absl::StrCat("failed: ", command, "\n", text);
}

class NvrtcFolder : public ::testing::Test {
 protected:
  // Lays out: store/code (only the library, under a name of its own), wheel (library and builtins).
  void SetUp() override {
    const std::string nvrtc = FindNvrtcFile(Got(ConfigFromEnvironment()).nvrtc_path);
    if (nvrtc.empty()) SINTER_END_WITHOUT_COMPILER("no NVRTC was found");
    for (const auto& file : fs::directory_iterator(fs::canonical(nvrtc).parent_path())) {
      const std::string name = file.path().filename().string();
      if (absl::StartsWith(name, "libnvrtc-builtins.so.") && !file.is_symlink())
        builtins = file.path();
    }
    ASSERT_FALSE(builtins.empty()) << "no builtins beside " << nvrtc;
    fs::remove_all(root);
    for (const char* folder : {"store", "wheel", "links"}) fs::create_directories(root / folder);
    fs::copy_file(nvrtc, root / "store/code");
    fs::create_hard_link(root / "store/code", root / "wheel/libnvrtc.so.13");
  }
  void TearDown() override { fs::remove_all(root); }

  fs::path PutBuiltinsInto(const char* folder) {
    const fs::path copy = root / folder / builtins.filename();
    fs::copy_file(builtins, copy);
    return copy;
  }
  bool LoaderKnowsBuiltins() {
    return InAChild("--ask", builtins.filename().string()) == "known\n";
  }

  const fs::path root = fs::canonical(SINTER_TEST_FOLDER) / "odd folder";
  fs::path builtins;
};

TEST_F(NvrtcFolder, BuiltinsAreOpenedBesideTheLibrary) {
  const fs::path copy = PutBuiltinsInto("wheel");
  EXPECT_EQ(InAChild("--compile", (root / "wheel/libnvrtc.so.13").string()),
            absl::StrCat("compiled\nmapped ", copy.string(), "\n"));
}

TEST_F(NvrtcFolder, ALinkToTheLibraryLeadsToItsBuiltins) {
  const fs::path copy = PutBuiltinsInto("wheel");
  fs::create_symlink(root / "wheel/libnvrtc.so.13", root / "links/libnvrtc.so");
  EXPECT_EQ(InAChild("--compile", (root / "links/libnvrtc.so").string()),
            absl::StrCat("compiled\nmapped ", copy.string(), "\n"));
}

// As build systems do that keep each file under its digest.
TEST_F(NvrtcFolder, BuiltinsMayLieBesideALinkToTheLibrary) {
  const fs::path copy = PutBuiltinsInto("links");
  fs::create_symlink(root / "store/code", root / "links/libnvrtc.so.13");
  EXPECT_EQ(InAChild("--compile", (root / "links/libnvrtc.so.13").string()),
            absl::StrCat("compiled\nmapped ", copy.string(), "\n"));
}

TEST_F(NvrtcFolder, MissingBuiltinsAreNamed) {
  if (LoaderKnowsBuiltins()) GTEST_SKIP() << "the loader finds builtins by itself";
  const std::string said = InAChild("--compile", (root / "wheel/libnvrtc.so.13").string());
  EXPECT_THAT(said, HasSubstr("UNAVAILABLE"));
  EXPECT_THAT(said, HasSubstr((root / "wheel" / builtins.filename()).string()));
  EXPECT_THAT(said, Not(HasSubstr("mapped")));
}

TEST(NvrtcVersion, IsToldByTheBuiltinsBesideTheLibrary) {
  const fs::path folder = fs::canonical(SINTER_TEST_FOLDER) / "versions";
  fs::remove_all(folder);
  fs::create_directories(folder / "links");
  for (const char* name :
       {"libnvrtc.so.12", "libnvrtc-builtins.so.12.4", "libnvrtc-builtins.so.12.10",
        "libnvrtc-builtins.so.12.10.3", "libnvrtc-builtins.alt.so.12.11"}) {
    std::ofstream(folder / name) << "x";
  }
  fs::create_symlink(folder / "libnvrtc.so.12", folder / "links/libnvrtc.so.12");
  EXPECT_EQ(NvrtcMinorOf((folder / "libnvrtc.so.12").string(), 12), 10);
  EXPECT_EQ(NvrtcMinorOf((folder / "links/libnvrtc.so.12").string(), 12), 10);
  EXPECT_EQ(NvrtcMinorOf((folder / "libnvrtc.so.13").string(), 13), -1);
  fs::remove_all(folder);
}

TEST(NvrtcBuiltins, AreLookedForBesideTheLibraryAndThenByName) {
  EXPECT_THAT(BuiltinsCandidates("/no/such/libnvrtc.so.13", 13, 2),
              ElementsAre("/no/such/libnvrtc-builtins.so.13.2", "libnvrtc-builtins.so.13.2"));
  EXPECT_THAT(
      BuiltinsCandidates("/no/such/libnvrtc.alt.so.13", 13, 0),
      ElementsAre("/no/such/libnvrtc-builtins.alt.so.13.0", "libnvrtc-builtins.alt.so.13.0"));
  EXPECT_THAT(BuiltinsCandidates("libnvrtc.so.12", 12, 9),
              ElementsAre("libnvrtc-builtins.so.12.9"));
}

}  // namespace
}  // namespace sinter

int main(int argc, char** argv) {
  if (argc == 3 && argv[1] == absl::string_view("--compile")) return sinter::Compile(argv[2]);
  if (argc == 3 && argv[1] == absl::string_view("--ask")) return sinter::AskLoader(argv[2]);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
