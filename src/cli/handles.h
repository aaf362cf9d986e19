// Owning pointers to the ABI's objects, whose insides the rooms are asked with.
#ifndef SINTER_SRC_CLI_HANDLES_H_
#define SINTER_SRC_CLI_HANDLES_H_

#include <memory>
#include <string>

#include "src/capi/firewall.h"
#include "src/capi/objects.h"
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

// Runs `make() -> absl::StatusOr<T>`, a call of the rooms behind the ABI, and keeps what it makes.
// Its errors, and what it throws, end the command as those of the ABI do.
template <typename T, typename Make>
Outcome Take(T* out, Make&& make) {
  return Abi([&](sinter_error** error) {
    return capi::Guard(error, [&]() -> absl::Status {
      SINTER_ASSIGN_OR_RETURN(*out, make());
      return absl::OkStatus();
    });
  });
}

}  // namespace sinter::cli

#endif  // SINTER_SRC_CLI_HANDLES_H_
