// sinter run: a chain from text to execution.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>

#include "src/base/status.h"
#include "src/capi/host_reference.h"
#include "src/chain/chain.h"
#include "src/cli/options.h"
#include "src/cli/outcome.h"
#include "src/cli/session.h"
#include "src/engine/verify.h"
#include "src/explain/explain.h"

namespace sinter::cli {

namespace {

struct Variant {
  std::string name;
  Prepared prepared;
  RunResult result;
};

void PrintTimes(const Prepared& prepared) {
  std::printf("prepared in %.1f ms; summed over threads: search %.1f ms, compile %.1f ms\n",
              prepared.wall_us / 1e3, prepared.search_us / 1e3, prepared.compile_us / 1e3);
}

std::string CheckText(const sinter_x_check& check) {
  return FormatText("%s: relative error %.1e (<= %.0e), largest %.1e rms (<= %.0e)%s",
                    check.within ? "verified" : "WRONG", check.relative, check.relative_bound,
                    check.max_over_rms, check.max_bound, check.nans > 0 ? ", not-a-numbers" : "");
}

Json CheckJson(const sinter_x_check& check) {
  return {{"within", check.within != 0},
          {"relative", check.relative},
          {"max_over_rms", check.max_over_rms},
          {"count", check.count},
          {"nans", check.nans}};
}

void PrintVariant(const Variant& variant) {
  const RunResult& result = variant.result;
  // Shown as "plain": in the plan named "unfused" ops may share kernels too.
  std::printf("%-8s", variant.name == "unfused" ? "plain" : variant.name.c_str());
  if (result.hot_us > 0) {
    std::printf(" %9.2f us cold, %9.2f us hot,", result.cold_us, result.hot_us);
  }
  std::printf(" %s\n", CheckText(result.check).c_str());
}

Json VariantJson(const Variant& variant) {
  const RunResult& result = variant.result;
  Json json = {{"name", variant.name}, {"check", CheckJson(result.check)}};
  if (result.hot_us > 0) {
    json["cold_us"] = result.cold_us;
    json["hot_us"] = result.hot_us;
    json["cold_sets"] = result.cold_sets;
  }
  return json;
}

// Prepares the chosen plan and, for comparison, the fused or plain one if it is another.
Outcome PrepareVariants(const Session& session, const LoadedChain& chain, const Options& options,
                        Prepared chosen, std::vector<Variant>* out) {
  const Plan& plan = chosen.plan->prepared->plan();
  const bool plain = !plan.fused, stand_in = plan.IsStandIn();
  out->push_back({std::string(plan.name()), std::move(chosen), {}});
  // A stand-in means that nothing can be built, so there is nothing to compare with.
  if (options.prepare.choice != "best" || stand_in) return {};
  PrepareArgs other = options.prepare;
  other.choice = plain ? "fused" : "unfused";
  Prepared prepared;
  const Outcome outcome = Prepare(session, chain, other, &prepared);
  if (outcome.ok()) out->push_back({other.choice, std::move(prepared), {}});
  return other.choice == "fused" ? Outcome{} : outcome;  // not every chain can be fused
}

Outcome ExecuteOnDevice(const Session& session, const LoadedChain& chain, const Options& options,
                        Prepared chosen, HostData* data, Json* json) {
  std::vector<Variant> variants;
  SINTER_CLI_TRY(PrepareVariants(session, chain, options, std::move(chosen), &variants));
  bool correct = true;
  for (Variant& variant : variants) {
    SINTER_CLI_TRY(RunOnDevice(session, chain, variant.prepared.plan.get(), data, options.no_time,
                               &variant.result));
    correct = correct && variant.result.check.within != 0;
    (*json)["runs"].push_back(VariantJson(variant));
    if (!options.json) PrintVariant(variant);
  }
  return correct ? Outcome{} : Failure("an output is outside its bounds of error");
}

double RootMeanSquare(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return values.empty() ? 0 : std::sqrt(sum / static_cast<double>(values.size()));
}

Outcome ExecuteOnHost(const LoadedChain& chain, const Options& options, HostData* data,
                      Json* json) {
  const auto inputs = data->InputPointers();
  const auto outputs = data->OutputPointers();
  const auto start = std::chrono::steady_clock::now();
  {
    const Elapsed shown("reference on the CPU (--no-reference leaves it out)");
    const capi::HostBuffers buffers{data->inputs, inputs.data(),
                                    static_cast<uint32_t>(outputs.size()), outputs.data()};
    SINTER_CLI_TRY(Abi([&](sinter_error** error) {
      return capi::Guard(error, [&] {
        return capi::RunOnHost(*chain.chain->chain, chain.m, buffers, 0, data->budget);
      });
    }));
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  (*json)["reference"] = {{"seconds", took.count()}, {"output_rms", Json::array()}};
  if (!options.json) std::printf("reference executor: %.2f s on the CPU", took.count());
  for (size_t i = data->inputs; i < data->infos.size(); ++i) {
    const int output = static_cast<int>(i - data->inputs);
    std::vector<double> values;
    SINTER_CLI_TRY(Take(&values, [&] {
      return OutputValues(*chain.chain->chain, output, chain.m, data->buffers[i]);
    }));
    const double rms = RootMeanSquare(values);
    (*json)["reference"]["output_rms"].push_back(rms);
    if (!options.json) std::printf(", output %d rms %.4g", output, rms);
  }
  if (!options.json) std::printf("\n");
  return {};
}

Outcome Execute(const Session& session, const LoadedChain& chain, const Options& options,
                Prepared prepared, Json* json) {
  const bool on_device = session.has_gpu();
  if (!on_device && options.no_reference) return {};
  HostData data;
  SINTER_CLI_TRY(MakeHostData(chain, options.seed, &data));
  if (options.large_reference) data.budget.operations = std::numeric_limits<double>::infinity();
  if (!on_device) return ExecuteOnHost(chain, options, &data, json);
  if (!options.json)
    std::printf("on %s, m = %lld\n", Printable(session.device).c_str(),
                static_cast<long long>(chain.m));
  return ExecuteOnDevice(session, chain, options, std::move(prepared), &data, json);
}

void PrintPlan(const Session& session, const Prepared& prepared, const std::string& explained) {
  std::printf("\n%s", Wrapped(explained, kMostColumns).c_str());
  PrintTimes(prepared);
  const std::string no_gpu = NoGpuLine(session);
  if (!no_gpu.empty()) std::printf("%s\n", no_gpu.c_str());
  std::printf("\n");
}

}  // namespace

Outcome RunCommand(const Options& options) {
  LoadedChain chain;
  SINTER_CLI_TRY(LoadChain(options.chain, &chain));
  Session session;
  SINTER_CLI_TRY(OpenSession(options.device, &session));
  if (!options.json) std::printf("%s", chain.text.c_str());
  std::fflush(stdout);
  Prepared prepared;
  SINTER_CLI_TRY(Prepare(session, chain, options.prepare, &prepared));
  const std::string explained = PrintableLines(prepared.plan->prepared->Summary());
  Json json = {{"chain", chain.text},
               {"m", chain.m},
               {"device", session.device},
               {"gpu", session.has_gpu()},
               {"no_gpu", session.no_gpu},
               {"plan", explained},
               {"chosen", std::string(prepared.plan->prepared->plan().Fusion())},
               {"digest", DigestHex(prepared.plan.get())},
               {"bucket", sinter_plan_get_bucket(prepared.plan.get())},
               {"predicted_us", prepared.plan->prepared->plan().PredictedUs()},
               {"search_us", prepared.search_us},
               {"compile_us", prepared.compile_us}};
  if (!options.json) PrintPlan(session, prepared, explained);
  std::fflush(stdout);
  const Outcome executed = Execute(session, chain, options, std::move(prepared), &json);
  json["counters"] = CountersJson(StatsOf(session));
  if (!executed.ok()) json["error"] = executed.message;
  if (options.json) {
    PrintJson(json);
  } else {
    std::printf("%s\n", CountersText(StatsOf(session)).c_str());
  }
  return Documented(executed, options.json);
}

// sinter plan: which kernels would run, and why.

namespace {

Outcome PrintSource(const PreparedPlan& plan, int kernel) {
  const auto count = static_cast<int>(plan.plan().kernels.size());
  if (kernel >= count) {
    return Usage("--kernel: \"" + std::to_string(kernel) + "\" is not an integer from 0 to " +
                 std::to_string(count - 1) + ", the plan's last kernel");
  }
  for (int i = kernel < 0 ? 0 : kernel; i < (kernel < 0 ? count : kernel + 1); ++i) {
    std::printf("%s", plan.SourceOf(i).c_str());
  }
  return {};
}

void PrintPlanJson(const Session& session, const LoadedChain& chain, const Prepared& prepared) {
  const PreparedPlan& plan = *prepared.plan->prepared;
  const Json json = {{"text", chain.text},
                     {"chain", Json::parse(ChainToJson(*chain.chain->chain))},
                     {"m", chain.m},
                     {"device", session.device},
                     {"no_gpu", session.no_gpu},
                     {"digest", DigestHex(prepared.plan.get())},
                     {"plan", PlanDocument(plan.plan())},
                     {"explanation", ExplanationDocument(plan.Explained())},
                     {"search_us", prepared.search_us},
                     {"compile_us", prepared.compile_us},
                     {"counters", CountersJson(StatsOf(session))}};
  PrintJson(json);
}

// Prints what a screen has no room for: every plan that was not chosen, and the figures that all
// times come from.
void PrintRest(const Explanation& explanation) {
  std::string rest = "every runner-up:\n";
  int number = 0;
  for (const Candidate& other : explanation.plan.runners_up) {
    rest += FormatText("%4d %8.2f us  ", ++number, other.predicted_us) + Printable(other.name) +
            "\n" + std::string(17, ' ') + Printable(other.why_not) + "\n";
  }
  const ModelStory& model = explanation.model;
  rest += "constants of the device model " + Printable(model.name) +
          (model.measured ? ":\n" : " (scaled from another chip's):\n") + "  " +
          Printable(model.note) + "\n";
  for (const ModelNote& note : model.constants) {
    rest += FormatText("  %-26s  %-14s  ", Printable(note.key), Printable(note.value)) +
            Printable(note.provenance) + ": " + Printable(note.source) + "\n";
  }
  std::printf("%s", Wrapped(rest, kMostColumns).c_str());
}

// Drawings and levels of one or two kernels fill a screen; more kernels get a few lines each.
void PrintPlan(const PreparedPlan& plan, bool whole) {
  constexpr size_t kMostDrawn = 2;
  const bool drawn = whole || plan.plan().kernels.size() <= kMostDrawn;
  const std::string text = PrintableLines(drawn ? plan.Explain() : plan.Summary());
  std::printf("%s", Wrapped(text, kMostColumns).c_str());
  if (!drawn) std::printf("sinter plan -v draws each kernel, and tells what lost and why\n");
  if (whole) PrintRest(plan.Explained());
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
  const PreparedPlan& plan = *prepared.plan->prepared;
  if (!options.svg.empty()) SINTER_CLI_TRY(WriteFile(options.svg, plan.Svg()));
  if (svg_alone) return {};
  if (options.source) return PrintSource(plan, options.kernel);
  if (options.json) return PrintPlanJson(session, chain, prepared), Outcome{};
  std::printf("%s\n", chain.text.c_str());
  PrintPlan(plan, options.device.verbose);
  const std::string no_gpu = NoGpuLine(session);
  if (!no_gpu.empty()) std::printf("%s\n", no_gpu.c_str());
  std::printf("%s\n", CountersText(StatsOf(session)).c_str());
  return {};
}

}  // namespace sinter::cli
