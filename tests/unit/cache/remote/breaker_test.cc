// The circuit breaker on a clock of its own.
#include "cache/remote/remote_tier.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using State = CircuitBreaker::State;

class BreakerTest : public testing::Test {
 protected:
  BreakerTest() {
    breaker_.OnChange([this](State before, State after) {
      changes_ += std::string(NameOf(before)) + ">" + NameOf(after) + " ";
    });
  }
  void Fail(int times, bool late) {
    for (int i = 0; i < times; ++i) {
      ASSERT_TRUE(breaker_.Allow(now_));
      breaker_.Failed(now_, late);
    }
  }
  void Succeed(int times) {
    for (int i = 0; i < times; ++i) {
      ASSERT_TRUE(breaker_.Allow(now_));
      breaker_.Succeeded(now_);
    }
  }

  CircuitBreaker breaker_{1};
  CircuitBreaker::Time now_{seconds(1000)};
  std::string changes_;
};

TEST_F(BreakerTest, OpensAtThreeLateAnswersInARow) {
  Fail(2, true);
  Succeed(1);
  Fail(2, true);
  EXPECT_EQ(breaker_.state(), State::kClosed);
  Fail(1, true);
  EXPECT_EQ(breaker_.state(), State::kOpen);
  EXPECT_FALSE(breaker_.Allow(now_));
  EXPECT_EQ(breaker_.times_opened(), 1u);
}

TEST_F(BreakerTest, OpensAtHalfFailuresOfTenCallsAndNotBefore) {
  Succeed(5);
  Fail(4, false);
  EXPECT_EQ(breaker_.state(), State::kClosed);
  Fail(1, false);
  EXPECT_EQ(breaker_.state(), State::kOpen);
}

TEST_F(BreakerTest, AFewFailuresAmongManySuccessesDoNotOpen) {
  for (int i = 0; i < 50; ++i) {
    Succeed(3);
    Fail(1, i % 2 == 0);
  }
  EXPECT_EQ(breaker_.state(), State::kClosed);
}

TEST_F(BreakerTest, OldCallsAreForgotten) {
  Fail(4, false);
  now_ += seconds(11);
  Succeed(5);
  Fail(1, false);
  EXPECT_EQ(breaker_.state(), State::kClosed);
}

TEST_F(BreakerTest, ProbesOnceAndClosesOnSuccess) {
  Fail(3, true);
  now_ += milliseconds(700);
  EXPECT_FALSE(breaker_.Allow(now_));
  now_ += milliseconds(301);
  EXPECT_TRUE(breaker_.Allow(now_));
  EXPECT_EQ(breaker_.state(), State::kHalfOpen);
  EXPECT_FALSE(breaker_.Allow(now_));
  breaker_.Succeeded(now_);
  EXPECT_EQ(breaker_.state(), State::kClosed);
  EXPECT_EQ(changes_, "closed>open open>half-open half-open>closed ");
}

TEST_F(BreakerTest, PausesDoubleToAMinuteAndStartAgainAfterASuccess) {
  Fail(3, true);
  for (const int64_t pause : {1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000}) {
    EXPECT_FALSE(breaker_.Allow(now_ + milliseconds(pause * 3 / 4 - 1)));
    now_ += milliseconds(pause);
    ASSERT_TRUE(breaker_.Allow(now_)) << pause;
    if (pause == 60000 && breaker_.times_opened() == 8) break;
    breaker_.Failed(now_, true);
  }
  breaker_.Succeeded(now_);
  Fail(3, true);
  EXPECT_TRUE(breaker_.Allow(now_ + seconds(1)));
}

}  // namespace
}  // namespace sinter
