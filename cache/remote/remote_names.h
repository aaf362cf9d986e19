// What records, leases and groups are called on the server.
#ifndef SINTER_CACHE_REMOTE_REMOTE_NAMES_H_
#define SINTER_CACHE_REMOTE_REMOTE_NAMES_H_

#include <string>

#include "absl/strings/string_view.h"
#include "cache/record/envelope.h"
#include "src/base/digest.h"

namespace sinter {

// "<name_space>:v1:k:<hex>": how a record is called there.
std::string RemoteName(absl::string_view name_space, RecordKind kind, const Digest& digest);
// "<name_space>:v1:withdrawn:k:<hex>": that it was found wrong.
std::string WithdrawnName(absl::string_view name_space, RecordKind kind, const Digest& digest);
// "<name_space>:v1:lease:k:<hex>".
std::string LeaseName(absl::string_view name_space, RecordKind kind, const Digest& digest);
// "<name_space>:v1:group:<group>".
std::string GroupName(absl::string_view name_space, absl::string_view group);

// Of a group: "k:<hex>".
std::string MemberName(RecordKind kind, const Digest& digest);
// False for anything else. Members come from the other side.
bool ParseMember(absl::string_view member, RecordKind* kind, Digest* digest);

}  // namespace sinter

#endif  // SINTER_CACHE_REMOTE_REMOTE_NAMES_H_
