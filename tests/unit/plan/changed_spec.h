// Specs of products' kernels changed by text:
//   out.row_stride=8        a field of the operand of that role; w1 is also a lone product's
//   drop=w_up               without that operand
//   flags=2                 workspace_flags_offset
//   p.element=f32 s.stages=2   the sequence and the schedule (tests/support/changed_sequence.h)
//   constant_weights=false constant_rows=true
#pragma once

#include "tests/support/changed_sequence.h"
#include "tests/support/refusals.h"
#include "tests/unit/plan/sample_kernels.h"

namespace sinter {

inline KernelSpec Changed(KernelSpec spec, absl::string_view words) {
  ProductBody& body = ProductIn(&spec);
  const auto of_role = [&](absl::string_view name) {
    const auto at = std::find_if(body.operands.begin(), body.operands.end(), [&](const auto& one) {
      return NameOf(one.role, body.sequence.size()) == name || NameOf(one.role, 2) == name;
    });
    if (at == body.operands.end()) throw std::runtime_error(absl::StrCat("no operand ", name));
    return at;
  };
  for (const absl::string_view text : absl::StrSplit(words, ' ', absl::SkipEmpty())) {
    const changed_fields::FieldWord word(text);
    if (word.path == "drop") {
      body.operands.erase(of_role(word.value));
    } else if (word.path == "flags") {
      spec.workspace_flags_offset = changed_fields::NumberOf<uint64_t>(word);
    } else if (absl::StartsWith(text, "constant_")) {
      (word.path == "constant_rows" ? body.constant_rows : body.constant_weights) =
          word.value == "true";
    } else if (absl::StartsWith(text, "p.")) {
      body.sequence = Changed(body.sequence, text.substr(2));
    } else if (absl::StartsWith(text, "s.")) {
      body.schedule = Changed(body.schedule, text.substr(2));
    } else {
      const size_t dot = word.path.find('.');
      changed_fields::Change(&*of_role(word.path.substr(0, dot)), word.path.substr(dot), word);
    }
  }
  return spec;
}

}  // namespace sinter
