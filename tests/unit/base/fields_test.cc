#include "src/base/fields.h"

#include "src/base/codec.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

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
