// SharedBytes: immutable bytes that are shared, not copied.
#ifndef SINTER_SRC_BASE_SHARED_BYTES_H_
#define SINTER_SRC_BASE_SHARED_BYTES_H_

#include <cstddef>
#include <memory>
#include <ostream>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace sinter {

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

#endif  // SINTER_SRC_BASE_SHARED_BYTES_H_
