// Byte codec of every record and canonical form: little-endian fixed-width integers and
// length-prefixed strings.
#ifndef SINTER_SRC_BASE_CODEC_H_
#define SINTER_SRC_BASE_CODEC_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace sinter {

class ByteWriter {
 public:
  void U8(uint8_t v) { out_.push_back(static_cast<char>(v)); }
  void U32(uint32_t v);
  void U64(uint64_t v);
  void I64(int64_t v) { U64(static_cast<uint64_t>(v)); }
  void F64(double v);               // IEEE-754 bits
  void Bytes(absl::string_view v);  // u64 length, then the bytes
  void Raw(absl::string_view v) { out_.append(v.data(), v.size()); }
  const std::string& str() const { return out_; }
  void Reserve(uint64_t bytes) { out_.reserve(bytes); }  // avoids reallocations; changes no result
  std::string Take() { return std::move(out_); }

 private:
  std::string out_;
};

// Reads what ByteWriter wrote. Input is untrusted: the first read past the end makes the reader
// bad, and every later read returns zero or empty. Check ok() once at the end, before using
// anything that was read.
class ByteReader {
 public:
  explicit ByteReader(absl::string_view data) : data_(data) {}
  uint8_t U8();
  uint32_t U32();
  uint64_t U64();
  int64_t I64() { return static_cast<int64_t>(U64()); }
  double F64();
  absl::string_view Bytes();  // borrowed from the input
  absl::string_view Raw(uint64_t size);
  bool ok() const { return ok_; }
  bool AtEnd() const { return ok_ && pos_ == data_.size(); }
  uint64_t remaining() const { return data_.size() - pos_; }
  // OK, or DATA_LOSS naming `what` when a read failed or bytes are left over.
  absl::Status Finish(absl::string_view what) const;

 private:
  bool Need(uint64_t n);
  absl::string_view data_;
  uint64_t pos_ = 0;
  bool ok_ = true;
};

}  // namespace sinter

#endif  // SINTER_SRC_BASE_CODEC_H_
