// FieldsJson: a struct with a field table (src/base/fields.h) as a JSON object.
#ifndef SINTER_SRC_PLAN_FIELDS_JSON_H_
#define SINTER_SRC_PLAN_FIELDS_JSON_H_

#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>

#include "src/base/fields.h"

namespace sinter {

template <typename Struct>
nlohmann::ordered_json FieldsJson(const Struct& of);

// An enum has its name, a struct with a table is an object.
template <typename Field, typename = void>
struct HasFieldTable : std::false_type {};
template <typename Field>
struct HasFieldTable<Field, std::void_t<decltype(Field::kFieldNames)>> : std::true_type {};

template <typename Field>
nlohmann::ordered_json FieldJson(const Field& field) {
  if constexpr (std::is_enum_v<Field>) {
    return std::string(NameOf(field));
  } else if constexpr (HasFieldTable<Field>::value) {
    return FieldsJson(field);
  } else {
    return field;
  }
}

template <typename Struct>
nlohmann::ordered_json FieldsJson(const Struct& of) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  ForEachField(of, [&](absl::string_view name, const auto& field) {
    json[std::string(name)] = FieldJson(field);
  });
  return json;
}

// An array of such objects.
template <typename Structs>
nlohmann::ordered_json FieldsJsonOfEach(const Structs& structs) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& each : structs) list.push_back(FieldsJson(each));
  return list;
}

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_FIELDS_JSON_H_
