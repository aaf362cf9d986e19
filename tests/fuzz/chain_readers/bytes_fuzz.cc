// Fuzz target over canonical bytes: what is accepted is exactly what the chain says of itself.
#include "src/chain/chain.h"
#include "tests/fuzz/target.h"
#include "tests/support/common.h"

namespace sinter::chain_bytes_fuzz {
SINTER_FUZZ_TARGET(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto chain = sinter::ChainFromCanonicalBytes(bytes);
  if (!chain.ok()) return 0;
  Require(chain->CanonicalBytes() == bytes);
  const auto back = sinter::ChainFromJson(sinter::ChainToJson(*chain));
  Require(back.ok() && *back == *chain);
  return 0;
}

}  // namespace sinter::chain_bytes_fuzz
