// Fuzz target over canonical bytes: what is accepted is exactly what the chain says of itself.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "src/chain/chain_json.h"

namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto chain = sinter::ChainFromCanonicalBytes(bytes);
  if (!chain.ok()) return 0;
  Require(chain->CanonicalBytes() == bytes);
  const auto back = sinter::ChainFromJson(sinter::ChainToJson(*chain));
  Require(back.ok() && *back == *chain);
  return 0;
}
