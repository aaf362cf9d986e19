// ElementLoops: the loop variables of a kernel's passes. Passes of one shape share a variable, so
// an element that several of them read has one name.
#ifndef SINTER_SRC_STITCH_CODE_ELEMENT_LOOPS_H_
#define SINTER_SRC_STITCH_CODE_ELEMENT_LOOPS_H_

#include <vector>

#include "src/stitch/code/pass_writer.h"

namespace sinter {

// A shape of pass and its loop variable.
struct ElementLoop {
  PassShape shape;
  IndexVar var;
};

class ElementLoops {
 public:
  // The variable of passes of `shape`; makes one in `space` if there is none.
  IndexVar Of(const PassShape& shape, IndexSpace& space);
  // In the order of creation.
  const std::vector<ElementLoop>& all() const { return loops_; }

 private:
  std::vector<ElementLoop> loops_;
};

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_CODE_ELEMENT_LOOPS_H_
