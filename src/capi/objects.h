// The ABI's opaque objects. Each holds what it needs alive, so release order never matters.
#ifndef SINTER_SRC_CAPI_OBJECTS_H_
#define SINTER_SRC_CAPI_OBJECTS_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "sinter/sinter.h"
#include "sinter/sinter_experimental.h"
#include "src/base/config.h"
#include "src/base/fork_local.h"
#include "src/base/log.h"
#include "src/base/ports.h"
#include "src/base/refusal.h"
#include "src/base/transfer.h"
#include "src/capi/firewall.h"
#include "src/chain/builder.h"
#include "src/engine/engine.h"
#include "src/engine/tuning_set.h"

// BuildQueue: prepares in the background, a few at once; the others are entries that wait.

namespace sinter::capi {

// One of Run and Drop is called, once. Both end it, so that a thread that waits for it goes on.
class QueuedBuild {
 public:
  virtual ~QueuedBuild() = default;
  virtual void Run() noexcept = 0;
  virtual void Drop(const absl::Status& why) noexcept = 0;
  // OK, or why it is no longer wanted. Asked while it waits.
  virtual absl::Status Wanted() const = 0;
};

// Has a few threads of low priority, started when they are first needed, and one that ends entries
// whose deadline or cancel comes while they wait. Thread-safe; in the child of a fork it is empty
// and has no threads.
class BuildQueue {
 public:
  static constexpr uint64_t kNoTicket = 0;

  // At most `most` run at once.
  explicit BuildQueue(int most);
  // Threads that still run an entry are left to end by themselves; nothing waits any more, since
  // entries keep what owns the queue.
  ~BuildQueue();
  BuildQueue(const BuildQueue&) = delete;
  BuildQueue& operator=(const BuildQueue&) = delete;

  // The entry's ticket; it may run at once. RESOURCE_EXHAUSTED: there is no thread for it, and it
  // is neither run nor dropped.
  absl::StatusOr<uint64_t> Push(std::shared_ptr<QueuedBuild> build);
  // Drops the entry, which was cancelled, if it still waits.
  void Withdraw(uint64_t ticket);

 private:
  struct Shared;
  static void Work(const std::shared_ptr<Shared>& shared, size_t worker) noexcept;
  static void Watch(const std::shared_ptr<Shared>& shared) noexcept;

  const int most_;
  const std::shared_ptr<Shared> shared_;  // with the threads
};

}  // namespace sinter::capi

struct sinter_context : sinter::capi::Handle<sinter_context> {
  static constexpr uint32_t kMagic = 0x53436f6e;
  static constexpr char kTypeName[] = "sinter_context";
  sinter::Config config;
  sinter::LogSink log;
  std::shared_ptr<sinter::Engine> engine;
  // Builds of slots; a pending may outlive the context.
  std::shared_ptr<sinter::capi::BuildQueue> builds;
  std::shared_ptr<sinter::capi::BuildQueue> measurements;  // of their plans, one at a time
  std::unique_ptr<sinter::PeriodicFile> metrics;  // null: none is asked for; goes before the engine
};

// Until finished, `builder` grows; afterwards `chain` is set and never changes.
struct sinter_chain : sinter::capi::Handle<sinter_chain> {
  static constexpr uint32_t kMagic = 0x53436861;
  static constexpr char kTypeName[] = "sinter_chain";
  sinter::ChainBuilder builder;
  absl::optional<sinter::Chain> chain;
};

struct sinter_plan : sinter::capi::Handle<sinter_plan> {
  static constexpr uint32_t kMagic = 0x53506c61;
  static constexpr char kTypeName[] = "sinter_plan";
  std::shared_ptr<sinter::Engine> engine;
  std::shared_ptr<const sinter::PreparedPlan> prepared;
  uint32_t buffers = 0;
  bool uses_m = false;
};

struct sinter_binding : sinter::capi::Handle<sinter_binding> {
  static constexpr uint32_t kMagic = 0x5342696e;
  static constexpr char kTypeName[] = "sinter_binding";
  std::shared_ptr<sinter::Engine> engine;
  std::shared_ptr<const sinter::PreparedPlan> prepared;
  std::shared_ptr<const sinter::PlanBinding> binding;
  bool uses_m = false;
};

struct sinter_group : sinter::capi::Handle<sinter_group> {
  static constexpr uint32_t kMagic = 0x53477270;
  static constexpr char kTypeName[] = "sinter_group";
  std::shared_ptr<sinter::RankGroup> group;
  int ordinal = -1;  // of this rank's GPU
};

struct sinter_cancel : sinter::capi::Handle<sinter_cancel> {
  static constexpr uint32_t kMagic = 0x5343616e;
  static constexpr char kTypeName[] = "sinter_cancel";
  std::atomic<bool> requested{false};
  // Set by a request.
  sinter::ForkLocal<std::vector<std::weak_ptr<std::atomic<bool>>>> followers;
};

struct sinter_error : sinter::capi::Handle<sinter_error> {
  static constexpr uint32_t kMagic = 0x53457272;
  static constexpr char kTypeName[] = "sinter_error";
  sinter_status code = SINTER_INTERNAL;
  int32_t driver_result = 0;
  std::string message;
  sinter::RefusalFields fields;
  std::string compile_log;
};

struct sinter_x_text : sinter::capi::Handle<sinter_x_text> {
  static constexpr uint32_t kMagic = 0x53547874;
  static constexpr char kTypeName[] = "sinter_x_text";
  std::string text;
};

struct sinter_tuning_set : sinter::capi::Handle<sinter_tuning_set> {
  static constexpr uint32_t kMagic = 0x5354756e;
  static constexpr char kTypeName[] = "sinter_tuning_set";
  mutable std::mutex mutex;
  sinter::TuningSet set;  // guarded by mutex
};

namespace sinter::capi {

// The finished chain inside `chain`: INVALID_ARGUMENT for a bad handle, FAILED_PRECONDITION before
// sinter_chain_finish.
absl::StatusOr<const Chain*> Finished(const sinter_chain* chain);
// A finished chain as an object with one reference.
sinter_chain* NewFinishedChain(Chain chain);
sinter_x_text* NewText(std::string text);
// The context's device and model as JSON (sinter_x_context_describe).
std::string DescribeContext(const sinter_context& context);

// Stores what `make() -> absl::StatusOr<std::string>` returns as a new text in `*out`.
template <typename Make>
sinter_status GiveText(sinter_x_text** out, sinter_error** error, Make&& make) noexcept {
  return Give(out, "out_text", error, [&]() -> absl::StatusOr<sinter_x_text*> {
    SINTER_ASSIGN_OR_RETURN(std::string text, make());
    return NewText(std::move(text));
  });
}

// One reference, the caller's. `remote` may be null.
absl::StatusOr<sinter_context*> CreateContext(const sinter_context_options* given,
                                              std::shared_ptr<RemoteBackend> remote);

// Format 0.0.4; docs/serving.md lists them. Thread-safe.
std::string MetricsOf(const Engine& engine);

// Prepare: the shared half of sinter_prepare, _many and _async.

// Options read once; then many prepares may use them. `cancel` is the caller's.
struct PrepareSettings {
  PrepareOptions base;
  sinter_cancel* cancel = nullptr;  // what base.cancel points into
  sinter_stream stream = nullptr;
  uint32_t threads = 0;
  bool has_deadline = false;
  std::chrono::steady_clock::time_point deadline;
};

// INVALID_ARGUMENT naming `field` unless it is a number of candidates, 0 or -1.
absl::Status CheckMeasure(int32_t measure, absl::string_view field);
absl::StatusOr<PrepareSettings> ReadPrepareSettings(const sinter_context* context,
                                                    const sinter_prepare_options* options);
// Calls the engine for a prepare of `m` rows: `ask(const PrepareOptions&)`, whose deadline is what
// is left of the settings'.
absl::Status AskEngine(const Chain& chain, int64_t m, const PrepareSettings& settings,
                       const std::function<absl::Status(const PrepareOptions&)>& ask);
// One plan. The deadline as of AskEngine.
absl::StatusOr<sinter_plan*> PreparePlan(const sinter_context& context, const Chain& chain,
                                         int64_t m, const PrepareSettings& settings);
// A flag that a request on `cancel` sets too.
absl::Status Follow(sinter_cancel* cancel, const std::shared_ptr<std::atomic<bool>>& flag);
absl::Status RefuseCapture(const sinter_context& context, sinter_stream stream);

// Prepares that nobody waits for: the half of sinter_pending that slots use.

// Called with a prepare's end, borrowed, by its thread, before anybody can learn of it: `plan` or
// `error` is set; both are null where memory lacked for an error.
using PrepareEnd = std::function<void(sinter_plan* plan, sinter_status code, sinter_error* error)>;

// A prepare under way, on a thread of its own; with settings.base.background it waits in the
// context's queue of builds or of measurements. `end` may be empty. RESOURCE_EXHAUSTED: no thread
// could be started.
absl::StatusOr<sinter_pending*> StartPrepare(const sinter_context* context,
                                             const sinter_chain* chain, int64_t m,
                                             const PrepareSettings& settings, PrepareEnd end);
// One that has ended with `plan`, of which it takes a reference.
sinter_pending* EndedPrepare(sinter_plan* plan);

}  // namespace sinter::capi

#endif  // SINTER_SRC_CAPI_OBJECTS_H_
