#include "src/engine/kernel_sources.h"

#include "src/base/codec.h"
#include "src/base/status.h"
#include "src/plan/family.h"

namespace sinter {
namespace {

// Equal keys have equal sources.
std::string KeyOf(const KernelSpec& spec) {
  ByteWriter w;
  w.U8(spec.family->number());
  w.U8(spec.batch_invariant);
  w.U8(spec.family->IsStandIn());
  w.Bytes(ScheduleBytes(spec));
  spec.family->WriteSourceKey(spec, w);
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
