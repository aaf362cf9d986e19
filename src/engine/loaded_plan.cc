#include "src/engine/loaded_plan.h"

#include <algorithm>
#include <set>
#include <utility>

#include "src/base/codec.h"
#include "src/base/status.h"
#include "src/engine/keys.h"
#include "src/plan/family.h"
#include "src/product/matcher.h"
#include "src/reference/rows.h"

namespace sinter {
namespace {

// Whether an output without M is computed from the input it overwrites: launching in pieces would
// do that once a piece.
bool ChangesInPlace(const Chain& chain) {
  for (int i = 0; i < chain.num_outputs(); ++i) {
    const ChainOutput& out = chain.outputs()[static_cast<size_t>(i)];
    if (out.alias_input >= 0 && SymbolicAxis(chain.output_type(i).dims) < 0) return true;
  }
  return false;
}

// Whether rows cannot be taken piece by piece, since a kernel reduces over M, numbers the rows or
// gathers any of them.
bool MixesRows(const Chain& chain, const Plan& plan) {
  if (ChangesInPlace(chain)) return true;
  for (const PlannedKernel& kernel : plan.kernels) {
    if (kernel.spec.family->MixesRows(kernel.spec)) return true;
  }
  return false;
}

RowLimits RowLimitsOf(const Chain& chain, const Plan& plan) {
  const KernelSpec& first = plan.kernels.front().spec;
  const int64_t lone =
      plan.kernels.size() == 1 ? first.family->RowsOf(first, plan.bucket).at_once : 0;
  const int64_t largest = LargestBucketOf(chain);
  const bool open = plan.bucket == largest && (lone == kMaxExtent || !MixesRows(chain, plan));
  return {std::max(lone, largest), open ? kMaxExtent : plan.bucket};
}

// Finds LoadedPlan::without_rows: walks from the outputs without M back to what they are made of.
std::vector<size_t> KernelsWithoutRows(const Chain& chain, const Plan& plan) {
  std::set<std::pair<int, uint64_t>> needed;  // buffers and offsets in them
  for (int i = 0; i < chain.num_outputs(); ++i) {
    if (SymbolicAxis(chain.output_type(i).dims) < 0) needed.insert({chain.num_inputs() + i, 0});
  }
  std::vector<size_t> kernels;
  for (size_t i = plan.kernels.size(); i-- > 0 && !needed.empty();) {
    const KernelSpec& spec = plan.kernels[i].spec;
    const std::vector<KernelBuffer> buffers = spec.family->Buffers(spec, plan.bucket);
    size_t made = 0;
    for (const KernelBuffer& at : buffers) {
      if (at.write && !at.of_m) made += needed.erase({at.buffer, at.offset_bytes});
    }
    if (made == 0) continue;
    kernels.push_back(i);
    for (const KernelBuffer& at : buffers) {
      if (!at.write && !at.of_m) needed.insert({at.buffer, at.offset_bytes});
    }
  }
  std::reverse(kernels.begin(), kernels.end());
  return kernels;
}

BufferBlocks BlocksOf(const TensorType& type, const std::vector<Stride>& strides) {
  const auto of_m = std::count_if(type.dims.begin(), type.dims.end(),
                                  [](const Dim& dim) { return dim.symbolic; });
  const absl::StatusOr<int64_t> count = ElementCount(type.dims, 1);
  if (of_m > 1 || !count.ok()) return {};
  BufferBlocks blocks;
  blocks.of_m = of_m == 1;
  blocks.width = blocks.pitch = *count * SizeOf(type.dtype);
  std::vector<Stride> dense = ContiguousStrides(type.dims);
  if (strides == dense) return blocks;
  // Rows that are padded, or columns of a wider matrix.
  if (!blocks.of_m || !type.dims[0].symbolic || strides[0].m_power != 0) return {};
  blocks.pitch = strides[0].value * SizeOf(type.dtype);
  dense[0] = strides[0];
  return strides == dense && blocks.pitch >= blocks.width ? blocks : BufferBlocks{};
}

// In canonical order: inputs, then outputs.
std::vector<BufferBlocks> BlocksOfBuffers(const Chain& chain) {
  std::vector<BufferBlocks> blocks;
  for (int i = 0; i < chain.num_inputs(); ++i)
    blocks.push_back(BlocksOf(chain.input_op(i).type, chain.input_op(i).strides));
  for (int i = 0; i < chain.num_outputs(); ++i)
    blocks.push_back(
        BlocksOf(chain.output_type(i), chain.outputs()[static_cast<size_t>(i)].strides));
  return blocks;
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

absl::Status CheckAskedRows(const LoadedPlan& plan, int64_t m) {
  if (plan.fixed_rows >= 0 || m <= plan.rows.most) return absl::OkStatus();
  const std::string mixes = reference::WhyRowsMix(plan.chain());
  return OutOfRange(
      "m is ", m, ", must be at most ", plan.rows.most, ": ",
      mixes.empty()
          ? "the chain numbers its rows, joins those of ranks, or adds to an output without M"
          : mixes,
      ", so its kernels take all rows in one pass; give at most ", plan.rows.most,
      " rows, and join what several passes give");
}

int64_t FixedRowsOf(const Chain& chain) {
  if (chain.UsesM()) return -1;
  const absl::StatusOr<MatchedSequence> matched = MatchWhole(chain, 1);
  return matched.ok() ? matched->m.value : 1;  // other kernels know their own extents
}

std::shared_ptr<LoadedPlan> NewLoadedPlan(std::shared_ptr<const NormalForm> form, Plan plan) {
  const Chain& chain = *form->chain;
  auto loaded = std::make_shared<LoadedPlan>();
  loaded->fixed_rows = FixedRowsOf(chain);
  loaded->rows = RowLimitsOf(chain, plan);
  loaded->mixes_rows = MixesRows(chain, plan);
  if (chain.UsesM()) loaded->without_rows = KernelsWithoutRows(chain, plan);
  loaded->blocks = BlocksOfBuffers(*form->callers);
  loaded->chosen_digest = plan.PlanDigest();
  loaded->form = std::move(form);
  loaded->plan = std::move(plan);
  return loaded;
}

}  // namespace sinter
