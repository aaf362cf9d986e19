// Bytes that a reader does not trust: what is written reads back, and damage is refused.
#pragma once

#include "src/base/codec.h"
#include "tests/support/test.h"

namespace sinter {

template <typename Struct>
std::string Written(const Struct& of) {
  ByteWriter w;
  of.Write(w);
  return w.Take();
}
template <typename Struct>
absl::StatusOr<Struct> ReadFrom(absl::string_view bytes) {
  ByteReader r(bytes);
  return Struct::Read(r);
}

// Each truncation of `bytes` is lost data.
template <typename Read>
void ExpectTruncationsRefused(const std::string& bytes, const Read& read) {
  for (size_t size = 0; size < bytes.size(); ++size) {
    const absl::Status status = read(bytes.substr(0, size)).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << size << status;
  }
}

// `read` refuses a flipped bit, or `write` gives the same bytes of what it read.
template <typename Read, typename Write>
void ExpectFlipsRefusedOrKept(const std::string& bytes, const Read& read, const Write& write) {
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    const auto got = read(flipped);
    if (got.ok()) {
      EXPECT_EQ(write(*got), flipped) << "bit " << bit << " is lost";
    }
  }
}

template <typename Struct>
void ExpectBytesReadBack(const Struct& of) {
  EXPECT_EQ(Got(ReadFrom<Struct>(Written(of))), of);
  ExpectTruncationsRefused(Written(of), ReadFrom<Struct>);
}

}  // namespace sinter
