#include "src/engine/kernel_sources.h"

#include "src/base/codec.h"
#include "src/base/launch_recipe.h"
#include "src/base/status.h"

namespace sinter {
namespace {

constexpr uint64_t kWidestAccess =
    16;  // bytes: a source knows whether an offset is a multiple of it

// Equal keys have equal sources. Not the kernel's code: that of a stitched kernel needs its
// program.
std::string KeyOf(const KernelSpec& spec) {
  ByteWriter w;
  w.U8(static_cast<uint8_t>(spec.family));
  w.U8(spec.batch_invariant);
  w.U8(spec.stand_in);
  w.Bytes(ScheduleBytes(spec));
  if (spec.stitch != nullptr) {
    w.Raw(spec.stitch->body.CanonicalDigest().View());
    return w.Take();
  }
  w.Bytes(spec.sequence.Canonical());
  w.U8(spec.constant_weights);
  for (const OperandBinding& operand : spec.operands) {
    w.U32(static_cast<uint32_t>(operand.role));
    w.I64(operand.row_stride);
    w.U64(operand.offset_bytes % kWidestAccess);
    w.U8(operand.buffer == kWorkspaceBuffer);
  }
  return w.Take();
}

}  // namespace

CompileRequest KernelSource::Request() const {
  CompileRequest request = kernel.request;
  request.headers = *headers;
  return request;
}

absl::StatusOr<KernelSourcePtr> KernelSources::Of(const KernelSpec& spec) {
  const std::string key = KeyOf(spec);
  std::shared_ptr<const std::vector<std::pair<std::string, std::string>>> headers;
  {
    const auto known = known_.Lock();
    const auto found = known->find(key);
    if (found != known->end()) return found->second;
    if (!known->empty()) headers = known->begin()->second->headers;
  }
  auto source = std::make_shared<KernelSource>();
  SINTER_ASSIGN_OR_RETURN(source->kernel, core_->hooks.generate(spec, core_->ports.model));
  CompileRequest& request = source->kernel.request;
  const bool same = headers != nullptr && *headers == request.headers;
  source->headers = same ? std::move(headers)
                         : std::make_shared<const std::vector<std::pair<std::string, std::string>>>(
                               std::move(request.headers));
  request.headers.clear();
  source->digest = Sha256(request.source);
  const KernelSourcePtr made = std::move(source);
  return known_.Lock()->emplace(key, made).first->second;
}

}  // namespace sinter
