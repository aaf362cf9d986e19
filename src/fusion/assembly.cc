#include "src/fusion/assembly.h"

#include <algorithm>

#include "src/base/arch.h"
#include "src/base/launch_recipe.h"
#include "src/base/refusal.h"
#include "src/fusion/fusion.h"
#include "src/fusion/plan_assembly.h"
#include "src/plan/family.h"
#include "src/product/matcher.h"
#include "src/stitch/body_work.h"

namespace sinter {

absl::Status Assembly::CheckOrder(const KernelSpec& spec) const {
  if (spec.batch_invariant != batch_invariant_) {
    return FailedPrecondition("batch_invariant ", spec.batch_invariant, ", asked for is ",
                              batch_invariant_);
  }
  if (!batch_invariant_) return absl::OkStatus();
  const absl::Status order = spec.family->CheckRowOrder(spec);
  return order.ok() ? order : WithFieldsOf(FailedPrecondition(order.message()), order);
}

absl::StatusOr<std::string> Assembly::WantedOrder() {
  if (!wanted_order_.has_value()) {
    FusionOptions options;
    options.batch_invariant = true;
    options.allow_cooperative = false;
    options.keep_going = request_.keep_going;
    SINTER_ASSIGN_OR_RETURN(const FusionResult result,
                            PlanChain(chain_, RowOrderBucketOf(chain_), model_, options));
    wanted_order_ = RowOrder(result.chosen);
  }
  return *wanted_order_;
}

absl::Status Assembly::CheckOrder(const Plan& plan) {
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    const absl::Status status = CheckOrder(plan.kernels[i].spec);
    if (!status.ok())
      return WithFieldsOf(FailedPrecondition("kernel ", i, ": ", status.message()), status);
  }
  const bool chosen = std::any_of(
      plan.kernels.begin(), plan.kernels.end(),
      [](const PlannedKernel& kernel) { return kernel.spec.family->traits().chooses_row_order; });
  if (!batch_invariant_ || (!chosen && MatchProducts(chain_).ok())) return absl::OkStatus();
  SINTER_ASSIGN_OR_RETURN(const std::string wanted, WantedOrder());
  return RowOrder(plan) == wanted
             ? absl::OkStatus()
             : FailedPrecondition("its rows are in another order than other buckets'");
}

// Makes one plan.
class Assembly::Maker {
 public:
  Maker(const Assembly& of, ChainParts* parts, Pace* pace)
      : of_(of), parts_(*parts), graph_(parts->graph()), done_(graph_.size()) {
    budget_.pace = pace;
  }

  absl::StatusOr<AssembledPlan> Run(const Decisions& decisions) {
    for (size_t i = 0; i < decisions.kernels.size(); ++i) {
      const absl::Status status = Add(decisions.kernels[i]);
      if (!status.ok())
        return WithFieldsOf(FailedPrecondition("kernel ", i, ": ", status.message()), status);
    }
    SINTER_RETURN_IF_ERROR(CheckRunEnds());
    SINTER_RETURN_IF_ERROR(CheckPushedSums(of_.chain_, steps_));
    for (int v = 0; v < graph_.size(); ++v) {
      if (!done_.Contains(v))
        return FailedPrecondition("no kernel computes op ", graph_.vertex(v).root());
    }
    AssembledPlan assembled;
    assembled.plan = AssemblePlan(of_.chain_, of_.bucket_, steps_);
    return Complete(decisions, std::move(assembled));
  }

 private:
  // Planning decides which ops of a chain a kernel computes, so it tells families apart here.
  absl::Status Add(const KernelDecision& kernel) {
    if (kernel.family == &ProductFamily()) return AddProducts(kernel);
    if (kernel.family == &StitchFamily()) return AddStitch(kernel);
    return AddOwn(kernel);
  }

  absl::Status AddProducts(const KernelDecision& kernel) {
    const GraphRun* const run = parts_.RunOf(kernel.ops);
    if (run == nullptr || run->IsOwn()) {
      return OpRefused(kernel.ops.values.front(), " is not a result of a run of products");
    }
    const Segment segment{kernel.ops.first, kernel.products};
    if (segment.end() > run->matched.size()) {
      return FailedPrecondition("product ", segment.end() - 1, " of a run of ",
                                run->matched.size());
    }
    if (segment.count < 1 || segment.count > 2 ||
        (segment.count == 2 && !CanPair(run->matched.sequence, segment.begin))) {
      return FailedPrecondition("products ", segment.begin, " to ", segment.end() - 1,
                                " of a run share no kernel");
    }
    const ProductSequence part = run->matched.sequence.Part(segment.begin, segment.count);
    SINTER_RETURN_IF_ERROR(CheckSchedule(part, kernel.schedule, of_.model_));
    SINTER_RETURN_IF_ERROR(CheckWaiting(IsCooperative(kernel.schedule)));
    if (segment.begin == 0) {
      SINTER_RETURN_IF_ERROR(CheckStrides(run->matched, of_.chain_, of_.bucket_));
      SINTER_RETURN_IF_ERROR(Begin(run));
    }
    const bool next = !steps_.empty() && steps_.back().run == run &&
                      EndOf(steps_.back().segments) == segment.begin;
    if (!next)
      return FailedPrecondition("product ", segment.begin, " of a run is not the next one");
    steps_.back().segments.push_back(segment);
    steps_.back().ranked.push_back({kernel.schedule, kernel.prediction});
    return absl::OkStatus();
  }

  absl::Status AddOwn(const KernelDecision& kernel) {
    const GraphRun* const run = parts_.RunOf(kernel.ops);
    if (run == nullptr || run->own.family != kernel.family) {
      return OpRefused(kernel.ops.values.front(), " is not a result of a run of ",
                       kernel.family->name(), " kernels");
    }
    SINTER_ASSIGN_OR_RETURN(const KernelSpec spec,
                            kernel.family->BindOwn(run->own, kernel.own, kernel.ops.first, {}));
    SINTER_ASSIGN_OR_RETURN(const KernelCode code, CodeOf(spec));
    SINTER_ASSIGN_OR_RETURN(const KernelLaunch launch,
                            kernel.family->Check(spec, code, of_.model_, &budget_));
    SINTER_RETURN_IF_ERROR(CheckWaiting(launch.cooperative));
    if (kernel.ops.first == 0) {
      SINTER_RETURN_IF_ERROR(Begin(run));
      steps_.back().own.own = kernel.own;
    }
    const bool next = !steps_.empty() && steps_.back().run == run &&
                      static_cast<int>(steps_.back().own.kernels.size()) == kernel.ops.first &&
                      steps_.back().own.own == kernel.own;
    if (!next)
      return FailedPrecondition("kernel ", kernel.ops.first, " of a run is not the next one");
    steps_.back().own.kernels.push_back(kernel.prediction);
    return absl::OkStatus();
  }

  // Begins the step of a run. FAILED_PRECONDITION where the run before it is not whole, and as
  // Compute.
  absl::Status Begin(const GraphRun* run) {
    SINTER_RETURN_IF_ERROR(CheckRunEnds());
    NodeSet vertex(graph_.size());
    vertex.Add(graph_.VertexOf(run->end));
    SINTER_RETURN_IF_ERROR(Compute(vertex));
    steps_.emplace_back();
    steps_.back().run = run;
    return absl::OkStatus();
  }

  absl::Status AddStitch(const KernelDecision& kernel) {
    SINTER_RETURN_IF_ERROR(CheckRunEnds());
    SINTER_ASSIGN_OR_RETURN(const NodeSet vertices, parts_.VerticesOf(kernel.ops));
    SINTER_RETURN_IF_ERROR(Compute(vertices));
    PlanStep step;
    SINTER_ASSIGN_OR_RETURN(step.body, parts_.BodyOf(kernel.ops, vertices));
    step.stitch.schedule = kernel.stitch;
    step.stitch.parts = kernel.parts;
    step.stitch.prediction = kernel.prediction;
    step.spec = step.MakeSpec();
    KernelSpec spec;
    spec.family = &StitchFamily();
    spec.body = step.spec;
    spec.batch_invariant = of_.batch_invariant_;
    SINTER_ASSIGN_OR_RETURN(KernelCode code, CodeOf(spec));
    SINTER_ASSIGN_OR_RETURN(const KernelLaunch launch,
                            spec.family->Check(spec, code, of_.model_, &budget_));
    SINTER_RETURN_IF_ERROR(CheckWaiting(launch.cooperative));
    step.stitch.scratch_bytes = launch.scratch_bytes;
    codes_.emplace(step.spec.get(), std::move(code));
    steps_.push_back(std::move(step));
    return absl::OkStatus();
  }

  absl::Status CheckWaiting(bool cooperative) const {
    if (!cooperative || of_.request_.allow_cooperative) return absl::OkStatus();
    return FailedPrecondition("it waits across blocks");
  }

  static int EndOf(const Segmentation& segments) {
    return segments.empty() ? 0 : segments.back().end();
  }

  // FAILED_PRECONDITION where the last step is a run whose last products have no kernel yet: other
  // kernels may not stand between those of a run.
  absl::Status CheckRunEnds() const {
    if (steps_.empty() || steps_.back().run == nullptr) return absl::OkStatus();
    const GraphRun& run = *steps_.back().run;
    if (run.IsOwn()) {
      const OwnChoice& own = steps_.back().own;
      const auto kernels = static_cast<int>(own.kernels.size());
      if (kernels == run.own.family->NeedsOf(run.own, own.own, of_.bucket_).kernels)
        return absl::OkStatus();
      return FailedPrecondition("kernel ", kernels, " of the run of op ", run.end, " is missing");
    }
    if (EndOf(steps_.back().segments) == run.matched.size()) return absl::OkStatus();
    return FailedPrecondition("product ", EndOf(steps_.back().segments), " of the run of op ",
                              run.end, " has no kernel after the one before it");
  }

  // Notes that the next kernel computes `vertices`. FAILED_PRECONDITION where one is computed
  // already, or before what it reads.
  absl::Status Compute(const NodeSet& vertices) {
    absl::Status status;
    vertices.ForEach([&](int v) {
      const StitchVertex& vertex = graph_.vertex(v);
      if (done_.Contains(v)) status.Update(OpRefused(vertex.root(), " is computed twice"));
      for (const int producer : vertex.producers) {
        if (done_.Contains(producer) || vertices.Contains(producer)) continue;
        status.Update(
            OpRefused(vertex.root(), " comes before op ", graph_.vertex(producer).root()));
      }
    });
    done_.Unite(vertices);
    return status;
  }

  absl::StatusOr<AssembledPlan> Complete(const Decisions& decisions, AssembledPlan assembled) {
    Plan& plan = assembled.plan;
    plan.fused = decisions.fused;
    plan.absorbed = decisions.absorbed;
    plan.note = decisions.note;
    plan.runners_up = decisions.runners_up;
    for (size_t i = 0; i < plan.kernels.size(); ++i) {
      PlannedKernel& kernel = plan.kernels[i];
      kernel.measured_us = decisions.kernels[i].measured_us;
      kernel.spec.batch_invariant = of_.batch_invariant_;
      const auto code = codes_.find(kernel.spec.body.get());
      if (code != codes_.end()) {
        assembled.codes.push_back(std::move(code->second));
        continue;
      }
      SINTER_ASSIGN_OR_RETURN(KernelCode made, CodeOf(kernel.spec));
      assembled.codes.push_back(std::move(made));
    }
    SINTER_RETURN_IF_ERROR(CheckLone(plan));
    return assembled;
  }

  // A lone kernel may be launched with more rows than its workspace is laid out for.
  static absl::Status CheckLone(const Plan& plan) {
    const KernelSpec& first = plan.kernels.front().spec;
    if (plan.kernels.size() > 1) return absl::OkStatus();
    if (first.family->RowsOf(first, plan.bucket).at_once == 0) return absl::OkStatus();
    const std::vector<KernelBuffer> buffers = first.family->Buffers(first, plan.bucket);
    const bool left = std::any_of(buffers.begin(), buffers.end(), [](const KernelBuffer& at) {
      return at.write && at.buffer == kWorkspaceBuffer;
    });
    if (!left) return absl::OkStatus();
    return FailedPrecondition("a result is left in the workspace to no kernel");
  }

  const Assembly& of_;
  ChainParts& parts_;
  const StitchGraph& graph_;
  std::vector<PlanStep> steps_;
  NodeSet done_;
  StitchBudget budget_;  // for the programs of all kernels together: as much as planning has
  std::map<const KernelBody*, KernelCode> codes_;  // of stitched kernels
};

Assembly::Assembly(const Chain& chain, int64_t bucket, const DeviceModel& model,
                   const AssemblyRequest& request)
    : chain_(chain),
      bucket_(bucket),
      model_(model),
      request_(request),
      batch_invariant_(request.batch_invariant && chain.UsesM()) {}

Assembly::~Assembly() = default;

absl::StatusOr<ChainParts*> Assembly::PartsOf(const Absorbed& absorbed, Pace* pace) {
  for (const std::unique_ptr<ChainParts>& known : parts_) {
    if (known->absorbed() == absorbed) return known.get();
  }
  SINTER_ASSIGN_OR_RETURN(std::unique_ptr<ChainParts> parts,
                          ChainParts::Make(chain_, bucket_, absorbed, batch_invariant_, pace));
  parts_.push_back(std::move(parts));
  return parts_.back().get();
}

absl::StatusOr<AssembledPlan> Assembly::Assemble(const Decisions& decisions) {
  return Stoppable(request_.keep_going, [&](Pace* pace) { return AssembleAt(decisions, pace); });
}

absl::StatusOr<AssembledPlan> Assembly::AssembleAt(const Decisions& decisions, Pace* pace) {
  if (decisions.bucket != bucket_) {
    return FailedPrecondition("it is for bucket ", decisions.bucket, ", asked for is ", bucket_);
  }
  if (decisions.kernels.empty() || decisions.kernels.size() > chain_.ops().size()) {
    return FailedPrecondition(decisions.kernels.size(), " kernels for ", chain_.ops().size(),
                              " ops");
  }
  if (decisions.batch_invariant != batch_invariant_) {
    return FailedPrecondition("batch_invariant ", decisions.batch_invariant, ", asked for is ",
                              !decisions.batch_invariant);
  }
  SINTER_ASSIGN_OR_RETURN(const ArchFeatures features, FeaturesOf(model_.arch));
  if (decisions.absorbed.mma == features.products) {
    return FailedPrecondition("its products are ", features.products ? "" : "not ",
                              "by mma.sync, device model ", model_.name, " is ", model_.arch);
  }
  SINTER_ASSIGN_OR_RETURN(ChainParts* const parts, PartsOf(decisions.absorbed, pace));
  SINTER_ASSIGN_OR_RETURN(AssembledPlan assembled, Maker(*this, parts, pace).Run(decisions));
  SINTER_RETURN_IF_ERROR(CheckOrder(assembled.plan));
  return assembled;
}

PlanAssembly MakePlanAssembly(const Chain& chain, int64_t bucket, const DeviceModel& model,
                              const AssemblyRequest& request) {
  const auto assembly = std::make_shared<Assembly>(chain, bucket, model, request);
  return [assembly](const Decisions& decisions) { return assembly->Assemble(decisions); };
}

absl::StatusOr<std::unique_ptr<ChainParts>> ChainParts::Make(const Chain& chain, int64_t bucket,
                                                             const Absorbed& absorbed,
                                                             bool batch_invariant, Pace* pace) {
  Ask(pace);
  ProductRuns products = FindProductRuns(chain, bucket, pace, absorbed);
  const int64_t bodies = batch_invariant ? RowOrderBucketOf(chain) : bucket;
  const std::vector<GraphRun> runs =
      bodies == bucket ? products.runs : FindProductRuns(chain, bodies, pace, absorbed).runs;
  const bool same = std::equal(runs.begin(), runs.end(), products.runs.begin(), products.runs.end(),
                               [](const GraphRun& a, const GraphRun& b) { return a.end == b.end; });
  if (!same) return FailedPrecondition("other products have kernels than at ", bodies, " rows");
  StitchGraphOptions options;
  options.pace = pace;
  absl::StatusOr<StitchGraph> graph;
  // Where an output overwrites an input, the input's reader may have to share a vertex with the
  // output's op: contraction then gives an order that the plain graph has not.
  for (const bool contract : {false, true}) {
    options.contract = contract;
    graph = StitchGraph::Make(chain, bodies, runs, options);
    if (graph.ok()) break;
  }
  if (!graph.ok()) return graph.status();
  return std::unique_ptr<ChainParts>(
      new ChainParts(absorbed, std::move(products), *std::move(graph)));
}

const GraphRun* ChainParts::RunOf(const KernelOps& ops) const {
  for (const GraphRun& run : products_.runs) {
    if (ops.values.size() == 1 && run.end == ops.values.front()) return &run;
  }
  return nullptr;
}

bool ChainParts::IsRun(int vertex) const {
  return std::any_of(products_.runs.begin(), products_.runs.end(),
                     [&](const GraphRun& run) { return graph_.VertexOf(run.end) == vertex; });
}

absl::StatusOr<NodeSet> ChainParts::VerticesOf(const KernelOps& ops) const {
  NodeSet vertices(graph_.size());
  for (const ValueId value : ops.values) {
    const bool known = value >= 0 && value < static_cast<ValueId>(graph_.chain().ops().size());
    const int vertex = known ? graph_.VertexOf(value) : -1;
    if (vertex < 0) return OpRefused(value, " is no op that a kernel is made of");
    if (IsRun(vertex)) return OpRefused(value, " is of a run of products");
    vertices.Add(vertex);
  }
  return vertices;
}

absl::StatusOr<std::shared_ptr<const StitchBody>> ChainParts::BodyOf(const KernelOps& ops,
                                                                     const NodeSet& vertices) {
  const std::pair<std::vector<ValueId>, bool> key = {ops.values, ops.turned};
  const auto known = bodies_.find(key);
  if (known != bodies_.end()) return known->second;
  SINTER_ASSIGN_OR_RETURN(StitchBody body, ExtractBody(graph_, vertices, ops.turned));
  if (!(body.ops.values == ops.values)) return FailedPrecondition("its ops are not whole");
  SINTER_RETURN_IF_ERROR(CheckBodyLength(body.body));
  return bodies_.emplace(key, std::make_shared<const StitchBody>(std::move(body))).first->second;
}

}  // namespace sinter
