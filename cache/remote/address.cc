#include "cache/remote/address.h"

#include <netdb.h>
#include <sys/un.h>

#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "src/base/status.h"

namespace sinter {
namespace {

absl::Status Bad(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(
      "remote: ", what, "; a remote is redis://[user@]host[:port][/db] or redis+unix:///path"));
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
    if (!absl::SimpleAtoi(rest.substr(query + 4), &out.database)) return Bad("db is no number");
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
    return Bad("db is no number");
  }
  SINTER_RETURN_IF_ERROR(TakeHost(url.substr(0, slash), &out));
  return out;
}

}  // namespace sinter
