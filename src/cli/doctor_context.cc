// The checks of sinter doctor that need a context.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "src/cli/doctor.h"
#include "src/cli/print.h"
#include "src/cli/session.h"

namespace sinter::cli {
namespace {

constexpr char kProof[] = "gemm_chain m=16 n=256 k=64 l=64 act=relu layout=oi dtype=bf16";

// Something that is missing. The library's message may already end in what to do.
Finding Missing(const char* check, const std::string& message, const char* else_do) {
  const size_t advice = message.find("; ");
  const bool said = advice != std::string::npos;
  return {check, Health::kMissing, message.substr(0, advice),
          said ? message.substr(advice + 2) : else_do};
}

void CheckDriver(const Session& session, const std::string& cuda, Findings* findings) {
  const std::string module = KernelModuleVersion();
  std::vector<std::string> found = LoadedLibraries("libcuda.so");
  if (!cuda.empty()) found.insert(found.begin(), cuda);
  if (!module.empty()) found.insert(found.begin(), module);
  if (session.has_gpu()) {
    findings->push_back({"driver", Health::kOk, Join(found, ", "), ""});
  } else if (!session.fell_back) {
    findings->push_back({"driver", Health::kOk, "not looked for: --target was given", ""});
  } else {
    findings->push_back(Missing("gpu", session.no_gpu, "plans can be made without: --target h200"));
  }
}

// The first number: 13 of "nvrtc-13.0-<build id>" and of "CUDA 13.0".
int MajorOf(const std::string& text) {
  const size_t digit = text.find_first_of("0123456789");
  return digit == std::string::npos ? 0 : std::atoi(text.c_str() + digit);
}

// Whether a toolchain such as "nvrtc-12.8-<build id>" is older than 12.9, the first that compiles
// 16-bit products well.
bool IsTooOldForProducts(const std::string& toolchain) {
  int major = 0, minor = 0;
  if (std::sscanf(toolchain.c_str(), "nvrtc-%d.%d", &major, &minor) != 2) return false;
  return major < 12 || (major == 12 && minor < 9);
}

void CheckCompiler(const Session& session, const std::string& cuda, Findings* findings) {
  std::string toolchain;
  const Outcome opened =
      Take(&toolchain, [&] { return session.context->engine->ports().compiler->ToolchainId(); });
  if (!opened.ok()) {
    findings->push_back(
        Missing("compiler", opened.message, "serve from a pack (sinter warm --pack)"));
    return;
  }
  Finding finding{"compiler", Health::kOk, toolchain, ""};
  finding.found += "; " + Join(LoadedLibraries("libnvrtc.so"), ", ");
  if (!cuda.empty() && MajorOf(toolchain) > MajorOf(cuda)) {
    finding.health = Health::kFail;
    finding.found += "; the driver is for " + cuda;
    finding.way_out =
        "a driver runs code of its own CUDA version and older ones: update it, or "
        "name an older libnvrtc with SINTER_NVRTC";
  } else if (IsTooOldForProducts(toolchain)) {
    finding.health = Health::kFail;
    finding.found +=
        "; products of 16-bit elements are refused, since it serializes their wgmma instructions "
        "(C7515); kernels of rows and of 8-bit products are compiled";
    finding.way_out =
        "NVRTC 12.9 or newer: pip install nvidia-cuda-nvrtc, and name its libnvrtc.so.13 with "
        "SINTER_NVRTC (Python finds it by itself)";
  }
  findings->push_back(finding);
}

// Without a GPU the library does not read a GPU's model file, so it is read as a target here.
void CheckModelFile(const Session& session, const Json& variables, Findings* findings) {
  for (const Json& variable : variables) {
    const std::string file = variable["value"];
    if (variable["name"] != "SINTER_DEVICE_MODEL" || file.empty() || session.has_gpu()) continue;
    DeviceArgs args;
    args.target = file;
    Session trial;
    const Outcome read = OpenSession(args, &trial);
    findings->push_back(
        {"model", read.ok() ? Health::kOk : Health::kFail, read.ok() ? file : read.message,
         read.ok() ? "" : "make one with sinter device --measure, or unset SINTER_DEVICE_MODEL"});
  }
}

void CheckModel(const Session& session, Findings* findings) {
  const DeviceModel& model = session.context->engine->ports().model;
  size_t measured = 0;
  for (const auto& [key, provenance] : model.provenance) {
    measured += provenance.ToText() == "measured" ? 1 : 0;
  }
  findings->push_back({session.has_gpu() ? "gpu" : "model", Health::kOk,
                       session.device + "; model " + model.name + ": " + std::to_string(measured) +
                           " of " + std::to_string(model.provenance.size()) + " figures measured",
                       ""});
}

Finding RecordsFinding(const Json& records) {
  const auto number = [&](const char* key) { return records.value(key, uint64_t{0}); };
  Finding finding{"records", Health::kOk, "", ""};
  finding.found = FormatText("%s, %s (%d verified), %.1f MiB", Counted(number("plans"), "plan"),
                             Counted(number("kernels"), "kernel"), number("verified_kernels"),
                             static_cast<double>(number("bytes")) / (1 << 20));
  for (const char* kind : {"other_format", "unsound", "quarantined"}) {
    if (number(kind) > 0) finding.found += FormatText(", %d %s", number(kind), kind);
  }
  if (number("unsound") > 0) {
    finding.health = Health::kWarn;
    finding.way_out =
        "damaged records are made again when they are asked for: sinter cache verify "
        "names them, and a failing disk may be behind them";
  }
  return finding;
}

void CheckCache(const Session& session, const Json& variables, Findings* findings) {
  const std::string folder = CacheFolder(session);
  if (folder.empty()) {
    findings->push_back(
        {"cache", Health::kWarn, "none on disk: every start compiles anew",
         "name a folder with SINTER_CACHE_DIR, or use a pack (sinter warm --pack)"});
    return;
  }
  bool read_only = false;
  for (const Json& variable : variables) {
    read_only |= variable["name"] == "SINTER_CACHE" && variable["value"] == "read-only";
  }
  Finding at = CheckFolder(folder, read_only);
  at.check = "cache";
  findings->push_back(at);
  Json records;
  const Outcome inspected = Take(&records, [&] { return InspectCache(session); });
  findings->push_back(inspected.ok()
                          ? RecordsFinding(records)
                          : Finding{"records", Health::kFail, inspected.message,
                                    "repair the folder, or name another with SINTER_CACHE_DIR"});
  const sinter_stats stats = StatsOf(session);
  if (stats.cache_packs_open + stats.cache_packs_refused == 0) return;
  findings->push_back(
      {"packs", stats.cache_packs_refused > 0 ? Health::kFail : Health::kOk,
       FormatText("%d open, %d refused", stats.cache_packs_open, stats.cache_packs_refused),
       stats.cache_packs_refused > 0 ? "the warnings below say why" : ""});
}

// Opens the context that Prove uses: it keeps nothing, and finds nothing kept by others.
Outcome OpenProof(const Session& session, int device, Session* out) {
  sinter_context_options options = SINTER_INIT(sinter_context_options);
  const char* no_packs[] = {nullptr};
  options.device = device;
  options.target = session.has_gpu() ? nullptr : "h200";
  options.cache_dir = options.dump_dir = options.tuning_set = options.remote = "";
  options.packs = no_packs;
  options.must_hit = options.must_hit_verified = SINTER_SWITCH_OFF;
  options.log_level = SINTER_LOG_OFF;
  sinter_context* context = nullptr;
  SINTER_CLI_TRY(
      Abi([&](sinter_error** error) { return sinter_context_create(&options, &context, error); }));
  out->context.reset(context);
  return {};
}

Outcome RunProof(const Session& proof, const LoadedChain& chain, const sinter_plan* plan,
                 Findings* findings) {
  HostData data;
  RunResult result;
  SINTER_CLI_TRY(MakeHostData(chain, 1, &data));
  SINTER_CLI_TRY(RunOnDevice(proof, chain, plan, &data, /*check_only=*/false, &result));
  const bool right = result.check.within != 0;
  findings->push_back(
      {"launch", right ? Health::kOk : Health::kFail,
       FormatText("%s, %.1f us in a replayed graph",
                  right ? "agrees with the reference" : "a WRONG result", result.hot_us),
       right ? "" : "keep SINTER_VERIFY=1 set, and report it with SINTER_DUMP"});
  return {};
}

// Compiles a small chain without any cache, finds it again, and runs it if there is a GPU.
Outcome Prove(const Session& session, int device, Findings* findings) {
  Session proof;
  SINTER_CLI_TRY(OpenProof(session, device, &proof));
  ChainArgs args;
  args.words = {kProof};
  LoadedChain chain;
  SINTER_CLI_TRY(LoadChain(args, &chain));
  Prepared cold, warm;
  SINTER_CLI_TRY(Prepare(proof, chain, PrepareArgs(), &cold));
  SINTER_CLI_TRY(Prepare(proof, chain, PrepareArgs(), &warm));
  findings->push_back(
      {"prepare", Health::kOk,
       FormatText("%.0f ms cold (search %.0f, compile %.0f), %.2f ms warm", cold.wall_us / 1e3,
                  cold.search_us / 1e3, cold.compile_us / 1e3, warm.wall_us / 1e3),
       ""});
  return proof.has_gpu() ? RunProof(proof, chain, cold.plan.get(), findings) : Outcome{};
}

}  // namespace

void CheckContext(const Options& options, const Json& variables, Findings* findings) {
  Session session;
  Log log;
  DeviceArgs args = options.device;
  args.device_given = false;  // a missing GPU is a finding of its own
  const Outcome opened = OpenSession(args, &session, &log);
  if (!opened.ok()) {
    findings->push_back({"context", Health::kFail, opened.message, "correct what it names"});
    return;
  }
  const std::string cuda = session.context->engine->ports().driver_name;
  CheckDriver(session, cuda, findings);
  CheckModel(session, findings);
  if (session.has_gpu()) CheckNvml(options.device.device, findings);
  CheckModelFile(session, variables, findings);
  CheckCompiler(session, cuda, findings);
  CheckCache(session, variables, findings);
  const bool can_compile = std::none_of(findings->begin(), findings->end(), [](const Finding& f) {
    return f.check == "compiler" && f.health != Health::kOk;
  });
  const Outcome proved = can_compile ? Prove(session, options.device.device, findings) : Outcome{};
  if (!proved.ok()) {
    findings->push_back({"prepare", Health::kFail, proved.message, "sinter run -v says more"});
  }
  const std::lock_guard<std::mutex> lock(log.mutex);
  for (const std::string& line : log.lines) {
    if (line.rfind("environment: ", 0) == 0) continue;  // reported above
    findings->push_back({"warning", Health::kWarn, line, ""});
  }
}

}  // namespace sinter::cli
