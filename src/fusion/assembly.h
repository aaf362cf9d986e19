// Assembly: the plan of a chain from decisions. The search, and the readers of decisions from a
// record, a pack or a tuning set, get plans from the same code.
#ifndef SINTER_SRC_FUSION_ASSEMBLY_H_
#define SINTER_SRC_FUSION_ASSEMBLY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/base/device_model.h"
#include "src/base/keep_going.h"
#include "src/base/status.h"
#include "src/chain/chain.h"
#include "src/fusion/product_runs.h"
#include "src/fusion/stitch/stitch_graph.h"
#include "src/plan/kernel_code.h"
#include "src/plan/plan.h"

namespace sinter {

class ChainParts;

// The request, besides chain, bucket and chip.
struct AssemblyRequest {
  bool batch_invariant = false;
  bool allow_cooperative = true;
  // Asked every few milliseconds of work, and obeyed; null: never. Outlives the assembly.
  const KeepGoing* keep_going = nullptr;
};

struct AssembledPlan {
  Plan plan;
  std::vector<KernelCode> codes;  // of its kernels
};

// Assembles plans of one chain at one bucket on one chip; what plans share is found once. Chain and
// model must outlive it. Not thread-safe.
//
// Runs of products, vertices of the rest and bodies are found in the chain as planning finds them,
// so a plan computes the chain whatever its decisions are:
// - every op is computed by one kernel, after the kernels that it needs;
// - a kernel of products has one product of a run, or two that may share a kernel; the products of
//   a run follow one another;
// - a schedule is legal for its products or its body, on the chip (KernelFamily::Check).
class Assembly {
 public:
  Assembly(const Chain& chain, int64_t bucket, const DeviceModel& model,
           const AssemblyRequest& request = {});
  ~Assembly();
  Assembly(const Assembly&) = delete;
  Assembly& operator=(const Assembly&) = delete;

  // FAILED_PRECONDITION that names the kernel, the value and the bound if `decisions` do not belong
  // to the chain or do not match the request; RESOURCE_EXHAUSTED where its bodies would take more
  // work than planning may (StitchBudget); the error of request.keep_going when it refuses.
  absl::StatusOr<AssembledPlan> Assemble(const Decisions& decisions);

 private:
  class Maker;
  absl::StatusOr<ChainParts*> PartsOf(const Absorbed& absorbed, Pace* pace);
  absl::StatusOr<AssembledPlan> AssembleAt(const Decisions& decisions, Pace* pace);
  // OK if all kernels are batch-invariant, or none is, as requested. In a batch-invariant plan each
  // kernel must pass its family's CheckRowOrder, and a plan with a kernel whose order planning
  // chose must have the RowOrder of the plan for kRowOrderBucket rows. That plan is made once, when
  // the first such plan is checked; the error of `keep_going` if it stops the planning.
  absl::Status CheckOrder(const Plan& plan);
  absl::Status CheckOrder(const KernelSpec& spec) const;
  absl::StatusOr<std::string> WantedOrder();

  const Chain& chain_;
  const int64_t bucket_;
  const DeviceModel& model_;
  const AssemblyRequest request_;
  const bool batch_invariant_;                      // as requested, where M occurs
  std::vector<std::unique_ptr<ChainParts>> parts_;  // by what products absorb
  std::optional<std::string> wanted_order_;
};

// Assembly::Assemble as a function. Chain and model must outlive it.
using PlanAssembly = std::function<absl::StatusOr<AssembledPlan>(const Decisions&)>;
PlanAssembly MakePlanAssembly(const Chain& chain, int64_t bucket, const DeviceModel& model,
                              const AssemblyRequest& request);

// ChainParts: what kernels of a chain are made of: its runs of products, the graph of the other
// ops, and bodies found in it.

// The parts of one chain at one bucket. Its products absorb the ops that `absorbed` allows. Bodies
// of batch-invariant plans are made for RowOrderBucketOf, whatever the bucket is. The chain must
// outlive it. Not thread-safe.
class ChainParts {
 public:
  // FAILED_PRECONDITION where the ops have no order (StitchGraph::Make), or where a batch-invariant
  // plan would have other products than at RowOrderBucketOf. `pace` may be null.
  static absl::StatusOr<std::unique_ptr<ChainParts>> Make(const Chain& chain, int64_t bucket,
                                                          const Absorbed& absorbed,
                                                          bool batch_invariant, Pace* pace);

  const Absorbed& absorbed() const { return absorbed_; }
  const StitchGraph& graph() const { return graph_; }
  // The run whose result `ops` names; null when there is none.
  const GraphRun* RunOf(const KernelOps& ops) const;
  // Whether `vertex` of the graph is a run.
  bool IsRun(int vertex) const;
  // The vertices that compute `ops`. FAILED_PRECONDITION naming a value that has no vertex.
  absl::StatusOr<NodeSet> VerticesOf(const KernelOps& ops) const;
  // ExtractBody of the vertices; made once for equal `ops`.
  absl::StatusOr<std::shared_ptr<const StitchBody>> BodyOf(const KernelOps& ops,
                                                           const NodeSet& vertices);

 private:
  ChainParts(const Absorbed& absorbed, ProductRuns products, StitchGraph graph)
      : absorbed_(absorbed), products_(std::move(products)), graph_(std::move(graph)) {}

  const Absorbed absorbed_;
  const ProductRuns products_;
  const StitchGraph graph_;
  std::map<std::pair<std::vector<ValueId>, bool>, std::shared_ptr<const StitchBody>> bodies_;
};

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_ASSEMBLY_H_
