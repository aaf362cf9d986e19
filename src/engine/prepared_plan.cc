#include "src/engine/prepared_plan.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/engine/bound_plan.h"
#include "src/normal/normal_form.h"

namespace sinter {
namespace {

// A kernel that is used at several positions is reported once.
std::vector<KernelOrigin> KernelOrigins(const LoadedPlan& plan) {
  std::vector<KernelOrigin> list;
  std::map<std::tuple<Digest, const BuiltKernel*>, size_t> known;
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    const BuiltKernel& kernel = *plan.kernels[i];
    const Digest& digest = plan.plan.kernels[i].kernel_digest;
    const auto [at, fresh] = known.try_emplace({digest, &kernel}, list.size());
    if (fresh) {
      list.push_back(
          {{}, digest, kernel.origin, kernel.compile_us, kernel.registers, kernel.verified});
    }
    list[at->second].kernels.push_back(static_cast<int>(i));
  }
  return list;
}

PlanOrigin OriginOf(const LoadedPlan& plan, const Ports& ports) {
  PlanOrigin origin;
  origin.device = ports.device_name.empty() ? ports.model.name : ports.device_name;
  origin.model = ports.model.name;
  origin.arch = ports.model.arch;
  if (ports.loader == nullptr) origin.no_gpu = ports.no_gpu_reason;
  origin.chosen = plan.chosen_digest;
  origin.considered = plan.considered;
  origin.legal = plan.legal;
  origin.from_cache = plan.from_cache;
  origin.tuning_digest = plan.tuning_digest;
  origin.agreed = AgreedDigest(plan);
  origin.tuning = plan.tuning;
  origin.kernels = KernelOrigins(plan);
  return origin;
}

// Whether it was passed over for its time or the caller's choice; planning then says more about it.
bool IsByTime(const PassedOver& other) {
  return other.why == PassedOver::Why::kSlower || other.why == PassedOver::Why::kNotAskedFor;
}

}  // namespace

std::vector<Candidate> NotChosen(const LoadedPlan& plan) {
  std::vector<Candidate> list;
  const Digest self = plan.plan.PlanDigest();
  for (const Candidate& c : plan.plan.runners_up) {
    if (c.plan != self) list.push_back(c);
  }
  const bool planned = !list.empty();  // then planning listed every plan worth showing
  std::vector<Candidate> unlisted;
  for (const PassedOver& other : plan.passed_over) {
    const auto known = std::find_if(list.begin(), list.end(),
                                    [&](const Candidate& c) { return c.plan == other.plan; });
    if (known == list.end() && !(planned && IsByTime(other))) {
      const char* name = other.fused ? "fused" : "the plain plan";
      unlisted.push_back({name, other.predicted_us, TextOf(other), other.plan});
    } else if (known != list.end() && !IsByTime(other)) {
      known->why_not = TextOf(other);
    }
  }
  list.insert(list.begin(), unlisted.begin(), unlisted.end());
  return list;
}

BufferNames NamesIn(const Chain& chain, const LoadedPlan& plan) {
  const std::vector<int32_t>& order = chain.InputOrder();
  BufferNames out;
  for (const BufferView& view : plan.form->buffers) {
    const auto i = static_cast<size_t>(view.buffer);
    std::string name;
    if (i < order.size()) name = chain.InputName(order[i]);
    out.given.push_back(!name.empty());
    if (name.empty()) {
      const size_t output = i - order.size();
      name = i < order.size()           ? absl::StrCat("input ", order[i])
             : chain.num_outputs() == 1 ? "output"
                                        : absl::StrCat("output ", output);
    }
    if (view.offset_bytes > 0) absl::StrAppend(&name, " + ", view.offset_bytes);
    out.names.push_back(std::move(name));
  }
  return out;
}

Explanation ExplanationOf(const LoadedPlan& plan, const EngineCore& core, Detail detail,
                          const BufferNames& names) {
  Explanation out = Describe(plan.plan, core.ports.model, names);
  out.origin = OriginOf(plan, core.ports);
  if (detail == Detail::kSummary) return out;
  out.plan.runners_up = NotChosen(plan);
  if (core.hooks.explain) core.hooks.explain(core.ports.model, &out);
  return out;
}

namespace {

// Chains that differ only in the order of their inputs share a plan. Its note numbers inputs in the
// order of this caller.
LoadedPlanPtr ToldTo(const Chain& caller, const LoadedPlanPtr& plan) {
  std::string note = NoteFor(caller, plan->plan.note);
  if (note == plan->plan.note) return plan;
  auto told = std::make_shared<LoadedPlan>(*plan);
  told->plan.note = std::move(note);
  return told;
}

class PreparedPlanImpl : public PreparedPlan {
 public:
  PreparedPlanImpl(std::shared_ptr<EngineCore> core, LoadedPlanPtr plan, const Chain& chain)
      : core_(std::move(core)),
        plan_(std::move(plan)),
        told_(ToldTo(chain, plan_)),
        order_(chain.InputOrder()),
        names_(NamesIn(chain, *plan_)),
        short_digest_(ShortDigest(plan_->chosen_digest)) {}

  const Plan& plan() const override { return told_->plan; }
  Digest ChosenDigest() const override { return AgreedDigest(*plan_); }
  PlanUse Use() const override {
    PlanUse use = core_->UseOnDevice();
    use.chain = plan_->chain().CanonicalDigest();
    use.input_order = order_;
    use.bucket = plan_->plan.bucket;
    use.batch_invariant = plan_->plan.IsBatchInvariant();
    return use;
  }
  std::string Explain() const override { return ExplanationText(Explained(Detail::kWhole)); }
  std::string Summary() const override { return SummaryText(Explained(Detail::kSummary)); }
  Explanation Explained() const override { return Explained(Detail::kWhole); }
  std::string Svg() const override { return PlanSvg(Explained(Detail::kWhole)); }
  int64_t MostRows() const override { return plan_->fixed_rows >= 0 ? 0 : plan_->rows.most; }
  uint64_t WorkspaceBytes() const override { return plan_->plan.workspace_bytes; }

  std::string SourceOf(int kernel) const override {
    if (kernel < 0 || kernel >= static_cast<int>(plan_->plan.kernels.size())) return std::string();
    const absl::StatusOr<GeneratedKernel> generated =
        core_->hooks.generate(plan_->plan.kernels[kernel].spec, core_->ports.model);
    return generated.ok() ? generated->request.source : std::string(generated.status().message());
  }

  absl::Status InitWorkspace(DevicePtr workspace, uint64_t bytes,
                             StreamHandle stream) const override {
    SINTER_RETURN_IF_ERROR(NeedGpu());
    SINTER_RETURN_IF_ERROR(CheckWorkspace(plan_->plan, workspace, bytes));
    return ClearHeader(plan_->plan, *core_->ports.loader, workspace, stream);
  }

  absl::StatusOr<std::shared_ptr<const PlanBinding>> Bind(const std::vector<DevicePtr>& buffers,
                                                          DevicePtr workspace,
                                                          bool no_rows) const override {
    return Bound(buffers, workspace, no_rows, nullptr);
  }

  absl::StatusOr<std::shared_ptr<const PlanBinding>> BindGroup(
      const absl::StatusOr<std::vector<DevicePtr>>& buffers, DevicePtr workspace,
      std::shared_ptr<RankGroup> group) const override {
    // First, so that a rank with a wrong buffer keeps no other rank waiting.
    SINTER_RETURN_IF_ERROR(group->AgreeOnPlan(plan_->plan.PlanDigest()));
    SINTER_RETURN_IF_ERROR(buffers.status());
    return Bound(*buffers, workspace, false, std::move(group));
  }

  absl::Status Launch(const PlanBinding& binding, StreamHandle stream, int64_t m,
                      bool pdl_edge) const override {
    SINTER_ASSIGN_OR_RETURN(const BoundPlan* const bound, Usable(binding, m));
    bool half_sent = false;
    const absl::Status enqueued = EnqueuePlan(*bound, stream, m, pdl_edge, &half_sent);
    if (!enqueued.ok()) {
      // The next launch would send again, into slots that others have not emptied. What a stream
      // captures has sent nothing.
      if (half_sent && !core_->ports.loader->IsCapturing(stream).value_or(false)) {
        (void)bound->group->Abort();
      }
      return WithLastLaunched(enqueued);
    }
    if (m == 0 && plan_->without_rows.empty()) return absl::OkStatus();  // nothing was enqueued
    core_->counters.last_launched.store(short_digest_, std::memory_order_relaxed);
    core_->counters.launches.fetch_add(1, std::memory_order_relaxed);
    const auto passes = static_cast<uint64_t>(BucketsFilled(*plan_, m));
    core_->counters.gpu_saved_ns.fetch_add(passes * plan_->saved_ns_per_pass,
                                           std::memory_order_relaxed);
    if (bound->group != nullptr) {
      SINTER_RETURN_IF_ERROR(core_->ports.loader->TieToCapture(stream, bound->group));
    }
    return core_->ports.loader->TieToCapture(stream, plan_);
  }

  absl::StatusOr<PlanNodes> AddToGraph(const PlanBinding& binding, GraphHandle graph,
                                       NodeEdges edges, int64_t m) const override {
    SINTER_ASSIGN_OR_RETURN(const BoundPlan* const bound, Usable(binding, m));
    return AddPlanNodes(*bound, *core_->ports.loader, graph, std::move(edges), m);
  }

  absl::Status UpdateInGraph(const PlanNodes& nodes, GraphExecHandle exec,
                             const PlanBinding& binding, int64_t m) const override {
    SINTER_ASSIGN_OR_RETURN(const BoundPlan* const bound, Usable(binding, m));
    return UpdatePlanNodes(nodes, exec, *bound, m);
  }

 private:
  absl::StatusOr<std::shared_ptr<const PlanBinding>> Bound(const std::vector<DevicePtr>& buffers,
                                                           DevicePtr workspace, bool no_rows,
                                                           std::shared_ptr<RankGroup> group) const {
    SINTER_RETURN_IF_ERROR(NeedGpu());
    std::vector<DevicePtr> canonical = buffers;
    // BindPlan reports a wrong count.
    for (size_t i = 0; i < order_.size() && i < buffers.size(); ++i) {
      const size_t from = static_cast<size_t>(order_[i]);
      canonical[i] = from < buffers.size() ? buffers[from] : 0;
    }
    SINTER_ASSIGN_OR_RETURN(
        std::shared_ptr<const BoundPlan> bound,
        BindPlan(plan_, canonical, workspace, no_rows, &order_, std::move(group)));
    return std::shared_ptr<const PlanBinding>(std::move(bound));
  }

  static uint64_t ShortDigest(const Digest& digest) {
    uint64_t first = 0;
    for (size_t i = 0; i < sizeof(first); ++i) first = first << 8 | digest.bytes[i];
    return first;
  }

  // A fault shows at a later call, so the error names the plan launched before.
  absl::Status WithLastLaunched(const absl::Status& status) const {
    const uint64_t last = core_->counters.last_launched.load(std::memory_order_relaxed);
    if (!IsContextLost(status) || last == 0) return status;
    return WithMessage(status,
                       absl::StrCat(status.message(), "; the plan launched last before this was ",
                                    absl::Hex(last, absl::kZeroPad16)));
  }

  // OK where `m` rows of `binding` can run. Only Bind above makes bindings.
  absl::StatusOr<const BoundPlan*> Usable(const PlanBinding& binding, int64_t m) const {
    SINTER_RETURN_IF_ERROR(NeedGpu());
    const BoundPlan& bound = static_cast<const BoundPlan&>(binding);
    if (bound.plan != plan_) return Invalid("the binding belongs to another plan");
    SINTER_RETURN_IF_ERROR(CheckRows(*plan_, m));
    if (bound.group != nullptr) SINTER_RETURN_IF_ERROR(bound.group->CheckLaunch());
    SINTER_RETURN_IF_ERROR(CheckOverlap(bound, m, &order_));
    return &bound;
  }
  Explanation Explained(Detail detail) const {
    return ExplanationOf(*told_, *core_, detail, names_);
  }
  absl::Status NeedGpu() const {
    if (core_->ports.loader != nullptr) return absl::OkStatus();
    return Unavailable(core_->ports.no_gpu_reason);
  }

  const std::shared_ptr<EngineCore> core_;
  const LoadedPlanPtr plan_;  // shared by all callers, as bindings are
  const LoadedPlanPtr told_;  // with the note worded for this caller
  const std::vector<int32_t> order_;
  const BufferNames names_;
  const uint64_t short_digest_;
};

}  // namespace

std::shared_ptr<const PreparedPlan> MakePreparedPlan(std::shared_ptr<EngineCore> core,
                                                     LoadedPlanPtr plan, const Chain& chain) {
  return std::make_shared<PreparedPlanImpl>(std::move(core), std::move(plan), chain);
}

}  // namespace sinter
