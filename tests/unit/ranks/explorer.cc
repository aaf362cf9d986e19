#include "tests/unit/ranks/explorer.h"

namespace sinter::rank_explorer {
namespace {

constexpr size_t kStack = 32 * 1024;
constexpr uint64_t kTimeStep = 1000;

// Places in a room that mutations touch; the test compares them with the device's.
constexpr size_t kOutcomeAt = 8, kHeadersBegin = 1024, kSlotsBegin = 4096;
constexpr size_t kHeaderBytes = 2 * 8 * 16;

uint64_t Mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9E3779B97F4A7C15ull + (hash << 6) + (hash >> 2);
  hash *= 0xFF51AFD7ED558CCDull;
  return hash ^ hash >> 33;
}

uint64_t MixBytes(uint64_t hash, const void* data, size_t bytes) {
  const auto* at = static_cast<const unsigned char*>(data);
  for (; bytes >= 8; bytes -= 8, at += 8) {
    uint64_t word;
    std::memcpy(&word, at, 8);
    hash = Mix(hash, word);
  }
  for (; bytes > 0; --bytes, ++at) hash = Mix(hash, *at);
  return hash;
}

}  // namespace

Explorer::Fiber::Fiber() : host(kStack) {}

Explorer::Explorer(const Scenario& scenario, const Subject& subject)
    : scenario_(scenario), subject_(subject) {
  explorer = this;
  for (int i = 0; i < scenario_.ranks * scenario_.blocks; ++i) {
    fibers_.push_back(std::make_unique<Fiber>());
  }
}

Explorer::~Explorer() { explorer = nullptr; }

void Explorer::Enter(void* of) {
  auto* self = static_cast<Explorer*>(of);
  Fiber* fiber = self->current_;
  Rank& rank = self->ranks_[static_cast<size_t>(fiber->rank)];
  for (; fiber->call < self->scenario_.calls; ++fiber->call) {
    self->subject_.kernel(fiber->rank, fiber->call);
    self->Effect(1);
    ++rank.blocks_ended[static_cast<size_t>(fiber->call)];
    if (rank.blocks_ended[static_cast<size_t>(fiber->call)] == self->scenario_.blocks) {
      const std::string wrong = self->subject_.after_call(fiber->rank, fiber->call);
      if (self->error_.empty()) self->error_ = wrong;
    }
  }
  fiber->done = true;
}

void Explorer::Begin() {
  subject_.reset();
  travelling_.clear();
  now_ = 1;
  died_ = aborted_ = time_passed_ = false;
  error_.clear();
  ranks_.assign(static_cast<size_t>(scenario_.ranks), Rank());
  for (Rank& rank : ranks_) rank.blocks_ended.assign(static_cast<size_t>(scenario_.calls), 0);
  for (size_t i = 0; i < fibers_.size(); ++i) {
    Fiber& fiber = *fibers_[i];
    static_cast<BlockState&>(fiber) = BlockState();
    fiber.rank = static_cast<int>(i) / scenario_.blocks;
    fiber.block = static_cast<int>(i) % scenario_.blocks;
    fiber.host.Begin(&Enter, this);
  }
}

bool Explorer::CallEnded(int rank, int call) const {
  if (call < 0) return true;
  if (ranks_[static_cast<size_t>(rank)].blocks_ended[static_cast<size_t>(call)] <
      scenario_.blocks) {
    return false;
  }
  return std::none_of(travelling_.begin(), travelling_.end(),
                      [&](const Travelling& store) { return store.rank == rank; });
}

bool Explorer::Ready(const Fiber& fiber) const {
  const Rank& rank = ranks_[static_cast<size_t>(fiber.rank)];
  if (fiber.done || rank.dead) return false;
  if (fiber.at_boundary) return CallEnded(fiber.rank, fiber.call - 1);
  return !fiber.polls || fiber.slept != rank.version;
}

std::vector<Explorer::Option> Explorer::Options() const {
  std::vector<Option> options;
  bool waits = false, lives = false;
  for (size_t i = 0; i < fibers_.size(); ++i) {
    if (Ready(*fibers_[i])) options.push_back({Kind::kBlock, static_cast<int>(i)});
    if (!fibers_[i]->done && !ranks_[static_cast<size_t>(fibers_[i]->rank)].dead) waits = true;
  }
  lives = !options.empty();
  for (size_t i = 0; i < travelling_.size(); ++i) {
    const bool first = std::none_of(
        travelling_.begin(), travelling_.begin() + static_cast<std::ptrdiff_t>(i),
        [&](const Travelling& earlier) {
          return earlier.rank == travelling_[i].rank && earlier.to == travelling_[i].to;
        });
    if (!first) continue;
    options.push_back({Kind::kArrival, static_cast<int>(i)});
    if (!ranks_[static_cast<size_t>(travelling_[i].rank)].dead) lives = true;
  }
  if (!waits) return options;
  if (scenario_.dies >= 0 && !died_) options.push_back({Kind::kDeath, scenario_.dies});
  if (scenario_.aborted >= 0 && !aborted_) options.push_back({Kind::kAbort, scenario_.aborted});
  if (!time_passed_ && scenario_.timed && (scenario_.time_passes || !lives)) {
    options.push_back({Kind::kTime, 0});
  }
  return options;
}

void Explorer::Take(const Option& option) {
  switch (option.kind) {
    case Kind::kBlock: {
      Fiber& fiber = *fibers_[static_cast<size_t>(option.index)];
      fiber.at_boundary = fiber.polls = false;
      current_ = &fiber;
      fiber.host.Resume();
      current_ = nullptr;
      return;
    }
    case Kind::kArrival: {
      const Travelling store = travelling_[static_cast<size_t>(option.index)];
      travelling_.erase(travelling_.begin() + option.index);
      std::memcpy(store.to, store.value, store.bytes);
      const int room = RoomOf(store.to);
      if (room >= 0) ++ranks_[static_cast<size_t>(room)].version;
      return;
    }
    case Kind::kDeath:
      died_ = true;
      ranks_[static_cast<size_t>(option.index)].dead = true;
      return;
    case Kind::kAbort:
      aborted_ = true;
      subject_.host_words(option.index)[1] = 3u | static_cast<uint32_t>(option.index) << 8;
      ++ranks_[static_cast<size_t>(option.index)].version;
      return;
    case Kind::kTime:
      time_passed_ = true;
      now_ += kTimeStep;
      for (Rank& rank : ranks_) ++rank.version;
  }
}

Explorer::Step Explorer::StepOf(const Option& option) const {
  Step step{option.kind};
  if (option.kind == Kind::kBlock) {
    const Fiber& fiber = *fibers_[static_cast<size_t>(option.index)];
    step.rank = fiber.rank;
    step.block = fiber.block;
    step.call = fiber.call;
  } else if (option.kind == Kind::kArrival) {
    const Travelling& store = travelling_[static_cast<size_t>(option.index)];
    step.rank = store.rank;
    step.to = store.to;
  }
  return step;
}

std::string Explorer::Describe(const std::vector<Step>& steps) const {
  std::string text;
  for (const Step& step : steps) {
    switch (step.kind) {
      case Kind::kBlock:
        text += " r" + std::to_string(step.rank);
        if (scenario_.blocks > 1) text += "b" + std::to_string(step.block);
        text += "c" + std::to_string(step.call);
        break;
      case Kind::kArrival: {
        const int room = RoomOf(step.to);
        text += " r" + std::to_string(step.rank) + ">";
        text += room < 0
                    ? "host"
                    : std::to_string(room) + "@" + std::to_string(step.to - subject_.room(room));
        break;
      }
      case Kind::kDeath:
        text += " death";
        break;
      case Kind::kAbort:
        text += " abort";
        break;
      case Kind::kTime:
        text += " time";
    }
  }
  return text;
}

uint64_t Explorer::State() const {
  uint64_t hash = now_ + 7 * died_ + 13 * aborted_ + 31 * time_passed_;
  for (int r = 0; r < scenario_.ranks; ++r) {
    const Rank& rank = ranks_[static_cast<size_t>(r)];
    hash = MixBytes(hash, subject_.room(r), 16);
    hash = MixBytes(hash, subject_.room(r) + kHeadersBegin, kHeaderBytes);
    hash = MixBytes(hash, subject_.room(r) + kSlotsBegin, subject_.room_bytes - kSlotsBegin);
    hash = MixBytes(hash, subject_.host_words(r), 8);
    hash = Mix(hash, rank.dead);
    for (const int ended : rank.blocks_ended) hash = Mix(hash, static_cast<uint64_t>(ended));
  }
  // in any order, except that stores to one address, which come from one rank, stay in order
  uint64_t stores = 0;
  for (size_t i = 0; i < travelling_.size(); ++i) {
    const Travelling& store = travelling_[i];
    const auto earlier = std::count_if(
        travelling_.begin(), travelling_.begin() + static_cast<std::ptrdiff_t>(i),
        [&](const Travelling& other) { return other.to == store.to && other.rank == store.rank; });
    uint64_t one = Mix(static_cast<uint64_t>(store.rank), reinterpret_cast<uintptr_t>(store.to));
    one = Mix(one, static_cast<uint64_t>(earlier));
    stores += MixBytes(one, store.value, store.bytes);
  }
  hash = Mix(hash, stores);
  for (const auto& fiber : fibers_) {
    const uint64_t version = ranks_[static_cast<size_t>(fiber->rank)].version;
    hash = Mix(hash, fiber->known);
    hash = Mix(hash, fiber->tentative);
    hash = Mix(hash, fiber->since);
    hash = Mix(hash, static_cast<uint64_t>(fiber->done) + 2 * fiber->at_boundary +
                         4 * fiber->polls + 8 * fiber->slept_before +
                         16 * (fiber->slept_before && fiber->slept != version) +
                         32 * static_cast<uint64_t>(fiber->call));
  }
  return hash;
}

std::string Explorer::AtEnd() {
  std::vector<bool> ended;
  for (int r = 0; r < scenario_.ranks; ++r) {
    ended.push_back(CallEnded(r, scenario_.calls - 1));
    if (!ended.back() && !ranks_[static_cast<size_t>(r)].dead) {
      return "rank " + std::to_string(r) + " hangs";
    }
  }
  return subject_.at_end(ended);
}

Exploration Explorer::Explore(uint64_t most_states) {
  Exploration result;
  std::unordered_set<uint64_t> seen;
  std::vector<std::pair<std::vector<Option>, size_t>> path;  // what could be taken, and was
  for (;;) {
    ++result.runs;
    Begin();
    std::vector<Step> steps;
    size_t depth = 0;
    for (;; ++depth) {
      if (depth >= path.size()) {
        std::vector<Option> options = Options();
        // A rank that can die may also live, so an end with deaths left is an end too.
        const bool over = std::none_of(options.begin(), options.end(), [](const Option& option) {
          return option.kind != Kind::kDeath && option.kind != Kind::kAbort;
        });
        if (over && error_.empty()) {
          bool lives = false;
          for (const auto& fiber : fibers_) {
            lives = lives || (!fiber->done && !ranks_[static_cast<size_t>(fiber->rank)].dead);
          }
          if (options.empty() || !lives || (died_ && aborted_)) {
            ++result.ends;
            error_ = AtEnd();
          }
        }
        if (options.empty() || !error_.empty()) break;
        if (!seen.insert(State()).second) break;
        path.emplace_back(std::move(options), 0);
      }
      const Option& option = path[depth].first[path[depth].second];
      steps.push_back(StepOf(option));
      Take(option);
      if (!error_.empty()) break;
    }
    result.states = seen.size();
    if (!error_.empty()) {
      result.error = error_ + ", after" + Describe(steps);
      return result;
    }
    if (result.states > most_states) {
      result.error = "more states than expected";
      return result;
    }
    path.resize(std::min(path.size(), depth + 1));
    while (!path.empty() && path.back().second + 1 == path.back().first.size()) path.pop_back();
    if (path.empty()) return result;
    ++path.back().second;
  }
}

Exploration Explorer::Sample(int runs, uint32_t seed) {
  Exploration result;
  std::mt19937 random(seed);
  for (int i = 0; i < runs; ++i) {
    ++result.runs;
    Begin();
    std::vector<Step> steps;
    for (;;) {
      const std::vector<Option> options = Options();
      if (options.empty()) {
        ++result.ends;
        if (error_.empty()) error_ = AtEnd();
        break;
      }
      const Option option = options[random() % options.size()];
      steps.push_back(StepOf(option));
      Take(option);
      ++result.states;
      if (!error_.empty()) break;
    }
    if (!error_.empty()) {
      result.error = error_ + ", after" + Describe(steps);
      return result;
    }
  }
  return result;
}

// ---------------------------------------------------------------- what a block does

void Explorer::Yield() { current_->host.Leave(); }

void Explorer::BeginLoad() {
  if (!current_->loads) Yield();
  current_->loads = true;
}

void Explorer::Effect(uint64_t what) {
  Fiber& fiber = *current_;
  fiber.known = fiber.tentative = Mix(fiber.tentative, what);
  fiber.slept_before = fiber.loads = false;
  fiber.since = 0;
}

int Explorer::RoomOf(const void* p) const {
  const auto* at = static_cast<const unsigned char*>(p);
  for (int r = 0; r < scenario_.ranks; ++r) {
    if (at >= subject_.room(r) && at < subject_.room(r) + subject_.room_bytes) return r;
  }
  return -1;
}

bool Explorer::IsOutcome(const void* p) const {
  const int room = RoomOf(p);
  return room >= 0 && static_cast<const unsigned char*>(p) == subject_.room(room) + kOutcomeAt;
}

unsigned char* Explorer::Mapped(const void* p) const {
  auto* at = static_cast<unsigned char*>(const_cast<void*>(p));
  const int room = RoomOf(p);
  if (!scenario_.mutation.one_half || room < 0) return at;
  const size_t offset = static_cast<size_t>(at - subject_.room(room));
  const size_t half = (subject_.room_bytes - kSlotsBegin) / 2;
  return offset >= kSlotsBegin + half ? at - half : at;
}

uint64_t Explorer::Now() {
  BeginLoad();
  const uint64_t now = scenario_.mutation.no_clock ? 1 : now_;
  if (current_->since == 0) current_->since = now;
  return now;
}

void Explorer::Load(const void* from, void* to, size_t bytes) {
  BeginLoad();
  std::memcpy(to, Mapped(from), bytes);
  if (bytes == 4) {
    const bool host = RoomOf(from) < 0;
    if ((host && scenario_.mutation.deaf_to_host) ||
        (IsOutcome(from) && scenario_.mutation.deaf_to_peers)) {
      std::memset(to, 0, bytes);
    }
  }
  // That nothing has ended changes nothing: a wait that missed at first is one that did not.
  static constexpr unsigned char kZero[4] = {};
  if (bytes == 4 && std::memcmp(to, kZero, 4) == 0) return;
  current_->tentative = MixBytes(current_->tentative, to, bytes);
}

void Explorer::LoadHeader(const void* from, void* to) {
  BeginLoad();
  const Rank& rank = ranks_[static_cast<size_t>(current_->rank)];
  std::memcpy(to, from, 16);
  if (scenario_.mutation.header_untagged) std::memcpy(to, rank.header, 4);
  if (scenario_.mutation.header_ignored) std::memcpy(to, rank.header, 16);
  current_->tentative = MixBytes(current_->tentative, to, 16);
}

void Explorer::Store(void* to, const void* value, size_t bytes, int pieces) {
  Effect(2);
  const auto* from = static_cast<const unsigned char*>(value);
  static constexpr unsigned char kAllOnes[16] = {255, 255, 255, 255, 255, 255, 255, 255,
                                                 255, 255, 255, 255, 255, 255, 255, 255};
  const bool empties = bytes == 16 && std::memcmp(from, kAllOnes, 16) == 0;
  if (empties && scenario_.mutation.no_emptying) return;
  if (scenario_.mutation.silent && IsOutcome(to)) return;
  if (empties) pieces = 1;  // nobody reads it before the next kernel
  unsigned char* at = Mapped(to);
  const size_t piece = bytes / static_cast<size_t>(pieces);
  for (int i = 0; i < pieces; ++i) {
    const size_t begin = static_cast<size_t>(i) * piece;
    travelling_.push_back({current_->rank, at + begin, piece, {}});
    std::memcpy(travelling_.back().value, from + begin, piece);
  }
}

void Explorer::StoreHeader(void* to, const void* value) {
  std::memcpy(ranks_[static_cast<size_t>(current_->rank)].header, value, 16);
  Store(to, value, 16, scenario_.mutation.header_in_pieces ? 2 : 1);
}

uint32_t Explorer::FetchAdd(uint32_t* p, uint32_t v) {
  if (Blocks() > 1) Yield();
  uint32_t old = *p;
  *p += v;
  if (scenario_.mutation.early_advance) old = old == 0 ? static_cast<uint32_t>(Blocks()) - 1 : 0;
  Effect(old);
  return old;
}

uint32_t Explorer::CompareAndSwap(uint32_t* p, uint32_t expected, uint32_t desired) {
  Yield();
  const uint32_t old = *p;
  if (old == expected) *p = desired;
  ++ranks_[static_cast<size_t>(current_->rank)].version;
  Effect(old);
  return old;
}

void Explorer::AwaitEarlierCalls() {
  Effect(3);
  if (scenario_.mutation.no_boundary) return;
  current_->at_boundary = true;
  Yield();
  current_->loads = true;
}

void Explorer::PollMissed() {
  Fiber& fiber = *current_;
  const Rank& rank = ranks_[static_cast<size_t>(fiber.rank)];
  fiber.tentative = fiber.known;
  if (fiber.slept_before && fiber.slept == rank.version) {
    fiber.polls = true;
    Yield();
  }
  fiber.loads = true;
  fiber.slept_before = true;
  fiber.slept = rank.version;
}

}  // namespace sinter::rank_explorer
