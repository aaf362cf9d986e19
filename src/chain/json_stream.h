// JsonStream: reads untrusted JSON whose top level is one object of scalars and arrays, one element
// of an array at a time.
#ifndef SINTER_SRC_CHAIN_JSON_STREAM_H_
#define SINTER_SRC_CHAIN_JSON_STREAM_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace sinter {

struct JsonBounds {
  size_t bytes = size_t{64} << 20;
  int depth = 8;
  size_t elements = size_t{1} << 16;  // of one array of the top level
  size_t values = 1024;               // in one element, itself included
  size_t string = 4096;               // bytes of a key or a string
};

// Who takes what is read. What a method returns ends the reading unless it is OK.
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

}  // namespace sinter

#endif  // SINTER_SRC_CHAIN_JSON_STREAM_H_
