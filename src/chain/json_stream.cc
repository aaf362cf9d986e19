#include "src/chain/json_stream.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"

namespace sinter {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostSaid = 160;  // characters of the parser's own words

// Over the text, and says how far the parser has read: its events do not.
class TrackedText {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  TrackedText(const char* at, const char** read) : at_(at), read_(read) {}
  reference operator*() const { return *at_; }
  TrackedText& operator++() {
    *read_ = ++at_;
    return *this;
  }
  bool operator==(const TrackedText& o) const { return at_ == o.at_; }
  bool operator!=(const TrackedText& o) const { return at_ != o.at_; }

 private:
  const char* at_;
  const char** read_;
};

std::string Printable(absl::string_view text, size_t most) {
  std::string result(text.substr(0, most));
  for (char& c : result) {
    if (c < ' ' || c > '~') c = '?';
  }
  return result;
}

// Without the exception's name and place: the place is said in front.
std::string WordsOf(absl::string_view what) {
  const size_t name = what.find("] ");
  if (name != absl::string_view::npos) what.remove_prefix(name + 2);
  const size_t column = what.find(", column "), end = what.find(": ");
  if (column != absl::string_view::npos && end != absl::string_view::npos && column < end) {
    what.remove_prefix(end + 2);
  }
  return Printable(what, kMostSaid);
}

// Events of the parser; they return false to end it.
class Handler {
 public:
  // Names that nlohmann::json_sax asks for.
  using number_integer_t = Json::number_integer_t;
  using number_unsigned_t = Json::number_unsigned_t;
  using number_float_t = Json::number_float_t;
  using string_t = Json::string_t;
  using binary_t = Json::binary_t;

  Handler(absl::string_view text, const JsonBounds& bounds, JsonConsumer* consumer)
      : text_(text), read_(text.data()), bounds_(bounds), consumer_(*consumer) {}

  absl::Status Run() {
    const TrackedText begin(text_.data(), &read_), end(text_.data() + text_.size(), &read_);
    const bool whole = Json::sax_parse(begin, end, this);
    if (status_.ok() && !whole) return Internal("json: the parser stopped");
    return status_;
  }

  bool null() { return Take(nullptr); }
  bool boolean(bool value) { return Take(value); }
  bool number_integer(number_integer_t value) { return Take(value); }
  bool number_unsigned(number_unsigned_t value) { return Take(value); }
  bool number_float(number_float_t value, const string_t&) { return Take(value); }
  bool binary(binary_t&) { return Fail("holds binary data"); }
  bool string(string_t& value) { return IsShort(value, "a string") && Take(std::move(value)); }
  bool key(string_t& key) { return IsShort(key, "a key") && SetKey(std::move(key)); }

  bool start_object(size_t) {
    if (!Deepen()) return false;
    if (depth_ == 1) return true;
    if (depth_ == 2) return TakeTop(Json::object());
    return Open(Json::object());
  }
  bool start_array(size_t) {
    if (!Deepen()) return false;
    if (depth_ == 1) return Refuse("json: must be an object");
    if (depth_ > 2) return Open(Json::array());
    index_ = 0;
    return array_ || TakeTop(Json::array());
  }
  bool end_object() { return Close(); }
  bool end_array() { return Close(); }

  bool parse_error(size_t position, const std::string&, const Json::exception& error) {
    return FailAt(position, WordsOf(error.what()));
  }

 private:
  bool Refuse(const std::string& why) { return Done(Invalid(why)); }
  bool Done(absl::Status status) {
    status_ = std::move(status);
    return status_.ok();
  }
  // `position`: of the byte at fault, from 1.
  bool FailAt(size_t position, const std::string& why) {
    const absl::string_view before =
        text_.substr(0, position == 0 ? 0 : std::min(position - 1, text_.size()));
    const auto lines = std::count(before.begin(), before.end(), '\n');
    const size_t last = before.rfind('\n');
    const size_t column = before.size() - (last == absl::string_view::npos ? 0 : last + 1);
    return Refuse(absl::StrCat("json: line ", lines + 1, ", column ", column + 1, ": ", why));
  }
  bool Fail(const std::string& why) {
    return FailAt(static_cast<size_t>(read_ - text_.data()), why);
  }

  bool IsShort(const std::string& text, absl::string_view what) {
    if (text.size() <= bounds_.string) return true;
    return Fail(
        absl::StrCat(what, " has ", text.size(), " bytes, must have at most ", bounds_.string));
  }

  bool Deepen() {
    if (++depth_ <= bounds_.depth) return true;
    return Fail(absl::StrCat("nested deeper than ", bounds_.depth));
  }

  bool SetKey(std::string key) {
    std::set<std::string>& known = depth_ == 1 ? keys_ : element_keys_.back();
    if (!known.insert(key).second) {
      return Fail(absl::StrCat("key ", PrintableJson(key), " is given twice in one object"));
    }
    if (depth_ > 1) {
      inner_key_ = std::move(key);
      return true;
    }
    key_ = std::move(key);
    const absl::StatusOr<bool> array = consumer_.TakesArray(key_);
    array_ = array.ok() && *array;
    return Done(array.status());
  }

  // A value of the top level that is not an array's element.
  bool TakeTop(const Json& value) {
    if (array_) return Refuse(absl::StrCat(PrintableJson(key_), ": must be an array"));
    if (!Done(consumer_.Scalar(key_, value))) return false;
    return !value.is_structured() ||
           Refuse(absl::StrCat(PrintableJson(key_), ": must not be an object or an array"));
  }

  template <typename Value>
  bool Take(Value&& value) {
    if (depth_ == 0) return Refuse("json: must be an object");
    if (depth_ == 1) return TakeTop(Json(std::forward<Value>(value)));
    if (open_.empty()) return CountElement() && Give(Json(std::forward<Value>(value)));
    return Put(Json(std::forward<Value>(value))) != nullptr;
  }

  std::string Path() const { return absl::StrCat(PrintableJson(key_), "[", index_, "]"); }

  bool CountElement() {
    values_ = 1;
    if (index_ < bounds_.elements) return true;
    return Refuse(
        absl::StrCat(PrintableJson(key_), ": has more than ", bounds_.elements, " elements"));
  }

  bool Give(const Json& element) { return Done(consumer_.Element(key_, index_++, element)); }

  // Into the innermost array or object of the element; null once a bound is passed.
  Json* Put(Json value) {
    if (++values_ > bounds_.values) {
      Refuse(absl::StrCat(Path(), ": has more than ", bounds_.values, " values"));
      return nullptr;
    }
    Json& into = *open_.back();
    if (into.is_object()) return &(into[inner_key_] = std::move(value));
    into.push_back(std::move(value));
    return &into.back();
  }

  bool Open(Json value) {
    if (value.is_object()) element_keys_.emplace_back();
    if (open_.empty()) {
      if (!CountElement()) return false;
      element_ = std::move(value);
      open_.push_back(&element_);
      return true;
    }
    Json* const inner = Put(std::move(value));
    if (inner == nullptr) return false;
    open_.push_back(inner);
    return true;
  }

  bool Close() {
    --depth_;
    if (open_.empty()) return true;
    if (open_.back()->is_object()) element_keys_.pop_back();
    open_.pop_back();
    return !open_.empty() || Give(element_);
  }

  const absl::string_view text_;
  const char* read_;  // past what the parser has read
  const JsonBounds bounds_;
  JsonConsumer& consumer_;
  absl::Status status_;
  int depth_ = 0;
  std::set<std::string> keys_;  // of the top level
  std::string key_;             // the last of them
  bool array_ = false;          // what it takes
  size_t index_ = 0;            // of the element
  Json element_;
  std::vector<Json*> open_;                          // the element's open arrays and objects
  std::vector<std::set<std::string>> element_keys_;  // of its open objects
  std::string inner_key_;                            // of the innermost one
  size_t values_ = 0;                                // of the element so far
};

}  // namespace

absl::Status StreamJson(absl::string_view text, const JsonBounds& bounds, JsonConsumer* consumer) {
  if (text.size() > bounds.bytes) {
    return Invalid("json: has ", text.size(), " bytes, must have at most ", bounds.bytes);
  }
  return Handler(text, bounds, consumer).Run();
}

std::string PrintableJson(absl::string_view text) { return Printable(text, 40); }

}  // namespace sinter
