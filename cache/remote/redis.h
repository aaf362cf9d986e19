// RedisBackend: a Redis or Valkey server as a remote backend. It speaks RESP2 and uses GET, SET,
// EVAL, SADD, EXPIRE, SMEMBERS, AUTH and SELECT. For TLS use a local proxy, or a Unix socket to
// one.
#ifndef SINTER_CACHE_REMOTE_REDIS_H_
#define SINTER_CACHE_REMOTE_REDIS_H_

#include <sys/socket.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/base/ports.h"

namespace sinter {

// The address of a remote store, and a name lookup that can be given up.

// redis://[user@]host[:port][/db], host a name, an IPv4 address or [IPv6]; or
// redis+unix:///path[?db=N].
struct RemoteAddress {
  std::string user;  // of an access list; "" = the default one
  std::string host;
  uint16_t port = 6379;
  uint32_t database = 0;
  std::string path;  // of a Unix socket; then host is ""
};

// INVALID_ARGUMENT naming the fault. A password in a URL is refused and not repeated in the
// error: secrets come from files or the environment.
absl::StatusOr<RemoteAddress> ParseRemoteAddress(absl::string_view url);

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;  // 0: unknown
};

// For paths and numeric hosts, without asking a name server; for any other host size is 0.
SocketAddress NumericAddress(const RemoteAddress& address);

// Uses the system's resolver, which may take a minute when name servers are dead. Returns within 50
// ms after `stop` is set. Size is 0 then, and for a name that is not found.
SocketAddress ResolveAddress(const RemoteAddress& address, const std::atomic<bool>& stop);

// RESP2, the protocol of Redis and Valkey: commands to bytes, bytes to replies.

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
  absl::StatusOr<std::vector<bool>> HaveMany(const std::vector<std::string>& names,
                                             Deadline deadline) override;
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
  SocketAddress to_;  // guarded by mutex_: Resolve may run during a call
  RespConnection connection_;
};

}  // namespace sinter

#endif  // SINTER_CACHE_REMOTE_REDIS_H_
