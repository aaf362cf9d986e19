// The reader of RESP2: every reply, cut at every byte, and bytes that are not a reply.
#include "cache/remote/redis.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

using Type = RespValue::Type;

TEST(RespTest, ReadsEveryKindOfReply) {
  struct Case {
    std::string bytes;
    Type type;
    std::string text;
    int64_t integer;
    size_t items;
  };
  const Case cases[] = {
      {"+OK\r\n", Type::kString, "OK", 0, 0},
      {"-ERR no\r\n", Type::kError, "ERR no", 0, 0},
      {":-42\r\n", Type::kInteger, "", -42, 0},
      {"$5\r\nhello\r\n", Type::kString, "hello", 0, 0},
      {"$0\r\n\r\n", Type::kString, "", 0, 0},
      {"$4\r\n\r\n\r\n\r\n", Type::kString, "\r\n\r\n", 0, 0},
      {"$-1\r\n", Type::kNil, "", 0, 0},
      {"*-1\r\n", Type::kNil, "", 0, 0},
      {"*0\r\n", Type::kArray, "", 0, 0},
      {"*2\r\n$1\r\na\r\n:7\r\n", Type::kArray, "", 0, 2},
      {"*1\r\n*1\r\n$-1\r\n", Type::kArray, "", 0, 1},
  };
  for (const Case& c : cases) {
    RespSize used;
    RespValue value;
    ASSERT_EQ(ParseResp(c.bytes + "+next\r\n", {}, &used, &value), RespState::kDone) << c.bytes;
    EXPECT_EQ(used.bytes, c.bytes.size());
    EXPECT_EQ(value.type, c.type);
    EXPECT_EQ(value.text, c.text);
    EXPECT_EQ(value.integer, c.integer);
    EXPECT_EQ(value.items.size(), c.items);
    for (size_t n = 0; n < c.bytes.size(); ++n) {
      EXPECT_EQ(ParseResp(c.bytes.substr(0, n), {}, &used, &value), RespState::kMore)
          << c.bytes << " cut at " << n;
    }
  }
}

TEST(RespTest, RefusesWhatIsNone) {
  const std::string bad[] = {
      "hello\r\n",
      "\r\n",
      "HTTP/1.1 400 Bad Request\r\n",
      "$\r\n",
      "$-2\r\n",
      "$5x\r\n",
      "$ 5\r\n",
      "$99999999999999999999\r\n",
      absl::StrCat("$", kMaxRespBytes, "\r\n"),
      absl::StrCat("*", kMaxRespItems + 1, "\r\n"),
      "$3\r\nabcd\r\n",
      ":\r\n",
      ":1.5\r\n",
      "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
      std::string(kMaxRespLineBytes + 10, '+'),
  };
  for (const std::string& bytes : bad) {
    RespSize used;
    RespValue value;
    EXPECT_EQ(ParseResp(bytes, {}, &used, &value), RespState::kBad) << bytes.substr(0, 40);
  }
}

TEST(RespTest, AHugePromiseAllocatesNothing) {
  RespSize used;
  RespValue value;
  EXPECT_EQ(ParseResp(absl::StrCat("$", kMaxRespBytes - 64, "\r\nabc"), {}, &used, &value),
            RespState::kMore);
  EXPECT_TRUE(value.text.empty());
  EXPECT_EQ(ParseResp(absl::StrCat("*", kMaxRespItems - 1, "\r\n"), {}, &used, &value),
            RespState::kMore);
  EXPECT_LE(value.items.size(), 1u);
}

TEST(RespTest, CommandsAreArraysOfBulkStrings) {
  std::string out;
  AppendCommand({"GET", absl::string_view("a\r\n\0b", 5)}, &out);
  EXPECT_EQ(out, std::string("*2\r\n$3\r\nGET\r\n$5\r\na\r\n\0b\r\n", 24));
}

}  // namespace
}  // namespace sinter
