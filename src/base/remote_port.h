// RemoteBackend: what the remote tier needs of a store that a fleet shares. Redis is one; a site
// can plug in its own through the C interface.
#ifndef SINTER_SRC_BASE_REMOTE_PORT_H_
#define SINTER_SRC_BASE_REMOTE_PORT_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"

namespace sinter {

using Deadline = std::chrono::steady_clock::time_point;

// Every call returns by its deadline, whatever the other side does: DEADLINE_EXCEEDED then,
// UNAVAILABLE for any other trouble. Names are printable ASCII without spaces. One thread at a time
// uses an instance.
class RemoteBackend {
 public:
  virtual ~RemoteBackend() = default;
  // In the order asked; nullopt: absent.
  virtual absl::StatusOr<std::vector<absl::optional<std::string>>> GetMany(
      const std::vector<std::string>& names, Deadline deadline) = 0;
  // `replace` false: the first value stays.
  virtual absl::Status Put(const std::string& name, const std::string& value, int64_t ttl_s,
                           bool replace, Deadline deadline) = 0;
  // False: somebody else holds it.
  virtual absl::StatusOr<bool> TryLease(const std::string& name, const std::string& token,
                                        int64_t ttl_ms, Deadline deadline) = 0;
  // Only if `token` still holds it.
  virtual absl::Status Release(const std::string& name, const std::string& token,
                               Deadline deadline) = 0;
  // Sets of names, for prefetching.
  virtual absl::Status AddMember(const std::string& set, const std::string& member, int64_t ttl_s,
                                 Deadline deadline) = 0;
  virtual absl::StatusOr<std::vector<std::string>> Members(const std::string& set,
                                                           Deadline deadline) = 0;
  // Looks the host's name up, which may take long: only ever called in the background. Returns soon
  // after `stop` is set.
  virtual void Resolve(const std::atomic<bool>& stop) { (void)stop; }
};

// A backend with several owners. `below` is thread-safe.
class SharedBackend : public RemoteBackend {
 public:
  explicit SharedBackend(std::shared_ptr<RemoteBackend> below) : below_(std::move(below)) {}
  absl::StatusOr<std::vector<absl::optional<std::string>>> GetMany(
      const std::vector<std::string>& names, Deadline deadline) override {
    return below_->GetMany(names, deadline);
  }
  absl::Status Put(const std::string& name, const std::string& value, int64_t ttl_s, bool replace,
                   Deadline deadline) override {
    return below_->Put(name, value, ttl_s, replace, deadline);
  }
  absl::StatusOr<bool> TryLease(const std::string& name, const std::string& token, int64_t ttl_ms,
                                Deadline deadline) override {
    return below_->TryLease(name, token, ttl_ms, deadline);
  }
  absl::Status Release(const std::string& name, const std::string& token,
                       Deadline deadline) override {
    return below_->Release(name, token, deadline);
  }
  absl::Status AddMember(const std::string& set, const std::string& member, int64_t ttl_s,
                         Deadline deadline) override {
    return below_->AddMember(set, member, ttl_s, deadline);
  }
  absl::StatusOr<std::vector<std::string>> Members(const std::string& set,
                                                   Deadline deadline) override {
    return below_->Members(set, deadline);
  }

 private:
  const std::shared_ptr<RemoteBackend> below_;
};

}  // namespace sinter

#endif  // SINTER_SRC_BASE_REMOTE_PORT_H_
