#include "src/stitch/code/element_loops.h"

namespace sinter {

IndexVar ElementLoops::Of(const PassShape& shape, IndexSpace& space) {
  for (const ElementLoop& known : loops_) {
    if (known.shape.flat == shape.flat && known.shape.elements == shape.elements &&
        known.shape.width == shape.width && known.shape.symbolic == shape.symbolic &&
        known.shape.split == shape.split) {
      return known.var;
    }
  }
  const IndexVar var =
      space.AddLoop(shape.flat ? "n" : "i", shape.symbolic ? 0 : shape.elements, kElementDepth);
  loops_.push_back({shape, var});
  return var;
}

}  // namespace sinter
