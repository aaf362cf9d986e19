// VertexReads: what an op reads, seen through the ops that are computed with it.
#ifndef SINTER_SRC_FUSION_STITCH_VERTEX_READS_H_
#define SINTER_SRC_FUSION_STITCH_VERTEX_READS_H_

#include <cstdint>
#include <vector>

#include "src/chain/chain.h"

namespace sinter {

struct SourceRead {
  ValueId source = -1;  // an input, or a value that is not computed along
  int64_t elements = 0;
  int64_t units = 0;  // StitchRead::units
};

struct VertexReads {
  std::vector<SourceRead> sources;  // descending
  std::vector<ValueId> along;       // values computed along that `listed` names, descending
  int64_t visits = 0;               // of values on the way
};

// Walks from `root` down through every value that is `through` (views, inlined and contracted
// values), the root itself whatever it is. Scalars and iota read nothing.
VertexReads ReadsOf(const Chain& chain, ValueId root, int64_t bucket,
                    const std::vector<bool>& through, const std::vector<bool>& listed);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_STITCH_VERTEX_READS_H_
