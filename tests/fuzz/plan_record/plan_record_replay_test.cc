// Replays the corpus and seeded mutations of it through the fuzz target, so that every build runs
// some of it. SINTER_UPDATE_CORPUS=1 writes the corpus anew: a record of each of some chains.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "src/engine/keys.h"
#include "src/fusion/fusion.h"
#include "tests/fuzz/decisions/judged_chains.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/plan_record/records.h"

namespace sinter::plan_record_fuzz {

int Target(const uint8_t* data, size_t size);

namespace {

constexpr char kCorpus[] =
    "tests/fuzz/plan_record/corpus";                       // the test runs in the root of the tree
constexpr size_t kOfCorpus[] = {0, 1, 4, 5, 6, 7, 9, 12};  // of kJudgedChains

// As a cold prepare stores it, but for the tables of what lost.
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

}  // namespace
}  // namespace sinter::plan_record_fuzz
