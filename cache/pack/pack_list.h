// PackList: the packs of a context, opened in order.
#ifndef SINTER_CACHE_PACK_PACK_LIST_H_
#define SINTER_CACHE_PACK_PACK_LIST_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cache/pack/pack_reader.h"
#include "src/base/log.h"
#include "src/base/signing.h"

namespace sinter {

using PackList = std::vector<std::shared_ptr<const PackReader>>;

struct OpenedPacks {
  PackList packs;
  uint64_t refused = 0;
};

// Never fails: a pack that cannot be opened is refused with one warning that says why, and the rest
// serve.
OpenedPacks OpenPacks(const std::vector<std::string>& paths, const std::vector<PublicKey>& keys,
                      bool allow_unsigned, const LogSink& log);

// The public keys of a PEM file; none for "". Errors as ReadKeyFile and PublicKeysFromPem.
absl::StatusOr<std::vector<PublicKey>> ReadPublicKeys(const std::string& path);
absl::StatusOr<SigningKey> ReadSigningKey(const std::string& path);

}  // namespace sinter

#endif  // SINTER_CACHE_PACK_PACK_LIST_H_
