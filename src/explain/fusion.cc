// What the kernels of a plan fuse, and why there are not fewer.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "src/explain/explain.h"
#include "src/explain/joined_body.h"
#include "src/explain/stitched.h"
#include "src/explain/tensors.h"
#include "src/fusion/stitch/body_length.h"
#include "src/fusion/stitch/delta_evaluator.h"
#include "src/fusion/stitch/search_costs.h"
#include "src/stitch/search/stitch_cost_model.h"

namespace sinter {
namespace {

// By kernel: all kernels that need it.
std::vector<NodeSet> NeededBy(const PlanTensors& tensors) {
  const int count = static_cast<int>(tensors.readers.size());
  std::vector<NodeSet> after(static_cast<size_t>(count), NodeSet(count));
  for (int i = count; i-- > 0;) {
    NodeSet& own = after[static_cast<size_t>(i)];
    for (int reader : tensors.readers[static_cast<size_t>(i)]) {
      own.Add(reader);
      own.Unite(after[static_cast<size_t>(reader)]);
    }
  }
  return after;
}

// Finds out why two kernels of a plan are not one.
class Judge {
 public:
  Judge(const Plan& plan, const PlanTensors& tensors, const DeviceModel& model)
      : plan_(plan),
        tensors_(tensors),
        after_(NeededBy(tensors)),
        costs_(plan.bucket, model, BestOnly()) {}

  std::string WhyApart(int from, int to) {
    const std::string products = WhyProducts(from, to);
    if (!products.empty()) return products;
    for (int reader : tensors_.readers[static_cast<size_t>(from)]) {
      if (reader != to && after_[static_cast<size_t>(reader)].Contains(to)) {
        return "another kernel needs the first and feeds the second";
      }
    }
    const absl::StatusOr<Chain> joined =
        JoinBodies(NamedBodyOf(from), NamedBodyOf(to), WantedBesides(from, to));
    if (!joined.ok()) return std::string(joined.status().message());
    const std::string bounds = WhyTooLarge(*joined);
    return bounds.empty() ? Compare(*joined, from, to) : bounds;
  }

 private:
  static SearchOptions BestOnly() {
    SearchOptions options;
    options.top_k = 1;
    return options;
  }

  const PlannedKernel& kernel(int i) const { return plan_.kernels[static_cast<size_t>(i)]; }
  bool IsProduct(int i) const { return kernel(i).spec.stitch == nullptr; }

  std::string WhyProducts(int from, int to) const {
    if (IsProduct(from) && IsProduct(to)) {
      return "two products that one kernel does not make faster";
    }
    if (IsProduct(from)) {
      return "a product's kernel takes element-wise ops of its result along, no other ops";
    }
    return IsProduct(to) ? "a product's kernel reads its operands from memory" : "";
  }

  NamedBody NamedBodyOf(int i) const {
    const KernelTensors& own = tensors_.kernels[static_cast<size_t>(i)];
    NamedBody named{&kernel(i).spec.stitch->body, own.reads};
    named.tensors.insert(named.tensors.end(), own.writes.begin(), own.writes.end());
    return named;
  }

  // Tensors that `from` writes and kernels other than `to` read.
  std::set<int> WantedBesides(int from, int to) const {
    std::set<int> wanted;
    for (int t : tensors_.kernels[static_cast<size_t>(from)].writes) {
      const PlanTensor& tensor = tensors_.tensors[static_cast<size_t>(t)];
      bool others = tensor.given_out;
      for (int reader : tensor.readers) others |= reader != to;
      if (others) wanted.insert(t);
    }
    return wanted;
  }

  static std::string WhyTooLarge(const Chain& joined) {
    const DeltaOptions bounds;
    const auto ops = static_cast<int>(joined.ops().size()) - joined.num_inputs();
    const bool reduces = std::any_of(joined.ops().begin(), joined.ops().end(),
                                     [](const Op& op) { return op.kind == OpKind::kReduce; });
    const int most = bounds.MostValues(reduces);
    if (ops > most) {
      return absl::StrCat("one kernel would have ", ops, " ops, at most ", most,
                          reduces ? " with reductions" : "", " are put together");
    }
    const int operands = joined.num_inputs() + joined.num_outputs();
    if (operands > bounds.max_operands) {
      return absl::StrCat("one kernel would have ", operands, " tensors, at most ",
                          bounds.max_operands);
    }
    return std::string(CheckBodyLength(joined).message());
  }

  std::string Compare(const Chain& joined, int from, int to) {
    const double apart = kernel(from).prediction.total_us + kernel(to).prediction.total_us;
    auto known = known_.find(joined.CanonicalDigest());
    if (known == known_.end()) {
      if (static_cast<int>(known_.size()) == kMostJoined) {
        return absl::StrCat("not looked at: more than ", kMostJoined, " different pairs");
      }
      known = known_.emplace(joined.CanonicalDigest(), costs_.LatencyUs(joined)).first;
    }
    if (!known->second.ok()) return std::string(known->second.status().message());
    const double us = *known->second;
    return absl::StrFormat("one kernel is predicted to take %.2f us, the two %.2f us%s", us, apart,
                           us < apart ? ": the exploration did not come to it" : "");
  }

  const Plan& plan_;
  const PlanTensors& tensors_;
  const std::vector<NodeSet> after_;
  SearchCosts costs_;
  std::map<Digest, absl::StatusOr<double>> known_;  // by joined body
};

int64_t HandedOver(const PlanTensors& tensors, int from, int to) {
  int64_t bytes = 0;
  for (int t : tensors.kernels[static_cast<size_t>(from)].writes) {
    const PlanTensor& tensor = tensors.tensors[static_cast<size_t>(t)];
    if (std::count(tensor.readers.begin(), tensor.readers.end(), to) > 0) bytes += tensor.bytes;
  }
  return bytes;
}

std::vector<ApartKernels> Apart(const Plan& plan, const PlanTensors& tensors,
                                const DeviceModel& model) {
  std::vector<ApartKernels> list;
  Judge judge(plan, tensors, model);
  const auto is_stitch = [&](int i) {
    return plan.kernels[static_cast<size_t>(i)].spec.stitch != nullptr;
  };
  for (int from = 0; from + 1 < static_cast<int>(plan.kernels.size()); ++from) {
    std::set<int> others = tensors.readers[static_cast<size_t>(from)];
    if (is_stitch(from) && is_stitch(from + 1)) others.insert(from + 1);
    for (int to : others) {
      list.push_back({from, to, HandedOver(tensors, from, to), judge.WhyApart(from, to)});
    }
  }
  return list;
}

// Empty where the model disagrees with the plan, as for a plan of another version.
StitchTerms TermsOf(const PlannedKernel& kernel, int64_t bucket, const DeviceModel& model) {
  constexpr double kRounding = 1e-9;
  StitchTerms times;
  if (kernel.spec.stitch == nullptr) return times;
  StitchOverlap overlap;
  const absl::StatusOr<Prediction> again = AccountOf(*kernel.spec.stitch, bucket, model, &overlap);
  const double total = kernel.prediction.total_us;
  times.known = again.ok() && std::abs(again->total_us - total) <= kRounding * total;
  if (!times.known) return times;
  times.issue_us = overlap.issue_us;
  times.latency_us = overlap.latency_us;
  times.together_us = overlap.together_us;
  times.fixed_us = again->fixed_us;
  return times;
}

}  // namespace

void ExplainFusion(const DeviceModel& model, Explanation* out) {
  const Plan& plan = out->plan;
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    const StitchSpec* stitch = plan.kernels[i].spec.stitch.get();
    if (stitch == nullptr) continue;
    ExplainedKernel& story = out->kernels[i];
    AddOps(*stitch, plan.bucket, &story);
    story.times = TermsOf(plan.kernels[i], plan.bucket, model);
    story.levels = LevelsOf(plan.kernels[i], story.times, model);
    out->saved_bytes += story.saved_bytes;
  }
  out->apart = Apart(plan, TensorsOf(plan), model);
}

}  // namespace sinter
