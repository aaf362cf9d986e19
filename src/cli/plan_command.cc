// sinter plan: what would run, and why.
#include <cstdio>

#include "src/cli/commands.h"
#include "src/cli/files.h"
#include "src/cli/session.h"

namespace sinter::cli {
namespace {

Outcome PrintSource(const sinter_plan* plan, int kernel) {
  const auto count = static_cast<int>(sinter_x_plan_get_kernel_count(plan));
  if (kernel >= count) {
    return Usage("--kernel: \"" + std::to_string(kernel) + "\" is no integer from 0 to " +
                 std::to_string(count - 1) + ", the plan's last kernel");
  }
  for (int i = kernel < 0 ? 0 : kernel; i < (kernel < 0 ? count : kernel + 1); ++i) {
    std::string source;
    SINTER_CLI_TRY(AbiText(&source, [&](sinter_x_text** out, sinter_error** error) {
      return sinter_x_plan_get_source(plan, static_cast<uint32_t>(i), out, error);
    }));
    std::printf("%s", source.c_str());
  }
  return {};
}

Outcome PrintPlanJson(const Session& session, const LoadedChain& chain, const Prepared& prepared) {
  std::string text, chain_text, explanation;
  SINTER_CLI_TRY(AbiText(&text, [&](sinter_x_text** out, sinter_error** error) {
    return sinter_x_plan_to_json(prepared.plan.get(), out, error);
  }));
  SINTER_CLI_TRY(AbiText(&chain_text, [&](sinter_x_text** out, sinter_error** error) {
    return sinter_x_chain_to_json(chain.chain.get(), out, error);
  }));
  SINTER_CLI_TRY(AbiText(&explanation, [&](sinter_x_text** out, sinter_error** error) {
    return sinter_x_plan_explain_json(prepared.plan.get(), out, error);
  }));
  const Json json = {{"text", chain.text},
                     {"chain", Json::parse(chain_text, nullptr, false)},
                     {"m", chain.m},
                     {"device", session.device},
                     {"no_gpu", session.no_gpu},
                     {"digest", DigestHex(prepared.plan.get())},
                     {"plan", Json::parse(text, nullptr, false)},
                     {"explanation", Json::parse(explanation, nullptr, false)},
                     {"search_us", prepared.search_us},
                     {"compile_us", prepared.compile_us},
                     {"counters", CountersJson(StatsOf(session))}};
  PrintJson(json);
  return {};
}

Outcome WriteSvg(const sinter_plan* plan, const std::string& path) {
  std::string svg;
  SINTER_CLI_TRY(AbiText(&svg, [&](sinter_x_text** out, sinter_error** error) {
    return sinter_x_plan_svg(plan, out, error);
  }));
  return WriteFile(path, svg);
}

// What a screen has no room for: every plan that was not chosen, and the figures behind all times.
Outcome PrintRest(const sinter_plan* plan) {
  std::string text;
  SINTER_CLI_TRY(AbiText(&text, [&](sinter_x_text** out, sinter_error** error) {
    return sinter_x_plan_explain_json(plan, out, error);
  }));
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return Failure("the library's explanation is not JSON");
  std::string rest = "every runner-up:\n";
  int number = 0;
  for (const Json& loser : json["runners_up"]) {
    char head[32];
    std::snprintf(head, sizeof(head), "%4d %8.2f us  ", ++number, loser.value("predicted_us", 0.0));
    rest += head + PrintableAt(loser, "name") + "\n" + std::string(17, ' ') +
            PrintableAt(loser, "why_not") + "\n";
  }
  const Json& model = json["model"];
  rest += "constants of the device model " + PrintableAt(model, "name") +
          (model.value("measured", false) ? ":\n" : " (scaled from another chip's):\n") + "  " +
          PrintableAt(model, "note") + "\n";
  for (const Json& constant : model["constants"]) {
    char head[64];
    std::snprintf(head, sizeof(head), "  %-26s  %-14s  ", PrintableAt(constant, "key").c_str(),
                  PrintableAt(constant, "value").c_str());
    rest +=
        head + PrintableAt(constant, "provenance") + ": " + PrintableAt(constant, "source") + "\n";
  }
  std::printf("%s", Wrapped(rest, kMostColumns).c_str());
  return {};
}

// Drawings and levels of one kernel or two fill a screen; of more, a few lines each do.
Outcome PrintPlan(const sinter_plan* plan, bool whole) {
  constexpr uint32_t kMostDrawn = 2;
  const bool drawn = whole || sinter_x_plan_get_kernel_count(plan) <= kMostDrawn;
  std::string explained;
  SINTER_CLI_TRY(drawn ? Explain(plan, &explained) : Summary(plan, &explained));
  std::printf("%s", Wrapped(explained, kMostColumns).c_str());
  if (!drawn) std::printf("sinter plan -v draws each kernel, and tells what lost and why\n");
  return whole ? PrintRest(plan) : Outcome{};
}

}  // namespace

Outcome PlanCommand(const Options& options) {
  const bool svg_alone = options.svg == kStandardStream;
  if (svg_alone && (options.source || options.json)) {
    return Usage("--svg - excludes --source and --json: standard output takes one of them");
  }
  if (!options.svg.empty()) SINTER_CLI_TRY(CheckWritable(options.svg));
  LoadedChain chain;
  SINTER_CLI_TRY(LoadChain(options.chain, &chain));
  Session session;
  SINTER_CLI_TRY(OpenSession(options.device, &session));
  Prepared prepared;
  SINTER_CLI_TRY(Prepare(session, chain, options.prepare, &prepared));
  if (!options.svg.empty()) SINTER_CLI_TRY(WriteSvg(prepared.plan.get(), options.svg));
  if (svg_alone) return {};
  if (options.source) return PrintSource(prepared.plan.get(), options.kernel);
  if (options.json) return PrintPlanJson(session, chain, prepared);
  std::printf("%s\n", chain.text.c_str());
  SINTER_CLI_TRY(PrintPlan(prepared.plan.get(), options.device.verbose));
  const std::string no_gpu = NoGpuLine(session);
  if (!no_gpu.empty()) std::printf("%s\n", no_gpu.c_str());
  std::printf("%s\n", CountersText(StatsOf(session)).c_str());
  return {};
}

}  // namespace sinter::cli
