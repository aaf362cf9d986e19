// sinter plan: what would run, and why.
#include <cstdio>
#include <fstream>

#include "src/cli/commands.h"
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
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << svg;
  file.close();
  if (!file) return Failure("cannot write " + path);
  return {};
}

}  // namespace

Outcome PlanCommand(const Options& options) {
  LoadedChain chain;
  SINTER_CLI_TRY(LoadChain(options.chain, &chain));
  Session session;
  SINTER_CLI_TRY(OpenSession(options.device, &session));
  Prepared prepared;
  SINTER_CLI_TRY(Prepare(session, chain, options.prepare, &prepared));
  if (!options.svg.empty()) SINTER_CLI_TRY(WriteSvg(prepared.plan.get(), options.svg));
  if (options.source) return PrintSource(prepared.plan.get(), options.kernel);
  if (options.json) return PrintPlanJson(session, chain, prepared);
  std::string explained;
  SINTER_CLI_TRY(Explain(prepared.plan.get(), &explained));
  std::printf("%s\n%s", chain.text.c_str(), explained.c_str());
  const std::string no_gpu = NoGpuLine(session);
  if (!no_gpu.empty()) std::printf("%s\n", no_gpu.c_str());
  std::printf("%s\n", CountersText(StatsOf(session)).c_str());
  return {};
}

}  // namespace sinter::cli
