// JsonStream: reads untrusted JSON whose top level is one object of scalars and arrays, one element
// of an array at a time. JsonObject: one such element.
#ifndef SINTER_SRC_CHAIN_JSON_STREAM_H_
#define SINTER_SRC_CHAIN_JSON_STREAM_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "src/base/refusal.h"
#include "src/base/status.h"
#include "src/chain/tensor_type.h"

namespace sinter {

struct JsonBounds {
  size_t bytes = size_t{64} << 20;
  int depth = 8;
  size_t elements = size_t{1} << 16;  // of one array of the top level
  size_t values = 1024;               // in one element, itself included
  size_t string = 4096;               // bytes of a key or a string
};

// Receives the values that are read. A method that returns an error ends the reading.
class JsonConsumer {
 public:
  virtual ~JsonConsumer() = default;
  // A key of the top level: whether its value is an array.
  virtual absl::StatusOr<bool> TakesArray(const std::string& key) = 0;
  // The value of a key that takes no array; an object or array comes empty.
  virtual absl::Status Scalar(const std::string& key, const nlohmann::json& value) = 0;
  // Element `index` of the array of `key`.
  virtual absl::Status Element(const std::string& key, size_t index,
                               const nlohmann::json& element) = 0;
};

// Time and memory are linear in the text: nothing is kept but the element that is being read.
// INVALID_ARGUMENT naming line and column (from 1, in bytes) where the text is no JSON or a bound
// is passed, and the bound; else what the consumer says.
absl::Status StreamJson(absl::string_view text, const JsonBounds& bounds, JsonConsumer* consumer);

// At most 40 bytes of `text`, printable.
std::string PrintableJson(absl::string_view text);

// INVALID_ARGUMENT "PATH: is VALUE, must be BOUND"; without a value "PATH: must be BOUND".
template <typename Value>
absl::Status InvalidJson(absl::string_view path, const Value& value, const absl::AlphaNum& bound) {
  return WithField(Invalid(path, ": is ", value, ", must be ", bound), path, value, bound);
}
inline absl::Status InvalidJson(absl::string_view path, absl::string_view bound) {
  return WithField(Invalid(path, ": must be ", bound), path, "", bound);
}
inline absl::Status UnknownKey(absl::string_view path) {
  return WithField(Invalid(path, ": unknown key"), path);
}
inline absl::Status MissingJson(absl::string_view path) {
  return WithField(Invalid(path, ": missing"), path);
}

// One JSON object at a path: typed access to its keys, and no others.
class JsonObject {
 public:
  // To 32 bits, the nearest value that fits: what is out of range stays so.
  static int32_t Narrow(int64_t v) {
    return static_cast<int32_t>(std::clamp<int64_t>(v, INT32_MIN, INT32_MAX));
  }

  static absl::StatusOr<int64_t> IntegerAt(const nlohmann::json& value, const std::string& where) {
    constexpr int64_t kLimit = int64_t{1} << 53;
    if (value.is_number_unsigned() && value.get<uint64_t>() <= static_cast<uint64_t>(kLimit)) {
      return static_cast<int64_t>(value.get<uint64_t>());
    }
    if (value.is_number_integer() && !value.is_number_unsigned() &&
        value.get<int64_t>() >= -kLimit) {
      return value.get<int64_t>();
    }
    return InvalidJson(where, "an integer of at most 2^53");
  }

  JsonObject(const nlohmann::json& json, std::string path) : json_(json), path_(std::move(path)) {}

  std::string At(absl::string_view key) const { return absl::StrCat(path_, ".", key); }
  bool Has(const char* key) const { return json_.contains(key); }

  absl::Status CheckObject() const {
    if (json_.is_object()) return absl::OkStatus();
    return InvalidJson(path_, "an object");
  }
  absl::Status CheckKeys(const std::set<std::string>& allowed) const {
    SINTER_RETURN_IF_ERROR(CheckObject());
    for (auto it = json_.begin(); it != json_.end(); ++it) {
      if (allowed.count(it.key()) == 0) return UnknownKey(At(PrintableJson(it.key())));
    }
    return absl::OkStatus();
  }
  absl::StatusOr<const nlohmann::json*> Array(const char* key, size_t most) const {
    if (!Has(key)) return MissingJson(At(key));
    const nlohmann::json& value = json_[key];
    if (!value.is_array()) return InvalidJson(At(key), "an array");
    if (value.size() > most) {
      return WithField(
          Invalid(At(key), ": has ", value.size(), " elements, must have at most ", most), At(key),
          value.size(), absl::StrCat("at most ", most));
    }
    return &value;
  }
  absl::StatusOr<std::string> Text(const char* key) const {
    if (!Has(key)) return MissingJson(At(key));
    if (!json_[key].is_string()) return InvalidJson(At(key), "a string");
    return json_[key].get<std::string>();
  }
  absl::StatusOr<bool> Flag(const char* key) const {
    if (!Has(key)) return false;
    if (!json_[key].is_boolean()) return InvalidJson(At(key), "true or false");
    return json_[key].get<bool>();
  }
  absl::StatusOr<int64_t> Integer(const char* key) const {
    if (!Has(key)) return MissingJson(At(key));
    return IntegerAt(json_[key], At(key));
  }
  template <typename T>
  absl::StatusOr<std::vector<T>> Integers(const char* key, size_t most) const {
    SINTER_ASSIGN_OR_RETURN(const nlohmann::json* array, Array(key, most));
    std::vector<T> result;
    for (const nlohmann::json& element : *array) {
      SINTER_ASSIGN_OR_RETURN(int64_t v,
                              IntegerAt(element, absl::StrCat(At(key), "[", result.size(), "]")));
      result.push_back(sizeof(T) < sizeof(v) ? Narrow(v) : v);
    }
    return result;
  }
  absl::StatusOr<double> Number(const char* key) const {
    if (!Has(key)) return MissingJson(At(key));
    const nlohmann::json& value = json_[key];
    if (value.is_number()) return value.get<double>();
    if (value == "inf") return HUGE_VAL;
    if (value == "-inf") return -HUGE_VAL;
    return InvalidJson(At(key), "a number, \"inf\" or \"-inf\"");
  }
  absl::StatusOr<std::vector<Dim>> Dims(const char* key) const {
    SINTER_ASSIGN_OR_RETURN(const nlohmann::json* array, Array(key, kMaxRank));
    std::vector<Dim> dims;
    for (const nlohmann::json& element : *array) {
      if (element == "M") {
        dims.push_back(Dim::M());
        continue;
      }
      const std::string where = absl::StrCat(At(key), "[", dims.size(), "]");
      if (!element.is_number_integer()) return InvalidJson(where, "an integer or \"M\"");
      SINTER_ASSIGN_OR_RETURN(int64_t v, IntegerAt(element, where));
      dims.push_back(Dim::Constant(v));
    }
    return dims;
  }
  absl::StatusOr<std::vector<Stride>> Strides(const char* key) const {
    std::vector<Stride> strides;
    if (!Has(key)) return strides;
    SINTER_ASSIGN_OR_RETURN(const nlohmann::json* array, Array(key, kMaxRank));
    for (const nlohmann::json& element : *array) {
      SINTER_ASSIGN_OR_RETURN(Stride s,
                              StrideAt(element, absl::StrCat(At(key), "[", strides.size(), "]")));
      strides.push_back(s);
    }
    return strides;
  }
  absl::StatusOr<DType> Type(const char* key) const {
    SINTER_ASSIGN_OR_RETURN(std::string name, Text(key));
    absl::StatusOr<DType> dtype = ParseDType(name);
    if (!dtype.ok()) {
      return InvalidJson(At(key), PrintableJson(name), DTypeNames());
    }
    return dtype;
  }
  template <typename Kind>
  absl::Status ReadKind(absl::StatusOr<Kind> (*parse)(absl::string_view), const char* key,
                        Kind* out) const {
    SINTER_ASSIGN_OR_RETURN(std::string name, Text(key));
    absl::StatusOr<Kind> kind = parse(PrintableJson(name));
    if (!kind.ok()) return WithField(Annotate(kind.status(), At(key)), At(key));
    *out = *kind;
    return absl::OkStatus();
  }

 private:
  // An integer, "M", "8*M" or "8*M^2".
  static absl::StatusOr<Stride> StrideAt(const nlohmann::json& value, const std::string& where) {
    if (!value.is_string()) {
      if (!value.is_number_integer()) return InvalidJson(where, "an integer or like \"8*M\"");
      SINTER_ASSIGN_OR_RETURN(int64_t v, IntegerAt(value, where));
      return Stride{v, 0};
    }
    const std::string text = value.get<std::string>();
    Stride stride{1, 1};
    const size_t star = text.find('*');
    const std::string power = star == std::string::npos ? text : text.substr(star + 1);
    bool good = star == std::string::npos || absl::SimpleAtoi(text.substr(0, star), &stride.value);
    if (power.size() == 3 && power[1] == '^' && power[2] >= '2' && power[2] <= '5') {
      stride.m_power = power[2] - '0';
    } else {
      good = good && power.size() == 1;
    }
    if (!good || power[0] != 'M') return InvalidJson(where, "an integer or like \"8*M\"");
    return stride;
  }

  const nlohmann::json& json_;
  std::string path_;
};

}  // namespace sinter

#endif  // SINTER_SRC_CHAIN_JSON_STREAM_H_
