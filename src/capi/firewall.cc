#include "src/capi/firewall.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "src/base/format.h"
#include "src/capi/objects.h"

namespace sinter::capi {
namespace {

std::unique_ptr<sinter_error> MakeErrorObject(const absl::Status& status) {
  auto object = std::make_unique<sinter_error>();
  object->code = StatusNumber(status);
  object->message = Printable(status.message());
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
  } catch (...) {  // out of memory: the number alone has to do
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
  return absl::InvalidArgumentError(absl::StrCat(name, " is null"));
}

namespace {

constexpr uint32_t kSmallest = 8;
constexpr uint32_t kLargest = 4096;

absl::StatusOr<uint32_t> SizeField(const void* object, absl::string_view name) {
  SINTER_RETURN_IF_ERROR(CheckNotNull(object, name));
  uint32_t size = 0;
  std::memcpy(&size, object, sizeof(size));
  if (size >= kSmallest && size <= kLargest) return size;
  return absl::InvalidArgumentError(absl::StrCat(name, ".struct_size is ", size, ", must be in [",
                                                 kSmallest, ", ", kLargest,
                                                 "]; initialise the struct with SINTER_INIT"));
}

}  // namespace

absl::Status CopyIn(const void* from, absl::string_view name, void* to, size_t size) {
  SINTER_ASSIGN_OR_RETURN(const uint32_t given, SizeField(from, name));
  const auto* bytes = static_cast<const unsigned char*>(from);
  for (size_t i = size; i < given; ++i) {
    if (bytes[i] == 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(name, ".struct_size is ", given, " and byte ", i,
                                                   " is not zero: this library knows ", size,
                                                   " bytes of the struct"));
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
  return absl::InvalidArgumentError(absl::StrCat(name, ".flags is 0x", absl::Hex(flags),
                                                 ", known bits are 0x", absl::Hex(known)));
}

absl::Status CheckReserved(int32_t value, absl::string_view name) {
  if (value == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, ".reserved is ", value, ", must be 0"));
}

absl::Status CheckSwitch(sinter_switch value, absl::string_view name) {
  if (value >= SINTER_SWITCH_DEFAULT && value <= SINTER_SWITCH_OFF) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is ", value, ", must be a SINTER_SWITCH_* in [0, 2]"));
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

}  // namespace sinter::capi
