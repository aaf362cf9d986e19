// Reductions that one thread makes alone, in generated source: loops inside a pass over the
// elements that one result reduces.
#ifndef SINTER_SRC_STITCH_CODE_SERIAL_TEXT_H_
#define SINTER_SRC_STITCH_CODE_SERIAL_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "src/stitch/code/scoped_text.h"

namespace sinter {

class StitchEmitter;

// `body` and `emitter` must outlive it. The emitter pulls operands and takes the statements.
class SerialText {
 public:
  SerialText(const Chain& body, StitchEmitter& emitter) : body_(body), emitter_(emitter) {}

  // Neighbouring lanes that share an element's outermost reductions.
  void SetLanes(int lanes) { lanes_ = lanes; }
  // Emits element `at` of reduction or product `id` in the outermost scope of the pass where its
  // place is known. FAILED_PRECONDITION when it reduces over M.
  absl::StatusOr<Emitted> Result(ValueId id, const Position& at);

 private:
  // Emits it in the innermost scope, shared by `lanes`.
  absl::StatusOr<Emitted> ResultHere(ValueId id, const Position& at, int lanes);
  // The element that is reduced at counter `k`.
  absl::StatusOr<Emitted> Operand(ValueId id, const Position& at, IndexVar k);
  absl::StatusOr<Emitted> Product(ValueId id, const Position& at, const Index& k);
  // The loop over `count` elements that `lanes` share, with `counter` as its variable, for
  // `inside`.
  void OpenLoop(const std::string& counter, int64_t count, int lanes, const std::string& inside);

  const Chain& body_;
  StitchEmitter& emitter_;
  int lanes_ = 1;
  bool surrounded_ = false;  // inside another reduction's loop
};

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_CODE_SERIAL_TEXT_H_
