// Field tables: a struct names its fields once. Equality follows here, bytes in codec.h, and JSON
// in src/plan/fields_json.h.
//
//   struct BufferPlace {
//     int buffer = 0;
//     uint64_t offset_bytes = 0;
//     SINTER_FIELDS(BufferPlace, buffer, offset_bytes);
//   };
//
// Bytes and JSON have the order of the list.
#ifndef SINTER_SRC_BASE_FIELDS_H_
#define SINTER_SRC_BASE_FIELDS_H_

#include <algorithm>
#include <type_traits>

#include "absl/strings/string_view.h"

// Does not compile unless it names as many fields as the struct has: the structured binding in
// EveryFieldIsNamed counts them. The rest are templates: a file that includes the struct and does
// not compare it compiles none of it.
#define SINTER_FIELDS(Self, ...)                                                         \
  template <typename Visitor>                                                            \
  decltype(auto) WithFields(Visitor&& visit) const {                                     \
    return visit(__VA_ARGS__);                                                           \
  }                                                                                      \
  template <typename Visitor>                                                            \
  decltype(auto) WithFields(Visitor&& visit) {                                           \
    return visit(__VA_ARGS__);                                                           \
  }                                                                                      \
  static void EveryFieldIsNamed(const Self& self) {                                      \
    [[maybe_unused]] const auto& [__VA_ARGS__] = self;                                   \
  }                                                                                      \
  template <typename Other,                                                              \
            std::enable_if_t<std::is_convertible_v<const Other&, const Self&>, int> = 0> \
  friend bool operator==(const Self& a, const Other& b) {                                \
    return ::sinter::SameFields<Self>(a, b);                                             \
  }                                                                                      \
  template <typename Other,                                                              \
            std::enable_if_t<std::is_convertible_v<const Other&, const Self&>, int> = 0> \
  friend bool operator!=(const Self& a, const Other& b) {                                \
    return !::sinter::SameFields<Self>(a, b);                                            \
  }                                                                                      \
  static constexpr char kFieldNames[] = #__VA_ARGS__

namespace sinter {

// Removes the first name of "buffer, offset_bytes" and returns it.
inline absl::string_view TakeFieldName(absl::string_view* names) {
  const absl::string_view name = names->substr(0, names->find(','));
  names->remove_prefix(std::min(name.size() + 2, names->size()));
  return name;
}

// Calls visit(name, field) for each field of a struct with a table, in the order of the table.
template <typename Struct, typename Visitor>
void ForEachField(Struct& of, Visitor&& visit) {
  absl::string_view names = Struct::kFieldNames;
  of.WithFields([&](auto&... fields) { (visit(TakeFieldName(&names), fields), ...); });
}

template <typename Struct>
bool SameFields(const Struct& a, const Struct& b) {
  return a.WithFields([&](const auto&... of_a) {
    return b.WithFields([&](const auto&... of_b) { return ((of_a == of_b) && ...); });
  });
}

}  // namespace sinter

#endif  // SINTER_SRC_BASE_FIELDS_H_
