// Which forms of the device library a build compiles: a quarter of each list, or all.
#ifndef SINTER_TESTS_UNIT_DEVICE_FORMS_H_
#define SINTER_TESTS_UNIT_DEVICE_FORMS_H_

#include "tests/support/test.h"

namespace sinter {

#ifdef SINTER_FORMS_QUARTER
constexpr int kFormsQuarter = SINTER_FORMS_QUARTER;
#else
constexpr int kFormsQuarter = -1;  // all
#endif

constexpr bool TakesForm(int index) { return kFormsQuarter < 0 || index % 4 == kFormsQuarter; }

template <class Taken, int kIndex, class... Rest>
struct TakeForms {
  using type = Taken;
};
template <class... Taken, int kIndex, class Form, class... Rest>
struct TakeForms<::testing::Types<Taken...>, kIndex, Form, Rest...>
    : TakeForms<std::conditional_t<TakesForm(kIndex), ::testing::Types<Taken..., Form>,
                                   ::testing::Types<Taken...>>,
                kIndex + 1, Rest...> {};

// The types of a suite. A list of fewer than four always has its first.
template <class... Form>
using Forms =
    typename TakeForms<::testing::Types<>, sizeof...(Form) < 4 ? kFormsQuarter : 0, Form...>::type;

}  // namespace sinter

#endif  // SINTER_TESTS_UNIT_DEVICE_FORMS_H_
