// Replays the corpus and seeded mutations of it through the fuzz target, so that every build runs
// some of it. SINTER_UPDATE_CORPUS=1 rewrites the corpus: a record of each of some chains.
#include "cache/record/record.h"
#include "tests/fuzz/decisions/judged_chains.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/plan_record/records.h"
#include "tests/support/drawn.h"
#include "tests/support/small_cubin.h"
#include "tests/support/test.h"

namespace sinter::plan_record_fuzz {

int Target(const uint8_t* data, size_t size);

namespace {

constexpr char kCorpus[] =
    "tests/fuzz/plan_record/corpus";  // the test runs in the root of the tree
constexpr size_t kOfCorpus[] = {0,  1,  4,  5,  6,  7,  9, 12,
                                14, 15, 16, 17, 18, 19, 20};  // of kJudgedChains

// As a cold prepare stores it, without the tables of rejected candidates.
std::string RecordBytes(const Chain& chain, int64_t bucket) {
  PlanRecord record = MakePlanRecord(*PlanChain(chain, bucket, Core().ports.model, {}));
  record.chain = chain.CanonicalDigest();
  record.bucket = bucket;
  record.toolchain_id = kToolchain;
  for (PlanVariant& variant : record.variants) {
    variant.decisions.runners_up.clear();
    variant.sources.assign(variant.decisions.kernels.size(), Sha256("a source"));
  }
  return EncodePlanRecord(record);
}

void WriteCorpus() {
  for (const size_t i : kOfCorpus) {
    const std::string head(1, static_cast<char>(i));
    const std::string bytes = RecordBytes(ChainOf(kJudgedChains[i]), kJudgedChains[i].bucket);
    WriteSeed(absl::StrCat(kCorpus, "/chain", i), head + bytes);
    if (i < 2)
      WriteSeed(absl::StrCat(kCorpus, "/cut", i), head + bytes.substr(0, bytes.size() / 2));
  }
}

TEST(PlanRecordFuzzTest, TheCorpusAndMutationsAreHandled) {
  if (std::getenv("SINTER_UPDATE_CORPUS") != nullptr) WriteCorpus();
  int passed = 0;
  const int files =
      ReplayCorpus(Target, kCorpus, 500, 1, [&](const std::string&, const std::string& seed) {
        const JudgedChain& of =
            kJudgedChains[static_cast<uint8_t>(seed[0]) % std::size(kJudgedChains)];
        const Chain chain = ChainOf(of);
        PlanRequest request;
        request.form = IdentityForm(std::make_shared<const Chain>(chain));
        request.bucket = of.bucket;
        auto record = DecodePlanRecord(seed.substr(1));
        passed +=
            record.ok() &&
            CompletePlanRecord(request, Core().ports.model, Core(), BuildControl(), &*record).ok();
      });
  EXPECT_GE(files, 10);
  EXPECT_GE(passed, static_cast<int>(std::size(kOfCorpus)));  // so that what passes was followed
}

// Families that say what their kernels do in bytes of their own.
constexpr size_t kFirstOwn = 14;  // of kJudgedChains

// Calls `visit` with `bytes` with each `step`-th byte in turn changed: in `bits` of its bits, and
// to an extreme. An everyday run changes a third of these bytes, which the commit draws.
template <typename Visit>
void EachByteChanged(const std::string& bytes, size_t step, size_t bits, const Visit& visit) {
  for (size_t at = 0; at < bytes.size(); at += step) {
    if (!IsDrawn(at / step, 3)) continue;
    std::string changed = bytes;
    for (size_t bit = at; bit < at + bits; ++bit) {
      changed[at] = static_cast<char>(bytes[at] ^ (1 << bit % 8));
      visit(changed);
    }
    for (const char extreme : {'\0', '\xff'}) {
      changed[at] = extreme;
      visit(changed);
    }
  }
}

// A store believes a record whose hash is right, and anybody can compute that.
TEST(PlanRecordFuzzTest, BytesOfRecordsOfOwnFamiliesAreJudged) {
  constexpr size_t kStep = 7;  // no field's size, so that fields are met at any byte
  int executions = 0;
  for (size_t i = kFirstOwn; i < std::size(kJudgedChains); ++i) {
    const std::string head(1, static_cast<char>(i));
    EachByteChanged(RecordBytes(ChainOf(kJudgedChains[i]), kJudgedChains[i].bucket), kStep, 1,
                    [&](const std::string& bytes) {
                      Replay(Target, head + bytes);
                      ++executions;
                    });
  }
  std::cout << "plan record fuzz: bytes of own families " << executions << " deaths 0\n";
}

// The same of the keys that say what a kernel is, and of a record that says it is of that key.
TEST(PlanRecordFuzzTest, EachByteOfKeysOfOwnFamiliesIsJudged) {
  int executions = 0, sound = 0;
  for (size_t i = kFirstOwn; i < std::size(kJudgedChains); ++i) {
    const JudgedChain& of = kJudgedChains[i];
    PlanRequest request;
    request.form = IdentityForm(std::make_shared<const Chain>(ChainOf(of)));
    request.bucket = of.bucket;
    auto record = Got(DecodePlanRecord(RecordBytes(request.chain(), of.bucket)));
    const absl::Status made =
        CompletePlanRecord(request, Core().ports.model, Core(), BuildControl(), &record);
    ASSERT_TRUE(made.ok()) << of.line << made;
    std::set<std::string> keys;
    for (const PlanVariant& variant : record.variants) {
      keys.insert(variant.kernel_keys.begin(), variant.kernel_keys.end());
    }
    for (const std::string& key : keys) {
      const KernelKey read = Got(DecodeKernelKey(key));
      const KernelCode code = Got(ReadCode(read.code, read.schedule));
      KernelRecord kernel;
      kernel.cubin = SmallCubin("code");
      kernel.entry = code.family->TextsOfCode(code).entry;
      const auto judge = [&](const std::string& forged) {
        kernel.key = Sha256(forged);
        const std::string payload = EncodeKernelRecord(kernel);
        ++executions;
        return CheckStoredRecord(RecordKind::kKernel, forged, payload, Core()).ok();
      };
      sound += judge(key);
      EachByteChanged(key, 1, 8, judge);
    }
  }
  EXPECT_GE(sound, static_cast<int>(std::size(kJudgedChains) - kFirstOwn));
  std::cout << "plan record fuzz: bytes of keys of own families " << executions << " deaths 0\n";
}

}  // namespace
}  // namespace sinter::plan_record_fuzz
