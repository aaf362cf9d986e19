#include <netdb.h>
#include <sys/un.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "cache/remote/redis.h"
#include "src/base/status.h"

namespace sinter {
namespace {

absl::Status Bad(absl::string_view what) {
  return Invalid("remote: ", what,
                 "; a remote is redis://[user@]host[:port][/db] or redis+unix:///path");
}

absl::Status TakeHost(absl::string_view text, RemoteAddress* out) {
  absl::string_view port;
  if (absl::ConsumePrefix(&text, "[")) {
    const size_t end = text.find(']');
    if (end == absl::string_view::npos) return Bad("\"[\" without \"]\"");
    out->host = std::string(text.substr(0, end));
    port = text.substr(end + 1);
  } else {
    const size_t colon = text.find(':');
    out->host = std::string(text.substr(0, colon));
    if (colon != absl::string_view::npos) port = text.substr(colon);
  }
  if (out->host.empty()) return Bad("host is empty");
  if (port.empty()) return absl::OkStatus();
  uint32_t number = 0;
  if (!absl::ConsumePrefix(&port, ":") || !absl::SimpleAtoi(port, &number) || number == 0 ||
      number > 65535) {
    return Bad("port is not in 1..65535");
  }
  out->port = static_cast<uint16_t>(number);
  return absl::OkStatus();
}

absl::StatusOr<RemoteAddress> UnixAddress(absl::string_view rest) {
  RemoteAddress out;
  const size_t query = rest.find("?db=");
  if (query != absl::string_view::npos) {
    if (!absl::SimpleAtoi(rest.substr(query + 4), &out.database)) return Bad("db is not a number");
    rest = rest.substr(0, query);
  }
  out.path = std::string(rest);
  if (out.path.size() < 2 || out.path[0] != '/' ||
      out.path.size() >= sizeof(sockaddr_un::sun_path)) {
    return Bad("the socket's path is not absolute, or too long");
  }
  return out;
}

}  // namespace

SocketAddress NumericAddress(const RemoteAddress& address) {
  SocketAddress out;
  if (!address.path.empty()) {
    sockaddr_un local{};
    local.sun_family = AF_UNIX;
    std::memcpy(local.sun_path, address.path.c_str(), address.path.size() + 1);
    std::memcpy(&out.storage, &local, sizeof(local));
    out.size = sizeof(local);
    return out;
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string port = absl::StrCat(address.port);
  if (getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found) != 0) return out;
  std::memcpy(&out.storage, found->ai_addr, found->ai_addrlen);
  out.size = found->ai_addrlen;
  freeaddrinfo(found);
  return out;
}

absl::StatusOr<RemoteAddress> ParseRemoteAddress(absl::string_view url) {
  if (absl::ConsumePrefix(&url, "redis+unix://")) return UnixAddress(url);
  if (!absl::ConsumePrefix(&url, "redis://")) return Bad("the scheme is unknown");
  RemoteAddress out;
  const size_t at = url.rfind('@');
  if (at != absl::string_view::npos) {
    out.user = std::string(url.substr(0, at));
    if (out.user.find(':') != std::string::npos) {
      return Bad("a password is not allowed here: it comes from a file or the environment");
    }
    url.remove_prefix(at + 1);
  }
  const size_t slash = url.find('/');
  if (slash != absl::string_view::npos && slash + 1 < url.size() &&
      !absl::SimpleAtoi(url.substr(slash + 1), &out.database)) {
    return Bad("db is not a number");
  }
  SINTER_RETURN_IF_ERROR(TakeHost(url.substr(0, slash), &out));
  return out;
}

namespace {

constexpr timespec kLook = {0, 50'000'000};  // between looks at `stop`

// One lookup by a thread of the C library, which uses this object until it is done.
class NameLookup {
 public:
  explicit NameLookup(const RemoteAddress& address)
      : host_(address.host), port_(absl::StrCat(address.port)) {
    hints_.ai_socktype = SOCK_STREAM;
    hints_.ai_flags = AI_ADDRCONFIG | AI_NUMERICSERV;
    request_.ar_name = host_.c_str();
    request_.ar_service = port_.c_str();
    request_.ar_request = &hints_;
  }
  ~NameLookup() {
    if (request_.ar_result != nullptr) freeaddrinfo(request_.ar_result);
  }
  NameLookup(const NameLookup&) = delete;
  NameLookup& operator=(const NameLookup&) = delete;

  bool Start() { return getaddrinfo_a(GAI_NOWAIT, list_, 1, nullptr) == 0; }
  void RunHere() { getaddrinfo(host_.c_str(), port_.c_str(), &hints_, &request_.ar_result); }
  void WaitFor(const timespec& time) { gai_suspend(list_, 1, &time); }
  void Cancel() { gai_cancel(&request_); }
  bool Done() { return gai_error(&request_) != EAI_INPROGRESS; }
  SocketAddress Found() const {
    SocketAddress out;
    if (request_.ar_result == nullptr) return out;
    std::memcpy(&out.storage, request_.ar_result->ai_addr, request_.ar_result->ai_addrlen);
    out.size = request_.ar_result->ai_addrlen;
    return out;
  }

 private:
  const std::string host_, port_;
  addrinfo hints_{};
  gaicb request_{};
  gaicb* list_[1] = {&request_};
};

// Keeps a lookup alive that the C library still works on. A later call frees it once it is done.
void KeepUntilDone(std::unique_ptr<NameLookup> lookup) {
  static std::mutex mutex;
  static auto* const kept = new std::vector<std::unique_ptr<NameLookup>>;  // outlives exit
  std::lock_guard<std::mutex> lock(mutex);
  kept->erase(
      std::remove_if(kept->begin(), kept->end(), [](const auto& one) { return one->Done(); }),
      kept->end());
  kept->push_back(std::move(lookup));
}

}  // namespace

SocketAddress ResolveAddress(const RemoteAddress& address, const std::atomic<bool>& stop) {
  if (!address.path.empty()) return NumericAddress(address);
  auto lookup = std::make_unique<NameLookup>(address);
#if defined(__SANITIZE_THREAD__)  // ThreadSanitizer crashes in threads that the C library makes for
                                  // itself
  if (!stop) lookup->RunHere();
  return lookup->Found();
#endif
  if (!lookup->Start()) return SocketAddress();
  while (!stop && !lookup->Done()) lookup->WaitFor(kLook);
  if (!stop) return lookup->Found();
  lookup->Cancel();
  KeepUntilDone(std::move(lookup));
  return SocketAddress();
}

}  // namespace sinter
