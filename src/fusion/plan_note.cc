#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/base/format.h"
#include "src/chain/chain.h"
#include "src/fusion/plan_choice.h"
#include "src/fusion/stitch/stitch_graph.h"

namespace sinter {
namespace {

constexpr size_t kMostListed = 6;  // runs in a note
constexpr int kTimesBytes = 10;    // a batched product is slow above so many times its bytes' time

std::string Count(int kernels) { return Counted(static_cast<uint64_t>(kernels), "kernel"); }

// One group for each kernel.
std::string GroupsOf(const Segmentation& cut) {
  return absl::StrJoin(cut, " | ", [](std::string* out, const Segment& segment) {
    absl::StrAppend(out, segment.begin + 1);
    if (segment.count == 2) absl::StrAppend(out, "+", segment.end());
  });
}

// Drops what is above the limit, and says how many `things` that was.
void Shorten(absl::string_view things, std::vector<std::string>* list) {
  if (list->size() <= kMostListed) return;
  const size_t more = list->size() - kMostListed;
  list->resize(kMostListed);
  list->push_back(absl::StrCat("and ", more, " more ", things));
}

// Why runs do not continue those whose results they read: such a kernel would need the results of
// other tiles.
std::vector<std::string> WindowsOfResults(const std::vector<PlanStep>& steps) {
  std::set<ValueId> results;
  for (const PlanStep& step : steps) {
    if (step.run != nullptr) results.insert(step.run->end);
  }
  std::vector<std::string> list;
  for (const PlanStep& step : steps) {
    if (step.run == nullptr || step.run->IsOwn()) continue;
    const MatchedSequence& matched = step.run->matched;
    const ValueId rows = matched.ValueOf(matched.rows);
    if (matched.sequence.front().rows.source != Source::kWindow || results.count(rows) == 0)
      continue;
    list.push_back(absl::StrCat("products apart: op ", step.run->end, " takes windows of op ", rows,
                                ", which lie across tiles"));
  }
  Shorten("windows of results", &list);
  return list;
}

// Batched products that a stitched kernel computes thread by thread: where that takes many times
// what the kernel's bytes take, an attention kernel would be a fraction of it.
std::vector<std::string> SlowBatches(const std::vector<PlanStep>& steps) {
  std::vector<std::string> list;
  for (const PlanStep& step : steps) {
    if (step.run != nullptr) continue;
    const Prediction& time = step.stitch.prediction;
    if (time.total_us - time.fixed_us <= kTimesBytes * time.hbm_us) continue;
    const std::vector<Op>& ops = step.body->body.ops();
    const bool batched = std::any_of(ops.begin(), ops.end(),
                                     [](const Op& op) { return op.kind == OpKind::kMatmul; });
    if (!batched || step.body->outputs.empty()) continue;
    list.push_back(FormatText(
        "op %d is made of batched products that threads compute one by one: predicted %.1f us, "
        "its bytes take %.1f; leave them to a kernel of their own",
        step.body->outputs.front().value, time.total_us, time.hbm_us));
  }
  Shorten("batched products", &list);
  return list;
}

// Matrices that stitched kernels make of constant codes in each call, for products of wider types.
std::vector<std::string> DequantizedWeights(const std::vector<PlanStep>& steps) {
  std::vector<std::string> list;
  for (const PlanStep& step : steps) {
    if (step.run != nullptr) continue;
    const Chain& body = step.body->body;
    for (int i = 0; i < body.num_outputs(); ++i) {
      const TensorType& type = body.output_type(i);
      if (type.rank() < 2 || SymbolicAxis(type.dims) >= 0 || !IsFloat(type.dtype)) continue;
      const bool of_codes = std::any_of(body.ops().begin(), body.ops().end(), [&](const Op& op) {
        return op.kind == OpKind::kInput && op.constant && IsCode(op.type.dtype) &&
               ElementCount(op.type.dims, 1).value_or(0) == ElementCount(type.dims, 1).value_or(1);
      });
      if (!of_codes) continue;
      list.push_back(absl::StrCat("op ", step.body->outputs[static_cast<size_t>(i)].value,
                                  " dequantizes a constant to ", ToString(type),
                                  " in each call: scaled_matmul multiplies its codes"));
    }
  }
  Shorten("dequantized constants", &list);
  return list;
}

}  // namespace

std::string NoteOfSequence(const Segmentation& cut, const Rankings& rankings) {
  if (!rankings.why_no_pair().empty()) return rankings.why_no_pair();
  const int products = cut.back().end();
  if (PairsOf(cut) > 0) return products > 2 ? absl::StrCat("products ", GroupsOf(cut)) : "";
  return absl::StrCat("products apart: ", products == 2 ? "two" : absl::StrCat(products),
                      " kernels are predicted to be no slower");
}

std::string NoteOfGraph(const std::vector<PlanStep>& steps,
                        const std::vector<std::string>& refusals) {
  std::vector<std::string> absorbed, parts;
  int ops = 0, kernels = 0;
  for (const PlanStep& step : steps) {
    if (step.run != nullptr) {
      absorbed.push_back(AbsorbedBy(*step.run));
      continue;
    }
    ++kernels;
    for (const Op& op : step.body->body.ops()) ops += op.kind != OpKind::kInput;
  }
  if (kernels > 0)
    parts.push_back(
        absl::StrCat(Counted(static_cast<uint64_t>(ops), "op"), " stitched in ", Count(kernels)));
  Shorten("products", &absorbed);
  parts.insert(parts.end(), absorbed.begin(), absorbed.end());
  const std::vector<std::string> windows = WindowsOfResults(steps);
  parts.insert(parts.end(), windows.begin(), windows.end());
  const std::vector<std::string> batches = SlowBatches(steps);
  parts.insert(parts.end(), batches.begin(), batches.end());
  const std::vector<std::string> codes = DequantizedWeights(steps);
  parts.insert(parts.end(), codes.begin(), codes.end());
  for (const std::string& refusal : refusals) {
    parts.push_back(absl::StrCat("ops apart: ", refusal));
  }
  return absl::StrJoin(parts, "; ");
}

std::string AbsorbedBy(const GraphRun& run) {
  std::vector<std::string> steps;
  if (run.IsOwn()) steps.push_back(run.own.text);
  for (const MatrixProduct& p : run.matched.sequence.products) {
    const ProductEpilogue& e = p.epilogue;
    std::string text = p.pair ? "gated pair" : "product";
    if (p.accumulate == Accumulate::kFast) text += " of fast sums";
    if (e.norm.has_value()) text += " * row norm";
    if (e.scale() != 1) absl::StrAppend(&text, " * ", e.scale());
    if (e.factor().has_value()) absl::StrAppend(&text, " * row factor");
    if (p.HasColumnScales()) absl::StrAppend(&text, " * column scale");
    if (e.bias().has_value()) absl::StrAppend(&text, " + bias");
    if (e.program.written()) absl::StrAppend(&text, " + ", ToString(e.program));
    const EpilogueForm form = e.form();
    const auto activation = [&](Activation of) {
      if (of != Activation::kIdentity) absl::StrAppend(&text, " + ", NameOf(of));
    };
    activation(form.activation);
    if (form.residual) text += " + residual";
    activation(form.sum_activation);
    if (e.quantize.has_value()) absl::StrAppend(&text, " + quantize");
    steps.push_back(std::move(text));
  }
  return absl::StrCat("op ", run.end, ": ", absl::StrJoin(steps, ", "));
}

}  // namespace sinter
