#include "cache/key/key.h"

#include <utility>

#include "src/base/codec.h"
#include "src/base/status.h"

namespace sinter {
namespace {

constexpr char kPlanMagic[] = "SNTRKEYP";
constexpr char kKernelMagic[] = "SNTRKEYK";
constexpr uint64_t kMagicSize = 8;
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
  ByteWriter out = StartKey(kPlanMagic);
  out(key);
  return out.Take();
}

std::string EncodeKey(const KernelKey& key) {
  ByteWriter out = StartKey(kKernelMagic);
  KernelFields(out, key);
  out.U64(key.options.size());
  for (const std::string& option : key.options) out.Bytes(option);
  out(key.toolchain_id, key.source);
  return out.Take();
}

absl::StatusOr<PlanKey> DecodePlanKey(absl::string_view bytes) {
  ByteReader in(bytes);
  SINTER_RETURN_IF_ERROR(ReadStart(&in, kPlanMagic, "plan key"));
  PlanKey key;
  in(key);
  SINTER_RETURN_IF_ERROR(in.Finish("plan key"));
  return key;
}

absl::StatusOr<KernelKey> DecodeKernelKey(absl::string_view bytes) {
  ByteReader in(bytes);
  SINTER_RETURN_IF_ERROR(ReadStart(&in, kKernelMagic, "kernel key"));
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

}  // namespace sinter
