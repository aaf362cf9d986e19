#include "tests/support/random_stitch_graph.h"

#include "tests/support/stitch_graph_maker.h"

namespace sinter::testing {

Chain MakeRandomStitchGraph(uint64_t seed, const RandomStitchOptions& options) {
  return StitchGraphMaker(seed, options.max_elements).Make();
}

}  // namespace sinter::testing
