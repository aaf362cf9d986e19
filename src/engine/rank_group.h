// RankGroup: this rank's part in a group of GPUs of one host whose kernels exchange data: its room,
// the rooms of the others as its GPU addresses them, and how the group ended.
#ifndef SINTER_SRC_ENGINE_RANK_GROUP_H_
#define SINTER_SRC_ENGINE_RANK_GROUP_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/base/config.h"
#include "src/base/digest.h"
#include "src/base/peer_memory.h"

namespace sinter {

// All-gather in the order of ranks: every rank gives `bytes` bytes at `send`, and gets those of all
// ranks at `recv`. Returns once they are there.
using Exchange = std::function<absl::Status(const void* send, size_t bytes, void* recv)>;

struct RankGroupOptions {
  int rank = 0, size = 0;        // 2 to 8 ranks
  uint64_t slot_bytes = 0;       // of a message; 0: DefaultSlotBytes
  std::vector<DevicePtr> rooms;  // the caller's memory: `size` addresses; empty: allocated here
  uint64_t room_bytes = 0;       // of each of them
  uint64_t timeout_ms = 10000;   // of a kernel's wait for another rank; 0: for good
  bool descriptors = false;      // rooms are shared by POSIX file descriptors, else by cuIpc
  Digest identity;               // of library and chip: equal on all ranks
};

uint64_t DefaultSlotBytes(int size);
// The bytes of a room for `size` ranks; `slot_bytes` 0: the default. 0 if either is outside its
// limits.
uint64_t RoomBytes(int size, uint64_t slot_bytes);

// Thread-safe. The caller's memory and its GPU outlive it.
class RankGroup {
 public:
  // Collective: all ranks call it at once, and all fail where one does. A rank that has failed
  // before calls it too, with its error in place of `memory`: it gets that error back, and the
  // others get an error too. Proves each link by a pattern that goes over it. No exchange follows a
  // failed exchange. INVALID_ARGUMENT: an option; a rank with an invalid size cannot tell the
  // others. FAILED_PRECONDITION: ranks that differ, or a link that does not carry what is sent; it
  // names the rank.
  static absl::StatusOr<std::shared_ptr<RankGroup>> Create(
      absl::StatusOr<std::unique_ptr<PeerMemory>> memory, const RankGroupOptions& options,
      Exchange exchange);
  // All ranks of one process, rank i on memory i. Rank 0's options apply to all; rooms are
  // allocated.
  static absl::StatusOr<std::vector<std::shared_ptr<RankGroup>>> CreateLocal(
      std::vector<std::unique_ptr<PeerMemory>> memory, const RankGroupOptions& options);

  // Gives the memory back. Its kernels have ended; memory that another process still has open must
  // not be freed, so Close goes before where ranks are processes. Ranks of one process share all
  // rooms: the last of them frees them.
  ~RankGroup();
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  int rank() const { return options_.rank; }
  int size() const { return options_.size; }
  uint64_t slot_bytes() const { return options_.slot_bytes; }
  // What kernels take.
  DevicePtr room() const { return room_; }

  // OK while the group lives, else why it ended: DEADLINE_EXCEEDED (a rank was missed),
  // FAILED_PRECONDITION (ranks made different calls), ABORTED; `*rank`, if not null, is the rank
  // that is meant, or -1. Reads one word of memory: never blocks.
  absl::Status GetStatus(int* rank) const;
  // Ends the group on all ranks: waits that run return soon, later launches do nothing.
  absl::Status Abort();

  // OK where all ranks run the plan of this digest. The first time that this rank asks for it the
  // call is collective, by one exchange: ranks ask for their plans in one order.
  // FAILED_PRECONDITION where another rank has another plan, or the group is closed. Ranks of one
  // process do not wait for one another: the one that comes later gets the error.
  absl::Status AgreeOnPlan(const Digest& plan);
  // OK where kernels may be launched over the group: it has not ended and is not closed.
  absl::Status CheckLaunch() const;

  // Collective, after the last kernel of each rank: closes the other ranks' rooms, waits by one
  // exchange until all have, and frees this one's. The group may then be asked for its status and
  // be destroyed. Again: does nothing. Where the exchange fails, its error, then and later: the
  // room stays until the group goes. Ranks of one process need no exchange.
  absl::Status Close();

 private:
  struct Introduction;
  class Room;
  struct LocalPlans;
  RankGroup(std::shared_ptr<PeerMemory> memory, RankGroupOptions options, Exchange exchange)
      : memory_(std::move(memory)), options_(std::move(options)), exchange_(std::move(exchange)) {}

  // The steps of both ways of creation. Between them all ranks have done the step before.
  absl::Status Prepare(bool exported);
  Introduction Introduce(const absl::Status& prepared) const;
  absl::Status Agree(const std::vector<Introduction>& all) const;
  absl::Status Connect(const std::vector<Introduction>& all);
  absl::Status OpenRooms(const std::vector<Introduction>& all);
  absl::Status WriteRoom();
  absl::Status SendProofs();
  absl::Status CheckProofs() const;
  absl::Status Gather(const void* send, size_t bytes, void* recv);
  absl::Status AllOk(const absl::Status& own);

  const std::shared_ptr<PeerMemory> memory_;  // null only where a rank failed before
  RankGroupOptions options_;
  const Exchange exchange_;  // none where all ranks are of one process
  absl::Status gathered_;    // how the last exchange ended
  HostWords words_;
  DevicePtr room_ = 0;
  PeerMemory::Handle handle_{};
  std::array<uint8_t, 16> uuid_{};
  std::mutex closing_;                 // one Close, or one agreement, at a time
  std::vector<Digest> plans_;          // agreed on, in the order of all ranks
  std::shared_ptr<LocalPlans> local_;  // of ranks of one process
  std::atomic<bool> left_{false};      // a Close has begun
  std::mutex mutex_;                   // guards the fields below
  std::vector<DevicePtr> rooms_;       // of all ranks, as this GPU addresses them; none when closed
  std::vector<DevicePtr> opened_;      // of other processes
  // Allocated here: this rank's, or those of all ranks of the process.
  std::vector<std::shared_ptr<const Room>> held_;
  bool closed_ = false;
};

// What a group of this configuration and GPU is made with. UNAVAILABLE without a driver.
absl::StatusOr<std::unique_ptr<PeerMemory>> OpenPeerMemory(const Config& config, int ordinal);

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_RANK_GROUP_H_
