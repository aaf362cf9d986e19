// Fuzz target over the build ids of library files: the id that is found is in the file, after the
// name GNU.
#include "absl/strings/escaping.h"
#include "runtime/nvrtc/nvrtc_library.h"
#include "tests/fuzz/target.h"
#include "tests/support/common.h"

namespace sinter::build_id_fuzz {

SINTER_FUZZ_TARGET(const uint8_t* data, size_t size) {
  const std::string elf(reinterpret_cast<const char*>(data), size);
  const std::string id = sinter::BuildIdOf(elf);
  if (id.empty()) return 0;
  const std::string note = absl::StrCat(absl::string_view("GNU\0", 4), absl::HexStringToBytes(id));
  if (!absl::StrContains(elf, note)) std::abort();
  if (absl::BytesToHexString(absl::HexStringToBytes(id)) != id) std::abort();
  return 0;
}

}  // namespace sinter::build_id_fuzz
