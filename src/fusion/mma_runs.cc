// Products of a chain as runs of the family that multiplies by mma.sync.
#include <utility>

#include "src/base/status.h"
#include "src/fusion/product_runs.h"
#include "src/plan/mma_family.h"

namespace sinter {

absl::StatusOr<GraphRun> MmaRunOf(const Chain& chain, const GraphRun& run) {
  const MatchedSequence& matched = run.matched;
  if (matched.size() != 1 || matched.sequence.rows_per_m != 1 || run.scale >= 0) {
    return absl::NotFoundError("not one result of one product");
  }
  const ProductInputs& in = matched.InputsOf(0);
  MmaProduct p;
  p.product = matched.sequence[0];
  p.rows = matched.sequence.rows();
  p.of_m = !run.constant_rows;
  p.row_stride = matched.rows_stride;
  p.weight_stride = in.weights_stride;
  p.residual_stride = in.residual_stride;
  p.out_stride = matched.output_stride;
  if (p.product.pair && in.weights_up_stride != in.weights_stride) {
    return Invalid("strides of gate and up are ", in.weights_stride, " and ", in.weights_up_stride,
                   ", must be equal on chips without wgmma: copy one");
  }
  SINTER_RETURN_IF_ERROR(CheckMmaProduct(p));
  OwnRun own;
  own.family = &MmaFamily();
  own.result = p.product.result;
  own.text = p.product.pair ? "gated pair" : "product";
  if (p.product.epilogue.program.present()) {
    own.text += " + " + sinter::ToString(p.product.epilogue.program);
  }
  for (const MmaOperand& operand : OperandsOf(p)) {
    const bool up = operand.number == 1;
    int number = -1;
    switch (operand.kind) {
      case MmaOperand::kRows:
        number = matched.rows;
        break;
      case MmaOperand::kWeights:
        number = up ? in.weights_up : in.weights;
        break;
      case MmaOperand::kRowScale:
        number = in.scale_rows;
        break;
      case MmaOperand::kWeightScale:
        number = up ? in.scale_up : in.scale_weights;
        break;
      case MmaOperand::kLeaf:
        number = in.leaves[static_cast<size_t>(operand.number)];
        break;
      case MmaOperand::kResult:
        continue;
    }
    own.operands.push_back({matched.ValueOf(number)});
  }
  own.problem = MakeBody(std::move(p));
  return MakeOwnRun(chain, std::move(own), run.values, run);
}

}  // namespace sinter
