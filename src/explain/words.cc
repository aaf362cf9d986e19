// What kernels compute, in the words of whoever made the chain: "2 kernels: gate, up and silu in
// one; down".
#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/base/format.h"
#include "src/explain/explain.h"

namespace sinter {
namespace {

constexpr size_t kMostWords = 6;    // of a kernel
constexpr size_t kMostKernels = 6;  // of a plan

using Words = std::vector<std::string>;

void AddOnce(absl::string_view word, Words* words) {
  if (std::find(words->begin(), words->end(), word) == words->end()) words->emplace_back(word);
}

bool IsView(OpKind kind) {
  return kind == OpKind::kBroadcast || kind == OpKind::kTranspose || kind == OpKind::kReshape ||
         kind == OpKind::kSlice;
}

// The ops of a body, each name once; views and casts only where there is nothing else.
void AddOps(const Chain& body, Words* words) {
  Words views;
  for (const Op& op : body.ops()) {
    if (op.kind == OpKind::kInput || op.kind == OpKind::kScalar) continue;
    AddOnce(LabelOf(op), IsView(op.kind) || op.kind == OpKind::kCast ? &views : words);
  }
  if (words->empty()) *words = std::move(views);
}

// The weights by their names, if they have any, and what is done to the sums.
void AddProduct(const MatrixProduct& p, const Words& weights, Words* words) {
  const ProductEpilogue& e = p.epilogue;
  if (p.rows.source == Source::kWindow) {
    words->emplace_back("convolution");
  } else {
    const Words fallback = p.pair ? Words{"gate", "up"} : Words{"product"};
    for (size_t i = 0; i < fallback.size(); ++i) {
      words->push_back(i < weights.size() && !weights[i].empty() ? weights[i] : fallback[i]);
    }
    if (p.pair && words->back() == words->end()[-2]) words->pop_back();  // both of one weight
  }
  if (e.norm.has_value()) words->emplace_back("norm of the rows");
  if (e.scale != 1) words->emplace_back("scale");
  if (e.factor.has_value()) words->emplace_back("row factor");
  if (p.HasColumnScales()) words->emplace_back("column scale");
  if (e.bias.has_value()) words->emplace_back("bias");
  const auto add_activation = [&](Activation activation) {
    if (activation != Activation::kIdentity) words->emplace_back(NameOf(activation));
  };
  add_activation(e.activation());
  if (e.program.written()) {
    Words ops;
    AddOps(*e.program.body, &ops);
    words->insert(words->end(), ops.begin(), ops.end());
  }
  if (e.form().residual) words->emplace_back("residual");
  add_activation(e.sum_activation());
  if (e.quantize.has_value()) words->emplace_back("quantize");
}

// "a, b and c", "a, b, c, d, e and 7 more".
std::string Listed(Words words) {
  if (words.size() > kMostWords) {
    const size_t more = words.size() - kMostWords + 1;
    words.resize(kMostWords - 1);
    words.push_back(absl::StrCat(more, " more"));
  }
  if (words.size() < 2) return words.empty() ? "nothing" : words.front();
  const std::string last = words.back();
  words.pop_back();
  return absl::StrCat(absl::StrJoin(words, ", "), " and ", last);
}

}  // namespace

std::string LabelOf(const Op& op) {
  switch (op.kind) {
    case OpKind::kReduce:
      return absl::StrCat("reduce ", NameOf(op.reduce));
    case OpKind::kCast:
      return absl::StrCat("cast ", NameOf(op.type.dtype));
    default:
      return std::string(NameOf(op));
  }
}

void NameOps(const KernelSpec& spec, const BufferNames& names, ExplainedKernel* story) {
  Words words;
  if (spec.stitch != nullptr) {
    AddOps(spec.stitch->body, &words);
  } else {
    const auto name = [&](Role role) { return names.Given(spec, role); };
    const ProductSequence& s = spec.sequence;
    for (int i = 0; i < s.size(); ++i) {
      AddProduct(s[i],
                 i == 0 ? Words{name(Role::kW), name(Role::kWUp)} : Words{name({Role::kW, 1})},
                 &words);
    }
  }
  story->shares = words.size() > 1;
  story->computes = Listed(std::move(words));
}

std::string ComputesOf(const std::vector<ExplainedKernel>& kernels) {
  Words order;
  std::map<std::string, int> counts;
  for (const ExplainedKernel& kernel : kernels) {
    const std::string text = absl::StrCat(kernel.computes, kernel.shares ? " in one" : "");
    if (++counts[text] == 1) order.push_back(text);
  }
  Words list;
  for (const std::string& text : order) {
    if (list.size() == kMostKernels && order.size() > kMostKernels + 1) {
      list.push_back(absl::StrCat("and ", order.size() - kMostKernels, " other kinds"));
      break;
    }
    list.push_back(counts[text] > 1 ? absl::StrCat(counts[text], " x ", text) : text);
  }
  return absl::StrCat(Counted(kernels.size(), "kernel"), ": ", absl::StrJoin(list, "; "));
}

}  // namespace sinter
