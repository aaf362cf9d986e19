// Version, build and status names; errors; texts and finished chains as objects.
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "sinter/sinter.h"
#include "sinter_build_info.h"
#include "src/base/status.h"
#include "src/capi/firewall.h"
#include "src/capi/objects.h"
#include "src/engine/cache_tools.h"

namespace capi = sinter::capi;

namespace sinter::capi {
namespace {

const char* TextOrNull(const std::string& text) { return text.empty() ? nullptr : text.c_str(); }

}  // namespace
}  // namespace sinter::capi

extern "C" {

uint32_t sinter_version(void) {
  return SINTER_VERSION_MAJOR * 10000 + SINTER_VERSION_MINOR * 100 + SINTER_VERSION_PATCH;
}

const char* sinter_build_info(void) { return SINTER_BUILD_INFO; }

const char* sinter_status_name(sinter_status status) {
  switch (status) {
#define SINTER_CASE(code, name) \
  case code:                    \
    return name
    SINTER_CASE(SINTER_OK, "OK");
    SINTER_CASE(SINTER_CANCELLED, "CANCELLED");
    SINTER_CASE(SINTER_UNKNOWN, "UNKNOWN");
    SINTER_CASE(SINTER_INVALID_ARGUMENT, "INVALID_ARGUMENT");
    SINTER_CASE(SINTER_DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED");
    SINTER_CASE(SINTER_NOT_FOUND, "NOT_FOUND");
    SINTER_CASE(SINTER_ALREADY_EXISTS, "ALREADY_EXISTS");
    SINTER_CASE(SINTER_PERMISSION_DENIED, "PERMISSION_DENIED");
    SINTER_CASE(SINTER_RESOURCE_EXHAUSTED, "RESOURCE_EXHAUSTED");
    SINTER_CASE(SINTER_FAILED_PRECONDITION, "FAILED_PRECONDITION");
    SINTER_CASE(SINTER_ABORTED, "ABORTED");
    SINTER_CASE(SINTER_OUT_OF_RANGE, "OUT_OF_RANGE");
    SINTER_CASE(SINTER_UNIMPLEMENTED, "UNIMPLEMENTED");
    SINTER_CASE(SINTER_INTERNAL, "INTERNAL");
    SINTER_CASE(SINTER_UNAVAILABLE, "UNAVAILABLE");
    SINTER_CASE(SINTER_DATA_LOSS, "DATA_LOSS");
    SINTER_CASE(SINTER_UNAUTHENTICATED, "UNAUTHENTICATED");
    SINTER_CASE(SINTER_ERROR_COMPILE_FAILED, "COMPILE_FAILED");
    SINTER_CASE(SINTER_ERROR_NO_LEGAL_PLAN, "NO_LEGAL_PLAN");
    SINTER_CASE(SINTER_ERROR_DRIVER, "DRIVER");
    SINTER_CASE(SINTER_ERROR_CACHE_CORRUPT, "CACHE_CORRUPT");
    SINTER_CASE(SINTER_ERROR_STREAM_CAPTURING, "STREAM_CAPTURING");
    SINTER_CASE(SINTER_ERROR_CACHE_MISS, "CACHE_MISS");
#undef SINTER_CASE
    default:
      return "UNKNOWN_STATUS";
  }
}

void sinter_error_retain(const sinter_error* error) { capi::RetainHandle(error); }
void sinter_error_release(const sinter_error* error) { capi::ReleaseHandle(error); }

sinter_status sinter_error_get_code(const sinter_error* error) {
  return capi::IsLive(error) ? error->code : SINTER_INVALID_ARGUMENT;
}

const char* sinter_error_get_message(const sinter_error* error) {
  return capi::IsLive(error) ? error->message.c_str() : "";
}

int32_t sinter_error_get_op(const sinter_error* error) {
  return capi::IsLive(error) ? error->fields.op : -1;
}

const char* sinter_error_get_field(const sinter_error* error) {
  return capi::IsLive(error) ? capi::TextOrNull(error->fields.field) : nullptr;
}

const char* sinter_error_get_value(const sinter_error* error) {
  return capi::IsLive(error) ? capi::TextOrNull(error->fields.value) : nullptr;
}

const char* sinter_error_get_bound(const sinter_error* error) {
  return capi::IsLive(error) ? capi::TextOrNull(error->fields.bound) : nullptr;
}

int32_t sinter_error_get_driver_result(const sinter_error* error) {
  return capi::IsLive(error) ? error->driver_result : 0;
}

const char* sinter_error_get_compile_log(const sinter_error* error) {
  return capi::IsLive(error) ? error->compile_log.c_str() : "";
}

void sinter_x_text_release(const sinter_x_text* text) { capi::ReleaseHandle(text); }

const char* sinter_x_text_get(const sinter_x_text* text) {
  return capi::IsLive(text) ? text->text.c_str() : "";
}

}  // extern "C"

namespace sinter::capi {

absl::StatusOr<const Chain*> Finished(const sinter_chain* chain) {
  SINTER_RETURN_IF_ERROR(Check(chain, "chain"));
  if (!chain->chain.has_value()) {
    return FailedPrecondition("chain is not finished: call sinter_chain_finish first");
  }
  return &*chain->chain;
}

sinter_chain* NewFinishedChain(Chain chain) {
  auto object = std::make_unique<sinter_chain>();
  object->chain.emplace(std::move(chain));
  return object.release();
}

sinter_x_text* NewText(std::string text) {
  auto object = std::make_unique<sinter_x_text>();
  object->text = std::move(text);
  return object.release();
}

// sinter_context_write_metrics: the counters as Prometheus text, format 0.0.4.

namespace {

// Families in the order of the text. A family's samples follow its head, as the format asks.
class MetricsText {
 public:
  void Counter(absl::string_view name, absl::string_view help) { Head(name, help, "counter"); }
  void Gauge(absl::string_view name, absl::string_view help) { Head(name, help, "gauge"); }
  // `labels`: name="value", separated by commas; values hold none of \ " and line ends.
  void Sample(absl::string_view labels, uint64_t value) { Line(labels, absl::StrCat(value)); }
  void Sample(absl::string_view labels, double value) {
    Line(labels, absl::StrFormat("%.9g", value));
  }
  template <typename Number>
  void Counter(absl::string_view name, absl::string_view help, Number value) {
    Counter(name, help);
    Sample("", value);
  }
  template <typename Number>
  void Gauge(absl::string_view name, absl::string_view help, Number value) {
    Gauge(name, help);
    Sample("", value);
  }
  void Histogram(absl::string_view name, absl::string_view help) { Head(name, help, "histogram"); }
  // The samples of one histogram; its bounds are seconds.
  void Samples(absl::string_view labels, const LatencyCounts& counts) {
    const std::string before = labels.empty() ? "" : absl::StrCat(labels, ",");
    uint64_t below = 0;
    for (size_t i = 0; i < counts.calls.size(); ++i) {
      below += counts.calls[i];
      const std::string bound =
          i < std::size(kLatencyBoundsUs)
              ? absl::StrFormat("%.9g", static_cast<double>(kLatencyBoundsUs[i]) / 1e6)
              : "+Inf";
      Line(absl::StrCat(before, "le=\"", bound, "\""), absl::StrCat(below), "_bucket");
    }
    Line(labels, absl::StrFormat("%.9g", static_cast<double>(counts.ns) / 1e9), "_sum");
    Line(labels, absl::StrCat(below), "_count");
  }
  const std::string& text() const { return text_; }

 private:
  void Head(absl::string_view name, absl::string_view help, absl::string_view type) {
    name_ = absl::StrCat("sinter_", name);
    absl::StrAppend(&text_, "# HELP ", name_, " ", help, "\n# TYPE ", name_, " ", type, "\n");
  }
  void Line(absl::string_view labels, absl::string_view value, absl::string_view suffix = "") {
    absl::StrAppend(&text_, name_, suffix, labels.empty() ? "" : absl::StrCat("{", labels, "}"),
                    " ", value, "\n");
  }

  std::string text_, name_;
};

void WriteBuilding(const EngineStats& s, MetricsText& out) {
  out.Counter("prepares_total", "Plans asked for.", s.prepares);
  out.Counter("prepare_failures_total",
              "Failed prepares, except misses of prepares that may not build.", s.prepare_failures);
  out.Counter("must_hit_misses_total", "Prepares that failed because they had to hit.",
              s.must_hit_misses);
  out.Histogram("prepare_seconds", "Time of prepares, by result.");
  out.Samples("result=\"ok\"", s.prepare_times);
  out.Samples("result=\"failed\"", s.failed_prepare_times);
  out.Counter("plan_hits_total", "Plans found in memory or in a cache tier.", s.plan_hits);
  out.Counter("searches_total", "Plans searched for.", s.searched);
  out.Counter("search_seconds_total", "Time of searches, summed over threads.", s.search_us / 1e6);
  out.Counter("kernel_hits_total", "Kernels found in a cache tier.", s.kernel_hits);
  out.Counter("kernels_compiled_total", "Kernels compiled.", s.kernels_compiled);
  out.Counter("compile_seconds_total", "Time of compiling, summed over threads.",
              s.compile_us / 1e6);
  out.Gauge("compiles_in_flight", "Kernels being compiled.", s.compiles_in_flight);
  out.Counter("compile_seconds_saved_total", "Time that compiling the cached kernels took once.",
              s.compile_saved_us / 1e6);
  out.Counter("build_waits_total", "Waits for another thread's build of the same.", s.waits);
  out.Gauge("slots_building", "Slots whose plan is being built or queued for it.",
            s.slots_building);
  out.Counter("slot_upgrades_total", "Plans built or offered that became a slot's.",
              s.slot_upgrades);
  out.Counter("slot_failures_total", "Builds of slots that failed.", s.slot_failures);
  out.Gauge("slots_measuring", "Plans that are being measured for slots.", s.slots_measuring);
  out.Counter("slot_measurements_total", "Plans measured for slots, by result.");
  out.Sample("result=\"stands\"", s.slot_measurements - s.slot_measured_wins);
  out.Sample("result=\"another\"", s.slot_measured_wins);
  out.Sample("result=\"given_up\"", s.slot_measurements_given_up);
  out.Counter("measurements_total", "Plans that prepares measured, by result.");
  out.Sample("result=\"stands\"", s.measurements - s.measured_wins);
  out.Sample("result=\"another\"", s.measured_wins);
  out.Sample("result=\"given_up\"", s.measurements_given_up);
  out.Counter("tuned_plans_total", "Plans made as the tuning set says.", s.tuned_plans);
  out.Counter("tuned_refused_total", "Entries of the tuning set that could not be used.",
              s.tuned_refused);
  out.Counter("fallbacks_total", "Plans or kernels that were replaced, by reason.");
  out.Sample("reason=\"not_resident\"", s.non_resident_fallbacks);
  out.Sample("reason=\"wrong_kernel\"", s.wrong_kernels);
  out.Counter("stand_ins_total", "Plans handed out that stand in for one not built.", s.stand_ins);
}

void WriteRunning(const EngineStats& s, MetricsText& out) {
  out.Counter("launches_total", "Launches; replays of captured graphs are not seen.", s.launches);
  out.Counter("gpu_seconds_saved_total",
              "GPU time of the plain plans minus GPU time of the plans that ran.",
              s.gpu_time_saved_us / 1e6);
  out.Counter("kernels_loaded_total", "Kernels loaded on the GPU.", s.kernels_loaded);
  out.Gauge("modules_loaded", "Modules on the GPU now.", s.modules_loaded);
  out.Gauge("module_bytes", "Code of the modules on the GPU now.", s.module_bytes);
  out.Counter("modules_unloaded_total", "Modules unloaded.", s.modules_unloaded);
}

// Plans apart from kernels.
constexpr std::pair<const char*, RecordKind> kKinds[] = {{"kind=\"plan\"", RecordKind::kPlan},
                                                         {"kind=\"kernel\"", RecordKind::kKernel}};

void WriteKinds(const StoreStats& s, MetricsText& out) {
  const auto each = [&](const char* name, const char* help, auto value) {
    out.Counter(name, help);
    for (const auto& [label, kind] : kKinds) out.Sample(label, value(s.Of(kind)));
  };
  out.Counter("cache_hits_total", "Cache hits, plans apart from kernels, by tier.");
  for (const auto& [label, kind] : kKinds) {
    const KindStats& k = s.Of(kind);
    const std::pair<const char*, uint64_t> hits[] = {{"memory", k.memory_hits},
                                                     {"local", k.local_hits},
                                                     {"prefetched", k.prefetched_hits},
                                                     {"pack", k.pack_hits},
                                                     {"remote", k.remote_hits}};
    for (const auto& [tier, count] : hits)
      out.Sample(absl::StrCat(label, ",tier=\"", tier, "\""), count);
  }
  out.Counter("cache_misses_total", "Cache misses, plans apart from kernels, by reason.");
  for (const auto& [label, kind] : kKinds) {
    for (int i = 0; i < static_cast<int>(MissReason::kCount); ++i) {
      out.Sample(absl::StrCat(label, ",reason=\"", NameOf(static_cast<MissReason>(i)), "\""),
                 s.Of(kind).misses[i]);
    }
  }
  each("cache_read_bytes_total", "Bytes of records that hits gave.",
       [](const KindStats& k) { return k.hit_bytes; });
  each("cache_written_bytes_total", "Bytes of records that were put.",
       [](const KindStats& k) { return k.put_bytes; });
  out.Histogram("cache_lookup_seconds", "Time of cache lookups, hits and misses.");
  for (const auto& [label, kind] : kKinds) out.Samples(label, s.Of(kind).lookups);
  if (!s.counted) return;
  out.Gauge("cache_records", "Records in the cache folder, counted once a minute at most.");
  for (const auto& [label, kind] : kKinds) out.Sample(label, s.Of(kind).stored);
  out.Gauge("cache_bytes", "Bytes of the records in the cache folder, counted with them.");
  for (const auto& [label, kind] : kKinds) out.Sample(label, s.Of(kind).stored_bytes);
}

void WriteCache(const StoreStats& s, MetricsText& out) {
  out.Counter("lookups_total", "Cache lookups, hits by tier and misses of all tiers by reason.");
  const std::pair<const char*, uint64_t> kHits[] = {{"memory", s.memory_hits},
                                                    {"local", s.local_hits},
                                                    {"pack", s.pack_hits},
                                                    {"remote", s.remote_hits}};
  for (const auto& [tier, hits] : kHits) {
    out.Sample(absl::StrCat("tier=\"", tier, "\",result=\"hit\",reason=\"\""), hits);
  }
  for (int i = 0; i < static_cast<int>(MissReason::kCount); ++i) {
    const absl::string_view reason = NameOf(static_cast<MissReason>(i));
    out.Sample(absl::StrCat("tier=\"all\",result=\"miss\",reason=\"", reason, "\""), s.misses[i]);
  }
  out.Counter("cache_puts_total", "Records written to the cache, by result.");
  out.Sample("result=\"stored\"", s.puts);
  out.Sample("result=\"failed\"", s.put_failures);
  out.Sample("result=\"dropped\"", s.puts_dropped);
  out.Counter("cache_evicted_total", "Records removed to stay under the cap.", s.evicted);
  out.Counter("cache_quarantined_total", "Records set aside as wrong.", s.quarantined);
  out.Gauge("packs_open", "Packs that serve.", s.packs_open);
  out.Gauge("packs_refused", "Packs that were named and cannot be used.", s.packs_refused);
  out.Counter("remote_puts_total", "Records written to the remote store.", s.remote_puts);
  out.Counter("remote_errors_total", "Failed, late or untrusted answers of the remote store.",
              s.remote_errors);
  out.Counter("remote_given_up_total", "Times that the remote store was given up for a while.",
              s.remote_opened);
  out.Counter("remote_skipped_total", "Questions not asked while the remote store was given up.",
              s.remote_skipped);
  out.Counter("remote_withdrawn_total", "Records that the fleet withdrew, made known here or met.",
              s.remote_withdrawn);
  out.Counter("remote_prefetched_total", "Records fetched from the remote store before asked for.",
              s.prefetched);
}

}  // namespace

std::string MetricsOf(const Engine& engine) {
  if (CacheTools* const tools = engine.ports().cache_tools.get()) tools->CountRecords();
  const EngineStats stats = engine.Stats();
  MetricsText out;
  out.Gauge("build_info", "What this library is.");
  out.Sample(absl::StrFormat("version=\"%d.%d.%d\",commit=\"%s\",arch=\"%s\"", SINTER_VERSION_MAJOR,
                             SINTER_VERSION_MINOR, SINTER_VERSION_PATCH, SINTER_BUILD_COMMIT,
                             engine.ports().model.arch),
             uint64_t{1});
  WriteBuilding(stats, out);
  WriteRunning(stats, out);
  WriteCache(stats.store, out);
  WriteKinds(stats.store, out);
  return out.text();
}

}  // namespace sinter::capi

extern "C" sinter_status sinter_context_write_metrics(const sinter_context* context,
                                                      size_t capacity, char* buffer,
                                                      size_t* required, sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_RETURN_IF_ERROR(capi::Check(context, "context"));
    return capi::CopyText(capi::MetricsOf(*context->engine), capacity, buffer, required);
  });
}
