#include "cache/key/key.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
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
    return absl::DataLossError(absl::StrCat(what, ": magic differs"));
  }
  if (version != kKeyVersion) {
    return absl::DataLossError(
        absl::StrCat(what, ": key version ", version, ", want ", kKeyVersion));
  }
  return absl::OkStatus();
}

Digest ReadDigest(ByteReader* in) {
  Digest digest;
  const absl::string_view raw = in->Raw(digest.bytes.size());
  if (raw.size() == digest.bytes.size()) std::copy(raw.begin(), raw.end(), digest.bytes.begin());
  return digest;
}

std::string ReadString(ByteReader* in) { return std::string(in->Bytes()); }

}  // namespace

std::string EncodeKey(const PlanKey& key) {
  ByteWriter out = StartKey(kPlanMagic);
  out.U32(key.format_version);
  out.Bytes(key.chain);
  out.I64(key.bucket);
  out.Raw(key.device_model.View());
  out.Bytes(key.library_version);
  out.U32(key.search_version);
  out.U64(key.flags);
  out.Raw(key.tuning_set.View());
  return out.Take();
}

std::string EncodeKey(const KernelKey& key) {
  ByteWriter out = StartKey(kKernelMagic);
  out.U32(key.format_version);
  out.Bytes(key.code);
  out.Bytes(key.schedule);
  out.Raw(key.device_headers.View());
  out.Bytes(key.arch);
  out.U64(key.options.size());
  for (const std::string& option : key.options) out.Bytes(option);
  out.Bytes(key.toolchain_id);
  out.Raw(key.source.View());
  return out.Take();
}

absl::StatusOr<PlanKey> DecodePlanKey(absl::string_view bytes) {
  ByteReader in(bytes);
  SINTER_RETURN_IF_ERROR(ReadStart(&in, kPlanMagic, "plan key"));
  PlanKey key;
  key.format_version = in.U32();
  key.chain = ReadString(&in);
  key.bucket = in.I64();
  key.device_model = ReadDigest(&in);
  key.library_version = ReadString(&in);
  key.search_version = in.U32();
  key.flags = in.U64();
  key.tuning_set = ReadDigest(&in);
  SINTER_RETURN_IF_ERROR(in.Finish("plan key"));
  return key;
}

absl::StatusOr<KernelKey> DecodeKernelKey(absl::string_view bytes) {
  ByteReader in(bytes);
  SINTER_RETURN_IF_ERROR(ReadStart(&in, kKernelMagic, "kernel key"));
  KernelKey key;
  key.format_version = in.U32();
  key.code = ReadString(&in);
  key.schedule = ReadString(&in);
  key.device_headers = ReadDigest(&in);
  key.arch = ReadString(&in);
  const uint64_t options = in.U64();
  if (options > kMaxOptions) {
    return absl::DataLossError(
        absl::StrCat("kernel key: ", options, " options, at most ", kMaxOptions));
  }
  for (uint64_t i = 0; i < options && in.ok(); ++i) key.options.push_back(ReadString(&in));
  key.toolchain_id = ReadString(&in);
  key.source = ReadDigest(&in);
  SINTER_RETURN_IF_ERROR(in.Finish("kernel key"));
  return key;
}

std::string ArchOfKey(absl::string_view key_bytes) {
  absl::StatusOr<KernelKey> key = DecodeKernelKey(key_bytes);
  return key.ok() ? std::move(key->arch) : std::string();
}

}  // namespace sinter
