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
  std::string text;              // for a string (simple or bulk) or an error
  int64_t integer = 0;           // for an integer
  std::vector<RespValue> items;  // for an array
};

// Bounds of a reply. A reply beyond them is bad, and nothing is allocated for it. Callers that know
// what the answer may be set lower ones.
constexpr uint64_t kMaxRespBytes = (uint64_t{32} << 20) + (64 << 10);
constexpr uint64_t kMaxRespItems = 1 << 17;  // arrays within arrays included
struct RespLimits {
  uint64_t bytes = kMaxRespBytes;  // of the whole reply, as it is sent
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

// Reads one reply from the front of `in`, which is untrusted. kDone: the reply is `*used`. kMore:
// the reply is longer than `in` and may still be within the limits. kBad: `in` is not RESP2, or
// exceeds a limit.
RespState ParseResp(absl::string_view in, const RespLimits& limits, RespSize* used, RespValue* out);

// Appends a command: an array of bulk strings.
void AppendCommand(const std::vector<absl::string_view>& words, std::string* out);

// Collects the replies to one call from received bytes, within bounds. It owns all memory of the
// call, which its destruction frees. Not thread-safe.
class RespBatch {
 public:
  // For `count` replies: each within `each`, all of them within `all`.
  RespBatch(size_t count, const RespLimits& each, const RespLimits& all)
      : count_(count), each_(each), left_(all) {}

  // Room for up to `size` received bytes; then call Received with how many came.
  char* Room(size_t size);
  // UNAVAILABLE for bytes that are not RESP2, exceed a bound, or answer no command. After an error
  // the batch cannot be used.
  absl::Status Received(size_t size);

  bool done() const { return replies_.size() == count_; }
  std::vector<RespValue> Take() { return std::move(replies_); }
  // Bytes received that are not yet part of a reply.
  size_t waiting() const { return in_.size(); }

 private:
  const size_t count_;
  const RespLimits each_;
  RespLimits left_;  // for the replies still to come
  std::string in_;
  size_t whole_ = 0;  // of in_, before Room
  std::vector<RespValue> replies_;
};

}  // namespace sinter

#endif  // SINTER_CACHE_REMOTE_RESP_H_
