// Byte codec of every record and canonical form: little-endian fixed-width integers and
// length-prefixed strings.
#ifndef SINTER_SRC_BASE_CODEC_H_
#define SINTER_SRC_BASE_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "src/base/digest.h"

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
  // Fields in order, each as its type says; ByteReader has the same, so that one function of fields
  // writes a struct and reads it back.
  template <typename... Fields>
  void operator()(const Fields&... fields) {
    (One(fields), ...);
  }
  const std::string& str() const { return out_; }
  void Reserve(uint64_t bytes) { out_.reserve(bytes); }  // avoids reallocations; changes no result
  std::string Take() { return std::move(out_); }

 private:
  void One(uint8_t v) { U8(v); }
  void One(uint32_t v) { U32(v); }
  void One(uint64_t v) { U64(v); }
  void One(int64_t v) { I64(v); }
  void One(double v) { F64(v); }
  void One(const std::string& v) { Bytes(v); }
  void One(const Digest& v) { Raw(v.View()); }

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
  template <typename... Fields>
  void operator()(Fields&... fields) {
    (One(&fields), ...);
  }
  bool ok() const { return ok_; }
  bool AtEnd() const { return ok_ && pos_ == data_.size(); }
  uint64_t remaining() const { return data_.size() - pos_; }
  // OK, or DATA_LOSS naming `what` when a read failed or bytes are left over.
  absl::Status Finish(absl::string_view what) const;

 private:
  void One(uint8_t* v) { *v = U8(); }
  void One(uint32_t* v) { *v = U32(); }
  void One(uint64_t* v) { *v = U64(); }
  void One(int64_t* v) { *v = I64(); }
  void One(double* v) { *v = F64(); }
  void One(std::string* v) { *v = std::string(Bytes()); }
  void One(Digest* v);
  bool Need(uint64_t n);
  absl::string_view data_;
  uint64_t pos_ = 0;
  bool ok_ = true;
};

// SharedBytes: immutable bytes that are shared, not copied.

// Bytes and a share in whoever owns them. Copies are cheap and read the same bytes. As thread-safe
// as a shared_ptr.
class SharedBytes {
 public:
  SharedBytes() = default;
  SharedBytes(std::string bytes) {
    auto owner = std::make_shared<const std::string>(std::move(bytes));
    view_ = *owner;
    owner_ = std::move(owner);
  }
  // `view` is of bytes that live as long as `owner`.
  SharedBytes(std::shared_ptr<const void> owner, absl::string_view view)
      : owner_(std::move(owner)), view_(view) {}

  // `part` is a view of these bytes.
  SharedBytes Slice(absl::string_view part) const { return SharedBytes(owner_, part); }

  operator absl::string_view() const { return view_; }
  absl::string_view view() const { return view_; }
  std::string str() const { return std::string(view_); }
  const char* data() const { return view_.data(); }
  size_t size() const { return view_.size(); }
  bool empty() const { return view_.empty(); }

  // With anything that reads as a string_view. Templates, so that a std::string is not turned into
  // SharedBytes first.
  friend bool operator==(const SharedBytes& a, const SharedBytes& b) { return a.view_ == b.view_; }
  friend bool operator!=(const SharedBytes& a, const SharedBytes& b) { return a.view_ != b.view_; }
  template <typename T>
  friend bool operator==(const SharedBytes& a, const T& b) {
    return a.view_ == absl::string_view(b);
  }
  template <typename T>
  friend bool operator==(const T& a, const SharedBytes& b) {
    return absl::string_view(a) == b.view_;
  }
  template <typename T>
  friend bool operator!=(const SharedBytes& a, const T& b) {
    return a.view_ != absl::string_view(b);
  }
  friend std::ostream& operator<<(std::ostream& out, const SharedBytes& bytes) {
    return out << bytes.view_;
  }

 private:
  std::shared_ptr<const void> owner_;
  absl::string_view view_;
};

}  // namespace sinter

#endif  // SINTER_SRC_BASE_CODEC_H_
