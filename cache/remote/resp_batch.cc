#include "cache/remote/resp_batch.h"

#include <algorithm>
#include <utility>

namespace sinter {

char* RespBatch::Room(size_t size) {
  whole_ = in_.size();
  in_.resize(whole_ + size);
  return &in_[whole_];
}

absl::Status RespBatch::Received(size_t size) {
  in_.resize(whole_ + size);
  size_t at = 0;
  while (!done() && at < in_.size()) {
    RespLimits limits = each_;
    limits.bytes = std::min(limits.bytes, left_.bytes);
    limits.items = std::min(limits.items, left_.items);
    RespSize used;
    RespValue reply;
    const RespState state = ParseResp(absl::string_view(in_).substr(at), limits, &used, &reply);
    if (state == RespState::kBad) {
      return absl::UnavailableError("remote: the answer is no RESP2, or is too large");
    }
    if (state == RespState::kMore) break;
    at += used.bytes;
    left_.bytes -= used.bytes;
    left_.items -= used.items;
    replies_.push_back(std::move(reply));
  }
  in_.erase(0, at);
  if (done() && !in_.empty()) {
    return absl::UnavailableError("remote: the server said more than it was asked");
  }
  if (in_.empty()) std::string().swap(in_);
  return absl::OkStatus();
}

}  // namespace sinter
