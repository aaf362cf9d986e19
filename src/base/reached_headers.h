// Which headers of a library a source reaches by #include, and the digest of those.
#ifndef SINTER_SRC_BASE_REACHED_HEADERS_H_
#define SINTER_SRC_BASE_REACHED_HEADERS_H_

#include <map>
#include <string>

#include "absl/strings/string_view.h"
#include "src/base/digest.h"

namespace sinter {

// From the name between an #include's quotes to the header's bytes. Both are views of somebody
// else's memory.
using HeaderMap = std::map<absl::string_view, absl::string_view>;

// The name between the quotes of an #include line; "" for any other line.
absl::string_view IncludedHeader(absl::string_view line);

// Those of `all` that `source` includes, directly or through another. Conditions are not looked at:
// what stands under a false #if is reached too. A name that `all` lacks is left out.
HeaderMap ReachedHeaders(absl::string_view source, const HeaderMap& all);

// For each header of a library the digest of it and of all that it reaches. Immutable: any thread
// may ask. Keeps no pointer into the map.
class HeaderDigests {
 public:
  explicit HeaderDigests(const HeaderMap& all);
  // SHA-256 over names and bytes; all zero for a name that the library lacks.
  Digest Of(absl::string_view header) const;

 private:
  std::map<std::string, Digest, std::less<>> digests_;
};

}  // namespace sinter

#endif  // SINTER_SRC_BASE_REACHED_HEADERS_H_
