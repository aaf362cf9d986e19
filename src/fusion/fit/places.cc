#include "src/fusion/fit/places.h"

#include <algorithm>
#include <tuple>

#include "src/base/ceil_div.h"
#include "src/base/launch_recipe.h"
#include "src/base/status.h"
#include "src/fusion/fit/refusal.h"
#include "src/fusion/workspace_layout.h"
#include "src/product/schedule.h"

namespace sinter {
namespace {

constexpr uint64_t kUncounted = uint64_t{1} << 62;  // sums saturate here

uint64_t Sum(uint64_t a, uint64_t bytes) {
  return std::min(kUncounted, a + RoundUp(std::min(bytes, kUncounted), kWorkspaceAlignment));
}

// Bytes of all results of the chain's ops, side by side.
uint64_t BytesOfResults(const Chain& chain, int64_t bucket) {
  uint64_t sum = 0;
  for (const Op& op : chain.ops()) {
    const absl::StatusOr<int64_t> elements = ElementCount(op.type.dims, bucket);
    if (op.kind == OpKind::kInput || !elements.ok()) continue;
    const int64_t most = static_cast<int64_t>(kUncounted) / SizeOf(op.type.dtype);
    sum = Sum(sum, static_cast<uint64_t>(std::min(*elements, most) * SizeOf(op.type.dtype)));
  }
  return sum;
}

uint64_t LargestOf(const BufferAccess& access) {
  return std::max({access.bytes[0], access.bytes[1], access.bytes[2]});
}

bool Writes(const BufferAccess& access) { return access.kind != AccessKind::kRead; }

}  // namespace

Places::Places(const Chain& chain, const LaunchRows& rows, uint64_t workspace_bytes)
    : chain_(chain),
      workspace_bytes_(workspace_bytes),
      most_needed_(Sum(kWorkspaceFlagBytes, BytesOfResults(chain, rows.bucket))),
      gone_(static_cast<size_t>(chain.num_inputs()), false) {
  const auto add = [&](const TensorType& type, const std::vector<Stride>& strides) {
    std::array<uint64_t, 3> bytes{};
    for (size_t i = 0; i < 3; ++i) {
      const absl::StatusOr<int64_t> size = BufferBytes(type, strides, rows.at[i]);
      // A buffer whose size overflows has size 0, so any access is refused.
      bytes[i] = size.ok() ? static_cast<uint64_t>(*size) : 0;
    }
    buffers_.push_back(bytes);
  };
  for (int i = 0; i < chain.num_inputs(); ++i) {
    add(chain.input_op(i).type, chain.input_op(i).strides);
  }
  for (int i = 0; i < chain.num_outputs(); ++i) {
    add(chain.output_type(i), chain.outputs()[static_cast<size_t>(i)].strides);
  }
}

absl::Status Places::Add(const KernelAccesses& kernel) {
  for (const BufferAccess& access : kernel.list) {
    if (access.offset % access.alignment != 0) {
      return RefuseFit(access.name, ": offset ", access.offset, " is not a multiple of ",
                       access.alignment);
    }
    SINTER_RETURN_IF_ERROR(access.buffer == kWorkspaceBuffer ? CheckWorkspaceRange(access)
                                                             : CheckChainBuffer(access));
  }
  SINTER_RETURN_IF_ERROR(CheckApart(kernel.list));
  SINTER_RETURN_IF_ERROR(CheckSharedBuffers(kernel.list));
  for (const bool writes : {false, true}) {
    for (const BufferAccess& access : kernel.list) {
      const bool header = access.kind == AccessKind::kFlags || access.kind == AccessKind::kBarrier;
      if (access.buffer != kWorkspaceBuffer || header || Writes(access) != writes) continue;
      SINTER_RETURN_IF_ERROR(writes ? Write(access, kernel.through_l1)
                                    : Read(access, kernel.through_l1));
    }
  }
  ++kernel_;
  return absl::OkStatus();
}

absl::Status Places::CheckChainBuffer(const BufferAccess& access) const {
  if (access.buffer < 0 || static_cast<size_t>(access.buffer) >= buffers_.size()) {
    return RefuseFit(access.name, ": buffer ", access.buffer, " of ", buffers_.size());
  }
  const bool input = access.buffer < chain_.num_inputs();
  if (access.kind != AccessKind::kRead && (access.kind != AccessKind::kWrite || input)) {
    return RefuseFit(access.name, " is written to ", input ? "input " : "output buffer ",
                     access.buffer);
  }
  for (size_t i = 0; i < 3; ++i) {
    const uint64_t has = buffers_[static_cast<size_t>(access.buffer)][i];
    if (access.offset <= has && access.bytes[i] <= has - access.offset) continue;
    return RefuseFit(access.name, ": ", access.bytes[i], " bytes at ", access.offset,
                     " lie outside buffer ", access.buffer, " of ", has, " bytes");
  }
  return absl::OkStatus();
}

absl::Status Places::CheckWorkspaceRange(const BufferAccess& access) const {
  const uint64_t bytes = LargestOf(access);
  if (access.offset > workspace_bytes_ || bytes > workspace_bytes_ - access.offset) {
    return RefuseFit(access.name, ": ", bytes, " bytes at ", access.offset,
                     " lie outside the workspace of ", workspace_bytes_, " bytes");
  }
  uint64_t begin = kWorkspaceFlagBytes, end = workspace_bytes_;
  if (access.kind == AccessKind::kFlags)
    std::tie(begin, end) = std::make_tuple(0, kGridBarrierOffset);
  if (access.kind == AccessKind::kBarrier) begin = kGridBarrierOffset, end = kWorkspaceFlagBytes;
  const bool header = end <= kWorkspaceFlagBytes;
  if (header && workspace_bytes_ < kWorkspaceFlagBytes) {
    return RefuseFit(access.name, ": the workspace of ", workspace_bytes_, " bytes has no header");
  }
  // All kernels of a plan share the header's words, so each kind of access has one fixed offset.
  if (header ? access.offset != begin || bytes > end - begin : access.offset < begin) {
    return RefuseFit(access.name, ": ", bytes, " bytes at ", access.offset,
                     header ? " are not at " : " begin before ", begin, " of the workspace");
  }
  return absl::OkStatus();
}

absl::Status Places::CheckApart(const std::vector<BufferAccess>& list) const {
  std::vector<const BufferAccess*> order;
  for (const BufferAccess& access : list) {
    if (LargestOf(access) > 0) order.push_back(&access);
  }
  std::sort(order.begin(), order.end(), [](const BufferAccess* a, const BufferAccess* b) {
    return std::tie(a->buffer, a->offset) < std::tie(b->buffer, b->offset);
  });
  uint64_t any_end = 0, write_end = 0;
  const BufferAccess* before = nullptr;
  for (const BufferAccess* access : order) {
    if (before == nullptr || before->buffer != access->buffer) any_end = write_end = 0;
    before = access;
    if (access->offset < (Writes(*access) ? any_end : write_end)) {
      return RefuseFit(access->name, " at ", access->offset, " of buffer ", access->buffer,
                       " lies over what the kernel writes or reads there too");
    }
    const uint64_t end = access->offset + LargestOf(*access);
    any_end = std::max(any_end, end);
    if (Writes(*access)) write_end = std::max(write_end, end);
  }
  return absl::OkStatus();
}

// Checks inputs whose buffers are taken by outputs.
absl::Status Places::CheckSharedBuffers(const std::vector<BufferAccess>& list) {
  for (const BufferAccess& access : list) {
    if (access.kind != AccessKind::kRead || access.buffer < 0) continue;
    if (access.buffer >= chain_.num_inputs() || !gone_[static_cast<size_t>(access.buffer)]) {
      continue;
    }
    return RefuseFit(access.name, " reads input ", access.buffer,
                     " when an output may have taken its buffer");
  }
  for (const BufferAccess& access : list) {
    if (access.kind != AccessKind::kWrite || access.buffer < chain_.num_inputs()) continue;
    const auto output = static_cast<size_t>(access.buffer - chain_.num_inputs());
    const int32_t alias = chain_.outputs()[output].alias_input;
    if (alias >= 0) gone_[static_cast<size_t>(alias)] = true;
  }
  return absl::OkStatus();
}

absl::Status Places::Read(const BufferAccess& access, bool through_l1) {
  const uint64_t bytes = LargestOf(access);
  if (bytes == 0) return absl::OkStatus();
  auto at = regions_.upper_bound(access.offset);
  if (at != regions_.begin()) --at;
  const bool inside = at != regions_.end() && at->first <= access.offset &&
                      access.offset + bytes <= at->second.end && at->second.writer >= 0;
  if (!inside) {
    return RefuseFit(access.name, ": ", bytes, " bytes at ", access.offset,
                     " of the workspace are read, and no earlier kernel left them there");
  }
  at->second.last = kernel_;
  if (through_l1) at->second.last_by_l1 = kernel_;
  return absl::OkStatus();
}

// Makes `at` a border between regions. A region that is cut can no longer be read.
void Places::Split(uint64_t at) {
  auto found = regions_.upper_bound(at);
  if (found == regions_.begin()) return;
  --found;
  if (found->first == at || found->second.end <= at) return;
  Region behind = found->second;
  behind.writer = found->second.writer = -1;
  found->second.end = at;
  regions_[at] = behind;
}

// A kernel may start while the kernel before still runs, and shares its SMs' L1 caches: a line that
// one of them read may be what the other finds there (fusion/workspace_layout.h).
absl::Status Places::Write(const BufferAccess& access, bool through_l1) {
  const uint64_t bytes = LargestOf(access), end = access.offset + bytes;
  if (bytes == 0) return absl::OkStatus();
  Split(access.offset);
  Split(end);
  for (auto at = regions_.lower_bound(access.offset); at != regions_.end() && at->first < end;
       at = regions_.erase(at)) {
    const Region& old = at->second;
    const int gone = through_l1 ? old.last + 1 : std::max(old.last, old.last_by_l1 + 1);
    if (old.last < 0 || kernel_ > gone) continue;
    return RefuseFit(access.name, ": ", bytes, " bytes at ", access.offset,
                     " of the workspace are written when kernel ", old.last,
                     " may still read what lies there");
  }
  Region& region = regions_[access.offset];
  region.end = end;
  region.writer = access.kind == AccessKind::kWrite ? kernel_ : -1;
  region.last = kernel_;
  region.last_by_l1 = through_l1 ? kernel_ : -1;
  needed_ = std::max(needed_, end);
  if (access.kind == AccessKind::kOwn) most_needed_ = Sum(most_needed_, bytes);
  return absl::OkStatus();
}

absl::Status Places::Finish() const {
  if (needed_ > most_needed_) {
    return RefuseFit("the workspace is used up to byte ", needed_,
                     ", and all results have room in ", most_needed_);
  }
  const uint64_t most = needed_ == 0 ? 0 : RoundUp(needed_, kWorkspaceAlignment);
  if (workspace_bytes_ <= most) return absl::OkStatus();
  return RefuseFit("workspace_bytes ", workspace_bytes_, " is above the ", most,
                   " that the kernels need");
}

}  // namespace sinter
