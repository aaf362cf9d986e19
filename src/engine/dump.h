// Dump: what the engine made, as files for people (SINTER_DUMP). Never fails a call: trouble is one
// warning. Folders are made private; no link is followed, nothing overwritten that no dump wrote.
#ifndef SINTER_SRC_ENGINE_DUMP_H_
#define SINTER_SRC_ENGINE_DUMP_H_

#include <string>

#include "absl/strings/string_view.h"
#include "src/engine/core.h"
#include "src/engine/loaded_plan.h"

namespace sinter {

// <dir>/<first 16 digits of the plan digest>/: chain.json plan.txt plan.json, and kernel<i>.cu
// kernel<i>.log each. Nothing without Config::dump_dir.
void DumpPlan(const EngineCore& core, const LoadedPlan& plan);

// <dir>/refused-<name>.cu and .log: a kernel that the compiler refused.
void DumpRefusedKernel(const EngineCore& core, absl::string_view name, absl::string_view source,
                       absl::string_view log);

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_DUMP_H_
