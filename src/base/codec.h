// Byte codec of every record and canonical form: little-endian fixed-width integers and
// length-prefixed strings.
//
// ByteWriter and ByteReader take the same fields, so that one function of fields writes a struct
// and reads it back. The type of a field says its bytes:
//   bool, enum          u8
//   unsigned, float     of their width; float as double
//   signed              i64
//   string              u64 length, then the bytes
//   std::array          its elements
//   std::vector         u32 count, then its elements
//   std::optional       u8, then the value if it is 1
//   a field table       its fields (fields.h)
// Formats that need other bytes wrap the field: Byte, Word, Long, ByteList, Bits.
#ifndef SINTER_SRC_BASE_CODEC_H_
#define SINTER_SRC_BASE_CODEC_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "src/base/digest.h"

namespace sinter {

// A field that is stored as `Wire`. A reader refuses values above `most`.
template <typename Wire, typename T>
struct StoredAs {
  T& field;
  Wire most;
};
template <typename T>
StoredAs<uint8_t, T> Byte(T& field, uint8_t most = 0xff) {
  return {field, most};
}
// A vector has a u32 count, then u32 elements.
template <typename T>
StoredAs<uint32_t, T> Word(T& field, uint32_t most = 0xffffffff) {
  return {field, most};
}
template <typename T>
StoredAs<uint64_t, T> Long(T& field) {
  return {field, ~uint64_t{0}};
}

// A vector whose count is a u8.
template <typename T>
struct StoredByteList {
  T& list;
};
template <typename T>
StoredByteList<T> ByteList(T& list) {
  return {list};
}

// Flags, or enums of 0 and 1, in a u8, the first one in its lowest bit. A reader refuses further
// bits.
template <typename... Flags>
struct StoredBits {
  std::tuple<Flags&...> flags;
};
template <typename... Flags>
StoredBits<Flags...> Bits(Flags&... flags) {
  static_assert(sizeof...(flags) <= 8, "they share one byte");
  return {{flags...}};
}

class ByteWriter {
 public:
  static constexpr bool kReads = false;
  void U8(uint8_t v) { out_.push_back(static_cast<char>(v)); }
  void U32(uint32_t v);
  void U64(uint64_t v);
  void I64(int64_t v) { U64(static_cast<uint64_t>(v)); }
  void F64(double v);               // IEEE-754 bits
  void Bytes(absl::string_view v);  // u64 length, then the bytes
  void Raw(absl::string_view v) { out_.append(v.data(), v.size()); }
  // Fields in order, each as its type says.
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
  void One(double v) { F64(v); }
  void One(float v) { F64(v); }
  void One(const std::string& v) { Bytes(v); }
  void One(const Digest& v) { Raw(v.View()); }
  template <typename T>
  void One(const T& v) {
    if constexpr (std::is_enum_v<T> || std::is_same_v<T, bool>) {
      U8(static_cast<uint8_t>(v));
    } else if constexpr (std::is_integral_v<T>) {
      I64(v);
    } else {
      v.WithFields(*this);
    }
  }
  template <typename T, size_t n>
  void One(const std::array<T, n>& v) {
    for (const T& each : v) One(each);
  }
  template <typename T>
  void One(const std::vector<T>& v) {
    U32(static_cast<uint32_t>(v.size()));
    for (const T& each : v) One(each);
  }
  template <typename T>
  void One(const std::optional<T>& v) {
    U8(v.has_value());
    if (v.has_value()) One(*v);
  }
  template <typename Wire, typename T>
  void One(const StoredAs<Wire, T>& v) {
    One(static_cast<Wire>(v.field));
  }
  template <typename T>
  void One(const StoredAs<uint32_t, const std::vector<T>>& v) {
    U32(static_cast<uint32_t>(v.field.size()));
    for (const T& each : v.field) U32(static_cast<uint32_t>(each));
  }
  template <typename T>
  void One(const StoredByteList<T>& v) {
    U8(static_cast<uint8_t>(v.list.size()));
    for (const auto& each : v.list) One(each);
  }
  template <typename... Flags>
  void One(const StoredBits<Flags...>& v) {
    unsigned bits = 0, bit = 0;
    std::apply([&](auto&... f) { ((bits |= static_cast<unsigned>(f) << bit++), ...); }, v.flags);
    U8(static_cast<uint8_t>(bits));
  }

  std::string out_;
};

// Reads what ByteWriter wrote. Input is untrusted: the first read past the end, and the first field
// out of its bounds, makes the reader bad, and every later read returns zero or empty. Check ok()
// once at the end, before using anything that was read. An enum is any byte: its reader checks it.
class ByteReader {
 public:
  static constexpr bool kReads = true;
  explicit ByteReader(absl::string_view data) : data_(data) {}
  uint8_t U8();
  uint32_t U32();
  uint64_t U64();
  int64_t I64() { return static_cast<int64_t>(U64()); }
  double F64();
  absl::string_view Bytes();  // borrowed from the input
  absl::string_view Raw(uint64_t size);
  template <typename... Fields>
  void operator()(Fields&&... fields) {
    (One(fields), ...);
  }
  bool ok() const { return ok_; }
  bool AtEnd() const { return ok_ && pos_ == data_.size(); }
  uint64_t remaining() const { return data_.size() - pos_; }
  // OK, or DATA_LOSS naming `what` when a read failed, a field is out of its bounds, or bytes are
  // left over.
  absl::Status Finish(absl::string_view what) const;

 private:
  void One(uint8_t& v) { v = U8(); }
  void One(uint32_t& v) { v = U32(); }
  void One(uint64_t& v) { v = U64(); }
  void One(double& v) { v = F64(); }
  void One(float& v) { v = static_cast<float>(F64()); }
  void One(bool& v) { v = AtMost<uint8_t>(U8(), 1) != 0; }
  void One(std::string& v) { v = std::string(Bytes()); }
  void One(Digest& v);
  template <typename T>
  void One(T& v) {
    if constexpr (std::is_enum_v<T>) {
      v = static_cast<T>(U8());
    } else if constexpr (std::is_integral_v<T>) {
      v = static_cast<T>(I64());
    } else {
      v.WithFields(*this);
    }
  }
  template <typename T, size_t n>
  void One(std::array<T, n>& v) {
    for (T& each : v) One(each);
  }
  template <typename T>
  void One(std::vector<T>& v) {
    const uint32_t count = U32();
    for (uint32_t i = 0; i < count && ok_; ++i) One(v.emplace_back());
  }
  template <typename T>
  void One(std::optional<T>& v) {
    bool present = false;
    One(present);
    if (present) One(v.emplace());
  }
  template <typename Wire, typename T>
  void One(StoredAs<Wire, T>& v) {
    Wire stored{};
    One(stored);
    v.field = static_cast<T>(AtMost(stored, v.most));
  }
  template <typename T>
  void One(StoredAs<uint32_t, std::vector<T>>& v) {
    const uint32_t count = U32();
    for (uint32_t i = 0; i < count && ok_; ++i) {
      v.field.push_back(static_cast<T>(AtMost(U32(), v.most)));
    }
  }
  template <typename T>
  void One(StoredByteList<T>& v) {
    v.list.resize(U8());
    for (auto& each : v.list) One(each);
  }
  template <typename... Flags>
  void One(StoredBits<Flags...>& v) {
    const unsigned bits = AtMost<uint8_t>(U8(), (1u << sizeof...(Flags)) - 1);
    unsigned bit = 0;
    std::apply([&](auto&... f) { ((f = static_cast<Flags>(bits >> bit++ & 1)), ...); }, v.flags);
  }
  // 0 if it is more than `most`, which makes the reader bad.
  template <typename Wire>
  Wire AtMost(Wire value, Wire most) {
    if (value <= most) return value;
    ok_ = in_bounds_ = false;
    return 0;
  }
  bool Need(uint64_t n);
  absl::string_view data_;
  uint64_t pos_ = 0;
  bool ok_ = true;
  bool in_bounds_ = true;
};

// SharedBytes: immutable bytes that are shared, not copied.

// Bytes and a share in their owner. Copies are cheap and read the same bytes. As thread-safe
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
