// RespBatch: the replies to one call, put together from what is received, within bounds. It owns
// all that the call holds in memory, so that ending it gives that back.
#ifndef SINTER_CACHE_REMOTE_RESP_BATCH_H_
#define SINTER_CACHE_REMOTE_RESP_BATCH_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cache/remote/resp.h"

namespace sinter {

// Not thread-safe.
class RespBatch {
 public:
  // For `count` replies: each within `each`, all of them within `all`.
  RespBatch(size_t count, const RespLimits& each, const RespLimits& all)
      : count_(count), each_(each), left_(all) {}

  // Where up to `size` bytes may be received; Received then says how many were.
  char* Room(size_t size);
  // UNAVAILABLE for what is no RESP2, passes a bound, or comes without having been asked for. The
  // batch is of no use then.
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

#endif  // SINTER_CACHE_REMOTE_RESP_BATCH_H_
