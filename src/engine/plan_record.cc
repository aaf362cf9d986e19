#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "cache/record/record.h"
#include "src/base/codec.h"
#include "src/base/enough_stack.h"
#include "src/base/format.h"
#include "src/base/status.h"
#include "src/engine/cache_tools.h"
#include "src/engine/keys.h"
#include "src/product/matcher.h"

namespace sinter {
namespace {

constexpr int kKeptOfAKind = 2;  // fused plans, unfused plans
constexpr uint32_t kMaxVariants = 16;
constexpr size_t kMostReplacedText = 4096;

// The fields after the version, before the variants.
template <typename Codec, typename Record>
void HeadFields(Codec& fields, Record& record) {
  fields(record.chain, record.bucket, record.toolchain_id, record.considered, record.legal,
         record.choice, record.tuning, record.planned);
}

absl::StatusOr<PlanVariant> ReadVariant(ByteReader& r, const PlanRecordLimits& limits) {
  if (limits.keep_going != nullptr) SINTER_RETURN_IF_ERROR(limits.keep_going->Check());
  PlanVariant variant;
  const absl::string_view decisions = r.Bytes();
  variant.replaced = std::string(r.Bytes());
  if (variant.replaced.size() > kMostReplacedText || !IsPrintable(variant.replaced))
    return DataLoss("plan record: what was replaced is not one printable line");
  const uint32_t kernels = r.U32();
  if (kernels > limits.kernels) {
    return DataLoss("plan record: ", kernels, " kernels, at most ", limits.kernels);
  }
  if (kernels > r.remaining() / sizeof(Digest)) return DataLoss("plan record: truncated");
  variant.sources.resize(kernels);
  for (Digest& source : variant.sources) r(source);
  SINTER_ASSIGN_OR_RETURN(variant.decisions, DecodeDecisions(decisions));
  if (variant.sources.size() == variant.decisions.kernels.size()) return variant;
  return DataLoss("plan record: ", variant.sources.size(), " sources of ",
                  variant.decisions.kernels.size(), " kernels");
}

absl::Status CheckVersion(uint32_t version) {
  if (version == kPlanRecordVersion) return absl::OkStatus();
  return DataLoss("plan record: version = ", version, ", must be ", kPlanRecordVersion);
}

bool IsFigure(double value) { return std::isfinite(value) && value >= 0; }

absl::Status CheckChoice(const PlanRecord& record) {
  if (!record.choice.has_value()) return absl::OkStatus();
  const MeasuredChoice& choice = *record.choice;
  const size_t kernels = record.variants.front().decisions.kernels.size();
  if (choice.kernels.size() != kernels) {
    return DataLoss("plan record: its choice names ", Counted(choice.kernels.size(), "kernel"),
                    " of ", kernels);
  }
  if (!IsFigure(choice.measured_us) || !IsFigure(choice.untuned_us) || !IsFigure(choice.error)) {
    return DataLoss("plan record: a figure of its choice is not a number >= 0");
  }
  for (const std::string* text : {&choice.device, &choice.driver, &record.tuning}) {
    if (text->size() <= kMostReplacedText && IsPrintable(*text)) continue;
    return DataLoss("plan record: a text of its choice is not one printable line");
  }
  return absl::OkStatus();
}

absl::Status CheckVariants(uint32_t variants) {
  if (variants == 0 || variants > kMaxVariants) {
    return DataLoss("plan record: variants = ", variants, ", must be 1..", kMaxVariants);
  }
  return absl::OkStatus();
}

}  // namespace

PlanRecord MakePlanRecord(FusionResult result) {
  PlanRecord record;
  record.considered = result.considered;
  record.legal = result.legal;
  record.planned = result.chosen.PlanDigest();
  int kept[2] = {0, 0};  // unfused, fused
  const auto keep = [&](Plan& plan) {
    PlanVariant variant;
    variant.decisions = DecisionsOf(plan);
    variant.plan = std::move(plan);
    record.variants.push_back(std::move(variant));
  };
  ++kept[result.chosen.fused];
  keep(result.chosen);
  for (Plan& plan : result.alternatives) {
    if (kept[plan.fused]++ < kKeptOfAKind) keep(plan);
  }
  return record;
}

std::string EncodePlanRecord(const PlanRecord& record) {
  ByteWriter w;
  w.U32(kPlanRecordVersion);
  HeadFields(w, record);
  w.U32(static_cast<uint32_t>(record.variants.size()));
  for (const PlanVariant& variant : record.variants) {
    w.Bytes(EncodeDecisions(variant.decisions));
    w.Bytes(variant.replaced);
    w(variant.sources);
  }
  return w.Take();
}

absl::StatusOr<PlanRecord> DecodePlanRecord(absl::string_view payload,
                                            const PlanRecordLimits& limits) {
  if (payload.size() > kMostPlanRecordBytes) {
    return DataLoss("plan record: ", payload.size(), " bytes, at most ", kMostPlanRecordBytes);
  }
  ByteReader r(payload);
  SINTER_RETURN_IF_ERROR(CheckVersion(r.U32()));
  PlanRecord record;
  HeadFields(r, record);
  if (!r.ok()) return r.Finish("plan record");
  const uint32_t variants = r.U32();
  SINTER_RETURN_IF_ERROR(CheckVariants(variants));
  for (uint32_t i = 0; i < variants; ++i) {
    SINTER_ASSIGN_OR_RETURN(PlanVariant variant, ReadVariant(r, limits));
    record.variants.push_back(std::move(variant));
  }
  SINTER_RETURN_IF_ERROR(r.Finish("plan record"));
  SINTER_RETURN_IF_ERROR(CheckChoice(record));
  return record;
}

namespace {

constexpr char kOfOthersUrl[] = "sinter/record-of-others";

absl::Status OfOthers(absl::string_view what) {
  absl::Status status = FailedPrecondition("plan record: of ", what);
  status.SetPayload(kOfOthersUrl, absl::Cord("1"));
  return status;
}

bool CannotBeJudged(const absl::Status& status) {
  return status.GetPayload(kOfOthersUrl).has_value();
}

// The model of a plan key: the engine's own, or a built-in one. Measured plans name its chip.
absl::StatusOr<DeviceModel> ModelOf(const Digest& digest, const EngineCore& core) {
  const auto is_named = [&](const DeviceModel& model) {
    return model.ModelDigest() == digest || ChipDigest(model) == digest;
  };
  if (is_named(core.ports.model)) return core.ports.model;
  for (const std::string& name : BuiltinModelNames()) {
    absl::StatusOr<DeviceModel> model = BuiltinModel(name);
    if (model.ok() && is_named(*model)) return model;
  }
  return OfOthers("a device model that is not known here");
}

// DATA_LOSS unless a record's source digests match the sources that code generation makes.
absl::Status CheckSources(const PlanRecord& record, const DeviceModel& model,
                          const EngineCore& core) {
  std::set<absl::string_view> sound;
  for (const PlanVariant& variant : record.variants) {
    for (size_t i = 0; i < variant.kernel_keys.size(); ++i) {
      if (!sound.insert(variant.kernel_keys[i]).second) continue;
      const KernelSpec& spec = variant.plan.kernels[i].spec;
      SINTER_ASSIGN_OR_RETURN(const GeneratedKernel made, core.hooks.generate(spec, model));
      if (Sha256(made.request.source) == variant.sources[i]) continue;
      return DataLoss("plan record: a source is another kernel's");
    }
  }
  return absl::OkStatus();
}

// A plan of the cache with all its variants, and the model that it is for.
struct StoredPlan {
  PlanRecord record;
  DeviceModel model;
};

absl::StatusOr<StoredPlan> ReadStoredPlan(absl::string_view bytes, absl::string_view payload,
                                          const EngineCore& core) {
  const absl::StatusOr<PlanKey> key = DecodePlanKey(bytes);
  if (!key.ok()) return OfOthers(key.status().message());
  if (!IsOfThisVersion(key->library_version)) {
    return OfOthers(absl::StrCat("library ", key->library_version));
  }
  StoredPlan plan;
  SINTER_ASSIGN_OR_RETURN(plan.model, ModelOf(key->device_model, core));
  SINTER_ASSIGN_OR_RETURN(const Chain chain, ChainFromCanonicalBytes(key->chain));
  PlanRequest request = RequestOfFlags(key->flags);
  request.form = core.FormOf(chain);
  request.bucket = key->bucket;
  SINTER_ASSIGN_OR_RETURN(plan.record, DecodePlanRecord(payload, LimitsOf(request)));
  SINTER_RETURN_IF_ERROR(
      CompletePlanRecord(request, plan.model, core, BuildControl(), &plan.record));
  return plan;
}

absl::Status CheckStoredPlan(absl::string_view bytes, absl::string_view payload, bool sources,
                             const EngineCore& core) {
  SINTER_ASSIGN_OR_RETURN(const StoredPlan plan, ReadStoredPlan(bytes, payload, core));
  return sources ? CheckSources(plan.record, plan.model, core) : absl::OkStatus();
}

// For a key of another version the entry is not checked.
absl::Status CheckEntry(const KernelRecord& record, absl::string_view bytes,
                        const EngineCore& core) {
  const absl::StatusOr<KernelKey> key = DecodeKernelKey(bytes);
  if (!key.ok() || !core.hooks.entry) return absl::OkStatus();
  const absl::StatusOr<KernelCode> code = ReadCode(key->code, key->schedule);
  const std::string entry = code.ok() ? core.hooks.entry(*code) : record.entry;
  if (entry == record.entry) return absl::OkStatus();
  return DataLoss("kernel record: entry '", record.entry, "', its code has ", entry);
}

absl::Status CheckStored(RecordKind kind, absl::string_view key, absl::string_view payload,
                         bool sources, const EngineCore& core) {
  if (kind == RecordKind::kPlan) {
    return OnEnoughStack([&] { return CheckStoredPlan(key, payload, sources, core); });
  }
  SINTER_ASSIGN_OR_RETURN(const KernelRecord record,
                          DecodeKernelRecord(payload, core.hooks.format));
  SINTER_RETURN_IF_ERROR(CheckKernelRecord(record, key));
  return CheckEntry(record, key, core);
}

// Planning always makes the unfused plan of a sequence of products, with one kernel for each
// product.
absl::Status CheckUnfused(const PlanRecord& record, const Chain& chain) {
  bool unfused = false;
  for (const PlanVariant& variant : record.variants) {
    if (variant.decisions.fused) continue;
    unfused = true;
    for (const KernelDecision& kernel : variant.decisions.kernels) {
      if (!kernel.IsJoined()) continue;
      return DataLoss("plan record: its unfused plan is fused");
    }
  }
  if (unfused || !MatchProducts(chain).ok()) return absl::OkStatus();
  return DataLoss("plan record: without the unfused plan");
}

// Assembles the first `count` variants of the record.
absl::Status CompleteVariants(const PlanRequest& request, const DeviceModel& model,
                              const EngineCore& core, const BuildControl& control, size_t count,
                              PlanRecord* record) {
  if (record->chain != request.chain().CanonicalDigest() || record->bucket != request.bucket) {
    return DataLoss("plan record: for chain ", record->chain.Hex().substr(0, 16), " at bucket ",
                    record->bucket);
  }
  const PlanAssembly assemble =
      core.AssemblyOf(request.planned(), request.bucket, model,
                      {request.batch_invariant, request.allow_cooperative, &control});
  SINTER_RETURN_IF_ERROR(CheckUnfused(*record, request.planned()));
  for (size_t i = 0; i < count; ++i) {
    PlanVariant& variant = record->variants[i];
    if (variant.HasPlan()) continue;
    SINTER_RETURN_IF_ERROR(control.Check("checking a plan of the cache"));
    absl::StatusOr<AssembledPlan> assembled = assemble(variant.decisions);
    if (!assembled.ok()) {
      return Annotate(request.form->InCallersNumbers(assembled.status()),
                      absl::StrCat("plan '", PlanName(variant.decisions.fused), "'"));
    }
    CompleteVariant(*std::move(assembled), record->toolchain_id, model.arch, core, &variant);
  }
  return absl::OkStatus();
}

}  // namespace

PlanRecordLimits LimitsOf(const PlanRequest& request, const KeepGoing* keep_going) {
  return {request.planned().ops().size(), keep_going};
}

void CompleteVariant(AssembledPlan assembled, absl::string_view toolchain_id,
                     absl::string_view arch, const EngineCore& core, PlanVariant* variant) {
  variant->plan = std::move(assembled.plan);
  variant->kernel_keys.clear();
  for (size_t i = 0; i < variant->plan.kernels.size(); ++i) {
    PlannedKernel& kernel = variant->plan.kernels[i];
    variant->kernel_keys.push_back(KernelKeyOf(kernel.spec, assembled.codes[i], variant->sources[i],
                                               toolchain_id, arch, core));
    kernel.kernel_digest = Sha256(variant->kernel_keys.back());
  }
}

absl::Status CompletePlanRecord(const PlanRequest& request, const DeviceModel& model,
                                const EngineCore& core, const BuildControl& control,
                                PlanRecord* record) {
  return CompleteVariants(request, model, core, control, record->variants.size(), record);
}

absl::Status CompleteChosen(const PlanRequest& request, const DeviceModel& model,
                            const EngineCore& core, const BuildControl& control,
                            PlanRecord* record) {
  return CompleteVariants(request, model, core, control, 1, record);
}

absl::Status CheckKernelRecord(const KernelRecord& record, absl::string_view key) {
  if (record.key == Sha256(key)) return absl::OkStatus();
  return DataLoss("kernel record: of another kernel than its key's");
}

absl::Status CheckStoredRecord(RecordKind kind, absl::string_view key, absl::string_view payload,
                               const EngineCore& core) {
  return CheckStored(kind, key, payload, /*sources=*/true, core);
}

absl::Status JudgeStoredRecord(RecordKind kind, absl::string_view key, absl::string_view payload,
                               const EngineCore& core) {
  absl::Status status = CheckStored(kind, key, payload, /*sources=*/false, core);
  return CannotBeJudged(status) ? absl::OkStatus() : status;
}

std::vector<Digest> KernelsOfStoredPlan(absl::string_view key, absl::string_view payload,
                                        const EngineCore& core) {
  std::vector<Digest> kernels;
  const absl::StatusOr<StoredPlan> plan = ReadStoredPlan(key, payload, core);
  if (!plan.ok()) return kernels;
  for (const PlanVariant& variant : plan->record.variants) {
    for (const std::string& kernel : variant.kernel_keys) kernels.push_back(Sha256(kernel));
  }
  return kernels;
}

bool RefuseRecord(RecordKind kind, absl::string_view key, absl::string_view payload,
                  const EngineCore& core) {
  CacheTools* tools = core.ports.cache_tools.get();
  return tools != nullptr && tools->Refuse(kind, key, payload);
}

}  // namespace sinter
