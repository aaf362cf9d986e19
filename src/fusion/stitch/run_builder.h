// RunBuilder: makes runs of values, or says why no kernel takes them. Remembers in which dtype
// values lie in memory, because readers of one value must agree.
#ifndef SINTER_SRC_FUSION_STITCH_RUN_BUILDER_H_
#define SINTER_SRC_FUSION_STITCH_RUN_BUILDER_H_

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "src/fusion/stitch/product_runs.h"

namespace sinter {

class RunBuilder {
 public:
  using Values = std::set<ValueId>;

  RunBuilder(const Chain& chain, int64_t bucket);

  // Of the products and ops `members`, whose rows are `a`, weights of `dtype` and result `end`.
  absl::StatusOr<GraphRun> Build(const Values& members, ValueId a, DType dtype, ValueId end) const;
  // What the run hands over or reads lies in memory as it has it, for all runs to come.
  void Note(const GraphRun& run);
  // Whether a run has it in memory as `dtype`.
  bool IsRounded(ValueId value, DType dtype) const;
  bool IsOutput(ValueId value) const { return is_output_[static_cast<size_t>(value)]; }

 private:
  absl::Status CheckStored(ValueId value, DType dtype) const;
  bool RoundedAlike(ValueId value, DType dtype) const;
  absl::Status CheckOperands(const GraphRun& run) const;
  absl::Status CheckEnd(const GraphRun& run, ValueId end) const;

  const Chain& chain_;
  const int64_t bucket_;
  std::vector<bool> is_output_;
  std::map<ValueId, DType> rounded_;  // what runs hand over or read, as what it lies in memory
};

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_STITCH_RUN_BUILDER_H_
