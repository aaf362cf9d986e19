#include "src/engine/engine.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/codec.h"
#include "src/base/refusal.h"
#include "src/base/status.h"
#include "src/chain/tensor_type.h"
#include "src/engine/assembler.h"
#include "src/engine/cache_tools.h"
#include "src/engine/core.h"
#include "src/engine/keys.h"
#include "src/engine/measured_choice.h"
#include "src/engine/prepared_plan.h"
#include "src/engine/tune.h"

namespace sinter {
namespace {

absl::Status Differs(absl::string_view field, absl::string_view given, absl::string_view wanted) {
  return InvalidField(absl::StrCat("the plan's ", field), given, wanted);
}

std::string Short(const Digest& digest) { return digest.Hex().substr(0, 16); }

std::string DeviceText(const PlanUse& use) {
  if (!use.launches) return absl::StrCat("none (target chip ", Short(use.chip), ")");
  return absl::StrCat(use.ordinal, " (chip ", Short(use.chip), ")");
}

absl::Status CheckM(int64_t m) {
  if (m >= 0 && m <= kMaxExtent) return absl::OkStatus();
  const std::string bound = absl::StrCat("in [0, ", BoundText(kMaxExtent), "]");
  return WithField(OutOfRange("m is ", m, ", must be ", bound), "m", m, bound);
}

// Loaded plans of one plan key differ in these.
std::string LiveKey(const std::string& plan_key, const AssembleOptions& options) {
  ByteWriter w;
  w.U8(static_cast<uint8_t>(options.choice));
  w.U8(options.verify ? 1 : 0);
  w.U8(static_cast<uint8_t>(options.on_miss));
  w.Raw(plan_key);
  return w.Take();
}

void WriteTrace(const EngineCore& core) noexcept {
  if (core.trace == nullptr) return;
  try {
    const absl::Status written = core.trace->Write();
    if (!written.ok()) core.log.Log(LogLevel::kWarn, absl::StrCat("trace: ", written.message()));
  } catch (const std::bad_alloc&) {  // a trace is not worth a process
  }
}

class EngineImpl : public Engine {
 public:
  EngineImpl(std::shared_ptr<EngineCore> core)
      : core_(std::move(core)),
        plans_(core_.get()),
        kernels_(core_.get()),
        assembler_(core_, &plans_, &kernels_),
        tuner_(core_, &assembler_),
        choices_(core_, &plans_, &tuner_),
        stand_ins_(core_, &assembler_) {}
  // Plans may live on and keep what they use; nothing else stays loaded. A plan that only a graph
  // kept alive may still wait in the loader to be destroyed, and it keeps the core, which keeps the
  // loader. Retire lets it go now, or the loader does when the graph goes.
  ~EngineImpl() override {
    WriteTrace(*core_);
    core_->modules.Clear();
    if (core_->ports.loader != nullptr) core_->ports.loader->Retire();
  }

  void WriteTraceNow() const noexcept override { WriteTrace(*core_); }

  absl::StatusOr<std::shared_ptr<const PreparedPlan>> Prepare(
      const Chain& chain, int64_t m, const PrepareOptions& options) override {
    const auto start = std::chrono::steady_clock::now();
    absl::StatusOr<std::shared_ptr<const PreparedPlan>> plan = PrepareNow(chain, m, options);
    Counters& c = core_->counters;
    const auto took = std::chrono::steady_clock::now() - start;
    (plan.ok() ? c.prepare_times : c.failed_prepare_times).Add(took);
    const bool only_looked = options.no_build && absl::IsNotFound(plan.status());
    if (!plan.ok() && !only_looked) {
      c.prepare_failures.fetch_add(1, std::memory_order_relaxed);
      if (IsCacheMiss(plan.status())) c.must_hit_misses.fetch_add(1, std::memory_order_relaxed);
    }
    return plan;
  }

  absl::StatusOr<std::shared_ptr<const PreparedPlan>> PrepareNow(const Chain& chain, int64_t m,
                                                                 const PrepareOptions& options) {
    SINTER_RETURN_IF_ERROR(CheckM(m));
    core_->counters.prepares.fetch_add(1, std::memory_order_relaxed);
    BuildControl control(options.deadline_us, options.cancel, options.progress,
                         options.background ? 1 : 0);
    SINTER_RETURN_IF_ERROR(control.Enter("look up", 0.0));
    const PlanRequest request = RequestFor(chain, m, options.batch_invariant);
    if (core_->events.Wanted()) {
      control.TellTo(&core_->events, chain.CanonicalDigest(), request.bucket);
    }
    const TraceSpan span(core_->trace.get(), "prepare", SpanDetail(request));
    absl::StatusOr<LoadedPlanPtr> loaded = GetChosen(request, options, control);
    if (MayStandIn(loaded.status(), options)) StandIn(request, control, &loaded);
    SINTER_RETURN_IF_ERROR(OfMiss(loaded.status(), request, options));
    SINTER_RETURN_IF_ERROR(CheckAskedRows(**loaded, m));
    SINTER_RETURN_IF_ERROR(control.Enter("ready", 1.0));
    return MakePreparedPlan(core_, *std::move(loaded), chain);
  }

  absl::StatusOr<SearchedPlan> Search(const Chain& chain, int64_t m,
                                      const PrepareOptions& options) override {
    SINTER_RETURN_IF_ERROR(CheckM(m));
    BuildControl control(options.deadline_us, options.cancel, options.progress);
    SINTER_RETURN_IF_ERROR(control.Enter("look up", 0.0));
    const PlanRequest request = RequestFor(chain, m, options.batch_invariant);
    if (core_->events.Wanted()) {
      control.TellTo(&core_->events, chain.CanonicalDigest(), request.bucket);
    }
    const TraceSpan span(core_->trace.get(), "choose", SpanDetail(request));
    absl::StatusOr<SearchedPlan> found = SearchChosen(request, options, control);
    SINTER_RETURN_IF_ERROR(OfMiss(found.status(), request, options));
    found->plan.note = NoteFor(chain, found->plan.note);
    SINTER_RETURN_IF_ERROR(control.Enter("ready", 1.0));
    return found;
  }

  absl::StatusOr<TuneResult> Tune(const Chain& chain, int64_t m,
                                  const TuneOptions& options) override {
    SINTER_RETURN_IF_ERROR(CheckM(m));
    const PlanRequest request = RequestFor(chain, m, options.batch_invariant);
    const TraceSpan span(core_->trace.get(), "tune", SpanDetail(request));
    return tuner_.Tune(request, options, BuildControl(options.deadline_us, nullptr, nullptr),
                       core_->ports.measurer.get());
  }

  PlanUse UseFor(const Chain& chain, int64_t m, bool batch_invariant) const override {
    const PlanRequest request = RequestFor(chain, m, batch_invariant);
    PlanUse use = core_->UseOnDevice();
    use.chain = chain.CanonicalDigest();
    use.input_order = chain.InputOrder();
    use.bucket = request.bucket;
    use.batch_invariant = request.batch_invariant;
    return use;
  }

  bool Measures(const PrepareOptions& options, bool now) const override {
    if (options.measuring.mode == Measuring::Mode::kOff || core_->ports.tuning != nullptr ||
        options.choice != PrepareOptions::Choice::kBest) {
      return false;
    }
    return !now || (core_->ports.measurer != nullptr && !MustHit(options));
  }

  EngineStats Stats() const override {
    const Counters& c = core_->counters;
    EngineStats stats;
#define SINTER_COUNTER(name) stats.name = c.name;
#include "src/engine/counters.def"
    stats.compiles_in_flight = UnderWay(c.compiles_begun, stats.kernels_compiled);
    stats.stand_ins = c.stand_ins;
    stats.slots_building = UnderWay(c.slot_builds_begun, c.slot_builds_ended);
    stats.slot_measured_wins = std::min(stats.slot_measured_wins, stats.slot_measurements);
    stats.measured_wins = std::min(stats.measured_wins, stats.measurements);
    stats.slots_measuring = UnderWay(c.slot_measurements_begun,
                                     stats.slot_measurements + stats.slot_measurements_given_up);
    stats.nvrtc_loaded = core_->ports.compiler->Loaded();
    stats.search_us = static_cast<double>(c.search_ns) / 1e3;
    stats.compile_us = static_cast<double>(c.compile_ns) / 1e3;
    stats.compile_saved_us = static_cast<double>(c.compile_saved_ns) / 1e3;
    stats.gpu_time_saved_us = static_cast<double>(c.gpu_saved_ns) / 1e3;
    const ModuleStats modules = core_->modules.Stats();
    stats.modules_loaded = modules.loaded;
    stats.module_bytes = modules.bytes;
    stats.modules_unloaded = modules.unloaded;
    stats.store = core_->ports.store->Stats();
    stats.prepare_times = c.prepare_times.Counts();
    stats.failed_prepare_times = c.failed_prepare_times.Counts();
    AddMisses(MissReason::kOtherToolchain, c.denied, &stats.store.kernels, &stats.store);
    AddMisses(MissReason::kDamaged, c.refused_plans, &stats.store.plans, &stats.store);
    AddMisses(MissReason::kDamaged, c.refused_kernels, &stats.store.kernels, &stats.store);
    return stats;
  }

  absl::Status TellEvents(std::function<void(const EngineEvent&)> callback) override {
    return core_->events.Set(std::move(callback));
  }

  void NoteSlot(SlotStep step, const PreparedPlan* plan, absl::string_view why) override {
    Counters& c = core_->counters;
    std::atomic<uint64_t>* const counted[] = {&c.slot_builds_begun, &c.slot_builds_ended,
                                              &c.slot_failures, &c.slot_upgrades};
    counted[static_cast<int>(step)]->fetch_add(1, std::memory_order_relaxed);
    if (step == SlotStep::kUpgraded && core_->events.Wanted()) {
      EngineEvent event(EventKind::kUpgrade, "plan");
      event.plan = plan->ChosenDigest();
      event.bucket = plan->plan().bucket;
      core_->events.Tell(event);
    }
    if (step != SlotStep::kBuildFailed) return;
    core_->log.Log(LogLevel::kWarn, absl::StrCat("slot: the background build failed: ", why));
  }

  absl::Status DenyToolchains(absl::string_view entries) override {
    return core_->denied.Add(entries);
  }

  const Ports& ports() const override { return core_->ports; }

  absl::Status CheckStored(RecordKind kind, absl::string_view key,
                           absl::string_view payload) const override {
    return CheckStoredRecord(kind, key, payload, *core_);
  }

  absl::Status RefuseDuringCapture(StreamHandle stream) const override {
    if (core_->ports.loader == nullptr) return absl::OkStatus();
    SINTER_ASSIGN_OR_RETURN(const bool capturing, core_->ports.loader->IsCapturing(stream));
    if (!capturing) return absl::OkStatus();
    return MakeError(ErrorCode::kStreamCapturing,
                     "the stream captures: prepare, tune and load before the capture begins");
  }

 private:
  static void AddMisses(MissReason reason, uint64_t count, KindStats* kind, StoreStats* all) {
    kind->misses[static_cast<int>(reason)] += count;
    all->misses[static_cast<int>(reason)] += count;
  }
  static uint64_t UnderWay(uint64_t begun, uint64_t ended) {
    return begun - std::min(begun, ended);
  }

  // The error of a call that missed the cache, with what to do about it.
  absl::Status OfMiss(const absl::Status& status, const PlanRequest& request,
                      const PrepareOptions& options) const {
    if (!IsCacheMiss(status)) return status;
    if (options.no_build) return NotFound(status.message());
    return WithMessage(status, absl::StrCat(status.message(), "; ", HowToWarm(request, *core_)));
  }

  // Whether a measured choice decides if there is one: the tuning set has it, or may be asked for.
  bool TakesMeasured(const PlanRequest& request, const PrepareOptions& options) const {
    return Measures(options, false) ||
           (core_->ports.tuning != nullptr && WhySetIsPassedOver(request, *core_).empty());
  }

  absl::StatusOr<SearchedPlan> SearchChosen(const PlanRequest& request,
                                            const PrepareOptions& options,
                                            const BuildControl& control) {
    const AssembleOptions how = OptionsFor(options);
    if (TakesMeasured(request, options)) {
      PlanRequest measured = request;
      measured.measured = true;
      absl::StatusOr<SearchedPlan> found = assembler_.Search(measured, how, control);
      if (found.ok() || !control.Check("look up").ok()) return found;
    }
    return assembler_.Search(request, how, control);
  }

  // Whether stand-ins may answer in place of a build that would have to be waited for, or cannot be
  // had.
  bool MayStandIn(const absl::Status& why, const PrepareOptions& options) const {
    if (why.ok() || !core_->ports.stand_ins || core_->ports.loader == nullptr) return false;
    if (options.background || MustHit(options) || !core_->config.stand_ins ||
        options.choice != PrepareOptions::Choice::kBest)
      return false;
    return options.no_build ? IsCacheMiss(why) : absl::IsUnavailable(why);
  }
  // If there is no stand-in, `loaded` keeps its error with the reason added.
  void StandIn(const PlanRequest& request, const BuildControl& control,
               absl::StatusOr<LoadedPlanPtr>* loaded) {
    const std::string why(loaded->status().message());
    absl::StatusOr<LoadedPlanPtr> stand_in = stand_ins_.Get(request, why, control);
    if (stand_in.ok()) {
      *loaded = *std::move(stand_in);
    } else {
      *loaded = Annotate(loaded->status(),
                         absl::StrCat("and no plan stands in (", stand_in.status().message(), ")"));
    }
  }

  PlanRequest RequestFor(const Chain& chain, int64_t m, bool batch_invariant) const {
    PlanRequest request;
    request.form = core_->FormOf(chain);
    const int64_t fixed = FixedRowsOf(request.planned());
    request.bucket = BucketOf(request.planned(), std::max<int64_t>(fixed >= 0 ? fixed : m, 1));
    request.batch_invariant = batch_invariant || core_->config.batch_invariant;
    return request;
  }

  std::string SpanDetail(const PlanRequest& request) const {
    if (core_->trace == nullptr) return "";
    return absl::StrCat("chain ", request.chain().CanonicalDigest().Hex().substr(0, 16),
                        ", m <= ", request.bucket);
  }

  AssembleOptions OptionsFor(const PrepareOptions& options) const {
    AssembleOptions result;
    result.choice = options.choice;
    if (MustHit(options)) result.on_miss = OnMiss::kRefuse;
    if (options.no_build) result.on_miss = OnMiss::kGoOn;
    result.verify = options.verify || core_->config.verify_first_use;
    return result;
  }

  bool MustHit(const PrepareOptions& options) const {
    return options.must_hit || core_->config.must_hit;
  }

  // Whether plans may be measured for a prepare that found no measured choice. One rank by itself
  // cannot be measured.
  bool MayMeasure(const PlanRequest& request, const PrepareOptions& options) const {
    const bool asked = options.measuring.mode >= Measuring::Mode::kFirst && !options.no_build;
    return asked && request.chain().ranks() == 1 && Measures(options, true);
  }

  absl::Status Measure(const PlanRequest& request, const PrepareOptions& options,
                       const BuildControl& control) {
    const Measuring& how = options.measuring;
    const TraceSpan span(core_->trace.get(), "measure", SpanDetail(request));
    const absl::Status measured = choices_.Measure(request, how, control);
    const bool passed_on = how.required || how.mode == Measuring::Mode::kWhileServing;
    if (measured.ok() || passed_on) return measured;
    return control.Check("look up");  // else the predicted plan serves; the reason is logged
  }

  // Why there is no measured choice, for a caller who requires one.
  absl::Status NoMeasuredChoice(const PlanRequest& request, const PrepareOptions& options,
                                const absl::Status& why) const {
    if (const int ranks = request.chain().ranks(); ranks > 1) {
      return FailedPrecondition(
          "prepare.measure is ", options.measuring.top_k, ", but the chain is split over ", ranks,
          " ranks, and one rank cannot be measured by itself: leave measure 0, "
          "and prediction chooses on each rank alike");
    }
    if (MustHit(options) && IsCacheMiss(why)) {
      return WithMessage(
          why, absl::StrCat(why.message(), "; ", HowToWarm(request, *core_), " --measure ",
                            options.measuring.top_k, ", where a GPU is"));
    }
    if (core_->ports.measurer != nullptr || !IsCacheMiss(why)) return why;
    return Unavailable("prepare.measure is ", options.measuring.top_k,
                       ", but no measured choice is kept and none can be measured here: ",
                       core_->ports.no_gpu_reason,
                       "; warm the cache with `sinter warm --measure` where a GPU is, or leave "
                       "measure 0");
  }

  // The plan that measuring chose, if there is one that can be used, else the one that planning
  // chooses.
  absl::StatusOr<LoadedPlanPtr> GetChosen(const PlanRequest& request, const PrepareOptions& options,
                                          const BuildControl& control) {
    const AssembleOptions how = OptionsFor(options);
    if (TakesMeasured(request, options)) {
      PlanRequest measured = request;
      measured.measured = true;
      absl::StatusOr<LoadedPlanPtr> loaded = GetLoaded(measured, how, control);
      if (!loaded.ok() && MayMeasure(request, options)) {
        SINTER_RETURN_IF_ERROR(Measure(request, options, control));
        loaded = GetLoaded(measured, how, control);
      }
      if (loaded.ok() || !control.Check("look up").ok()) return loaded;
      if (options.measuring.required && Measures(options, false))
        return NoMeasuredChoice(request, options, loaded.status());
    }
    return GetLoaded(request, how, control);
  }

  absl::StatusOr<LoadedPlanPtr> GetLoaded(const PlanRequest& request,
                                          const AssembleOptions& options,
                                          const BuildControl& control) {
    const std::string plan_key = PlanKeyBytes(request, *core_);
    const std::string key = LiveKey(plan_key, options);
    if (LoadedPlanPtr live = FindLive(key)) return live;
    if (options.on_miss ==
        OnMiss::kGoOn) {  // what was built here is alive, with a cache or without
      AssembleOptions built = options;
      built.on_miss = OnMiss::kBuild;
      if (LoadedPlanPtr live = FindLive(LiveKey(plan_key, built))) return live;
    }
    bool waited = false;
    absl::StatusOr<LoadedPlanPtr> loaded = flights_.Do(
        key, control,
        [&]() -> absl::StatusOr<LoadedPlanPtr> {
          if (LoadedPlanPtr live = FindLive(key)) return live;
          SINTER_ASSIGN_OR_RETURN(LoadedPlanPtr fresh,
                                  assembler_.Assemble(request, options, control));
          DumpPlan(*core_, *fresh);
          live_.Insert(key, fresh);
          return fresh;
        },
        &waited);
    if (waited) core_->counters.waits.fetch_add(1, std::memory_order_relaxed);
    return loaded;
  }

  LoadedPlanPtr FindLive(const std::string& key) {
    LoadedPlanPtr live = live_.Find(key);
    for (size_t i = 0; live != nullptr && i < live->kernels.size(); ++i) {
      if (kernels_.IsRefused(*live->kernels[i])) live = nullptr;
    }
    if (live != nullptr) core_->counters.plan_hits.fetch_add(1, std::memory_order_relaxed);
    return live;
  }

  const std::shared_ptr<EngineCore> core_;
  PlanBuilder plans_;
  KernelBuilder kernels_;
  PlanAssembler assembler_;
  Tuner tuner_;
  MeasuredChoices choices_;
  StandIns stand_ins_;
  SingleFlight<LoadedPlanPtr> flights_;
  WeakCache<LoadedPlan> live_;
};

}  // namespace

absl::Status CheckUse(const PlanUse& wanted, const PlanUse& given) {
  if (given.chain != wanted.chain) {
    return Differs("chain", Short(given.chain), Short(wanted.chain));
  }
  if (given.input_order != wanted.input_order) {
    return Differs("order of inputs", "another chain's", "the order of the slot's chain");
  }
  if (given.bucket != wanted.bucket) {
    return Differs("bucket", absl::StrCat(given.bucket), absl::StrCat(wanted.bucket));
  }
  const std::string device = DeviceText(given), wanted_device = DeviceText(wanted);
  if (device != wanted_device) return Differs("device", device, wanted_device);
  if (wanted.batch_invariant && !given.batch_invariant) {
    return Differs("batch_invariant", "false", "true");
  }
  return absl::OkStatus();
}

std::shared_ptr<Engine> CreateEngine(Ports ports, const Config& config, LogSink log,
                                     PlanningHooks hooks) {
  ports.measurer = MakeSerialMeasurer(std::move(ports.measurer));
  if (ports.known_times == nullptr) ports.known_times = std::make_shared<KnownTimes>();
  auto core =
      std::make_shared<EngineCore>(std::move(ports), config, std::move(log), std::move(hooks));
  // The tools are valid as long as the store, which the core owns.
  if (CacheTools* tools = core->ports.cache_tools.get()) {
    tools->CheckWith(
        [own = core.get()](RecordKind kind, absl::string_view key, absl::string_view payload) {
          return JudgeStoredRecord(kind, key, payload, *own);
        });
    tools->KernelsWith([own = core.get()](absl::string_view key, absl::string_view payload) {
      return KernelsOfStoredPlan(key, payload, *own);
    });
  }
  const absl::Status denied = core->denied.Add(config.deny_toolchains);
  if (!denied.ok()) core->log.Log(LogLevel::kError, denied.message());  // checked with the config
  return std::make_shared<EngineImpl>(std::move(core));
}

}  // namespace sinter
