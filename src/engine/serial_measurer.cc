#include "src/engine/serial_measurer.h"

#include <mutex>
#include <utility>

namespace sinter {
namespace {

class SerialMeasurer : public Measurer {
 public:
  explicit SerialMeasurer(std::unique_ptr<Measurer> inner) : inner_(std::move(inner)) {}

  absl::StatusOr<DeviceBuffer> Allocate(uint64_t bytes) override {
    std::lock_guard<std::mutex> lock(mutex_);
    return inner_->Allocate(bytes);
  }
  void Free(DeviceBuffer buffer) override {
    std::lock_guard<std::mutex> lock(mutex_);
    inner_->Free(buffer);
  }
  absl::Status Upload(DeviceBuffer to, const void* from, uint64_t bytes) override {
    std::lock_guard<std::mutex> lock(mutex_);
    return inner_->Upload(to, from, bytes);
  }
  absl::Status Download(void* to, DeviceBuffer from, uint64_t bytes) override {
    std::lock_guard<std::mutex> lock(mutex_);
    return inner_->Download(to, from, bytes);
  }
  absl::Status Fill(DeviceBuffer buffer, uint8_t byte) override {
    std::lock_guard<std::mutex> lock(mutex_);
    return inner_->Fill(buffer, byte);
  }
  absl::StatusOr<double> TimeGraph(const std::function<absl::Status(StreamHandle, int)>& enqueue,
                                   int calls, int replays) override {
    std::lock_guard<std::mutex> lock(mutex_);
    return inner_->TimeGraph(enqueue, calls, replays);
  }
  absl::Status RunAndWait(const std::function<absl::Status(StreamHandle)>& enqueue) override {
    std::lock_guard<std::mutex> lock(mutex_);
    return inner_->RunAndWait(enqueue);
  }
  absl::StatusOr<std::unique_ptr<Measurer>> MakeBackground() override {
    std::lock_guard<std::mutex> lock(mutex_);
    return inner_->MakeBackground();
  }

 private:
  std::mutex mutex_;
  const std::unique_ptr<Measurer> inner_;
};

}  // namespace

std::unique_ptr<Measurer> MakeSerialMeasurer(std::unique_ptr<Measurer> inner) {
  if (inner == nullptr) return nullptr;
  return std::make_unique<SerialMeasurer>(std::move(inner));
}

}  // namespace sinter
