// The PeerMemory port on the driver: rooms of one GPU, mapped by other processes through cuIpc
// handles or POSIX file descriptors, or by other devices of this process.
#ifndef SINTER_RUNTIME_PEERS_PEERS_H_
#define SINTER_RUNTIME_PEERS_PEERS_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/driver/driver.h"
#include "src/base/peer_memory.h"

namespace sinter {

// Copies run on a stream of its own, so that they do not wait for kernels of other streams.
absl::StatusOr<std::unique_ptr<PeerMemory>> MakePeerMemory(std::shared_ptr<const Device> device);

// DescriptorPost: file descriptors between processes of one host, whose addresses a caller's
// exchange carries.

// A datagram socket without a file, known by a random name to the processes of one network
// namespace, whatever their users. Only a process that has its secret can leave something there,
// or fill its queue. One thread.
class DescriptorPost {
 public:
  struct Address {
    std::array<uint8_t, 16> name, secret;
  };

  static absl::StatusOr<std::unique_ptr<DescriptorPost>> Open();
  ~DescriptorPost();
  DescriptorPost(const DescriptorPost&) = delete;
  DescriptorPost& operator=(const DescriptorPost&) = delete;

  const Address& address() const { return address_; }
  // Leaves a copy of `descriptor` at another post. Waits only while that one's queue is full, and
  // meanwhile takes in what arrives here. DEADLINE_EXCEEDED when it stays full.
  absl::Status Send(int descriptor, const Address& to, Deadline deadline);
  // What `from` has sent here; the caller closes it. DEADLINE_EXCEEDED when it does not come.
  absl::StatusOr<int> Receive(const Address& from, Deadline deadline);

 private:
  explicit DescriptorPost(int socket) : socket_(socket) {}
  // Takes in one datagram, if one comes within `wait`.
  absl::Status TakeOne(std::chrono::milliseconds wait);

  const int socket_;
  Address address_{};
  std::map<std::array<uint8_t, 16>, int> arrived_;  // by the sender's name, not yet received
};

}  // namespace sinter

#endif  // SINTER_RUNTIME_PEERS_PEERS_H_
