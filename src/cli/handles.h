// Owning pointers to the ABI's objects.
#ifndef SINTER_SRC_CLI_HANDLES_H_
#define SINTER_SRC_CLI_HANDLES_H_

#include <memory>
#include <string>

#include "sinter/sinter.h"
#include "sinter/sinter_experimental.h"
#include "src/cli/outcome.h"

namespace sinter::cli {

template <auto kRelease>
struct Releaser {
  template <typename T>
  void operator()(T* object) const {
    kRelease(object);
  }
};

using ContextPtr = std::unique_ptr<sinter_context, Releaser<sinter_context_release>>;
using ChainPtr = std::unique_ptr<sinter_chain, Releaser<sinter_chain_release>>;
using PlanPtr = std::unique_ptr<sinter_plan, Releaser<sinter_plan_release>>;
using BindingPtr = std::unique_ptr<sinter_binding, Releaser<sinter_binding_release>>;
using TuningSetPtr = std::unique_ptr<sinter_tuning_set, Releaser<sinter_tuning_set_release>>;
using TextPtr = std::unique_ptr<sinter_x_text, Releaser<sinter_x_text_release>>;

// Runs `call(sinter_x_text**, sinter_error**)` and copies its text.
template <typename Call>
Outcome AbiText(std::string* out, Call&& call) {
  sinter_x_text* text = nullptr;
  SINTER_CLI_TRY(Abi([&](sinter_error** error) { return call(&text, error); }));
  const TextPtr owned(text);
  *out = sinter_x_text_get(text);
  return {};
}

}  // namespace sinter::cli

#endif  // SINTER_SRC_CLI_HANDLES_H_
