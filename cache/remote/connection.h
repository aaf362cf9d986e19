// RespConnection: one connection to a Redis, and commands on it. A non-blocking socket, poll and an
// absolute deadline: a server that drips bytes cannot hold a call, as it could with a time-out per
// read.
#ifndef SINTER_CACHE_REMOTE_CONNECTION_H_
#define SINTER_CACHE_REMOTE_CONNECTION_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cache/remote/address.h"
#include "cache/remote/resp.h"
#include "src/base/remote_port.h"

namespace sinter {

// One thread at a time. After any failure the connection is closed; the next call makes a new one.
class RespConnection {
 public:
  // `password` is kept for later connections and never part of an error.
  RespConnection(RemoteAddress address, std::string password)
      : address_(std::move(address)), password_(std::move(password)) {}
  ~RespConnection() { Close(); }
  RespConnection(const RespConnection&) = delete;
  RespConnection& operator=(const RespConnection&) = delete;

  // Sends `commands`, `count` of them encoded, and reads as many replies. An error reply is a
  // reply. DEADLINE_EXCEEDED, UNAVAILABLE (also for what is no RESP2).
  absl::StatusOr<std::vector<RespValue>> Call(const SocketAddress& to, const std::string& commands,
                                              size_t count, Deadline deadline);
  void Close();

 private:
  absl::Status Connect(const SocketAddress& to, Deadline deadline);
  absl::Status LogIn(Deadline deadline);
  absl::StatusOr<std::vector<RespValue>> Exchange(const std::string& commands, size_t count,
                                                  Deadline deadline);
  absl::Status Wait(short events, Deadline deadline, short* ready) const;
  absl::Status WriteSome(const std::string& commands, size_t* sent);
  absl::Status ReadSome();
  absl::Status TakeReplies(size_t count, std::vector<RespValue>* replies);

  const RemoteAddress address_;
  const std::string password_;
  int fd_ = -1;
  std::string in_;  // received, not yet parsed
};

}  // namespace sinter

#endif  // SINTER_CACHE_REMOTE_CONNECTION_H_
