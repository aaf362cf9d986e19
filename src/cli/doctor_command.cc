// sinter doctor: what stands in the way of using the library here, line by line, with the way out.
#include <gnu/libc-version.h>

#include <algorithm>
#include <cstdio>

#include "src/cli/commands.h"
#include "src/cli/doctor.h"
#include "src/cli/handles.h"
#include "src/cli/suggest.h"

namespace sinter::cli {
namespace {

Finding CheckLibrary() {
  Finding finding{"library", Health::kOk, sinter_build_info(), ""};
  finding.found += "; " + Join(LoadedLibraries("libsinter"), ", ");
  const bool bare = LoadedLibraries("libabsl").empty() && LoadedLibraries("libleveldb").empty();
  finding.found += bare ? "; self-contained" : "; needs the system's Abseil and LevelDB";
  finding.found += std::string("; glibc ") + gnu_get_libc_version();
  constexpr uint32_t kHeaders =
      SINTER_VERSION_MAJOR * 10000 + SINTER_VERSION_MINOR * 100 + SINTER_VERSION_PATCH;
  if (sinter_version() == kHeaders) return finding;
  finding.health = Health::kWarn;
  finding.way_out = "this command was built for another version: install both from one build";
  return finding;
}

// Kernels that come with the library, for where nothing can be compiled.
Finding CheckStandIns() {
  const bool none = std::string(sinter_build_info()).find("no stand-ins") != std::string::npos;
  if (!none) return {"stand-ins", Health::kOk, "plans can stand in while one is built", ""};
  return {"stand-ins", Health::kOk, "none: the library was built without them", ""};
}

// A line for every variable that is refused or unknown, and one for all that are set. With a
// refused one no context can be made, and nothing else is looked at.
Outcome CheckEnvironment(Findings* findings, Json* variables) {
  std::string text;
  SINTER_CLI_TRY(AbiText(&text, sinter_x_environment));
  const Json read = Json::parse(text);
  *variables = read["variables"];
  std::vector<std::string> set;
  for (const Json& variable : *variables) {
    const std::string name = variable["name"], error = variable["error"];
    if (variable["value"] != "" && name.rfind("SINTER_", 0) == 0) {
      set.push_back(name + "=" + variable["value"].get<std::string>());
    }
    if (error.empty()) continue;
    findings->push_back({"variable", Health::kFail, error, "correct or unset " + name});
  }
  for (const Json& warning : read["warnings"]) {
    findings->push_back({"variable", Health::kWarn, warning, "correct or unset it"});
  }
  findings->push_back(
      {"variables", Health::kOk, set.empty() ? "no SINTER_* is set" : Join(set, ", "), ""});
  return {};
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

// Problems outweigh what is missing.
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

}  // namespace

Outcome DoctorCommand(const Options& options) {
  Findings findings = {CheckLibrary(), CheckStandIns()};
  Json variables = Json::array();
  SINTER_CLI_TRY(CheckEnvironment(&findings, &variables));
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

}  // namespace sinter::cli
