#include "src/capi/objects.h"

#include "src/base/status.h"

namespace sinter::capi {

absl::StatusOr<const Chain*> Finished(const sinter_chain* chain) {
  SINTER_RETURN_IF_ERROR(Check(chain, "chain"));
  if (!chain->chain.has_value()) {
    return absl::FailedPreconditionError("chain is not finished: call sinter_chain_finish first");
  }
  return &*chain->chain;
}

sinter_chain* NewFinishedChain(Chain chain) {
  auto object = std::make_unique<sinter_chain>();
  object->chain.emplace(std::move(chain));
  return object.release();
}

sinter_x_text* NewText(std::string text) {
  auto object = std::make_unique<sinter_x_text>();
  object->text = std::move(text);
  return object.release();
}

}  // namespace sinter::capi
