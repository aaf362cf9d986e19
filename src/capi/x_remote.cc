// sinter_x_context_create: a context whose remote store is the caller's functions.
#include <algorithm>
#include <chrono>

#include "src/capi/firewall.h"
#include "src/capi/objects.h"

namespace sinter::capi {
namespace {

int64_t MicrosecondsTo(Deadline deadline) {
  const auto left = deadline - std::chrono::steady_clock::now();
  return std::max<int64_t>(0, std::chrono::duration_cast<std::chrono::microseconds>(left).count());
}

absl::Status ToStatus(sinter_status status, const char* call) {
  if (status == SINTER_OK) return absl::OkStatus();
  const std::string text = absl::StrCat("remote: ", call, ": ", sinter_status_name(status));
  if (status == SINTER_DEADLINE_EXCEEDED) return absl::DeadlineExceededError(text);
  return absl::UnavailableError(text);
}

void GiveOne(uintptr_t to, const void* bytes, uint64_t size) {
  *reinterpret_cast<absl::optional<std::string>*>(to) =
      std::string(static_cast<const char*>(bytes), size);
}

void GiveMember(uintptr_t to, const void* bytes, uint64_t size) {
  reinterpret_cast<std::vector<std::string>*>(to)->emplace_back(static_cast<const char*>(bytes),
                                                                size);
}

// What one of the caller's functions returns; INTERNAL when it throws.
template <typename Call>
sinter_status StatusOf(Call&& call) {
  return GuardOr<sinter_status>(SINTER_INTERNAL, call);
}

// The caller's functions as a backend. Thread-safe as they are.
class PluggedBackend : public RemoteBackend {
 public:
  explicit PluggedBackend(const sinter_x_remote_store& store) : store_(store) {}
  ~PluggedBackend() override {
    if (!owned_ || store_.destroy == nullptr) return;
    (void)StatusOf([&] { return store_.destroy(store_.user_data), SINTER_OK; });
  }
  void Own() { owned_ = true; }

  absl::StatusOr<std::vector<absl::optional<std::string>>> GetMany(
      const std::vector<std::string>& names, Deadline deadline) override {
    std::vector<absl::optional<std::string>> values(names.size());
    for (size_t i = 0; i < names.size(); ++i) {
      const sinter_status status = StatusOf([&] {
        return store_.get(store_.user_data, names[i].c_str(), MicrosecondsTo(deadline), GiveOne,
                          reinterpret_cast<uintptr_t>(&values[i]));
      });
      if (status != SINTER_NOT_FOUND) SINTER_RETURN_IF_ERROR(ToStatus(status, "get"));
      if (status == SINTER_NOT_FOUND) values[i].reset();
    }
    return values;
  }
  absl::Status Put(const std::string& name, const std::string& value, int64_t ttl_s, bool replace,
                   Deadline deadline) override {
    const sinter_status status = StatusOf([&] {
      return store_.put(store_.user_data, name.c_str(), value.data(), value.size(), ttl_s,
                        replace ? 1 : 0, MicrosecondsTo(deadline));
    });
    return ToStatus(status, "put");
  }
  absl::StatusOr<bool> TryLease(const std::string& name, const std::string& token, int64_t ttl_ms,
                                Deadline deadline) override {
    if (store_.try_lease == nullptr) return true;
    const sinter_status status = StatusOf([&] {
      return store_.try_lease(store_.user_data, name.c_str(), token.c_str(), ttl_ms,
                              MicrosecondsTo(deadline));
    });
    if (status == SINTER_ALREADY_EXISTS) return false;
    SINTER_RETURN_IF_ERROR(ToStatus(status, "try_lease"));
    return true;
  }
  absl::Status Release(const std::string& name, const std::string& token,
                       Deadline deadline) override {
    if (store_.release == nullptr) return absl::OkStatus();
    const sinter_status status = StatusOf([&] {
      return store_.release(store_.user_data, name.c_str(), token.c_str(),
                            MicrosecondsTo(deadline));
    });
    return ToStatus(status, "release");
  }
  absl::Status AddMember(const std::string& set, const std::string& member, int64_t ttl_s,
                         Deadline deadline) override {
    if (store_.add_member == nullptr) return absl::OkStatus();
    const sinter_status status = StatusOf([&] {
      return store_.add_member(store_.user_data, set.c_str(), member.c_str(), ttl_s,
                               MicrosecondsTo(deadline));
    });
    return ToStatus(status, "add_member");
  }
  absl::StatusOr<std::vector<std::string>> Members(const std::string& set,
                                                   Deadline deadline) override {
    std::vector<std::string> members;
    if (store_.members == nullptr) return members;
    const sinter_status status = StatusOf([&] {
      return store_.members(store_.user_data, set.c_str(), MicrosecondsTo(deadline), GiveMember,
                            reinterpret_cast<uintptr_t>(&members));
    });
    SINTER_RETURN_IF_ERROR(ToStatus(status, "members"));
    return members;
  }

 private:
  const sinter_x_remote_store store_;
  bool owned_ = false;
};

absl::StatusOr<sinter_context*> CreatePlugged(const sinter_context_options* options,
                                              const sinter_x_remote_store* given) {
  SINTER_RETURN_IF_ERROR(CheckNotNull(given, "store"));
  SINTER_ASSIGN_OR_RETURN(const sinter_x_remote_store store, ReadOptions(given, "store", 0));
  if (store.get == nullptr || store.put == nullptr) {
    return absl::InvalidArgumentError("store.get or store.put is null");
  }
  const auto backend = std::make_shared<PluggedBackend>(store);
  SINTER_ASSIGN_OR_RETURN(sinter_context * context, CreateContext(options, backend));
  backend->Own();
  return context;
}

}  // namespace
}  // namespace sinter::capi

namespace capi = sinter::capi;

extern "C" {

sinter_status sinter_x_context_create(const sinter_context_options* options,
                                      const sinter_x_remote_store* store,
                                      sinter_context** out_context, sinter_error** error) {
  return capi::Give(out_context, "out_context", error,
                    [&] { return capi::CreatePlugged(options, store); });
}

}  // extern "C"
