// KernelSources: the generated sources of one plan record. Each is made once, then hashed into a
// key, and compiled when no store has the kernel.
#ifndef SINTER_SRC_ENGINE_KERNEL_SOURCES_H_
#define SINTER_SRC_ENGINE_KERNEL_SOURCES_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/fork_local.h"
#include "src/engine/core.h"
#include "src/plan/codegen.h"

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

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_KERNEL_SOURCES_H_
