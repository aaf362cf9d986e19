#include "tests/support/recipes/address_set.h"

namespace sinter::testing {

AddressSet::AddressSet(int64_t first, int64_t element)
    : empty_(false), first_(first), digits_{{1, element}} {}

void AddressSet::Repeat(int64_t extent, int64_t stride) {
  if (extent == 0) empty_ = true;
  if (extent <= 1 || stride == 0) return;
  digits_.push_back({stride, extent});
  std::sort(digits_.begin(), digits_.end(), [](const Digit& a, const Digit& b) {
    return a.stride != b.stride ? a.stride < b.stride : a.extent < b.extent;
  });
  std::vector<Digit> joined;
  for (const Digit& digit : digits_) {
    if (!joined.empty() && joined.back().stride * joined.back().extent == digit.stride) {
      joined.back().extent *= digit.extent;
    } else {
      joined.push_back(digit);
    }
  }
  digits_ = std::move(joined);
}

int64_t AddressSet::end() const {
  int64_t last = first_;
  for (const Digit& digit : digits_) last += digit.stride * (digit.extent - 1);
  return empty_ ? first_ : last + 1;
}

int64_t AddressSet::count() const {
  int64_t count = empty_ ? 0 : 1;
  for (const Digit& digit : digits_) count *= digit.extent;
  return count;
}

bool AddressSet::Distinct() const {
  int64_t span = 1;
  for (const Digit& digit : digits_) {
    if (digit.stride < span) return false;
    span += digit.stride * (digit.extent - 1);
  }
  return true;
}

bool AddressSet::Holds(int64_t byte) const {
  int64_t rest = byte - first_;
  if (empty_ || rest < 0) return false;
  for (size_t i = digits_.size(); i-- > 0;) {
    rest -= std::min(rest / digits_[i].stride, digits_[i].extent - 1) * digits_[i].stride;
  }
  return rest == 0;
}

bool AddressSet::operator==(const AddressSet& o) const {
  if (empty_ || o.empty_) return empty_ == o.empty_;
  return first_ == o.first_ && digits_ == o.digits_;
}

std::string AddressSet::ToString() const {
  if (empty_) return "nothing";
  std::string text = absl::StrCat(first_);
  for (const Digit& digit : digits_)
    absl::StrAppend(&text, " + ", digit.extent, " x ", digit.stride);
  return text;
}

}  // namespace sinter::testing
