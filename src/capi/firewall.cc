#include "src/capi/firewall.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "sinter/sinter_experimental.h"
#include "src/base/fork_local.h"
#include "src/base/format.h"
#include "src/capi/objects.h"

namespace sinter::capi {
namespace {

std::unique_ptr<sinter_error> MakeErrorObject(const absl::Status& status) {
  auto object = std::make_unique<sinter_error>();
  object->code = StatusNumber(status);
  object->message = Printable(status.message());
  object->fields = FieldsOf(status);
  for (std::string* text : {&object->fields.field, &object->fields.value, &object->fields.bound}) {
    *text = Printable(*text);
  }
  object->driver_result = DriverResultOf(status);
  std::string storage;
  object->compile_log = std::string(CompileLogOf(status, &storage));
  return object;
}

}  // namespace

sinter_status Report(const absl::Status& status, sinter_error** error) noexcept {
  const sinter_status code = StatusNumber(status);
  if (error == nullptr) return code;
  *error = nullptr;
  try {
    *error = MakeErrorObject(status).release();
  } catch (...) {  // out of memory: only the number is returned
  }
  return code;
}

sinter_status ReportThrown(bool out_of_memory, const char* what, sinter_error** error) noexcept {
  const sinter_status code = out_of_memory ? SINTER_RESOURCE_EXHAUSTED : SINTER_INTERNAL;
  if (error == nullptr) return code;
  *error = nullptr;
  try {
    auto object = std::make_unique<sinter_error>();
    object->code = code;
    object->message = out_of_memory ? "out of memory"
                                    : Printable(std::string("unexpected exception: ") +
                                                (what != nullptr ? what : "not a std::exception"));
    *error = object.release();
  } catch (...) {  // as above
  }
  return code;
}

absl::Status CheckNotNull(const void* pointer, absl::string_view name) {
  if (pointer != nullptr) return absl::OkStatus();
  return WithField(Invalid(name, " is null"), name, "null");
}

namespace {

constexpr uint32_t kSmallest = 8;
constexpr uint32_t kLargest = 4096;

absl::StatusOr<uint32_t> SizeField(const void* object, absl::string_view name) {
  SINTER_RETURN_IF_ERROR(CheckNotNull(object, name));
  uint32_t size = 0;
  std::memcpy(&size, object, sizeof(size));
  if (size >= kSmallest && size <= kLargest) return size;
  return InvalidField(absl::StrCat(name, ".struct_size"), size,
                      absl::StrCat("in [", kSmallest, ", ", kLargest, "]"),
                      "; initialise the struct with SINTER_INIT");
}

}  // namespace

absl::Status CopyIn(const void* from, absl::string_view name, void* to, size_t size) {
  SINTER_ASSIGN_OR_RETURN(const uint32_t given, SizeField(from, name));
  const auto* bytes = static_cast<const unsigned char*>(from);
  for (size_t i = size; i < given; ++i) {
    if (bytes[i] == 0) continue;
    return WithField(Invalid(name, ".struct_size is ", given, " and byte ", i,
                             " is not zero: this library knows ", size, " bytes of the struct"),
                     absl::StrCat(name, ".struct_size"), given);
  }
  std::memcpy(to, from, std::min<size_t>(given, size));
  return absl::OkStatus();
}

absl::Status CopyOut(const void* from, size_t size, absl::string_view name, void* to) {
  SINTER_ASSIGN_OR_RETURN(const uint32_t given, SizeField(to, name));
  auto* bytes = static_cast<unsigned char*>(to);
  std::memcpy(bytes, from, std::min<size_t>(given, size));
  if (given > size) std::memset(bytes + size, 0, given - size);
  std::memcpy(bytes, &given, sizeof(given));
  return absl::OkStatus();
}

absl::Status CheckFlags(uint32_t flags, uint32_t known, absl::string_view name) {
  if ((flags & ~known) == 0) return absl::OkStatus();
  const std::string given = absl::StrCat("0x", absl::Hex(flags));
  const std::string bits = absl::StrCat("0x", absl::Hex(known));
  return WithField(Invalid(name, ".flags is ", given, ", known bits are ", bits),
                   absl::StrCat(name, ".flags"), given, absl::StrCat("known bits are ", bits));
}

absl::Status CheckReserved(int64_t value, absl::string_view name) {
  if (value == 0) return absl::OkStatus();
  return InvalidField(absl::StrCat(name, ".reserved"), value, "0");
}

absl::Status CheckSwitch(sinter_switch value, absl::string_view name) {
  if (value >= SINTER_SWITCH_DEFAULT && value <= SINTER_SWITCH_OFF) return absl::OkStatus();
  return InvalidField(name, value, "a SINTER_SWITCH_* in [0, 2]");
}

absl::Status CopyText(absl::string_view text, size_t capacity, char* buffer, size_t* required) {
  if (capacity > 0) {
    SINTER_RETURN_IF_ERROR(CheckNotNull(buffer, "buffer"));
    const size_t copied = std::min(capacity - 1, text.size());
    std::memcpy(buffer, text.data(), copied);
    buffer[copied] = '\0';
  }
  if (required != nullptr) *required = text.size() + 1;
  return absl::OkStatus();
}

absl::Status CopyDigest(const Digest& digest, uint8_t out_digest[32]) {
  SINTER_RETURN_IF_ERROR(CheckNotNull(out_digest, "out_digest"));
  std::memcpy(out_digest, digest.bytes.data(), digest.bytes.size());
  return absl::OkStatus();
}

namespace {

struct Calls {
  CallPass* first = nullptr;  // of all passes
  std::vector<AnyFunction> ended;
  std::condition_variable changed;
};

// Never destroyed: threads come by until the process is gone.
ForkLocal<Calls, /*kKeep=*/false>& Everybody() {
  static auto* const everybody = new ForkLocal<Calls, /*kKeep=*/false>;
  return *everybody;
}

}  // namespace

CallPass::CallPass(AnyFunction function) : function_(function) {
  auto calls = Everybody().Lock();
  const auto& ended = calls->ended;
  if (std::find(ended.begin(), ended.end(), function) != ended.end()) return;
  inside_ = true;
  next_ = calls->first;
  if (next_ != nullptr) next_->previous_ = this;
  calls->first = this;
}

CallPass::~CallPass() {
  if (!inside_ || owner_ != getpid()) return;  // a child that was forked inside has its own list
  auto calls = Everybody().Lock();
  (previous_ != nullptr ? previous_->next_ : calls->first) = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
  calls->changed.notify_all();
}

bool EndCalls(AnyFunction function) {
  auto calls = Everybody().Lock();
  calls->ended.push_back(function);
  const auto none = [&] {
    for (const CallPass* pass = calls->first; pass != nullptr; pass = pass->next_) {
      if (pass->function_ == function && pass->thread_ != std::this_thread::get_id()) return false;
    }
    return true;
  };
  return calls->changed.wait_for(calls.lock(), std::chrono::seconds(kLongestWaitForCalls), none);
}

absl::Status ThrownBy(absl::string_view name) noexcept {
  try {
    try {
      throw;
    } catch (const std::exception& thrown) {
      return Internal("the ", name, " callback threw: ", thrown.what());
    } catch (...) {
      return Internal("the ", name, " callback threw an object that is not a std::exception");
    }
  } catch (...) {  // out of memory: only the code is returned
    return absl::Status(absl::StatusCode::kInternal, "");
  }
}

}  // namespace sinter::capi

namespace capi = sinter::capi;

extern "C" sinter_status sinter_x_end_calls(sinter_x_function function, sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    if (function == nullptr) {
      return sinter::WithField(sinter::Invalid("function is null"), "function", "null");
    }
    if (capi::EndCalls(function)) return absl::OkStatus();
    return sinter::DeadlineExceeded("a call of the function has not ended after ",
                                    capi::kLongestWaitForCalls, " s: let it return");
  });
}
