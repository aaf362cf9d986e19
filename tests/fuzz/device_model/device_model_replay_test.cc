// Replays the corpus and seeded mutations of it through the fuzz target, so that every build runs
// some of it. SINTER_UPDATE_CORPUS=1 rewrites the corpus.
#include "absl/strings/numbers.h"
#include "src/base/device_model.h"
#include "tests/fuzz/mutate.h"
#include "tests/support/test.h"

namespace sinter::device_model_fuzz {

int Target(const uint8_t* data, size_t size);

namespace {

// The test runs in the root of the tree.
constexpr char kCorpus[] = "tests/fuzz/device_model/corpus";

// Every figure that takes it at the low or the high end of its bounds.
DeviceModel AtTheEnd(bool high) {
  DeviceModel model = *BuiltinModel("h200");
  VisitFields(model, [&](absl::string_view key, auto&, double low, double most) {
    const std::string end = absl::StrCat(high ? most : low);
    static_cast<void>(model.Assign(key, end, model.provenance[std::string(key)]));
  });
  // As many clusters as fit.
  if (!high) model.resident_clusters = {1, 0, 0, 0, 0};
  return model;
}

void WriteCorpus() {
  const std::string h200 = BuiltinModel("h200")->ToText();
  WriteSeed(absl::StrCat(kCorpus, "/h200"), h200);
  WriteSeed(absl::StrCat(kCorpus, "/h100"), BuiltinModel("h100")->ToText());
  WriteSeed(absl::StrCat(kCorpus, "/low"), AtTheEnd(false).ToText());
  WriteSeed(absl::StrCat(kCorpus, "/high"), AtTheEnd(true).ToText());
  WriteSeed(absl::StrCat(kCorpus, "/cut"), h200.substr(0, h200.size() / 2));
}

TEST(DeviceModelFuzzTest, TheCorpusAndMutationsAreHandled) {
  if (std::getenv("SINTER_UPDATE_CORPUS") != nullptr) WriteCorpus();
  int accepted = 0;
  const int files =
      ReplayCorpus(Target, kCorpus, 1000, 0, [&](const std::string& name, const std::string& seed) {
        const auto model = DeviceModel::FromText(seed);
        EXPECT_EQ(model.ok(), name != "cut") << name << ": " << model.status();
        accepted += model.ok() ? 1 : 0;
      });
  EXPECT_GE(files, 5);
  EXPECT_GE(accepted, 4);
}

}  // namespace
}  // namespace sinter::device_model_fuzz
