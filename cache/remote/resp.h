// RESP2, the protocol of Redis and Valkey: commands to bytes, bytes to replies.
#ifndef SINTER_CACHE_REMOTE_RESP_H_
#define SINTER_CACHE_REMOTE_RESP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace sinter {

struct RespValue {
  enum class Type { kNil, kString, kError, kInteger, kArray };
  Type type = Type::kNil;
  std::string text;              // of a string (simple or bulk) or an error
  int64_t integer = 0;           // of an integer
  std::vector<RespValue> items;  // of an array
};

// Bounds of a reply; beyond them it is bad, before anything is allocated for it. Whoever asks knows
// what the answer may be, and sets lower ones.
constexpr uint64_t kMaxRespBytes = (uint64_t{32} << 20) + (64 << 10);
constexpr uint64_t kMaxRespItems = 1 << 17;  // arrays within arrays included
struct RespLimits {
  uint64_t bytes = kMaxRespBytes;  // of all of it, as it is sent
  uint64_t items = kMaxRespItems;  // values, arrays among them
};
constexpr uint64_t kMaxRespLineBytes = 4096;
constexpr int kMaxRespDepth = 4;

enum class RespState { kDone, kMore, kBad };

// The size of a reply that was read.
struct RespSize {
  size_t bytes = 0;
  uint64_t items = 0;
};

// Reads one reply from the front of `in`, which is untrusted. kDone: it was `*used`. kMore: it goes
// on behind `in`, and may still be within the limits. kBad: `in` is no RESP2, or passes a limit.
RespState ParseResp(absl::string_view in, const RespLimits& limits, RespSize* used, RespValue* out);

// Appends a command: an array of bulk strings.
void AppendCommand(const std::vector<absl::string_view>& words, std::string* out);

}  // namespace sinter

#endif  // SINTER_CACHE_REMOTE_RESP_H_
