#include "src/engine/keys.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/codec.h"
#include "src/base/status.h"
#include "src/engine/measured_choice.h"

namespace sinter {
namespace {

// Raise it when equal inputs may give another plan: new schedule space, cost model or tie-break.
constexpr uint32_t kSearchVersion = 25;

constexpr uint64_t kFlagBatchInvariant = 1;
constexpr uint64_t kFlagNoCooperative = 2;
constexpr uint64_t kFlagMeasured = 4;

// A key's format field names the version of every layout that a reader of its record must know. So
// library versions that differ in a layout never share a record.
uint32_t KernelFormat(const RecordFormat& format) { return format.kernel | format.envelope << 16; }
// A plan record names keys of kernels, so their format is its own too.
uint32_t PlanFormat(const RecordFormat& format) {
  return kPlanRecordVersion | format.kernel << 8 | format.envelope << 16;
}

}  // namespace

uint64_t FlagsOf(const PlanRequest& request) {
  return (request.batch_invariant ? kFlagBatchInvariant : 0) |
         (request.allow_cooperative ? 0 : kFlagNoCooperative) |
         (request.measured ? kFlagMeasured : 0);
}

PlanRequest RequestOfFlags(uint64_t flags) {
  PlanRequest request;
  request.batch_invariant = (flags & kFlagBatchInvariant) != 0;
  request.allow_cooperative = (flags & kFlagNoCooperative) == 0;
  request.measured = (flags & kFlagMeasured) != 0;
  return request;
}

Digest HeadersOf(const Plan& plan, const EngineCore& core) {
  ByteWriter w;
  for (const PlannedKernel& kernel : plan.kernels) w(core.hooks.device_headers(kernel.spec));
  return Sha256(w.str());
}

bool IsOfThisVersion(absl::string_view library_version) {
  return library_version == SINTER_ENGINE_VERSION;
}

std::string PlanKeyBytes(const PlanRequest& request, const EngineCore& core) {
  PlanKey key;
  key.format_version = PlanFormat(core.hooks.format);
  key.chain = request.chain().CanonicalBytes();
  key.bucket = request.bucket;
  key.device_model = request.measured ? ChipDigest(core.ports.model) : core.model_digest;
  key.library_version = SINTER_ENGINE_VERSION;
  key.search_version = request.measured ? 0 : kSearchVersion;
  key.flags = FlagsOf(request);
  key.tuning_set = core.tuning_digest;
  return EncodeKey(key);
}

std::string KernelKeyOf(const KernelSpec& spec, const KernelCode& code, const Digest& source,
                        absl::string_view toolchain_id, absl::string_view arch,
                        const EngineCore& core) {
  KernelKey key;
  key.format_version = KernelFormat(core.hooks.format);
  KernelCode::Written written = code.Write();
  key.code = std::move(written.code);
  key.schedule = std::move(written.schedule);
  key.device_headers = core.hooks.device_headers(spec);
  key.arch = std::string(arch);
  key.options = CompileOptionsOf(spec);
  key.toolchain_id = std::string(toolchain_id);
  key.source = source;
  return EncodeKey(key);
}

std::string ToolchainOfKey(absl::string_view kernel_key) {
  absl::StatusOr<KernelKey> key = DecodeKernelKey(kernel_key);
  return key.ok() ? std::move(key->toolchain_id) : std::string();
}

std::string ShortName(absl::string_view key) { return Sha256(key).Hex().substr(0, 16); }

absl::Status MustHitError(absl::string_view what, RecordKind kind, absl::string_view key,
                          const Lookup& found, Store* store) {
  std::string message = absl::StrCat(what, " ", Sha256(key).Hex(), " is not in the cache: ",
                                     NameOf(found.hit ? MissReason::kDamaged : found.reason));
  if (!found.detail.empty()) absl::StrAppend(&message, ": ", found.detail);
  const std::string nearest = store == nullptr ? std::string() : store->ExplainMiss(kind, key);
  if (!nearest.empty()) absl::StrAppend(&message, "; ", nearest);
  return MakeError(ErrorCode::kCacheMiss, message);
}

void TellLookUp(const BuildControl& control, std::string subject, const Lookup& found, double us) {
  EngineEvent event(EventKind::kLookUp, std::move(subject));
  event.us = us;
  if (found.hit) {
    event.tier = found.tier;
    event.bytes = found.payload.size();
  } else {
    event.reason = std::string(NameOf(found.reason));
    if (!found.detail.empty()) absl::StrAppend(&event.reason, ": ", found.detail);
  }
  control.Tell(std::move(event));
}

void LogMiss(const LogSink& log, absl::string_view what, absl::string_view key,
             const Lookup& found) {
  if (found.reason == MissReason::kAbsent) return;
  const LogLevel level = found.reason == MissReason::kDisabled ? LogLevel::kDebug : LogLevel::kWarn;
  log.Log(level, absl::StrCat(what, " ", ShortName(key), " missed: ", NameOf(found.reason), ": ",
                              found.detail));
}

}  // namespace sinter
