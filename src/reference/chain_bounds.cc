#include "src/reference/chain_bounds.h"

#include <algorithm>
#include <cmath>

#include "src/chain/products_view.h"

namespace sinter {
namespace {

constexpr double kUnits = 2;  // that BoundsFor covers

}  // namespace

Bounds BoundsOf(const Chain& chain, int output) {
  Bounds bounds = BoundsFor(chain.output_type(output).dtype);
  const absl::StatusOr<ProductsView> view = ViewAsProducts(chain);
  if (!view.ok()) return bounds;
  double units = 0;
  for (const ProductStep& step : view->steps) units = units * (step.gated ? 2 : 1) + 1;
  const double growth = std::sqrt(std::max(1.0, units / kUnits));
  bounds.relative *= growth;
  bounds.max *= growth;
  return bounds;
}

}  // namespace sinter
