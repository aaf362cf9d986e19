#include "src/base/codec.h"

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

}  // namespace
}  // namespace sinter
