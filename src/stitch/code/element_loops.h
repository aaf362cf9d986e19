// ElementLoops: the loop variables of a kernel's passes. Passes of one shape share a variable, so
// an element that several of them read is one element.
#ifndef SINTER_SRC_STITCH_CODE_ELEMENT_LOOPS_H_
#define SINTER_SRC_STITCH_CODE_ELEMENT_LOOPS_H_

#include <vector>

#include "src/stitch/code/pass_writer.h"

namespace sinter {

// Elements of one kind of pass, and their loop variable.
struct ElementLoop {
  PassShape shape;
  IndexVar var;
};

class ElementLoops {
 public:
  // The variable of passes of `shape`, made in `space` when there is none.
  IndexVar Of(const PassShape& shape, IndexSpace& space);
  // In the order in which they were made.
  const std::vector<ElementLoop>& all() const { return loops_; }

 private:
  std::vector<ElementLoop> loops_;
};

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_CODE_ELEMENT_LOOPS_H_
