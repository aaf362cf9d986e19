#include "src/base/status.h"
#include "src/standin/stand_in.h"
#include "stand_in_table.h"

namespace sinter {
namespace {

struct Entry {
  const char* name;
  const unsigned char *begin, *end;
};
#define SINTER_ENTRY(name) {#name, stand_in_##name##_begin, stand_in_##name##_end},
// Ends in an entry without a name, since a build may have no other.
constexpr Entry kEntries[] = {SINTER_STAND_IN_TABLE(SINTER_ENTRY){nullptr, nullptr, nullptr}};
#undef SINTER_ENTRY

}  // namespace

int EmbeddedStandIns() { return static_cast<int>(sizeof(kEntries) / sizeof(kEntries[0])) - 1; }

absl::StatusOr<absl::string_view> EmbeddedStandIn(absl::string_view name) {
  for (const Entry* entry = kEntries; entry->name != nullptr; ++entry) {
    if (name != entry->name) continue;
    return CheckStandIn(name, {reinterpret_cast<const char*>(entry->begin),
                               static_cast<size_t>(entry->end - entry->begin)});
  }
  return FailedPrecondition(name, " was not built");
}

}  // namespace sinter
