// KernelBuilder: kernel key -> loaded kernel: from this process, from the store, or generated and
// compiled.
#ifndef SINTER_SRC_ENGINE_KERNEL_BUILDER_H_
#define SINTER_SRC_ENGINE_KERNEL_BUILDER_H_

#include <atomic>
#include <memory>
#include <string>
#include <unordered_map>

#include "absl/status/statusor.h"
#include "cache/record/kernel_record.h"
#include "src/base/fork_local.h"
#include "src/engine/control.h"
#include "src/engine/core.h"
#include "src/engine/kernel_sources.h"
#include "src/engine/module_cache.h"
#include "src/engine/single_flight.h"
#include "src/plan/plan.h"

namespace sinter {

// Compiled code that can run (or, without a GPU, that is known to compile). Immutable but for its
// mark; shared by plans, and by positions of a plan whose kernels have equal code.
struct BuiltKernel {
  std::string key;                       // under which it is stored
  std::shared_ptr<LoadedKernel> loaded;  // null without a GPU
  std::string log;                       // what the compiler said
  uint32_t registers = 0;
  std::string origin;                         // "compiled", or the tier it came from
  std::string toolchain;                      // that compiled it
  double compile_us = 0;                      // 0 unless compiled here
  mutable std::atomic<bool> verified{false};  // on some device, with some driver
  // Most rows of a position at which it was checked with the driver of this engine; -1: of none.
  mutable std::atomic<int64_t> checked_rows{-1};
};
using BuiltKernelPtr = std::shared_ptr<const BuiltKernel>;

// Thread-safe. One thread builds a key, others wait; across processes the store's lock does the
// same.
class KernelBuilder {
 public:
  // `core` outlives the builder.
  explicit KernelBuilder(EngineCore* core) : core_(core) {}

  // The kernel of `spec`, whose key is said to be `key`; it is loaded for `recipe`, if it is not
  // loaded. If the kernel must be built, its source is that of `sources`, and if its key, made
  // anew, is another one (another compiler, other sources), it is built and stored under that: see
  // BuiltKernel::key. kCacheMiss unless it may build, UNAVAILABLE
  // without a compiler, kCompileFailed, CANCELLED, DEADLINE_EXCEEDED, or an error for which
  // IsQuarantined holds.
  absl::StatusOr<BuiltKernelPtr> Get(const KernelSpec& spec, const LaunchRecipe& recipe,
                                     const std::string& key, OnMiss on_miss,
                                     const BuildControl& control, KernelSources& sources);

  // Records in the store that the kernel was checked on a device, at a position of
  // `verification.rows` rows.
  void MarkVerified(const BuiltKernel& kernel, const Verification& verification);
  // The kernel is never handed out again, by this process or by another that shares the store.
  void Quarantine(const BuiltKernel& kernel, absl::string_view why);
  // Whether this process found the kernel wrong, or its toolchain is denied; plans that hold it
  // already are not recalled.
  bool IsRefused(const BuiltKernel& kernel) const;

 private:
  absl::StatusOr<BuiltKernelPtr> GetAlone(const KernelSpec& spec, const LaunchRecipe& recipe,
                                          const std::string& key, OnMiss on_miss,
                                          const BuildControl& control, KernelSources& sources);
  // `refused`: the store's answer that could not be used; another one is asked for if it was a
  // miss.
  absl::StatusOr<BuiltKernelPtr> Build(const KernelSpec& spec, const LaunchRecipe& recipe,
                                       const std::string& key, const Lookup& refused,
                                       const BuildControl& control, KernelSources& sources);
  absl::StatusOr<BuiltKernelPtr> Compile(const KernelSource& source, const LaunchRecipe& recipe,
                                         const std::string& key, const Lookup& refused,
                                         const BuildControl& control);
  // Lets the put of `record` take the place of what was refused.
  void Replace(const std::string& key, const KernelRecord& record, const Lookup& refused);
  absl::StatusOr<CompiledKernel> RunCompiler(const KernelSource& source, const std::string& key,
                                             const BuildControl& control);
  // The store's answer, unless the key's toolchain is denied: then a kOtherToolchain miss.
  Lookup LookUp(const std::string& key, const BuildControl& control);
  Lookup Answer(const std::string& key);
  // A kernel that is alive in this process and not denied, or null.
  BuiltKernelPtr FindLive(const std::string& key);
  // From the nearest tier whose record can be used, or null. `found`: the last answer that counts,
  // a hit if it was refused.
  BuiltKernelPtr Find(const std::string& key, const LaunchRecipe& recipe,
                      const BuildControl& control, Lookup* found);
  // Null when the lookup missed or its record cannot be used; then `again` says whether another
  // tier may have a better one.
  BuiltKernelPtr FromStore(const std::string& key, const LaunchRecipe& recipe, const Lookup& found,
                           const BuildControl& control, bool* again);
  absl::StatusOr<BuiltKernelPtr> Load(const std::string& key, const KernelRecord& record,
                                      const LaunchRecipe& recipe, absl::string_view origin,
                                      double compile_us, const BuildControl& control);
  std::string WhyQuarantined(const std::string& key) const;

  EngineCore* const core_;
  SingleFlight<BuiltKernelPtr> flights_;
  WeakCache<BuiltKernel> live_;
  // Key -> why; this process's own, and its parent's up to the fork.
  mutable ForkLocal<std::unordered_map<std::string, std::string>> quarantined_;
};

// Whether an error of KernelBuilder::Get says that the kernel was found wrong before.
bool IsQuarantined(const absl::Status& status);
absl::Status QuarantinedError(absl::string_view key, absl::string_view why);
// That the compiler may not compile: the same for every kernel.
bool IsDeniedToolchain(const absl::Status& status);
// That the compiler refused the kernel, such as for registers that spill: another may compile.
bool IsRefusedByCompiler(const absl::Status& status);
absl::Status DeniedToolchainError(absl::string_view toolchain, absl::string_view entry);
// OK, or with IsDeniedToolchain that the compiler is too old for `request`, and the way out.
absl::Status CheckAge(const CompileRequest& request, absl::string_view toolchain);

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_KERNEL_BUILDER_H_
