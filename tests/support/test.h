// What every test includes: common.h, GoogleTest with the matchers in use, and statuses in tests.
#pragma once

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/common.h"

namespace sinter {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

inline ::testing::AssertionResult IsOk(const absl::Status& status) {
  if (status.ok()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << status.ToString();
}
template <typename T>
::testing::AssertionResult IsOk(const absl::StatusOr<T>& result) {
  return IsOk(result.status());
}
#define ASSERT_OK(expression) ASSERT_TRUE(::sinter::IsOk(expression))
#define EXPECT_OK(expression) EXPECT_TRUE(::sinter::IsOk(expression))

// Whether the message of `status` has `text`. Fails: and its code is `code`.
inline ::testing::AssertionResult Says(const absl::Status& status, absl::string_view text) {
  if (absl::StrContains(status.message(), text)) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "\"" << text << "\" is not in: " << status.ToString();
}
inline ::testing::AssertionResult Fails(const absl::Status& status, absl::StatusCode code,
                                        absl::string_view text) {
  if (status.code() == code) return Says(status, text);
  return ::testing::AssertionFailure() << "not " << code << ": " << status.ToString();
}
template <typename T>
::testing::AssertionResult Says(const absl::StatusOr<T>& result, absl::string_view text) {
  return Says(result.status(), text);
}
template <typename T>
::testing::AssertionResult Fails(const absl::StatusOr<T>& result, absl::StatusCode code,
                                 absl::string_view text) {
  return Fails(result.status(), code, text);
}

// The value of `result`. An error ends the test, which fails with `of` and the error's text.
template <typename T>
T Got(absl::StatusOr<T> result, const absl::AlphaNum& of = "") {
  if (!result.ok()) throw std::runtime_error(absl::StrCat(of, " ", result.status().ToString()));
  return *std::move(result);
}

}  // namespace sinter
