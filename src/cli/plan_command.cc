// sinter plan: which kernels would run, and why. sinter search: the search space of the paper, and
// what its pruning rules leave of it.
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/chain/chain_json.h"
#include "src/cli/options.h"
#include "src/cli/print.h"
#include "src/cli/session.h"
#include "src/explain/render.h"
#include "src/product/matcher.h"
#include "src/product/paper/paper_report.h"

namespace sinter::cli {
namespace {

Outcome PrintSource(const PreparedPlan& plan, int kernel) {
  const auto count = static_cast<int>(plan.plan().kernels.size());
  if (kernel >= count) {
    return Usage("--kernel: \"" + std::to_string(kernel) + "\" is no integer from 0 to " +
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

// Prints what a screen has no room for: every plan that was not chosen, and the figures behind all
// times.
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

absl::StatusOr<PaperReport> ReportOf(const Session& session, const LoadedChain& loaded, int top_k) {
  SINTER_ASSIGN_OR_RETURN(const MatchedSequence matched, MatchProducts(*loaded.chain->chain));
  const ProductSequence& s = matched.sequence;
  if (s.size() != 2) {
    return absl::InvalidArgumentError(absl::StrCat("paper search: the chain has ", s.size(),
                                                   " product", s.size() == 1 ? "" : "s",
                                                   ", must have 2"));
  }
  if (!CanPair(s, 0)) {
    return absl::InvalidArgumentError(
        "paper search: the first product has a residual, or the second is gated");
  }
  const PaperProblem problem{matched.m.At(loaded.m), s[0].n, s[0].k, s[1].n};
  return MakePaperReport(problem, session.context->engine->ports().model,
                         top_k == 0 ? kPaperTopK : top_k);
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

Outcome SearchCommand(const Options& options) {
  LoadedChain chain;
  SINTER_CLI_TRY(LoadChain(options.chain, &chain));
  Session session;
  SINTER_CLI_TRY(OpenSession(options.device, &session));
  PaperReport report;
  SINTER_CLI_TRY(Take(&report, [&] { return ReportOf(session, chain, options.top_k); }));
  std::printf("%s", (options.json ? PaperReportJson(report) : PaperReportText(report)).c_str());
  return {};
}

}  // namespace sinter::cli
