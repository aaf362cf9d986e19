// DeltaEvaluator: FusionStitching's fast cost model, which steers the exploration.
#ifndef SINTER_SRC_FUSION_STITCH_DELTA_EVALUATOR_H_
#define SINTER_SRC_FUSION_STITCH_DELTA_EVALUATOR_H_

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "src/base/device_model.h"
#include "src/base/keep_going.h"
#include "src/fusion/stitch/pattern.h"

namespace sinter {

struct DeltaOptions {
  bool allow_cooperative = true;  // a pattern of several vertices may have grid barriers
  int max_values = 400;           // ops of one pattern: compilers take a minute for 500
  int max_reducing_values = 160;  // of one with reductions: beyond, registers spill
  int max_operands = 500;         // pointers of one kernel: 4,000 bytes of its arguments
  Pace* pace = nullptr;           // stepped by the vertices that are looked at

  int MostValues(bool reduces) const { return reduces ? max_reducing_values : max_values; }
};

// What one kernel over a pattern would take, in microseconds: its parts add up.
struct DeltaTime {
  double memory_us = 0;   // inputs once, what leaves once
  double call_us = 0;     // the launch, its first bytes in, its last bytes out
  double penalty_us = 0;  // simplified latency-evaluator: what fusing costs
  int barriers = 0;       // grid barriers: hand-overs across units
  int operands = 0;       // tensors read and written
  double total() const { return memory_us + call_us + penalty_us; }
};

// f(P) = T_reduced_mem + T_reduced_calls - T_penalty, where each T is the members' own kernels' sum
// less the pattern's. So the modelled time of a plan is AloneUs of all vertices less the sum of f.
// T_penalty holds grid barriers, second reads across them and of units that a cluster's shared
// memory does not hold, traffic of shared memory, and what few units leave of the chip's intake. As
// in the paper no lifetimes are looked at and registers are not counted.
// Every constant is a field of DeviceModel. Keeps what it has evaluated; not thread-safe.
class DeltaEvaluator {
 public:
  DeltaEvaluator(const StitchGraph& graph, const DeviceModel& model, const DeltaOptions& options);

  const StitchGraph& graph() const { return graph_; }
  const DeltaOptions& options() const { return options_; }
  const DeviceModel& model() const { return model_; }
  // Of one vertex in its own kernel; 0 for opaque ones.
  double AloneUs(int vertex) const { return alone_us_[static_cast<size_t>(vertex)]; }
  double AloneUs(const NodeSet& vertices) const;
  // Whether one kernel may take the pattern: convex, no opaque vertex beside others, cross-block
  // hand-overs only where they are allowed, ops and operands within bounds.
  bool IsLegal(const StitchPattern& pattern);
  // f(P); kIllegal unless IsLegal.
  double Score(const StitchPattern& pattern);
  double Score(const NodeSet& vertices);
  static constexpr double kIllegal = -1e30;

  DeltaTime TimeOf(const NodeSet& vertices);
  // The members that run before the first grid barrier of their kernel: none of them needs another
  // member.
  NodeSet BeforeFirstBarrier(const NodeSet& vertices);
  int64_t evaluations() const { return evaluations_; }

 private:
  // Vertices of a pattern that share units, joined by hand-overs inside a unit.
  struct Component {
    int64_t units = 0;  // gcd over what it holds; 0: none yet
    double bytes = 0;   // that its kernel moves
    bool reduces = false;
    double kept_bytes = 0;  // most bytes handed over inside it
  };
  // How an outside tensor is read by a pattern.
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
  const int64_t kept_bytes_;  // the largest tensor that L2 keeps from kernel to kernel
  std::vector<double> alone_us_;
  std::unordered_map<NodeSet, double, NodeSet::Hash> scores_;
  int64_t evaluations_ = 0;
  // Scratch of one evaluation, by vertex and by tensor.
  std::vector<int> parent_, phase_, done_;
  std::vector<Component> component_;
  std::vector<OutsideRead> outside_;
  std::vector<int> outside_list_;
};

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_STITCH_DELTA_EVALUATOR_H_
