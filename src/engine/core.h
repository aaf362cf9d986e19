// EngineCore: what every part of one engine shares. Owns the ports; outlives every prepared plan.
#ifndef SINTER_SRC_ENGINE_CORE_H_
#define SINTER_SRC_ENGINE_CORE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cache/record/record.h"
#include "src/base/compile_request.h"
#include "src/base/config.h"
#include "src/base/digest.h"
#include "src/base/fork_local.h"
#include "src/base/log.h"
#include "src/base/status.h"
#include "src/engine/control.h"
#include "src/engine/engine.h"
#include "src/engine/module_cache.h"
#include "src/engine/tuning_set.h"
#include "src/fusion/assembly.h"
#include "src/fusion/fusion.h"
#include "src/normal/normal_form.h"
#include "src/plan/kernel_code.h"

namespace sinter {

// Counters only grow. Accesses are relaxed, so a snapshot is not of one instant.
struct Counters {
#define SINTER_COUNTER(name) std::atomic<uint64_t> name{0};
#include "src/engine/counters.def"
  std::atomic<uint64_t> stand_ins{0};
  std::atomic<uint64_t> refused_plans{0}, refused_kernels{0};  // not what their keys say
  Latency prepare_times, failed_prepare_times;
  std::atomic<uint64_t> search_ns{0}, compile_ns{0};
  std::atomic<uint64_t> slot_builds_begun{0}, slot_builds_ended{0}, slot_measurements_begun{0};
  std::atomic<uint64_t> compiles_begun{0};    // minus kernels_compiled: compiles under way
  std::atomic<uint64_t> denied{0};            // look-ups of kernels of a denied toolchain
  std::atomic<uint64_t> compile_saved_ns{0};  // of kernels that came from the cache
  std::atomic<uint64_t> gpu_saved_ns{0};      // launches x (unfused - what runs)
  std::atomic<uint64_t> last_launched{0};     // ShortDigest of the plan; not a counter
};

struct Explanation;
struct LoadedPlan;

// The pure functions that the engine drives, replaceable so that its own behaviour can be
// tested without a search or a compiler. All deterministic and thread-safe.
struct PlanningHooks {
  // The form of a chain that is planned. Unset: the chain itself.
  std::function<absl::StatusOr<std::shared_ptr<const NormalForm>>(std::shared_ptr<const Chain>)>
      normal;
  std::function<absl::StatusOr<FusionResult>(const Chain&, int64_t bucket, const DeviceModel&,
                                             const FusionOptions&)>
      plan;
  std::function<absl::StatusOr<GeneratedKernel>(const KernelSpec&, const DeviceModel&)> generate;
  // The recipe that `generate` gives, without making a source. Unset: asks `generate`.
  std::function<absl::StatusOr<LaunchRecipe>(const KernelSpec&)> recipe;
  std::function<void(const DeviceModel&, Explanation*)> explain;  // ExplainFusion; may be unset
  // Makes plans of decisions (MakePlanAssembly); chain and model outlive it. Unset: no decisions
  // can be used.
  std::function<PlanAssembly(const Chain&, int64_t bucket, const DeviceModel&,
                             const AssemblyRequest&)>
      assembly;
  // Other kernels for those that the compiler refused (ReplaceKernels). Unset: there are none, and
  // another plan runs.
  std::function<absl::StatusOr<Decisions>(const Chain&, const DeviceModel&, const FusionOptions&,
                                          Decisions, const std::vector<size_t>& positions,
                                          const std::vector<KernelDecision>& refused)>
      replace;
  // The entry that `generate` gives to kernels of a code. Unset: entries of stored records are not
  // compared.
  std::function<std::string(const KernelCode&)> entry;
  // Called in place of sleeping so many microseconds between pieces of background measuring.
  std::function<void(double us)> pause;
  // Digest of the device headers that the source of a spec reaches (DeviceHeadersDigest of
  // kernel_code.h).
  std::function<Digest(const KernelSpec&)> device_headers;
  RecordFormat format;  // tests stand in for another version of the library
  // Becomes LoadedPlan::check_bind of every plan. Unset: nothing is checked.
  std::function<absl::Status(const LoadedPlan&, int64_t at_once)> check_bind;
};

struct EngineCore {
  EngineCore(Ports p, Config c, LogSink l, PlanningHooks h)
      : ports(std::move(p)),
        config(std::move(c)),
        log(std::move(l)),
        hooks(std::move(h)),
        model_digest(ports.model.ModelDigest()),
        tuning_digest(ports.tuning == nullptr ? Digest() : ports.tuning->SetDigest()),
        trace(config.trace.empty() ? nullptr : std::make_unique<Trace>(config.trace)),
        modules(
            config.module_cache_bytes == 0 ? kDefaultModuleCacheBytes : config.module_cache_bytes,
            &events) {}

  Ports ports;
  const Config config;
  const LogSink log;
  const PlanningHooks hooks;
  // A recipe within the bounds of LaunchRecipe::Check.
  absl::StatusOr<LaunchRecipe> RecipeOf(const KernelSpec& spec) const {
    absl::StatusOr<LaunchRecipe> recipe;
    if (hooks.recipe) {
      recipe = hooks.recipe(spec);
    } else {
      absl::StatusOr<GeneratedKernel> kernel = hooks.generate(spec, ports.model);
      recipe =
          kernel.ok() ? std::move(kernel->recipe) : absl::StatusOr<LaunchRecipe>(kernel.status());
    }
    const absl::Status within = recipe.ok() ? recipe->Check() : recipe.status();
    if (!within.ok()) return within;
    return recipe;
  }
  // The normal form of a chain; the chain itself if a rule fails, which is logged. Kept as long as
  // anyone uses it.
  std::shared_ptr<const NormalForm> FormOf(const Chain& chain) const {
    const std::string key(chain.CanonicalDigest().View());
    if (std::shared_ptr<const NormalForm> known = forms.Find(key)) return known;
    auto callers = std::make_shared<const Chain>(chain);
    std::shared_ptr<const NormalForm> form;
    if (hooks.normal) {
      absl::StatusOr<std::shared_ptr<const NormalForm>> made = hooks.normal(callers);
      if (!made.ok()) log.Log(LogLevel::kError, made.status().message());
      if (made.ok()) form = *std::move(made);
    }
    if (form == nullptr) form = IdentityForm(std::move(callers));
    forms.Insert(key, form);
    return form;
  }
  // Makes plans for `chain` on the chip of `model`; both outlive it.
  PlanAssembly AssemblyOf(const Chain& chain, int64_t bucket, const DeviceModel& model,
                          const AssemblyRequest& request) const {
    if (hooks.assembly) return hooks.assembly(chain, bucket, model, request);
    return [](const Decisions&) { return FailedPrecondition("plans cannot be assembled here"); };
  }
  // The device's part of a PlanUse.
  PlanUse UseOnDevice() const {
    PlanUse use;
    use.chip = ChipDigest(ports.model);
    use.ordinal = ports.ordinal;
    use.launches = ports.loader != nullptr;
    return use;
  }
  const Digest model_digest;            // of ports.model
  const Digest tuning_digest;           // of ports.tuning; all zero without a set
  mutable WeakCache<NormalForm> forms;  // by canonical digest
  Counters counters;
  const std::unique_ptr<Trace> trace;                           // null: no trace was asked for
  ToolchainDenyList denied;                                     // filled by CreateEngine
  ForkLocal<std::map<TuningKey, std::string>> refused_choices;  // of the tuning set: why
  EventSink events;
  ModuleCache modules;  // after ports: modules unload before the loader goes
};

// An engine on given hooks. Engine::Create passes fusion and codegen.
std::shared_ptr<Engine> CreateEngine(Ports ports, const Config& config, LogSink log,
                                     PlanningHooks hooks);

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_CORE_H_
