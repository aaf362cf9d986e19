// PeerMemory: memory that the GPUs of one host write for one another, as the engine asks for it.
// runtime/peers implements it, tests fake it. RankRoom says what lies in a rank's room.
#ifndef SINTER_SRC_BASE_PEER_MEMORY_H_
#define SINTER_SRC_BASE_PEER_MEMORY_H_

#include <array>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/base/ports.h"

namespace sinter {

// A room begins with this. src/device/ranks/room.cuh has the same, with what the words mean.
struct RankRoom {
  static constexpr int kMaxRanks = 8;
  // The parts, in bytes: a vector from each sender, by which ranks prove their links; headers; two
  // halves, each with a slot for every rank.
  static constexpr uint64_t kProofsAt = 256, kHeadersAt = 1024, kSlotsAt = 4096;
  static constexpr uint8_t kEmptyByte = 0xFF;  // of slots

  uint32_t epoch = 0, blocks_done = 0, outcome = 0, rank = 0;
  uint64_t timeout_ns = 0;
  uint64_t slot_vectors = 0;  // of 16 bytes
  DevicePtr host_words = 0;
  uint64_t reserved = 0;
  std::array<DevicePtr, kMaxRanks> rooms{};

  // Why a group ended: one of these, with the number of a rank in bits 8 and above.
  static constexpr uint32_t kTimedOut = 1, kMismatch = 2, kAborted = 3;
};
static_assert(sizeof(RankRoom) == 112, "kernels read it");

// Two words of pinned memory that kernels and the host share.
struct HostWords {
  uint32_t* host = nullptr;  // [0]: why the group ended; [1]: why it is to end. Read and written
                             // atomically
  DevicePtr device = 0;      // the same
};

// How other processes get at a room: not at all, by the bytes of a cuIpc handle, or by a POSIX file
// descriptor, which is sent outside the exchange.
enum class RoomSharing : uint8_t { kNone, kIpc, kDescriptor };

// Peer memory of one GPU. Every call leaves the thread's context and capture mode as they were, and
// has done its work when it returns. Thread-safe.
class PeerMemory {
 public:
  using Handle = std::array<char, 64>;  // of a room, for another process of this host
  virtual ~PeerMemory() = default;

  virtual absl::StatusOr<std::array<uint8_t, 16>> DeviceUuid() const = 0;
  virtual absl::StatusOr<DevicePtr> Allocate(uint64_t bytes, RoomSharing sharing) = 0;
  virtual void Free(DevicePtr pointer) = 0;
  virtual absl::StatusOr<HostWords> AllocateWords() = 0;
  virtual void FreeWords(const HostWords& words) = 0;

  virtual absl::StatusOr<Handle> Export(DevicePtr allocated) = 0;
  // Lets the process that sent a handle open `allocated`. Every process calls it for each such
  // handle before it opens any. Memory that is shared by cuIpc needs none, and nothing is done.
  virtual absl::Status Offer(DevicePtr allocated, const Handle& to) = 0;
  // The memory behind another process's handle, as this GPU addresses it. DEADLINE_EXCEEDED where
  // it needs an offer that does not come.
  virtual absl::StatusOr<DevicePtr> Open(const Handle& handle) = 0;
  virtual void Close(DevicePtr opened) = 0;
  // For memory of the same process: from now on this GPU can address all of `peer`'s.
  // FAILED_PRECONDITION where the two cannot reach each other.
  virtual absl::Status Reach(const PeerMemory& peer) = 0;

  virtual absl::Status Fill(DevicePtr to, uint8_t byte, uint64_t bytes) = 0;
  virtual absl::Status Upload(DevicePtr to, const void* from, uint64_t bytes) = 0;
  virtual absl::Status Download(void* to, DevicePtr from, uint64_t bytes) = 0;
  // From this GPU's memory to a peer's, over the link between them.
  virtual absl::Status Push(DevicePtr to, DevicePtr from, uint64_t bytes) = 0;
};

}  // namespace sinter

#endif  // SINTER_SRC_BASE_PEER_MEMORY_H_
