#include "cache/pack/pack_list.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/format.h"
#include "src/base/key_file.h"
#include "src/base/status.h"

namespace sinter {

OpenedPacks OpenPacks(const std::vector<std::string>& paths, const std::vector<PublicKey>& keys,
                      bool allow_unsigned, const LogSink& log) {
  OpenedPacks opened;
  for (const std::string& path : paths) {
    PackOptions options;
    options.path = path;
    options.keys = keys;
    options.allow_unsigned = allow_unsigned;
    auto pack = PackReader::Open(options);
    if (!pack.ok()) {
      ++opened.refused;
      log.Log(LogLevel::kWarn, absl::StrCat("cache: pack refused: ", pack.status().message()));
      continue;
    }
    log.Log(LogLevel::kInfo, absl::StrCat("cache: pack ", path, ": ",
                                          Counted((*pack)->manifest().entries.size(), "record")));
    opened.packs.push_back(*std::move(pack));
  }
  return opened;
}

absl::StatusOr<std::vector<PublicKey>> ReadPublicKeys(const std::string& path) {
  if (path.empty()) return std::vector<PublicKey>();
  SINTER_ASSIGN_OR_RETURN(const std::string pem, ReadKeyFile(path, KeyFileKind::kPublic));
  auto keys = PublicKeysFromPem(pem);
  return keys.ok() ? std::move(keys) : Annotate(keys.status(), absl::StrCat("key file ", path));
}

absl::StatusOr<SigningKey> ReadSigningKey(const std::string& path) {
  SINTER_ASSIGN_OR_RETURN(std::string pem, ReadKeyFile(path, KeyFileKind::kSecret));
  auto key = SigningKey::FromPem(pem);
  for (char& c : pem) *const_cast<volatile char*>(&c) = '\0';
  if (!key.ok()) return Annotate(key.status(), absl::StrCat("key file ", path));
  return key;
}

}  // namespace sinter
