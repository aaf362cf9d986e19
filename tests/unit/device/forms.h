// Which forms of the device library a build compiles: an eighth of each list, a quarter of a short
// one, or all.
#ifndef SINTER_TESTS_UNIT_DEVICE_FORMS_H_
#define SINTER_TESTS_UNIT_DEVICE_FORMS_H_

#include <type_traits>

#include "gtest/gtest.h"

namespace sinter {

#ifdef SINTER_FORMS_EIGHTH
constexpr int kFormsEighth = SINTER_FORMS_EIGHTH;
#else
constexpr int kFormsEighth = -1;  // all
#endif

// Of a list of `count` forms. One of fewer than four always has its first.
constexpr bool TakesForm(int index, int count) {
  if (kFormsEighth < 0) return true;
  if (count < 4) return index == 0;
  const int parts = count < 8 ? 4 : 8;
  return index % parts == kFormsEighth % parts;
}

template <class Taken, int kIndex, int kCount, class... Rest>
struct TakeForms {
  using type = Taken;
};
template <class... Taken, int kIndex, int kCount, class Form, class... Rest>
struct TakeForms<::testing::Types<Taken...>, kIndex, kCount, Form, Rest...>
    : TakeForms<std::conditional_t<TakesForm(kIndex, kCount), ::testing::Types<Taken..., Form>,
                                   ::testing::Types<Taken...>>,
                kIndex + 1, kCount, Rest...> {};

// The types of a suite.
template <class... Form>
using Forms =
    typename TakeForms<::testing::Types<>, 0, static_cast<int>(sizeof...(Form)), Form...>::type;

}  // namespace sinter

#endif  // SINTER_TESTS_UNIT_DEVICE_FORMS_H_
