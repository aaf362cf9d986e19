#include "src/stitch/code/hold_text.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "src/stitch/code/op_text.h"
#include "src/stitch/sizes.h"

namespace sinter {

bool Walks(const IndexSpace& space, const ElementKey& key, IndexVar var) {
  return std::any_of(key.second.begin(), key.second.end(),
                     [&](const Index& index) { return space.MovesWith(index, var); });
}

int64_t HoldText::RoundBytes(const ElementKey& key, const PassShape& shape) const {
  const int64_t pack = shape.width * SizeOf(code_.body->op(key.first).type.dtype);
  return pack * shape.turns * code_.schedule.block_threads;
}

void HoldText::Choose(const std::vector<std::vector<ElementKey>>& keys, const ElementLoops& loops,
                      const IndexSpace& space) {
  if (code_.schedule.hold_bytes == 0) return;
  for (size_t phase = 0; phase < keys.size(); ++phase) {
    for (const ElementKey& key : keys[phase]) {
      Held& held = held_.insert({key, {phase, phase, {}, 0}}).first->second;
      held.last = phase;
    }
  }
  int64_t round_bytes = 0;
  for (auto it = held_.begin(); it != held_.end();) {
    const auto loop = std::find_if(loops.all().begin(), loops.all().end(),
                                   [&, key = it->first](const ElementLoop& one) {
                                     return !one.shape.flat && Walks(space, key, one.var);
                                   });
    if (it->second.first == it->second.last || loop == loops.all().end()) {
      it = held_.erase(it);
      continue;
    }
    it->second.shape = loop->shape;
    round_bytes += RoundBytes(it->first, loop->shape);
    ++it;
  }
  if (held_.empty()) return;
  rounds_ = code_.schedule.hold_bytes / round_bytes;
  if (!program_.units_symbolic) {
    const int64_t needed = UnitRounds(program_, code_.schedule, 1);
    whole_ = rounds_ >= needed;
    rounds_ = std::min(rounds_, needed);
  }
  if (rounds_ == 0) held_.clear();
  int64_t offset = 0;
  for (auto& [key, held] : held_) {
    held.offset = offset;
    offset += rounds_ * RoundBytes(key, held.shape);
  }
}

bool HoldText::Counts(size_t phase) const {
  return std::any_of(held_.begin(), held_.end(), [&](const auto& one) {
    return one.second.first <= phase && phase <= one.second.last;
  });
}

std::string HoldText::Place(const Held& held) const {
  return absl::Substitute("dynamic_shared + $0, (round * $1 + j) * $2 + threadIdx.x", held.offset,
                          held.shape.turns, code_.schedule.block_threads);
}

std::string HoldText::Leave(const ElementKey& key, size_t phase, const std::string& name) const {
  const auto held = held_.find(key);
  if (held == held_.end() || held->second.first != phase) return "";
  return absl::StrCat(whole_ ? "if (live) " : absl::StrCat("if (round < ", rounds_, ") "),
                      "hold_pack(", Place(held->second), ", ", name, "[j]);");
}

std::string HoldText::Take(const ElementKey& key, size_t phase, const std::string& read) const {
  const auto held = held_.find(key);
  if (held == held_.end() || held->second.first == phase) return read;
  const std::string taken = absl::Substitute("take_pack<$0, $1>($2)",
                                             ElementTypeName(code_.body->op(key.first).type.dtype),
                                             held->second.shape.width, Place(held->second));
  return whole_ ? taken : absl::StrCat("round < ", rounds_, " ? ", taken, "\n            : ", read);
}

}  // namespace sinter
