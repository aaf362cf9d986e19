#include "src/base/keep_going.h"

#include "tests/support/test.h"

namespace sinter {
namespace {

// Says no from its `refusal`-th ask on.
class Counting : public KeepGoing {
 public:
  explicit Counting(int refusal) : refusal_(refusal) {}
  absl::Status Check() const override {
    return ++asks < refusal_ ? absl::OkStatus() : absl::CancelledError("enough");
  }
  mutable int asks = 0;

 private:
  const int refusal_;
};

TEST(KeepGoingTest, APaceAsksOnceInSoManySteps) {
  const Counting port(1000000);
  Pace pace(&port);
  for (int i = 0; i < 10 * Pace::kStride; ++i) pace.Step();
  EXPECT_GE(port.asks, 9);
  EXPECT_LE(port.asks, 10);
}

TEST(KeepGoingTest, ManyStepsAtOnceAreAskedForAtOnce) {
  const Counting port(1000000);
  Pace pace(&port);
  pace.Step(Pace::kStride + 1);
  EXPECT_EQ(port.asks, 1);
  pace.Ask();
  EXPECT_EQ(port.asks, 2);
}

TEST(KeepGoingTest, WorkThatIsNotWantedEndsWithThePortsStatus) {
  const Counting port(3);
  int64_t done = 0;
  const absl::StatusOr<int> result = Stoppable(&port, [&](Pace* pace) -> absl::StatusOr<int> {
    for (;; ++done) Step(pace);
  });
  EXPECT_EQ(result.status(), absl::CancelledError("enough"));
  EXPECT_EQ(port.asks, 3);
  EXPECT_LE(done, 3 * (Pace::kStride + 1));
}

TEST(KeepGoingTest, WithoutAPortOrAPaceNobodyIsAsked) {
  const absl::StatusOr<int> result = Stoppable(nullptr, [](Pace* pace) -> absl::StatusOr<int> {
    Step(pace, 10 * Pace::kStride);
    Ask(pace);
    return 7;
  });
  EXPECT_EQ(result.value(), 7);
  Step(nullptr);
  Ask(nullptr);
}

}  // namespace
}  // namespace sinter
