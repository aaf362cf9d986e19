// Meaning: whether the kernels of a plan compute the chain.
#ifndef SINTER_SRC_FUSION_FIT_MEANING_H_
#define SINTER_SRC_FUSION_FIT_MEANING_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "src/chain/chain.h"
#include "src/fusion/fit/value_classes.h"
#include "src/fusion/product_runs.h"
#include "src/plan/plan.h"

namespace sinter {

// The products of a chain as kernels may take them, and the numbers of its values. Found once, for
// all plans of the chain. The chain outlives it.
class ChainMeaning {
 public:
  ChainMeaning(const Chain& chain, int64_t bucket);

  const Chain& chain() const { return chain_; }
  const std::vector<GraphRun>& runs() const { return runs_; }
  // Products that multiply by the chain's input `weight`: run, number in it.
  const std::vector<std::pair<int, int>>& ProductsOf(int weight) const;

  ValueClasses& classes() { return classes_; }
  // Of what product `product` of a run hands to the next one or, the last, out of the run.
  ValueClasses::Class ResultOf(int run, int product) const {
    return results_[static_cast<size_t>(run)][static_cast<size_t>(product)];
  }
  // Of what lies in memory where a run reads `operand`.
  ValueClasses::Class ClassOf(const ProductOperand& operand) {
    return classes_.Stored(classes_.Of(operand.value), operand.type.dtype);
  }

 private:
  void NameResults(const GraphRun& run);

  const Chain& chain_;
  const std::vector<GraphRun> runs_;
  std::map<int, std::vector<std::pair<int, int>>> by_weight_;
  const std::vector<std::pair<int, int>> none_;
  ValueClasses classes_;
  std::vector<std::vector<ValueClasses::Class>> results_;
};

// Is shown a plan's kernels in their order, and follows what each buffer and each place of the
// workspace holds. Holds that
// - a product kernel computes one or two products of a run of the chain: sequence, marks, operands,
//   strides and rows are what planning binds for them, whatever the schedule and the workspace;
// - a stitched kernel's body reads what lies where its operands are, and every output of the chain
//   that it stores is made by the chain's ops;
// - every output is stored once, whole, as the chain declares it.
class Meaning {
 public:
  explicit Meaning(ChainMeaning* chain)
      : of_(chain), chain_(chain->chain()), stored_(chain_.outputs().size(), false) {}

  absl::Status Add(const KernelSpec& spec);
  absl::Status Finish() const;

 private:
  using Class = ValueClasses::Class;
  struct Tensor {
    Class value = -1;
    TensorType type;
  };
  struct Part;  // of a run: what one kernel would compute

  absl::Status AddProducts(const KernelSpec& spec);
  absl::Status CheckPart(const KernelSpec& spec, const Part& part) const;
  absl::Status CheckOperands(const KernelSpec& spec, const Part& part) const;
  absl::Status CheckHeld(const OperandBinding& operand, Class value, ValueId of,
                         const TensorType& type) const;
  absl::Status CheckStored(const OperandBinding& operand, const Part& part) const;

  absl::Status AddStitch(const StitchSpec& stitch);
  absl::StatusOr<Class> ClassOfInput(const StitchSpec& stitch, int input) const;
  absl::Status Store(const StitchSpec& stitch, int output, Class value);
  absl::Status StoreOutput(const StitchSpec& stitch, int output, Class value);
  absl::Status CheckAlias(const StitchSpec& stitch, int output, int alias) const;

  ChainMeaning* const of_;
  const Chain& chain_;
  std::vector<bool> stored_;              // outputs
  std::map<uint64_t, Tensor> workspace_;  // by offset: what was written there last
};

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_FIT_MEANING_H_
