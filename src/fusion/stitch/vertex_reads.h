// VertexReads: the values that an op reads, beyond the ops that are computed with it.
#ifndef SINTER_SRC_FUSION_STITCH_VERTEX_READS_H_
#define SINTER_SRC_FUSION_STITCH_VERTEX_READS_H_

#include <cstdint>
#include <vector>

#include "src/chain/chain.h"

namespace sinter {

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

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_STITCH_VERTEX_READS_H_
