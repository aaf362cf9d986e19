// FakePeerMemory: a GPU's memory on the host, with what can go wrong; and an all-gather of threads.
#pragma once

#include "src/base/peer_memory.h"
#include "src/engine/rank_group.h"
#include "tests/support/common.h"

namespace sinter {

class FakePeerMemory : public PeerMemory {
 public:
  explicit FakePeerMemory(int device) : uuid(static_cast<uint8_t>(device)) {}
  // Knobs.
  uint8_t uuid;
  bool out_of_memory = false, opens = true, pushes = true, closes_late = false;
  RoomSharing shared = RoomSharing::kNone;  // what was asked for last
  int offers = 0;

  // Counts over all fakes: allocations that were not freed; how often peers were reached.
  static int Live() { return live_; }
  static int Reached() { return reached_; }
  // How often memory was freed that another one had open.
  static int FreedWhileOpen() { return freed_while_open_; }

  absl::StatusOr<std::array<uint8_t, 16>> DeviceUuid() const override {
    std::array<uint8_t, 16> bytes{};
    bytes[3] = uuid;
    return bytes;
  }
  absl::StatusOr<DevicePtr> Allocate(uint64_t bytes, RoomSharing sharing) override {
    shared = sharing;
    if (out_of_memory) return absl::ResourceExhaustedError("no memory here");
    ++live_;
    return reinterpret_cast<uintptr_t>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  }
  void Free(DevicePtr pointer) override {
    --live_;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (open_[pointer] > 0) ++freed_while_open_;
    open_.erase(pointer);
    std::free(At(pointer));
  }
  absl::StatusOr<HostWords> AllocateWords() override {
    ++live_;
    auto* words = static_cast<uint32_t*>(std::calloc(2, sizeof(uint32_t)));
    return HostWords{words, reinterpret_cast<uintptr_t>(words)};
  }
  void FreeWords(const HostWords& words) override {
    --live_;
    std::free(words.host);
  }
  absl::Status Offer(DevicePtr, const Handle&) override {
    ++offers;
    return absl::OkStatus();
  }
  absl::StatusOr<Handle> Export(DevicePtr allocated) override {
    Handle handle{};
    std::memcpy(handle.data(), &allocated, sizeof(allocated));
    return handle;
  }
  absl::StatusOr<DevicePtr> Open(const Handle& handle) override {
    if (!opens) return absl::InternalError("cannot open");
    ++live_;
    DevicePtr pointer = 0;
    std::memcpy(&pointer, handle.data(), sizeof(pointer));
    const std::lock_guard<std::mutex> lock(mutex_);
    ++open_[pointer];
    return pointer;
  }
  void Close(DevicePtr opened) override {
    --live_;
    if (closes_late) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = open_.find(opened);
    if (found != open_.end()) --found->second;
  }
  absl::Status Reach(const PeerMemory&) override {
    ++reached_;
    return absl::OkStatus();
  }
  absl::Status Fill(DevicePtr to, uint8_t byte, uint64_t bytes) override {
    std::memset(At(to), byte, bytes);
    return absl::OkStatus();
  }
  absl::Status Upload(DevicePtr to, const void* from, uint64_t bytes) override {
    std::memcpy(At(to), from, bytes);
    return absl::OkStatus();
  }
  absl::Status Download(void* to, DevicePtr from, uint64_t bytes) override {
    std::memcpy(to, At(from), bytes);
    return absl::OkStatus();
  }
  absl::Status Push(DevicePtr to, DevicePtr from, uint64_t bytes) override {
    if (pushes) std::memcpy(At(to), At(from), bytes);
    return absl::OkStatus();
  }

 private:
  static void* At(DevicePtr pointer) { return reinterpret_cast<void*>(pointer); }
  static inline std::atomic<int> live_{0}, reached_{0}, freed_while_open_{0};
  static inline std::mutex mutex_;
  static inline std::map<DevicePtr, int> open_;
};

// An all-gather between threads. Thread-safe; rank r calls ExchangeOf(r).
class Gathering {
 public:
  explicit Gathering(int size) : parts_(static_cast<size_t>(size)) {}

  Exchange ExchangeOf(int rank) {
    return [this, rank](const void* send, size_t bytes, void* recv) {
      std::unique_lock<std::mutex> lock(mutex_);
      const auto* from = static_cast<const char*>(send);
      parts_[static_cast<size_t>(rank)].assign(from, from + bytes);
      const int round = round_;
      if (++arrived_ == static_cast<int>(parts_.size())) {
        whole_.clear();
        for (const auto& part : parts_) whole_.insert(whole_.end(), part.begin(), part.end());
        arrived_ = 0;
        ++round_;
        all_.notify_all();
      } else {
        all_.wait(lock, [&] { return round_ != round; });
      }
      std::memcpy(recv, whole_.data(), whole_.size());
      return absl::OkStatus();
    };
  }

 private:
  std::mutex mutex_;
  std::condition_variable all_;
  std::vector<std::vector<char>> parts_;
  std::vector<char> whole_;
  int arrived_ = 0, round_ = 0;
};

}  // namespace sinter
