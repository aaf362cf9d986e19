// The host's name looked up in a way that can be given up.
#ifndef SINTER_CACHE_REMOTE_RESOLVER_H_
#define SINTER_CACHE_REMOTE_RESOLVER_H_

#include <atomic>

#include "cache/remote/address.h"

namespace sinter {

// By the system's resolver, which may take a minute where name servers are dead. Returns within 50
// ms after `stop` is set; size is 0 then, and for a name that is not found.
SocketAddress ResolveAddress(const RemoteAddress& address, const std::atomic<bool>& stop);

}  // namespace sinter

#endif  // SINTER_CACHE_REMOTE_RESOLVER_H_
