// StitchGraph: the memory-intensive part of a chain as a graph of vertices, of which patterns are
// made. Products are opaque vertices.
#ifndef SINTER_SRC_FUSION_STITCH_STITCH_GRAPH_H_
#define SINTER_SRC_FUSION_STITCH_STITCH_GRAPH_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/base/keep_going.h"
#include "src/chain/chain.h"
#include "src/fusion/product_runs.h"

namespace sinter {

// OpClass: the cost of an op in a fused kernel, and how local it is to a unit.

// FusionStitching's three classes of memory-intensive ops, and the others.
enum class OpClass {
  kSource,     // input, scalar, iota: no computation
  kView,       // reads elements elsewhere: broadcast, transpose, reshape, slice, a widening cast
  kLight,      // a few instructions an element
  kExpensive,  // a special function an element: kept rather than computed twice
  kReduction,  // and a fine-grained batched product, a step of rows
  kProduct,    // any other matmul, a sum over ranks: a boundary of every pattern
};

OpClass ClassOf(const Chain& chain, ValueId value);

// Elements of a value at M = m; at least 1.
int64_t ElementsOf(const Op& op, int64_t m);

// The number of equal contiguous parts of the result of `op` such that part i needs only part i of
// operand `slot`. 1: any element may need any other; the element count: parts may be single
// elements. For a reduction, the operand is divided into the parts.
int64_t LocalUnits(const Chain& chain, const Op& op, size_t slot, int64_t m);

// LocalUnits for a reduction's result: its parts that each need one part of the operand. 1 when an
// outermost axis of more than one element is reduced.
int64_t ReducedUnits(const Chain& chain, const Op& op, int64_t m);

// NodeSet: a set of small numbers, one bit each.

// Sets in one call must have the same bound. Equal sets compare equal and hash alike. Concurrent
// reads are safe, writes are not.
class NodeSet {
 public:
  NodeSet() = default;
  explicit NodeSet(int bound) : words_((static_cast<size_t>(bound) + 63) / 64) {}

  void Add(int i) { words_[Word(i)] |= Bit(i); }
  void Remove(int i) { words_[Word(i)] &= ~Bit(i); }
  bool Contains(int i) const { return (words_[Word(i)] & Bit(i)) != 0; }

  void Unite(const NodeSet& o) {
    for (size_t w = 0; w < words_.size(); ++w) words_[w] |= o.words_[w];
  }
  void Subtract(const NodeSet& o) {
    for (size_t w = 0; w < words_.size(); ++w) words_[w] &= ~o.words_[w];
  }
  bool Intersects(const NodeSet& o) const {
    for (size_t w = 0; w < words_.size(); ++w) {
      if (words_[w] & o.words_[w]) return true;
    }
    return false;
  }
  // Whether this set contains every number that is in both `a` and `b`.
  bool CoversCommonOf(const NodeSet& a, const NodeSet& b) const {
    for (size_t w = 0; w < words_.size(); ++w) {
      if (a.words_[w] & b.words_[w] & ~words_[w]) return false;
    }
    return true;
  }
  bool Includes(const NodeSet& o) const { return CoversCommonOf(o, o); }
  bool empty() const { return !Intersects(*this); }
  int size() const {
    int count = 0;
    for (uint64_t word : words_) count += __builtin_popcountll(word);
    return count;
  }
  // Calls visit(i) in ascending order.
  template <typename Visitor>
  void ForEach(Visitor&& visit) const {
    for (size_t w = 0; w < words_.size(); ++w) {
      for (uint64_t rest = words_[w]; rest != 0; rest &= rest - 1) {
        visit(static_cast<int>(w * 64) + __builtin_ctzll(rest));
      }
    }
  }
  // The smallest number; -1 when empty.
  int First() const {
    for (size_t w = 0; w < words_.size(); ++w) {
      if (words_[w] != 0) return static_cast<int>(w * 64) + __builtin_ctzll(words_[w]);
    }
    return -1;
  }
  std::vector<int> ToVector() const {
    std::vector<int> list;
    ForEach([&](int i) { list.push_back(i); });
    return list;
  }
  bool operator==(const NodeSet& o) const { return words_ == o.words_; }
  bool operator!=(const NodeSet& o) const { return words_ != o.words_; }
  // A total order for ties: compares the ascending lists of numbers lexicographically, with a
  // longer list before its own prefix.
  bool Before(const NodeSet& o) const {
    for (size_t w = 0; w < words_.size(); ++w) {
      const uint64_t differ = words_[w] ^ o.words_[w];
      if (differ != 0) return (words_[w] & differ & (~differ + 1)) != 0;
    }
    return false;
  }
  struct Hash {
    size_t operator()(const NodeSet& s) const {
      uint64_t hash = 0;
      for (const uint64_t word : s.words_) {
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 32;
      }
      return hash;
    }
  };

 private:
  static size_t Word(int i) { return static_cast<size_t>(i) / 64; }
  static uint64_t Bit(int i) { return uint64_t{1} << (static_cast<unsigned>(i) % 64); }
  std::vector<uint64_t> words_;
};

// A tensor in memory, or one that would be there if it were not fused.
struct StitchTensor {
  ValueId value = -1;
  DType dtype = DType::kF32;  // as stored
  int64_t bytes = 0;
  int vertex = -1;             // that computes it; -1: an input of the chain
  bool stored = false;         // must be in memory: an output of the chain or a product's operand
  bool cold = false;           // an input or output of the chain: read from or written to HBM
  std::vector<int> consumers;  // vertices that read it, ascending
};

struct StitchRead {
  int tensor = 0;
  int64_t bytes = 0;  // of it, needed by one pass of the vertex
  int64_t units = 0;  // equal parts of the vertex's iteration space that each need one part of it
};

struct StitchVertex {
  std::vector<ValueId> values;         // ascending; the last one is the result
  OpClass op_class = OpClass::kLight;  // of the result
  bool opaque = false;                 // never in a pattern with others
  int tensor = 0;                      // its result
  int64_t iteration = 1;     // elements that it is computed over; for a reduction, the operand's
  int64_t result_units = 1;  // parts of that space that one part of the result needs
  std::vector<StitchRead> reads;  // by tensor, ascending
  std::vector<int> producers;     // vertices that must come first, ascending
  std::vector<int> consumers;     // the inverse
  ValueId root() const { return values.back(); }
};

struct StitchGraphOptions {
  // Whether an op with one reader joins the reader's vertex from the start, if it costs nothing
  // there. Never where its operands would be more bytes to hand over than its result.
  bool contract = true;
  Pace* pace = nullptr;  // one step for each op visited
};

// Which values are vertices:
// - Views (broadcast, transpose, reshape, slice, casts that widen), scalars and iota are not: their
//   readers compute them. Nor are light ops over only scalars, iota and inputs of at most
//   kTinyBytes together, at most kTinyOps of them: they are computed again by each reader
//   ("inlined").
// - Every other memory-intensive op is one.
// - An inlined value that must be in memory has a vertex that stores it, which only products read.
// - A run of products is one vertex, and so is a product outside all runs.
// Vertices are numbered topologically, those with the smaller result first where there is a choice.
// Depends on the chain, the bucket and the runs alone. Immutable; any thread may read it. The chain
// must outlive it.
class StitchGraph {
 public:
  static constexpr int64_t kTinyBytes = 32 * 1024;
  static constexpr int kTinyOps = 8;
  static constexpr int kMaxVertices = 8192;  // reachability takes their square in bits, twice
  static constexpr int64_t kMaxReadVisits = 1 << 24;  // values visited to find what vertices read

  // FAILED_PRECONDITION naming an output that shares a buffer with an input read after it, the
  // number of vertices above kMaxVertices, or the op at which kMaxReadVisits is exceeded.
  static absl::StatusOr<StitchGraph> Make(const Chain& chain, int64_t bucket,
                                          const std::vector<GraphRun>& runs,
                                          const StitchGraphOptions& options);

  const Chain& chain() const { return *chain_; }
  int64_t bucket() const { return bucket_; }
  int size() const { return static_cast<int>(vertices_.size()); }
  const StitchVertex& vertex(int v) const { return vertices_[static_cast<size_t>(v)]; }
  const StitchTensor& tensor(int t) const { return tensors_[static_cast<size_t>(t)]; }
  int num_tensors() const { return static_cast<int>(tensors_.size()); }
  // The vertex that computes `value`; -1 for inlined values and inputs.
  int VertexOf(ValueId value) const { return vertex_of_[static_cast<size_t>(value)]; }
  // Whether readers of `value` compute it from its operands.
  bool IsInlined(ValueId value) const { return inlined_[static_cast<size_t>(value)]; }
  // The dtype of `value` in memory.
  DType StoredDType(ValueId value) const { return stored_dtype_[static_cast<size_t>(value)]; }

  // Vertices before and after v: all that it needs, and all that need it.
  const NodeSet& Before(int v) const { return before_[static_cast<size_t>(v)]; }
  const NodeSet& After(int v) const { return after_[static_cast<size_t>(v)]; }
  // Whether one of `vertices` computes the tensor.
  bool IsOf(int tensor, const NodeSet& vertices) const;
  // Whether a result of one of `vertices` is stored or read outside of them.
  bool Leaves(int tensor, const NodeSet& vertices) const;
  // The connected components of `vertices`, in the order of their first vertices.
  std::vector<NodeSet> ComponentsOf(const NodeSet& vertices) const;

 private:
  friend class StitchGraphMaker;
  const Chain* chain_ = nullptr;
  int64_t bucket_ = 0;
  std::vector<StitchVertex> vertices_;
  std::vector<StitchTensor> tensors_;
  std::vector<int> vertex_of_;
  std::vector<bool> inlined_;
  std::vector<DType> stored_dtype_;
  std::vector<NodeSet> before_, after_;
};

// By vertex: its producers, its consumers, and for each tensor that it reads the four readers
// before it and after it; ascending. Opaque vertices are not neighbours.
std::vector<std::vector<int>> NeighboursOf(const StitchGraph& graph);

// ValueRoles: the explorer's classification of a chain's values, before vertices are numbered.

struct ValueRoles {
  std::vector<bool> inlined;  // readers compute it themselves
  std::vector<bool> stored;   // must lie in memory
  std::vector<bool> vertex;   // the result of a vertex; inlined values too when stored
  std::vector<int> run;       // the run of products that contains it; -1
  std::vector<DType> stored_dtype;
  Users users;
};

ValueRoles RolesOf(const Chain& chain, int64_t bucket, const std::vector<GraphRun>& runs);

// VertexReads: the values that an op reads, beyond the ops that are computed with it.

struct SourceRead {
  ValueId source = -1;  // an input, or a value that is not computed with the op
  int64_t elements = 0;
  int64_t units = 0;  // StitchRead::units
};

struct VertexReads {
  std::vector<SourceRead> sources;  // descending
  std::vector<ValueId> along;       // values computed with the op that `listed` names, descending
  int64_t visits = 0;               // of values on the way
};

// Walks from `root` down through all values with `through` (views, inlined and contracted values),
// whether or not the root is one. Scalars and iota read nothing.
VertexReads ReadsOf(const Chain& chain, ValueId root, int64_t bucket,
                    const std::vector<bool>& through, const std::vector<bool>& listed);

// Contraction: the values that join their reader's vertex before the exploration.

// Chain and roles must outlive it. Immutable; any thread may use it.
class Contraction {
 public:
  Contraction(const Chain& chain, int64_t bucket, const ValueRoles& roles, bool contract)
      : chain_(chain), bucket_(bucket), roles_(roles), contract_(contract) {}

  // Whether `value` is computed with its only reader: there is one path to it, only light ops are
  // computed twice, and handing over its operands moves hardly more bytes than its result. Without
  // contraction only a view that must be stored joins the value that it shows.
  bool Joins(ValueId value, const VertexReads& reads) const;

 private:
  bool IsKeptFrom(ValueId reader, ValueId operand, const VertexReads& reads) const;
  // Bytes moved to hand the operands to another kernel; inputs are in memory already.
  int64_t HandOverOf(const VertexReads& reads) const;

  const Chain& chain_;
  const int64_t bucket_;
  const ValueRoles& roles_;
  const bool contract_;
};

// Body extraction: the ops of one kernel as a chain.

struct BodyOutput {
  ValueId value = -1;  // of the chain
  int output = -1;     // of the chain; -1: the workspace
};

struct StitchBody {
  Chain body;
  std::vector<ValueId> inputs;      // of the chain, as the body's canonical inputs
  std::vector<BodyOutput> outputs;  // as the body's outputs
  KernelOps ops;                    // from which ExtractBody makes the same body again
};

// The kernel of `vertices` of `graph`, with inlined values computed in it. Results of other
// vertices and inputs of the chain become inputs, each in its stored dtype: inputs of the chain
// with its strides and marks, outputs of the chain with their strides, others contiguous. Outputs,
// by ascending value: every output of the chain among the members, with its strides, and with its
// alias if the body reads that input; and, contiguous, every other value that an outside vertex
// reads or that must be stored. Equal patterns of equal graphs give equal canonical bytes.
// Reductions of transposes are over the axes from before (WithStraightReductions). With
// `turn_reductions` they stand as they are, and a reduction over middle axes reads its operand
// through a transpose that puts them last, so that its kept axes are units of rows.
absl::StatusOr<StitchBody> ExtractBody(const StitchGraph& graph, const NodeSet& vertices,
                                       bool turn_reductions = false);

// FAILED_PRECONDITION when the ops of a body, counted again for each concatenation, would take a
// compiler more than a second or two.
absl::Status CheckBodyLength(const Chain& body);

// `body`, in which a reduction that reads a transpose, directly or through element-wise ops, reads
// what is transposed instead, over the axes that it has there. The ops in between are computed
// before the transpose. So columns of a tensor in memory are reduced as columns, not as strided
// rows. If several transposes follow each other, the last is taken. Nothing if `body` has no such
// reduction. InputOrder() of the result counts canonical inputs of `body`.
absl::StatusOr<std::optional<Chain>> WithStraightReductions(const Chain& body);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_STITCH_STITCH_GRAPH_H_
