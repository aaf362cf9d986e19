#include "src/base/codec.h"

#include "src/base/fields.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

std::string Sample() {
  ByteWriter w;
  w.U8(0xfe);
  w.U32(0x89abcdef);
  w.U64(0x0123456789abcdefull);
  w.I64(-2);
  w.F64(-0.1);
  w.Bytes(absl::string_view("a\0b", 3));
  w.Bytes("");
  w.Raw("tail");
  return w.Take();
}

// Reads Sample() and says whether the reader was satisfied.
bool ReadSample(absl::string_view bytes) {
  ByteReader r(bytes);
  const bool values = r.U8() == 0xfe && r.U32() == 0x89abcdef && r.U64() == 0x0123456789abcdefull &&
                      r.I64() == -2 && r.F64() == -0.1 &&
                      r.Bytes() == absl::string_view("a\0b", 3) && r.Bytes().empty() &&
                      r.Raw(4) == "tail";
  return values && r.Finish("sample").ok();
}

TEST(Codec, RoundTrips) { EXPECT_TRUE(ReadSample(Sample())); }

TEST(Codec, IsLittleEndian) {
  ByteWriter w;
  w.U32(0x01020304);
  w.U64(0x05);
  EXPECT_EQ(w.str(), std::string("\4\3\2\1\5\0\0\0\0\0\0\0", 12));
}

TEST(Codec, EveryTruncationIsDataLoss) {
  const std::string bytes = Sample();
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::string cut = bytes.substr(0, size);
    EXPECT_FALSE(ReadSample(cut)) << size;
    ByteReader r(cut);
    r.U8();
    r.U32();
    r.U64();
    r.I64();
    r.F64();
    r.Bytes();
    r.Bytes();
    r.Raw(4);
    EXPECT_FALSE(r.ok()) << size;
    EXPECT_FALSE(r.AtEnd()) << size;
    EXPECT_EQ(r.Finish("sample").code(), absl::StatusCode::kDataLoss) << size;
  }
}

TEST(Codec, ABadReaderStaysBadAndReadsZeros) {
  ByteReader r("\1\2\3");
  EXPECT_EQ(r.U32(), 0u);
  EXPECT_EQ(r.U8(), 0);
  EXPECT_EQ(r.U64(), 0u);
  EXPECT_EQ(r.F64(), 0.0);
  EXPECT_TRUE(r.Bytes().empty());
  EXPECT_FALSE(r.ok());
}

TEST(Codec, LengthsBeyondTheInputAreRefusedWithoutOverflow) {
  for (uint64_t length : {uint64_t{1}, uint64_t{1} << 40, std::numeric_limits<uint64_t>::max()}) {
    ByteWriter w;
    w.U64(length);
    ByteReader r(w.str());
    EXPECT_TRUE(r.Bytes().empty());
    EXPECT_FALSE(r.ok());
  }
}

TEST(Codec, LeftoverBytesAreDataLossNamingWhat) {
  ByteReader r("ab");
  r.U8();
  EXPECT_EQ(r.remaining(), 1u);
  EXPECT_EQ(r.Finish("plan record").message(), "plan record: 1 bytes left over of 2");
}

TEST(Codec, DoublesKeepTheirBits) {
  for (double v : {0.0, -0.0, std::numeric_limits<double>::infinity(),
                   std::numeric_limits<double>::denorm_min(), 1e300}) {
    ByteWriter w;
    w.F64(v);
    const double back = ByteReader(w.str()).F64();
    EXPECT_EQ(back, v);
    EXPECT_EQ(std::signbit(back), std::signbit(v));
  }
}

enum class ShapeColour : uint8_t { kRed = 0, kBlue = 3 };

struct Point {
  int x = 0;
  int64_t y = 0;
  SINTER_FIELDS(Point, x, y);
};

struct Shape {
  ShapeColour colour = ShapeColour::kRed;
  bool closed = false;
  double width = 0;
  float scale = 1;
  std::string name;
  std::array<uint32_t, 2> grid{1, 1};
  std::vector<Point> points;
  std::optional<Point> centre;
  SINTER_FIELDS(Shape, colour, closed, width, scale, name, grid, points, centre);
};

Shape FullShape() {
  return {ShapeColour::kBlue, true, 0.5, 2, "a b", {3, 4}, {{-1, 2}, {3, -4}}, Point{5, 6}};
}

std::string ShapeBytes(const Shape& shape) {
  ByteWriter w;
  w(shape);
  return w.Take();
}

TEST(Fields, EveryFieldIsCompared) {
  EXPECT_EQ(FullShape(), FullShape());
  const auto differs = [](auto change) {
    Shape other = FullShape();
    change(other);
    return other != FullShape() && !(other == FullShape());
  };
  EXPECT_TRUE(differs([](Shape& s) { s.colour = ShapeColour::kRed; }));
  EXPECT_TRUE(differs([](Shape& s) { s.closed = false; }));
  EXPECT_TRUE(differs([](Shape& s) { s.width = 0; }));
  EXPECT_TRUE(differs([](Shape& s) { s.scale = 1; }));
  EXPECT_TRUE(differs([](Shape& s) { s.name = "a"; }));
  EXPECT_TRUE(differs([](Shape& s) { s.grid[1] = 3; }));
  EXPECT_TRUE(differs([](Shape& s) { s.points[1].y = 4; }));
  EXPECT_TRUE(differs([](Shape& s) { s.centre.reset(); }));
}

TEST(Fields, AreVisitedByName) {
  std::string names;
  const Shape shape;
  ForEachField(shape, [&](absl::string_view name, const auto&) {
    names.append(name.data(), name.size()).push_back(' ');
  });
  EXPECT_EQ(names, "colour closed width scale name grid points centre ");
  Point point;
  ForEachField(point, [](absl::string_view, auto& field) { field = 7; });
  EXPECT_EQ(point, (Point{7, 7}));
}

TEST(Fields, OfAStructAreWrittenAndReadByTheirTypes) {
  ByteWriter by_hand;
  by_hand.U8(3);
  by_hand.U8(1);
  by_hand.F64(0.5);
  by_hand.F64(2);
  by_hand.Bytes("a b");
  for (uint32_t v : {3u, 4u}) by_hand.U32(v);
  by_hand.U32(2);
  for (int64_t v : {-1, 2, 3, -4}) by_hand.I64(v);
  by_hand.U8(1);
  for (int64_t v : {5, 6}) by_hand.I64(v);
  const std::string bytes = ShapeBytes(FullShape());
  EXPECT_EQ(bytes, by_hand.str());

  ByteReader r(bytes);
  Shape read;
  r(read);
  EXPECT_TRUE(r.Finish("shape").ok());
  EXPECT_EQ(read, FullShape());
}

TEST(Fields, OfDamagedBytesAreRefused) {
  const std::string bytes = ShapeBytes(FullShape());
  for (size_t size = 0; size < bytes.size(); ++size) {
    ByteReader r(absl::string_view(bytes).substr(0, size));
    Shape shape;
    r(shape);
    EXPECT_FALSE(r.Finish("shape").ok()) << size;
  }
  std::string damaged = bytes;
  damaged[1] = 2;  // closed
  ByteReader r(damaged);
  Shape shape;
  r(shape);
  EXPECT_EQ(r.Finish("shape").message(), "shape: a field is out of its bounds");
}

struct Packed {
  ShapeColour colour = ShapeColour::kBlue;
  int size = 7;
  bool a = true, b = false, c = true;
  std::vector<int> words = {1, 2};
  std::vector<int64_t> few = {-1};
};

template <typename Codec, typename T>
void PackedFields(Codec& codec, T& p) {
  codec(Byte(p.colour, 3), Word(p.size, 8), Bits(p.a, p.b, p.c), Word(p.words), ByteList(p.few));
}

TEST(Fields, OfOtherFormatsAreWrapped) {
  const Packed packed;
  ByteWriter w;
  PackedFields(w, packed);
  EXPECT_EQ(w.str(), std::string("\3\7\0\0\0\5\2\0\0\0\1\0\0\0\2\0\0\0\1"
                                 "\xff\xff\xff\xff\xff\xff\xff\xff",
                                 27));
  const auto read = [&](size_t at, char to) {
    std::string bytes = w.str();
    bytes[at] = to;
    ByteReader r(bytes);
    Packed back;
    back.words.clear();
    PackedFields(r, back);
    return r.Finish("packed").ok();
  };
  EXPECT_TRUE(read(0, 3));
  EXPECT_FALSE(read(0, 4));  // above its bound
  EXPECT_TRUE(read(1, 8));
  EXPECT_FALSE(read(1, 9));
  EXPECT_TRUE(read(5, 7));
  EXPECT_FALSE(read(5, 8));  // a fourth bit
  EXPECT_FALSE(read(6, 3));  // a word more than there is
}

}  // namespace
}  // namespace sinter
