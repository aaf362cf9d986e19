#include "src/engine/cache_tools.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cache/record/record.h"
#include "src/base/device_model.h"
#include "src/chain/problem.h"
#include "src/engine/keys.h"
#include "src/plan/family.h"
#include "src/product/matcher.h"

namespace sinter {
namespace {

constexpr size_t kShownKinds = 5, kShownTensors = 3, kShownProducts = 6;

template <typename T, typename Text>
std::string ListText(const std::vector<T>& list, size_t most, const char* separator, Text&& text) {
  std::vector<std::string> shown;
  for (size_t i = 0; i < std::min(list.size(), most); ++i) shown.push_back(text(list[i]));
  if (list.size() > most) shown.push_back(absl::StrCat("..", list.size() - most, " more"));
  return absl::StrJoin(shown, separator);
}

std::string ProductsStory(const ProductSequence& s) {
  const MatrixProduct& first = s.front();
  const bool pair =
      s.size() == 2 && !s[1].pair && s[1].epilogue.activation() == Activation::kIdentity;
  std::string text;
  if (s.size() == 1 || pair) {
    const char* one = first.pair ? "gate_up" : "matmul";
    text = absl::StrCat(!pair        ? one
                        : first.pair ? "gated_ffn"
                                     : "gemm_chain",
                        " n=", first.n, " k=", first.k_is_m ? "M" : absl::StrCat(first.k),
                        pair ? absl::StrCat(" l=", s[1].n) : "",
                        " act=", NameOf(first.epilogue.activation()));
  } else {
    const auto columns = [](const MatrixProduct& p) { return absl::StrCat(p.n); };
    const auto acts = [](const MatrixProduct& p) {
      return absl::StrCat(p.pair ? "gated " : "", NameOf(p.epilogue.activation()));
    };
    text = absl::StrCat("products k=", first.k,
                        " n=", ListText(s.products, kShownProducts, ",", columns),
                        " act=", ListText(s.products, kShownProducts, ",", acts));
  }
  const auto any = [&](auto has) {
    return std::any_of(s.products.begin(), s.products.end(),
                       [&](const MatrixProduct& p) { return has(p.epilogue); });
  };
  if (any([](const ProductEpilogue& e) { return e.program.written(); })) text += " program";
  if (any([](const ProductEpilogue& e) { return e.bias().has_value(); })) text += " biased";
  if (any([](const ProductEpilogue& e) { return e.has_residual(); })) text += " residual";
  if (s.scaled()) text += " scaled";
  if (first.HasTransposedRows()) text += " rows=transposed";
  return absl::StrCat(text, " layout=", NameOf(s.layout()), " dtype=", NameOf(s.element()));
}

std::string OpsStory(const Chain& chain) {
  std::map<std::string, int> counts;
  int ops = 0;
  for (const Op& op : chain.ops()) {
    if (op.kind == OpKind::kInput) continue;
    ++counts[std::string(NameOf(op))];
    ++ops;
  }
  std::vector<std::pair<std::string, int>> kinds(counts.begin(), counts.end());
  std::stable_sort(kinds.begin(), kinds.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<std::string> inputs, outputs;
  for (int i = 0; i < chain.num_inputs(); ++i) inputs.push_back(ToString(chain.input_op(i).type));
  for (int i = 0; i < chain.num_outputs(); ++i) outputs.push_back(ToString(chain.output_type(i)));
  const auto itself = [](const std::string& text) { return text; };
  const auto counted = [](const std::pair<std::string, int>& kind) {
    return kind.second == 1 ? kind.first : absl::StrCat(kind.second, " ", kind.first);
  };
  return absl::StrCat(ops,
                      ops == 1 ? " op: " : " ops: ", ListText(kinds, kShownKinds, ", ", counted),
                      " of ", ListText(inputs, kShownTensors, " ", itself), " to ",
                      ListText(outputs, kShownTensors, " ", itself));
}

std::string ModelName(const Digest& digest) {
  for (const std::string& name : BuiltinModelNames()) {
    const absl::StatusOr<DeviceModel> model = BuiltinModel(name);
    if (model.ok() && (model->ModelDigest() == digest || ChipDigest(*model) == digest)) return name;
  }
  return absl::StrCat("model ", digest.Hex().substr(0, 8));
}

RecordStory PlanStory(absl::string_view bytes) {
  RecordStory story;
  const absl::StatusOr<PlanKey> key = DecodePlanKey(bytes);
  if (!key.ok()) return story;
  story.device = ModelName(key->device_model);
  const absl::StatusOr<Chain> chain = ChainFromCanonicalBytes(key->chain);
  if (!chain.ok()) return story;
  story.what = ChainStory(*chain);
  story.uses_m = chain->UsesM();
  story.bucket = key->bucket;
  if (RequestOfFlags(key->flags).measured) absl::StrAppend(&story.what, ", measured");
  if (key->tuning_set != Digest()) {
    absl::StrAppend(&story.what, ", tuning set ", key->tuning_set.Hex().substr(0, 8));
  }
  return story;
}

RecordStory KernelStory(absl::string_view bytes) {
  RecordStory story;
  const absl::StatusOr<KernelKey> key = DecodeKernelKey(bytes);
  if (!key.ok()) return story;
  story.device = key->arch;
  const absl::StatusOr<KernelCode> code = ReadCode(key->code, key->schedule);
  if (!code.ok()) return story;
  const auto* const stitch = BodyAs<StitchCode>(code->body);
  const Chain* const body = stitch == nullptr ? nullptr : stitch->body.get();
  const std::string what = body == nullptr ? code->ProblemText() : ChainStory(*body);
  story.what = absl::StrCat(NameOf(code->family), ": ", what, " [", code->ScheduleText(), "]");
  return story;
}

// A problem line of exactly this chain with m open; "" if no line says all of it.
std::string ProblemLineOf(const Chain& chain) {
  const std::string story = ChainStory(chain);
  const size_t kind = story.find(' ');
  if (kind == std::string::npos) return "";
  const std::string line = absl::StrCat(story.substr(0, kind), " m=M", story.substr(kind));
  const absl::StatusOr<Problem> problem = ParseProblem(line);
  const bool same = problem.ok() && problem->chain.CanonicalDigest() == chain.CanonicalDigest();
  return same ? line : "";
}

}  // namespace

std::string HowToWarm(const PlanRequest& request, const EngineCore& core) {
  const Chain& chain = request.chain();
  const std::string line = ProblemLineOf(chain), model = ModelName(core.model_digest);
  const std::string rows = chain.UsesM() ? absl::StrCat(" -m ", request.bucket) : "";
  const std::string bucket = chain.UsesM() ? absl::StrCat("bucket ", request.bucket, " of ") : "";
  // A check on a GPU takes the GPU at hand; the command names the model for any other machine.
  const bool verified = core.config.must_hit_verified;
  const bool named = verified || !absl::StartsWith(model, "model ");
  const std::string flags = absl::StrCat(request.batch_invariant ? " --batch-invariant" : "",
                                         core.ports.tuning != nullptr ? " --tuning-set FILE" : "",
                                         verified ? " --verify" : " --target ",
                                         verified ? ""
                                         : named  ? model
                                                  : "MODEL");
  return absl::StrCat("missing: ", bucket, ChainStory(chain), "; to warm it: sinter warm ",
                      line.empty() ? "CHAIN.json" : absl::StrCat("\"", line, "\""), rows, flags,
                      line.empty() ? " (sinter_x_chain_to_json makes CHAIN.json)" : "",
                      named ? "" : " (sinter device --model makes MODEL)",
                      verified ? " on a machine with this GPU" : "",
                      ", into the cache folder or the pack (--pack FILE) that is served here");
}

std::string ChainStory(const Chain& chain) {
  const absl::StatusOr<MatchedSequence> matched = MatchProducts(chain);
  return matched.ok() ? ProductsStory(matched->sequence) : OpsStory(chain);
}

RecordStory StoryOfKey(RecordKind kind, absl::string_view key) {
  return kind == RecordKind::kPlan ? PlanStory(key) : KernelStory(key);
}

}  // namespace sinter
