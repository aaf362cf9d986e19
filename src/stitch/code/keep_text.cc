#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "src/base/status.h"
#include "src/stitch/body_work.h"
#include "src/stitch/code/op_text.h"
#include "src/stitch/code/phase_writer.h"
#include "src/stitch/code/scoped_text.h"
#include "src/stitch/sizes.h"

namespace sinter {
namespace {

constexpr double kDearIssue = 5;     // issue slots of an element from which a value is kept
constexpr double kSpecialIssue = 4;  // issue slots of one special function instruction

// Chooses values that several passes compute, and that a value computed by only one pass reads.
// They are expensive to compute again from the values that are read or kept. Operands come before
// the values made from them.
class Keeper {
 public:
  Keeper(const Chain& body, const Used& used)
      : body_(body), used_(used), precisions_(PrecisionsOf(body)) {
    for (const auto& [operand, readers] : used.reads) {
      if (used.values.count(operand) == 0) continue;
      for (const ElementKey& reader : readers) operands_[reader].push_back(operand);
    }
  }

  std::vector<ElementKey> Choose() {
    std::vector<ElementKey> kept;
    for (const auto& [key, passes] : used_.values) {
      if (passes.size() < 2 || !IsFrontier(key)) continue;
      if (CostOf(key) < kDearIssue) continue;
      kept_.insert(key);
      costs_.clear();
      kept.push_back(key);
    }
    return kept;
  }

 private:
  bool IsShared(const ElementKey& key) const {
    const auto passes = used_.values.find(key);
    return passes != used_.values.end() && passes->second.size() > 1;
  }

  // Whether a value that only one pass computes, or a root, reads it.
  bool IsFrontier(const ElementKey& key) const {
    const auto readers = used_.reads.find(key);
    if (readers == used_.reads.end()) return true;
    return std::any_of(readers->second.begin(), readers->second.end(),
                       [&](const ElementKey& reader) { return !IsShared(reader); });
  }

  // Includes the cost of all operands that are not kept; an operand read twice counts twice.
  double CostOf(const ElementKey& key) {
    const auto known = costs_.find(key);
    if (known != costs_.end()) return known->second;
    const OpCost own = CostOfOp(body_, precisions_, key.first);
    double cost = own.issue + kSpecialIssue * own.special;
    for (const ElementKey& operand : operands_[key]) {
      if (kept_.count(operand) == 0) cost += CostOf(operand);
    }
    return costs_[key] = cost;
  }

  const Chain& body_;
  const Used& used_;
  const std::vector<Precision>& precisions_;
  std::map<ElementKey, std::vector<ElementKey>> operands_;
  std::map<ElementKey, double> costs_;
  std::set<ElementKey> kept_;
};

std::string PackDeclaration(const Op& input, const std::string& name, const PassShape& shape) {
  return absl::Substitute("Pack<$0, $1> $2[$3];\n", ElementTypeName(input.type.dtype), shape.width,
                          name, shape.turns);
}

}  // namespace

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
                                     return !one.shape.flat && space.MovesWith(key.second, one.var);
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
  if (!whole_) rounds_ -= rounds_ % UnitsAtOnce(*code_.body, code_.schedule, program_);
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

std::string HoldText::Leave(const ElementKey& key, size_t phase, const std::string& pack) const {
  const auto held = held_.find(key);
  if (held == held_.end() || held->second.first != phase) return "";
  return absl::StrCat(whole_ ? "if (live) " : absl::StrCat("if (round < ", rounds_, ") "),
                      "hold_pack(", Place(held->second), ", ", pack, ");");
}

std::string HoldText::Take(const ElementKey& key, size_t phase) const {
  const auto held = held_.find(key);
  if (held == held_.end() || held->second.first == phase) return "";
  return absl::Substitute("take_pack<$0, $1>($2)",
                          ElementTypeName(code_.body->op(key.first).type.dtype),
                          held->second.shape.width, Place(held->second));
}

Kept KeepText::Choose(const Used& used, bool inputs, bool values) {
  Kept kept;
  for (const auto& [key, passes] : used.inputs) {
    if (inputs && (program_.owner < 0 || OfUnit(key))) {
      kept.inputs[key] = emitter_.NewName("kept");
    }
  }
  // What ids select is read where a pass first needs it, and kept as it was then.
  for (const auto& [key, passes] : used.values) {
    const bool taken = code_.body->op(key.first).kind == OpKind::kGather;
    if (inputs && taken && passes.size() > 1) kept.values[key] = emitter_.NewName("kept");
  }
  if (!values) return kept;
  for (const ElementKey& key : Keeper(*code_.body, used).Choose()) {
    kept.values[key] = emitter_.NewName("kept");
  }
  return kept;
}

void KeepText::ChooseHeld(const std::vector<Used>& uses) {
  std::vector<std::vector<ElementKey>> keys;
  for (const Used& used : uses) {
    keys.emplace_back();
    for (const auto& [key, passes] : used.inputs) {
      if (OfUnit(key)) keys.back().push_back(key);
    }
    keys.back().insert(keys.back().end(), used.left.begin(), used.left.end());
  }
  holds_.Choose(keys, loops_, emitter_.space());
}

void KeepText::Preload(const Kept& kept, bool flat, size_t phase, int units, BatchReads* batch) {
  for (const ElementLoop& loop : loops_.all()) {
    if (loop.shape.flat != flat) continue;
    std::string reads, takes, leaves;
    bool taken = false;
    for (const auto& [key, name] : kept.inputs) {
      if (!emitter_.space().MovesWith(key.second, loop.var)) continue;
      const Op& op = code_.body->op(key.first);
      if (batch == nullptr) {
        emitter_.Append(absl::StrCat("    ", PackDeclaration(op, name, loop.shape)));
      } else {
        const std::string all = absl::StrCat(name, "s[", units, "]");
        absl::StrAppend(&batch->packs, "    ", PackDeclaration(op, all, loop.shape));
        absl::StrAppend(&batch->names, "    auto& ", name, " = ", name, "s[q];\n");
      }
      const std::string read = PackRead(key, loop), take = holds_.Take(key, phase);
      absl::StrAppend(&reads, "        ", name, "[j] = ", read, ";\n");
      absl::StrAppend(&takes, "        ", name, "[j] = ", take.empty() ? read : take, ";\n");
      taken |= !take.empty();
      const std::string leave = holds_.Leave(key, phase, absl::StrCat(name, "[j]"));
      if (!leave.empty()) absl::StrAppend(&leaves, "        ", leave, "\n");
    }
    const auto around = [&](const std::string& text, Beyond beyond = Beyond::kNothing) {
      return text.empty() ? "" : AroundElements(loop.shape, code_.schedule, text, beyond);
    };
    if (taken && holds_.IsWhole()) reads = takes;
    const bool some = taken && !holds_.IsWhole();
    if (batch != nullptr) {
      absl::StrAppend(&batch->reads, around(reads));
      absl::StrAppend(&batch->takes, around(takes));
      if (some) batch->held_rounds = holds_.HeldRounds();
    } else if (some) {
      emitter_.Append(absl::StrCat("    if (round < ", holds_.HeldRounds(), ") {\n", around(takes),
                                   "    } else {\n", around(reads), "    }\n"));
    } else {
      emitter_.Append(around(reads, flat ? Beyond::kLast : Beyond::kNothing));
    }
    emitter_.Append(around(leaves));
    for (const auto& [key, name] : kept.values) {
      if (!emitter_.space().MovesWith(key.second, loop.var)) continue;
      emitter_.Add(absl::StrCat(WordName(code_.body->op(key.first).type.dtype), " ", name, "[",
                                loop.shape.turns, "][", loop.shape.width, "];"));
    }
  }
}

absl::Status KeepText::ComputeAlike(const Used& used, Kept& kept) {
  if (!code_.schedule.keep_alike) return absl::OkStatus();
  std::map<ElementKey, std::string> names;
  for (const ElementLoop& loop : loops_.all()) {
    if (loop.shape.flat) continue;
    SINTER_RETURN_IF_ERROR(ComputeAlikeOf(loop, used, names));
  }
  kept.alike = std::move(names);
  for (const auto& [key, name] : kept.alike) kept.inputs.erase(key);
  return absl::OkStatus();
}

absl::Status KeepText::ComputeAlikeOf(const ElementLoop& loop, const Used& used,
                                      std::map<ElementKey, std::string>& names) {
  emitter_.SetKept(Kept());
  emitter_.BeginPass(loop.var, loop.shape.width, -1);
  emitter_.OpenScope();
  emitter_.OpenScope();
  std::string declared;
  absl::Status status;
  for (const auto& [key, passes] : used.alike) {
    if (!emitter_.space().MovesWith(key.second, loop.var)) continue;
    const std::string name = emitter_.NewName("alike");
    const Op& op = code_.body->op(key.first);
    names[key] = name;
    if (op.kind == OpKind::kInput) {
      // Issue only the reads here; the statements that wait for them come later.
      absl::StrAppend(&declared, "  ", PackDeclaration(op, name, loop.shape));
      emitter_.Add(absl::StrCat(name, "[j] = ", PackRead(key, loop), ";"));
      continue;
    }
    const absl::StatusOr<Emitted> value = emitter_.Pull(key.first, key.second);
    status.Update(value.status());
    if (!status.ok()) break;
    emitter_.Add(absl::StrCat(emitter_.EachText(), name, "[j][e] = ", value->Each(), ";"));
    absl::StrAppend(&declared, "  ", WordName(op.type.dtype), " ", name, "[", loop.shape.turns,
                    "][", loop.shape.width, "];\n");
  }
  const std::string inside = emitter_.CloseScope(), around = emitter_.CloseScope();
  SINTER_RETURN_IF_ERROR(status);
  if (declared.empty()) return absl::OkStatus();
  emitter_.Append(
      absl::StrCat(declared, around, AroundElements(loop.shape, code_.schedule, inside)));
  return absl::OkStatus();
}

std::string KeepText::PackRead(const ElementKey& key, const ElementLoop& loop) {
  const MemoryPlace place = emitter_.PlaceOf(key.first);
  const Index address = emitter_.Address(key.second, *place.strides);
  return absl::Substitute("load_pack<$0, $1>($2 + $3)",
                          ElementTypeName(code_.body->op(key.first).type.dtype), loop.shape.width,
                          place.first, IndexText(emitter_.space(), address, loop.var, false));
}

bool KeepText::OfUnit(const ElementKey& key) {
  const MemoryPlace place = emitter_.PlaceOf(key.first);
  return emitter_.space().MovesWith(emitter_.Address(key.second, *place.strides), emitter_.unit());
}

}  // namespace sinter
