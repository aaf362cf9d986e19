#include "cache/remote/resolver.h"

#include <netdb.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace sinter {
namespace {

constexpr timespec kLook = {0, 50'000'000};  // between looks at `stop`

// One lookup by a thread of the C library, which keeps pointers to all of this until it is done.
class NameLookup {
 public:
  explicit NameLookup(const RemoteAddress& address)
      : host_(address.host), port_(absl::StrCat(address.port)) {
    hints_.ai_socktype = SOCK_STREAM;
    hints_.ai_flags = AI_ADDRCONFIG | AI_NUMERICSERV;
    request_.ar_name = host_.c_str();
    request_.ar_service = port_.c_str();
    request_.ar_request = &hints_;
  }
  ~NameLookup() {
    if (request_.ar_result != nullptr) freeaddrinfo(request_.ar_result);
  }
  NameLookup(const NameLookup&) = delete;
  NameLookup& operator=(const NameLookup&) = delete;

  bool Start() { return getaddrinfo_a(GAI_NOWAIT, list_, 1, nullptr) == 0; }
  void RunHere() { getaddrinfo(host_.c_str(), port_.c_str(), &hints_, &request_.ar_result); }
  void WaitFor(const timespec& time) { gai_suspend(list_, 1, &time); }
  void Cancel() { gai_cancel(&request_); }
  bool Done() { return gai_error(&request_) != EAI_INPROGRESS; }
  SocketAddress Found() const {
    SocketAddress out;
    if (request_.ar_result == nullptr) return out;
    std::memcpy(&out.storage, request_.ar_result->ai_addr, request_.ar_result->ai_addrlen);
    out.size = request_.ar_result->ai_addrlen;
    return out;
  }

 private:
  const std::string host_, port_;
  addrinfo hints_{};
  gaicb request_{};
  gaicb* list_[1] = {&request_};
};

// Keeps what the C library still works on, until a later lookup finds it done.
void KeepUntilDone(std::unique_ptr<NameLookup> lookup) {
  static std::mutex mutex;
  static auto* const kept = new std::vector<std::unique_ptr<NameLookup>>;  // outlives exit
  std::lock_guard<std::mutex> lock(mutex);
  kept->erase(
      std::remove_if(kept->begin(), kept->end(), [](const auto& one) { return one->Done(); }),
      kept->end());
  kept->push_back(std::move(lookup));
}

}  // namespace

SocketAddress ResolveAddress(const RemoteAddress& address, const std::atomic<bool>& stop) {
  if (!address.path.empty()) return NumericAddress(address);
  auto lookup = std::make_unique<NameLookup>(address);
#if defined(__SANITIZE_THREAD__)  // which crashes in threads that the C library makes for itself
  if (!stop) lookup->RunHere();
  return lookup->Found();
#endif
  if (!lookup->Start()) return SocketAddress();
  while (!stop && !lookup->Done()) lookup->WaitFor(kLook);
  if (!stop) return lookup->Found();
  lookup->Cancel();
  KeepUntilDone(std::move(lookup));
  return SocketAddress();
}

}  // namespace sinter
