// DeltaEvaluator: FusionStitching's fast cost model, which guides the exploration.
#ifndef SINTER_SRC_FUSION_STITCH_EVALUATORS_H_
#define SINTER_SRC_FUSION_STITCH_EVALUATORS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/device_model.h"
#include "src/base/digest.h"
#include "src/base/keep_going.h"
#include "src/fusion/stitch/pattern.h"
#include "src/fusion/stitch/stitch_graph.h"
#include "src/stitch/body_work.h"
#include "src/stitch/search/stitch_search.h"

namespace sinter {

struct DeltaOptions {
  bool allow_cooperative = true;  // allows grid barriers in patterns of several vertices
  int max_values = 400;           // ops of one pattern: compilers take a minute for 500
  int max_reducing_values = 160;  // with reductions: more would spill registers
  int max_operands = 500;         // pointers of one kernel: 4,000 bytes of its arguments
  Pace* pace = nullptr;           // one step for each vertex visited

  int MostValues(bool reduces) const { return reduces ? max_reducing_values : max_values; }
};

// The predicted time of one kernel over a pattern, in microseconds: the sum of its parts.
struct DeltaTime {
  double memory_us = 0;   // inputs and outputs, once each
  double call_us = 0;     // the launch, the first bytes in, the last bytes out
  double penalty_us = 0;  // simplified latency-evaluator: the cost of fusing
  int barriers = 0;       // grid barriers, for hand-overs across units
  int operands = 0;       // tensors read and written
  double total() const { return memory_us + call_us + penalty_us; }
};

// f(P) = T_reduced_mem + T_reduced_calls - T_penalty, where each T is the sum over the members' own
// kernels minus the pattern's T. So a plan's modelled time is AloneUs of all vertices less the sum
// of f. T_penalty counts grid barriers, second reads, shared memory traffic, and intake left unused
// by few units. Second reads are reads across barriers, and of units larger than a cluster's shared
// memory. As in the paper, lifetimes and registers are not considered. Every constant is a field of
// DeviceModel. Caches its evaluations; not thread-safe.
class DeltaEvaluator {
 public:
  DeltaEvaluator(const StitchGraph& graph, const DeviceModel& model, const DeltaOptions& options);

  const StitchGraph& graph() const { return graph_; }
  const DeltaOptions& options() const { return options_; }
  const DeviceModel& model() const { return model_; }
  // Time of a vertex in its own kernel; 0 for opaque ones.
  double AloneUs(int vertex) const { return alone_us_[static_cast<size_t>(vertex)]; }
  double AloneUs(const NodeSet& vertices) const;
  // Whether one kernel may take the pattern: it is convex, has no opaque vertex together with
  // others, crosses blocks only where allowed, and its ops and operands are within bounds.
  bool IsLegal(const StitchPattern& pattern);
  // f(P); kIllegal unless IsLegal.
  double Score(const StitchPattern& pattern);
  double Score(const NodeSet& vertices);
  static constexpr double kIllegal = -1e30;

  DeltaTime TimeOf(const NodeSet& vertices);
  // The members that run before the kernel's first grid barrier; they need no member after it.
  NodeSet BeforeFirstBarrier(const NodeSet& vertices);
  int64_t evaluations() const { return evaluations_; }

 private:
  // Vertices of a pattern that share units, connected by hand-overs inside a unit.
  struct Component {
    int64_t units = 0;  // gcd over its members; 0: none yet
    double bytes = 0;   // moved by its kernel
    bool reduces = false;
    double kept_bytes = 0;  // most bytes handed over inside it
  };
  // How a pattern reads a tensor from outside.
  struct OutsideRead {
    int64_t bytes = 0;
    int first_phase = 0, last_phase = 0;
  };

  bool CrossesUnits(int64_t units, int64_t elements) const;
  double MoveUs(int tensor, int64_t bytes) const;
  int Find(int vertex);
  void JoinUnits(int vertex, int64_t units);
  void VisitVertex(int vertex, const NodeSet& vertices, DeltaTime* time);
  void VisitInside(int vertex, const StitchRead& read, DeltaTime* time);
  void VisitOutside(int vertex, const StitchRead& read);
  void AddOutputs(const std::vector<int>& members, const NodeSet& vertices, DeltaTime* time);
  void AddInputs(DeltaTime* time);
  void AddParallelism(const std::vector<int>& members, DeltaTime* time);
  double ScoreOf(const StitchPattern& pattern);
  void StepOverSet();

  const StitchGraph& graph_;
  const DeviceModel model_;
  const DeltaOptions options_;
  const int64_t kept_bytes_;  // the largest tensor that L2 keeps between kernels
  std::vector<double> alone_us_;
  std::unordered_map<NodeSet, double, NodeSet::Hash> scores_;
  int64_t evaluations_ = 0;
  // Scratch of one evaluation, by vertex or by tensor.
  std::vector<int> parent_, phase_, done_;
  std::vector<Component> component_;
  std::vector<OutsideRead> outside_;
  std::vector<int> outside_list_;
};

// LatencyEvaluator: the accurate cost of kernels, used to pick among the beam's plans.

// The time of one kernel over a body. Implementations depend only on the body.
class StitchCosts {
 public:
  virtual ~StitchCosts() = default;
  // Microseconds, or why no kernel takes the body, naming the op.
  virtual absl::StatusOr<double> LatencyUs(const Chain& body) = 0;
  // For a kernel whose blocks are divided among the body's independent parts.
  virtual absl::StatusOr<double> PackedUs(const Chain& body) {
    return absl::UnimplementedError("no packing");
  }
};

struct CostedKernel {
  NodeSet vertices;
  std::shared_ptr<const StitchBody> body;
  double us = 0;
  bool packed = false;  // by StitchCosts::PackedUs
};

// Asks `costs` once for each different body, of any graph. Not thread-safe.
class LatencyEvaluator {
 public:
  explicit LatencyEvaluator(StitchCosts* costs) : costs_(costs) {}

  // The faster of the body and the one with turned reductions (ExtractBody); where both are refused
  // the error is the first one's.
  absl::StatusOr<CostedKernel> Evaluate(const StitchGraph& graph, const NodeSet& vertices);
  // The kernel that packs the parts of `vertices`; each part may have a kernel's length.
  absl::StatusOr<CostedKernel> EvaluatePacked(const StitchGraph& graph, const NodeSet& vertices);
  // Different bodies evaluated so far.
  int bodies() const { return static_cast<int>(known_.size()); }

 private:
  // `digest`: the body's canonical digest.
  absl::StatusOr<CostedKernel> Evaluate(const NodeSet& vertices, StitchBody body,
                                        const Digest& digest);

  StitchCosts* costs_;
  std::map<Digest, absl::StatusOr<double>> known_;  // by canonical digest
};

// SearchCosts: the latency-evaluator's costs for plans: SearchStitch's prediction of its best
// schedule.

// Searches each different body once and keeps the ranking. Not thread-safe. The model must outlive
// it.
class SearchCosts : public StitchCosts {
 public:
  SearchCosts(int64_t bucket, const DeviceModel& model, const SearchOptions& options)
      : bucket_(bucket), model_(model), options_(options), packed_(bucket, model, &budget_) {
    options_.budget = &budget_;
    RenewBudget();
  }
  SearchCosts(const SearchCosts&) = delete;
  SearchCosts& operator=(const SearchCosts&) = delete;

  absl::StatusOr<double> LatencyUs(const Chain& body) override;
  absl::StatusOr<double> PackedUs(const Chain& body) override;
  // Best first. Precondition: LatencyUs (PackedUs if packed) accepted the body.
  const std::vector<RankedStitch>& RankingOf(const Chain& body, bool packed) const {
    return (packed ? packings_ : rankings_).at(body.CanonicalDigest());
  }
  int bodies() const { return bodies_; }
  uint64_t legal_bodies() const { return rankings_.size() + packings_.size(); }
  // Gives a new budget. When one is spent, bodies are refused with RESOURCE_EXHAUSTED.
  void RenewBudget() { budget_ = StitchBudget{kMostPlannedVisits, options_.pace}; }

 private:
  const int64_t bucket_;
  const DeviceModel& model_;
  SearchOptions options_;
  StitchBudget budget_;
  PackedSearch packed_;
  std::map<Digest, std::vector<RankedStitch>> rankings_, packings_;
  int bodies_ = 0;
};

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_STITCH_EVALUATORS_H_
