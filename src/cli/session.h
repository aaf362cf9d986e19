// Helpers of the command's verbs: they read chains, open a context, prepare in it, run on the GPU,
// read a workload and list the cache.
#ifndef SINTER_SRC_CLI_SESSION_H_
#define SINTER_SRC_CLI_SESSION_H_

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/cli/options.h"
#include "src/cli/outcome.h"
#include "src/engine/cache_tools.h"
#include "src/reference/budget.h"

namespace sinter::cli {

// chain_source.cc: a line of text, a problem file, a JSON file.

struct LoadedChain {
  ChainPtr chain;
  int64_t m = 0;     // rows; 1 for a chain without M
  std::string text;  // the problem's line; for a chain from JSON its ops, one per line
};

// Reads the chain that `args` name. With a file given, words or id choose a problem in it. One word
// that is the name of a file is that file, JSON if its name ends so. Anything else is a line of
// text. Giving rows for a chain without M is an error; for several chains, only when none has M.
Outcome LoadChain(const ChainArgs& args, LoadedChain* out);
// The same for several chains: every problem of a problem file when none is chosen, and each of
// several JSON files. At least one.
Outcome LoadChains(const ChainArgs& args, std::vector<LoadedChain>* out);

// session.cc: the context.

// The library's messages, which come from any thread.
struct Log {
  std::mutex mutex;
  std::vector<std::string> lines;  // guarded by mutex
};

struct Session {
  ContextPtr context;
  std::string device;      // "NVIDIA H200", or the model's name
  std::string no_gpu;      // why there is no GPU; "" with one
  bool fell_back = false;  // no GPU was found, though --target did not ask for going without
  bool has_gpu() const { return sinter_context_has_device(context.get()) == 1; }
};

// Opens a context for the GPU; without one, if neither --device nor --target is given, for the
// built-in h200 model. Warnings go to `log`, unless it is null.
Outcome OpenSession(const DeviceArgs& args, Session* out, Log* log = nullptr);
// A usage error if the folder of --cache-dir does not exist: commands that look into one do not
// make it.
Outcome CheckCacheFolder(const DeviceArgs& args);
// "no GPU was found: .."; "" when there is one or a target was asked for.
std::string NoGpuLine(const Session& session);

struct Prepared {
  PlanPtr plan;
  double wall_us = 0, search_us = 0, compile_us = 0;
};
// The library's options for `args`, without a progress callback.
sinter_prepare_options OptionsOf(const PrepareArgs& args);
Outcome Prepare(const Session& session, const LoadedChain& chain, const PrepareArgs& args,
                Prepared* out);

// The folder of the local tier; "" where there is none.
std::string CacheFolder(const Session& session);
sinter_stats StatsOf(const Session& session);
std::string CountersText(const sinter_stats& stats);
Json CountersJson(const sinter_stats& stats);
std::string HexOf(const uint8_t (&digest)[32]);
std::string DigestHex(const sinter_plan* plan);

// device_run.cc: one plan on the GPU, verified, then timed.

// Random inputs and room for the outputs of a chain, in the caller's order. Outputs are filled with
// NaN (bytes 0xff).
struct HostData {
  std::vector<sinter_tensor_info> infos;  // inputs, then outputs
  std::vector<std::string> buffers;
  uint32_t inputs = 0;
  ReferenceBudget budget;  // its memory is the free memory

  std::vector<const void*> InputPointers() const;
  std::vector<void*> OutputPointers();
};

// The same seed gives the same bytes on every machine. Floating values are uniform in [-1, 1), f32
// in [0, 1). Weight matrices are scaled by sqrt(3 / longest side), so that products stay near 1.
Outcome MakeHostData(const LoadedChain& chain, uint64_t seed, HostData* out);

struct RunResult {
  sinter_x_check check{};
  double hot_us = 0, cold_us = 0;  // 0: not measured
  uint32_t cold_sets = 0;
};

// Runs `plan` once on `data` with poisoned outputs and compares the result with the reference (64
// rows if it takes more than 5e10 flop). Unless `check_only`, also times it: hot on one set of
// buffers, cold on sets that rotate over more than 240 MB. Device memory is freed on every path.
Outcome RunOnDevice(const Session& session, const LoadedChain& chain, const sinter_plan* plan,
                    HostData* data, bool check_only, RunResult* out);

// tune_command.cc: a workload, which is chains, each with the rows to prepare it for.

struct Workload {
  struct Item {
    const LoadedChain* chain = nullptr;  // points into `chains`
    int64_t m = 0;
  };
  std::vector<LoadedChain> chains;
  std::vector<Item> items;
};

// The chains that `args` name. A chain that uses M is prepared for each of `rows`, or without
// `rows` for those in its line. A range prepares it once for each of its buckets.
Outcome LoadWorkload(const ChainArgs& args, const Rows& rows, Workload* out);

struct Failed {
  std::string chain, status;
  int exit = 1;
};
struct WarmResult {
  std::vector<Failed> failed;
  std::string message;  // of the first one that failed
  sinter_stats stats{};
  double wall_s = 0;
  uint32_t jobs = 0;
};

// Prepares everything, `jobs` at once, with a progress bar. A failure does not stop the others.
// Fails itself only when nothing could be tried.
Outcome PrepareAll(const Session& session, const Workload& workload, const PrepareArgs& args,
                   uint32_t jobs, WarmResult* out);

// cache_report.cc: the documents on the cache and on packs that --json prints. They fail with
// PERMISSION_DENIED for a folder that was refused, UNAVAILABLE without a local tier. Queued writes
// are done first.

// Every record of the local tier, read and checked: {"dir", "store", "plans", "kernels",
// "verified_kernels", "other_format", "bytes", "unsound", "quarantined", "temporary", "findings"}.
absl::StatusOr<Json> InspectCache(const Session& session);
// {"dir", "store", "records": [{"kind", "key", "bytes", "last_use", "sound", "verified", "created",
// "arch", "producer", "what", "device", "m" where the chain uses it}]}; times are Unix seconds. If
// "sound" is false, a lookup would not take the record and the fields after it mean nothing.
absl::StatusOr<Json> ListCache(const Session& session);
// Removes every record of the local tier: {"dir", "store", "removed", "records", "bytes",
// "failed"}. A dry run only reports what it would remove. FAILED_PRECONDITION, with nothing
// removed, for a folder that holds something that is not the library's.
absl::StatusOr<Json> ClearCache(const Session& session, bool dry_run);
// Removes the longest unused records until at most `max_bytes` are left, and what killed writers
// left: {"busy", "records", "bytes", "evicted", "evicted_bytes", "orphans"}.
absl::StatusOr<Json> TrimCache(const Session& session, uint64_t max_bytes);
// Writes to the remote store the records that it lacks and that this library can vouch for:
// {"records", "present", "pushed", "pushed_bytes", "withdrawn", "skipped"}.
absl::StatusOr<Json> PushRecords(const Session& session);
// What became of the records that the session asked for or made: {"records", "lost",
// "evicted", "bytes", "cap", "needed_bytes"}; lost are those in neither the local tier nor a pack.
absl::StatusOr<Json> KeptRecords(const Session& session);
// Copies a pack's sound records into the local tier: {"path", "stored", "refused"}.
absl::StatusOr<Json> ImportRecords(const Session& session, const std::string& path);
// {"path", "producer", "created", "bytes", "signed_by", "plans", "kernels", "verified_kernels",
// "records", "unsound", "findings"}; `read_all` checks every byte. PERMISSION_DENIED: no trusted
// key signed it. DATA_LOSS: nothing of it can be used.
absl::StatusOr<Json> DescribePack(const Session& session, const std::string& path, bool read_all);

// Called before the work whose result goes into a pack: fails with the error that ExportPack would
// have with this key or path.
Outcome CheckExport(const Session& session, const std::string& path,
                    const std::string& signing_key);
// Writes what the local tier and the context's packs hold as one pack, replacing its path
// atomically: {"path", "plans", "kernels", "bytes", "skipped"}. Skipped are damaged records and
// those that this library cannot vouch for.
Outcome ExportPack(const Session& session, const std::string& path, const std::string& signing_key,
                   bool used_only, Json* report);
// "PATH: 2 plans, 1 kernel, 8192 bytes" of its report.
std::string ExportText(const Json& report);

// Doctor: what `sinter doctor` checked, found and advises.

// kMissing counts as a failure too: this machine lacks something.
enum class Health { kOk, kWarn, kFail, kMissing };

struct Finding {
  std::string check;  // one word
  Health health = Health::kOk;
  std::string found;
  std::string way_out;  // what to do; "" where nothing is to be done
};
using Findings = std::vector<Finding>;

// ---- doctor_command.cc: what the library tells

// Checks driver, GPU, model, compiler, cache and packs, prepares a small chain and, on a GPU,
// launches it; reports the library's warnings. A check that fails is a finding, and the next one is
// made. `variables` are the environment's: [{"name", "value", "error"}]. `chip`, which may be null,
// gets what a report says of the chip.
void CheckContext(const Options& options, const Json& variables, Findings* findings, Json* chip);

// ---- doctor_report.cc: what a user sends of a chip

// What a context without caches says of its chip, and chains of rows that it prepared and, on a
// GPU, ran: {"context", "compiler", "chains": [{"chain", "kernels", "predicted_us", and of a run
// "right", "hot_us", "cold_us"; or "error"}]}.
Json ReportChip(const Session& proof);
// The report: build, checks without paths and variables, and `chip`.
std::string ReportText(const Findings& findings, const Json& chip);
const char* NameOf(Health health);

// ---- doctor_machine.cc: what NVIDIA's management library tells

// Whether the GPU is divided (MIG), its persistence mode, and what limits its clocks. `ordinal` is
// the driver's number of the GPU; the driver is open.
void CheckNvml(int ordinal, Findings* findings);

// ---- doctor_machine.cc: what the operating system tells

// Paths of the shared libraries in this process whose file name contains `part`.
std::vector<std::string> LoadedLibraries(const std::string& part);
// The version of NVIDIA's kernel module, "580.65.06"; "" without one.
std::string KernelModuleVersion();
// Finds out who may use the cache folder, on which file system it lies, and how much is free there.
Finding CheckFolder(const std::string& folder, bool read_only);

}  // namespace sinter::cli

#endif  // SINTER_SRC_CLI_SESSION_H_
