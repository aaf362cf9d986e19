// sinter doctor: what prevents the library's use on this machine, line by line, and what to do.
#include <gnu/libc-version.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "src/base/arch.h"
#include "src/base/config.h"
#include "src/cli/options.h"
#include "src/cli/outcome.h"
#include "src/cli/session.h"

namespace sinter::cli {
namespace {

Finding CheckLibrary() {
  Finding finding{"library", Health::kOk, sinter_build_info(), ""};
  const bool bare = LoadedLibraries("libabsl").empty() && LoadedLibraries("libleveldb").empty();
  finding.found += bare ? "; self-contained" : "; needs the system's Abseil and LevelDB";
  finding.found += std::string("; glibc ") + gnu_get_libc_version();
  return finding;
}

// Whether there are stand-ins: kernels that come with the library and need no compiler.
Finding CheckStandIns() {
  const bool none = std::string(sinter_build_info()).find("no stand-ins") != std::string::npos;
  if (!none) return {"stand-ins", Health::kOk, "plans can stand in while one is built", ""};
  return {"stand-ins", Health::kOk, "none: the library was built without them", ""};
}

// The value as it may be shown: no secret, and no password of a URL.
std::string Shown(const EnvironmentVariable& variable) {
  const std::string& value = variable.value;
  if (value.empty()) return value;
  if (variable.name == "SINTER_REMOTE_KEY" || variable.name == "SINTER_REMOTE_PASSWORD") {
    return "(set)";
  }
  const size_t user = value.find("://"), at = value.rfind('@');
  if (variable.name != "SINTER_REMOTE" || at == std::string::npos || user >= at) return value;
  return value.substr(0, user) + "://(user)" + value.substr(at);
}

// One line for every variable that is refused or unknown, and one for all that are set. With a
// refused variable no context can be made, so nothing else is checked.
void CheckEnvironment(Findings* findings, Json* variables) {
  const EnvironmentReading reading = ReadEnvironment();
  std::vector<std::string> set;
  for (const EnvironmentVariable& variable : reading.variables) {
    const std::string &name = variable.name, shown = Shown(variable);
    variables->push_back({{"name", name}, {"value", shown}, {"error", variable.error}});
    if (!shown.empty() && name.rfind("SINTER_", 0) == 0) set.push_back(name + "=" + shown);
    if (variable.error.empty()) continue;
    findings->push_back({"variable", Health::kFail, variable.error, "correct or unset " + name});
  }
  for (const std::string& warning : reading.config.warnings) {
    findings->push_back({"variable", Health::kWarn, warning, "correct or unset it"});
  }
  findings->push_back(
      {"variables", Health::kOk, set.empty() ? "no SINTER_* is set" : Join(set, ", "), ""});
}

void Print(const Findings& findings) {
  for (const Finding& finding : findings) {
    std::printf("%-5s %-9s %s\n", NameOf(finding.health), finding.check.c_str(),
                Printable(finding.found).c_str());
    if (!finding.way_out.empty())
      std::printf("                -> %s\n", Printable(finding.way_out).c_str());
  }
}

Json ToJson(const Findings& findings, const Json& variables, int exit) {
  Json json = {{"exit", exit}, {"checks", Json::array()}, {"variables", variables}};
  for (const Finding& finding : findings) {
    json["checks"].push_back({{"check", finding.check},
                              {"status", NameOf(finding.health)},
                              {"found", finding.found},
                              {"way_out", finding.way_out}});
  }
  json["libraries"] = LoadedLibraries("");
  return json;
}

// The exit status: problems come before missing parts.
Outcome Ending(const Findings& findings) {
  const auto count = [&](Health health) {
    return std::count_if(findings.begin(), findings.end(),
                         [&](const Finding& finding) { return finding.health == health; });
  };
  const auto problems = count(Health::kFail), missing = count(Health::kMissing);
  const std::string text =
      "problems: " + std::to_string(problems) + ", missing: " + std::to_string(missing);
  if (problems > 0) return Failure(text);
  if (missing > 0) return {kUnavailable, text};
  return {};
}

// Prints a real device's figures, never those of a model used in its place.
Outcome Measure(const Session& session) {
  if (session.fell_back) return {kUnavailable, "--measure needs a GPU: " + session.no_gpu};
  std::string text;
  SINTER_CLI_TRY(Take(&text, [&] {
    return MeasureDevice(session.context->engine->ports(), session.context->config);
  }));
  std::printf("%s", text.c_str());
  return {};
}

}  // namespace

const char* NameOf(Health health) {
  switch (health) {
    case Health::kOk:
      return "ok";
    case Health::kWarn:
      return "warn";
    default:
      return "fail";
  }
}

Outcome DoctorCommand(const Options& options) {
  const bool reports = !options.report.empty();
  if (reports) SINTER_CLI_TRY(CheckWritable(options.report));
  Json chip;
  Findings findings = {CheckLibrary(), CheckStandIns()};
  Json variables = Json::array();
  CheckEnvironment(&findings, &variables);
  const bool refused = std::any_of(findings.begin(), findings.end(),
                                   [](const Finding& f) { return f.health == Health::kFail; });
  if (!refused) CheckContext(options, variables, &findings, reports ? &chip : nullptr);
  const Outcome ending = Ending(findings);
  if (reports) SINTER_CLI_TRY(WriteFile(options.report, ReportText(findings, chip)));
  if (options.json) {
    PrintJson(ToJson(findings, variables, ending.exit));
  } else {
    Print(findings);
  }
  return Documented(ending, options.json);
}

Outcome DeviceCommand(const Options& options) {
  Session session;
  SINTER_CLI_TRY(OpenSession(options.device, &session));
  if (options.measure) return Measure(session);
  if (options.json) {
    std::printf("%s", capi::DescribeContext(*session.context).c_str());
    return {};
  }
  const std::string text = session.context->engine->ports().model.ToText();
  if (options.model) {
    std::printf("%s", text.c_str());
    return {};
  }
  std::printf("device: %s\n", Printable(session.device).c_str());
  const std::string no_gpu = NoGpuLine(session);
  if (!no_gpu.empty()) std::printf("no GPU: %s\n", Printable(session.no_gpu).c_str());
  std::printf("cache:  %s\n\n%s", Printable(CacheFolder(session)).c_str(), text.c_str());
  return {};
}

Outcome VersionCommand(const Options& options) {
  if (!options.json) {
    std::printf("%s\n", sinter_build_info());
    return {};
  }
  const Json json = {{"version", sinter_version()}, {"build", sinter_build_info()}};
  PrintJson(json);
  return {};
}

// The checks of sinter doctor that need a context.

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

// 1300 of "nvrtc-13.0-<build id>" and of "CUDA 13.0".
int VersionOf(const std::string& text) {
  int major = 0, minor = 0;
  const size_t digit = text.find_first_of("0123456789");
  if (digit != std::string::npos) std::sscanf(text.c_str() + digit, "%d.%d", &major, &minor);
  return 100 * major + minor;
}

// Whether the driver runs what the toolchain compiles: machine code of its own major version and of
// older ones, PTX only of its own version and older ones. `cuda`: "CUDA 12.4"; "" without a driver.
bool RunsCodeOf(const std::string& cuda, const std::string& toolchain, bool ptx) {
  const int driver = VersionOf(cuda), compiler = VersionOf(toolchain);
  return cuda.empty() || (ptx ? compiler <= driver : compiler / 100 <= driver / 100);
}

// Whether a toolchain such as "nvrtc-12.8-<build id>" is older than 12.9, the first that compiles
// 16-bit products with wgmma well. Chips without wgmma have other products.
bool IsTooOldForProducts(const std::string& toolchain, const ArchFeatures& chip) {
  const int version = VersionOf(toolchain);
  return chip.products && version > 0 && version < 1209;
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
  const ArchFeatures chip =
      FeaturesOf(session.context->engine->ports().model.arch).value_or(ArchFeatures());
  Finding finding{"compiler", Health::kOk, toolchain, ""};
  finding.found += "; " + Join(LoadedLibraries("libnvrtc.so"), ", ");
  if (!RunsCodeOf(cuda, toolchain, chip.translated)) {
    finding.health = Health::kFail;
    finding.found += "; the driver is for " + cuda;
    finding.way_out = std::string("a driver runs ") + (chip.translated ? "PTX" : "code") +
                      " of its own CUDA version and older ones: update it, or name an older "
                      "libnvrtc with SINTER_NVRTC";
  } else if (IsTooOldForProducts(toolchain, chip)) {
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
        "names them, and a failing disk may be the cause";
  }
  return finding;
}

void CheckCache(const Session& session, const Json& variables, Findings* findings) {
  const std::string folder = CacheFolder(session);
  if (folder.empty()) {
    findings->push_back(
        {"cache", Health::kWarn, "none on disk: every start compiles again",
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
  const std::string target = session.context->engine->ports().model.name;
  options.target = session.has_gpu()           ? nullptr
                   : BuiltinModel(target).ok() ? target.c_str()
                                               : "h200";
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
Outcome Prove(const Session& session, int device, Findings* findings, Json* chip) {
  Session proof;
  SINTER_CLI_TRY(OpenProof(session, device, &proof));
  if (chip != nullptr) *chip = ReportChip(proof);
  ChainArgs args;
  args.words = {kProof};
  LoadedChain chain;
  SINTER_CLI_TRY(LoadChain(args, &chain));
  Prepared cold, warm;
  SINTER_CLI_TRY(Prepare(proof, chain, PrepareArgs(), &cold));
  SINTER_CLI_TRY(Prepare(proof, chain, PrepareArgs(), &warm));
  findings->push_back(
      {"prepare", Health::kOk,
       FormatText("%.0f ms cold (summed over threads: search %.0f, compile %.0f), %.2f ms warm",
                  cold.wall_us / 1e3, cold.search_us / 1e3, cold.compile_us / 1e3,
                  warm.wall_us / 1e3),
       ""});
  return proof.has_gpu() ? RunProof(proof, chain, cold.plan.get(), findings) : Outcome{};
}

}  // namespace

void CheckContext(const Options& options, const Json& variables, Findings* findings, Json* chip) {
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
  const Outcome proved =
      can_compile ? Prove(session, options.device.device, findings, chip) : Outcome{};
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
