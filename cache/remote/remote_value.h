// What lies on the server: what records, leases and groups are called there; values under an HMAC,
// so that only who has the fleet's key can make one; withdrawals, which stand for records that were
// found wrong.
//
// A value is 8 bytes magic, 32 bytes HMAC-SHA256(key, u64 length of name, name, body), body. The
// body is an envelope or a withdrawal. The name is part of it: a value copied under another name
// does not hold.
#ifndef SINTER_CACHE_REMOTE_REMOTE_VALUE_H_
#define SINTER_CACHE_REMOTE_REMOTE_VALUE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
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

// The name of a record inside a group: "k:<hex>".
std::string MemberName(RecordKind kind, const Digest& digest);
// False for anything else. Members come from the other side.
bool ParseMember(absl::string_view member, RecordKind* kind, Digest* digest);

// Larger ones are neither published nor taken. A call for several takes twice this at most.
constexpr uint64_t kMaxRemoteValueBytes = uint64_t{32} << 20;

std::string SealValue(absl::string_view key, absl::string_view name, absl::string_view envelope);
// The envelope, borrowed from `value`; DATA_LOSS for anything that SealValue did not make with this
// key for this name.
absl::StatusOr<absl::string_view> OpenValue(absl::string_view key, absl::string_view name,
                                            absl::string_view value);

constexpr uint64_t kMaxWithdrawalText = 512;

// The body of a sealed value: 8 bytes magic, u32 format, i64 time, the reason. `why` is cut.
std::string EncodeWithdrawal(int64_t unix_s, absl::string_view why);

// Whether the body of a value that held says so, in whatever format: one that is newer withdraws
// all the same. `why` receives the reason in printable characters, as far as it can be read.
bool IsWithdrawal(absl::string_view body, std::string* why);

}  // namespace sinter

#endif  // SINTER_CACHE_REMOTE_REMOTE_VALUE_H_
