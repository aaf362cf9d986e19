#include "src/product/paper/dsm_comm.h"

namespace sinter {

double AllExchangeBytes(const ClusterShape& c, const BlockTile& t) {
  return 4.0 * static_cast<double>(c.m * c.n * 2 * (c.k - 1) * t.m * t.n);
}

double ShuffleRingBytes(const ClusterShape& c, const BlockTile& t) {
  return 2.0 * static_cast<double>(c.Blocks() * (c.Shuffle() - 1) * t.m * t.n);
}

double ReduceScatterBytes(const ClusterShape& c, const BlockTile& t) {
  return 4.0 * static_cast<double>(c.m * c.l * (c.Reduce() - 1) * t.m * t.l);
}

}  // namespace sinter
