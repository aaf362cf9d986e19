#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "runtime/peers/peers.h"
#include "src/base/status.h"

namespace sinter {
namespace {

absl::Status Failed(const char* call) {
  return Unavailable("passing file descriptors: ", call, ": ", std::strerror(errno));
}

absl::Status Randomise(std::array<uint8_t, 16>* bytes) {
  const auto got = getrandom(bytes->data(), bytes->size(), 0);
  return got == static_cast<ssize_t>(bytes->size()) ? absl::OkStatus() : Failed("getrandom");
}

// A name that begins with a NUL is of no file.
struct SocketName {
  sockaddr_un raw{};
  socklen_t bytes = 0;
  explicit SocketName(const std::array<uint8_t, 16>& name) {
    const std::string text =
        absl::StrCat("sinter-", absl::BytesToHexString(absl::string_view(
                                    reinterpret_cast<const char*>(name.data()), name.size())));
    raw.sun_family = AF_UNIX;
    std::copy(text.begin(), text.end(), raw.sun_path + 1);
    bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&raw); }
};

// A datagram carries this and one descriptor.
struct Note {
  std::array<uint8_t, 16> secret, sender;
};

// One message of one note and room for one descriptor.
struct Message {
  Note note{};
  iovec part{&note, sizeof(note)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr raw{};
  Message() {
    raw.msg_iov = &part;
    raw.msg_iovlen = 1;
    raw.msg_control = control;
    raw.msg_controllen = CMSG_LEN(sizeof(int));  // with the padding a second one would fit
  }
  // -1: there is none.
  int TakeDescriptor() {
    const cmsghdr* head = CMSG_FIRSTHDR(&raw);
    if (head == nullptr || head->cmsg_type != SCM_RIGHTS || head->cmsg_level != SOL_SOCKET)
      return -1;
    int descriptor = -1;
    std::memcpy(&descriptor, CMSG_DATA(head), sizeof(descriptor));
    return descriptor;
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<DescriptorPost>> DescriptorPost::Open() {
  const int opened = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (opened < 0) return Failed("socket");
  std::unique_ptr<DescriptorPost> post(new DescriptorPost(opened));
  SINTER_RETURN_IF_ERROR(Randomise(&post->address_.name));
  SINTER_RETURN_IF_ERROR(Randomise(&post->address_.secret));
  const SocketName name(post->address_.name);
  if (bind(opened, name.get(), name.bytes) != 0) return Failed("bind");
  return post;
}

DescriptorPost::~DescriptorPost() {
  for (const auto& [sender, descriptor] : arrived_) close(descriptor);
  close(socket_);
}

absl::Status DescriptorPost::Send(int descriptor, const Address& to) const {
  Message message;
  message.note = {to.secret, address_.name};
  SocketName name(to.name);
  message.raw.msg_name = &name.raw;
  message.raw.msg_namelen = name.bytes;
  cmsghdr* head = CMSG_FIRSTHDR(&message.raw);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof(descriptor));
  std::memcpy(CMSG_DATA(head), &descriptor, sizeof(descriptor));
  if (sendmsg(socket_, &message.raw, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return absl::OkStatus();
  const bool unknown = errno == ECONNREFUSED || errno == ENOENT;
  return Annotate(Failed("sendmsg"),
                  unknown ? "sharing memory with another process: both must be in one network "
                            "namespace, and the other one alive"
                          : "sharing memory with another process");
}

absl::StatusOr<int> DescriptorPost::Receive(const Address& from,
                                            std::chrono::milliseconds timeout) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    const auto found = arrived_.find(from.name);
    if (found != arrived_.end()) {
      const int descriptor = found->second;
      arrived_.erase(found);
      return descriptor;
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    pollfd waits{socket_, POLLIN, 0};
    const int ready = poll(&waits, 1, static_cast<int>(std::max<int64_t>(left.count(), 0)));
    if (ready < 0 && errno != EINTR) return Failed("poll");
    if (ready == 0 || left.count() <= 0) {
      return DeadlineExceeded("another process has sent no file descriptor of its memory for ",
                              timeout.count(), " ms");
    }
    if (ready < 0) continue;
    Message message;
    const ssize_t got = recvmsg(socket_, &message.raw, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    const int descriptor = got < 0 ? -1 : message.TakeDescriptor();
    if (descriptor < 0) {
      if (got == sizeof(Note) && message.note.secret == address_.secret) {
        return ResourceExhausted(
            "another process's file descriptor did not fit: raise the limit of open files (ulimit "
            "-n)");
      }
      continue;
    }
    const bool known = got == sizeof(Note) && message.note.secret == address_.secret &&
                       arrived_.count(message.note.sender) == 0;
    if (known) {
      arrived_[message.note.sender] = descriptor;
    } else {
      close(descriptor);  // of who was not told the secret
    }
  }
}

}  // namespace sinter
