// RESP2, the protocol of Redis and Valkey: commands to bytes, bytes to replies.
#ifndef SINTER_CACHE_REMOTE_RESP_H_
#define SINTER_CACHE_REMOTE_RESP_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
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

// The replies to one call, put together from what is received, within bounds. It owns all that the
// call holds in memory, so that ending it gives that back. Not thread-safe.
class RespBatch {
 public:
  // For `count` replies: each within `each`, all of them within `all`.
  RespBatch(size_t count, const RespLimits& each, const RespLimits& all)
      : count_(count), each_(each), left_(all) {}

  // Where up to `size` bytes may be received; Received then says how many were.
  char* Room(size_t size);
  // UNAVAILABLE for bytes that are not RESP2, pass a bound, or answer nothing that was asked. The
  // batch cannot be used afterwards.
  absl::Status Received(size_t size);

  bool done() const { return replies_.size() == count_; }
  std::vector<RespValue> Take() { return std::move(replies_); }
  // Received and not yet part of a reply.
  size_t waiting() const { return in_.size(); }

 private:
  const size_t count_;
  const RespLimits each_;
  RespLimits left_;  // for the replies to come
  std::string in_;
  size_t whole_ = 0;  // of in_, before Room
  std::vector<RespValue> replies_;
};

}  // namespace sinter

#endif  // SINTER_CACHE_REMOTE_RESP_H_
