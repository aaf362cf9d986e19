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

// The runs of products of a chain and the classes of its values. Computed once for all plans of the
// chain. The chain must outlive it.
class ChainMeaning {
 public:
  ChainMeaning(const Chain& chain, int64_t bucket);

  const Chain& chain() const { return chain_; }
  const std::vector<GraphRun>& runs() const { return runs_; }
  // Products that multiply by the chain's input `weight`: pairs of a run and a number in it.
  const std::vector<std::pair<int, int>>& ProductsOf(int weight) const;

  ValueClasses& classes() { return classes_; }
  // Class of the result of product `product` of a run.
  ValueClasses::Class ResultOf(int run, int product) const {
    return results_[static_cast<size_t>(run)][static_cast<size_t>(product)];
  }
  // Class of the memory that a run reads as `operand`.
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

// Is given a plan's kernels in order, and tracks the content of each buffer and of each place in
// the workspace. Checks that
// - a product kernel computes one or two products of a run of the chain: sequence, marks, operands,
//   strides and rows are those that planning binds for them; the schedule and places in the
//   workspace may differ;
// - a stitched kernel's body reads what its operands hold, and every output of the chain that it
//   stores is made by the chain's ops;
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
  struct Part;  // the products of a run that one kernel would compute

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
  std::map<uint64_t, Tensor> workspace_;  // by offset: the last tensor written there
};

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_FIT_MEANING_H_
