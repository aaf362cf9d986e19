// Every exchange of src/device/dsm, forced at cluster sizes 2, 4, 8 and 16 and at groups smaller
// than their cluster, with random pauses and spin traps: every element of every launch is compared
// on the device with a float64 evaluation, and fixed orders give the same bits every time. Inboxes
// are NaN before each launch, inputs change from round to round and from launch to launch.
// dsm_kernels.h says what each case would notice.
// SINTER_DSM_LAUNCHES: launches of each whole cluster (10000); groups of one get a fifth.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/gpu/dsm_device.h"
#include "tests/gpu/gpu_fixture.h"

namespace sinter::gpu_testing {
namespace {

constexpr int kLanes = 8;  // streams that the hardware runs beside one another by default
constexpr int kLaunches = 10000;

int LaunchesOf(const DsmCase& c) {
  const char* text = std::getenv("SINTER_DSM_LAUNCHES");
  const int given = text == nullptr ? 0 : std::atoi(text);
  const int whole = given > 0 ? given : kLaunches;
  const int launches = c.cluster == c.ranks ? whole : whole / 5;
  return std::max(2 * kDsmSets, launches / kDsmSets * kDsmSets);
}

double Now() {
  const std::chrono::duration<double> now = std::chrono::steady_clock::now().time_since_epoch();
  return now.count();
}

struct Prepared {
  std::unique_ptr<DsmRun> run;
  uint32_t digest_of_sets = 0;
};

class Dsm : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto device = DsmDevice::Open(TestConfig(), kLanes);
    ASSERT_OK(device);
    device_ = *std::move(device);
  }
  static void TearDownTestSuite() { device_ = nullptr; }
  void SetUp() override { ASSERT_NE(device_, nullptr); }

  // Compiles all cases; then each runs alone, so that a fault names its case. After a fault the
  // context is lost: the rest is left out.
  static void Prepare(std::vector<Prepared>* prepared) {
    const std::vector<DsmCase> cases = AllDsmCases();
    std::vector<CompileRequest> requests;
    for (const DsmCase& c : cases) requests.push_back(DsmRequest(c));
    const double start = Now();
    const auto compiled = device_->CompileAll(requests);
    std::printf("%zu kernels compiled in %.1f s\n", cases.size(), Now() - start);
    for (size_t i = 0; i < cases.size(); ++i) {
      SCOPED_TRACE(cases[i].Name());
      ASSERT_OK(compiled[i]);
      auto run = DsmRun::Make(device_.get(), cases[i], *compiled[i], 100 + i);
      ASSERT_OK(run);
      Prepared p{*std::move(run), 0};
      ASSERT_OK(p.run->Launch(device_->lane(0), kDsmSets)) << "the launch itself failed";
      const auto first = p.run->Read(device_->lane(0));
      ASSERT_OK(first);
      p.digest_of_sets = (*first)[kDsmDigest];
      EXPECT_OK(p.run->Check(*first, p.digest_of_sets));
      prepared->push_back(std::move(p));
    }
  }

  // All launches of a case, on one lane.
  static absl::Status RunAll(Prepared* p, Measurer& lane) {
    const int more = LaunchesOf(p->run->dsm_case()) - p->run->launches();
    const double start = Now();
    absl::Status status = p->run->Launch(lane, more);
    if (!status.ok()) return status;
    const double us = (Now() - start) * 1e6 / more;
    const auto report = p->run->Read(lane);
    if (!report.ok()) return report.status();
    status = p->run->Check(*report, p->digest_of_sets);
    std::printf("%-44s %6d launches %7.1f us each  %s\n", p->run->dsm_case().Name().c_str(),
                p->run->launches(), us, status.ok() ? "right" : "WRONG");
    return status;
  }

  static std::unique_ptr<DsmDevice> device_;
};
std::unique_ptr<DsmDevice> Dsm::device_;

TEST_F(Dsm, EveryExchangeIsRightInTenThousandLaunches) {
  std::vector<Prepared> prepared;
  Prepare(&prepared);
  if (HasFailure()) return;
  std::vector<absl::Status> results(prepared.size());
  std::atomic<size_t> next{0};
  std::atomic<bool> lost{false};
  std::vector<std::thread> threads;
  const double start = Now();
  for (int t = 0; t < kLanes; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = next++; i < prepared.size() && !lost; i = next++) {
        results[i] = RunAll(&prepared[i], device_->lane(t));
        // A wrong value is the case's; anything else may be the fault of any case under way.
        if (!results[i].ok() && !absl::IsDataLoss(results[i])) lost = true;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::printf("%zu cases in %.1f s\n", prepared.size(), Now() - start);
  for (size_t i = 0; i < prepared.size(); ++i)
    EXPECT_OK(results[i]) << prepared[i].run->dsm_case().Name();
}

}  // namespace
}  // namespace sinter::gpu_testing
