// SHA-256 behind one header: OpenSSL's libcrypto where the build found it, else the built-in
// fallback.
#ifndef SINTER_SRC_BASE_DIGEST_H_
#define SINTER_SRC_BASE_DIGEST_H_

#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sinter {

struct Digest {
  std::array<uint8_t, 32> bytes{};
  bool operator==(const Digest& o) const { return bytes == o.bytes; }
  bool operator!=(const Digest& o) const { return bytes != o.bytes; }
  bool operator<(const Digest& o) const { return bytes < o.bytes; }
  std::string Hex() const;          // 64 lower-case digits
  absl::string_view View() const {  // the 32 raw bytes; valid while *this is
    return absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  static absl::StatusOr<Digest> FromHex(absl::string_view hex);
  template <typename H>
  friend H AbslHashValue(H h, const Digest& d) {
    return H::combine(std::move(h), d.bytes);
  }
};

Digest Sha256(absl::string_view data);
Digest Sha256Fallback(
    absl::string_view data);  // the plain C++ implementation, exposed for the NIST vectors

}  // namespace sinter

#endif  // SINTER_SRC_BASE_DIGEST_H_
