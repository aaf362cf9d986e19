#include "tests/unit/handover/simulator.h"

namespace sinter::handover_simulator {
namespace {

constexpr size_t kStack = 64 * 1024;
constexpr uint8_t kPoison = 0xFF;

}  // namespace

Simulator::Simulator(Shape shape, uint64_t seed, Mutation mutation)
    : shape_(shape),
      mutation_(std::move(mutation)),
      random_(static_cast<uint32_t>(seed)),
      network_pace_(1 + Random(4) * Random(4)),
      slow_block_(Random(2 * static_cast<uint32_t>(shape.Blocks()))),
      running_(static_cast<size_t>(shape.Blocks()), shape.threads),
      memory_(static_cast<size_t>(shape.Blocks()), std::vector<uint8_t>(kWindow, kPoison)),
      clusters_(static_cast<size_t>(shape.clusters)) {
  simulator = this;
}

Simulator::~Simulator() { simulator = nullptr; }

Simulator::Fiber::Fiber() : host(kStack) {}

void Simulator::Enter(void* of) {
  auto* self = static_cast<Simulator*>(of);
  self->kernel_();
  Fiber* fiber = self->current_;
  fiber->done = true;
  --self->running_[static_cast<size_t>(fiber->block)];
}

std::string Simulator::Run(const std::function<void()>& kernel) {
  kernel_ = kernel;
  for (int i = 0; i < shape_.Blocks() * shape_.threads; ++i) {
    auto fiber = std::make_unique<Fiber>();
    fiber->block = i / shape_.threads;
    fiber->thread = i % shape_.threads;
    fiber->host.Begin(&Enter, this);
    fibers_.push_back(std::move(fiber));
  }
  while (error_.empty() && Step()) {
  }
  return error_;
}

bool Simulator::Step() {
  if (!messages_.empty() && Random(network_pace_) == 0) {
    Deliver();
    return true;
  }
  for (int attempt = 0; attempt < 64; ++attempt) {
    Fiber& fiber = *fibers_[Random(static_cast<uint32_t>(fibers_.size()))];
    const bool slow = static_cast<uint32_t>(fiber.block) == slow_block_ && Random(16) != 0;
    if (!slow && Resume(fiber)) return true;
  }
  const uint32_t start = Random(static_cast<uint32_t>(fibers_.size()));
  bool all_done = true;
  for (size_t i = 0; i < fibers_.size(); ++i) {
    Fiber& fiber = *fibers_[(start + i) % fibers_.size()];
    all_done = all_done && fiber.done;
    if (Resume(fiber)) return true;
  }
  if (!messages_.empty()) {
    Deliver();
    return true;
  }
  if (!all_done) Fail("nothing can go on");
  return false;
}

bool Simulator::Resume(Fiber& fiber) {
  if (fiber.done || (fiber.ready && !fiber.ready())) return false;
  fiber.ready = nullptr;
  current_ = &fiber;
  fiber.host.Resume();
  current_ = nullptr;
  return true;
}

void Simulator::Yield() { current_->host.Leave(); }

void Simulator::Pause() {
  if (current_ != nullptr && Random(3) == 0) Yield();
}

void Simulator::Block(std::function<bool()> ready) {
  Pause();
  if (ready()) return;
  current_->ready = std::move(ready);
  Yield();
}

// The run ends; a fiber that failed is never resumed.
void Simulator::Fail(const std::string& what) {
  if (error_.empty()) {
    error_ = what;
    if (current_ != nullptr) {
      error_ += " by block " + std::to_string(current_->block) + " thread " +
                std::to_string(current_->thread);
    }
  }
  if (current_ != nullptr) Yield();
}

int Simulator::Thread() const { return current_->thread; }
int Simulator::Block() const { return current_->block; }

uint32_t Simulator::Map(uint32_t address, uint32_t rank) const {
  const auto block = static_cast<uint32_t>(Cluster() * shape_.blocks) + rank;
  return (address & (kWindow - 1)) | (block + 1) << kBlockShift;
}

uint32_t Simulator::Global(uint32_t address) const {
  return address >> kBlockShift != 0 ? address : Map(address, static_cast<uint32_t>(Rank()));
}

bool Simulator::Alive(uint32_t address) const { return running_[(address >> kBlockShift) - 1] > 0; }

uint8_t* Simulator::At(uint32_t address, uint32_t bytes) {
  address = Global(address);
  const uint32_t block = (address >> kBlockShift) - 1, offset = address & (kWindow - 1);
  if (offset + bytes > kWindow || offset % std::min(bytes, 16u) != 0) Fail("bad shared address");
  return memory_[block].data() + offset;
}

void Simulator::StoreGlobal(float* to, float value) {
  Pause();
  *to = value;
  unfenced_[to] = current_;
}

void Simulator::FenceProxy() {
  Pause();
  if (mutation_.no_fences) return;
  for (auto at = unfenced_.begin(); at != unfenced_.end();) {
    at = at->second == current_ ? unfenced_.erase(at) : std::next(at);
  }
}

void Simulator::InitBarrier(uint32_t barrier, uint32_t arrivals) {
  if (arrivals == 0) Fail("a barrier without arrivals");
  barriers_[Global(barrier)] = Barrier{arrivals, arrivals, 0, 0};
}

Simulator::Barrier& Simulator::BarrierAt(uint32_t barrier) {
  const auto found = barriers_.find(Global(barrier));
  if (found == barriers_.end()) Fail("a barrier that was not initialised");
  return found->second;
}

void Simulator::Complete(Barrier& barrier) {
  if (barrier.pending != 0 || barrier.bytes != 0) return;
  barrier.pending = barrier.count;
  ++barrier.phase;
}

void Simulator::Arrive(uint32_t barrier, int64_t expected_bytes) {
  Pause();
  Barrier& b = BarrierAt(barrier);
  if (b.pending == 0) Fail("more arrivals than a phase takes");
  b.bytes -= expected_bytes;
  --b.pending;
  Complete(b);
}

void Simulator::ArriveRemote(uint32_t barrier) {
  Pause();
  if (mutation_.no_remote_arrivals) return;
  if (!Alive(barrier)) Fail("an arrival at a block that has left");
  Arrive(barrier, 0);
}

void Simulator::Wait(uint32_t barrier, uint32_t parity) {
  if (mutation_.passed_waits.count(barrier) != 0) return Pause();
  const Barrier* b = &BarrierAt(barrier);
  Block([b, parity] { return (b->phase & 1) != parity; });
}

void Simulator::Send(uint32_t to, uint32_t barrier, const void* value, uint32_t bytes) {
  Pause();
  if (to >> kBlockShift != barrier >> kBlockShift) Fail("bytes and barrier of different blocks");
  Message m;
  m.to = to, m.barrier = barrier, m.bytes = bytes;
  if (bytes > sizeof m.value) Fail("more bytes than a store sends");
  std::memcpy(m.value, value, bytes);
  messages_.push_back(m);
  remote_bytes_ += bytes;
}

void Simulator::LoadBulk(uint32_t to, const float* from, uint32_t bytes, uint32_t barrier) {
  Pause();
  if (bytes % 16 != 0 || to % 16 != 0) Fail("a bulk load of odd bytes");
  for (uint32_t i = 0; i < bytes / 4; ++i) {
    if (unfenced_.count(from + i) != 0) Fail("a bulk load of stores that were not fenced");
  }
  Message m;
  m.to = Global(to), m.barrier = Global(barrier), m.bytes = bytes, m.from = from;
  messages_.push_back(m);
}

void Simulator::Deliver() {
  const size_t at = Random(static_cast<uint32_t>(messages_.size()));
  const Message m = messages_[at];
  messages_[at] = messages_.back();
  messages_.pop_back();
  if (!Alive(m.to)) return Fail("bytes for a block that has left");
  const void* const from = m.from != nullptr ? static_cast<const void*>(m.from) : m.value;
  std::memcpy(At(m.to, 4), from, m.bytes);
  const auto b = barriers_.find(m.barrier);
  if (b == barriers_.end()) return Fail("bytes on a barrier that was not initialised");
  b->second.bytes += m.bytes;
  Complete(b->second);
}

void Simulator::Meet(uint32_t id, uint32_t threads) {
  Pause();
  if (mutation_.no_meetings) return;
  Meeting& meeting = meetings_[{current_->block, id}];
  const uint32_t phase = meeting.phase;
  if (++meeting.arrived == threads) {
    meeting.arrived = 0;
    ++meeting.phase;
  }
  Block([&meeting, phase] { return meeting.phase != phase; });
}

void Simulator::ClusterArrive() {
  ClusterBarrier& barrier = clusters_[static_cast<size_t>(Cluster())];
  current_->cluster_phase = barrier.phase;
  if (++barrier.arrived == static_cast<uint32_t>(shape_.blocks * shape_.threads)) {
    barrier.arrived = 0;
    ++barrier.phase;
  }
  Pause();
}

void Simulator::ClusterWait() {
  ClusterBarrier& barrier = clusters_[static_cast<size_t>(Cluster())];
  const uint32_t phase = current_->cluster_phase;
  Block([&barrier, phase] { return barrier.phase != phase; });
}

}  // namespace sinter::handover_simulator
