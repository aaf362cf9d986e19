#include "src/fusion/stitch/kernel_choice.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "src/base/refusal.h"
#include "src/base/status.h"
#include "src/stitch/schedule.h"

namespace sinter {
namespace {

constexpr size_t kMostRefusals = 8;  // listed in a plan's note
// A kernel is slow when it takes this multiple of the delta-evaluator's time plus this much.
constexpr double kSlow = 1.5, kSlowUs = 1;
constexpr int kMostBodies = 400;    // different bodies, after which slow kernels are accepted
constexpr int kMostOtherCuts = 64;  // of a plan, in addition to the cuts in half

// Kernel packing (FusionStitching 4.1) of a plan's finished kernels: independent ones share a
// launch.
class KernelPacker {
 public:
  static constexpr int kMostTries = 48;  // packed kernels that one packer evaluates

  // Uses the evaluator's bound of operands and its pace.
  KernelPacker(const StitchGraph& graph, LatencyEvaluator* latency, const DeltaEvaluator& evaluator)
      : graph_(graph),
        latency_(latency),
        options_(evaluator.options()),
        costs_(evaluator.model().stitch) {}

  // Packs independent kernels, first ones first, where that is predicted to be faster, and long
  // texts of independent parts where that is not slower. `kernels` are in an executable order and
  // stay so; kernels without a body are not packed. Deterministic.
  void Pack(std::vector<CostedKernel>* kernels);

 private:
  using Kernels = std::vector<CostedKernel>;

  // Packs the parts of one long kernel.
  void Shorten(CostedKernel* kernel);
  // `kernels` with the two packed; empty where nothing is gained.
  Kernels Packed(const Kernels& kernels, size_t a, size_t b);
  bool Depend(const NodeSet& a, const NodeSet& b) const;
  // What it is taken to cost where a packed one might be in its place.
  static double Judged(const CostedKernel& kernel);

  const StitchGraph& graph_;
  LatencyEvaluator* latency_;
  const DeltaOptions options_;
  const StitchConstants& costs_;
  int tries_ = 0;
};

// Long kernels of independent parts are packed while the cost is at most this factor: parts with
// one text are compiled once, and each takes the vectors that its extents allow.
constexpr size_t kLongText = 200;
constexpr double kShortTextShare = 1.1;

// Independent parts in the units of one kernel follow one another in every thread. Where each has
// its own blocks instead, they were faster at times that were predicted up to 3 % longer
// (docs/lab/stitch-search.md).
constexpr double kJoinedPartsShare = 1.06;

int OperandsOf(const StitchBody& body) { return body.body.num_inputs() + body.body.num_outputs(); }

bool KernelPacker::Depend(const NodeSet& a, const NodeSet& b) const {
  NodeSet before(graph_.size());
  b.ForEach([&](int v) { before.Unite(graph_.Before(v)); });
  return before.Intersects(a);
}

double KernelPacker::Judged(const CostedKernel& kernel) {
  const bool joined = !kernel.packed && IndependentOutputs(kernel.body->body).size() > 1;
  return joined ? kJoinedPartsShare * kernel.us : kernel.us;
}

KernelPacker::Kernels KernelPacker::Packed(const Kernels& kernels, size_t a, size_t b) {
  const CostedKernel &first = kernels[a], &second = kernels[b];
  Step(options_.pace);
  if (first.body == nullptr || second.body == nullptr || tries_ == kMostTries) return {};
  if (OperandsOf(*first.body) + OperandsOf(*second.body) > options_.max_operands) return {};
  Step(options_.pace, graph_.size() / 64 * (1 + second.vertices.size()));
  if (Depend(first.vertices, second.vertices)) return {};
  Ask(options_.pace);
  NodeSet both = first.vertices;
  both.Unite(second.vertices);
  ++tries_;
  absl::StatusOr<CostedKernel> packed = latency_->EvaluatePacked(graph_, both);
  if (!packed.ok() || packed->us > Judged(first) + Judged(second) - costs_.error_us) return {};
  Kernels list = kernels;
  list[a] = *std::move(packed);
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(b));
  return OrderKernels(graph_, &list) ? list : Kernels();
}

void KernelPacker::Shorten(CostedKernel* kernel) {
  if (kernel->body == nullptr || kernel->body->body.ops().size() < kLongText) return;
  absl::StatusOr<CostedKernel> packed = latency_->EvaluatePacked(graph_, kernel->vertices);
  if (packed.ok() && packed->us <= kShortTextShare * kernel->us) *kernel = *std::move(packed);
}

void KernelPacker::Pack(Kernels* kernels) {
  for (CostedKernel& kernel : *kernels) Shorten(&kernel);
  for (size_t a = 0; a < kernels->size(); ++a) {
    for (size_t b = a + 1; b < kernels->size();) {
      Kernels packed = Packed(*kernels, a, b);
      if (packed.empty()) {
        ++b;
        continue;
      }
      *kernels = std::move(packed);
      a = 0;  // the order may have changed
      b = 1;
    }
  }
}

class Chooser {
 public:
  Chooser(const StitchGraph& graph, DeltaEvaluator* evaluator, LatencyEvaluator* latency, bool join,
          ChosenKernels* out)
      : graph_(graph), evaluator_(evaluator), latency_(latency), join_(join), out_(*out) {}

  absl::Status AddPattern(const NodeSet& vertices) {
    SINTER_ASSIGN_OR_RETURN(std::vector<CostedKernel> kernels, Settle(vertices));
    for (CostedKernel& kernel : kernels) Add(std::move(kernel));
    return absl::OkStatus();
  }

  void Add(CostedKernel kernel) {
    out_.us += kernel.us;
    out_.kernels.push_back(std::move(kernel));
  }

 private:
  using Kernels = std::vector<CostedKernel>;

  static double Sum(const Kernels& kernels) {
    double us = 0;
    for (const CostedKernel& kernel : kernels) us += kernel.us;
    return us;
  }

  // The kernels of `vertices`: one, or those of its parts where that one is refused or slower.
  absl::StatusOr<Kernels> Settle(const NodeSet& vertices) {
    Ask(evaluator_->options().pace);
    absl::StatusOr<CostedKernel> whole = latency_->Evaluate(graph_, vertices);
    if (absl::IsResourceExhausted(whole.status())) return whole.status();
    if (vertices.size() == 1) {
      if (!whole.ok()) return RefusalOf(vertices, whole.status());
      return Kernels{*std::move(whole)};
    }
    const std::vector<NodeSet> components = graph_.ComponentsOf(vertices);
    const int barriers = evaluator_->TimeOf(vertices).barriers;
    if (whole.ok() && components.size() == 1 && barriers == 0 && !IsSlow(*whole)) {
      return Kernels{*std::move(whole)};
    }
    absl::StatusOr<Kernels> parts = SettleCuts(vertices, components);
    if (!whole.ok()) {
      NoteRefusal(std::string(whole.status().message()));
      return parts;
    }
    if (parts.ok() && Sum(*parts) < whole->us) return parts;
    return Kernels{*std::move(whole)};
  }

  // Whether a kernel takes much longer than its bytes, so that its parts may be faster. The same
  // holds for a kernel that turns a filter.
  bool IsSlow(const CostedKernel& whole) {
    for (const int v : whole.vertices.ToVector()) {
      if (graph_.chain().op(graph_.vertex(v).root()).kind == OpKind::kTranspose) return true;
    }
    const double expected = evaluator_->TimeOf(whole.vertices).total();
    return whole.us > kSlow * expected + kSlowUs && latency_->bodies() < kMostBodies;
  }

  void NoteRefusal(std::string why) {
    std::vector<std::string>& told = out_.refusals;
    if (told.size() == kMostRefusals) return;
    if (std::find(told.begin(), told.end(), why) == told.end()) told.push_back(std::move(why));
  }

  // Names the op by the chain's number. The body's numbers mean nothing outside. Another op is
  // reported by its kind.
  absl::Status RefusalOf(const NodeSet& vertex, const absl::Status& why) const {
    const ValueId root = graph_.vertex(vertex.First()).root();
    const absl::string_view kind = NameOf(graph_.chain().op(root));
    const absl::string_view message = why.message();
    const size_t begin = message.find(" ("), end = message.find("): ");
    std::string reason(message);
    if (absl::StartsWith(message, "op ") && begin < end && end != message.npos) {
      const absl::string_view inner = message.substr(begin + 2, end - begin - 2);
      reason = absl::StrCat(inner == kind ? "" : absl::StrCat("its ", inner, ": "),
                            message.substr(end + 3));
    }
    return OpRefused(root, " (", kind, "): ", reason);
  }

  // By the faster cut, where there is a choice.
  absl::StatusOr<Kernels> SettleCuts(const NodeSet& vertices,
                                     const std::vector<NodeSet>& components) {
    if (components.size() > 1) return SettleAll(Apart(components));
    const std::vector<NodeSet> halves = Cut(vertices);
    absl::StatusOr<Kernels> parts = SettleAll(halves);
    const std::vector<NodeSet> narrow = CutWhereLeastPasses(vertices);
    if (narrow == halves || other_cuts_ == kMostOtherCuts) return parts;
    if (absl::IsResourceExhausted(parts.status())) return parts;
    ++other_cuts_;
    absl::StatusOr<Kernels> others = SettleAll(narrow);
    if (absl::IsResourceExhausted(others.status())) return others;
    return !parts.ok() || (others.ok() && Sum(*others) < Sum(*parts)) ? others : parts;
  }

  // The kernels of all parts, joined again if that is faster.
  absl::StatusOr<Kernels> SettleAll(const std::vector<NodeSet>& parts) {
    Kernels all;
    for (const NodeSet& part : parts) {
      SINTER_ASSIGN_OR_RETURN(Kernels kernels, Settle(part));
      for (CostedKernel& kernel : kernels) all.push_back(std::move(kernel));
    }
    if (join_) KernelJoiner(graph_, evaluator_, latency_).Join(&all);
    return all;
  }

  // Bytes that pass between the first vertices of a pattern and the others: results, which are
  // stored only for that if nothing else needs them, and the values that both read.
  int64_t PassedBytes(const NodeSet& vertices, const NodeSet& head) const {
    std::map<int, int64_t> read;  // by tensor, by the others
    vertices.ForEach([&](int v) {
      if (head.Contains(v)) return;
      for (const StitchRead& one : graph_.vertex(v).reads) {
        int64_t& bytes = read[one.tensor];
        bytes = std::max(bytes, one.bytes);
      }
    });
    int64_t passed = 0;
    std::set<int> twice;  // from outside
    head.ForEach([&](int v) {
      const int own = graph_.vertex(v).tensor;
      if (const auto found = read.find(own); found != read.end()) {
        passed += found->second + (graph_.Leaves(own, vertices) ? 0 : graph_.tensor(own).bytes);
      }
      for (const StitchRead& one : graph_.vertex(v).reads) {
        const bool outside = !graph_.IsOf(one.tensor, vertices);
        if (outside && read.count(one.tensor) > 0) twice.insert(one.tensor);
      }
    });
    for (const int tensor : twice) passed += read[tensor];
    return passed;
  }

  // Two parts of a pattern's order between which the fewest bytes pass, of equal ones the nearest
  // to halves.
  std::vector<NodeSet> CutWhereLeastPasses(const NodeSet& vertices) const {
    const std::vector<int> order = vertices.ToVector();
    const auto count = static_cast<int>(order.size());
    NodeSet head(graph_.size()), best = head;
    int64_t least = 0, apart = 0;
    for (int i = 0; i + 1 < count; ++i) {
      Step(evaluator_->options().pace, count);
      head.Add(order[static_cast<size_t>(i)]);
      const int64_t passed = PassedBytes(vertices, head), off = std::abs(2 * (i + 1) - count);
      if (!best.empty() && std::tie(passed, off) >= std::tie(least, apart)) continue;
      best = head;
      least = passed;
      apart = off;
    }
    NodeSet tail = vertices;
    tail.Subtract(best);
    return {best, tail};
  }

  // The units of a component's first reduction; zeros without one. Components with the same units
  // pack best into one kernel.
  std::pair<int64_t, int64_t> UnitsOf(const NodeSet& component) const {
    for (int v : component.ToVector()) {
      const StitchVertex& vertex = graph_.vertex(v);
      if (vertex.op_class == OpClass::kReduction) return {vertex.result_units, vertex.iteration};
    }
    return {0, 0};
  }

  // Components grouped by their units, or in two halves when all have the same.
  std::vector<NodeSet> Apart(const std::vector<NodeSet>& components) const {
    std::map<std::pair<int64_t, int64_t>, NodeSet> by_units;
    for (const NodeSet& component : components) {
      by_units.try_emplace(UnitsOf(component), NodeSet(graph_.size()))
          .first->second.Unite(component);
    }
    std::vector<NodeSet> groups;
    for (auto& [units, group] : by_units) groups.push_back(std::move(group));
    if (groups.size() > 1) return groups;
    std::vector<NodeSet> halves(2, NodeSet(graph_.size()));
    for (size_t i = 0; i < components.size(); ++i) {
      halves[i < components.size() / 2 ? 0 : 1].Unite(components[i]);
    }
    return halves;
  }

  // Two parts, the first independent of the second: before and after the first grid barrier, else
  // the topological halves.
  std::vector<NodeSet> Cut(const NodeSet& vertices) {
    NodeSet head = evaluator_->BeforeFirstBarrier(vertices), tail = vertices;
    if (head == vertices || head.empty()) {
      head = NodeSet(graph_.size());
      int left = vertices.size() / 2;
      vertices.ForEach([&](int v) {
        if (left-- > 0) head.Add(v);
      });
    }
    tail.Subtract(head);
    return {head, tail};
  }

  const StitchGraph& graph_;
  DeltaEvaluator* evaluator_;
  LatencyEvaluator* latency_;
  const bool join_;
  int other_cuts_ = 0;
  ChosenKernels& out_;
};

}  // namespace

absl::StatusOr<ChosenKernels> ChooseKernels(const StitchGraph& graph, const PatternSet& plan,
                                            const NodeSet& runs, DeltaEvaluator* evaluator,
                                            LatencyEvaluator* latency, bool join, bool pack) {
  ChosenKernels chosen;
  Chooser chooser(graph, evaluator, latency, join, &chosen);
  for (const StitchPattern& pattern : plan.InOrder()) {
    if (pattern.vertices().Intersects(runs)) {
      chooser.Add({pattern.vertices(), nullptr, 0, false});
    } else {
      SINTER_RETURN_IF_ERROR(chooser.AddPattern(pattern.vertices()));
    }
  }
  if (pack) {
    KernelPacker(graph, latency, *evaluator).Pack(&chosen.kernels);
    chosen.us = 0;
    for (const CostedKernel& kernel : chosen.kernels) chosen.us += kernel.us;
  }
  return chosen;
}

// Whether one reads the other's result, or both read one tensor.
bool KernelJoiner::Meet(const NodeSet& a, const NodeSet& b) const {
  std::set<int> tensors;
  a.ForEach([&](int v) {
    tensors.insert(graph_.vertex(v).tensor);
    for (const StitchRead& read : graph_.vertex(v).reads) tensors.insert(read.tensor);
  });
  bool meet = false;
  b.ForEach([&](int v) {
    meet |= tensors.count(graph_.vertex(v).tensor) > 0;
    for (const StitchRead& read : graph_.vertex(v).reads) meet |= tensors.count(read.tensor) > 0;
  });
  return meet;
}

std::optional<CostedKernel> KernelJoiner::Try(const NodeSet& both) {
  if (both.size() > kMostVertices || tries_ == kMostTries) return std::nullopt;
  if (!evaluator_->IsLegal(StitchPattern::Of(graph_, both.ToVector()))) return std::nullopt;
  ++tries_;
  Ask(evaluator_->options().pace);
  absl::StatusOr<CostedKernel> kernel = latency_->Evaluate(graph_, both);
  if (!kernel.ok()) return std::nullopt;
  return *std::move(kernel);
}

// The joined kernel, if there is one.
const std::optional<CostedKernel>& KernelJoiner::Joined(const CostedKernel& a,
                                                        const CostedKernel& b) {
  NodeSet both = a.vertices;
  both.Unite(b.vertices);
  auto known = known_.find(both);
  if (known == known_.end()) known = known_.emplace(both, Try(both)).first;
  return known->second;
}

// `kernels` with the best pair joined; empty when no pair saves anything.
KernelJoiner::Kernels KernelJoiner::BestJoined(const Kernels& kernels) {
  Kernels best;
  double saved = 0;
  for (size_t i = 0; i < kernels.size(); ++i) {
    for (size_t k = i + 1; k < kernels.size(); ++k) {
      if (kernels.size() > kMostPacked && !Meet(kernels[i].vertices, kernels[k].vertices)) continue;
      const std::optional<CostedKernel>& both = Joined(kernels[i], kernels[k]);
      const double apart = kernels[i].us + kernels[k].us;
      if (!both.has_value() || apart - both->us <= std::max(saved, costs_.error_share * apart))
        continue;
      Kernels joined = kernels;
      joined[i] = *both;
      joined.erase(joined.begin() + static_cast<std::ptrdiff_t>(k));
      if (!OrderKernels(graph_, &joined)) continue;
      saved = apart - both->us;
      best = std::move(joined);
    }
  }
  return best;
}

void KernelJoiner::Join(Kernels* kernels) {
  while (kernels->size() > 1) {
    Kernels joined = BestJoined(*kernels);
    if (joined.empty()) return;
    *kernels = std::move(joined);
  }
}

bool OrderKernels(const StitchGraph& graph, std::vector<CostedKernel>* kernels) {
  std::vector<CostedKernel> open = std::move(*kernels), sorted;
  const auto waits = [&](const CostedKernel& kernel) {
    NodeSet needed(graph.size());
    kernel.vertices.ForEach([&](int v) { needed.Unite(graph.Before(v)); });
    for (const CostedKernel& other : open) {
      if (&other != &kernel && needed.Intersects(other.vertices)) return true;
    }
    return false;
  };
  while (!open.empty()) {
    size_t next = 0;
    while (next < open.size() && waits(open[next])) ++next;
    if (next == open.size()) return false;
    sorted.push_back(std::move(open[next]));
    open.erase(open.begin() + static_cast<std::ptrdiff_t>(next));
  }
  *kernels = std::move(sorted);
  return true;
}

}  // namespace sinter
