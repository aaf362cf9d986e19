#include "src/normal/normal_form.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "src/base/refusal.h"
#include "src/base/status.h"
#include "src/normal/graph.h"
#include "src/normal/rules.h"

namespace sinter {

absl::Span<const NormalRule> NormalRules() {
  static constexpr NormalRule kRules[] = {
      {"plain products", Law::kStructural, PlainProducts},
      {"sums of vectors", Law::kStructural, SumsOfVectors},
      {"idle ops out", Law::kStructural, IdleOpsOut},
      {"equal ops once", Law::kStructural, EqualOpsOnce},
      {"known forms", Law::kRecomposition, KnownForms},
      {"rows of M", Law::kStructural, RowsOfM},
      {"idle ops out", Law::kStructural, IdleOpsOut},  // views between rows that were relabelled
      {"views in order", Law::kStructural, ViewsInOrder},
      {"pairs of one weight", Law::kStructural, PairsOfOneWeight},
      {"long rows in parts", Law::kRecomposition, LongRowsInParts},
      {"long steps in parts", Law::kRecomposition, LongStepsInParts},
      {"views of inputs", Law::kStructural, ViewsOfInputs},
      {"views of results", Law::kStructural, ViewsOfResults},
      {"copied operands", Law::kStructural, CopiedOperands},
      {"equal ops once", Law::kStructural, EqualOpsOnce},
      {"results apart", Law::kStructural, ResultsApart},
  };
  return kRules;
}

std::shared_ptr<const NormalForm> IdentityForm(std::shared_ptr<const Chain> chain) {
  auto form = std::make_shared<NormalForm>();
  for (int i = 0; i < chain->num_inputs() + chain->num_outputs(); ++i) {
    form->buffers.push_back({i, 0});
  }
  form->callers = form->chain = std::move(chain);
  return form;
}

absl::StatusOr<std::shared_ptr<const NormalForm>> NormalFormOf(std::shared_ptr<const Chain> chain) {
  NormalGraph graph(chain);
  bool changed = false;
  for (const NormalRule& rule : NormalRules()) changed |= rule.apply(graph);
  if (!changed) return IdentityForm(std::move(chain));
  absl::StatusOr<std::shared_ptr<const NormalForm>> form = graph.Finish();
  if (form.ok()) return form;
  return Internal("the chain has no normal form: ", form.status().message());
}

std::string NormalForm::InCallersNumbers(absl::string_view text) const {
  constexpr absl::string_view kOp = "op ";
  std::string result;
  while (!text.empty()) {
    const bool word =
        result.empty() || !absl::ascii_isalnum(static_cast<unsigned char>(result.back()));
    size_t digits = 0;
    const absl::string_view behind = absl::StartsWith(text, kOp) ? text.substr(kOp.size()) : "";
    while (digits < behind.size() &&
           absl::ascii_isdigit(static_cast<unsigned char>(behind[digits])))
      ++digits;
    size_t number = 0;
    if (word && absl::SimpleAtoi(behind.substr(0, digits), &number) && number < origins.size()) {
      absl::StrAppend(&result, kOp, origins[number]);
      text.remove_prefix(kOp.size() + digits);
    } else {
      result.push_back(text.front());
      text.remove_prefix(1);
    }
  }
  return result;
}

absl::Status NormalForm::InCallersNumbers(const absl::Status& error) const {
  absl::Status told = WithMessage(error, InCallersNumbers(error.message()));
  const int32_t op = OpOf(error);
  if (op < 0 || op >= static_cast<int32_t>(origins.size())) return told;
  return WithOp(std::move(told), origins[static_cast<size_t>(op)]);
}

std::string NoteFor(const Chain& caller, absl::string_view note) {
  constexpr absl::string_view kInput = " is input ";
  std::string result;
  while (!note.empty()) {
    const size_t at = std::min(note.find(kInput), note.size());
    const size_t begin = std::min(at + kInput.size(), note.size());
    absl::StrAppend(&result, note.substr(0, begin));
    note.remove_prefix(begin);
    size_t digits = 0;
    while (digits < note.size() && absl::ascii_isdigit(static_cast<unsigned char>(note[digits])))
      ++digits;
    size_t number = 0;
    if (!absl::SimpleAtoi(note.substr(0, digits), &number)) continue;
    if (number >= caller.InputOrder().size()) continue;
    absl::StrAppend(&result, caller.InputOrder()[number]);
    note.remove_prefix(digits);
  }
  return result;
}

std::vector<uint64_t> NormalForm::Expand(const std::vector<uint64_t>& callers) const {
  std::vector<uint64_t> expanded;
  expanded.reserve(buffers.size());
  for (const BufferView& view : buffers) {
    expanded.push_back(callers[static_cast<size_t>(view.buffer)] +
                       static_cast<uint64_t>(view.offset_bytes));
  }
  return expanded;
}

}  // namespace sinter
