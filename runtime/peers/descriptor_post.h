// DescriptorPost: file descriptors between processes of one host, whose addresses a caller's
// exchange carries.
#ifndef SINTER_RUNTIME_PEERS_DESCRIPTOR_POST_H_
#define SINTER_RUNTIME_PEERS_DESCRIPTOR_POST_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace sinter {

// A datagram socket without a file, known by a random name to the processes of one network
// namespace. Only who was told its secret can leave something there. One thread.
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
  // Leaves a copy of `descriptor` at another post; does not wait for who takes it.
  absl::Status Send(int descriptor, const Address& to) const;
  // What `from` has sent here; the caller closes it. DEADLINE_EXCEEDED when it does not come.
  absl::StatusOr<int> Receive(const Address& from, std::chrono::milliseconds timeout);

 private:
  explicit DescriptorPost(int socket) : socket_(socket) {}

  const int socket_;
  Address address_{};
  std::map<std::array<uint8_t, 16>, int> arrived_;  // by the sender's name, not yet received
};

}  // namespace sinter

#endif  // SINTER_RUNTIME_PEERS_DESCRIPTOR_POST_H_
