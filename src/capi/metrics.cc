// sinter_context_write_metrics: the counters as Prometheus text, format 0.0.4.

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "sinter_build_info.h"
#include "src/capi/firewall.h"
#include "src/capi/objects.h"

namespace sinter::capi {
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
  const std::string& text() const { return text_; }

 private:
  void Head(absl::string_view name, absl::string_view help, absl::string_view type) {
    name_ = absl::StrCat("sinter_", name);
    absl::StrAppend(&text_, "# HELP ", name_, " ", help, "\n# TYPE ", name_, " ", type, "\n");
  }
  void Line(absl::string_view labels, absl::string_view value) {
    absl::StrAppend(&text_, name_, labels.empty() ? "" : absl::StrCat("{", labels, "}"), " ", value,
                    "\n");
  }

  std::string text_, name_;
};

void WriteBuilding(const EngineStats& s, MetricsText& out) {
  out.Counter("prepares_total", "Plans asked for.", s.prepares);
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
  out.Counter("gpu_seconds_saved_total", "GPU time of the plain plans less that of what ran.",
              s.gpu_time_saved_us / 1e6);
  out.Counter("kernels_loaded_total", "Kernels loaded on the GPU.", s.kernels_loaded);
  out.Gauge("modules_loaded", "Modules on the GPU now.", s.modules_loaded);
  out.Gauge("module_bytes", "Code of the modules on the GPU now.", s.module_bytes);
  out.Counter("modules_unloaded_total", "Modules unloaded.", s.modules_unloaded);
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
}

}  // namespace

std::string MetricsOf(const Engine& engine) {
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
  return out.text();
}

}  // namespace sinter::capi

namespace capi = sinter::capi;

extern "C" sinter_status sinter_context_write_metrics(const sinter_context* context,
                                                      size_t capacity, char* buffer,
                                                      size_t* required, sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_RETURN_IF_ERROR(capi::Check(context, "context"));
    return capi::CopyText(capi::MetricsOf(*context->engine), capacity, buffer, required);
  });
}
