#include "cache/record/record.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/arch.h"
#include "src/base/codec.h"
#include "src/base/compile_request.h"
#include "src/base/status.h"

namespace sinter {
namespace {

constexpr uint64_t kMagicSize = 8;
constexpr char kPlanKeyMagic[] = "SNTRKEYP";
constexpr char kKernelKeyMagic[] = "SNTRKEYK";
constexpr uint64_t kMaxOptions = 4096;

ByteWriter StartKey(const char* magic) {
  ByteWriter out;
  out.Raw(absl::string_view(magic, kMagicSize));
  out.U32(kKeyVersion);
  return out;
}

absl::Status ReadStart(ByteReader* in, const char* magic, absl::string_view what) {
  const absl::string_view got = in->Raw(kMagicSize);
  const uint32_t version = in->U32();
  if (!in->ok() || got != absl::string_view(magic, kMagicSize)) {
    return DataLoss(what, ": magic differs");
  }
  if (version != kKeyVersion) {
    return DataLoss(what, ": key version ", version, ", want ", kKeyVersion);
  }
  return absl::OkStatus();
}

// The options follow, and then the rest.
template <typename Codec, typename Key>
void KernelFields(Codec& fields, Key& key) {
  fields(key.format_version, key.code, key.schedule, key.device_headers, key.arch);
}

}  // namespace

std::string EncodeKey(const PlanKey& key) {
  ByteWriter out = StartKey(kPlanKeyMagic);
  out(key);
  return out.Take();
}

std::string EncodeKey(const KernelKey& key) {
  ByteWriter out = StartKey(kKernelKeyMagic);
  KernelFields(out, key);
  out.U64(key.options.size());
  for (const std::string& option : key.options) out.Bytes(option);
  out(key.toolchain_id, key.source);
  return out.Take();
}

absl::StatusOr<PlanKey> DecodePlanKey(absl::string_view bytes) {
  ByteReader in(bytes);
  SINTER_RETURN_IF_ERROR(ReadStart(&in, kPlanKeyMagic, "plan key"));
  PlanKey key;
  in(key);
  SINTER_RETURN_IF_ERROR(in.Finish("plan key"));
  return key;
}

absl::StatusOr<KernelKey> DecodeKernelKey(absl::string_view bytes) {
  ByteReader in(bytes);
  SINTER_RETURN_IF_ERROR(ReadStart(&in, kKernelKeyMagic, "kernel key"));
  KernelKey key;
  KernelFields(in, key);
  const uint64_t options = in.U64();
  if (options > kMaxOptions) {
    return DataLoss("kernel key: ", options, " options, at most ", kMaxOptions);
  }
  for (uint64_t i = 0; i < options && in.ok(); ++i) key.options.emplace_back(in.Bytes());
  in(key.toolchain_id, key.source);
  SINTER_RETURN_IF_ERROR(in.Finish("kernel key"));
  return key;
}

std::string ArchOfKey(absl::string_view key_bytes) {
  absl::StatusOr<KernelKey> key = DecodeKernelKey(key_bytes);
  return key.ok() ? std::move(key->arch) : std::string();
}

namespace {

constexpr char kMagic[] = "SNTRREC\n";

EnvelopeVerdict Refuse(MissReason reason, std::string detail) {
  EnvelopeVerdict verdict;
  verdict.reason = reason;
  verdict.detail = std::move(detail);
  return verdict;
}

EnvelopeVerdict Damaged(absl::string_view detail) {
  return Refuse(MissReason::kDamaged, absl::StrCat("envelope: ", detail));
}

bool KnownKind(uint8_t kind) {
  return kind == static_cast<uint8_t>(RecordKind::kPlan) ||
         kind == static_cast<uint8_t>(RecordKind::kKernel);
}

// Everything but the payload's bytes, which come last.
void EncodeBody(const Envelope& envelope, ByteWriter* body) {
  (*body)(envelope.kind, envelope.verified, uint32_t{0}, envelope.created_unix_s, envelope.producer,
          envelope.arch);
  body->Bytes(envelope.key);
  body->U64(envelope.payload.size());
}

// Whether the envelope's `verified` agrees with its payload. True for a payload of another version,
// which cannot be read.
bool MarkHolds(const Envelope& envelope, const RecordFormat& format) {
  if (envelope.kind != RecordKind::kKernel) return !envelope.verified;
  if (!CheckKernelVersion(envelope.payload, format).ok()) return true;
  return envelope.verified == KernelPayloadVerified(envelope.payload, format);
}

EnvelopeVerdict ReadBody(absl::string_view body, const RecordFormat& format) {
  ByteReader in(body);
  const uint8_t kind = in.U8();
  const uint8_t verified = in.U8();
  const uint32_t flags = in.U32();
  EnvelopeVerdict verdict;
  Envelope& envelope = verdict.envelope;
  envelope.created_unix_s = in.I64();
  envelope.producer = std::string(in.Bytes());
  envelope.arch = std::string(in.Bytes());
  envelope.key = in.Bytes();
  envelope.payload = in.Bytes();
  if (!in.AtEnd()) return Damaged("lengths do not add up");
  if (!KnownKind(kind)) return Damaged(absl::StrCat("kind ", kind));
  if (verified > 1) return Damaged(absl::StrCat("verified ", verified));
  if (flags != 0) return Refuse(MissReason::kOtherFormat, absl::StrCat("envelope: flags ", flags));
  envelope.kind = static_cast<RecordKind>(kind);
  envelope.verified = verified == 1;
  if (!MarkHolds(envelope, format)) return Damaged("its mark is not its payload's");
  verdict.ok = true;
  return verdict;
}

EnvelopeVerdict ExplainKernelMismatch(const KernelKey& got, const KernelKey& want) {
  if (got.arch != want.arch) {
    return Refuse(MissReason::kForeignArch,
                  absl::StrCat("key echo: arch ", got.arch, ", want ", want.arch));
  }
  if (got.toolchain_id != want.toolchain_id) {
    return Refuse(
        MissReason::kOtherToolchain,
        absl::StrCat("key echo: toolchain ", got.toolchain_id, ", want ", want.toolchain_id));
  }
  if (got.format_version != want.format_version) {
    return Refuse(MissReason::kOtherFormat, absl::StrCat("key echo: format ", got.format_version,
                                                         ", want ", want.format_version));
  }
  return Damaged("key echo differs");
}

EnvelopeVerdict ExplainMismatch(absl::string_view got, absl::string_view want) {
  const auto got_kernel = DecodeKernelKey(got);
  const auto want_kernel = DecodeKernelKey(want);
  if (got_kernel.ok() && want_kernel.ok()) return ExplainKernelMismatch(*got_kernel, *want_kernel);
  const auto got_plan = DecodePlanKey(got);
  const auto want_plan = DecodePlanKey(want);
  if (got_plan.ok() && want_plan.ok() && got_plan->format_version != want_plan->format_version) {
    return Refuse(MissReason::kOtherFormat,
                  absl::StrCat("key echo: format ", got_plan->format_version, ", want ",
                               want_plan->format_version));
  }
  return Damaged("key echo differs");
}

}  // namespace

Envelope MakeEnvelope(RecordKind kind, absl::string_view key, absl::string_view payload,
                      std::string producer, int64_t created_unix_s, const RecordFormat& format) {
  Envelope envelope;
  envelope.kind = kind;
  envelope.verified = kind == RecordKind::kKernel && KernelPayloadVerified(payload, format);
  envelope.created_unix_s = created_unix_s;
  envelope.producer = std::move(producer);
  envelope.arch = ArchOfKey(key);
  envelope.key = key;
  envelope.payload = payload;
  return envelope;
}

std::string EncodeEnvelope(const Envelope& envelope, const RecordFormat& format) {
  ByteWriter head;
  head.Raw(absl::string_view(kMagic, kMagicSize));
  head.U32(format.envelope);
  const size_t hash_at = head.str().size(), hash_size = Digest().bytes.size();
  head.Raw(Digest().View());  // room for the hash, until the body is there
  EncodeBody(envelope, &head);
  std::string bytes;
  bytes.reserve(head.str().size() + envelope.payload.size());
  bytes.append(head.str());
  bytes.append(envelope.payload.data(), envelope.payload.size());
  const Digest hash = Sha256(absl::string_view(bytes).substr(hash_at + hash_size));
  return bytes.replace(hash_at, hash_size, hash.View().data(), hash_size);
}

namespace {

EnvelopeVerdict Read(absl::string_view bytes, bool vouched, const RecordFormat& format) {
  ByteReader in(bytes);
  const absl::string_view magic = in.Raw(kMagicSize);
  const uint32_t version = in.U32();
  if (!in.ok()) return Damaged(absl::StrCat(bytes.size(), " bytes"));
  if (magic != absl::string_view(kMagic, kMagicSize)) return Damaged("magic differs");
  if (version != format.envelope) {
    return Refuse(MissReason::kOtherFormat,
                  absl::StrCat("envelope: format ", version, ", want ", format.envelope));
  }
  const absl::string_view sha = in.Raw(Digest().bytes.size());
  const absl::string_view body = in.Raw(in.remaining());
  if (!in.ok()) return Damaged("too short for its hash");
  if (!vouched && Sha256(body).View() != sha) return Damaged("sha-256 differs");
  return ReadBody(body, format);
}

// Returns `verdict` if it is about the record that was asked for; else a verdict that says what
// differs.
EnvelopeVerdict Match(EnvelopeVerdict verdict, RecordKind kind, absl::string_view key,
                      const RecordFormat& format) {
  if (!verdict.ok) return verdict;
  const Envelope& envelope = verdict.envelope;
  if (envelope.kind != kind) {
    return Damaged(
        absl::StrCat("kind ", static_cast<int>(envelope.kind), ", want ", static_cast<int>(kind)));
  }
  if (envelope.key != key) return ExplainMismatch(envelope.key, key);
  const std::string arch = ArchOfKey(key);
  if (envelope.arch != arch) {
    return Refuse(MissReason::kForeignArch,
                  absl::StrCat("envelope: arch ", envelope.arch, ", want ", arch));
  }
  if (kind == RecordKind::kKernel) {
    const absl::Status version = CheckKernelVersion(envelope.payload, format);
    if (!version.ok()) return Refuse(MissReason::kOtherFormat, std::string(version.message()));
  }
  return verdict;
}

}  // namespace

EnvelopeVerdict ReadEnvelope(absl::string_view bytes, const RecordFormat& format) {
  return Read(bytes, /*vouched=*/false, format);
}

EnvelopeVerdict ReadEnvelopeFor(absl::string_view bytes, RecordKind kind, absl::string_view key,
                                const RecordFormat& format) {
  return Match(Read(bytes, /*vouched=*/false, format), kind, key, format);
}

EnvelopeVerdict ReadVouchedEnvelopeFor(absl::string_view bytes, RecordKind kind,
                                       absl::string_view key, const RecordFormat& format) {
  return Match(Read(bytes, /*vouched=*/true, format), kind, key, format);
}

EnvelopeVerdict ReadEnvelopeOf(absl::string_view bytes, RecordKind kind, const Digest& digest,
                               const RecordFormat& format) {
  const EnvelopeVerdict own = Read(bytes, /*vouched=*/false, format);
  if (own.ok && Sha256(own.envelope.key) != digest) {
    return Refuse(MissReason::kDamaged, "record of another key");
  }
  return Match(own, kind, own.envelope.key, format);
}

std::string PeekEnvelopeKey(absl::string_view head) {
  ByteReader in(head);
  if (in.Raw(kMagicSize) != absl::string_view(kMagic, kMagicSize)) return std::string();
  in.U32();
  in.Raw(Digest().bytes.size());
  in.Raw(2);  // kind, verified
  in.U32();
  in.I64();
  in.Bytes();
  in.Bytes();
  const absl::string_view key = in.Bytes();
  return in.ok() ? std::string(key) : std::string();
}

namespace {

constexpr char kKernelMagic[] = "SNTRKRN\n";
constexpr double kMaxCompileUs = 1e12;  // eleven days

// FAILED_PRECONDITION for another version.
absl::Status ReadStart(ByteReader* in, const RecordFormat& format) {
  const absl::string_view magic = in->Raw(kMagicSize);
  const uint32_t version = in->U32();
  if (!in->ok() || magic != absl::string_view(kKernelMagic, kMagicSize)) {
    return DataLoss("kernel record: magic differs");
  }
  if (version != format.kernel) {
    return FailedPrecondition("kernel record: version ", version, ", want ", format.kernel);
  }
  return absl::OkStatus();
}

absl::Status CheckBound(absl::string_view field, double value, double most) {
  if (value >= 0 && value <= most) return absl::OkStatus();
  return DataLoss("kernel record: ", field, " ", value, ", must be 0..", most);
}

absl::Status CheckBounds(const KernelRecord& record) {
  const Verification& check = record.verification;
  SINTER_RETURN_IF_ERROR(CheckBound("device bytes", static_cast<double>(check.device.size()),
                                    static_cast<double>(kMostDeviceBytes)));
  SINTER_RETURN_IF_ERROR(CheckBound("error", check.error, std::numeric_limits<double>::max()));
  SINTER_RETURN_IF_ERROR(
      CheckBound("rows", static_cast<double>(check.rows), static_cast<double>(kMostCheckedRows)));
  SINTER_RETURN_IF_ERROR(CheckBound("log bytes", static_cast<double>(record.log.size()),
                                    static_cast<double>(kMostLogBytes)));
  if (record.entry.empty()) return DataLoss("kernel record: entry is empty");
  return CheckBound("compile_us", record.compile_us, kMaxCompileUs);
}

}  // namespace

std::string EncodeKernelRecord(const KernelRecord& record, const RecordFormat& format) {
  ByteWriter out;
  out.Raw(absl::string_view(kKernelMagic, kMagicSize));
  out.U32(format.kernel);
  out(record);
  return out.Take();
}

absl::StatusOr<KernelRecord> DecodeKernelRecord(absl::string_view payload,
                                                const RecordFormat& format) {
  ByteReader in(payload);
  const absl::Status start = ReadStart(&in, format);
  if (!start.ok()) return DataLoss(start.message());
  KernelRecord record;
  in(record);
  SINTER_RETURN_IF_ERROR(in.Finish("kernel record"));
  SINTER_RETURN_IF_ERROR(CheckBounds(record));
  SINTER_RETURN_IF_ERROR(CheckCode(record.cubin));
  return record;
}

bool KernelPayloadVerified(absl::string_view payload, const RecordFormat& format) {
  ByteReader in(payload);
  if (!ReadStart(&in, format).ok()) return false;
  const absl::string_view device = in.Bytes();
  return in.ok() && !device.empty();
}

absl::Status CheckKernelVersion(absl::string_view payload, const RecordFormat& format) {
  ByteReader in(payload);
  absl::Status start = ReadStart(&in, format);
  return absl::IsFailedPrecondition(start) ? start : absl::OkStatus();
}

}  // namespace sinter
