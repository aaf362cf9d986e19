// NormalForm: a chain as planning sees it, and where its buffers lie in those of the caller's
// chain.
#ifndef SINTER_SRC_NORMAL_NORMAL_FORM_H_
#define SINTER_SRC_NORMAL_NORMAL_FORM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/chain/chain.h"

namespace sinter {

// Where a buffer of the normal form begins.
struct BufferView {
  int buffer = 0;            // of the caller's chain: canonical inputs, then outputs
  int64_t offset_bytes = 0;  // a multiple of 16
  SINTER_FIELDS(BufferView, buffer, offset_bytes);
};

// Immutable; any thread may read it.
struct NormalForm {
  std::shared_ptr<const Chain> callers;
  std::shared_ptr<const Chain> chain;  // the planned one
  // By buffer of `chain`: its canonical inputs, then its outputs, which are the caller's one by
  // one.
  std::vector<BufferView> buffers;
  // By op of `chain`: the caller's op, by its canonical number, that it comes from. Empty: unknown.
  std::vector<ValueId> origins;
  // For plans: what costs a kernel that the caller's chain does not show, and why; which of the
  // caller's buffers a plan's are, where their numbers differ: inputs in canonical order (NoteFor).
  std::vector<std::string> notes;

  // A text about `chain` that calls its ops "op 3", with the numbers of the caller's ops.
  std::string InCallersNumbers(absl::string_view text) const;
  absl::Status InCallersNumbers(const absl::Status& error) const;  // message, op
  // Whether any rule applied. Otherwise the two chains are one, and so are their buffers.
  bool changed() const { return chain != callers; }

  // The caller's canonical buffers as `chain`'s. Precondition: one address for each buffer
  // of the caller's chain.
  std::vector<uint64_t> Expand(const std::vector<uint64_t>& callers) const;
};

// A note of a plan, which counts the caller's inputs in canonical order ("#3 is input 1"), as
// `caller` counts them: chains that differ only in that order share plans.
std::string NoteFor(const Chain& caller, absl::string_view note);

// A function of only the canonical bytes. Computes what the caller's chain computes: every bit of
// the reference is the same if only structural rules were applied, and f32 results are equal
// where recompositions were (rules.h). INTERNAL if a rule made a chain that the builder refuses.
absl::StatusOr<std::shared_ptr<const NormalForm>> NormalFormOf(std::shared_ptr<const Chain> chain);

// The chain itself: what a caller without rules plans.
std::shared_ptr<const NormalForm> IdentityForm(std::shared_ptr<const Chain> chain);

}  // namespace sinter

#endif  // SINTER_SRC_NORMAL_NORMAL_FORM_H_
