// sinter tune: measures the plans that the search ranked best and collects the choices in a tuning
// set.
#include <cstdio>
#include <vector>

#include "src/cli/options.h"
#include "src/cli/print.h"
#include "src/cli/session.h"

namespace sinter::cli {
namespace {

// The union of the --base files' sets; empty without any.
Outcome OpenSet(const Options& options, TuningSetPtr* out) {
  sinter_tuning_set* set = nullptr;
  SINTER_CLI_TRY(Abi([&](sinter_error** error) { return sinter_tuning_set_create(&set, error); }));
  out->reset(set);
  for (const std::string& path : options.base) {
    SINTER_CLI_TRY(Abi([&](sinter_error** error) {
      return sinter_tuning_set_add_file(set, path.c_str(), error);
    }));
  }
  return {};
}

Outcome WriteSet(const Options& options, const sinter_tuning_set* set) {
  if (options.out.empty()) return {};
  return Abi([&](sinter_error** error) {
    return sinter_tuning_set_write(set, options.out.c_str(), error);
  });
}

Json SetJson(const Options& options, const sinter_tuning_set* set) {
  uint8_t digest[32] = {};
  sinter_tuning_set_get_digest(set, digest, nullptr);
  return {{"path", options.out},
          {"entries", sinter_tuning_set_get_count(set)},
          {"digest", HexOf(digest)}};
}

void PrintSet(const Options& options, const sinter_tuning_set* set) {
  if (options.out.empty()) {
    std::printf("nothing was written: --out FILE keeps the choices\n");
    return;
  }
  const Json json = SetJson(options, set);
  std::printf("%s: %s, digest %s\n", Printable(options.out).c_str(),
              Counted(sinter_tuning_set_get_count(set), "entry").c_str(),
              json["digest"].get<std::string>().c_str());
}

// A failure may come with a report too.
Outcome TuneOne(const Options& options, const Session& session, const LoadedChain& chain,
                sinter_tuning_set* set, std::string* report) {
  sinter_tune_options tune = SINTER_INIT(sinter_tune_options);
  if (options.prepare.batch_invariant) tune.flags |= SINTER_TUNE_BATCH_INVARIANT;
  if (options.keep) tune.flags |= SINTER_TUNE_KEEP;
  tune.deadline_us = MicrosecondsOf(options.budget_s);
  tune.top_k = options.top_k;
  tune.switch_margin = options.margin;
  tune.into = set;
  sinter_x_text* text = nullptr;
  Outcome outcome = Abi([&](sinter_error** error) {
    return sinter_x_tune(session.context.get(), chain.chain.get(), chain.m, &tune, &text, error);
  });
  if (text != nullptr) *report = text->text;
  if (!outcome.ok() && text != nullptr) outcome.exit = kFailed;
  sinter_x_text_release(text);
  return outcome;
}

Outcome MergeOnly(const Options& options) {
  TuningSetPtr set;
  SINTER_CLI_TRY(OpenSet(options, &set));
  SINTER_CLI_TRY(WriteSet(options, set.get()));
  if (options.json) {
    PrintJson(Json{{"set", SetJson(options, set.get())}});
  } else {
    PrintSet(options, set.get());
  }
  return {};
}

// Writes the set after each chain, so that a list that is interrupted keeps what was tuned.
Outcome TuneAll(const Options& options, const Session& session,
                const std::vector<LoadedChain>& chains, sinter_tuning_set* set, Json* list) {
  Outcome first;
  int failed = 0;
  for (const LoadedChain& chain : chains) {
    std::string report;
    const Outcome outcome = TuneOne(options, session, chain, set, &report);
    Json entry = {{"chain", chain.text}, {"m", chain.m}, {"report", report}};
    if (!outcome.ok()) entry["error"] = outcome.message;
    list->push_back(std::move(entry));
    if (!options.json) std::printf("%s\n%s", chain.text.c_str(), report.c_str());
    if (outcome.ok()) {
      SINTER_CLI_TRY(WriteSet(options, set));
    } else if (failed++ == 0) {
      first = outcome;
    }
  }
  if (failed == 0 || chains.size() == 1) return first;
  return {first.exit, std::to_string(failed) + " of " + Counted(chains.size(), "chain") +
                          " not tuned; the first: " + first.message};
}

}  // namespace

Outcome TuneCommand(const Options& options) {
  if (options.keep && options.base.empty()) return Usage("--keep needs --base FILE");
  if (!options.out.empty()) SINTER_CLI_TRY(CheckWritable(options.out));
  const bool nothing = options.chain.words.empty() && options.chain.file.empty();
  if (nothing && !options.out.empty() && !options.base.empty()) {
    const bool of_a_chain = options.chain.m >= 0 || !options.chain.id.empty() || options.keep ||
                            options.top_k > 0 || options.budget_s > 0;
    if (!of_a_chain) return MergeOnly(options);
    return Usage(
        "without a chain the --base sets are merged into --out: --m, --id, --keep, "
        "--top-k and --budget would do nothing");
  }
  std::vector<LoadedChain> chains;
  SINTER_CLI_TRY(LoadChains(options.chain, &chains));
  TuningSetPtr set;
  SINTER_CLI_TRY(OpenSet(options, &set));
  Session session;
  SINTER_CLI_TRY(OpenSession(options.device, &session));
  if (!session.has_gpu()) {
    return {kUnavailable, "tuning measures kernels and needs a GPU: " + session.no_gpu};
  }
  Json list = Json::array();
  const Outcome outcome = TuneAll(options, session, chains, set.get(), &list);
  if (!options.json) {
    PrintSet(options, set.get());
    return outcome;
  }
  const Json json = {{"device", session.device},
                     {"chains", list},
                     {"set", SetJson(options, set.get())},
                     {"counters", CountersJson(StatsOf(session))}};
  PrintJson(json);
  return Documented(outcome, true);
}

}  // namespace sinter::cli
