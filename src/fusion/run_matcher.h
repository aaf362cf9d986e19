// RunMatcher: matches parts of a graph as runs of products, or says why no kernel takes them.
// Remembers the dtype in which values are stored, because all readers of a value must agree.
#ifndef SINTER_SRC_FUSION_RUN_MATCHER_H_
#define SINTER_SRC_FUSION_RUN_MATCHER_H_

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "src/fusion/product_runs.h"

namespace sinter {

class RunMatcher {
 public:
  using Values = std::set<ValueId>;

  RunMatcher(const Chain& chain, int64_t bucket);

  // The run that computes `end` from the rows `a` by the products and ops `members`, and by views
  // and constants that lead to them; all other values are operands, and what a noted run stores.
  // The result and computed rows are stored as `dtype`, the weights'; of codes, the result as the
  // chain has it. No noted run may read a member but `end`. `aux`: members that the chain gives
  // out, and that only members read; each is stored as the result is.
  absl::StatusOr<GraphRun> Match(const Values& members, ValueId a, DType dtype, ValueId end,
                                 const std::vector<ValueId>& aux = {}) const;
  // Fixes for later runs which values this run stores and reads, and their dtypes.
  void Note(const GraphRun& run);
  // Whether a run stores or reads it as `dtype`.
  bool IsRounded(ValueId value, DType dtype) const;
  // The matrix of a product, below the views through which its kernel reads it: an input, or what
  // another kernel computes and stores.
  ValueId WeightOf(ValueId product) const;
  bool IsComputedWeight(ValueId value) const { return weights_.count(value) > 0; }
  bool IsOutput(ValueId value) const { return is_output_[static_cast<size_t>(value)]; }

 private:
  // The dtype of a result `end` of weights of `dtype`: not below the chain's, unless products of
  // such weights alone read it.
  DType ResultOf(ValueId end, DType dtype) const;
  // Whether all that reads `value` multiplies it by weights of `dtype`, or casts it to `dtype`.
  bool OnlyMultiplied(ValueId value, DType dtype) const;
  // Whether codes of 8-bit floats, and scales of the products that read them, are all that is made
  // of `value`, by ops that pass small relative errors on; none of it but codes is given out.
  bool OnlyMadeIntoCodes(ValueId value) const;
  Subgraph GraphOf(const Values& members, ValueId a, DType dtype, ValueId end,
                   const std::vector<ValueId>& aux) const;
  absl::Status CheckStored(ValueId value, DType dtype) const;
  bool RoundedAlike(ValueId value, DType dtype) const;
  absl::Status CheckOperands(const MatchedSequence& matched) const;
  absl::Status CheckEnd(const MatchedSequence& matched, ValueId end) const;
  absl::Status CheckAux(ValueId aux) const;

  const Chain& chain_;
  const int64_t bucket_;
  std::vector<bool> is_output_;
  std::vector<std::vector<ValueId>> users_;
  Values weights_;                    // that are computed
  std::map<ValueId, DType> rounded_;  // the stored dtype of values that runs hand over or read
  Values made_;                       // by noted runs
};

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_RUN_MATCHER_H_
