// Every allocation of opening, reading, writing and importing a pack fails in turn, once and from
// then on: nobody dies, no descriptor leaks, no half pack is left. Memory that LevelDB held is lost
// when it runs out there: it is compiled without exceptions.
#include "tests/fault/cache/failing_new.h"
#include "tests/unit/cache/pack/pack_testing.h"

namespace sinter {
namespace {

struct Tally {
  int points = 0, failures = 0, wrong = 0, leaks = 0, lost_in_leveldb = 0;
  void Print(const char* what, bool ever) const {
    std::cout << "out of memory " << (ever ? "for ever" : "once") << ", pack " << what
              << ": points " << points << " failures " << failures << " wrong " << wrong
              << " leaks " << leaks << " lost in LevelDB " << lost_in_leveldb << " aborts 0\n";
  }
};

class PackOutOfMemoryTest : public pack_testing::PackTest,
                            public testing::WithParamInterface<bool> {
 protected:
  // Fails each allocation of `call` in turn. `call` says whether it succeeded, and rightly; it
  // leaves no state either way.
  enum class Outcome { kFailed, kRight, kWrong };
  template <typename Call>
  Tally Sweep(const Call& call) {
    Tally tally;
    (void)call();  // what is made once and kept
    for (int64_t n = 0;; ++n) {
      const int64_t before = live;
      const int descriptors = OpenDescriptors();
      Outcome outcome = Outcome::kFailed;
      const bool reached = FailAllocation(n, GetParam(), [&] {
        try {
          outcome = call();
        } catch (const std::bad_alloc&) {  // no memory for a status either
        }
      });
      if (!reached) break;
      ++tally.points;
      tally.failures += outcome == Outcome::kFailed ? 1 : 0;
      tally.wrong += outcome == Outcome::kWrong ? 1 : 0;
      tally.leaks += OpenDescriptors() > descriptors ? 1 : 0;
      tally.lost_in_leveldb += live > before ? 1 : 0;
    }
    return tally;
  }
  void Expect(const Tally& tally, int points) {
    EXPECT_GT(tally.points, points);
    EXPECT_EQ(tally.wrong, 0);
    EXPECT_EQ(tally.leaks, 0);
  }
};

TEST_P(PackOutOfMemoryTest, Opening) {
  Fill(3);
  const PackOptions options = From(Pack());
  const Tally tally = Sweep([&] {
    const auto pack = PackReader::Open(options);
    if (!pack.ok()) return Outcome::kFailed;
    return (*pack)->manifest().entries.size() == records_.size() ? Outcome::kRight
                                                                 : Outcome::kWrong;
  });
  tally.Print("open", GetParam());
  Expect(tally, 10);
}

TEST_P(PackOutOfMemoryTest, LookingUp) {
  Fill(3);
  const auto pack = Open(From(Pack()));
  ASSERT_NE(pack, nullptr);
  const std::string absent = "absent";
  const Digest nothing = Sha256(absent);
  const Record& record = records_.front();
  const Digest digest = Sha256(record.key);
  const Tally tally = Sweep([&] {
    if (pack->Get(RecordKind::kKernel, absent, nothing).hit) return Outcome::kWrong;
    const Lookup lookup = pack->Get(record.kind, record.key, digest);
    if (!lookup.hit) return Outcome::kFailed;
    return lookup.payload == record.payload ? Outcome::kRight : Outcome::kWrong;
  });
  tally.Print("get", GetParam());
  Expect(tally, 3);
}

TEST_P(PackOutOfMemoryTest, Writing) {
  Fill(3);
  const std::string sound = cache_testing::ReadFile(Pack());
  const std::string path = temp_ / "new.pack";
  const PackWriteOptions options = To(path, &key_);
  const Tally tally = Sweep([&] {
    const auto report = ExportPack(&store_, {}, nullptr, options);
    if (!report.ok()) return Outcome::kFailed;
    return report->kernels + report->plans + report->skipped == records_.size() ? Outcome::kRight
                                                                                : Outcome::kWrong;
  });
  EXPECT_EQ(cache_testing::CountFiles(temp_ / ""), cache_testing::CountFiles(temp_ / "store") + 2);
  EXPECT_EQ(cache_testing::ReadFile(path).size(), sound.size());
  tally.Print("write", GetParam());
  Expect(tally, 50);
}

TEST_P(PackOutOfMemoryTest, Importing) {
  Fill(3);
  const auto pack = Open(From(Pack()));
  ASSERT_NE(pack, nullptr);
  cache_testing::TempDir other;
  LocalStoreOptions options = Options();
  options.root = other.path();
  LocalStore store(options);
  const Tally tally = Sweep([&] {
    const auto report = ImportPack(*pack, &store);
    if (!report.ok()) return Outcome::kFailed;
    return report->stored + report->refused == records_.size() ? Outcome::kRight : Outcome::kWrong;
  });
  tally.Print("import", GetParam());
  Expect(tally, 20);
  for (const Record& record : records_) {
    EXPECT_EQ(store.Get(record.kind, record.key, Sha256(record.key)).payload, record.payload);
  }
}

INSTANTIATE_TEST_SUITE_P(Failures, PackOutOfMemoryTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "ForEver" : "Once"; });

}  // namespace
}  // namespace sinter
