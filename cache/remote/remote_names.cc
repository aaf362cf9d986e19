#include "cache/remote/remote_names.h"

#include "absl/strings/str_cat.h"

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

}  // namespace sinter
