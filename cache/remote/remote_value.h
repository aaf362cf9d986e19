// Names and values of a remote store. It names records, leases and groups. Each value has an HMAC,
// which only holders of the fleet's key can make. A withdrawal takes the place of a record that was
// found wrong.
//
// A value is 8 bytes magic, 32 bytes HMAC-SHA256(key, u64 length of name, name, body), body. The
// body is an envelope or a withdrawal. Since the HMAC covers the name, a value copied to another
// name is invalid.
#ifndef SINTER_CACHE_REMOTE_REMOTE_VALUE_H_
#define SINTER_CACHE_REMOTE_REMOTE_VALUE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cache/record/record.h"
#include "src/base/digest.h"

namespace sinter {

// "<name_space>:v1:k:<hex>": the name of a record.
std::string RemoteName(absl::string_view name_space, RecordKind kind, const Digest& digest);
// "<name_space>:v1:withdrawn:k:<hex>": the name of the mark that the record was found wrong.
std::string WithdrawnName(absl::string_view name_space, RecordKind kind, const Digest& digest);
// "<name_space>:v1:lease:k:<hex>".
std::string LeaseName(absl::string_view name_space, RecordKind kind, const Digest& digest);
// "<name_space>:v1:group:<group>".
std::string GroupName(absl::string_view name_space, absl::string_view group);

// The name of a record inside a group: "k:<hex>".
std::string MemberName(RecordKind kind, const Digest& digest);
// False for anything else. The text comes from the server.
bool ParseMember(absl::string_view member, RecordKind* kind, Digest* digest);

// Larger values are neither published nor accepted. A call for several values takes twice this at
// most.
constexpr uint64_t kMaxRemoteValueBytes = uint64_t{32} << 20;

std::string SealValue(absl::string_view key, absl::string_view name, absl::string_view envelope);
// The envelope, borrowed from `value`; DATA_LOSS for anything that SealValue did not make with this
// key for this name.
absl::StatusOr<absl::string_view> OpenValue(absl::string_view key, absl::string_view name,
                                            absl::string_view value);

constexpr uint64_t kMaxWithdrawalText = 512;

// The body of a sealed value: 8 bytes magic, u32 format, i64 time, the reason. `why` is cut.
std::string EncodeWithdrawal(int64_t unix_s, absl::string_view why);

// Whether the body of a valid value is a withdrawal, in any format: a newer one counts too. `why`
// receives the reason in printable characters, as far as it can be read.
bool IsWithdrawal(absl::string_view body, std::string* why);

}  // namespace sinter

#endif  // SINTER_CACHE_REMOTE_REMOTE_VALUE_H_
