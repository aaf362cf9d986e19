// A withdrawal: what stands for a record that was found wrong, so that the fleet serves it no more.
#ifndef SINTER_CACHE_REMOTE_WITHDRAWAL_H_
#define SINTER_CACHE_REMOTE_WITHDRAWAL_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace sinter {

constexpr uint64_t kMaxWithdrawalText = 512;

// The body of a sealed value: 8 bytes magic, u32 format, i64 time, the reason. `why` is cut.
std::string EncodeWithdrawal(int64_t unix_s, absl::string_view why);

// Whether the body of a value that held says so, in whatever format: one that is newer withdraws
// all the same. `why` receives the reason in printable characters, as far as it can be read.
bool IsWithdrawal(absl::string_view body, std::string* why);

}  // namespace sinter

#endif  // SINTER_CACHE_REMOTE_WITHDRAWAL_H_
