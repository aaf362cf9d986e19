// Which forms of the device library a build compiles: an eighth of each list, or all.
#pragma once

#include "tests/support/test.h"

namespace sinter {

#ifdef SINTER_FORMS_EIGHTH
constexpr int kFormsEighth = SINTER_FORMS_EIGHTH;
#else
constexpr int kFormsEighth = -1;  // all
#endif

// Takes one of each `kParts` forms.
template <int kParts>
constexpr bool TakesForm(int index) {
  return kFormsEighth < 0 || index % kParts == kFormsEighth % kParts;
}

template <class Taken, int kParts, int kIndex, class... Rest>
struct TakeForms {
  using type = Taken;
};
template <class... Taken, int kParts, int kIndex, class Form, class... Rest>
struct TakeForms<::testing::Types<Taken...>, kParts, kIndex, Form, Rest...>
    : TakeForms<std::conditional_t<TakesForm<kParts>(kIndex), ::testing::Types<Taken..., Form>,
                                   ::testing::Types<Taken...>>,
                kParts, kIndex + 1, Rest...> {};

// The types of a suite. A list of fewer than eight has one.
template <class... Form>
using Forms = typename TakeForms<::testing::Types<>,
                                 sizeof...(Form) < 8 ? static_cast<int>(sizeof...(Form)) : 8, 0,
                                 Form...>::type;

}  // namespace sinter
