// KernelBuilder: gives the loaded kernel of a kernel key: from this process, from the store, or
// generated and compiled. KernelSources: the generated sources of one plan record. Each is made
// once, then hashed into a key, and compiled when no store has the kernel.
#ifndef SINTER_SRC_ENGINE_KERNEL_BUILDER_H_
#define SINTER_SRC_ENGINE_KERNEL_BUILDER_H_

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "cache/record/record.h"
#include "src/base/fork_local.h"
#include "src/engine/control.h"
#include "src/engine/core.h"
#include "src/engine/module_cache.h"
#include "src/plan/kernel_code.h"
#include "src/plan/plan.h"

namespace sinter {

// A kernel from PlanningHooks::generate. Headers that several kernels share are held once.
struct KernelSource {
  GeneratedKernel kernel;  // its request without headers
  std::shared_ptr<const std::vector<std::pair<std::string, std::string>>> headers;
  Digest digest;  // of the source

  // The request with its headers.
  CompileRequest Request() const;
};
using KernelSourcePtr = std::shared_ptr<const KernelSource>;

// Thread-safe; two threads that ask for one kernel at once may both make its source. It lives while
// a record is made and its kernels are built.
class KernelSources {
 public:
  // `core` outlives this.
  explicit KernelSources(EngineCore* core) : core_(core) {}
  KernelSources(const KernelSources&) = delete;
  KernelSources& operator=(const KernelSources&) = delete;

  // Errors of PlanningHooks::generate. After an error it is asked again.
  absl::StatusOr<KernelSourcePtr> Of(const KernelSpec& spec);

 private:
  EngineCore* const core_;
  ForkLocal<std::map<std::string, KernelSourcePtr>> known_;  // by what a source is made from
};

// Compiled code that can run (or, without a GPU, that is known to compile). Immutable except for
// its verified mark. Shared by plans, and by positions of one plan with equal code.
struct BuiltKernel {
  std::string key;                       // key it is stored under
  std::shared_ptr<LoadedKernel> loaded;  // null without a GPU
  std::string log;                       // the compiler's log
  uint32_t registers = 0;
  std::string origin;                         // "compiled", or the tier it came from
  std::string toolchain;                      // the one that compiled it
  double compile_us = 0;                      // 0 unless compiled here
  mutable std::atomic<bool> verified{false};  // on some device, with some driver
  // The most rows it was checked at with this engine's driver; -1: never checked.
  mutable std::atomic<int64_t> checked_rows{-1};
};
using BuiltKernelPtr = std::shared_ptr<const BuiltKernel>;

// Thread-safe. One thread builds a key, others wait; across processes the store's lock does the
// same.
class KernelBuilder {
 public:
  // `core` outlives the builder.
  explicit KernelBuilder(EngineCore* core) : core_(core) {}

  // Returns the kernel of `spec`, loaded for `recipe`; `key` is the key that a record names for it.
  // A kernel that must be built is made from `sources`. If its recomputed key differs (another
  // compiler or other sources), it is built and stored under the new key: see BuiltKernel::key.
  // kCacheMiss unless it may build, UNAVAILABLE without a compiler, kCompileFailed, CANCELLED,
  // DEADLINE_EXCEEDED, or an error for which IsQuarantined holds.
  absl::StatusOr<BuiltKernelPtr> Get(const KernelSpec& spec, const LaunchRecipe& recipe,
                                     const std::string& key, OnMiss on_miss,
                                     const BuildControl& control, KernelSources& sources);

  // Records in the store that the kernel was checked on a device, at a position of
  // `verification.rows` rows.
  void MarkVerified(const BuiltKernel& kernel, const Verification& verification);
  // The kernel is never handed out again, by this process or by another that shares the store.
  void Quarantine(const BuiltKernel& kernel, absl::string_view why);
  // Whether this process found the kernel wrong, or its toolchain is denied. Plans that already
  // hold it keep it.
  bool IsRefused(const BuiltKernel& kernel) const;

 private:
  // What one Get asks for.
  struct Wanted {
    const KernelSpec& spec;
    const LaunchRecipe& recipe;
    const std::string& key;
    OnMiss on_miss;
    const BuildControl& control;
    KernelSources& sources;
  };
  absl::StatusOr<BuiltKernelPtr> GetAlone(const Wanted& wanted);
  // `refused`: the store's answer, which could not be used. If it was a miss, the store is asked
  // again.
  absl::StatusOr<BuiltKernelPtr> Build(const Wanted& wanted, const Lookup& refused);
  absl::StatusOr<BuiltKernelPtr> Compile(const Wanted& wanted, const KernelSource& source,
                                         const Lookup& refused);
  // Makes room for `record` where the store holds a record that was refused.
  void Replace(const std::string& key, const KernelRecord& record, const Lookup& refused);
  absl::StatusOr<CompiledKernel> RunCompiler(const KernelSource& source, const std::string& key,
                                             const BuildControl& control);
  // The store's answer, unless the key's toolchain is denied: then a kOtherToolchain miss.
  Lookup LookUp(const std::string& key, const BuildControl& control);
  Lookup Answer(const std::string& key);
  // A kernel that is alive in this process and not denied, or null.
  BuiltKernelPtr FindLive(const std::string& key);
  // Looks in the tiers, nearest first, until a record can be used; null if none can. `found`: the
  // last answer that counts, a hit if its record was refused.
  BuiltKernelPtr Find(const Wanted& wanted, Lookup* found);
  // Null when the lookup missed or its record cannot be used; `again` then says whether another
  // tier may have a better one.
  BuiltKernelPtr FromStore(const Wanted& wanted, const Lookup& found, bool* again);
  absl::StatusOr<BuiltKernelPtr> Load(const Wanted& wanted, const KernelRecord& record,
                                      absl::string_view origin, double compile_us);
  std::string WhyQuarantined(const std::string& key) const;

  EngineCore* const core_;
  SingleFlight<BuiltKernelPtr> flights_;
  WeakCache<BuiltKernel> live_;
  // From key to reason: found in this process, or in its parent before the fork.
  mutable ForkLocal<std::unordered_map<std::string, std::string>> quarantined_;
};

// Whether KernelBuilder::Get failed because the kernel was found wrong before.
bool IsQuarantined(const absl::Status& status);
absl::Status QuarantinedError(absl::string_view key, absl::string_view why);
// Whether it failed because the compiler is denied: it would fail for every kernel.
bool IsDeniedToolchain(const absl::Status& status);
// Whether the compiler refused the kernel, for example for spilled registers: another may compile.
bool IsRefusedByCompiler(const absl::Status& status);
absl::Status DeniedToolchainError(absl::string_view toolchain, absl::string_view entry);
// OK, or an error for which IsDeniedToolchain holds: the compiler is too old for `request`. It
// names the remedy.
absl::Status CheckAge(const CompileRequest& request, absl::string_view toolchain);

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_KERNEL_BUILDER_H_
