// Fuzz target over the JSON stream: what it accepts is what the whole document's parser reads.
#include "src/chain/json_stream.h"
#include "tests/fuzz/target.h"
#include "tests/support/common.h"

namespace sinter::chain_stream_fuzz {
namespace {

using nlohmann::json;

// Puts the document together again.
class Rebuilt : public sinter::JsonConsumer {
 public:
  absl::StatusOr<bool> TakesArray(const std::string& key) override {
    const bool array = !key.empty() && key[0] != 's';
    if (array) document[key] = json::array();
    return array;
  }
  absl::Status Scalar(const std::string& key, const json& value) override {
    document[key] = value;
    return value.is_structured() ? absl::InvalidArgumentError("structured") : absl::OkStatus();
  }
  absl::Status Element(const std::string& key, size_t index, const json& element) override {
    Require(document[key].size() == index);
    document[key].push_back(element);
    return absl::OkStatus();
  }

  json document = json::object();
};

}  // namespace

SINTER_FUZZ_TARGET(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  Rebuilt rebuilt;
  const absl::Status status = sinter::StreamJson(text, {}, &rebuilt);
  const json whole = json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!status.ok()) {
    Require(!status.message().empty() && status.message().size() < 5000);
    return 0;
  }
  Require(!whole.is_discarded() && whole == rebuilt.document);
  return 0;
}

}  // namespace sinter::chain_stream_fuzz
