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
  // The caller's chain, which keys name; its normal form is what is planned.
  const Chain& chain() const { return *form->callers; }
  const Chain& planned() const { return *form->chain; }
  int64_t bucket = 0;
  bool batch_invariant = false;
  bool allow_cooperative = true;  // false after the driver's residency check failed
  // Asks for the plan measured as the fastest for a slot (measured_choice.h), not the one that
  // planning chooses. It is only looked up, never searched for.
  bool measured = false;
};

// The library_version field of this library's plan keys: the version and, where the tuning set has
// an entry for the request, "+" and 16 digits of the digest of the headers that the entry's kernels
// reach. The entry is used only while its kernels are the measured ones, so the choice depends on
// these headers.
std::string LibraryVersionOf(const PlanRequest& request, const EngineCore& core);
// Whether a library_version field was written by this version.
bool IsOfThisVersion(absl::string_view library_version);

// The flags of a plan key: 1: batch invariant, 2: no waiting across blocks, 4: measured.
uint64_t FlagsOf(const PlanRequest& request);
// A request with only the flags of a key set.
PlanRequest RequestOfFlags(uint64_t flags);

// The key of a plan. It holds no header: when a kernel's header changes the plan stays, and its
// kernels get new keys.
std::string PlanKeyBytes(const PlanRequest& request, const EngineCore& core);

// A kernel's key: its code (src/plan/kernel_code.h), the digest of its source, and that of the
// device headers that the source reaches. Two kernels with one key are the same binary, even if
// code generation changed between two builds of one version. Buffers, rows and blocks of a launch
// are no part of it. `code` is that of `spec`; `source` is the SHA-256 of the source that code
// generation makes of `spec`.
std::string KernelKeyOf(const KernelSpec& spec, const KernelCode& code, const Digest& source,
                        absl::string_view toolchain_id, absl::string_view arch,
                        const EngineCore& core);
// The toolchain id in the bytes of a kernel key; "" for any other bytes.
std::string ToolchainOfKey(absl::string_view kernel_key);

// First 16 hex digits of the SHA-256 of a key's bytes: the name of the key in logs and errors.
std::string ShortName(absl::string_view key);

// kCacheMiss naming the key, the reason, and the nearest entry in `store`, if `store` is given.
absl::Status MustHitError(absl::string_view what, RecordKind kind, absl::string_view key,
                          const Lookup& found, Store* store);

// Sends the event of a look-up, if anyone asked for events.
void TellLookUp(const BuildControl& control, std::string subject, const Lookup& found, double us);

// Logs why `key` of a `what` ("plan", "kernel") missed. Nothing is logged for an absent entry, or
// for a store that is off, which was logged once.
void LogMiss(const LogSink& log, absl::string_view what, absl::string_view key,
             const Lookup& found);

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_KEYS_H_
