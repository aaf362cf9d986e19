#include "src/reference/chain_bounds.h"

#include <algorithm>
#include <cmath>

#include "src/product/matcher.h"

namespace sinter {
namespace {

constexpr double kUnits = 2;           // that BoundsFor covers
constexpr double kCodesOverBF16 = 16;  // steps: of e4m3 three bits behind the point, not seven
// Of sums of e4m3 products: tensor cores keep 13 fraction bits of 128 terms, cut toward zero, which
// adds up where all terms have one sign.
constexpr Bounds kPromotedSums{1e-3, 5e-3, 0};
// The same of fast sums, over the root of k: all of k is one sum, whose terms have both signs.
constexpr Bounds kFastSums{4e-5, 5e-4, 0};

Bounds Looser(const Bounds& a, const Bounds& b) {
  return {std::max(a.relative, b.relative), std::max(a.max, b.max),
          std::max(a.neighbours, b.neighbours)};
}

// Of a value that was rounded to `dtype` and is not stored as it.
Bounds BoundsBehind(DType dtype) {
  if (!IsCode(dtype)) return BoundsFor(dtype);
  const Bounds bf16 = BoundsFor(DType::kBF16);
  return {kCodesOverBF16 * bf16.relative, kCodesOverBF16 * bf16.max, 0};
}

bool Computes(const Op& op) {
  return op.kind == OpKind::kUnary || op.kind == OpKind::kBinary || op.kind == OpKind::kReduce ||
         op.kind == OpKind::kMatmul || op.kind == OpKind::kScaledMatmul ||
         op.kind == OpKind::kConv2d;
}

bool SumsOfE4M3(const Chain& chain, const Op& op) {
  const bool product = op.kind == OpKind::kMatmul || op.kind == OpKind::kScaledMatmul;
  return product && chain.op(op.operands[0]).type.dtype == DType::kE4M3;
}

Bounds BoundsOfSums(const Chain& chain, const Op& op) {
  if (!SumsOfE4M3(chain, op)) return {};
  if (op.accumulate == Accumulate::kPromoted) return kPromotedSums;
  const double root = std::sqrt(static_cast<double>(chain.op(op.operands[0]).type.dims[1].value));
  return Looser(kPromotedSums, {kFastSums.relative * root, kFastSums.max * root, 0});
}

// The loosest bounds of what `output` was rounded to on its way, of values that f32 does not hold
// as float64 does; zeros where there is none.
Bounds BoundsOfRoundings(const Chain& chain, int output) {
  struct Way {
    bool computed = false;
    Bounds bounds;
  };
  std::vector<Way> ways(chain.ops().size());
  for (size_t id = 0; id < ways.size(); ++id) {
    const Op& op = chain.op(static_cast<ValueId>(id));
    Way& way = ways[id];
    way.computed = Computes(op) && HoldsFloats(op.type.dtype);
    for (const ValueId operand : op.operands) {
      const Way& before = ways[static_cast<size_t>(operand)];
      way.computed |= before.computed;
      way.bounds = Looser(way.bounds, before.bounds);
    }
    way.bounds = Looser(way.bounds, BoundsOfSums(chain, op));
    // What is cast is rounded; what is computed in 16 bits may be, where a kernel hands it over.
    const bool narrows = HoldsFloats(op.type.dtype) || IsCode(op.type.dtype);
    const bool rounds = op.kind == OpKind::kCast ? narrows : Computes(op) && IsFloat(op.type.dtype);
    if (rounds && way.computed) way.bounds = Looser(way.bounds, BoundsBehind(op.type.dtype));
  }
  return ways[static_cast<size_t>(chain.outputs()[static_cast<size_t>(output)].value)].bounds;
}

}  // namespace

Bounds BoundsOf(const Chain& chain, int output) {
  const DType dtype = chain.output_type(output).dtype;
  Bounds bounds = BoundsFor(dtype);
  if (IsFloat(dtype)) bounds = Looser(bounds, BoundsOfRoundings(chain, output));
  const absl::StatusOr<MatchedSequence> matched = MatchProducts(chain);
  if (!matched.ok()) return bounds;
  double units = 0;
  for (const MatrixProduct& p : matched->sequence.products) units = units * p.Width() + 1;
  const double growth = std::sqrt(std::max(1.0, units / kUnits));
  bounds.relative *= growth;
  bounds.max *= growth;
  return bounds;
}

}  // namespace sinter
