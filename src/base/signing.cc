#include "src/base/signing.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/base/transfer.h"

#ifdef SINTER_HAVE_LIBCRYPTO
#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#endif

namespace sinter {
namespace {

void Wipe(void* bytes, size_t size) {
  auto* at = static_cast<volatile uint8_t*>(bytes);
  for (size_t i = 0; i < size; ++i) at[i] = 0;
}

}  // namespace

#ifdef SINTER_HAVE_LIBCRYPTO
namespace {

template <auto kFree>
struct Freer {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using KeyPtr = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;
using ContextPtr = std::unique_ptr<EVP_MD_CTX, Freer<EVP_MD_CTX_free>>;
using BioPtr = std::unique_ptr<BIO, Freer<BIO_free>>;

const uint8_t* Bytes(absl::string_view text) {
  return reinterpret_cast<const uint8_t*>(text.data());
}

BioPtr Source(absl::string_view text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// An encrypted key is refused rather than asked about on a terminal.
int NoPassword(char*, int, int, void*) { return -1; }

size_t Blocks(absl::string_view pem) {
  constexpr absl::string_view kBegin = "-----BEGIN ";
  size_t count = 0;
  for (size_t at = pem.find(kBegin); at != absl::string_view::npos; at = pem.find(kBegin, at + 1)) {
    ++count;
  }
  return count;
}

bool RawPublic(const EVP_PKEY* key, PublicKey* out) {
  size_t size = out->bytes.size();
  return EVP_PKEY_get_id(key) == EVP_PKEY_ED25519 &&
         EVP_PKEY_get_raw_public_key(key, out->bytes.data(), &size) == 1 &&
         size == out->bytes.size();
}

}  // namespace

absl::StatusOr<SigningKey> SigningKey::FromPem(absl::string_view pem) {
  const BioPtr bio = Source(pem);
  const KeyPtr key(bio ? PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassword, nullptr)
                       : nullptr);
  SigningKey out;
  out.seed_.resize(32);
  size_t size = out.seed_.size();
  const bool good = key != nullptr && RawPublic(key.get(), &out.public_key_) &&
                    EVP_PKEY_get_raw_private_key(key.get(), out.seed_.data(), &size) == 1 &&
                    size == out.seed_.size();
  ERR_clear_error();
  if (good) return out;
  return absl::InvalidArgumentError("signing key: not an unencrypted Ed25519 private key in PEM");
}

absl::StatusOr<std::string> SigningKey::Sign(absl::string_view message) const {
  const KeyPtr key(
      EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, seed_.data(), seed_.size()));
  const ContextPtr context(EVP_MD_CTX_new());
  std::string signature(kSignatureBytes, '\0');
  size_t size = signature.size();
  const bool good = key != nullptr && context != nullptr &&
                    EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
                    EVP_DigestSign(context.get(), reinterpret_cast<uint8_t*>(&signature[0]), &size,
                                   Bytes(message), message.size()) == 1 &&
                    size == signature.size();
  ERR_clear_error();
  if (good) return signature;
  return absl::InternalError("signing failed in libcrypto");
}

absl::StatusOr<std::vector<PublicKey>> PublicKeysFromPem(absl::string_view pem) {
  const BioPtr bio = Source(pem);
  std::vector<PublicKey> keys;
  while (bio != nullptr) {
    const KeyPtr key(PEM_read_bio_PUBKEY(bio.get(), nullptr, NoPassword, nullptr));
    if (key == nullptr) break;
    keys.emplace_back();
    if (RawPublic(key.get(), &keys.back())) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("public keys: number ", keys.size(), " is not Ed25519"));
  }
  ERR_clear_error();
  if (!keys.empty() && keys.size() == Blocks(pem)) return keys;
  return absl::InvalidArgumentError(
      absl::StrCat("public keys: block ", keys.size() + 1, " is not a public key in PEM"));
}

bool VerifySignature(const PublicKey& key, absl::string_view message, absl::string_view signature) {
  const KeyPtr loaded(
      EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, key.bytes.data(), key.bytes.size()));
  const ContextPtr context(EVP_MD_CTX_new());
  const bool good =
      loaded != nullptr && context != nullptr && signature.size() == kSignatureBytes &&
      EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, loaded.get()) == 1 &&
      EVP_DigestVerify(context.get(), Bytes(signature), signature.size(), Bytes(message),
                       message.size()) == 1;
  ERR_clear_error();
  return good;
}

#else

absl::StatusOr<SigningKey> SigningKey::FromPem(absl::string_view) {
  return absl::UnimplementedError("signing key: this build has no libcrypto");
}
absl::StatusOr<std::string> SigningKey::Sign(absl::string_view) const {
  return absl::UnimplementedError("signing: this build has no libcrypto");
}
absl::StatusOr<std::vector<PublicKey>> PublicKeysFromPem(absl::string_view) {
  return absl::UnimplementedError("public keys: this build has no libcrypto");
}
bool VerifySignature(const PublicKey&, absl::string_view, absl::string_view) { return false; }

#endif

SigningKey::~SigningKey() { Wipe(seed_.data(), seed_.size()); }

Digest HmacSha256(absl::string_view key, absl::string_view message) {
  constexpr size_t kBlock = 64;
  std::string padded = key.size() > kBlock ? std::string(Sha256(key).View()) : std::string(key);
  padded.resize(kBlock, '\0');
  std::string inner = padded, outer = padded;
  for (char& c : inner) c = static_cast<char>(c ^ 0x36);
  for (char& c : outer) c = static_cast<char>(c ^ 0x5c);
  const size_t secret = inner.size();
  inner.append(message.data(), message.size());
  const Digest digest = Sha256(inner);
  outer.append(digest.View().data(), digest.View().size());
  const Digest result = Sha256(outer);
  for (std::string* bytes : {&padded, &inner, &outer}) Wipe(&(*bytes)[0], secret);
  return result;
}

bool EqualInConstantTime(absl::string_view a, absl::string_view b) {
  if (a.size() != b.size()) return false;
  uint8_t difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference = static_cast<uint8_t>(difference | (a[i] ^ b[i]));
  }
  return difference == 0;
}

namespace {

constexpr off_t kMostBytes = 64 << 10;

absl::Status FromErrno(const std::string& name, const char* call) {
  const int error = errno;
  const std::string text = absl::StrCat(name, ": ", call, ": ", strerror(error));
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(text);
  if (error == EACCES || error == EPERM) return absl::PermissionDeniedError(text);
  return absl::UnavailableError(text);
}

// `name`: what the file is called in errors.
absl::Status CheckAccess(const struct stat& st, const std::string& name, KeyFileKind kind) {
  const auto refuse = [&](absl::string_view why) {
    return absl::PermissionDeniedError(absl::StrCat(name, ": ", why));
  };
  const absl::Status trusted = CheckTrustedFile(st);
  if (!trusted.ok()) return refuse(trusted.message());
  if (kind == KeyFileKind::kSecret && (st.st_mode & S_IRWXO) != 0) {
    return refuse("readable by others; chmod o-rwx it");
  }
  if (st.st_size <= 0 || st.st_size > kMostBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": ", st.st_size, " bytes, allowed 1..", kMostBytes));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadOpen(int fd, const std::string& name, KeyFileKind kind) {
  struct stat st;
  if (fstat(fd, &st) != 0) return FromErrno(name, "stat");
  SINTER_RETURN_IF_ERROR(CheckAccess(st, name, kind));
  std::string bytes(static_cast<size_t>(st.st_size), '\0');
  if (!ReadAll(fd, &bytes)) return FromErrno(name, "read");
  return bytes;
}

}  // namespace

absl::Status CheckTrustedFile(const struct stat& info) {
  if (!S_ISREG(info.st_mode)) return absl::PermissionDeniedError("not a regular file");
  if (info.st_uid != geteuid() && info.st_uid != 0) {
    return absl::PermissionDeniedError("owned by another user");
  }
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return absl::PermissionDeniedError("writable by group or others");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadKeyFile(const std::string& path, KeyFileKind kind,
                                        absl::string_view what) {
  const std::string name = absl::StrCat(what, " ", path);
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return FromErrno(name, "open");
  absl::StatusOr<std::string> bytes = ReadOpen(fd, name, kind);
  close(fd);
  return bytes;
}

}  // namespace sinter
