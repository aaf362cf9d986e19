// sinter_context: configuration from options over environment, the engine, its counters.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "absl/strings/str_format.h"
#include "src/base/compile_request.h"
#include "src/base/config.h"
#include "src/base/format.h"
#include "src/base/refusal.h"
#include "src/base/status.h"
#include "src/capi/firewall.h"
#include "src/capi/objects.h"

namespace sinter::capi {
namespace {

void Override(const char* option, std::string* field) {
  if (option != nullptr) *field = option;
}

absl::Status Override(sinter_switch option, absl::string_view name, bool* field) {
  SINTER_RETURN_IF_ERROR(CheckSwitch(option, name));
  if (option != SINTER_SWITCH_DEFAULT) *field = option == SINTER_SWITCH_ON;
  return absl::OkStatus();
}

absl::Status OverridePacks(const sinter_context_options& options, std::vector<std::string>* packs) {
  if (options.packs == nullptr && options.pack_count == 0) return absl::OkStatus();
  SINTER_RETURN_IF_ERROR(CheckNotNull(options.packs, "context.packs"));
  packs->clear();
  for (uint32_t i = 0; i < options.pack_count; ++i) {
    SINTER_RETURN_IF_ERROR(CheckNotNull(options.packs[i], absl::StrCat("context.packs[", i, "]")));
    packs->push_back(options.packs[i]);
  }
  return absl::OkStatus();
}

// The environment, with every option that is set put over it.
absl::StatusOr<Config> MakeConfig(const sinter_context_options& options) {
  SINTER_ASSIGN_OR_RETURN(Config config, ConfigFromEnvironment());
  Override(options.cache_dir, &config.cache_dir);
  Override(options.dump_dir, &config.dump_dir);
  Override(options.tuning_set, &config.tuning_set);
  Override(options.device_model, &config.device_model);
  Override(options.pack_keys, &config.pack_keys);
  Override(options.cache_store, &config.cache_store);
  if (options.cache_max_bytes != 0) config.cache_max_bytes = options.cache_max_bytes;
  Override(options.remote, &config.remote);
  Override(options.remote_name_space, &config.remote_name_space);
  Override(options.remote_key_file, &config.remote_key_file);
  Override(options.remote_password_file, &config.remote_password_file);
  SINTER_RETURN_IF_ERROR(
      Override(options.remote_publish, "context.remote_publish", &config.remote_publish));
  Override(options.deny_toolchains, &config.deny_toolchains);
  const absl::Status denied = ToolchainDenyList().Add(config.deny_toolchains);
  if (!denied.ok()) return Annotate(denied, "context.deny_toolchains");
  if (options.module_cache_bytes != 0) config.module_cache_bytes = options.module_cache_bytes;
  Override(options.nvrtc_path, &config.nvrtc_path);
  Override(options.driver_path, &config.driver_path);
  SINTER_RETURN_IF_ERROR(Override(options.cache, "context.cache", &config.cache_enabled));
  SINTER_RETURN_IF_ERROR(Override(options.must_hit, "context.must_hit", &config.must_hit));
  SINTER_RETURN_IF_ERROR(
      Override(options.batch_invariant, "context.batch_invariant", &config.batch_invariant));
  SINTER_RETURN_IF_ERROR(Override(options.verify, "context.verify", &config.verify_first_use));
  SINTER_RETURN_IF_ERROR(
      Override(options.slot_measure, "context.slot_measure", &config.slot_measure));
  SINTER_RETURN_IF_ERROR(CheckMeasure(options.measure, "context.measure"));
  if (options.measure != 0) config.measure = std::max(options.measure, 0);
  SINTER_RETURN_IF_ERROR(
      Override(options.unsigned_packs, "context.unsigned_packs", &config.allow_unsigned_packs));
  SINTER_RETURN_IF_ERROR(
      Override(options.cache_read_only, "context.cache_read_only", &config.cache_read_only));
  SINTER_RETURN_IF_ERROR(
      Override(options.must_hit_verified, "context.must_hit_verified", &config.must_hit_verified));
  if (config.must_hit_verified) config.must_hit = true;
  SINTER_RETURN_IF_ERROR(OverridePacks(options, &config.packs));
  if (options.log_level < SINTER_LOG_DEFAULT || options.log_level > SINTER_LOG_OFF) {
    return InvalidField("context.log_level", options.log_level, "a SINTER_LOG_* in [0, 5]");
  }
  if (options.log_level != SINTER_LOG_DEFAULT && options.log_level != SINTER_LOG_OFF) {
    config.log_level = static_cast<LogLevel>(options.log_level);
  }
  return config;
}

void LogText(LogLevel, absl::string_view message) {
  std::fprintf(stderr, "sinter: %s\n", Printable(message).c_str());
}

// One object a line, in one write, so that lines of several threads do not mix.
void LogJson(LogLevel at, absl::string_view message) {
  static constexpr const char* kNames[] = {"", "error", "warn", "info", "debug"};
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  const std::string line = absl::StrFormat(
      "{\"time\":%d.%03d,\"level\":\"%s\",\"process\":%d,\"logger\":\"sinter\",\"message\":%s}\n",
      now.tv_sec, now.tv_nsec / 1000000, kNames[static_cast<int>(at)], getpid(),
      JsonString(message));
  std::fputs(line.c_str(), stderr);
}

// Every message passes here: text that it repeats of files, records and servers is made printable.
LogSink MakeSink(const sinter_context_options& options, const Config& config) {
  const bool off = options.log_level == SINTER_LOG_DEFAULT ? config.log_off
                                                           : options.log_level == SINTER_LOG_OFF;
  if (off) return LogSink();
  const sinter_log_callback callback = options.log;
  const uintptr_t user_data = options.log_user_data;
  if (callback == nullptr) return LogSink(config.log_level, config.log_json ? LogJson : LogText);
  return LogSink(config.log_level, [callback, user_data](LogLevel at, absl::string_view message) {
    const absl::Status called = CallOut(
        "log", callback, user_data, static_cast<sinter_log_level>(at), Printable(message).c_str());
    if (!called.ok()) LogText(LogLevel::kError, called.message());
  });
}

}  // namespace

constexpr std::chrono::seconds kMetricsPeriod(15);

absl::StatusOr<sinter_context*> CreateContext(const sinter_context_options* given,
                                              std::shared_ptr<RemoteBackend> remote) {
  SINTER_ASSIGN_OR_RETURN(const sinter_context_options options, ReadOptions(given, "context", 0));
  const absl::string_view target = options.target != nullptr ? options.target : "";
  if (target.empty() && options.device < 0) {
    return InvalidField("context.device", options.device, ">= 0");
  }
  auto context = std::make_unique<sinter_context>();
  SINTER_ASSIGN_OR_RETURN(context->config, MakeConfig(options));
  context->config.remote_backend = std::move(remote);
  const LogSink sink = context->log = MakeSink(options, context->config);
  const int ordinal = target.empty() ? options.device : -1;
  SINTER_ASSIGN_OR_RETURN(Ports ports, MakePorts(context->config, ordinal, target, sink));
  context->engine = Engine::Create(std::move(ports), context->config, sink);
  context->builds = std::make_shared<BuildQueue>(context->config.compile_threads);
  context->measurements = std::make_shared<BuildQueue>(1);
  for (const std::string& warning : context->config.warnings) sink.Log(LogLevel::kWarn, warning);
  context->config.remote_backend = nullptr;  // the tiers hold it
  if (const std::string& file = context->config.metrics_file; !file.empty()) {
    const Engine* const engine = context->engine.get();
    context->metrics = std::make_unique<PeriodicFile>(
        "SINTER_METRICS_FILE", file, kMetricsPeriod, [engine] { return MetricsOf(*engine); }, sink);
  }
  return context.release();
}

namespace {

void FillCache(const StoreStats& from, sinter_stats* to) {
  const auto misses = [&](MissReason reason) { return from.misses[static_cast<int>(reason)]; };
  to->cache_memory_hits = from.memory_hits;
  to->cache_local_hits = from.local_hits;
  to->cache_puts = from.puts;
  to->cache_put_failures = from.put_failures;
  to->cache_quarantined = from.quarantined;
  for (const uint64_t count : from.misses) to->cache_misses += count;
  to->cache_absent = misses(MissReason::kAbsent);
  to->cache_damaged = misses(MissReason::kDamaged);
  to->cache_foreign_arch = misses(MissReason::kForeignArch);
  to->cache_other_format = misses(MissReason::kOtherFormat);
  to->cache_other_toolchain = misses(MissReason::kOtherToolchain);
  to->cache_refused_owner = misses(MissReason::kRefusedOwner);
  to->cache_in_quarantine = misses(MissReason::kQuarantined);
  to->cache_disabled = misses(MissReason::kDisabled);
  to->cache_io_errors = misses(MissReason::kIoError);
  to->cache_pack_hits = from.pack_hits;
  to->cache_packs_open = from.packs_open;
  to->cache_packs_refused = from.packs_refused;
  to->cache_puts_dropped = from.puts_dropped;
  to->cache_evicted = from.evicted;
  to->cache_remote_hits = from.remote_hits;
  to->cache_remote_puts = from.remote_puts;
  to->cache_remote_errors = from.remote_errors;
  to->cache_remote_down = misses(MissReason::kRemoteDown);
  to->cache_remote_opened = from.remote_opened;
}

sinter_stats ToStats(const EngineStats& from) {
  sinter_stats to{};
  to.nvrtc_loaded = from.nvrtc_loaded ? 1 : 0;
#define SINTER_COUNTER(name) to.name = from.name;
#include "src/engine/counters.def"
  to.search_us = from.search_us;
  to.compile_us = from.compile_us;
  to.compile_seconds_saved = from.compile_saved_us / 1e6;
  to.gpu_time_saved_us = from.gpu_time_saved_us;
  to.modules_loaded = from.modules_loaded;
  to.module_bytes = from.module_bytes;
  to.modules_unloaded = from.modules_unloaded;
  to.slots_building = from.slots_building;
  to.slots_measuring = from.slots_measuring;
  FillCache(from.store, &to);
  return to;
}

// sinter_x_context_create: a context whose remote store is the caller's functions.

int64_t MicrosecondsTo(Deadline deadline) {
  const auto left = deadline - std::chrono::steady_clock::now();
  return std::max<int64_t>(0, std::chrono::duration_cast<std::chrono::microseconds>(left).count());
}

absl::Status ToStatus(sinter_status status, const char* call) {
  if (status == SINTER_OK) return absl::OkStatus();
  const std::string text = absl::StrCat("remote: ", call, ": ", sinter_status_name(status));
  if (status == SINTER_DEADLINE_EXCEEDED) return DeadlineExceeded(text);
  return Unavailable(text);
}

void GiveOne(uintptr_t to, const void* bytes, uint64_t size) {
  *reinterpret_cast<absl::optional<std::string>*>(to) =
      std::string(static_cast<const char*>(bytes), size);
}

void GiveMember(uintptr_t to, const void* bytes, uint64_t size) {
  reinterpret_cast<std::vector<std::string>*>(to)->emplace_back(static_cast<const char*>(bytes),
                                                                size);
}

// The caller's functions as a backend. Thread-safe as they are.
class PluggedBackend : public RemoteBackend {
 public:
  explicit PluggedBackend(const sinter_x_remote_store& store) : store_(store) {}
  ~PluggedBackend() override {
    if (!owned_ || store_.destroy == nullptr) return;
    (void)GuardOr(0, [&] { return store_.destroy(store_.user_data), 0; });
  }
  void Own() { owned_ = true; }

  absl::StatusOr<std::vector<absl::optional<std::string>>> GetMany(
      const std::vector<std::string>& names, Deadline deadline) override {
    std::vector<absl::optional<std::string>> values(names.size());
    for (size_t i = 0; i < names.size(); ++i) {
      const sinter_status status = Ask(store_.get, names[i].c_str(), MicrosecondsTo(deadline),
                                       GiveOne, reinterpret_cast<uintptr_t>(&values[i]));
      if (status != SINTER_NOT_FOUND) SINTER_RETURN_IF_ERROR(ToStatus(status, "get"));
      if (status == SINTER_NOT_FOUND) values[i].reset();
    }
    return values;
  }
  absl::Status Put(const std::string& name, const std::string& value, int64_t ttl_s, bool replace,
                   Deadline deadline) override {
    return ToStatus(Ask(store_.put, name.c_str(), value.data(), value.size(), ttl_s,
                        replace ? 1 : 0, MicrosecondsTo(deadline)),
                    "put");
  }
  absl::StatusOr<bool> TryLease(const std::string& name, const std::string& token, int64_t ttl_ms,
                                Deadline deadline) override {
    const sinter_status status =
        Ask(store_.try_lease, name.c_str(), token.c_str(), ttl_ms, MicrosecondsTo(deadline));
    if (status == SINTER_ALREADY_EXISTS) return false;
    SINTER_RETURN_IF_ERROR(ToStatus(status, "try_lease"));
    return true;
  }
  absl::Status Release(const std::string& name, const std::string& token,
                       Deadline deadline) override {
    return ToStatus(Ask(store_.release, name.c_str(), token.c_str(), MicrosecondsTo(deadline)),
                    "release");
  }
  absl::Status AddMember(const std::string& set, const std::string& member, int64_t ttl_s,
                         Deadline deadline) override {
    return ToStatus(
        Ask(store_.add_member, set.c_str(), member.c_str(), ttl_s, MicrosecondsTo(deadline)),
        "add_member");
  }
  absl::StatusOr<std::vector<std::string>> Members(const std::string& set,
                                                   Deadline deadline) override {
    std::vector<std::string> members;
    SINTER_RETURN_IF_ERROR(ToStatus(Ask(store_.members, set.c_str(), MicrosecondsTo(deadline),
                                        GiveMember, reinterpret_cast<uintptr_t>(&members)),
                                    "members"));
    return members;
  }

 private:
  // What one of the caller's functions returns: OK where there is none, INTERNAL when it throws.
  template <typename Function, typename... Arguments>
  sinter_status Ask(Function function, Arguments... arguments) const {
    if (function == nullptr) return SINTER_OK;
    return GuardOr<sinter_status>(SINTER_INTERNAL,
                                  [&] { return function(store_.user_data, arguments...); });
  }

  const sinter_x_remote_store store_;
  bool owned_ = false;
};

absl::StatusOr<sinter_context*> CreatePlugged(const sinter_context_options* options,
                                              const sinter_x_remote_store* given) {
  SINTER_RETURN_IF_ERROR(CheckNotNull(given, "store"));
  SINTER_ASSIGN_OR_RETURN(const sinter_x_remote_store store, ReadOptions(given, "store", 0));
  if (store.get == nullptr || store.put == nullptr) {
    return Invalid("store.get or store.put is null");
  }
  const auto backend = std::make_shared<PluggedBackend>(store);
  SINTER_ASSIGN_OR_RETURN(sinter_context * context, CreateContext(options, backend));
  backend->Own();
  return context;
}

}  // namespace
}  // namespace sinter::capi

namespace capi = sinter::capi;

extern "C" {

sinter_status sinter_context_create(const sinter_context_options* options,
                                    sinter_context** out_context, sinter_error** error) {
  return capi::Give(out_context, "out_context", error,
                    [&] { return capi::CreateContext(options, nullptr); });
}

void sinter_context_retain(const sinter_context* context) { capi::RetainHandle(context); }
void sinter_context_release(const sinter_context* context) { capi::ReleaseHandle(context); }

int32_t sinter_context_has_device(const sinter_context* context) {
  return capi::IsLive(context) && context->engine->ports().loader != nullptr ? 1 : 0;
}

sinter_status sinter_context_get_tuning_digest(const sinter_context* context,
                                               uint8_t out_digest[32], sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_RETURN_IF_ERROR(capi::Check(context, "context"));
    const auto& set = context->engine->ports().tuning;
    return capi::CopyDigest(set == nullptr ? sinter::Digest() : set->SetDigest(), out_digest);
  });
}

sinter_status sinter_context_deny_toolchains(sinter_context* context, const char* entries,
                                             sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_RETURN_IF_ERROR(capi::Check(context, "context"));
    SINTER_RETURN_IF_ERROR(capi::CheckNotNull(entries, "entries"));
    return context->engine->DenyToolchains(entries);
  });
}

sinter_status sinter_context_get_stats(const sinter_context* context, sinter_stats* stats,
                                       sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_RETURN_IF_ERROR(capi::Check(context, "context"));
    return capi::WriteStruct(capi::ToStats(context->engine->Stats()), "stats", stats);
  });
}

sinter_status sinter_x_context_create(const sinter_context_options* options,
                                      const sinter_x_remote_store* store,
                                      sinter_context** out_context, sinter_error** error) {
  return capi::Give(out_context, "out_context", error,
                    [&] { return capi::CreatePlugged(options, store); });
}

}  // extern "C"
