#include "cache/remote/sealed_value.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "src/base/codec.h"
#include "src/base/signing.h"

namespace sinter {
namespace {

constexpr char kMagic[] = "SNTRHMC\n";
constexpr size_t kMagicSize = 8, kMacSize = 32;

Digest Mac(absl::string_view key, absl::string_view name, absl::string_view envelope) {
  ByteWriter message;
  message.Bytes(name);
  message.Raw(envelope);
  return HmacSha256(key, message.str());
}

}  // namespace

std::string SealValue(absl::string_view key, absl::string_view name, absl::string_view envelope) {
  const Digest mac = Mac(key, name, envelope);
  return absl::StrCat(absl::string_view(kMagic, kMagicSize), mac.View(), envelope);
}

absl::StatusOr<absl::string_view> OpenValue(absl::string_view key, absl::string_view name,
                                            absl::string_view value) {
  if (value.size() < kMagicSize + kMacSize ||
      value.substr(0, kMagicSize) != absl::string_view(kMagic, kMagicSize)) {
    return absl::DataLossError("remote value: magic differs");
  }
  const absl::string_view envelope = value.substr(kMagicSize + kMacSize);
  const Digest mac = Mac(key, name, envelope);
  if (!EqualInConstantTime(mac.View(), value.substr(kMagicSize, kMacSize))) {
    return absl::DataLossError("remote value: nobody with this fleet's key wrote it");
  }
  return envelope;
}

}  // namespace sinter
