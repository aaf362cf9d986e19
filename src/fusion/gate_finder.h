// GateFinder: the subgraph computed only from both column halves of a grouped GEMM: act(gate) * up,
// or another element-wise program.
#ifndef SINTER_SRC_FUSION_GATE_FINDER_H_
#define SINTER_SRC_FUSION_GATE_FINDER_H_

#include <cstdint>
#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "src/chain/chain.h"
#include "src/grouped/grouped.h"

namespace sinter {

struct FoundGate {
  GroupedGate gate = GroupedGate::kNone;
  Activation act = Activation::kIdentity;
  bool is_program = false;        // no act(gate) * up
  ValueId left = -1, right = -1;  // the halves
  ValueId end = -1;               // what is made of them
  std::set<ValueId> values;       // from the halves to the end, which nobody else reads
};

// Chain and users must outlive it.
class GateFinder {
 public:
  GateFinder(const Chain& chain, const Users& users) : chain_(chain), users_(users) {}

  // Whether only halves of the `columns` of `whole` read it, side by side or in turns. All values
  // made of the halves must lead to one value, by ops of which none is `claimed`. Else `*found` is
  // empty.
  bool Find(ValueId whole, int64_t columns, const std::vector<bool>& claimed,
            FoundGate* found) const;

  // The program of one, which stores `result`, or why no kernel computes it.
  absl::StatusOr<EpilogueProgram> MakeProgram(const FoundGate& found, DType result) const;

 private:
  bool IsHalf(ValueId id, ValueId whole, int half, bool in_turns, int64_t n) const;
  bool IsNumber(ValueId id) const;
  bool FindBehind(const std::vector<bool>& claimed, bool in_turns, ValueId last,
                  FoundGate* found) const;
  bool EndsAt(ValueId end, const std::vector<bool>& claimed, FoundGate* found) const;
  bool IsPair(bool in_turns, FoundGate* found) const;
  bool IsProgram(bool in_turns, FoundGate* found) const;

  const Chain& chain_;
  const Users& users_;
};

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_GATE_FINDER_H_
