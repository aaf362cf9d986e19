// Connects the engine to the planner, a device and a compiler. wiring_cache.cc connects it to the
// cache.
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/driver/driver.h"
#include "runtime/launch/binding.h"
#include "runtime/measure/probes.h"
#include "runtime/nvrtc/nvrtc_compiler.h"
#include "runtime/peers/peers.h"
#include "runtime/query/model_choice.h"
#include "src/base/arch.h"
#include "src/base/digest.h"
#include "src/base/format.h"
#include "src/base/refusal.h"
#include "src/base/status.h"
#include "src/engine/cache_tools.h"
#include "src/engine/core.h"
#include "src/engine/engine.h"
#include "src/engine/rank_group.h"
#include "src/engine/tune.h"
#include "src/engine/tuning_set.h"
#include "src/explain/explain.h"
#include "src/fusion/fusion.h"
#include "src/normal/normal_form.h"
#include "src/plan/family.h"
#include "src/plan/kernel_code.h"
#include "src/standin/stand_in.h"

namespace sinter {
namespace {

// `target` is a built-in model's name, or the text of a model file, which always has an assignment.
absl::StatusOr<DeviceModel> TargetModel(absl::string_view target) {
  if (!absl::StrContains(target, "=")) {
    absl::StatusOr<DeviceModel> model = BuiltinModel(target);
    if (model.ok()) return model;
    const std::string nearest = Nearest(target, BuiltinModelNames());
    return absl::Status(
        model.status().code(),
        absl::StrCat(model.status().message(),
                     nearest.empty() ? "" : absl::StrCat("; did you mean \"", nearest, "\"?")));
  }
  const std::string built_in =
      absl::StrCat("; built in: ", absl::StrJoin(BuiltinModelNames(), ", "));
  absl::StatusOr<DeviceModel> model = DeviceModel::FromText(target);
  if (!model.ok()) {
    return WithMessage(model.status(), absl::StrCat(model.status().message(), built_in));
  }
  const absl::Status known = FeaturesOf(model->arch).status();
  if (known.ok()) return model;
  return Invalid("device model ", model->name, ": ", known.message(), built_in);
}

// Prefetching takes only records of the same group: those for this chip and this library.
std::string GroupOf(const DeviceModel& model) {
  return absl::StrCat(model.name, "-", model.arch, "-", SINTER_ENGINE_VERSION);
}

void LogTuning(const Ports& ports, const LogSink& log) {
  if (ports.tuning == nullptr) return;
  const bool useful = ports.tuning->HasChip(ChipDigest(ports.model));
  log.Log(useful ? LogLevel::kInfo : LogLevel::kWarn,
          absl::StrCat("tuning set ", ports.tuning->SetDigest().Hex().substr(0, 16), ": ",
                       Counted(ports.tuning->entries().size(), "entry"),
                       useful ? "" : ", none for this chip"));
}

// The model that the caller named for its GPU, else the one that the GPU's name selects.
absl::StatusOr<DeviceModel> ModelOf(const Config& config, const DeviceInfo& info,
                                    const LogSink& log) {
  SINTER_ASSIGN_OR_RETURN(ModelChoice choice, ChooseModel(info));
  if (config.device_model.empty()) {
    if (!choice.warning.empty()) log.Log(LogLevel::kWarn, choice.warning);
    return std::move(choice.model);
  }
  SINTER_ASSIGN_OR_RETURN(
      const std::string text,
      ReadKeyFile(config.device_model, KeyFileKind::kPublic, "device model file"));
  absl::StatusOr<DeviceModel> model = NamedModel(text, info);
  return model.ok() ? model : Annotate(model.status(), config.device_model);
}

absl::Status PlugInDevice(const Config& config, int ordinal, const LogSink& log, Ports& ports) {
  SINTER_ASSIGN_OR_RETURN(const std::shared_ptr<const Driver> driver,
                          Driver::Open(config.driver_path));
  SINTER_ASSIGN_OR_RETURN(const std::shared_ptr<const Device> device,
                          Device::Open(driver, ordinal));
  SINTER_ASSIGN_OR_RETURN(const DeviceInfo info, QueryDevice(*device));
  SINTER_ASSIGN_OR_RETURN(ports.model, ModelOf(config, info, log));
  SINTER_ASSIGN_OR_RETURN(ports.loader, MakeLoader(device));
  SINTER_ASSIGN_OR_RETURN(ports.measurer, MakeMeasurer(device));
  ports.device_name = info.name;
  ports.ordinal = ordinal;
  ports.driver_name =
      absl::StrCat("CUDA ", info.driver_version / 1000, ".", info.driver_version % 1000 / 10);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Ports> MakePorts(const Config& config, int ordinal, absl::string_view target,
                                const LogSink& log) {
  Ports ports;
  if (!config.tuning_set.empty()) {
    SINTER_ASSIGN_OR_RETURN(TuningSet set, ReadTuningFile(config.tuning_set));
    ports.tuning = std::make_shared<const TuningSet>(std::move(set));
  }
  if (!target.empty()) {
    absl::StatusOr<DeviceModel> model = TargetModel(target);
    if (!model.ok()) return Annotate(model.status(), "target");
    ports.model = *std::move(model);
    ports.no_gpu_reason = absl::StrCat("no GPU: the context is for the target '", ports.model.name,
                                       "', which prepares but cannot launch");
  } else if (ordinal >= 0) {
    SINTER_RETURN_IF_ERROR(PlugInDevice(config, ordinal, log, ports));
  } else {
    return InvalidField("device ordinal", ordinal, ">= 0, or a target must be named");
  }
  static const auto* const known_times =
      new std::shared_ptr<KnownTimes>(std::make_shared<KnownTimes>());
  ports.known_times = *known_times;
  SINTER_ASSIGN_OR_RETURN(const ArchFeatures features, FeaturesOf(ports.model.arch));
  if (EmbeddedStandIns() > 0 && features.products) ports.stand_ins = EmbeddedStandIn;
  LogTuning(ports, log);
  ports.compiler = MakeNvrtcCompiler(config.nvrtc_path);
  SINTER_ASSIGN_OR_RETURN(WiredCache cache, WireCache(config, GroupOf(ports.model), log));
  ports.store = std::move(cache.store);
  ports.cache_tools = std::move(cache.tools);
  return ports;
}

absl::StatusOr<std::unique_ptr<PeerMemory>> OpenPeerMemory(const Config& config, int ordinal) {
  SINTER_ASSIGN_OR_RETURN(const std::shared_ptr<const Driver> driver,
                          Driver::Open(config.driver_path));
  SINTER_ASSIGN_OR_RETURN(const std::shared_ptr<const Device> device,
                          Device::Open(driver, ordinal));
  return MakePeerMemory(device);
}

namespace {

// To the first GPU of this host whose link can be timed; no slope where there is none. A GPU that
// cannot be opened or reached, or lacks the memory, is passed over.
absl::StatusOr<ProbeSlope> TimeAnyLink(const Config& config, int ordinal) {
  absl::StatusOr<std::unique_ptr<PeerMemory>> own = OpenPeerMemory(config, ordinal);
  if (!own.ok()) return own.status();
  for (int other = 0; other < RankRoom::kMaxRanks; ++other) {
    if (other == ordinal) continue;
    const absl::StatusOr<std::unique_ptr<PeerMemory>> peer = OpenPeerMemory(config, other);
    if (!peer.ok() || !(*own)->Reach(**peer).ok()) continue;
    const absl::StatusOr<ProbeSlope> slope = TimeLink(own->get(), peer->get());
    if (slope.ok() && slope->more_us > slope->less_us) return slope;
  }
  return ProbeSlope{};
}

}  // namespace

absl::StatusOr<std::string> MeasureDevice(const Ports& ports, const Config& config) {
  if (ports.measurer == nullptr) return Unavailable("measuring needs a GPU: ", ports.no_gpu_reason);
  SINTER_ASSIGN_OR_RETURN(const ArchFeatures features, FeaturesOf(ports.model.arch));
  ProbeRunner runner(ports.model.arch, ports.compiler.get(), ports.loader.get(),
                     ports.measurer.get());
  SINTER_ASSIGN_OR_RETURN(ProbeTimings timings, RunProbes(ports.model, &runner));
  if (features.products) {  // other chips have no kernels that sum over GPUs
    SINTER_ASSIGN_OR_RETURN(timings.link_bytes, TimeAnyLink(config, ports.ordinal));
  }
  SINTER_ASSIGN_OR_RETURN(const DeviceModel measured, MeasuredModel(ports.model, timings));
  return MeasuredModelText(measured, ports.model,
                           absl::StrCat(ports.device_name, ", driver for ", ports.driver_name));
}

// With the real planner and the real code generator.
std::shared_ptr<Engine> Engine::Create(Ports ports, const Config& config, LogSink log) {
  PlanningHooks hooks;
  hooks.normal = NormalFormOf;
  hooks.plan = PlanChain;
  hooks.explain = ExplainFusion;
  hooks.assembly = MakePlanAssembly;
  hooks.replace = ReplaceKernels;
  hooks.generate = [](const KernelSpec& spec, const DeviceModel& model) {
    return Generate(spec, model);
  };
  const absl::StatusOr<ArchFeatures> features = FeaturesOf(ports.model.arch);
  hooks.recipe = [early = features.ok() && features->early_launch](
                     const KernelSpec& spec) -> absl::StatusOr<LaunchRecipe> {
    SINTER_ASSIGN_OR_RETURN(LaunchRecipe recipe, RecipeOf(spec));
    recipe.pdl &= early;
    return recipe;
  };
  hooks.entry = [](const KernelCode& code) { return code.family->TextsOfCode(code).entry; };
  hooks.device_headers = DeviceHeadersDigest();
  return CreateEngine(std::move(ports), config, std::move(log), std::move(hooks));
}

}  // namespace sinter
