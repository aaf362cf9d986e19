// JSON of chains: both ways, for every kind of op.
#include "tests/support/chains.h"
#include "tests/support/files.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

void ExpectRoundTrip(const Chain& chain) {
  const std::string json = ChainToJson(chain);
  const Chain back = Got(ChainFromJson(json), json);
  EXPECT_EQ(back, chain);
  EXPECT_EQ(back.InputOrder(), chain.InputOrder());
  EXPECT_EQ(ChainToJson(back), json);
}

TEST(ChainJson, RoundTripsEveryTextKind) {
  for (const std::string& line : LinesOf("tests/unit/chain/text_kinds.txt")) {
    ExpectRoundTrip(Got(ParseProblem(line), line).chain);
  }
}

TEST(ChainJson, KeepsTheCallersOrderAndNames) {
  ChainBuilder b;
  const TensorType type{DType::kF32, {Dim::M()}};
  const ValueId y = *b.Input(type, {false, {}, "why \"quoted\""}), x = *b.Input(type);
  const Chain chain = Finished(b, {*b.Binary(BinaryKind::kSub, x, y)});
  ExpectRoundTrip(chain);
  const Chain back = *ChainFromJson(ChainToJson(chain));
  EXPECT_EQ(back.InputName(0), "why \"quoted\"");
  EXPECT_EQ(back.InputName(1), "");
  EXPECT_EQ(back.InputOrder(), (std::vector<int32_t>{1, 0}));
}

TEST(ChainJson, KeepsInfinitiesAndEveryBitOfAScalar) {
  for (double value : {HUGE_VAL, -HUGE_VAL, -0.0, 1e-5, 0.1, 3.4028234663852886e38, 1e-45}) {
    ChainBuilder b;
    const ValueId x = *b.Input({DType::kF32, {Dim::M()}});
    ExpectRoundTrip(Finished(b, {*b.Binary(BinaryKind::kAdd, x, *b.Scalar(value))}));
  }
}

// `json` without the fields that follow from others: dtype and dims of ops that take them from
// their operands.
std::string WithoutTypes(const std::string& json) {
  std::string text;
  for (const absl::string_view line : absl::StrSplit(json, '\n')) {
    std::string kept(line);
    const bool op = absl::StrContains(line, "\"op\":");
    const auto is = [&](const char* kind) {
      return absl::StrContains(line, absl::StrCat("\"op\":\"", kind, "\""));
    };
    const size_t dims = kept.find(",\"dims\":[");
    if (op && !is("iota") && !is("broadcast") && !is("reshape")) {
      kept.erase(dims, kept.find(']', dims) + 1 - dims);
    }
    const size_t dtype = kept.find(",\"dtype\":\"");
    if (op && !is("iota") && !is("scalar") && !is("cast")) {
      kept.erase(dtype, kept.find('"', dtype + 10) + 1 - dtype);
    }
    text += kept + "\n";
  }
  return text;
}

TEST(ChainJson, TypesThatFollowMayBeLeftOut) {
  const std::string json = FileText("tests/golden/chain/every_op.json");
  const std::string shorter = WithoutTypes(json);
  ASSERT_LT(shorter.size() + 200, json.size());
  const Chain whole = Got(ChainFromJson(json)), chain = Got(ChainFromJson(shorter));
  EXPECT_EQ(chain, whole);
  EXPECT_EQ(ChainToJson(chain), json);
}

// Seconds to read a chain of so many ops: the least of three times, which other work on the machine
// changes least.
double SecondsToRead(int ops) {
  ChainBuilder b;
  ValueId x = *b.Input({DType::kF32, {Dim::M()}});
  for (int i = 0; i < ops; ++i) x = *b.Unary(UnaryKind::kNeg, x);
  const Chain chain = Finished(b, {x});
  const std::string json = ChainToJson(chain);
  double least = std::numeric_limits<double>::infinity();
  for (int time = 0; time < 3; ++time) {
    const std::clock_t begin = std::clock();
    const absl::StatusOr<Chain> back = ChainFromJson(json);
    const std::clock_t end = std::clock();
    EXPECT_TRUE(back.ok() && *back == chain) << back.status();
    least = std::min(least, static_cast<double>(end - begin) / CLOCKS_PER_SEC);
  }
  return least;
}

// A reader that scans the array again after each of its objects takes eleven times as long for four
// times as many objects.
TEST(ChainJson, ManySmallObjectsAreReadInLinearTime) {
  const double few = SecondsToRead(16000);
  EXPECT_LT(SecondsToRead(64000), 8 * few);
}

TEST(ChainJson, ArraysComeInAnyOrder) {
  const Chain chain = Got(ChainFromJson(
      R"({"outputs":[{"value":1}],"ops":[{"id":1,"op":"unary","in":[0],"kind":"exp"}],)"
      R"("inputs":[{"id":0,"dtype":"f32","dims":["M"]}],"schema":1})"));
  EXPECT_EQ(chain.ops().size(), 2u);
}

}  // namespace
}  // namespace sinter
