// Measuring the GPU: in time, a model file of this device, near the built-in one where there is
// one.
#include "absl/strings/numbers.h"
#include "src/base/device_model.h"
#include "tests/gpu/gpu_tests.h"

namespace sinter::gpu_testing::measure {
namespace {

class Measuring : public GpuTest {};

// The numbers of a model's line.
std::vector<double> NumbersOf(const DeviceModel& model, const std::string& key) {
  std::vector<double> numbers;
  const std::string text = model.ToText();
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (line.substr(0, line.find(' ')) != key) continue;
    line = line.substr(line.find('=') + 1);
    line = line.substr(0, line.find('['));
    for (absl::string_view word : absl::StrSplit(line, ' ', absl::SkipEmpty())) {
      double number = 0;
      EXPECT_TRUE(absl::SimpleAtod(word, &number)) << word;
      numbers.push_back(number);
    }
  }
  return numbers;
}

TEST_F(Measuring, TakesUnderTwoMinutesAndGivesFiguresNearTheModels) {
  const auto start = std::chrono::steady_clock::now();
  const absl::StatusOr<std::string> text = MeasureDevice(ports(), TestConfig());
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  ASSERT_OK(text);
  std::cout << *text << "measured in " << seconds.count() << " s\n";
  EXPECT_LT(seconds.count(), 120);
  const DeviceModel model = Got(DeviceModel::FromText(*text));
  EXPECT_EQ(model.sm_count, ports().model.sm_count);
  // A figure that is wrong by more is another quantity, such as a stream that L2 served.
  constexpr double kNear = 1.6;
  for (const auto& [key, provenance] : model.provenance) {
    if (provenance.origin != Origin::kMeasured || !provenance.from.empty()) continue;
    const std::vector<double> own = NumbersOf(model, key), known = NumbersOf(ports().model, key);
    ASSERT_EQ(own.size(), known.size()) << key;
    if (key == "hbm_idle_loss") {  // a share, which moves by 0.06 between runs
      EXPECT_NEAR(own[0], known[0], 0.15);
      continue;
    }
    for (size_t i = 0; i < own.size(); ++i) {
      EXPECT_LE(own[i], kNear * known[i]) << key << " " << i;
      EXPECT_GE(own[i], known[i] / kNear) << key << " " << i;
    }
  }
}

}  // namespace
}  // namespace sinter::gpu_testing::measure
