// Ed25519 signatures and HMAC-SHA256 behind one header: OpenSSL's libcrypto where the build found
// it. Without it nothing can be signed or proved: every signature is refused.
#ifndef SINTER_SRC_BASE_SIGNING_H_
#define SINTER_SRC_BASE_SIGNING_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/base/digest.h"

namespace sinter {

constexpr size_t kPublicKeyBytes = 32;
constexpr size_t kSignatureBytes = 64;

struct PublicKey {
  std::array<uint8_t, kPublicKeyBytes> bytes{};
  bool operator==(const PublicKey& o) const { return bytes == o.bytes; }
  absl::string_view View() const {  // valid while *this is
    return absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
};

// A secret; its bytes are wiped when it dies. Never printed, never part of an error.
class SigningKey {
 public:
  // "-----BEGIN PRIVATE KEY-----" as `openssl genpkey -algorithm ed25519` writes it.
  // INVALID_ARGUMENT for anything else, UNIMPLEMENTED without libcrypto.
  static absl::StatusOr<SigningKey> FromPem(absl::string_view pem);
  SigningKey(SigningKey&&) = default;
  SigningKey& operator=(SigningKey&&) = default;
  SigningKey(const SigningKey&) = delete;
  SigningKey& operator=(const SigningKey&) = delete;
  ~SigningKey();

  const PublicKey& public_key() const { return public_key_; }
  // 64 bytes.
  absl::StatusOr<std::string> Sign(absl::string_view message) const;

 private:
  SigningKey() = default;
  std::vector<uint8_t> seed_;  // 32 bytes; empty once moved from
  PublicKey public_key_;
};

// One or more "-----BEGIN PUBLIC KEY-----" blocks, as `openssl pkey -pubout` writes them.
// INVALID_ARGUMENT when there is none or one is not Ed25519.
absl::StatusOr<std::vector<PublicKey>> PublicKeysFromPem(absl::string_view pem);

// Takes any bytes; false for what is not a valid signature of `message`.
bool VerifySignature(const PublicKey& key, absl::string_view message, absl::string_view signature);

// RFC 2104.
Digest HmacSha256(absl::string_view key, absl::string_view message);
// In time that does not depend on where they differ.
bool EqualInConstantTime(absl::string_view a, absl::string_view b);

}  // namespace sinter

#endif  // SINTER_SRC_BASE_SIGNING_H_
