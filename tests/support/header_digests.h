// Which headers of a library a source reaches by #include, and the digests of those: what the build
// embeds, computed a second time, and of libraries that were changed.
#pragma once

#include "src/base/digest.h"
#include "src/plan/kernel_code.h"
#include "tests/support/common.h"

namespace sinter::testing {

// From the name between an #include's quotes to the header's bytes. Both are views of somebody
// else's memory.
using HeaderMap = std::map<absl::string_view, absl::string_view>;

// The embedded device library. Points into static storage.
HeaderMap DeviceHeaderMap();

// The headers of `all` that `source` includes, directly or through another. Conditions are ignored:
// what stands under a false #if is reached too. A name that `all` lacks is left out.
HeaderMap ReachedHeaders(absl::string_view source, const HeaderMap& all);

// As device_library.h says; all zero for a name that the library lacks. Keeps a copy of `all`.
HeaderDigest DigestOfReached(const HeaderMap& all);

}  // namespace sinter::testing
