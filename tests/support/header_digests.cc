#include "tests/support/header_digests.h"

#include "src/device/device_library.h"

namespace sinter::testing {
namespace {

void Reach(absl::string_view text, const HeaderMap& all, HeaderMap* reached) {
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const auto header = all.find(IncludedHeader(line));
    if (header != all.end() && reached->insert(*header).second) Reach(header->second, all, reached);
  }
}

}  // namespace

HeaderMap DeviceHeaderMap() {
  size_t count = 0;
  const DeviceHeader* headers = DeviceHeaders(&count);
  HeaderMap library;
  for (size_t i = 0; i < count; ++i) library[headers[i].name] = {headers[i].bytes, headers[i].size};
  return library;
}

HeaderMap ReachedHeaders(absl::string_view source, const HeaderMap& all) {
  HeaderMap reached;
  Reach(source, all, &reached);
  return reached;
}

HeaderDigest DigestOfReached(const HeaderMap& all) {
  return [all](absl::string_view name) {
    if (all.count(name) == 0) return Digest();
    std::string lines;
    for (const auto& [reached, bytes] :
         ReachedHeaders(absl::StrCat("#include \"", name, "\""), all)) {
      absl::StrAppend(&lines, reached, " ", Sha256(bytes).Hex(), "\n");
    }
    return Sha256(lines);
  };
}

}  // namespace sinter::testing
