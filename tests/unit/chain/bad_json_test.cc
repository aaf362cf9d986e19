// Bad input of the json form: every case with its exact message.
#include "tests/unit/chain/refused.h"

namespace sinter {
namespace {

TEST(Json, RefusesAFunctionThatIsNoneWithAllThatAre) {
  std::string names;
  for (const UnaryKind kind : UnaryKinds()) absl::StrAppend(&names, " ", NameOf(kind));
  const absl::Status status =
      ChainFromJson(R"({"schema":1,"inputs":[{"id":0,"dtype":"f32","dims":[2]}],
      "ops":[{"id":1,"op":"unary","in":[0],"kind":"gamma"}],"outputs":[]})")
          .status();
  EXPECT_EQ(status.message(), absl::StrCat("ops[0].kind: unary is gamma, must be one of", names));
}

TEST(Json, RefusesBadInputWithItsMessage) {
  const auto message = [](const std::string& text) {
    return std::string(ChainFromJson(text).status().message());
  };
  for (const auto& [text, expected] : RefusalsOf("tests/unit/chain/refused_json.txt", "json")) {
    EXPECT_EQ(message(text), expected) << text;
  }
  EXPECT_EQ(message("[1]"), "json: must be an object");
  EXPECT_EQ(message(""),
            "json: line 1, column 1: syntax error while parsing value - unexpected end of input; "
            "expected '[', '{', or a literal");
}

// Values, elements, strings and bytes are bounded before they are kept.
TEST(Json, RefusesWhatNoChainNeeds) {
  const auto message = [](const std::string& text) {
    return std::string(ChainFromJson(text).status().message());
  };
  std::string values, elements = R"({"schema":1,"inputs":[)";
  for (int i = 0; i < 2000; ++i) values += "1,";
  EXPECT_EQ(message(R"({"schema":1,"inputs":[{"id":[)" + values + "1]}]}"),
            "inputs[0]: has more than 1024 values");
  const std::string input = R"({"id":0,"dtype":"f32","dims":[]})";
  for (int i = 0; i < 65536; ++i) elements += input + ",";
  EXPECT_EQ(message(elements + input + "]}"), "inputs: has more than 65536 elements");
  EXPECT_EQ(message(R"({"schema":1,"inputs":[{"name":")" + std::string(5000, 'a') + "\"}]}"),
            "json: line 1, column 5032: a string has 5000 bytes, must have at most 4096");
  EXPECT_EQ(message(std::string((64 << 20) + 1, ' ')),
            "json: has 67108865 bytes, must have at most 67108864");
}

TEST(Json, RefusesEveryPrefixOfAGoodFile) {
  const std::string good =
      R"({"schema":1,"inputs":[{"id":0,"dtype":"f32","dims":["M",2]}],"ops":[],"outputs":[{"value":0}]})";
  ASSERT_TRUE(ChainFromJson(good).ok());
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(ChainFromJson(good.substr(0, size)).ok()) << size;
  }
}

}  // namespace
}  // namespace sinter
