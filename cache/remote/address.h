// The address of a remote store, and a name lookup that can be given up.
#ifndef SINTER_CACHE_REMOTE_ADDRESS_H_
#define SINTER_CACHE_REMOTE_ADDRESS_H_

#include <sys/socket.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sinter {

// redis://[user@]host[:port][/db], host a name, an IPv4 address or [IPv6]; or
// redis+unix:///path[?db=N].
struct RemoteAddress {
  std::string user;  // of an access list; "" = the default one
  std::string host;
  uint16_t port = 6379;
  uint32_t database = 0;
  std::string path;  // of a Unix socket; then host is ""
};

// INVALID_ARGUMENT naming what is wrong. A password in a URL is refused and not repeated in the
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

}  // namespace sinter

#endif  // SINTER_CACHE_REMOTE_ADDRESS_H_
