// JSON and canonical digests of chains against committed files.
#include "tests/support/files.h"
#include "tests/support/golden_file.h"
#include "tests/support/read_chain.h"
#include "tests/support/refusals.h"

namespace sinter {
namespace {

struct Golden {
  std::string name;
  Chain chain;
};

std::vector<Golden> Goldens() {
  std::vector<Golden> goldens;
  for (const auto& [name, text] : RefusalsOf("tests/golden/chain/chains.txt", "chains")) {
    const bool statements = absl::StrContains(text, ";");
    goldens.push_back({name, statements ? ReadChain(text) : Got(ParseProblem(text), name).chain});
  }
  return goldens;
}

std::string PathOf(const std::string& file) { return "tests/golden/chain/" + file; }

std::string ReadFile(const std::string& file) { return FileText(PathOf(file)); }

std::string Digests() {
  std::string text;
  for (const Golden& golden : Goldens()) {
    text += golden.name + " " + golden.chain.CanonicalDigest().Hex() + "\n";
  }
  return text;
}

TEST(ChainGolden, JsonIsAsCommitted) {
  for (const Golden& golden : Goldens()) {
    testing::ExpectGoldenFile(PathOf(golden.name + ".json"), ChainToJson(golden.chain));
  }
}

TEST(ChainGolden, CommittedJsonReadsAsTheChain) {
  for (const Golden& golden : Goldens()) {
    const auto chain = Got(ChainFromJson(ReadFile(golden.name + ".json")), golden.name);
    EXPECT_EQ(chain, golden.chain);
  }
}

TEST(ChainGolden, CanonicalDigestsAreAsCommitted) {
  testing::ExpectGoldenFile(PathOf("digests.txt"), Digests());
}

}  // namespace
}  // namespace sinter
