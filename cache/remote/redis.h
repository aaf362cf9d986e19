// RedisBackend: a Redis or Valkey server as a remote backend. It speaks RESP2 and uses GET, SET,
// EVAL, SADD, EXPIRE, SMEMBERS, AUTH and SELECT. For TLS use a local proxy, or a Unix socket to
// one.
#ifndef SINTER_CACHE_REMOTE_REDIS_H_
#define SINTER_CACHE_REMOTE_REDIS_H_

#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cache/remote/address.h"
#include "cache/remote/resp.h"
#include "src/base/ports.h"

namespace sinter {

constexpr uint64_t kShortRespBytes = 8 << 10;  // an OK, a number, an error, a token

// Commands, and the bounds of their replies.
struct RespCall {
  std::string commands;  // encoded
  size_t count = 0;
  RespLimits each{kShortRespBytes, 1};  // of one reply
  RespLimits all{kShortRespBytes * 8, kMaxRespItems};

  void Add(const std::vector<absl::string_view>& words) {
    AppendCommand(words, &commands);
    ++count;
  }
};

// One thread at a time. Between calls it holds no bytes. A failure closes the connection; the next
// call makes a new one.
class RespConnection {
 public:
  // `password` is kept for later connections and never part of an error.
  RespConnection(RemoteAddress address, std::string password)
      : address_(std::move(address)), password_(std::move(password)) {}
  ~RespConnection() { Close(); }
  RespConnection(const RespConnection&) = delete;
  RespConnection& operator=(const RespConnection&) = delete;

  // Sends the commands and reads a reply to each; an error reply is a reply. DEADLINE_EXCEEDED, or
  // UNAVAILABLE, also for bytes that are not RESP2 and for replies beyond their bounds.
  absl::StatusOr<std::vector<RespValue>> Call(const SocketAddress& to, const RespCall& call,
                                              Deadline deadline);
  void Close();

 private:
  absl::Status Connect(const SocketAddress& to, Deadline deadline);
  absl::Status LogIn(Deadline deadline);
  absl::StatusOr<std::vector<RespValue>> Exchange(const RespCall& call, Deadline deadline);
  absl::Status Wait(short events, Deadline deadline, short* ready) const;
  absl::Status WriteSome(const std::string& commands, size_t* sent);
  absl::Status ReadSome(RespBatch* batch);

  const RemoteAddress address_;
  const std::string password_;
  int fd_ = -1;
};

class RedisBackend : public RemoteBackend {
 public:
  RedisBackend(const RemoteAddress& address, const std::string& password)
      : address_(address), to_(NumericAddress(address)), connection_(address, password) {}

  absl::StatusOr<std::vector<absl::optional<std::string>>> GetMany(
      const std::vector<std::string>& names, Deadline deadline) override;
  absl::Status Put(const std::string& name, const std::string& value, int64_t ttl_s, bool replace,
                   Deadline deadline) override;
  absl::StatusOr<bool> TryLease(const std::string& name, const std::string& token, int64_t ttl_ms,
                                Deadline deadline) override;
  absl::Status Release(const std::string& name, const std::string& token,
                       Deadline deadline) override;
  absl::Status AddMember(const std::string& set, const std::string& member, int64_t ttl_s,
                         Deadline deadline) override;
  absl::StatusOr<std::vector<std::string>> Members(const std::string& set,
                                                   Deadline deadline) override;
  void Resolve(const std::atomic<bool>& stop) override;

 private:
  absl::StatusOr<std::vector<RespValue>> Call(const RespCall& call, Deadline deadline);

  const RemoteAddress address_;
  std::mutex mutex_;
  SocketAddress to_;  // guarded by mutex_: Resolve may run beside a call
  RespConnection connection_;
};

}  // namespace sinter

#endif  // SINTER_CACHE_REMOTE_REDIS_H_
