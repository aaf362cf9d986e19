#include "src/fusion/plan_assembly.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>

#include "src/base/launch_recipe.h"
#include "src/base/numbers.h"
#include "src/chain/linear_finder.h"
#include "src/product/schedule.h"

namespace sinter {
namespace {

class Assembler {
 public:
  Assembler(const Chain& chain, int64_t bucket, const std::vector<PlanStep>& steps)
      : chain_(chain), bucket_(bucket), steps_(steps) {
    plan_.bucket = bucket;
  }

  Plan Run() {
    for (const PlanStep& step : steps_) {
      step.body != nullptr ? PlaceStitch(step) : PlaceRun(step);
    }
    layout_ = LayOutWorkspace(items_);
    plan_.workspace_bytes = layout_.end;
    for (size_t i = 0; i < steps_.size(); ++i) {
      if (steps_[i].body != nullptr) {
        BindStitch(steps_[i], scratch_[i]);
      } else if (steps_[i].run->IsOwn()) {
        BindOwn(steps_[i], scratch_[i]);
      } else {
        BindRun(steps_[i], scratch_[i]);
      }
    }
    return std::move(plan_);
  }

 private:
  int AddItem(uint64_t bytes, int first, int last) {
    items_.push_back({bytes, first, last});
    return static_cast<int>(items_.size()) - 1;
  }

  uint64_t BytesOf(ValueId value, DType dtype) const {
    return static_cast<uint64_t>(ElementsOf(chain_.op(value), bucket_) * SizeOf(dtype));
  }

  void Produce(ValueId value, DType dtype) {
    if (OutputOf(chain_, value) >= 0) return;
    item_of_[value] = AddItem(BytesOf(value, dtype), kernels_, kernels_);
  }

  void Consume(ValueId value, int kernel) {
    const auto item = item_of_.find(value);
    if (item == item_of_.end()) return;
    WorkspaceItem& of = items_[static_cast<size_t>(item->second)];
    of.last = std::max(of.last, kernel);
  }

  void PlaceStitch(const PlanStep& step) {
    for (ValueId value : step.body->inputs) Consume(value, kernels_);
    const Chain& body = step.body->body;
    for (int i = 0; i < body.num_outputs(); ++i) {
      const BodyOutput& out = step.body->outputs[static_cast<size_t>(i)];
      if (out.output < 0) Produce(out.value, body.output_type(i).dtype);
    }
    scratch_.push_back(AddItem(step.stitch.scratch_bytes, kernels_, kernels_));
    ++kernels_;
  }

  void PlaceRun(const PlanStep& step) {
    const MatchedSequence& matched = step.run->matched;
    const size_t kernels = step.run->IsOwn() ? step.own.kernels.size() : step.segments.size();
    const int last = kernels_ + static_cast<int>(kernels) - 1;
    for (const ProductOperand& operand : matched.operands) Consume(operand.value, last);
    const OwnRun& own = step.run->own;
    uint64_t inside =
        step.run->IsOwn() ? own.family->NeedsOf(own, step.own.own, bucket_).scratch_bytes : 0;
    for (size_t i = 0; i < step.segments.size(); ++i) {
      for (const RunOperand& o : OperandsOf(matched, step.segments[i], step.ranked[i].schedule)) {
        inside = std::max(inside, o.region.end());
      }
    }
    scratch_.push_back(AddItem(inside, kernels_, last));
    Produce(step.run->end, step.run->dtype());
    if (step.run->scale >= 0) Produce(step.run->scale, DType::kF32);
    for (const ValueId value : step.run->aux) Produce(value, chain_.op(value).type.dtype);
    kernels_ = last + 1;
  }

  // The buffer that holds `value`, and the offset in it.
  BufferPlace Locate(ValueId value) const {
    if (chain_.op(value).kind == OpKind::kInput) return {chain_.op(value).input, 0};
    const int output = OutputOf(chain_, value);
    if (output >= 0) return {chain_.num_inputs() + output, 0};
    return {kWorkspaceBuffer, OffsetOf(item_of_.at(value))};
  }
  uint64_t OffsetOf(int item) const { return layout_.offsets[static_cast<size_t>(item)]; }

  void BindStitch(const PlanStep& step, int scratch) {
    std::shared_ptr<BodyWith<StitchSpec>> body = step.spec;
    if (body == nullptr) body = step.MakeSpec();
    StitchSpec& spec = body->value;
    for (ValueId value : step.body->inputs) spec.operands.push_back(Locate(value));
    for (const BodyOutput& out : step.body->outputs) {
      spec.operands.push_back(out.output >= 0 ? BufferPlace{chain_.num_inputs() + out.output, 0}
                                              : Locate(out.value));
    }
    if (items_[static_cast<size_t>(scratch)].bytes > 0) spec.scratch_offset = OffsetOf(scratch);
    PlannedKernel kernel;
    kernel.spec.family = &StitchFamily();
    if (spec.scratch_offset > 0) kernel.spec.workspace_flags_offset = kGridBarrierOffset;
    kernel.spec.body = std::move(body);
    kernel.ops = step.body->ops;
    kernel.prediction = step.stitch.prediction;
    plan_.kernels.push_back(std::move(kernel));
  }

  void BindRun(const PlanStep& step, int inside) {
    const GraphRun& run = *step.run;
    for (size_t i = 0; i < step.segments.size(); ++i) {
      const Segment& segment = step.segments[i];
      PlannedKernel kernel;
      ProductBody body;
      body.sequence = run.matched.sequence.Part(segment.begin, segment.count);
      body.schedule = step.ranked[i].schedule;
      body.constant_weights = run.matched.weights_constant;
      body.constant_rows = run.constant_rows;
      for (const RunOperand& operand : OperandsOf(run.matched, segment, body.schedule)) {
        const BufferPlace at = Locate(run, operand, inside);
        body.operands.push_back({operand.role, at.buffer, at.offset_bytes, operand.row_stride});
      }
      kernel.spec.body = MakeBody(std::move(body));
      kernel.ops = {{run.end}, false, segment.begin};
      kernel.prediction = step.ranked[i].prediction;
      plan_.kernels.push_back(std::move(kernel));
    }
  }

  void BindOwn(const PlanStep& step, int scratch) {
    const GraphRun& run = *step.run;
    std::vector<BufferPlace> places;
    for (const OwnRun::Operand& operand : run.own.operands) {
      places.push_back(Locate(operand.value));
      places.back().offset_bytes += operand.offset_bytes;
    }
    if (run.scale >= 0) places.push_back(Locate(run.scale));
    places.push_back(Locate(run.end));
    for (const ValueId value : run.aux) places.push_back(Locate(value));
    if (items_[static_cast<size_t>(scratch)].bytes > 0)
      places.push_back({kWorkspaceBuffer, OffsetOf(scratch)});
    for (size_t i = 0; i < step.own.kernels.size(); ++i) {
      PlannedKernel kernel;
      kernel.ops = {{run.end}, false, static_cast<int>(i)};
      // The choice is one of the run's: planning ranked it, or assembly bound it before.
      kernel.spec = *run.own.family->BindOwn(run.own, step.own.own, kernel.ops.first, places);
      kernel.prediction = step.own.kernels[i];
      plan_.kernels.push_back(std::move(kernel));
    }
  }

  BufferPlace Locate(const GraphRun& run, const RunOperand& operand, int inside) const {
    switch (operand.kind) {
      case RunOperand::Kind::kOperand:
        return Locate(run.matched.ValueOf(operand.number));
      case RunOperand::Kind::kResult:
        return Locate(run.end);
      case RunOperand::Kind::kScales:
        return Locate(run.scale);
      case RunOperand::Kind::kAux:
        return Locate(run.aux[static_cast<size_t>(operand.number)]);
      case RunOperand::Kind::kWorkspace:
        break;
    }
    return {kWorkspaceBuffer, OffsetOf(inside) + operand.region.offset};
  }

  const Chain& chain_;
  const int64_t bucket_;
  const std::vector<PlanStep>& steps_;
  Plan plan_;
  int kernels_ = 0;
  std::vector<int> scratch_;  // by step: the item of its scratch
  std::vector<WorkspaceItem> items_;
  std::map<ValueId, int> item_of_;
  WorkspaceLayout layout_;
};

struct Range {
  uint64_t begin = 0, end = 0;
  bool operator<(const Range& o) const {
    return std::make_pair(begin, end) < std::make_pair(o.begin, o.end);
  }
};

// Whether `later` begins when no kernel can still read `earlier`. A kernel may start while the one
// before it runs, and lines that its SM then reads into L1 may still be there afterwards.
bool Apart(const WorkspaceItem& earlier, const WorkspaceItem& later) {
  return later.first > earlier.last + 1;
}

// The smallest gap of at least `bytes` between `taken`, which is sorted and may overlap.
uint64_t BestFit(const std::vector<Range>& taken, uint64_t bytes) {
  uint64_t best = 0, best_gap = std::numeric_limits<uint64_t>::max();
  uint64_t free_from = kWorkspaceFlagBytes;
  for (const Range& range : taken) {
    if (range.begin > free_from) {
      const uint64_t gap = range.begin - free_from;
      if (gap >= bytes && gap < best_gap) {
        best = free_from;
        best_gap = gap;
      }
    }
    free_from = std::max(free_from, range.end);
  }
  return best_gap == std::numeric_limits<uint64_t>::max() ? free_from : best;
}

}  // namespace

Plan AssemblePlan(const Chain& chain, int64_t bucket, const std::vector<PlanStep>& steps) {
  return Assembler(chain, bucket, steps).Run();
}

WorkspaceLayout LayOutWorkspace(const std::vector<WorkspaceItem>& items) {
  std::vector<size_t> order(items.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (items[a].bytes != items[b].bytes) return items[a].bytes > items[b].bytes;
    return items[a].first < items[b].first;
  });
  WorkspaceLayout layout;
  layout.offsets.assign(items.size(), kWorkspaceFlagBytes);
  std::vector<size_t> placed;
  for (size_t i : order) {
    if (items[i].bytes == 0) continue;
    std::vector<Range> taken;
    for (size_t p : placed) {
      if (Apart(items[p], items[i]) || Apart(items[i], items[p])) continue;
      taken.push_back(
          {layout.offsets[p], layout.offsets[p] + RoundUp(items[p].bytes, kPlaceAlignment)});
    }
    std::sort(taken.begin(), taken.end());
    layout.offsets[i] = BestFit(taken, RoundUp(items[i].bytes, kPlaceAlignment));
    layout.end = std::max(layout.end, layout.offsets[i] + RoundUp(items[i].bytes, kPlaceAlignment));
    placed.push_back(i);
  }
  return layout;
}

}  // namespace sinter
