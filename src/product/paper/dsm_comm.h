// dsm_comm: FlashFuser's exchanges inside a cluster (arXiv 2512.12949, section IV-A), as parameters
// and bytes.
//
// A cluster shape gives the blocks along each dimension of the chain C[m,n] = A[m,k] B[k,n], E[m,l]
// = C D[n,l]. The same blocks are viewed twice: as m x n x k in the first product, as m x l x
// reduce in the second.
//   dsm_all_exchange: the cls_k blocks that split K; each gets the summed C tile
//   dsm_shuffle: a group of cls_shuffle = cls_l / cls_k blocks; each passes its slice of C round
//   dsm_reduce_scatter: cls_reduce = cls_n cls_k / cls_l blocks; partial E tiles are summed, each
//   block keeps a part
#ifndef SINTER_SRC_PRODUCT_PAPER_DSM_COMM_H_
#define SINTER_SRC_PRODUCT_PAPER_DSM_COMM_H_

#include <cstdint>

namespace sinter {

struct ClusterShape {
  int64_t m = 1, n = 1, k = 1, l = 1;
  int64_t Blocks() const { return m * n * k; }
  // Whether both derived sizes are whole: otherwise the primitives cannot be carried out.
  bool Consistent() const { return l % k == 0 && (n * k) % l == 0; }
  // Both need Consistent(). Then m n k == m l Reduce().
  int64_t Shuffle() const { return l / k; }
  int64_t Reduce() const { return n * k / l; }
  bool operator==(const ClusterShape& o) const {
    return m == o.m && n == o.n && k == o.k && l == o.l;
  }
};

struct BlockTile {
  int64_t m = 16, n = 16, k = 16, l = 16;  // extent that one block handles
};

// Bytes that cross distributed shared memory in one cluster. The paper prints no formulas; these
// count every byte that leaves a block. C parts and partial E are f32, finished C has 2 bytes an
// element. Gated chains whose gate and up lie in different blocks exchange in the same way
// (operator Mul for Add).
// AllExchangeBytes: one C tile a block, ring all-reduce, 2 (k - 1) tiles a group.
double AllExchangeBytes(const ClusterShape& cluster, const BlockTile& tile);
// One pass of the second product over the cluster's C: every block receives shuffle - 1 slices.
double ShuffleRingBytes(const ClusterShape& cluster, const BlockTile& tile);
// One E tile a block: reduce - 1 partial tiles a group move.
double ReduceScatterBytes(const ClusterShape& cluster, const BlockTile& tile);

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_PAPER_DSM_COMM_H_
