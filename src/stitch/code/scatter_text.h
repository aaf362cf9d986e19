// What the stores of a scatter ask of its ids, in generated source.
#ifndef SINTER_SRC_STITCH_CODE_SCATTER_TEXT_H_
#define SINTER_SRC_STITCH_CODE_SCATTER_TEXT_H_

#include <string>

#include "absl/status/statusor.h"
#include "src/stitch/code/scoped_text.h"

namespace sinter {

class StitchEmitter;

// `body` and `emitter` must outlive it. The emitter pulls ids and takes the statements.
class ScatterText {
 public:
  ScatterText(const Chain& body, StitchEmitter& emitter) : body_(body), emitter_(emitter) {}

  // Where an element is stored, if it is.
  struct Place {
    Emitted stored;  // bool
    Position at;     // in the result
  };
  // Element `at` of the rows: where its id says, unless it names no row, or a later id is equal.
  absl::StatusOr<Place> Written(ValueId scatter, const Position& at);
  // Element `at` of what is written over: in its place, unless an id names its row.
  absl::StatusOr<Place> Left(ValueId scatter, const Position& at);

 private:
  // A lambda that gives the id of a number. In the innermost scope.
  absl::StatusOr<std::string> IdAt(ValueId ids);
  // How many ids there are.
  std::string Count(ValueId ids) const;
  ValueId FirstAlike(ValueId scatter) const;
  // Declares the answer to `question`, a call without its ids, in the scope of `depth`.
  absl::StatusOr<Emitted> Ask(ValueId ids, const std::string& question, bool vector, int depth,
                              bool of_unit);

  const Chain& body_;
  StitchEmitter& emitter_;
};

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_CODE_SCATTER_TEXT_H_
