#include "src/engine/loaded_plan.h"

#include <algorithm>
#include <utility>

#include "src/base/codec.h"
#include "src/chain/buckets.h"
#include "src/engine/plan_record.h"
#include "src/product/matcher.h"
#include "src/stitch/program.h"

namespace sinter {
namespace {

// Whether it numbers rows: a piece's rows would begin at 0 again.
bool CountsRows(const Chain& body) {
  return std::any_of(body.ops().begin(), body.ops().end(), [](const Op& op) {
    return op.kind == OpKind::kIota && op.type.dims[static_cast<size_t>(op.axis)].symbolic;
  });
}

// Whether an output without M is made of what it overwrites: each piece would do it again.
bool ChangesInPlace(const Chain& chain) {
  for (int i = 0; i < chain.num_outputs(); ++i) {
    const ChainOutput& out = chain.outputs()[static_cast<size_t>(i)];
    if (out.alias_input >= 0 && SymbolicAxis(chain.output_type(i).dims) < 0) return true;
  }
  return false;
}

// Whether rows cannot be taken piece by piece: a kernel reduces over M or numbers them.
bool MixesRows(const Chain& chain, const Plan& plan) {
  if (ChangesInPlace(chain)) return true;
  for (const PlannedKernel& kernel : plan.kernels) {
    if (kernel.spec.stitch == nullptr) continue;
    const StitchSpec& stitch = *kernel.spec.stitch;
    if (CountsRows(stitch.body)) return true;
    const absl::StatusOr<StitchProgram> program =
        MakeStitchProgram(stitch.body, stitch.schedule.owner, stitch.schedule.handed);
    if (program.ok() && program->units_symbolic && program->phases.size() > 1) return true;
  }
  return false;
}

RowLimits RowLimitsOf(const Chain& chain, const Plan& plan) {
  const bool any = plan.kernels.size() == 1 && plan.kernels.front().spec.stitch != nullptr;
  const int64_t largest = LargestBucketOf(chain);
  const bool open = plan.bucket == largest && (any || !MixesRows(chain, plan));
  return {any ? kMaxExtent : largest, open ? kMaxExtent : plan.bucket};
}

}  // namespace

std::string TextOf(const PassedOver& other) {
  switch (other.why) {
    case PassedOver::Why::kSlower:
      return "predicted slower";
    case PassedOver::Why::kNotAskedFor:
      return "not asked for";
    case PassedOver::Why::kTunedAway:
      return std::string(kTunedAway);
    case PassedOver::Why::kFailed:
      break;
  }
  return other.failure;
}

Digest AgreedDigest(const LoadedPlan& plan) {
  if (plan.tuning_digest == Digest()) return plan.chosen_digest;
  ByteWriter w;
  w.Raw("sinter tuned plan 1");
  w.Raw(plan.chosen_digest.View());
  w.Raw(plan.tuning_digest.View());
  return Sha256(w.str());
}

int64_t FixedRowsOf(const Chain& chain) {
  if (chain.UsesM()) return -1;
  const absl::StatusOr<MatchedSequence> matched = MatchWhole(chain, 1);
  return matched.ok() ? matched->m.value : 1;  // other kernels know their own extents
}

std::shared_ptr<LoadedPlan> NewLoadedPlan(std::shared_ptr<const Chain> chain, Plan plan) {
  auto loaded = std::make_shared<LoadedPlan>();
  loaded->fixed_rows = FixedRowsOf(*chain);
  loaded->rows = RowLimitsOf(*chain, plan);
  loaded->chosen_digest = plan.PlanDigest();
  loaded->chain = std::move(chain);
  loaded->plan = std::move(plan);
  return loaded;
}

}  // namespace sinter
