// PreparedPlan over a LoadedPlan: maps the caller's order of buffers to the canonical one. It also
// reports on a loaded plan for src/explain.
#ifndef SINTER_SRC_ENGINE_PREPARED_PLAN_H_
#define SINTER_SRC_ENGINE_PREPARED_PLAN_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/chain/chain.h"
#include "src/engine/core.h"
#include "src/engine/loaded_plan.h"
#include "src/explain/explain.h"

namespace sinter {

// A summary has only planning's runners-up, and nothing about fusion, which would need a search.
enum class Detail { kSummary, kWhole };
Explanation ExplanationOf(const LoadedPlan& plan, const EngineCore& core, Detail detail,
                          const BufferNames& names);

// Names of the plan's buffers, from the inputs that `chain`, equal to the plan's, names.
BufferNames NamesIn(const Chain& chain, const LoadedPlan& plan);

// Every plan that was considered and does not run: planning's runners-up, and what the engine
// passed over. The engine's reason is given where it knows more.
std::vector<Candidate> NotChosen(const LoadedPlan& plan);

// `chain` is the caller's: its canonical form equals the plan's, its order of inputs may differ.
std::shared_ptr<const PreparedPlan> MakePreparedPlan(std::shared_ptr<EngineCore> core,
                                                     LoadedPlanPtr plan, const Chain& chain);

// Dump: what the engine made, as files for people (SINTER_DUMP). It never fails a call: all trouble
// of one dump is one warning. Folders are private. No link is followed, and only files of earlier
// dumps are overwritten.

// <dir>/<first 16 digits of the plan digest>/: chain.json plan.txt plan.json, and kernel<i>.cu
// kernel<i>.log each. Nothing without Config::dump_dir.
void DumpPlan(const EngineCore& core, const LoadedPlan& plan);

// <dir>/refused-<name>.cu and .log: a kernel that the compiler refused.
void DumpRefusedKernel(const EngineCore& core, absl::string_view name, absl::string_view source,
                       absl::string_view log);

// DumpFolder: a folder for files that people look at, in a place that others may write to, such as
// /tmp. No link is followed, and only files of earlier dumps are overwritten.

// Owns a descriptor. Never blocks on what others put into the folder. Not thread-safe.
class DumpFolder {
 public:
  // Makes the missing folders of `path`, mode 0700. PERMISSION_DENIED naming a folder of the path
  // that is a link, belongs to somebody else, or may be written by everybody; one above the last
  // may be, if it is sticky. UNAVAILABLE when the system refuses.
  static absl::StatusOr<DumpFolder> Open(const std::string& path);
  // Opens or makes the folder of one dump in this one. A new one is marked as a dump's.
  absl::StatusOr<DumpFolder> Sub(const std::string& name) const;

  // Writes a file of mode 0600. In a folder that a dump made it overwrites a regular file of ours
  // with one name; any other file is left as it is: ALREADY_EXISTS. INVALID_ARGUMENT for a name
  // with other characters than letters, digits, '-', '_' and '.'.
  absl::Status Write(absl::string_view name, absl::string_view text) const;

  DumpFolder(DumpFolder&& o) noexcept
      : fd_(std::exchange(o.fd_, -1)), path_(std::move(o.path_)), ours_(o.ours_) {}
  DumpFolder& operator=(DumpFolder&&) = delete;
  DumpFolder(const DumpFolder&) = delete;
  DumpFolder& operator=(const DumpFolder&) = delete;
  ~DumpFolder();

 private:
  DumpFolder(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  // Opens the folder `name` in `in`, or makes it, which sets `made`.
  static absl::StatusOr<DumpFolder> Step(int in, const std::string& name, std::string path,
                                         bool last, bool* made);

  int fd_;
  std::string path_;  // for messages
  bool ours_ = false;
};

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_PREPARED_PLAN_H_
