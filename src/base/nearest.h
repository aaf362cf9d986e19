// Did-you-mean: the known word nearest to one that is not known.
#ifndef SINTER_SRC_BASE_NEAREST_H_
#define SINTER_SRC_BASE_NEAREST_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace sinter {

// Edits (insert, delete, replace, swap neighbours) that turn `a` into `b`.
int EditDistance(absl::string_view a, absl::string_view b);
// The nearest of `known`; "" when none is near enough to be meant, or `word` is longer than any
// known word can be (64 characters).
std::string Nearest(absl::string_view word, const std::vector<std::string>& known);

}  // namespace sinter

#endif  // SINTER_SRC_BASE_NEAREST_H_
