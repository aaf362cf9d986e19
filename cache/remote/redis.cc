#include "cache/remote/redis.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cache/remote/remote_tier.h"
#include "src/base/status.h"

namespace sinter {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kConnectLimit(100);
constexpr size_t kReadBytes = 256 << 10;

absl::Status Trouble(absl::string_view what, int error) {
  return Unavailable("remote: ", what, ": ", strerror(error));
}

absl::Status Late(absl::string_view what) {
  return DeadlineExceeded("remote: no answer in time: ", what);
}

}  // namespace

void RespConnection::Close() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

absl::Status RespConnection::Wait(short events, Deadline deadline, short* ready) const {
  for (;;) {
    const auto now = steady_clock::now();
    if (now >= deadline) return Late("waiting");
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - now).count() + 1;
    pollfd poll_fd{fd_, events, 0};
    const int n = poll(&poll_fd, 1, static_cast<int>(std::min<int64_t>(left, 60000)));
    if (n < 0 && errno != EINTR) return Trouble("poll", errno);
    if (n > 0) {
      *ready = poll_fd.revents;
      return absl::OkStatus();
    }
  }
}

absl::Status RespConnection::Connect(const SocketAddress& to, Deadline deadline) {
  if (to.size == 0) return Unavailable("remote: the host's address is not known (yet)");
  deadline = std::min(deadline, steady_clock::now() + kConnectLimit);
  fd_ = socket(to.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd_ < 0) return Trouble("socket", errno);
  const int on = 1;
  if (to.storage.ss_family != AF_UNIX) {
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  if (connect(fd_, reinterpret_cast<const sockaddr*>(&to.storage), to.size) == 0) {
    return absl::OkStatus();
  }
  if (errno != EINPROGRESS) return Trouble("connect", errno);
  short ready = 0;
  const absl::Status waited = Wait(POLLOUT, deadline, &ready);
  if (absl::IsDeadlineExceeded(waited)) return Late("connecting");
  SINTER_RETURN_IF_ERROR(waited);
  int error = 0;
  socklen_t size = sizeof(error);
  if (getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  return error == 0 ? absl::OkStatus() : Trouble("connect", error);
}

absl::Status RespConnection::LogIn(Deadline deadline) {
  RespCall call;
  if (!password_.empty()) {
    if (address_.user.empty()) {
      call.Add({"AUTH", password_});
    } else {
      call.Add({"AUTH", address_.user, password_});
    }
  }
  if (address_.database != 0) call.Add({"SELECT", absl::StrCat(address_.database)});
  if (call.count == 0) return absl::OkStatus();
  SINTER_ASSIGN_OR_RETURN(const std::vector<RespValue> replies, Exchange(call, deadline));
  for (const RespValue& reply : replies) {
    // The error's text is left out: a server may repeat in it what it was sent.
    if (reply.type == RespValue::Type::kError) {
      return Unavailable("remote: the server refused the login or the database");
    }
  }
  return absl::OkStatus();
}

absl::Status RespConnection::WriteSome(const std::string& commands, size_t* sent) {
  const ssize_t n = send(fd_, commands.data() + *sent, commands.size() - *sent, MSG_NOSIGNAL);
  if (n < 0 && errno != EAGAIN && errno != EINTR) return Trouble("send", errno);
  if (n > 0) *sent += static_cast<size_t>(n);
  return absl::OkStatus();
}

absl::Status RespConnection::ReadSome(RespBatch* batch) {
  const ssize_t n = recv(fd_, batch->Room(kReadBytes), kReadBytes, 0);
  const int error = errno;
  SINTER_RETURN_IF_ERROR(batch->Received(static_cast<size_t>(std::max<ssize_t>(n, 0))));
  if (n == 0) return Unavailable("remote: the server closed the connection");
  if (n < 0 && error != EAGAIN && error != EINTR) return Trouble("receive", error);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<RespValue>> RespConnection::Exchange(const RespCall& call,
                                                                Deadline deadline) {
  RespBatch batch(call.count, call.each, call.all);
  size_t sent = 0;
  while (!batch.done()) {
    short ready = 0;
    const bool sending = sent < call.commands.size();
    SINTER_RETURN_IF_ERROR(
        Wait(static_cast<short>(sending ? POLLIN | POLLOUT : POLLIN), deadline, &ready));
    if (sending && (ready & POLLOUT) != 0) SINTER_RETURN_IF_ERROR(WriteSome(call.commands, &sent));
    if ((ready & (POLLIN | POLLHUP | POLLERR)) != 0) SINTER_RETURN_IF_ERROR(ReadSome(&batch));
  }
  return batch.Take();
}

absl::StatusOr<std::vector<RespValue>> RespConnection::Call(const SocketAddress& to,
                                                            const RespCall& call,
                                                            Deadline deadline) {
  absl::Status opened;
  if (fd_ < 0) {
    opened = Connect(to, deadline);
    if (opened.ok()) opened = LogIn(deadline);
  }
  if (!opened.ok()) {
    Close();
    return opened;
  }
  absl::StatusOr<std::vector<RespValue>> replies = Exchange(call, deadline);
  if (!replies.ok()) Close();
  return replies;
}

namespace {

using Type = RespValue::Type;

constexpr uint64_t kRespHeadBytes = 32;  // of a bulk string, with the bytes that end it
constexpr uint64_t kMostMembersBytes = uint64_t{16} << 20;

// Releases a lease only if the token still holds it.
constexpr char kReleaseScript[] =
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

absl::Status Unexpected(const RespValue& reply, absl::string_view command) {
  if (reply.type == Type::kError) {
    return Unavailable("remote: ", command, ": ", absl::string_view(reply.text).substr(0, 80));
  }
  return Unavailable("remote: ", command, ": an answer of another type than asked for");
}

}  // namespace

absl::StatusOr<std::vector<RespValue>> RedisBackend::Call(const RespCall& call, Deadline deadline) {
  SocketAddress to;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    to = to_;
  }
  return connection_.Call(to, call, deadline);
}

void RedisBackend::Resolve(const std::atomic<bool>& stop) {
  const SocketAddress found = ResolveAddress(address_, stop);
  if (found.size == 0) return;
  std::lock_guard<std::mutex> lock(mutex_);
  to_ = found;
}

absl::StatusOr<std::vector<absl::optional<std::string>>> RedisBackend::GetMany(
    const std::vector<std::string>& names, Deadline deadline) {
  RespCall call;
  for (const std::string& name : names) call.Add({"GET", name});
  call.each = RespLimits{kMaxRemoteValueBytes + kRespHeadBytes, 1};
  call.all = RespLimits{2 * kMaxRemoteValueBytes, names.size()};
  std::vector<RespValue> replies;
  SINTER_ASSIGN_OR_RETURN(replies, Call(call, deadline));
  std::vector<absl::optional<std::string>> values;
  for (RespValue& reply : replies) {
    values.emplace_back();
    if (reply.type == Type::kNil) continue;
    if (reply.type != Type::kString) return Unexpected(reply, "GET");
    values.back() = std::move(reply.text);
  }
  return values;
}

absl::StatusOr<std::vector<bool>> RedisBackend::HaveMany(const std::vector<std::string>& names,
                                                         Deadline deadline) {
  RespCall call;
  for (const std::string& name : names) call.Add({"EXISTS", name});
  SINTER_ASSIGN_OR_RETURN(const std::vector<RespValue> replies, Call(call, deadline));
  std::vector<bool> have;
  for (const RespValue& reply : replies) {
    if (reply.type != Type::kInteger) return Unexpected(reply, "EXISTS");
    have.push_back(reply.integer != 0);
  }
  return have;
}

absl::Status RedisBackend::Put(const std::string& name, const std::string& value, int64_t ttl_s,
                               bool replace, Deadline deadline) {
  RespCall call;
  const std::string ttl = absl::StrCat(ttl_s);
  if (replace) {
    call.Add({"SET", name, value, "EX", ttl});
  } else {
    call.Add({"SET", name, value, "EX", ttl, "NX"});
  }
  SINTER_ASSIGN_OR_RETURN(const std::vector<RespValue> replies, Call(call, deadline));
  const bool stays = !replace && replies[0].type == Type::kNil;
  const bool stored = replies[0].type == Type::kString && replies[0].text == "OK";
  return stays || stored ? absl::OkStatus() : Unexpected(replies[0], "SET");
}

absl::StatusOr<bool> RedisBackend::TryLease(const std::string& name, const std::string& token,
                                            int64_t ttl_ms, Deadline deadline) {
  RespCall call;
  call.Add({"SET", name, token, "NX", "PX", absl::StrCat(ttl_ms)});
  SINTER_ASSIGN_OR_RETURN(const std::vector<RespValue> replies, Call(call, deadline));
  if (replies[0].type == Type::kNil) return false;
  if (replies[0].type == Type::kString && replies[0].text == "OK") return true;
  return Unexpected(replies[0], "SET");
}

absl::Status RedisBackend::Release(const std::string& name, const std::string& token,
                                   Deadline deadline) {
  RespCall call;
  call.Add({"EVAL", kReleaseScript, "1", name, token});
  SINTER_ASSIGN_OR_RETURN(const std::vector<RespValue> replies, Call(call, deadline));
  return replies[0].type == Type::kInteger ? absl::OkStatus() : Unexpected(replies[0], "EVAL");
}

absl::Status RedisBackend::AddMember(const std::string& set, const std::string& member,
                                     int64_t ttl_s, Deadline deadline) {
  RespCall call;
  call.Add({"SADD", set, member});
  call.Add({"EXPIRE", set, absl::StrCat(ttl_s)});
  SINTER_ASSIGN_OR_RETURN(const std::vector<RespValue> replies, Call(call, deadline));
  for (const RespValue& reply : replies) {
    if (reply.type != Type::kInteger) return Unexpected(reply, "SADD");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> RedisBackend::Members(const std::string& set,
                                                               Deadline deadline) {
  RespCall call;
  call.Add({"SMEMBERS", set});
  call.each = call.all = RespLimits{kMostMembersBytes, kMaxRespItems};
  std::vector<RespValue> replies;
  SINTER_ASSIGN_OR_RETURN(replies, Call(call, deadline));
  if (replies[0].type != Type::kArray) return Unexpected(replies[0], "SMEMBERS");
  std::vector<std::string> members;
  for (RespValue& item : replies[0].items) {
    if (item.type != Type::kString) return Unexpected(item, "SMEMBERS");
    members.push_back(std::move(item.text));
  }
  return members;
}

}  // namespace sinter
