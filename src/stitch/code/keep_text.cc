#include "src/stitch/code/keep_text.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "src/base/status.h"
#include "src/stitch/code/index_text.h"
#include "src/stitch/code/keeping.h"
#include "src/stitch/code/op_text.h"

namespace sinter {

Kept KeepText::Choose(const Used& used, bool inputs, bool values) {
  Kept kept;
  for (const auto& [key, passes] : used.inputs) {
    if (inputs && (program_.owner < 0 || OfUnit(key))) {
      kept.inputs[key] = emitter_.NewName("kept");
    }
  }
  // What ids name is read where a pass first needs it, and kept as it is then.
  for (const auto& [key, passes] : used.values) {
    const bool taken = code_.body->op(key.first).kind == OpKind::kGather;
    if (inputs && taken && passes.size() > 1) kept.values[key] = emitter_.NewName("kept");
  }
  if (!values) return kept;
  for (const ElementKey& key : ValuesWorthKeeping(*code_.body, used)) {
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
  }
  holds_.Choose(keys, loops_, emitter_.space());
}

void KeepText::Preload(const Kept& kept, bool flat, size_t phase, int units, BatchReads* batch) {
  for (const ElementLoop& loop : loops_.all()) {
    if (loop.shape.flat != flat) continue;
    std::string reads, leaves;
    for (const auto& [key, name] : kept.inputs) {
      if (!Walks(emitter_.space(), key, loop.var)) continue;
      const Op& op = code_.body->op(key.first);
      if (batch == nullptr) {
        emitter_.Append(absl::StrCat("    ", PackDeclaration(op, name, loop.shape)));
      } else {
        const std::string all = absl::StrCat(name, "s[", units, "]");
        absl::StrAppend(&batch->packs, "    ", PackDeclaration(op, all, loop.shape));
        absl::StrAppend(&batch->names, "    auto& ", name, " = ", name, "s[q];\n");
      }
      const std::string read = holds_.Take(key, phase, PackRead(key, op, loop));
      absl::StrAppend(&reads, "        ", name, "[j] = ", read, ";\n");
      const std::string leave = holds_.Leave(key, phase, name);
      if (!leave.empty()) absl::StrAppend(&leaves, "        ", leave, "\n");
    }
    const auto around = [&](const std::string& text, Beyond beyond = Beyond::kNothing) {
      return text.empty() ? "" : AroundElements(loop.shape, code_.schedule, text, beyond);
    };
    if (batch == nullptr) {
      emitter_.Append(around(reads, flat ? Beyond::kLast : Beyond::kNothing));
    } else {
      absl::StrAppend(&batch->reads, around(reads));
    }
    emitter_.Append(around(leaves));
    for (const auto& [key, name] : kept.values) {
      if (!Walks(emitter_.space(), key, loop.var)) continue;
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
    if (!Walks(emitter_.space(), key, loop.var)) continue;
    const std::string name = emitter_.NewName("alike");
    const Op& op = code_.body->op(key.first);
    names[key] = name;
    if (op.kind == OpKind::kInput) {
      // Issue only the reads here; the statements that wait for them come later.
      absl::StrAppend(&declared, "  ", PackDeclaration(op, name, loop.shape));
      emitter_.Add(absl::StrCat(name, "[j] = ", PackRead(key, op, loop), ";"));
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

std::string KeepText::PackDeclaration(const Op& input, const std::string& name,
                                      const PassShape& shape) {
  return absl::Substitute("Pack<$0, $1> $2[$3];\n", ElementTypeName(input.type.dtype), shape.width,
                          name, shape.turns);
}

std::string KeepText::PackRead(const ElementKey& key, const Op& input, const ElementLoop& loop) {
  const Index address = emitter_.Address(key.second, input.strides);
  return absl::Substitute("load_pack<$0, $1>(in$2 + $3)", ElementTypeName(input.type.dtype),
                          loop.shape.width, input.input,
                          IndexText(emitter_.space(), address, loop.var, false));
}

bool KeepText::OfUnit(const ElementKey& key) {
  return emitter_.space().MovesWith(emitter_.Address(key.second, code_.body->op(key.first).strides),
                                    emitter_.unit());
}

}  // namespace sinter
