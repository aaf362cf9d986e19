#include "cache/remote/connection.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"

namespace sinter {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kConnectLimit(100);
constexpr size_t kReadBytes = 256 << 10;

absl::Status Trouble(absl::string_view what, int error) {
  return absl::UnavailableError(absl::StrCat("remote: ", what, ": ", strerror(error)));
}

absl::Status Late(absl::string_view what) {
  return absl::DeadlineExceededError(absl::StrCat("remote: no answer in time: ", what));
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
  if (to.size == 0) return absl::UnavailableError("remote: the host's address is not known (yet)");
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
    // The words of the error are left out: a server may repeat what it was sent.
    if (reply.type == RespValue::Type::kError) {
      return absl::UnavailableError("remote: the server refused the login or the database");
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
  if (n == 0) return absl::UnavailableError("remote: the server closed the connection");
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

}  // namespace sinter
