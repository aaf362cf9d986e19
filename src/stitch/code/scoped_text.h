// ScopedText: C++ statements in nested scopes, the names that they declare, and the values known in
// each scope.
#ifndef SINTER_SRC_STITCH_CODE_SCOPED_TEXT_H_
#define SINTER_SRC_STITCH_CODE_SCOPED_TEXT_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "src/chain/chain.h"
#include "src/stitch/index.h"

namespace sinter {

// A value in source: a scalar, or a vector with elements `name[e]`.
struct Emitted {
  std::string name;
  bool vector = false;
  int depth = 0;        // of the scope that declares it
  bool of_unit = true;  // false: the same for every unit

  std::string Each() const { return vector ? name + "[e]" : name; }
};

constexpr int kPhaseDepth = 0, kUnitDepth = 1, kElementDepth = 2;

// Not thread-safe.
class ScopedText {
 public:
  // A scope: its text, the values declared in it, and whether it is one side of a condition.
  struct Scope {
    std::string text;
    std::map<ElementKey, Emitted> known;
    bool branch = false;
  };

  IndexSpace& space() { return space_; }

  // Scopes from the kernel's inwards. A closed scope's text is appended to its parent's.
  void OpenScope(bool branch = false);
  std::string CloseScope();
  int innermost() const { return static_cast<int>(scopes_.size()) - 1; }
  // Removes the scopes inside the one of `depth`; Resume puts them back.
  std::vector<Scope> SetAside(int depth);
  void Resume(std::vector<Scope> inner);

  void Add(int depth, const std::string& line);
  // Appends to the innermost scope: a line, or text unchanged.
  void Add(const std::string& line) { Add(innermost(), line); }
  void Append(const std::string& text) { scopes_.back().text += text; }

  // Vectors have `width` elements, along the loop variable `element`.
  void SetVectors(IndexVar element, int width);
  IndexVar element() const { return element_; }
  int width() const { return width_; }
  // "SINTER_EACH(8) ".
  std::string EachText() const { return EachText(width_); }
  static std::string EachText(int width);

  std::string NewName(const char* prefix);
  // Declares a variable of type `word`; a vector's `expression` computes element `e`.
  Emitted Declare(const char* word, const std::string& expression, bool vector, int depth,
                  bool of_unit);
  // Declares a vector of neighbours in memory, read in one load from `first` + `where`.
  Emitted DeclarePack(const std::string& element_type, const std::string& first,
                      const std::string& where, int depth, bool of_unit);

  // The value if an open scope knows it; else null. Remember adds it to the scope that declares it.
  const Emitted* Find(const ElementKey& key) const;
  void Remember(const ElementKey& key, const Emitted& value);
  // Depth of the outermost scope that may read at `index`: no read leaves the branch that it
  // belongs to.
  int LoadDepth(const Index& index) const;

 private:
  IndexSpace space_;
  std::vector<Scope> scopes_;
  IndexVar element_ = -1;
  int width_ = 1, names_ = 0;
};

// `index` as a C++ expression. Precondition: its variables are canonical. With `each`, loop
// variable `element` is written as `element + e`. Variables that may exceed 2^31 have 64 bits.
std::string IndexText(const IndexSpace& space, const Index& index, IndexVar element, bool each);

// Serial reductions of one thread, in generated source: loops inside a pass over the elements that
// one result reduces.

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
  // The element that is reduced at counter `k`; for a product, the product of its factors there.
  absl::StatusOr<Emitted> Operand(ValueId id, const Position& at, IndexVar k);
  // The loop over `count` elements that `lanes` share, with `counter` as its variable, for
  // `inside`.
  void OpenLoop(const std::string& counter, int64_t count, int lanes, const std::string& inside);

  const Chain& body_;
  StitchEmitter& emitter_;
  int lanes_ = 1;
  bool surrounded_ = false;  // inside another reduction's loop
};

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_CODE_SCOPED_TEXT_H_
