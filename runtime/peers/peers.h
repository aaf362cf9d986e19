// The PeerMemory port on the driver: rooms of one GPU, mapped by other processes through cuIpc
// handles or POSIX file descriptors, or by other devices of this process.
#ifndef SINTER_RUNTIME_PEERS_PEERS_H_
#define SINTER_RUNTIME_PEERS_PEERS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "runtime/driver/driver.h"
#include "src/base/peer_memory.h"

namespace sinter {

// Copies run on a stream of its own, so that they do not wait for kernels of other streams.
absl::StatusOr<std::unique_ptr<PeerMemory>> MakePeerMemory(std::shared_ptr<const Device> device);

}  // namespace sinter

#endif  // SINTER_RUNTIME_PEERS_PEERS_H_
