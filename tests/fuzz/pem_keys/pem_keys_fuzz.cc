// Fuzz target over keys in PEM. The first byte picks the reader: 0 a private key, 1 public keys.
// Accepted input is a key: it signs and verifies, and written again it reads as itself.
#include "absl/strings/escaping.h"
#include "src/base/digest.h"
#include "tests/fuzz/reader.h"
#include "tests/fuzz/target.h"

namespace sinter::pem_keys_fuzz {
namespace {

void ReadPrivate(absl::string_view pem) {
  const auto key = sinter::SigningKey::FromPem(pem);
  if (!key.ok()) return;
  const auto signature = key->Sign("message");
  Require(signature.ok());
  Require(sinter::VerifySignature(key->public_key(), "message", *signature));
  Require(!sinter::VerifySignature(key->public_key(), "another", *signature));
}

void ReadPublic(absl::string_view pem) {
  const auto keys = sinter::PublicKeysFromPem(pem);
  if (!keys.ok()) return;
  Require(!keys->empty());
  std::string written;
  for (const sinter::PublicKey& key : *keys) {
    const std::string head = absl::HexStringToBytes("302a300506032b6570032100");
    absl::StrAppend(&written, "-----BEGIN PUBLIC KEY-----\n",
                    absl::Base64Escape(absl::StrCat(head, key.View())),
                    "\n-----END PUBLIC KEY-----\n");
  }
  const auto again = sinter::PublicKeysFromPem(written);
  Require(again.ok() && again->size() == keys->size());
  for (size_t i = 0; i < keys->size(); ++i) Require((*again)[i].View() == (*keys)[i].View());
}

}  // namespace

SINTER_FUZZ_TARGET(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const absl::string_view pem(reinterpret_cast<const char*>(data + 1), size - 1);
  ReaderOf(data[0], 2) == 0 ? ReadPrivate(pem) : ReadPublic(pem);
  return 0;
}

}  // namespace sinter::pem_keys_fuzz
