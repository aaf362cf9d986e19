// Replays the corpus of each form, and seeded mutations of it, through its fuzz target.
#include "tests/fuzz/mutate.h"
#include "tests/support/test.h"

namespace sinter {

namespace chain_text_fuzz {
int Target(const uint8_t* data, size_t size);
}
namespace chain_json_fuzz {
int Target(const uint8_t* data, size_t size);
}
namespace chain_stream_fuzz {
int Target(const uint8_t* data, size_t size);
}
namespace chain_bytes_fuzz {
int Target(const uint8_t* data, size_t size);
}

namespace chain_readers_fuzz {
namespace {

constexpr int kMutations = 100;  // of each file

void Feed(FuzzTarget target, const std::string& bytes) {
  EXPECT_EQ(target(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()), 0);
}

std::string MutateText(std::string bytes, std::mt19937& engine) {
  for (int edits = 1 + static_cast<int>(engine() % 3); edits > 0 && !bytes.empty(); --edits) {
    const size_t at = engine() % bytes.size();
    switch (engine() % 4) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << engine() % 8));
        break;
      case 1:
        bytes.erase(at, 1 + engine() % 4);
        break;
      case 2:
        bytes.insert(at, bytes.substr(engine() % bytes.size(), engine() % 8));
        break;
      default:
        bytes[at] = "0129-M[]{}\",=# \n"[engine() % 16];
    }
  }
  return bytes;
}

void ReplayForm(FuzzTarget target, const std::string& form) {
  const auto corpus = SortedCorpus("tests/fuzz/chain_readers/corpus_" + form);
  ASSERT_GE(corpus.size(), 3u);
  std::mt19937 engine(1);
  Feed(target, "");
  for (const std::string& bytes : corpus) {
    Feed(target, bytes);
    for (int i = 0; i < kMutations; ++i) Feed(target, MutateText(bytes, engine));
  }
}

// The corpus and its mutations hold the target's invariants.
TEST(ChainReaders, TextHoldsItsInvariants) { ReplayForm(chain_text_fuzz::Target, "text"); }
TEST(ChainReaders, JsonHoldsItsInvariants) { ReplayForm(chain_json_fuzz::Target, "json"); }
TEST(ChainReaders, StreamsHoldTheirInvariants) { ReplayForm(chain_stream_fuzz::Target, "stream"); }
TEST(ChainReaders, BytesHoldTheirInvariants) { ReplayForm(chain_bytes_fuzz::Target, "bytes"); }

}  // namespace
}  // namespace chain_readers_fuzz
}  // namespace sinter
