// RedisBackend: a Redis or Valkey server as a remote backend. RESP2 alone: GET, SET, EVAL, SADD,
// EXPIRE, SMEMBERS, AUTH, SELECT. No TLS: a local proxy, or a Unix socket, brings it.
#ifndef SINTER_CACHE_REMOTE_REDIS_H_
#define SINTER_CACHE_REMOTE_REDIS_H_

#include <mutex>
#include <string>
#include <vector>

#include "cache/remote/connection.h"
#include "src/base/remote_port.h"

namespace sinter {

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
