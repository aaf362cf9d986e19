#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "cache/remote/redis.h"
#include "src/base/status.h"

namespace sinter {
namespace {

// Invariant: at_ <= in_.size() and at_ <= limits_.bytes; items_ counts the values begun.
class Parser {
 public:
  Parser(absl::string_view in, const RespLimits& limits) : in_(in), limits_(limits) {}
  RespSize used() const { return RespSize{at_, items_}; }

  RespState Value(int depth, RespValue* out) {
    if (depth > kMaxRespDepth || ++items_ > limits_.items) return RespState::kBad;
    absl::string_view line;
    const RespState state = Line(&line);
    if (state != RespState::kDone) return state;
    if (line.empty()) return RespState::kBad;
    const absl::string_view rest = line.substr(1);
    switch (line[0]) {
      case '+':
        return Text(RespValue::Type::kString, rest, out);
      case '-':
        return Text(RespValue::Type::kError, rest, out);
      case ':':
        out->type = RespValue::Type::kInteger;
        return Number(rest, &out->integer) ? RespState::kDone : RespState::kBad;
      case '$':
        return Bulk(rest, out);
      case '*':
        return Array(depth, rest, out);
      default:
        return RespState::kBad;
    }
  }

 private:
  // Only digits and a sign: SimpleAtoi would take spaces too.
  static bool Number(absl::string_view text, int64_t* out) {
    const absl::string_view digits = text.substr(!text.empty() && text[0] == '-' ? 1 : 0);
    if (digits.empty() || digits.size() > 19) return false;
    for (const char c : digits) {
      if (c < '0' || c > '9') return false;
    }
    return absl::SimpleAtoi(text, out);
  }

  static RespState Text(RespValue::Type type, absl::string_view text, RespValue* out) {
    out->type = type;
    out->text = std::string(text);
    return RespState::kDone;
  }

  RespState Line(absl::string_view* line) {
    const uint64_t most = std::min(at_ + kMaxRespLineBytes + 2, limits_.bytes);
    const auto limit = static_cast<size_t>(std::min<uint64_t>(in_.size(), most));
    const size_t end = in_.substr(0, limit).find("\r\n", at_);
    if (end == absl::string_view::npos) {
      return limit < in_.size() || limit == most ? RespState::kBad : RespState::kMore;
    }
    *line = in_.substr(at_, end - at_);
    at_ = end + 2;
    return RespState::kDone;
  }

  RespState Bulk(absl::string_view text, RespValue* out) {
    int64_t size = 0;
    if (!Number(text, &size) || size < -1) return RespState::kBad;
    if (size == -1) return RespState::kDone;  // nil
    const auto bytes = static_cast<size_t>(size);
    const uint64_t left = limits_.bytes - at_;
    if (left < 2 || bytes > left - 2) return RespState::kBad;
    const size_t there = in_.size() - at_;
    if (there < bytes + 2) {
      // The end of a string is checked as soon as it has arrived.
      return there > bytes && in_[at_ + bytes] != '\r' ? RespState::kBad : RespState::kMore;
    }
    if (in_.substr(at_ + bytes, 2) != "\r\n") return RespState::kBad;
    out->type = RespValue::Type::kString;
    out->text = std::string(in_.substr(at_, bytes));
    at_ += bytes + 2;
    return RespState::kDone;
  }

  RespState Array(int depth, absl::string_view text, RespValue* out) {
    int64_t count = 0;
    if (!Number(text, &count) || count < -1) return RespState::kBad;
    if (count == -1) return RespState::kDone;  // nil
    if (static_cast<uint64_t>(count) > limits_.items - items_) return RespState::kBad;
    out->type = RespValue::Type::kArray;
    for (int64_t i = 0; i < count; ++i) {
      out->items.emplace_back();
      const RespState state = Value(depth + 1, &out->items.back());
      if (state != RespState::kDone) return state;
    }
    return RespState::kDone;
  }

  const absl::string_view in_;
  const RespLimits limits_;
  size_t at_ = 0;
  uint64_t items_ = 0;
};

}  // namespace

RespState ParseResp(absl::string_view in, const RespLimits& limits, RespSize* used,
                    RespValue* out) {
  Parser parser(in, limits);
  *out = RespValue();
  const RespState state = parser.Value(0, out);
  if (state == RespState::kDone) *used = parser.used();
  return state;
}

void AppendCommand(const std::vector<absl::string_view>& words, std::string* out) {
  absl::StrAppend(out, "*", words.size(), "\r\n");
  for (const absl::string_view word : words) {
    absl::StrAppend(out, "$", word.size(), "\r\n", word, "\r\n");
  }
}

char* RespBatch::Room(size_t size) {
  whole_ = in_.size();
  in_.resize(whole_ + size);
  return &in_[whole_];
}

absl::Status RespBatch::Received(size_t size) {
  in_.resize(whole_ + size);
  size_t at = 0;
  while (!done() && at < in_.size()) {
    RespLimits limits = each_;
    limits.bytes = std::min(limits.bytes, left_.bytes);
    limits.items = std::min(limits.items, left_.items);
    RespSize used;
    RespValue reply;
    const RespState state = ParseResp(absl::string_view(in_).substr(at), limits, &used, &reply);
    if (state == RespState::kBad) {
      return Unavailable("remote: the answer is no RESP2, or is too large");
    }
    if (state == RespState::kMore) break;
    at += used.bytes;
    left_.bytes -= used.bytes;
    left_.items -= used.items;
    replies_.push_back(std::move(reply));
  }
  in_.erase(0, at);
  if (done() && !in_.empty()) return Unavailable("remote: the server said more than it was asked");
  if (in_.empty()) std::string().swap(in_);
  return absl::OkStatus();
}

}  // namespace sinter
