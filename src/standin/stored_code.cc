#include "absl/strings/str_cat.h"
#include "src/base/digest.h"
#include "src/base/status.h"
#include "src/standin/stand_in.h"

namespace sinter {

std::string StoredStandIn(absl::string_view cubin) {
  return absl::StrCat(cubin, Sha256(cubin).View());
}

absl::StatusOr<absl::string_view> CheckStandIn(absl::string_view name, absl::string_view stored) {
  const size_t digest = Digest().View().size();
  if (stored.size() > digest) {
    const absl::string_view cubin = stored.substr(0, stored.size() - digest);
    if (Sha256(cubin).View() == stored.substr(cubin.size())) return cubin;
  }
  return DataLoss("the machine code of ", name,
                  ", which is part of libsinter, is damaged: its SHA-256 is not the one that was "
                  "built; install the library again");
}

}  // namespace sinter
