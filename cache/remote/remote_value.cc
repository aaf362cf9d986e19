#include "cache/remote/remote_value.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "src/base/codec.h"
#include "src/base/signing.h"

namespace sinter {

std::string RemoteName(absl::string_view name_space, RecordKind kind, const Digest& digest) {
  return absl::StrCat(name_space, ":v1:", MemberName(kind, digest));
}

std::string WithdrawnName(absl::string_view name_space, RecordKind kind, const Digest& digest) {
  return absl::StrCat(name_space, ":v1:withdrawn:", MemberName(kind, digest));
}

std::string LeaseName(absl::string_view name_space, RecordKind kind, const Digest& digest) {
  return absl::StrCat(name_space, ":v1:lease:", MemberName(kind, digest));
}

std::string GroupName(absl::string_view name_space, absl::string_view group) {
  return absl::StrCat(name_space, ":v1:group:", group);
}

std::string MemberName(RecordKind kind, const Digest& digest) {
  return absl::StrCat(kind == RecordKind::kKernel ? "k:" : "p:", digest.Hex());
}

bool ParseMember(absl::string_view member, RecordKind* kind, Digest* digest) {
  if (member.size() != 66 || member[1] != ':' || (member[0] != 'k' && member[0] != 'p'))
    return false;
  const auto parsed = Digest::FromHex(member.substr(2));
  if (!parsed.ok()) return false;
  *kind = member[0] == 'k' ? RecordKind::kKernel : RecordKind::kPlan;
  *digest = *parsed;
  return true;
}

namespace {

constexpr char kValueMagic[] = "SNTRHMC\n";
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
  return absl::StrCat(absl::string_view(kValueMagic, kMagicSize), mac.View(), envelope);
}

absl::StatusOr<absl::string_view> OpenValue(absl::string_view key, absl::string_view name,
                                            absl::string_view value) {
  if (value.size() < kMagicSize + kMacSize ||
      value.substr(0, kMagicSize) != absl::string_view(kValueMagic, kMagicSize)) {
    return absl::DataLossError("remote value: magic differs");
  }
  const absl::string_view envelope = value.substr(kMagicSize + kMacSize);
  const Digest mac = Mac(key, name, envelope);
  if (!EqualInConstantTime(mac.View(), value.substr(kMagicSize, kMacSize))) {
    return absl::DataLossError("remote value: nobody with this fleet's key wrote it");
  }
  return envelope;
}

namespace {

constexpr absl::string_view kWithdrawalMagic("SNTRWDR\n", 8);
constexpr uint32_t kWithdrawalFormat = 1;

}  // namespace

std::string EncodeWithdrawal(int64_t unix_s, absl::string_view why) {
  ByteWriter out;
  out.Raw(kWithdrawalMagic);
  out.U32(kWithdrawalFormat);
  out.I64(unix_s);
  out.Bytes(why.substr(0, kMaxWithdrawalText));
  return out.Take();
}

bool IsWithdrawal(absl::string_view body, std::string* why) {
  if (!absl::StartsWith(body, kWithdrawalMagic)) return false;
  ByteReader in(body.substr(kWithdrawalMagic.size()));
  const uint32_t format = in.U32();
  in.I64();
  const absl::string_view text = in.Bytes().substr(0, kMaxWithdrawalText);
  *why =
      format == kWithdrawalFormat && in.ok() ? std::string(text) : std::string("no reason given");
  const auto printable = [](char c) { return absl::ascii_isprint(static_cast<unsigned char>(c)); };
  std::replace_if(
      why->begin(), why->end(), [&](char c) { return !printable(c); }, '?');
  return true;
}

}  // namespace sinter
