// DeviceArena: device buffers that are freed together.
#ifndef SINTER_SRC_ENGINE_DEVICE_ARENA_H_
#define SINTER_SRC_ENGINE_DEVICE_ARENA_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/ports.h"
#include "src/base/status.h"

namespace sinter {

// One thread. The measurer outlives the arena.
class DeviceArena {
 public:
  explicit DeviceArena(Measurer* measurer) : measurer_(measurer) {}
  DeviceArena(const DeviceArena&) = delete;
  DeviceArena& operator=(const DeviceArena&) = delete;
  ~DeviceArena() {
    for (const DeviceBuffer& buffer : buffers_) measurer_->Free(buffer);
  }

  // At least 16 bytes, so that an empty tensor has an address too.
  absl::StatusOr<DeviceBuffer> Allocate(uint64_t bytes) {
    SINTER_ASSIGN_OR_RETURN(const DeviceBuffer buffer,
                            measurer_->Allocate(std::max<uint64_t>(bytes, 16)));
    buffers_.push_back(buffer);
    return buffer;
  }

 private:
  Measurer* const measurer_;
  std::vector<DeviceBuffer> buffers_;
};

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_DEVICE_ARENA_H_
