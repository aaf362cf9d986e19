// Keys: what a plan and a kernel are looked up by.
#ifndef SINTER_SRC_ENGINE_KEYS_H_
#define SINTER_SRC_ENGINE_KEYS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cache/key/key.h"
#include "src/base/log.h"
#include "src/base/ports.h"
#include "src/chain/chain.h"
#include "src/engine/control.h"
#include "src/engine/core.h"
#include "src/normal/normal_form.h"
#include "src/plan/kernel_code.h"

namespace sinter {

// What a plan is asked for.
struct PlanRequest {
  std::shared_ptr<const NormalForm> form;
  // The caller's chain, which keys name, and the one that is planned.
  const Chain& chain() const { return *form->callers; }
  const Chain& planned() const { return *form->chain; }
  int64_t bucket = 0;
  bool batch_invariant = false;
  bool allow_cooperative = true;  // false after the driver's residency check failed
  // The plan that was measured to be the fastest for a slot (measured_choice.h), not the one that
  // planning chooses. It is looked up and never searched for.
  bool measured = false;
};

// The library_version field of this library's plan keys: the version, and where the tuning set has
// an entry for the request "+" and 16 digits of the headers that the entry's kernels reach. The
// entry serves only kernels as they were measured, so what is chosen depends on them.
std::string LibraryVersionOf(const PlanRequest& request, const EngineCore& core);
// Whether a library_version field is one of this version's.
bool IsOfThisVersion(absl::string_view library_version);

// The flags of a plan key: 1 batch invariant, 2 no waiting across blocks, 4 measured.
uint64_t FlagsOf(const PlanRequest& request);
// A request's flags by those of its key; nothing else of it.
PlanRequest RequestOfFlags(uint64_t flags);

// What is chosen for a chain. It knows no header: a plan stays when a kernel's header changes, and
// its kernels get new keys.
std::string PlanKeyBytes(const PlanRequest& request, const EngineCore& core);

// Of the kernel's code (src/plan/kernel_code.h), the digest of its source and that of the device
// headers which the source reaches: two kernels with one key are the same binary, even if code
// generation changed between two builds of one version. Which buffers, rows and blocks a launch has
// is no part of it. `code` is that of `spec`; `source`: SHA-256 of what code generation makes of
// it.
std::string KernelKeyOf(const KernelSpec& spec, const KernelCode& code, const Digest& source,
                        absl::string_view toolchain_id, absl::string_view arch,
                        const EngineCore& core);
// The toolchain id inside kernel key bytes; "" when they are none.
std::string ToolchainOfKey(absl::string_view kernel_key);

// First 16 hex digits of the SHA-256 of key bytes: how logs and errors name a key.
std::string ShortName(absl::string_view key);

// kCacheMiss naming the key, why it missed, and the nearest entry that `store` has, if it is given.
absl::Status MustHitError(absl::string_view what, RecordKind kind, absl::string_view key,
                          const Lookup& found, Store* store);

// The event of a look-up, for who asked for events.
void TellLookUp(const BuildControl& control, std::string subject, const Lookup& found, double us);

// Says why `key` of a `what` ("plan", "kernel") missed. An absent entry needs no words, and a store
// that is off said so once.
void LogMiss(const LogSink& log, absl::string_view what, absl::string_view key,
             const Lookup& found);

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_KEYS_H_
