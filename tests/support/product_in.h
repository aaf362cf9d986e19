// ProductIn: the body of a test's kernel of products, to be changed.
#pragma once

#include <memory>

#include "src/plan/plan.h"

namespace sinter::testing {

// A body that no other spec shares: a copy if there is another one, a new one if there is none.
inline ProductBody& ProductIn(KernelSpec* spec) {
  const ProductBody* body = BodyAs<ProductBody>(spec->body);
  if (body == nullptr || spec->body.use_count() > 1) {
    spec->body = MakeBody(ProductOf(*spec));
    body = BodyAs<ProductBody>(spec->body);
  }
  return *const_cast<ProductBody*>(body);
}

}  // namespace sinter::testing

namespace sinter {
using testing::ProductIn;
}  // namespace sinter
