// ValueRoles: the explorer's classification of a chain's values, before vertices are numbered.
#ifndef SINTER_SRC_FUSION_STITCH_VALUE_ROLES_H_
#define SINTER_SRC_FUSION_STITCH_VALUE_ROLES_H_

#include <cstdint>
#include <vector>

#include "src/chain/chain.h"
#include "src/fusion/stitch/stitch_graph.h"

namespace sinter {

struct ValueRoles {
  std::vector<bool> inlined;  // readers compute it themselves
  std::vector<bool> stored;   // must lie in memory
  std::vector<bool> vertex;   // the result of a vertex; inlined values too when stored
  std::vector<int> run;       // the run of products that contains it; -1
  std::vector<DType> stored_dtype;
  std::vector<std::vector<ValueId>> users;  // distinct ops that use it, ascending
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

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_STITCH_VALUE_ROLES_H_
