// A remote value: an envelope, or a withdrawal, under an HMAC, so that only who has the fleet's key
// can make one.
//
//   8 bytes magic, 32 bytes HMAC-SHA256(key, u64 length of name, name, body), body
//
// The name is part of it: a value copied under another name does not hold.
#ifndef SINTER_CACHE_REMOTE_SEALED_VALUE_H_
#define SINTER_CACHE_REMOTE_SEALED_VALUE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sinter {

// Larger ones are neither published nor taken. A call for several takes twice this at most.
constexpr uint64_t kMaxRemoteValueBytes = uint64_t{32} << 20;

std::string SealValue(absl::string_view key, absl::string_view name, absl::string_view envelope);
// The envelope, borrowed from `value`; DATA_LOSS for anything that SealValue did not make with this
// key for this name.
absl::StatusOr<absl::string_view> OpenValue(absl::string_view key, absl::string_view name,
                                            absl::string_view value);

}  // namespace sinter

#endif  // SINTER_CACHE_REMOTE_SEALED_VALUE_H_
