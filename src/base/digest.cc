#include "src/base/digest.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "src/base/sha256_rounds.h"

#ifdef SINTER_HAVE_LIBCRYPTO
#include <openssl/evp.h>
#endif

namespace sinter {
namespace {

constexpr size_t kBlockBytes = 64;

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
    return absl::InvalidArgumentError(absl::StrCat("digest has ", hex.size(), " digits, not 64"));
  }
  for (size_t i = 0; i < digest.bytes.size(); ++i) {
    const int high = HexValue(hex[2 * i]);
    const int low = HexValue(hex[2 * i + 1]);
    if (high < 0 || low < 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "digest has a character at ", 2 * i + (high < 0 ? 0 : 1), " that is not 0-9 or a-f"));
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
// Fetched once: OpenSSL would look up EVP_sha256() anew for each digest.
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

}  // namespace sinter
