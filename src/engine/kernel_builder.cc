#include "src/engine/kernel_builder.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "src/base/arch.h"
#include "src/base/codec.h"
#include "src/base/compile_request.h"
#include "src/base/status.h"
#include "src/engine/keys.h"
#include "src/engine/prepared_plan.h"
#include "src/plan/family.h"

namespace sinter {
namespace {

// Equal keys have equal sources.
std::string SourceKeyOf(const KernelSpec& spec) {
  ByteWriter w;
  w.U8(spec.family->number());
  w.U8(spec.batch_invariant);
  w.U8(spec.family->traits().is_stand_in);
  w.Bytes(ScheduleBytes(spec));
  spec.family->WriteSourceKey(spec, w);
  return w.Take();
}

constexpr char kQuarantinedUrl[] = "sinter/quarantined";
constexpr char kDeniedUrl[] = "sinter/denied-toolchain";

constexpr double kMostError = std::numeric_limits<double>::max();  // in a record

absl::Status NotVerifiedError(absl::string_view key) {
  return MakeError(ErrorCode::kCacheMiss,
                   absl::StrCat("kernel ", Sha256(key).Hex(),
                                " was never checked on a GPU, and only verified ones may serve"));
}

// Whether the call was ended from outside: no evidence against the kernel.
bool IsGivenUp(const absl::Status& status) {
  return absl::IsCancelled(status) || absl::IsDeadlineExceeded(status);
}

// A verified mark names a device and a driver. With another driver the check is repeated.
bool IsOfDriver(const Verification& verification, const std::string& driver) {
  return verification.verified() && absl::EndsWith(verification.device, driver);
}

KernelRecord MakeRecord(absl::string_view key, const GeneratedKernel& generated,
                        CompiledKernel compiled) {
  KernelRecord record;
  record.key = Sha256(key);
  record.cubin = std::move(compiled.cubin);
  record.entry = generated.recipe.entry;
  record.log = compiled.log.substr(0, kMostLogBytes);
  record.registers = static_cast<uint32_t>(compiled.registers);
  record.spill_bytes = static_cast<uint32_t>(compiled.spill_bytes);
  record.compile_us = compiled.compile_us;
  return record;
}

}  // namespace

CompileRequest KernelSource::Request() const {
  CompileRequest request = kernel.request;
  request.headers = *headers;
  return request;
}

absl::StatusOr<KernelSourcePtr> KernelSources::Of(const KernelSpec& spec) {
  const std::string key = SourceKeyOf(spec);
  std::shared_ptr<const std::vector<std::pair<std::string, std::string>>> headers;
  {
    const auto known = known_.Lock();
    const auto found = known->find(key);
    if (found != known->end()) return found->second;
    if (!known->empty()) headers = known->begin()->second->headers;
  }
  auto source = std::make_shared<KernelSource>();
  SINTER_ASSIGN_OR_RETURN(source->kernel, core_->hooks.generate(spec, core_->ports.model));
  CompileRequest& request = source->kernel.request;
  const bool same = headers != nullptr && *headers == request.headers;
  source->headers = same ? std::move(headers)
                         : std::make_shared<const std::vector<std::pair<std::string, std::string>>>(
                               std::move(request.headers));
  request.headers.clear();
  source->digest = Sha256(request.source);
  const KernelSourcePtr made = std::move(source);
  return known_.Lock()->emplace(key, made).first->second;
}

absl::Status QuarantinedError(absl::string_view key, absl::string_view why) {
  absl::Status status = DataLoss("kernel ", ShortName(key), " is quarantined: ", why);
  status.SetPayload(kQuarantinedUrl, absl::Cord("1"));
  return status;
}

bool IsQuarantined(const absl::Status& status) {
  return status.GetPayload(kQuarantinedUrl).has_value();
}

absl::Status DeniedToolchainError(absl::string_view toolchain, absl::string_view entry) {
  absl::Status status = FailedPrecondition("toolchain ", toolchain, " is denied (\"", entry,
                                           "\"): no kernel is compiled with it");
  status.SetPayload(kDeniedUrl, absl::Cord("1"));
  return status;
}

absl::Status CheckAge(const CompileRequest& request, absl::string_view toolchain) {
  const int version = NvrtcVersionOf(toolchain);
  const absl::StatusOr<ArchFeatures> features = FeaturesOf(request.arch);
  const bool unknown = features.ok() && version < features->least_nvrtc;
  const int least = unknown ? features->least_nvrtc : request.least_nvrtc;
  if (version == 0 || version >= least) return absl::OkStatus();
  absl::Status status = FailedPrecondition(
      unknown ? request.arch : "products of 16-bit elements", unknown ? " needs" : " need",
      " NVRTC ", least / 100, ".", least % 100, " or newer, this is NVRTC ", version / 100, ".",
      version % 100, unknown ? "" : ", which serializes their wgmma instructions (C7515)",
      ": pip install nvidia-cuda-nvrtc, or name a newer libnvrtc with SINTER_NVRTC or nvrtc_path; "
      "kernels that are cached need none (",
      toolchain, ")");
  status.SetPayload(kDeniedUrl, absl::Cord("1"));
  return status;
}

bool IsRefusedByCompiler(const absl::Status& status) {
  return StatusNumber(status) == static_cast<int32_t>(ErrorCode::kCompileFailed);
}

bool IsDeniedToolchain(const absl::Status& status) {
  return status.GetPayload(kDeniedUrl).has_value();
}

absl::StatusOr<BuiltKernelPtr> KernelBuilder::Get(const KernelSpec& spec,
                                                  const LaunchRecipe& recipe,
                                                  const std::string& key, OnMiss on_miss,
                                                  const BuildControl& control,
                                                  KernelSources& sources) {
  const bool insist = on_miss != OnMiss::kBuild && core_->config.must_hit_verified;
  BuiltKernelPtr live = FindLive(key);
  if (live != nullptr && !(insist && !live->verified)) {
    core_->ports.store->Used(RecordKind::kKernel, key);
    return live;
  }
  bool waited = false;
  const std::string flight = FlightOf(on_miss, key);
  absl::StatusOr<BuiltKernelPtr> kernel = flights_.Do(
      flight, control,
      [&] {
        return GetAlone({spec, recipe, key, on_miss, control, sources});
      },
      &waited);
  if (waited) core_->counters.waits.fetch_add(1, std::memory_order_relaxed);
  if (insist && kernel.ok() && !(*kernel)->verified) return NotVerifiedError(key);
  return kernel;
}

absl::StatusOr<BuiltKernelPtr> KernelBuilder::GetAlone(const Wanted& wanted) {
  const std::string& key = wanted.key;
  const std::string wrong = WhyQuarantined(key);
  if (!wrong.empty()) return QuarantinedError(key, wrong);
  if (BuiltKernelPtr live = FindLive(key)) {
    core_->ports.store->Used(RecordKind::kKernel, key);
    return live;
  }
  SINTER_RETURN_IF_ERROR(wanted.control.Check("looking up a kernel"));
  Lookup found;
  if (BuiltKernelPtr kernel = Find(wanted, &found)) return kernel;
  if (!found.hit && found.reason == MissReason::kQuarantined) {
    return QuarantinedError(key, found.detail);
  }
  if (wanted.on_miss != OnMiss::kBuild) {
    Store* const nearest = wanted.on_miss == OnMiss::kRefuse ? core_->ports.store.get() : nullptr;
    return MustHitError("kernel", RecordKind::kKernel, key, found, nearest);
  }
  return Build(wanted, found);
}

BuiltKernelPtr KernelBuilder::FindLive(const std::string& key) {
  BuiltKernelPtr live = live_.Find(key);
  if (live == nullptr || !core_->denied.Match(live->toolchain).empty()) return nullptr;
  core_->modules.Touch(key);
  return live;
}

Lookup KernelBuilder::LookUp(const std::string& key, const BuildControl& control) {
  const EventClock clock;
  Lookup found = Answer(key);
  if (control.Tells()) TellLookUp(control, ShortName(key), found, clock.us());
  return found;
}

Lookup KernelBuilder::Answer(const std::string& key) {
  if (!core_->denied.empty()) {
    const std::string toolchain = ToolchainOfKey(key);
    const std::string entry = core_->denied.Match(toolchain);
    if (!entry.empty()) {
      core_->counters.denied.fetch_add(1, std::memory_order_relaxed);
      return Lookup::Miss(MissReason::kOtherToolchain,
                          absl::StrCat("toolchain ", toolchain, " is denied (\"", entry, "\")"));
    }
  }
  const TraceSpan span(core_->trace.get(), "look up kernel");
  return core_->ports.store->Get(RecordKind::kKernel, key);
}

absl::StatusOr<BuiltKernelPtr> KernelBuilder::Build(const Wanted& wanted, const Lookup& refused) {
  const std::string& key = wanted.key;
  const BuildControl& control = wanted.control;
  SINTER_RETURN_IF_ERROR(control.Check("opening the compiler"));
  SINTER_ASSIGN_OR_RETURN(const std::string toolchain, core_->ports.compiler->ToolchainId());
  SINTER_ASSIGN_OR_RETURN(const KernelSourcePtr source, wanted.sources.Of(wanted.spec));
  const CompileRequest& request = source->kernel.request;
  // A compiled kernel is stored under its own key, whatever key a record names.
  const std::string own_key = KernelKeyOf(wanted.spec, source->kernel.code, source->digest,
                                          toolchain, request.arch, *core_);
  if (own_key != key) {
    return Get(wanted.spec, wanted.recipe, own_key, OnMiss::kBuild, control, wanted.sources);
  }
  const std::string denied = core_->denied.Match(toolchain);
  if (!denied.empty()) return DeniedToolchainError(toolchain, denied);
  SINTER_RETURN_IF_ERROR(CheckAge(request, toolchain));
  SINTER_ASSIGN_OR_RETURN(
      const std::shared_ptr<void> lock,
      AwaitBuildLock(*core_->ports.store, RecordKind::kKernel, key, control, core_->trace.get()));
  Lookup found = refused;
  if (!refused.hit) {
    if (BuiltKernelPtr kernel = Find(wanted, &found)) return kernel;
  }
  SINTER_RETURN_IF_ERROR(control.Enter("compile", 0.5));
  return Compile(wanted, *source, found);
}

absl::StatusOr<CompiledKernel> KernelBuilder::RunCompiler(const KernelSource& source,
                                                          const std::string& key,
                                                          const BuildControl& control) {
  const CompileRequest request = source.Request();
  const TraceSpan span(core_->trace.get(), "compile", request.name);
  const EventClock clock;
  core_->counters.compiles_begun.fetch_add(1, std::memory_order_relaxed);
  absl::StatusOr<CompiledKernel> compiled =
      core_->ports.compiler->Compile(request, control.Limits());
  const double us = clock.us();
  core_->counters.compile_ns.fetch_add(static_cast<uint64_t>(us * 1e3), std::memory_order_relaxed);
  core_->counters.kernels_compiled.fetch_add(1, std::memory_order_relaxed);
  if (control.Tells()) {
    EngineEvent event(EventKind::kCompile, request.name);
    event.us = us;
    if (compiled.ok()) event.bytes = compiled->cubin.size();
    if (!compiled.ok()) event.reason = std::string(compiled.status().message());
    control.Tell(std::move(event));
  }
  std::string storage;
  if (!compiled.ok() && !IsGivenUp(compiled.status())) {
    DumpRefusedKernel(*core_, ShortName(key), request.source,
                      CompileLogOf(compiled.status(), &storage));
  }
  return compiled;
}

absl::StatusOr<BuiltKernelPtr> KernelBuilder::Compile(const Wanted& wanted,
                                                      const KernelSource& source,
                                                      const Lookup& refused) {
  const std::string& key = wanted.key;
  SINTER_ASSIGN_OR_RETURN(CompiledKernel compiled, RunCompiler(source, key, wanted.control));
  const double compile_us = compiled.compile_us;
  const KernelRecord record = MakeRecord(key, source.kernel, std::move(compiled));
  // Loaded before it is published: a binary that the driver refuses helps nobody.
  SINTER_ASSIGN_OR_RETURN(BuiltKernelPtr kernel, Load(wanted, record, "compiled", compile_us));
  if (refused.hit) Replace(key, record, refused);
  core_->ports.store->Put(RecordKind::kKernel, key,
                          EncodeKernelRecord(record, core_->hooks.format));
  core_->log.Log(LogLevel::kInfo, absl::StrCat("compiled ", source.kernel.request.name, " in ",
                                               static_cast<int64_t>(compile_us / 1000), " ms"));
  return kernel;
}

// If the binary is the same, it may have been refused only for lack of device memory: it keeps its
// verified mark.
void KernelBuilder::Replace(const std::string& key, const KernelRecord& record,
                            const Lookup& refused) {
  const auto old = DecodeKernelRecord(refused.payload, core_->hooks.format);
  const bool same = old.ok() && old->cubin == record.cubin && old->entry == record.entry;
  if (!same) RefuseRecord(RecordKind::kKernel, key, refused.payload, *core_);
}

BuiltKernelPtr KernelBuilder::Find(const Wanted& wanted, Lookup* found) {
  *found = LookUp(wanted.key, wanted.control);
  for (int refused = 0; refused < kMostRefused; ++refused) {
    bool again = false;
    if (BuiltKernelPtr kernel = FromStore(wanted, *found, &again)) return kernel;
    if (!again) return nullptr;
    Lookup next = LookUp(wanted.key, wanted.control);
    if (!next.hit && next.reason != MissReason::kQuarantined) return nullptr;
    *found = std::move(next);
  }
  return nullptr;
}

BuiltKernelPtr KernelBuilder::FromStore(const Wanted& wanted, const Lookup& found, bool* again) {
  const std::string& key = wanted.key;
  if (!found.hit) {
    // Every kernel of a denied toolchain misses. A caller that may not compile gets that as an
    // error.
    if (core_->denied.Match(ToolchainOfKey(key)).empty()) LogMiss(core_->log, "kernel", key, found);
    return nullptr;
  }
  double compile_us = 0;
  absl::StatusOr<BuiltKernelPtr> kernel = [&]() -> absl::StatusOr<BuiltKernelPtr> {
    SINTER_ASSIGN_OR_RETURN(const KernelRecord record,
                            DecodeKernelRecord(found.payload, core_->hooks.format));
    SINTER_RETURN_IF_ERROR(CheckKernelRecord(record, key));
    if (wanted.recipe.entry != record.entry) {
      return DataLoss("kernel record: entry '", record.entry, "', its code has ",
                      wanted.recipe.entry);
    }
    compile_us = record.compile_us;
    return Load(wanted, record, found.tier, 0);
  }();
  if (kernel.ok()) {
    core_->counters.kernel_hits.fetch_add(1, std::memory_order_relaxed);
    core_->counters.compile_saved_ns.fetch_add(static_cast<uint64_t>(compile_us * 1e3),
                                               std::memory_order_relaxed);
    return *std::move(kernel);
  }
  core_->counters.refused_kernels.fetch_add(1, std::memory_order_relaxed);
  core_->log.Log(LogLevel::kWarn, absl::StrCat("kernel ", ShortName(key), " from ", found.tier,
                                               " is built again: ", kernel.status().message()));
  *again = absl::IsDataLoss(kernel.status()) &&
           RefuseRecord(RecordKind::kKernel, key, found.payload, *core_);
  return nullptr;
}

absl::StatusOr<BuiltKernelPtr> KernelBuilder::Load(const Wanted& wanted, const KernelRecord& record,
                                                   absl::string_view origin, double compile_us) {
  const std::string& key = wanted.key;
  auto kernel = std::make_shared<BuiltKernel>();
  kernel->key = key;
  kernel->toolchain = ToolchainOfKey(key);
  kernel->log = record.log;
  kernel->registers = record.registers;
  kernel->origin = std::string(origin);
  kernel->compile_us = compile_us;
  kernel->verified = record.verification.verified();
  if (IsOfDriver(record.verification, core_->ports.driver_name)) {
    kernel->checked_rows = record.verification.rows;
  }
  if (core_->ports.loader != nullptr) {
    const TraceSpan span(core_->trace.get(), "load", kernel->origin);
    const EventClock clock;
    SINTER_ASSIGN_OR_RETURN(kernel->loaded, core_->ports.loader->Load(record.cubin, wanted.recipe));
    if (wanted.control.Tells()) {
      EngineEvent event(EventKind::kLoad, ShortName(key));
      event.us = clock.us();
      event.bytes = record.cubin.size();
      wanted.control.Tell(std::move(event));
    }
    core_->counters.kernels_loaded.fetch_add(1, std::memory_order_relaxed);
  }
  const BuiltKernelPtr result = std::move(kernel);
  live_.Insert(key, result);
  if (result->loaded != nullptr) core_->modules.Add(key, result, record.cubin.size());
  return result;
}

void KernelBuilder::MarkVerified(const BuiltKernel& kernel, const Verification& verification) {
  kernel.verified = true;
  kernel.checked_rows = std::max<int64_t>(kernel.checked_rows, verification.rows);
  const Lookup found = core_->ports.store->Get(RecordKind::kKernel, kernel.key);
  if (!found.hit) return;
  absl::StatusOr<KernelRecord> record = DecodeKernelRecord(found.payload, core_->hooks.format);
  if (!record.ok()) return;
  const bool stronger = IsOfDriver(record->verification, core_->ports.driver_name) &&
                        record->verification.rows >= verification.rows;
  if (stronger) return;
  record->verification = verification;
  if (!std::isfinite(verification.error)) record->verification.error = kMostError;
  core_->ports.store->Put(RecordKind::kKernel, kernel.key,
                          EncodeKernelRecord(*record, core_->hooks.format));
}

void KernelBuilder::Quarantine(const BuiltKernel& kernel, absl::string_view why) {
  (*quarantined_.Lock())[kernel.key] = std::string(why);
  live_.Erase(kernel.key);
  core_->modules.Forget(kernel.key);
  core_->ports.store->Quarantine(RecordKind::kKernel, kernel.key, why);
  core_->counters.wrong_kernels.fetch_add(1, std::memory_order_relaxed);
  core_->log.Log(LogLevel::kError,
                 absl::StrCat("kernel ", ShortName(kernel.key), " is quarantined: ", why));
}

bool KernelBuilder::IsRefused(const BuiltKernel& kernel) const {
  if (!core_->denied.Match(kernel.toolchain).empty()) return true;
  return quarantined_.Lock()->count(kernel.key) > 0;
}

std::string KernelBuilder::WhyQuarantined(const std::string& key) const {
  const auto quarantined = quarantined_.Lock();
  const auto entry = quarantined->find(key);
  return entry == quarantined->end() ? std::string() : entry->second;
}

}  // namespace sinter
