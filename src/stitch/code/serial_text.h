// Reductions that a thread makes alone, in generated source: loops inside a pass, over what one
// element of their result reduces.
#ifndef SINTER_SRC_STITCH_CODE_SERIAL_TEXT_H_
#define SINTER_SRC_STITCH_CODE_SERIAL_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "src/stitch/code/scoped_text.h"

namespace sinter {

class StitchEmitter;

// Chain and emitter, which pulls what is reduced and takes the statements, must outlive it.
class SerialText {
 public:
  SerialText(const Chain& body, StitchEmitter& emitter) : body_(body), emitter_(emitter) {}

  // Neighbouring lanes that share each element's reductions, of those that no other surrounds.
  void SetLanes(int lanes) { lanes_ = lanes; }
  // Element `at` of reduction or product `id`, in the outermost scope of the pass where its place
  // is known. FAILED_PRECONDITION for M elements.
  absl::StatusOr<Emitted> Result(ValueId id, const Position& at);

 private:
  // In the innermost scope, shared by `lanes`.
  absl::StatusOr<Emitted> ResultHere(ValueId id, const Position& at, int lanes);
  // What is reduced, where `k` counts.
  absl::StatusOr<Emitted> Operand(ValueId id, const Position& at, IndexVar k);
  absl::StatusOr<Emitted> Product(ValueId id, const Position& at, const Index& k);
  // The loop of a reduction of `count` that `lanes` share, and `counter` in it, for `inside`.
  void OpenLoop(const std::string& counter, int64_t count, int lanes, const std::string& inside);

  const Chain& body_;
  StitchEmitter& emitter_;
  int lanes_ = 1;
  bool surrounded_ = false;  // by another's loop
};

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_CODE_SERIAL_TEXT_H_
