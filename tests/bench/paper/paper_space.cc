#include "src/product/operand.h"
#include "tests/bench/paper/paper.h"

namespace sinter {
namespace {

constexpr int64_t kMma = 16;
constexpr int64_t kMaxCluster = 16;
constexpr int64_t kElement = ElementOf(DType::kF16).bytes;
constexpr int64_t kPartial = 4;  // partial E is f32
constexpr char kDimNames[] = "MNKL";

void AppendPermutations(uint8_t spatial, std::vector<LoopSchedule>* out) {
  LoopSchedule s{.spatial = spatial};
  for (int d = 0; d < kLoopDims; d++) {
    if (!s.IsSpatial(static_cast<LoopDim>(d))) {
      s.order[static_cast<size_t>(s.temporal++)] = static_cast<LoopDim>(d);
    }
  }
  do {
    out->push_back(s);
  } while (std::next_permutation(s.order.begin(), s.order.begin() + s.temporal));
}

std::vector<int64_t> Tiles(int64_t extent, RuleSet rules) {
  std::vector<int64_t> tiles;
  for (int64_t t : AllTiles(extent)) {
    if (!rules.Has(1) || Rule1(extent, t)) tiles.push_back(t);
  }
  return tiles;
}

// Whether the cluster's shared memory holds the tensor that stays between the products.
bool KeptFits(const PaperProblem& p, const PaperPoint& x, int64_t cluster_bytes) {
  const int64_t rows = x.cluster.m * x.tile.m;
  const int64_t c_tile = rows * x.cluster.n * x.tile.n * kElement;
  if (x.loops.IsSpatial(LoopDim::kN)) return c_tile <= cluster_bytes;
  const bool l_outside_n = x.loops.Position(LoopDim::kL) < x.loops.Position(LoopDim::kN);
  if (l_outside_n)
    return rows * p.n * kElement <= cluster_bytes;  // every L step reads the row slab of C again
  return c_tile <= cluster_bytes &&
         rows * p.l * kPartial <= cluster_bytes;  // partial E is summed over N
}

}  // namespace

double AllExchangeBytes(const ClusterShape& c, const BlockTile& t) {
  return 4.0 * static_cast<double>(c.m * c.n * 2 * (c.k - 1) * t.m * t.n);
}

double ShuffleRingBytes(const ClusterShape& c, const BlockTile& t) {
  return 2.0 * static_cast<double>(c.Blocks() * (c.Shuffle() - 1) * t.m * t.n);
}

double ReduceScatterBytes(const ClusterShape& c, const BlockTile& t) {
  return 4.0 * static_cast<double>(c.m * c.l * (c.Reduce() - 1) * t.m * t.l);
}

int LoopSchedule::Position(LoopDim d) const {
  for (int i = 0; i < temporal; i++) {
    if (order[static_cast<size_t>(i)] == d) return i;
  }
  return -1;
}

std::string LoopSchedule::ToString() const {
  std::string text = "spatial ";
  for (int d = 0; d < kLoopDims; d++) {
    if (IsSpatial(static_cast<LoopDim>(d))) text += kDimNames[d];
  }
  if (temporal > 0) text += ", ";
  for (int i = 0; i < temporal; i++) {
    text += kDimNames[static_cast<int>(order[static_cast<size_t>(i)])];
  }
  return text;
}

std::vector<LoopSchedule> AllLoopSchedules() {
  std::vector<LoopSchedule> all;
  for (uint8_t spatial = 1; spatial < 1 << kLoopDims; spatial++) AppendPermutations(spatial, &all);
  return all;
}

std::vector<ClusterShape> AllClusterShapes() {
  std::vector<ClusterShape> all;
  for (int64_t m : kClusterSizes) {
    for (int64_t n : kClusterSizes) {
      for (int64_t k : kClusterSizes) {
        for (int64_t l : kClusterSizes) all.push_back({m, n, k, l});
      }
    }
  }
  return all;
}

std::vector<int64_t> AllTiles(int64_t extent) {
  std::vector<int64_t> tiles;
  for (int64_t t = kMma; t <= extent; t += kMma) tiles.push_back(t);
  return tiles;
}

bool Rule1(int64_t extent, int64_t tile) { return tile % kMma == 0 && extent % tile == 0; }

bool Rule2(const ClusterShape& c) {
  return c.m * c.n * c.k <= kMaxCluster && c.m * c.l <= kMaxCluster;
}

bool Rule3(const LoopSchedule& loops) {
  return loops.IsSpatial(LoopDim::kK) || loops.Position(LoopDim::kK) == loops.temporal - 1;
}

bool Rule4(const LoopSchedule& loops) { return !loops.IsSpatial(LoopDim::kL); }

bool Rule5(const PaperProblem& p, const PaperPoint& x, int64_t shared_bytes) {
  const BlockTile& t = x.tile;
  return (t.m * t.k + t.k * t.n) * kElement <= shared_bytes &&
         t.n * t.l * kElement <= shared_bytes && t.m * t.l * kElement <= shared_bytes &&
         KeptFits(p, x, x.cluster.Blocks() * shared_bytes);
}

PaperSpace::PaperSpace(const PaperProblem& p, const DeviceModel& model, RuleSet rules)
    : problem_(p),
      shared_bytes_(model.shared_bytes_per_block),
      rule5_(rules.Has(5)),
      m_(Tiles(p.m, rules)),
      n_(Tiles(p.n, rules)),
      k_(Tiles(p.k, rules)),
      l_(Tiles(p.l, rules)) {
  for (const ClusterShape& c : AllClusterShapes()) {
    if (!rules.Has(2) || Rule2(c)) clusters_.push_back(c);
  }
  for (const LoopSchedule& s : AllLoopSchedules()) {
    if ((!rules.Has(3) || Rule3(s)) && (!rules.Has(4) || Rule4(s))) loops_.push_back(s);
  }
}

uint64_t PaperSpace::FactoredCount() const {
  uint64_t count = 1;
  for (size_t n : {m_.size(), n_.size(), k_.size(), l_.size(), clusters_.size(), loops_.size()}) {
    count *= n;
  }
  return count;
}

template <typename F>
void PaperSpace::Walk(F&& visit) const {
  PaperPoint x;
  for (const LoopSchedule& loops : loops_) {
    x.loops = loops;
    for (const ClusterShape& cluster : clusters_) {
      x.cluster = cluster;
      for (int64_t m : m_) {
        for (int64_t n : n_) {
          for (int64_t k : k_) {
            for (int64_t l : l_) {
              x.tile = {m, n, k, l};
              if (!rule5_ || Rule5(problem_, x, shared_bytes_)) visit(x);
            }
          }
        }
      }
    }
  }
}

uint64_t PaperSpace::Count() const {
  if (!rule5_) return FactoredCount();
  uint64_t count = 0;
  Walk([&](const PaperPoint&) { count++; });
  return count;
}

void PaperSpace::ForEach(const std::function<void(const PaperPoint&)>& visit) const { Walk(visit); }

}  // namespace sinter
