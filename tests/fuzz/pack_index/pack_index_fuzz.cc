// Fuzz target over the table of a pack as LevelDB reads it: footer, index, blocks. The input is a
// table whose bytes nobody vouched for.
#include "cache/store/table.h"
#include "tests/fuzz/target.h"
#include "tests/support/common.h"

namespace sinter::pack_index_fuzz {
SINTER_FUZZ_TARGET(const uint8_t* data, size_t size) {
  const std::string table(reinterpret_cast<const char*>(data), size);
  const auto source = [&](uint64_t offset, char* to, size_t bytes) {
    Require(offset <= table.size() && bytes <= table.size() - offset);  // nothing is asked past it
    std::copy_n(table.data() + offset, bytes, to);
    return absl::OkStatus();
  };
  const auto reader = sinter::TableReader::Open(source, table.size());
  if (!reader.ok()) return 0;
  for (int i = 0; i < 10; ++i) {
    const std::string key = "k/" + std::string(31, 'a') + static_cast<char>('0' + i);
    const auto value = reader->Find(key);
    Require(!value.ok() || value->size() < table.size());
  }
  return 0;
}

}  // namespace sinter::pack_index_fuzz
