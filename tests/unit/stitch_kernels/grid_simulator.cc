#include "tests/unit/stitch_kernels/grid_simulator.h"

namespace sinter::stitch_host {
namespace {

constexpr size_t kStack = 128 * 1024;
constexpr unsigned char kPoisonByte = 0xff;
constexpr size_t kGuardBytes = 256;  // bytes after a block's shared memory
constexpr uint64_t kMostSpins = 1000;

}  // namespace

GridSimulator::GridSimulator(const GridShape& shape, uint64_t seed)
    : shape_(shape),
      random_(static_cast<uint32_t>(seed)),
      ahead_(seed % 2 == 0),
      shared_(static_cast<size_t>(shape.grid),
              std::vector<unsigned char>(shape.shared_bytes + kGuardBytes, kPoisonByte)),
      barriers_(static_cast<size_t>(shape.grid) * kBarriers),
      clusters_(static_cast<size_t>(shape.grid / shape.cluster)) {
  simulator = this;
}

GridSimulator::~GridSimulator() { simulator = nullptr; }

GridSimulator::Fiber::Fiber() : host(kStack) {}

void GridSimulator::Enter(void* of) {
  auto* self = static_cast<GridSimulator*>(of);
  self->kernel_();
  ++self->ended_;
}

void GridSimulator::MakeFiber(int number) {
  fibers_.push_back(std::make_unique<Fiber>());
  Fiber* fiber = fibers_.back().get();
  fiber->block = number / shape_.block;
  fiber->thread = number % shape_.block;
  fiber->host.Begin(&Enter, this);
  ready_.push_back(fiber);
}

std::string GridSimulator::Run(const std::function<void()>& kernel) {
  kernel_ = kernel;
  for (int i = 0; i < shape_.grid * shape_.block; ++i) MakeFiber(i);
  while (error_.empty() && !ready_.empty()) {
    // In even seeds a warp runs ahead as far as it can.
    if (!ahead_ || random_() % 64 == 0) std::swap(ready_[random_() % ready_.size()], ready_.back());
    current_ = ready_.back();
    ready_.pop_back();
    current_->host.Resume();
    current_ = nullptr;
  }
  if (error_.empty() && ended_ != fibers_.size()) {
    error_ = std::to_string(fibers_.size() - ended_) + " threads wait for ever";
  }
  if (error_.empty()) CheckGuards();
  return error_;
}

void GridSimulator::CheckGuards() {
  for (const std::vector<unsigned char>& memory : shared_) {
    const auto begin = memory.end() - static_cast<std::ptrdiff_t>(kGuardBytes);
    if (std::any_of(begin, memory.end(), [](unsigned char b) { return b != kPoisonByte; })) {
      error_ = "written behind the shared memory";
    }
  }
}

void GridSimulator::Leave() { current_->host.Leave(); }

// The run ends; a fiber that failed is never resumed.
void GridSimulator::Fail(const std::string& what) {
  if (error_.empty()) {
    error_ = what + " by block " + std::to_string(block()) + " thread " + std::to_string(thread());
  }
  Leave();
}

void GridSimulator::Release(Barrier* barrier) {
  barrier->arrived = 0;
  ++barrier->phase;
  spins_ = 0;
  ready_.insert(ready_.end(), barrier->waiting.begin(), barrier->waiting.end());
  barrier->waiting.clear();
}

void GridSimulator::Meet(uint32_t id, uint32_t threads) {
  if (id >= kBarriers) Fail("no such barrier");
  MeetAt(&barriers_[static_cast<size_t>(block()) * kBarriers + id], threads);
}

void GridSimulator::MeetAt(Barrier* barrier, uint32_t threads) {
  if (barrier->arrived > 0 && barrier->threads != threads) Fail("a barrier of different counts");
  barrier->threads = threads;
  if (++barrier->arrived == threads) return Release(barrier);
  barrier->waiting.push_back(current_);
  Leave();
}

// Two sets of words take turns: all lanes have read the one before it is written again.
uint32_t GridSimulator::Exchange(uint32_t bits, uint32_t flip, uint32_t lanes) {
  const uint32_t lane = static_cast<uint32_t>(thread() % 32);
  const auto count = static_cast<uint32_t>(__builtin_popcount(lanes));
  if ((lanes >> lane & 1) == 0 || flip >= count) Fail("a shuffle with a lane that is not there");
  Lanes& words = lanes_[{block() * (shape_.block / 32) + thread() / 32, lanes}];
  const uint64_t turn = words.barrier.phase % 2;
  words.bits[turn][lane] = bits;
  MeetAt(&words.barrier, count);
  return words.bits[turn][lane ^ flip];
}

void GridSimulator::ClusterArrive() {
  if (current_->arrived) Fail("arrives twice at its cluster's barrier");
  Barrier& barrier = clusters_[static_cast<size_t>(block() / shape_.cluster)];
  current_->arrived = true;
  current_->cluster_phase = barrier.phase;
  if (++barrier.arrived == static_cast<uint32_t>(shape_.cluster * shape_.block)) Release(&barrier);
}

void GridSimulator::ClusterWait() {
  if (!current_->arrived) Fail("waits at its cluster's barrier without arriving");
  current_->arrived = false;
  Barrier& barrier = clusters_[static_cast<size_t>(block() / shape_.cluster)];
  if (barrier.phase != current_->cluster_phase) return;
  barrier.waiting.push_back(current_);
  Leave();
}

void GridSimulator::Spin() {
  if (++spins_ > kMostSpins * fibers_.size()) Fail("spins for ever");
  ready_.push_back(current_);
  Leave();
}

void* GridSimulator::PeerWord(uint32_t offset, uint32_t rank) {
  if (offset % 4 != 0 || offset + 4 > shape_.shared_bytes) Fail("a peer's word out of bounds");
  if (rank >= static_cast<uint32_t>(shape_.cluster)) Fail("a peer that is not in the cluster");
  return SharedOf(block() / shape_.cluster * shape_.cluster + static_cast<int>(rank)) + offset;
}

}  // namespace sinter::stitch_host
