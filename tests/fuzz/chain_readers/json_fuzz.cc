// Fuzz target over the JSON form: what is accepted reads back from its own JSON and bytes as the
// same chain.
#include "src/chain/chain.h"
#include "src/product/matcher.h"
#include "tests/fuzz/target.h"
#include "tests/support/common.h"

namespace sinter::chain_json_fuzz {
SINTER_FUZZ_TARGET(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const auto chain = sinter::ChainFromJson(text);
  if (!chain.ok()) {
    Require(!chain.status().message().empty());
    return 0;
  }
  const std::string json = sinter::ChainToJson(*chain);
  const auto back = sinter::ChainFromJson(json);
  Require(back.ok() && *back == *chain && back->InputOrder() == chain->InputOrder());
  Require(sinter::ChainToJson(*back) == json);
  const auto decoded = sinter::ChainFromCanonicalBytes(chain->CanonicalBytes());
  Require(decoded.ok() && *decoded == *chain);
  (void)sinter::MatchProducts(*chain);
  return 0;
}

}  // namespace sinter::chain_json_fuzz
