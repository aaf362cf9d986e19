#include <algorithm>

#include "cache/remote/remote_tier.h"

namespace sinter {
namespace {

constexpr std::chrono::seconds kWindow(10);
constexpr size_t kLeastCalls = 10;
constexpr size_t kMostCalls = 1000;  // kept
constexpr int kLateInARow = 3;
constexpr std::chrono::milliseconds kFirstPause(1000), kLongestPause(60000);

}  // namespace

bool CircuitBreaker::Allow(Time now) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (state_ == State::kClosed) return true;
    if (state_ == State::kHalfOpen || now < until_) return false;
    state_ = State::kHalfOpen;
  }
  Tell(State::kOpen, State::kHalfOpen);
  return true;
}

void CircuitBreaker::Note(Time now, bool failed) {
  calls_.push_back({now, failed});
  while (now - calls_.front().at > kWindow || calls_.size() > kMostCalls) calls_.pop_front();
}

void CircuitBreaker::Succeeded(Time now) {
  State before;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    before = state_;
    late_in_a_row_ = 0;
    if (state_ == State::kOpen) return;  // a call from before it opened
    if (state_ == State::kHalfOpen) {
      calls_.clear();
      pause_ = kFirstPause;
    }
    state_ = State::kClosed;
    Note(now, false);
  }
  Tell(before, State::kClosed);
}

void CircuitBreaker::Open(Time now) {
  random_ = random_ * 6364136223846793005u + 1442695040888963407u;
  const int64_t most = pause_.count() / 4;
  const auto shorter = static_cast<int64_t>((random_ >> 33) % static_cast<uint64_t>(most + 1));
  until_ = now + pause_ - std::chrono::milliseconds(shorter);
  pause_ = std::min(2 * pause_, kLongestPause);
  state_ = State::kOpen;
  late_in_a_row_ = 0;
  calls_.clear();
  ++opened_;
}

void CircuitBreaker::Failed(Time now, bool late) {
  State before;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    before = state_;
    if (state_ == State::kOpen) return;
    late_in_a_row_ = late ? late_in_a_row_ + 1 : 0;
    Note(now, true);
    const auto failed = static_cast<size_t>(
        std::count_if(calls_.begin(), calls_.end(), [](const Call& c) { return c.failed; }));
    const bool often = calls_.size() >= kLeastCalls && 2 * failed >= calls_.size();
    if (state_ != State::kHalfOpen && !often && late_in_a_row_ < kLateInARow) return;
    Open(now);
  }
  Tell(before, State::kOpen);
}

CircuitBreaker::State CircuitBreaker::state() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return state_;
}

uint64_t CircuitBreaker::times_opened() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return opened_;
}

const char* NameOf(CircuitBreaker::State state) {
  switch (state) {
    case CircuitBreaker::State::kClosed:
      return "closed";
    case CircuitBreaker::State::kOpen:
      return "open";
    case CircuitBreaker::State::kHalfOpen:
      return "half-open";
  }
  return "invalid";
}

}  // namespace sinter
