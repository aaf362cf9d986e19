#include "src/base/codec.h"

#include <algorithm>
#include <cstring>

#include "src/base/status.h"

namespace sinter {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are copied in host byte order");

// 0 when the read passed the end and `bytes` is empty.
template <typename T>
T LoadLittleEndian(absl::string_view bytes) {
  T value = 0;
  if (bytes.size() == sizeof(T)) std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

template <typename T>
void AppendLittleEndian(T value, std::string* out) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out->append(bytes, sizeof(T));
}

}  // namespace

void ByteWriter::U32(uint32_t v) { AppendLittleEndian(v, &out_); }

void ByteWriter::U64(uint64_t v) { AppendLittleEndian(v, &out_); }

void ByteWriter::F64(double v) {
  uint64_t bits;
  std::memcpy(&bits, &v, sizeof(bits));
  U64(bits);
}

void ByteWriter::Bytes(absl::string_view v) {
  U64(v.size());
  Raw(v);
}

bool ByteReader::Need(uint64_t n) {
  if (ok_ && n <= data_.size() - pos_) return true;
  ok_ = false;
  return false;
}

absl::string_view ByteReader::Raw(uint64_t size) {
  if (!Need(size)) return absl::string_view();
  const absl::string_view view = data_.substr(pos_, size);
  pos_ += size;
  return view;
}

uint8_t ByteReader::U8() { return LoadLittleEndian<uint8_t>(Raw(1)); }
uint32_t ByteReader::U32() { return LoadLittleEndian<uint32_t>(Raw(4)); }
uint64_t ByteReader::U64() { return LoadLittleEndian<uint64_t>(Raw(8)); }

double ByteReader::F64() {
  const uint64_t bits = U64();
  double value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

absl::string_view ByteReader::Bytes() { return Raw(U64()); }

void ByteReader::One(Digest& v) {
  const absl::string_view raw = Raw(v.bytes.size());
  if (raw.size() == v.bytes.size()) std::copy(raw.begin(), raw.end(), v.bytes.begin());
}

absl::Status ByteReader::Finish(absl::string_view what) const {
  if (!in_bounds_) return DataLoss(what, ": a field is out of its bounds");
  if (!ok_) return DataLoss(what, ": a read passes the end of ", data_.size(), " bytes");
  if (pos_ != data_.size()) {
    return DataLoss(what, ": ", data_.size() - pos_, " bytes left over of ", data_.size());
  }
  return absl::OkStatus();
}

}  // namespace sinter
