// Contraction: the values that join their reader's vertex before the exploration.
#ifndef SINTER_SRC_FUSION_STITCH_CONTRACTION_H_
#define SINTER_SRC_FUSION_STITCH_CONTRACTION_H_

#include <cstdint>

#include "src/chain/chain.h"
#include "src/fusion/stitch/value_roles.h"
#include "src/fusion/stitch/vertex_reads.h"

namespace sinter {

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

#endif  // SINTER_SRC_FUSION_STITCH_CONTRACTION_H_
