// sinter doctor: what prevents the library's use on this machine, line by line, and what to do.
#include <gnu/libc-version.h>

#include <algorithm>
#include <cstdio>

#include "src/base/config.h"
#include "src/cli/doctor.h"
#include "src/cli/options.h"
#include "src/cli/outcome.h"
#include "src/cli/print.h"
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

// The exit status: problems come before what is missing.
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
  SINTER_CLI_TRY(Take(&text, [&] { return MeasureDevice(session.context->engine->ports()); }));
  std::printf("%s", text.c_str());
  return {};
}

}  // namespace

Outcome DoctorCommand(const Options& options) {
  Findings findings = {CheckLibrary(), CheckStandIns()};
  Json variables = Json::array();
  CheckEnvironment(&findings, &variables);
  const bool refused = std::any_of(findings.begin(), findings.end(),
                                   [](const Finding& f) { return f.health == Health::kFail; });
  if (!refused) CheckContext(options, variables, &findings);
  const Outcome ending = Ending(findings);
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

}  // namespace sinter::cli
