// Measuring the GPU: in time, a model file of this device, near the built-in one where there is
// one; and as a chip without wgmma, whose file plans products.
#include "absl/strings/numbers.h"
#include "tests/gpu/gpu_tests.h"
#include "tests/gpu/other_chip.h"

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

// The figures of this GPU by the instructions of older ones. Streams reach what Hopper's own reach;
// mma.sync less than wgmma.
TEST_F(Measuring, AChipWithoutWgmmaIsMeasuredByItsOwnKernels) {
  DeviceModel nearest = ports().model;
  nearest.name = "older";
  const Ports older = Got(PortsOfPtx(TestConfig(), nearest, "compute_80"));
  const auto start = std::chrono::steady_clock::now();
  const std::string text = Got(MeasureDevice(older, TestConfig()));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::cout << text << "measured in " << seconds.count() << " s\n";
  EXPECT_LT(seconds.count(), 120);
  const DeviceModel model = Got(DeviceModel::FromText(text));
  EXPECT_EQ(model.arch, "compute_80");
  const struct {
    const char* key;
    double least, most;  // of Hopper's figure
  } kShares[] = {{"hbm_bytes_per_us", 0.75, 1.1},      {"l2_bytes_per_us", 0.5, 1.6},
                 {"l2_shared_bytes_per_us", 0.3, 1.6}, {"sm_intake_bytes_per_us", 0.4, 1.6},
                 {"shared_bytes_per_us", 0.6, 1.6},    {"launch_us", 0.6, 1.6},
                 {"grid_barrier_us", 0.6, 1.6},        {"tensor_flop_per_us", 0.4, 0.9},
                 {"tensor_fp8_flop_per_us", 0.4, 1}};
  std::set<std::string> measured;
  for (const auto& [key, provenance] : model.provenance) {
    if (provenance.ToText() == "measured") measured.insert(key);
  }
  for (const auto& [key, least, most] : kShares) {
    const double share = NumbersOf(model, key)[0] / NumbersOf(ports().model, key)[0];
    std::printf("%-24s %.3f of Hopper's\n", key, share);
    EXPECT_GT(share, least) << key;
    EXPECT_LT(share, most) << key;
    EXPECT_EQ(measured.count(key), 1u) << key;
  }
  EXPECT_EQ(measured.size(), std::size(kShares));
}

// SINTER_DEVICE_MODEL takes the file that was written, and its predictions are near the times of
// what it plans.
TEST_F(Measuring, TheFileOfSuchAChipPlansItsProducts) {
  DeviceModel nearest = ports().model;
  nearest.name = "older";
  const Ports older = Got(PortsOfPtx(TestConfig(), nearest, "compute_80"));
  const std::string file =
      std::filesystem::temp_directory_path() / absl::StrCat("sinter-measured-", getpid(), ".model");
  std::ofstream(file) << Got(MeasureDevice(older, TestConfig()));
  Config config = TestConfig();
  config.device_model = file;
  const Ports measured = Got(MakePorts(config, 0, "", StderrLog()));
  std::filesystem::remove(file);
  EXPECT_EQ(measured.model.name, "older-measured");
  for (const char* line :
       {"matmul m=M n=4096 k=4096", "scaled_matmul m=M n=4096 k=4096 codes=s8"}) {
    const Chain parsed = ParseProblem(line)->chain;
    const auto chain = Got(NormalFormOf(std::make_shared<const Chain>(parsed)))->chain;
    for (const int64_t rows : {64, 2048}) {
      SCOPED_TRACE(absl::StrCat(line, ", rows ", rows));
      const FusionResult result =
          Got(PlanChain(*chain, BucketOf(*chain, rows), measured.model, {}));
      const auto data = Got(DeviceChain::Make(measured, *chain, rows, 3));
      const auto run = Got(data->Bind(Got(BuildPlan(measured, chain, result.chosen))));
      const auto enqueue = [&](StreamHandle stream, int) {
        return run.launch(stream, rows, false);
      };
      const double us = Got(measured.measurer->TimeGraph({enqueue}, 40, 9));
      const double predicted = result.chosen.PredictedUs();
      std::printf("%s, %d rows: predicted %.1f us, took %.1f us\n", line, static_cast<int>(rows),
                  predicted, us);
      EXPECT_LT(us, 2 * predicted);
      EXPECT_GT(us, predicted / 2);
    }
  }
}

}  // namespace
}  // namespace sinter::gpu_testing::measure
