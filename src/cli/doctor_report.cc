// sinter doctor --report: what a user sends of a chip that the maintainers have not.
#include <set>

#include "src/cli/session.h"

namespace sinter::cli {
namespace {

// Chains of rows that every chip takes: a reduction, two, an input of several tensors, positions,
// columns, long rows. Then products, some of which a chip may refuse: few rows and many, a gated
// FFN, elements of 8 bits. Small enough for any memory.
constexpr const char* kReported[] = {
    "softmax rows=4096 cols=1024",
    "layernorm rows=4096 cols=4096",
    "residual_rmsnorm rows=2048 cols=4096",
    "swiglu rows=2048 cols=4096",
    "rope rows=2048 heads=8 dim=128",
    "lstm_cell rows=256 hidden=512",
    "softmax rows=16 cols=128256",
    "matmul m=16 n=4096 k=4096",
    "matmul m=2048 n=4096 k=4096",
    "gated_ffn m=256 n=1024 k=512 l=512 act=silu",
    "scaled_matmul m=256 n=1024 k=2048 codes=s8",
    "scaled_matmul m=256 n=1024 k=2048 codes=e4m3",
};

// Checks whose words name neither paths nor variables.
bool IsShared(const std::string& check) {
  static const auto* const shared =
      new std::set<std::string>{"library", "stand-ins", "gpu", "model", "prepare", "launch"};
  return shared->count(check) > 0;
}

Outcome RunOne(const Session& proof, const std::string& line, Json* said) {
  ChainArgs args;
  args.words = {line};
  LoadedChain chain;
  SINTER_CLI_TRY(LoadChain(args, &chain));
  Prepared prepared;
  SINTER_CLI_TRY(Prepare(proof, chain, PrepareArgs(), &prepared));
  const Plan& plan = prepared.plan->prepared->plan();
  (*said)["kernels"] = plan.kernels.size();
  (*said)["predicted_us"] = plan.PredictedUs();
  if (!proof.has_gpu()) return {};
  HostData data;
  RunResult result;
  SINTER_CLI_TRY(MakeHostData(chain, 1, &data));
  SINTER_CLI_TRY(
      RunOnDevice(proof, chain, prepared.plan.get(), &data, /*check_only=*/false, &result));
  (*said)["right"] = result.check.within != 0;
  (*said)["hot_us"] = result.hot_us;
  (*said)["cold_us"] = result.cold_us;
  return {};
}

}  // namespace

Json ReportChip(const Session& proof) {
  Json chip = {{"context", Json::parse(capi::DescribeContext(*proof.context))}};
  chip["context"].erase("cache_dir");
  std::string toolchain;
  const Outcome opened =
      Take(&toolchain, [&] { return proof.context->engine->ports().compiler->ToolchainId(); });
  chip["compiler"] = opened.ok() ? toolchain : "none";
  chip["chains"] = Json::array();
  for (const char* line : kReported) {
    Json said = {{"chain", line}};
    const Outcome ran = RunOne(proof, line, &said);
    const bool refused = ran.status == SINTER_ERROR_NO_LEGAL_PLAN;
    if (!ran.ok()) said[refused ? "refused" : "error"] = ran.message;
    chip["chains"].push_back(said);
  }
  return chip;
}

std::string ReportText(const Findings& findings, const Json& chip) {
  Json report = {{"report", "sinter doctor 1"}, {"library", sinter_build_info()}};
  report["checks"] = Json::array();
  for (const Finding& finding : findings) {
    Json check = {{"check", finding.check}, {"status", NameOf(finding.health)}};
    if (IsShared(finding.check)) check["found"] = finding.found;
    report["checks"].push_back(check);
  }
  report["chip"] = chip;
  return report.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

}  // namespace sinter::cli
