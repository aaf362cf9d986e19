#include "src/base/digest.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
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

constexpr size_t kBlockBytes = 64;

// FIPS 180-4, sections 4.2.2 (of the rounds) and 5.3.3 (the start).
constexpr uint32_t kSha256Round[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

constexpr uint32_t kSha256Start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

uint32_t RotateRight(uint32_t x, int n) { return (x >> n) | (x << (32 - n)); }

uint32_t LoadBigEndian(const uint8_t* p) {
  return (uint32_t{p[0]} << 24) | (uint32_t{p[1]} << 16) | (uint32_t{p[2]} << 8) | uint32_t{p[3]};
}

void StoreBigEndian(uint32_t v, uint8_t* p) {
  for (int i = 0; i < 4; ++i) p[i] = static_cast<uint8_t>(v >> (24 - 8 * i));
}

void ExpandSchedule(const uint8_t* block, uint32_t w[64]) {
  for (int i = 0; i < 16; ++i) w[i] = LoadBigEndian(block + 4 * i);
  for (int i = 16; i < 64; ++i) {
    const uint32_t s0 = RotateRight(w[i - 15], 7) ^ RotateRight(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const uint32_t s1 = RotateRight(w[i - 2], 17) ^ RotateRight(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
}

void Compress(const uint8_t* block, std::array<uint32_t, 8>& state) {
  uint32_t w[64];
  ExpandSchedule(block, w);
  uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
  uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
  for (int i = 0; i < 64; ++i) {
    const uint32_t s1 = RotateRight(e, 6) ^ RotateRight(e, 11) ^ RotateRight(e, 25);
    const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kSha256Round[i] + w[i];
    const uint32_t s0 = RotateRight(a, 2) ^ RotateRight(a, 13) ^ RotateRight(a, 22);
    const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + t2;
  }
  const uint32_t out[8] = {a, b, c, d, e, f, g, h};
  for (int i = 0; i < 8; ++i) state[i] += out[i];
}

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

std::string Digest::Hex() const {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex(2 * bytes.size(), '0');
  for (size_t i = 0; i < bytes.size(); ++i) {
    hex[2 * i] = kDigits[bytes[i] >> 4];
    hex[2 * i + 1] = kDigits[bytes[i] & 15];
  }
  return hex;
}

absl::StatusOr<Digest> Digest::FromHex(absl::string_view hex) {
  Digest digest;
  if (hex.size() != 2 * digest.bytes.size()) {
    return Invalid("digest has ", hex.size(), " digits, not 64");
  }
  for (size_t i = 0; i < digest.bytes.size(); ++i) {
    const int high = HexValue(hex[2 * i]);
    const int low = HexValue(hex[2 * i + 1]);
    if (high < 0 || low < 0) {
      return Invalid("digest has a character at ", 2 * i + (high < 0 ? 0 : 1),
                     " that is not 0-9 or a-f");
    }
    digest.bytes[i] = static_cast<uint8_t>(high * 16 + low);
  }
  return digest;
}

Digest Sha256Fallback(absl::string_view data) {
  std::array<uint32_t, 8> state;
  std::copy(std::begin(kSha256Start), std::end(kSha256Start), state.begin());
  const auto* bytes = reinterpret_cast<const uint8_t*>(data.data());
  const size_t whole = data.size() / kBlockBytes * kBlockBytes;
  for (size_t at = 0; at < whole; at += kBlockBytes) Compress(bytes + at, state);

  uint8_t tail[2 * kBlockBytes] = {};
  const size_t rest = data.size() - whole;
  if (rest > 0) std::memcpy(tail, bytes + whole, rest);
  tail[rest] = 0x80;
  const size_t padded = rest + 9 <= kBlockBytes ? kBlockBytes : 2 * kBlockBytes;
  const uint64_t bits = static_cast<uint64_t>(data.size()) * 8;
  StoreBigEndian(static_cast<uint32_t>(bits >> 32), tail + padded - 8);
  StoreBigEndian(static_cast<uint32_t>(bits), tail + padded - 4);
  for (size_t at = 0; at < padded; at += kBlockBytes) Compress(tail + at, state);

  Digest digest;
  for (int i = 0; i < 8; ++i) StoreBigEndian(state[i], digest.bytes.data() + 4 * i);
  return digest;
}

#ifdef SINTER_HAVE_LIBCRYPTO
// Fetched once: OpenSSL would look up EVP_sha256() again for each digest.
const EVP_MD* Sha256Method() {
#if OPENSSL_VERSION_NUMBER >= 0x30000000L
  static const EVP_MD* const fetched = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  if (fetched != nullptr) return fetched;
#endif
  return EVP_sha256();
}
#endif

Digest Sha256(absl::string_view data) {
#ifdef SINTER_HAVE_LIBCRYPTO
  Digest digest;
  unsigned int size = 0;
  if (EVP_Digest(data.data(), data.size(), digest.bytes.data(), &size, Sha256Method(), nullptr) ==
          1 &&
      size == digest.bytes.size()) {
    return digest;
  }
#endif
  return Sha256Fallback(data);
}

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
  return Invalid("signing key: not an unencrypted Ed25519 private key in PEM");
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
  return Internal("signing failed in libcrypto");
}

absl::StatusOr<std::vector<PublicKey>> PublicKeysFromPem(absl::string_view pem) {
  const BioPtr bio = Source(pem);
  std::vector<PublicKey> keys;
  while (bio != nullptr) {
    const KeyPtr key(PEM_read_bio_PUBKEY(bio.get(), nullptr, NoPassword, nullptr));
    if (key == nullptr) break;
    keys.emplace_back();
    if (RawPublic(key.get(), &keys.back())) continue;
    return Invalid("public keys: number ", keys.size(), " is not Ed25519");
  }
  ERR_clear_error();
  if (!keys.empty() && keys.size() == Blocks(pem)) return keys;
  return Invalid("public keys: block ", keys.size() + 1, " is not a public key in PEM");
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
  if (error == ENOENT || error == ENOTDIR) return NotFound(text);
  if (error == EACCES || error == EPERM) return PermissionDenied(text);
  return Unavailable(text);
}

// `name`: what the file is called in errors.
absl::Status CheckAccess(const struct stat& st, const std::string& name, KeyFileKind kind) {
  const auto refuse = [&](absl::string_view why) { return PermissionDenied(name, ": ", why); };
  const absl::Status trusted = CheckTrustedFile(st);
  if (!trusted.ok()) return refuse(trusted.message());
  if (kind == KeyFileKind::kSecret && (st.st_mode & S_IRWXO) != 0) {
    return refuse("readable by others; chmod o-rwx it");
  }
  if (st.st_size <= 0 || st.st_size > kMostBytes) {
    return Invalid(name, ": ", st.st_size, " bytes, allowed 1..", kMostBytes);
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
  if (!S_ISREG(info.st_mode)) return PermissionDenied("not a regular file");
  if (info.st_uid != geteuid() && info.st_uid != 0) {
    return PermissionDenied("owned by another user");
  }
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return PermissionDenied("writable by group or others");
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
