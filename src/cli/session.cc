#include "src/cli/session.h"

#include <sys/stat.h>

#include <cerrno>
#include <chrono>

#include "absl/strings/escaping.h"

namespace sinter::cli {
namespace {

constexpr char kDefaultTarget[] = "h200";

void Collect(uintptr_t log, sinter_log_level, const char* message) {
  Log* to = reinterpret_cast<Log*>(log);
  const std::lock_guard<std::mutex> lock(to->mutex);
  to->lines.push_back(message);
}

Outcome Create(const DeviceArgs& args, const std::string& target, Log* log, ContextPtr* out) {
  sinter_context_options options = SINTER_INIT(sinter_context_options);
  options.device = args.device;
  options.target = target.empty() ? nullptr : target.c_str();
  options.cache_dir = args.cache_dir ? args.cache_dir->c_str() : nullptr;
  options.tuning_set = args.tuning_set ? args.tuning_set->c_str() : nullptr;
  std::vector<const char*> packs;
  for (const std::string& pack : args.packs) {
    // The library would leave out a pack that it cannot open, and build what is in it.
    const Outcome readable = CheckReadable(pack);
    if (!readable.ok()) return {readable.exit, "--use-pack: " + readable.message};
    packs.push_back(pack.c_str());
  }
  if (!packs.empty()) options.packs = packs.data();
  options.pack_count = static_cast<uint32_t>(packs.size());
  options.pack_keys = args.pack_keys.empty() ? nullptr : args.pack_keys.c_str();
  if (args.unsigned_packs) options.unsigned_packs = SINTER_SWITCH_ON;
  if (log != nullptr) {
    options.log = Collect;
    options.log_user_data = reinterpret_cast<uintptr_t>(log);
    options.log_level = SINTER_LOG_WARN;
  }
  if (args.verbose) options.log_level = SINTER_LOG_DEBUG;
  sinter_context* context = nullptr;
  SINTER_CLI_TRY(
      Abi([&](sinter_error** error) { return sinter_context_create(&options, &context, error); }));
  out->reset(context);
  return {};
}

void Describe(Session* session) {
  const Ports& ports = session->context->engine->ports();
  session->device = ports.device_name.empty() ? ports.model.name : ports.device_name;
  if (session->no_gpu.empty()) session->no_gpu = ports.no_gpu_reason;
}

std::string KnownTargets() {
  return ": give " + Join(BuiltinModelNames(), ", ") + " or a model file";
}

// A built-in model's name stays a name; a file becomes its text.
Outcome ResolveTarget(const std::string& target, std::string* out) {
  if (target.empty()) return Usage("--target: \"\" names no device model" + KnownTargets());
  *out = target;
  const bool path = target == kStandardStream || target.find_first_of("/.") != std::string::npos ||
                    IsFile(target) || !OtherThanFile(target).empty();
  if (!path || BuiltinModel(target).ok()) return {};
  const Outcome read = ReadFile(target, out);
  if (!read.ok()) return {read.exit, "--target: " + read.message + KnownTargets()};
  if (out->find('=') != std::string::npos) return {};
  return Usage("--target: " + target + " has no line \"key = value\": it is no device model " +
               "(sinter device --model prints one)" + KnownTargets());
}

Outcome CreateTarget(const DeviceArgs& args, Log* log, ContextPtr* out) {
  std::string target;
  SINTER_CLI_TRY(ResolveTarget(*args.target, &target));
  return Create(args, target, log, out);
}

}  // namespace

Outcome OpenSession(const DeviceArgs& args, Session* out, Log* log) {
  if (args.target) {
    SINTER_CLI_TRY(CreateTarget(args, log, &out->context));
  } else {
    const Outcome gpu = Create(args, "", log, &out->context);
    // A GPU that no kernel is made for counts as no GPU.
    const bool none = gpu.exit == kUnavailable || gpu.status == SINTER_FAILED_PRECONDITION;
    if (!gpu.ok() && !none) return gpu;
    if (!gpu.ok() && args.device_given) {
      return {kUnavailable, "--device " + std::to_string(args.device) + ": " + gpu.message,
              gpu.status};
    }
    if (!gpu.ok()) {
      out->no_gpu = gpu.message;
      out->fell_back = true;
      SINTER_CLI_TRY(Create(args, kDefaultTarget, log, &out->context));
    }
  }
  Describe(out);
  return {};
}

Outcome CheckCacheFolder(const DeviceArgs& args) {
  struct stat info;
  const std::string named = args.cache_dir.value_or("");
  if (named.empty() || stat(named.c_str(), &info) == 0 || errno != ENOENT) return {};
  return Usage(Printable(named) + ": no such folder");
}

std::string NoGpuLine(const Session& session) {
  if (!session.fell_back) return "";
  return std::string("no GPU was found: prepared for the built-in ") + kDefaultTarget +
         " model (sinter device says why)";
}

sinter_prepare_options OptionsOf(const PrepareArgs& args) {
  sinter_prepare_options options = SINTER_INIT(sinter_prepare_options);
  if (args.batch_invariant) options.flags |= SINTER_PREPARE_BATCH_INVARIANT;
  if (args.must_hit) options.flags |= SINTER_PREPARE_MUST_HIT;
  if (args.verify) options.flags |= SINTER_PREPARE_VERIFY;
  options.measure = args.measure;
  options.measure_budget_us = MicrosecondsOf(args.measure_s);
  options.deadline_us = MicrosecondsOf(args.deadline_s);
  if (args.choice == "fused") options.choice = SINTER_CHOICE_FUSED;
  if (args.choice == "unfused") options.choice = SINTER_CHOICE_UNFUSED;
  return options;
}

Outcome Prepare(const Session& session, const LoadedChain& chain, const PrepareArgs& args,
                Prepared* out) {
  Progress progress;
  sinter_prepare_options options = OptionsOf(args);
  options.progress = Progress::Callback;
  options.progress_user_data = progress.user_data();
  const sinter_stats before = StatsOf(session);
  const auto start = std::chrono::steady_clock::now();
  sinter_plan* plan = nullptr;
  SINTER_CLI_TRY(Abi([&](sinter_error** error) {
    return sinter_prepare(session.context.get(), chain.chain.get(), chain.m, &options, &plan,
                          error);
  }));
  const std::chrono::duration<double, std::micro> wall = std::chrono::steady_clock::now() - start;
  const sinter_stats after = StatsOf(session);
  out->plan.reset(plan);
  out->wall_us = wall.count();
  out->search_us = after.search_us - before.search_us;
  out->compile_us = after.compile_us - before.compile_us;
  return {};
}

std::string CacheFolder(const Session& session) {
  const Config& config = session.context->config;
  return config.cache_enabled ? config.cache_dir : "";
}

sinter_stats StatsOf(const Session& session) {
  sinter_stats stats = SINTER_INIT(sinter_stats);
  sinter_context_get_stats(session.context.get(), &stats, nullptr);
  return stats;
}

std::string HexOf(const uint8_t (&digest)[32]) {
  return absl::BytesToHexString({reinterpret_cast<const char*>(digest), sizeof(digest)});
}

std::string CountersText(const sinter_stats& stats) {
  std::string text = FormatText("searched %d, compiled %d, plan hits %d, kernel hits %d, NVRTC %s",
                                stats.searched, stats.kernels_compiled, stats.plan_hits,
                                stats.kernel_hits, stats.nvrtc_loaded ? "loaded" : "not loaded");
  if (stats.compile_seconds_saved > 0 || stats.gpu_time_saved_us > 0) {
    text += FormatText("; saved %.2f s of compiling, %.1f us of GPU time",
                       stats.compile_seconds_saved, stats.gpu_time_saved_us);
  }
  return text;
}

Json CountersJson(const sinter_stats& stats) {
  return {{"searched", stats.searched},
          {"compiled", stats.kernels_compiled},
          {"plan_hits", stats.plan_hits},
          {"kernel_hits", stats.kernel_hits},
          {"kernels_loaded", stats.kernels_loaded},
          {"launches", stats.launches},
          {"wrong_kernels", stats.wrong_kernels},
          {"tuned_plans", stats.tuned_plans},
          {"tuned_refused", stats.tuned_refused},
          {"compile_seconds_saved", stats.compile_seconds_saved},
          {"gpu_time_saved_us", stats.gpu_time_saved_us},
          {"modules_loaded", stats.modules_loaded},
          {"module_bytes", stats.module_bytes},
          {"modules_unloaded", stats.modules_unloaded},
          {"cache_misses", stats.cache_misses},
          {"cache_puts", stats.cache_puts},
          {"cache_put_failures", stats.cache_put_failures},
          {"nvrtc_loaded", stats.nvrtc_loaded != 0}};
}

std::string DigestHex(const sinter_plan* plan) {
  uint8_t digest[32] = {};
  sinter_plan_get_digest(plan, digest, nullptr);
  return HexOf(digest);
}

}  // namespace sinter::cli
