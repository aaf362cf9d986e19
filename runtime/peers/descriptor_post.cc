#include <linux/filter.h>
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

// Drops datagrams that are no Note with `secret` before they take a place in the queue. Any user
// can read the socket's name in /proc/net/unix and fill a queue, which is of 10 datagrams.
absl::Status AcceptOnly(int socket, const std::array<uint8_t, 16>& secret) {
  constexpr uint8_t kWords = 4;
  static_assert(sizeof(secret) == kWords * sizeof(uint32_t), "compared by words");
  std::array<sock_filter, 2 * (1 + kWords) + 2> program{};
  size_t at = 0;
  const auto require = [&](uint16_t load, uint32_t offset, uint32_t value) {
    program[at++] = BPF_STMT(load, offset);
    const auto to_drop = static_cast<uint8_t>(program.size() - 2 - at);
    program[at++] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, to_drop);
  };
  require(BPF_LD | BPF_W | BPF_LEN, 0, sizeof(Note));
  for (uint8_t word = 0; word < kWords; ++word) {
    const uint8_t* bytes = &secret[word * sizeof(uint32_t)];
    require(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(word * sizeof(uint32_t)),
            uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 |
                uint32_t{bytes[3]});
  }
  program[at++] = BPF_STMT(BPF_RET | BPF_K, UINT32_MAX);  // all of the datagram
  program[at++] = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog filter{static_cast<uint16_t>(program.size()), program.data()};
  if (setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)) == 0) {
    return absl::OkStatus();
  }
  // A sandbox may know no filters: a sender then waits until strangers' datagrams are read.
  return errno == ENOPROTOOPT || errno == EPERM || errno == EINVAL ? absl::OkStatus()
                                                                   : Failed("setsockopt");
}

constexpr std::chrono::milliseconds kRetryAfter{2};  // a full queue tells nobody when it has room

std::chrono::milliseconds LeftUntil(std::chrono::steady_clock::time_point end) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
  return std::max(left, std::chrono::milliseconds(0));
}

}  // namespace

absl::StatusOr<std::unique_ptr<DescriptorPost>> DescriptorPost::Open() {
  const int opened = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (opened < 0) return Failed("socket");
  std::unique_ptr<DescriptorPost> post(new DescriptorPost(opened));
  SINTER_RETURN_IF_ERROR(Randomise(&post->address_.name));
  SINTER_RETURN_IF_ERROR(Randomise(&post->address_.secret));
  SINTER_RETURN_IF_ERROR(AcceptOnly(opened, post->address_.secret));
  const SocketName name(post->address_.name);
  if (bind(opened, name.get(), name.bytes) != 0) return Failed("bind");
  return post;
}

DescriptorPost::~DescriptorPost() {
  for (const auto& [sender, descriptor] : arrived_) close(descriptor);
  close(socket_);
}

absl::Status DescriptorPost::Send(int descriptor, const Address& to, Deadline deadline) {
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
  while (sendmsg(socket_, &message.raw, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
    if (errno != EAGAIN && errno != EINTR) {
      const bool unknown = errno == ECONNREFUSED || errno == ENOENT;
      return Annotate(Failed("sendmsg"),
                      unknown ? "sharing memory with another process: both must be in one network "
                                "namespace, and the other one alive"
                              : "sharing memory with another process");
    }
    const std::chrono::milliseconds left = LeftUntil(deadline);
    if (left.count() == 0) {
      return DeadlineExceeded(
          "another process does not read the file descriptors that are sent to it: its queue of "
          "datagrams stays full; see whether it still runs, or use cuIpc handles");
    }
    // The other one may wait for room here.
    SINTER_RETURN_IF_ERROR(TakeOne(std::min(left, kRetryAfter)));
  }
  return absl::OkStatus();
}

absl::StatusOr<int> DescriptorPost::Receive(const Address& from, Deadline deadline) {
  for (;;) {
    const auto found = arrived_.find(from.name);
    if (found != arrived_.end()) {
      const int descriptor = found->second;
      arrived_.erase(found);
      return descriptor;
    }
    const std::chrono::milliseconds left = LeftUntil(deadline);
    if (left.count() == 0) {
      return DeadlineExceeded("another process has not sent the file descriptor of its memory");
    }
    SINTER_RETURN_IF_ERROR(TakeOne(left));
  }
}

absl::Status DescriptorPost::TakeOne(std::chrono::milliseconds wait) {
  pollfd waits{socket_, POLLIN, 0};
  const int ready = poll(&waits, 1, static_cast<int>(wait.count()));
  if (ready < 0 && errno != EINTR) return Failed("poll");
  if (ready <= 0) return absl::OkStatus();
  Message message;
  const ssize_t got = recvmsg(socket_, &message.raw, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  const int descriptor = got < 0 ? -1 : message.TakeDescriptor();
  const bool ours = got == sizeof(Note) && message.note.secret == address_.secret;
  if (ours && descriptor < 0) {
    return ResourceExhausted(
        "another process's file descriptor did not fit: raise the limit of open files (ulimit "
        "-n)");
  }
  if (ours && arrived_.count(message.note.sender) == 0) {
    arrived_[message.note.sender] = descriptor;
  } else if (descriptor >= 0) {
    close(descriptor);  // of who was not told the secret
  }
  return absl::OkStatus();
}

}  // namespace sinter
