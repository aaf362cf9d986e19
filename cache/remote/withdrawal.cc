#include "cache/remote/withdrawal.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "src/base/codec.h"

namespace sinter {
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
