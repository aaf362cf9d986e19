// Products of a chain whose weights are unpacked from four bits, as runs of the family that unpacks
// them itself.
#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "src/base/status.h"
#include "src/chain/chain.h"
#include "src/fusion/four_bit_weights_finder.h"
#include "src/fusion/product_runs.h"
#include "src/plan/four_bit_family.h"

namespace sinter {
namespace {

std::string NoteOfFourBits(const FourBitProduct& p) {
  std::string text = p.product.pair ? "gated pair" : "product";
  text += p.weights.e2m1 ? " of e2m1" : " of u4";
  if (p.product.epilogue.program.present()) {
    text += " + " + sinter::ToString(p.product.epilogue.program);
  }
  return text;
}

}  // namespace

bool MayHaveFourBits(const Chain& chain) {
  return std::any_of(chain.ops().begin(), chain.ops().end(), [](const Op& op) {
    return op.kind == OpKind::kInput && op.type.dtype == DType::kS8 &&
           (op.type.rank() == 2 || op.type.rank() == 3);
  });
}

absl::StatusOr<GraphRun> FourBitRunOf(const Chain& chain, const Users& users,
                                      const std::vector<bool>& claimed, const GraphRun& run) {
  const MatchedSequence& matched = run.matched;
  if (matched.size() != 1 || !run.aux.empty() || run.scale >= 0) {
    return absl::NotFoundError("not one result of one product");
  }
  const ProductInputs& in = matched.InputsOf(0);
  FourBitProduct p;
  p.product = matched.sequence[0];
  p.fixed_rows = run.constant_rows ? matched.sequence.rows() : 0;
  p.row_stride = matched.rows_stride;
  p.residual_stride = in.residual_stride;
  p.out_stride = matched.output_stride;
  std::vector<FoundFourBitWeights> all;
  for (const int number : {in.weights, in.weights_up}) {
    if (number < 0) continue;
    std::optional<FoundFourBitWeights> found =
        FindFourBitWeights(chain, matched.ValueOf(number), 2);
    if (!found.has_value()) return absl::NotFoundError("other weights");
    if (!all.empty() && found->format != all.front().format) {
      return absl::NotFoundError("gate and up of two formats");
    }
    all.push_back(*std::move(found));
  }
  p.weights = all.front().format;
  SINTER_RETURN_IF_ERROR(CheckFourBitProduct(p));

  std::set<ValueId> values(run.values.begin(), run.values.end());
  for (const FoundFourBitWeights& w : all) values.insert(w.values.begin(), w.values.end());
  for (const ValueId value : values) {
    const bool apart = value == run.end || users.AreAmong(values, value);
    if (!apart || claimed[static_cast<size_t>(value)]) {
      return absl::NotFoundError("others read the unpacked weights");
    }
  }
  OwnRun own;
  own.family = &FourBitFamily();
  own.result = p.product.result;
  own.text = NoteOfFourBits(p);
  own.operands.push_back({matched.ValueOf(matched.rows)});
  for (ValueId FoundFourBitWeights::*of :
       {&FoundFourBitWeights::bytes, &FoundFourBitWeights::scale, &FoundFourBitWeights::zero}) {
    for (const FoundFourBitWeights& w : all) {
      if (w.*of >= 0) own.operands.push_back({w.*of});
    }
  }
  for (const int input : p.product.epilogue.program.OperandInputs()) {
    own.operands.push_back({matched.ValueOf(in.leaves[static_cast<size_t>(input)])});
  }
  own.problem = MakeBody(std::move(p));
  return MakeOwnRun(chain, std::move(own), {values.begin(), values.end()}, run);
}

}  // namespace sinter
