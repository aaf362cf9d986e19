#include "src/fusion/stitch/vertex_reads.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "src/fusion/stitch/op_class.h"
#include "src/stitch/in_place.h"

namespace sinter {
namespace {

struct Need {
  int64_t elements = 0;
  int64_t units = 0;  // 0: none yet; gcd(0, x) is x
};

// Visits users before operands: a value is complete when it is removed.
using Needs = std::map<ValueId, Need, std::greater<ValueId>>;

void AskOperands(const Chain& chain, ValueId value, const Need& need, int64_t bucket,
                 Needs* needs) {
  const Op& op = chain.op(value);
  const bool in_place = WritesInPlace(chain, value);
  for (size_t slot = 0; slot < op.operands.size(); ++slot) {
    const Op& operand = chain.op(op.operands[slot]);
    const int64_t all = ElementsOf(operand, bucket);
    const bool takes_all = op.kind == OpKind::kReduce || op.kind == OpKind::kMatmul ||
                           op.kind == OpKind::kScaledMatmul || op.kind == OpKind::kConv2d ||
                           op.kind == OpKind::kScatter;
    Need& below = (*needs)[op.operands[slot]];
    const int64_t read = in_place && slot == 0 ? 0 : takes_all ? all : need.elements;
    below.elements = std::min(all, below.elements + read);
    below.units = std::gcd(below.units, std::gcd(need.units, LocalUnits(chain, op, slot, bucket)));
  }
}

}  // namespace

VertexReads ReadsOf(const Chain& chain, ValueId root, int64_t bucket,
                    const std::vector<bool>& through, const std::vector<bool>& listed) {
  VertexReads result;
  Needs needs;
  const Op& top = chain.op(root);
  const bool scatter = top.kind == OpKind::kScatter;  // walks its rows
  const Op& walked = scatter ? chain.op(top.operands[2]) : top;
  const int64_t iteration =
      ElementsOf(top.kind == OpKind::kReduce ? chain.op(top.operands[0]) : walked, bucket);
  needs[root] = {ElementsOf(walked, bucket), iteration};
  while (!needs.empty()) {
    const auto [value, need] = *needs.begin();
    needs.erase(needs.begin());
    ++result.visits;
    const Op& op = chain.op(value);
    const bool source =
        op.kind == OpKind::kInput || (value != root && !through[static_cast<size_t>(value)]);
    if (source) {
      result.sources.push_back({value, need.elements, need.units});
      continue;
    }
    if (value != root && listed[static_cast<size_t>(value)]) result.along.push_back(value);
    AskOperands(chain, value, need, bucket, &needs);
  }
  return result;
}

}  // namespace sinter
