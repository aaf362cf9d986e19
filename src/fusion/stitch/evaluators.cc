#include "src/fusion/stitch/evaluators.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "src/base/status.h"

namespace sinter {

namespace {

constexpr int kMostBlocksAUnit = kClusterSizes.back();
constexpr int kElementBytes = 4;  // of on-chip hand-overs: f32

double AsDouble(int64_t v) { return static_cast<double>(v); }

}  // namespace

DeltaEvaluator::DeltaEvaluator(const StitchGraph& graph, const DeviceModel& model,
                               const DeltaOptions& options)
    : graph_(graph),
      model_(model),
      options_(options),
      kept_bytes_(static_cast<int64_t>(model.l2_kept_share * AsDouble(model.l2_bytes))) {
  const auto count = static_cast<size_t>(graph.size());
  parent_.resize(count);
  phase_.resize(count);
  done_.resize(count);
  component_.resize(count);
  outside_.resize(static_cast<size_t>(graph.num_tensors()));
  for (int v = 0; v < graph.size(); ++v) {
    if (graph.vertex(v).opaque) {
      alone_us_.push_back(0);
      continue;
    }
    NodeSet self(graph.size());
    self.Add(v);
    alone_us_.push_back(TimeOf(self).total());
  }
}

double DeltaEvaluator::AloneUs(const NodeSet& vertices) const {
  double us = 0;
  vertices.ForEach([&](int v) { us += AloneUs(v); });
  return us;
}

// Whether only the whole grid can share the work: there are too few units for clusters of the
// largest size to occupy the chip, and more elements than a cluster's shared memory holds.
bool DeltaEvaluator::CrossesUnits(int64_t units, int64_t elements) const {
  const double cluster_bytes = AsDouble(model_.shared_bytes_per_block) * kMostBlocksAUnit;
  return units * kMostBlocksAUnit < model_.sm_count &&
         AsDouble(elements) * kElementBytes > cluster_bytes;
}

// Tensors between kernels of one plan stay in L2 unless they are too large.
double DeltaEvaluator::MoveUs(int tensor, int64_t bytes) const {
  const StitchTensor& t = graph_.tensor(tensor);
  const bool hbm = t.cold || t.bytes > kept_bytes_;
  return AsDouble(bytes) / (hbm ? model_.hbm_bytes_per_us : model_.l2_bytes_per_us);
}

int DeltaEvaluator::Find(int vertex) {
  auto at = static_cast<size_t>(vertex);
  while (parent_[at] != static_cast<int>(at)) {
    parent_[at] = parent_[static_cast<size_t>(parent_[at])];
    at = static_cast<size_t>(parent_[at]);
  }
  return static_cast<int>(at);
}

void DeltaEvaluator::JoinUnits(int vertex, int64_t units) {
  Component& c = component_[static_cast<size_t>(Find(vertex))];
  c.units = std::gcd(c.units, units);
}

void DeltaEvaluator::VisitInside(int vertex, const StitchRead& read, DeltaTime* time) {
  const StitchTensor& tensor = graph_.tensor(read.tensor);
  const auto at = static_cast<size_t>(vertex), from = static_cast<size_t>(tensor.vertex);
  const StitchVertex& v = graph_.vertex(vertex);
  // A value completed before a barrier is available to all units.
  const bool whole = done_[from] > phase_[from];
  const bool crosses = !whole && CrossesUnits(read.units, v.iteration);
  phase_[at] = std::max(phase_[at], done_[from] + (crosses ? 1 : 0));
  if (phase_[at] > phase_[from]) {  // through L2: written once, then read
    time->penalty_us += 2 * AsDouble(read.bytes) / model_.l2_bytes_per_us;
    return;
  }
  if (read.units < v.iteration) {  // another index of the same unit: through shared memory
    const double rate = model_.shared_bytes_per_us * model_.sm_count;
    time->penalty_us += 2 * AsDouble(read.bytes) / rate;
  }
  const int a = Find(vertex), b = Find(tensor.vertex);
  Component& into = component_[static_cast<size_t>(std::min(a, b))];
  if (a != b) {
    const Component& other = component_[static_cast<size_t>(std::max(a, b))];
    into.units = std::gcd(into.units, other.units);
    into.bytes += other.bytes;
    into.reduces = into.reduces || other.reduces;
    into.kept_bytes = std::max(into.kept_bytes, other.kept_bytes);
    parent_[static_cast<size_t>(std::max(a, b))] = std::min(a, b);
  }
  into.units = std::gcd(into.units, read.units);
  into.kept_bytes = std::max(into.kept_bytes, AsDouble(read.bytes));
}

void DeltaEvaluator::VisitOutside(int vertex, const StitchRead& read) {
  const auto at = static_cast<size_t>(vertex);
  OutsideRead& outside = outside_[static_cast<size_t>(read.tensor)];
  if (outside.bytes == 0) {
    outside_list_.push_back(read.tensor);
    outside.first_phase = outside.last_phase = phase_[at];
  }
  outside.bytes = std::min(outside.bytes + read.bytes, graph_.tensor(read.tensor).bytes);
  outside.first_phase = std::min(outside.first_phase, phase_[at]);
  outside.last_phase = std::max(outside.last_phase, phase_[at]);
  Component& c = component_[static_cast<size_t>(Find(vertex))];
  c.bytes += AsDouble(read.bytes);
  c.kept_bytes = std::max(c.kept_bytes, AsDouble(read.bytes));
}

void DeltaEvaluator::VisitVertex(int vertex, const NodeSet& vertices, DeltaTime* time) {
  const StitchVertex& v = graph_.vertex(vertex);
  const auto at = static_cast<size_t>(vertex);
  for (const StitchRead& read : v.reads) {
    if (graph_.IsOf(read.tensor, vertices)) VisitInside(vertex, read, time);
  }
  for (const StitchRead& read : v.reads) {
    if (!graph_.IsOf(read.tensor, vertices)) VisitOutside(vertex, read);
  }
  done_[at] = phase_[at];
  if (v.op_class != OpClass::kReduction) return;
  component_[static_cast<size_t>(Find(vertex))].reduces = true;
  if (CrossesUnits(v.result_units, v.iteration)) {
    ++done_[at];  // every unit adds its part; the sum is complete after a barrier
  } else {
    JoinUnits(vertex, v.result_units);
  }
}

void DeltaEvaluator::AddOutputs(const std::vector<int>& members, const NodeSet& vertices,
                                DeltaTime* time) {
  for (int v : members) {
    const int t = graph_.vertex(v).tensor;
    if (!graph_.Leaves(t, vertices)) continue;
    const int64_t bytes = graph_.tensor(t).bytes;
    ++time->operands;
    time->memory_us += MoveUs(t, bytes);
    component_[static_cast<size_t>(Find(v))].bytes += AsDouble(bytes);
  }
}

void DeltaEvaluator::AddInputs(DeltaTime* time) {
  for (int t : outside_list_) {
    OutsideRead& read = outside_[static_cast<size_t>(t)];
    ++time->operands;
    time->memory_us += MoveUs(t, read.bytes);
    if (read.last_phase > read.first_phase) {
      const bool lost = graph_.tensor(t).bytes > kept_bytes_;
      time->penalty_us +=
          AsDouble(read.bytes) / (lost ? model_.hbm_bytes_per_us : model_.l2_bytes_per_us);
    }
    read = OutsideRead();
  }
  outside_list_.clear();
}

// A component of few units uses few SMs. One with units larger than a cluster's shared memory reads
// its inputs again after reductions.
void DeltaEvaluator::AddParallelism(const std::vector<int>& members, DeltaTime* time) {
  const double cluster_bytes = AsDouble(model_.shared_bytes_per_block) * kMostBlocksAUnit;
  double slowest = 0;
  for (int v : members) {
    if (Find(v) != v) continue;
    const Component& c = component_[static_cast<size_t>(v)];
    const double units = AsDouble(std::max<int64_t>(c.units, 1));
    const double sms = std::min(AsDouble(model_.sm_count), units * kMostBlocksAUnit);
    slowest = std::max(slowest, c.bytes / (sms * model_.sm_intake_bytes_per_us));
    if (c.reduces && c.kept_bytes / units > cluster_bytes) {
      time->penalty_us += c.bytes / model_.hbm_bytes_per_us;
    }
  }
  time->penalty_us += std::max(0.0, slowest - time->memory_us);
}

DeltaTime DeltaEvaluator::TimeOf(const NodeSet& vertices) {
  ++evaluations_;
  DeltaTime time;
  const std::vector<int> members = vertices.ToVector();
  Step(options_.pace, static_cast<int64_t>(members.size()));
  for (int v : members) {
    const auto at = static_cast<size_t>(v);
    parent_[at] = v;
    phase_[at] = done_[at] = 0;
    component_[at] = Component();
    const StitchVertex& vertex = graph_.vertex(v);
    component_[at].units = vertex.op_class == OpClass::kReduction ? int64_t{0} : vertex.iteration;
  }
  for (int v : members) VisitVertex(v, vertices, &time);
  AddOutputs(members, vertices, &time);
  AddInputs(&time);
  for (int v : members) time.barriers = std::max(time.barriers, done_[static_cast<size_t>(v)]);
  time.call_us = model_.launch_us + model_.fill_us + model_.drain_us;
  time.penalty_us += time.barriers * model_.grid_barrier_us;
  AddParallelism(members, &time);
  return time;
}

NodeSet DeltaEvaluator::BeforeFirstBarrier(const NodeSet& vertices) {
  TimeOf(vertices);
  NodeSet first(graph_.size());
  vertices.ForEach([&](int v) {
    if (phase_[static_cast<size_t>(v)] == 0) first.Add(v);
  });
  return first;
}

// Each score makes, joins and compares sets of vertices.
void DeltaEvaluator::StepOverSet() { Step(options_.pace, 1 + graph_.size() / 16); }

bool DeltaEvaluator::IsLegal(const StitchPattern& pattern) { return Score(pattern) > kIllegal; }

double DeltaEvaluator::ScoreOf(const StitchPattern& pattern) {
  if (pattern.empty() || !pattern.IsConvex()) return kIllegal;
  int count = 0, values = 0;
  bool opaque = false, reduces = false;
  pattern.vertices().ForEach([&](int v) {
    ++count;
    reduces = reduces || graph_.vertex(v).op_class == OpClass::kReduction;
    values += static_cast<int>(graph_.vertex(v).values.size());
    opaque = opaque || graph_.vertex(v).opaque;
  });
  if (count == 1) return 0;
  if (opaque || values > options_.MostValues(reduces)) return kIllegal;
  const DeltaTime time = TimeOf(pattern.vertices());
  if (time.operands > options_.max_operands) return kIllegal;
  if (time.barriers > 0 && !options_.allow_cooperative) return kIllegal;
  return AloneUs(pattern.vertices()) - time.total();
}

double DeltaEvaluator::Score(const NodeSet& vertices) {
  StepOverSet();
  const auto known = scores_.find(vertices);
  if (known != scores_.end()) return known->second;
  return Score(StitchPattern::Of(graph_, vertices.ToVector()));
}

double DeltaEvaluator::Score(const StitchPattern& pattern) {
  StepOverSet();
  const auto known = scores_.find(pattern.vertices());
  if (known != scores_.end()) return known->second;
  const double score = ScoreOf(pattern);
  scores_.emplace(pattern.vertices(), score);
  return score;
}

absl::StatusOr<CostedKernel> LatencyEvaluator::Evaluate(const StitchGraph& graph,
                                                        const NodeSet& vertices) {
  SINTER_ASSIGN_OR_RETURN(StitchBody body, ExtractBody(graph, vertices));
  const Digest digest = body.body.CanonicalDigest();
  absl::StatusOr<CostedKernel> kernel = Evaluate(vertices, std::move(body), digest);
  if (absl::IsResourceExhausted(kernel.status())) return kernel;
  SINTER_ASSIGN_OR_RETURN(StitchBody turned, ExtractBody(graph, vertices, true));
  const Digest other = turned.body.CanonicalDigest();
  if (other == digest) return kernel;
  absl::StatusOr<CostedKernel> second = Evaluate(vertices, std::move(turned), other);
  const bool faster = second.ok() && (!kernel.ok() || second->us < kernel->us);
  return faster ? second : kernel;
}

absl::StatusOr<CostedKernel> LatencyEvaluator::EvaluatePacked(const StitchGraph& graph,
                                                              const NodeSet& vertices) {
  SINTER_ASSIGN_OR_RETURN(StitchBody body, ExtractBody(graph, vertices));
  SINTER_ASSIGN_OR_RETURN(const double us, costs_->PackedUs(body.body));
  return CostedKernel{vertices, std::make_shared<const StitchBody>(std::move(body)), us, true};
}

absl::StatusOr<CostedKernel> LatencyEvaluator::Evaluate(const NodeSet& vertices, StitchBody body,
                                                        const Digest& digest) {
  SINTER_RETURN_IF_ERROR(CheckBodyLength(body.body));
  auto known = known_.find(digest);
  if (known == known_.end()) {
    absl::StatusOr<double> us = costs_->LatencyUs(body.body);
    if (absl::IsResourceExhausted(us.status())) return us.status();  // says nothing of the body
    known = known_.emplace(digest, std::move(us)).first;
  }
  if (!known->second.ok()) return known->second.status();
  return CostedKernel{vertices, std::make_shared<const StitchBody>(std::move(body)), *known->second,
                      false};
}

absl::StatusOr<double> SearchCosts::LatencyUs(const Chain& body) {
  Ask(options_.pace);
  ++bodies_;
  SINTER_ASSIGN_OR_RETURN(std::vector<RankedStitch> ranked,
                          SearchStitch(body, bucket_, model_, options_));
  if (ranked.empty()) return absl::FailedPreconditionError("no schedule is legal");
  const double us = ranked.front().prediction.total_us;
  rankings_[body.CanonicalDigest()] = std::move(ranked);
  return us;
}

absl::StatusOr<double> SearchCosts::PackedUs(const Chain& body) {
  ++bodies_;
  Ask(options_.pace);
  std::vector<RankedStitch> packings = packed_.Of(body);
  if (packings.empty()) return absl::FailedPreconditionError("no parts that can be packed");
  const double us = packings.front().prediction.total_us;
  packings_[body.CanonicalDigest()] = std::move(packings);
  return us;
}

}  // namespace sinter
