// What the build embedded: self-contained, layered, and digested as a whole.
#include "src/device/device_library.h"

#include "tests/support/files.h"
#include "tests/support/regular.h"
#include "tests/support/test.h"
#include "tests/unit/plan/sample_kernels.h"

namespace sinter {
namespace {

namespace fs = std::filesystem;

// Arrows go from right to left. The stitch layer is independent of the others and uses only ptx.
const std::vector<std::string> kLayers = {"ptx",       "ranks",    "tile",   "pipeline",
                                          "attention", "handover", "kernels"};
constexpr char kStitch[] = "stitch";

std::map<std::string, std::string> Headers() {
  std::map<std::string, std::string> map;
  for (auto& [name, bytes] : CopyDeviceHeaders()) map[name] = bytes;
  return map;
}

// Every name that a directive includes, with its delimiters.
std::vector<std::string> Includes(const std::string& text) {
  std::vector<std::string> names;
  for (const Match& match : Matches(text, "(^|\n)[ \t]*#[ \t]*include[ \t]*([^\n]*)")) {
    names.push_back(match[2].substr(0, match[2].find_last_of("\">") + 1));
  }
  return names;
}

std::string FolderOf(const std::string& name) { return name.substr(0, name.find('/')); }

int LayerOf(const std::string& name) {
  const auto at = std::find(kLayers.begin(), kLayers.end(), FolderOf(name));
  return at == kLayers.end() ? -1 : static_cast<int>(at - kLayers.begin());
}

bool MayInclude(const std::string& name, const std::string& target) {
  // Programs of epilogues take the arithmetic of stitched kernels.
  if (FolderOf(target) == kStitch) {
    return FolderOf(name) == kStitch || name == "kernels/program.cuh";
  }
  return LayerOf(target) >= 0 &&
         LayerOf(target) <= (FolderOf(name) == kStitch ? LayerOf("ptx") : LayerOf(name));
}

TEST(DeviceLibrary, HoldsEveryHeaderOfTheFolderByteForByte) {
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator("src/device")) {
    if (entry.path().extension() != ".cuh") continue;
    const std::string name = fs::relative(entry.path(), "src/device").string();
    names.insert(name);
    EXPECT_EQ(Headers()[name], FileText(entry.path())) << name;
  }
  EXPECT_EQ(names.size(), Headers().size());
  size_t count = 0;
  const DeviceHeader* headers = DeviceHeaders(&count);
  EXPECT_TRUE(std::is_sorted(
      headers, headers + count,
      [](const DeviceHeader& a, const DeviceHeader& b) { return std::string(a.name) < b.name; }));
  for (size_t i = 0; i < count; ++i) EXPECT_EQ(headers[i].bytes[headers[i].size], '\0');
}

TEST(DeviceLibrary, IncludesOnlyItselfAndAlongTheArrow) {
  const auto headers = Headers();
  for (const auto& [name, text] : headers) {
    ASSERT_TRUE(LayerOf(name) >= 0 || FolderOf(name) == kStitch) << name << " is in no layer";
    EXPECT_THAT(text, HasSubstr("#pragma once")) << name;
    for (const std::string& quoted : Includes(text)) {
      ASSERT_EQ(quoted.front(), '"') << name << " includes " << quoted;
      const std::string target = quoted.substr(1, quoted.size() - 2);
      EXPECT_EQ(headers.count(target), 1u) << name << " includes " << target;
      EXPECT_TRUE(MayInclude(name, target)) << name << " includes " << target;
    }
  }
}

TEST(DeviceLibrary, ServesEverySource) {
  const auto headers = Headers();
  const DeviceModel model = *BuiltinModel("h200");
  for (Dataflow dataflow : DataflowsOf(SampleS8())) {
    const auto kernel = Got(Generate(SampleSpec(SampleS8(), dataflow), model));
    const auto includes = Includes(kernel.request.source);
    ASSERT_EQ(includes.size(), 1u);
    const std::string name = includes[0].substr(1, includes[0].size() - 2);
    EXPECT_EQ(name.rfind("kernels/", 0), 0u) << name;
    EXPECT_EQ(headers.count(name), 1u) << name;
    EXPECT_EQ(kernel.request.headers.size(), headers.size());
  }
}

// The build's script on a copy of the folder.
class EmbedScript : public ::testing::Test {
 protected:
  void SetUp() override { fs::copy("src/device", folder_ / "device", fs::copy_options::recursive); }

  fs::path Header(const std::string& name) const { return fs::path(folder_ / "device") / name; }
  // The written file; "" when the script fails.
  std::string Embed() const {
    const std::string output = folder_ / "out.cc";
    const std::string command = "\"" SINTER_CMAKE "\" -DSOURCE=\"" + (folder_ / "device") +
                                "\" -DOUTPUT=\"" + output + "\" -P src/device/embed.cmake";
    if (system(command.c_str()) != 0) return "";
    return FileText(output);
  }

  const TempDir folder_;
};

TEST_F(EmbedScript, NoticesEveryChange) {
  const std::string before = Embed();
  EXPECT_NE(before, "");
  std::ofstream(Header("ptx/new.cuh")) << "";
  const std::string added = Embed();
  EXPECT_NE(added, before);
  fs::rename(Header("ptx/new.cuh"), Header("ptx/other.cuh"));
  EXPECT_NE(Embed(), added);
  fs::remove(Header("ptx/other.cuh"));
  EXPECT_EQ(Embed(), before);
}

TEST_F(EmbedScript, KeepsTextThatStringsWouldNot) {
  std::ofstream(Header("ptx/odd.cuh"), std::ios::binary) << "\"\\n\" ;[${x}] \xC3\xA4 \t\n";
  EXPECT_THAT(Embed(),
              HasSubstr("0x22,0x5c,0x6e,0x22,0x20,0x3b,0x5b,0x24,0x7b,0x78,0x7d,0x5d,0x20,0xc3"));
}

}  // namespace
}  // namespace sinter
