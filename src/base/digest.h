// SHA-256 with one interface: OpenSSL's libcrypto if the build found it, else the built-in
// fallback.
#ifndef SINTER_SRC_BASE_DIGEST_H_
#define SINTER_SRC_BASE_DIGEST_H_

#include <sys/stat.h>

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

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

// Ed25519 signatures and HMAC-SHA256 with one interface: OpenSSL's libcrypto if the build found
// it. Without it nothing can be signed or proved: every signature is refused.

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

// Takes any bytes; false if they are not a valid signature of `message`.
bool VerifySignature(const PublicKey& key, absl::string_view message, absl::string_view signature);

// RFC 2104.
Digest HmacSha256(absl::string_view key, absl::string_view message);
// In time that does not depend on where they differ.
bool EqualInConstantTime(absl::string_view a, absl::string_view b);

// Key files: secrets, public keys and what else must be trusted come from files whose access is
// checked, as ssh does.

enum class KeyFileKind {
  kSecret,  // others may neither read nor write it, the group may not write it
  kPublic,  // neither group nor others may write it
};

// OK when an open file is owned by us or root and neither group nor others may write it, so that
// its content can be trusted. PERMISSION_DENIED with the reason, without the path.
absl::Status CheckTrustedFile(const struct stat& info);

// The whole file, at most 64 KiB. Its owner must be we or root. PERMISSION_DENIED, NOT_FOUND,
// INVALID_ARGUMENT (empty or too large), UNAVAILABLE; the message names the path, never the
// content, and calls it `what`.
absl::StatusOr<std::string> ReadKeyFile(const std::string& path, KeyFileKind kind,
                                        absl::string_view what = "key file");

}  // namespace sinter

#endif  // SINTER_SRC_BASE_DIGEST_H_
