// dsm_comm: FlashFuser's exchanges (arXiv 2512.12949, section IV-A) over any group of a cluster.
//
//   dsm_all_exchange<Op>     all_exchange.cuh    f32 parts of all ranks, folded, whole on each
//   dsm_reduce_scatter<Op>   reduce_parts.cuh    the same, each rank keeps its share
//   DsmShuffle               slab.cuh            16-bit slices of a slab, all on every rank
//   inter_cluster_reduce     inter_cluster.cuh   f32 parts of blocks of any cluster, by memory
//
// Op: DsmAdd, or DsmMul<Activation>, act(gate) * up. group.cuh has the life of a kernel. Bytes that
// cross, of parts or slabs of S bytes in a group of n: all-exchange 2 (n - 1) S, reduce-scatter
// (n - 1) S, shuffle (n - 1) S over the whole group.
#pragma once
#include "dsm/all_exchange.cuh"
#include "dsm/inter_cluster.cuh"
#include "dsm/reduce_parts.cuh"
#include "dsm/slab.cuh"
