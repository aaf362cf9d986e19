// Fuzz target over what comes from other machines: packs, their manifests, RESP answers, remote
// values. The first byte picks the reader: 0 manifest and tail, 1 pack, 2 pack with right hashes, 3
// RESP, 4 remote address and value.
#include "cache/pack/pack.h"
#include "cache/remote/redis.h"
#include "cache/remote/remote_tier.h"
#include "tests/fuzz/reader.h"
#include "tests/fuzz/target.h"
#include "tests/unit/cache/faulty_files.h"

namespace sinter::cache_exchange_fuzz {
namespace {

void ReadManifest(absl::string_view bytes) {
  const auto manifest = sinter::DecodeManifest(bytes);
  if (manifest.ok()) Require(sinter::EncodeManifest(*manifest) == bytes);
  const auto tail = sinter::DecodeTail(bytes, bytes.size());
  if (tail.ok()) Require(sinter::EncodeTail(*tail) == bytes);
}

// A table and a manifest between them, sealed with right hashes, so that the code after the hash
// checks is reached: the first two bytes say where the manifest begins.
std::string Sealed(absl::string_view bytes) {
  if (bytes.size() < 2) return std::string();
  const size_t at = std::min<size_t>(
      bytes.size() - 2, static_cast<uint8_t>(bytes[0]) | static_cast<uint8_t>(bytes[1]) << 8);
  bytes.remove_prefix(2);
  sinter::PackTail tail;
  tail.table_bytes = at;
  tail.manifest_bytes = bytes.size() - at;
  tail.manifest = sinter::Sha256(bytes.substr(at));
  return std::string(bytes) + sinter::EncodeTail(tail);
}

void ReadPack(absl::string_view bytes) {
  sinter::PackOptions options;
  options.path = "pack";
  options.allow_unsigned = true;
  options.ops = std::make_shared<sinter::cache_testing::StringFile>(std::string(bytes));
  const auto pack = sinter::PackReader::Open(options);
  if (!pack.ok()) return;
  for (const sinter::PackEntry& entry : (*pack)->manifest().entries) {
    const auto envelope = (*pack)->ReadEnvelopeBytes(entry.kind, entry.digest);
    const std::string key = (*pack)->PeekKey(entry);
    const sinter::Lookup found = (*pack)->Get(entry.kind, key, entry.digest);
    Require(!found.hit || envelope.ok());
  }
  (void)sinter::VerifyPack(**pack);
}

// However an answer is cut, it is the same answer.
void ReadResp(absl::string_view bytes) {
  sinter::RespSize used, again;
  sinter::RespValue whole, part;
  const sinter::RespState state = sinter::ParseResp(bytes, {}, &used, &whole);
  if (state == sinter::RespState::kDone) {
    Require(used.bytes <= bytes.size());
    Require(sinter::ParseResp(bytes.substr(0, used.bytes), {}, &again, &part) == state &&
            again.bytes == used.bytes && again.items == used.items);
    Require(part.type == whole.type && part.text == whole.text &&
            part.items.size() == whole.items.size());
    for (size_t n = 0; n < std::min<size_t>(used.bytes, 64); ++n) {
      Require(sinter::ParseResp(bytes.substr(0, n), {}, &again, &part) == sinter::RespState::kMore);
    }
  }
}

}  // namespace

SINTER_FUZZ_TARGET(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const absl::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (ReaderOf(data[0], 5)) {
    case 0:
      ReadManifest(bytes);
      break;
    case 1:
      ReadPack(bytes);
      break;
    case 2:
      ReadPack(Sealed(bytes));
      break;
    case 3:
      ReadResp(bytes);
      break;
    default:
      (void)sinter::ParseRemoteAddress(bytes);
      Require(!sinter::OpenValue("a key", "a name", bytes).ok());
      Require(*sinter::OpenValue("a key", "a name", sinter::SealValue("a key", "a name", bytes)) ==
              bytes);
  }
  return 0;
}

}  // namespace sinter::cache_exchange_fuzz
