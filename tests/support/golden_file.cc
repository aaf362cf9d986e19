#include "tests/support/golden_file.h"

#include "src/base/digest.h"
#include "tests/support/files.h"
#include "tests/support/test.h"

namespace sinter::testing {
namespace {

constexpr size_t kShownLines = 20;

bool Updating() {
  const char* update = std::getenv("SINTER_UPDATE_GOLDEN");
  return update != nullptr && std::string(update) == "1";
}

// The first lines that differ, golden before actual. gtest's own difference takes time and memory
// that grow with the product of both texts' lines.
std::string Difference(absl::string_view golden, absl::string_view actual) {
  const std::vector<absl::string_view> was = absl::StrSplit(golden, '\n');
  const std::vector<absl::string_view> is = absl::StrSplit(actual, '\n');
  std::string text;
  size_t different = 0;
  for (size_t i = 0; i < was.size() || i < is.size(); ++i) {
    if (i < was.size() && i < is.size() && was[i] == is[i]) continue;
    if (++different > kShownLines) continue;
    absl::StrAppend(&text, "line ", i + 1, "\n");
    if (i < was.size()) absl::StrAppend(&text, "- ", was[i], "\n");
    if (i < is.size()) absl::StrAppend(&text, "+ ", is[i], "\n");
  }
  return absl::StrCat(text, different, " lines differ\n");
}

}  // namespace

void ExpectGoldenFile(const std::string& path, const std::string& text) {
  if (Updating()) {
    std::ofstream(path, std::ios::binary) << text;
    return;
  }
  const std::string golden = FileText(path);
  ASSERT_FALSE(golden.empty()) << path << " is missing: ./dev golden --update writes it";
  if (golden == text) return;
  ADD_FAILURE() << path
                << " is not what is made now; if the change is meant: ./dev golden --update\n"
                << Difference(golden, text);
}

void ExpectGoldenDigest(const std::string& path, const std::string& name, const std::string& text) {
  std::map<std::string, std::string> digests;
  std::ifstream in(path);
  for (std::string of, digest; in >> of >> digest;) digests[of] = digest;
  const std::string digest = Sha256(text).Hex();
  if (Updating()) {
    digests[name] = digest;
    std::ofstream out(path, std::ios::binary);
    for (const auto& [of, is] : digests) out << of << " " << is << "\n";
    return;
  }
  EXPECT_EQ(digests[name], digest)
      << name << ": its text is not what " << path
      << " says; to see it, make an empty golden file of it. If the change is meant: "
         "./dev golden --update";
}

}  // namespace sinter::testing
