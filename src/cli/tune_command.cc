// sinter tune: measures the plans that the search ranked best and collects the choices in a tuning
// set.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <set>
#include <vector>

#include "src/cli/options.h"
#include "src/cli/outcome.h"
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

// sinter warm: prepares a whole workload, without a GPU if need be, and packs it. Plans that are in
// the cache are only looked up, so a warm-up that was stopped continues where it was.

namespace {

void Print(const Workload& workload, const WarmResult& warm, const Json& pack) {
  for (const Failed& failed : warm.failed) {
    std::fprintf(stderr, "sinter: %s: %s\n", Printable(failed.chain).c_str(),
                 failed.status.c_str());
  }
  std::printf(
      "%zu of %s prepared in %.1f s with %u at once: searched %llu, compiled %llu, found %s and "
      "%s\n",
      workload.items.size() - warm.failed.size(), Counted(workload.items.size(), "plan").c_str(),
      warm.wall_s, warm.jobs, static_cast<unsigned long long>(warm.stats.searched),
      static_cast<unsigned long long>(warm.stats.kernels_compiled),
      Counted(warm.stats.plan_hits, "plan").c_str(),
      Counted(warm.stats.kernel_hits, "kernel").c_str());
  if (!pack.is_null()) std::printf("%s\n", ExportText(pack).c_str());
}

Json ToJson(const Workload& workload, const WarmResult& warm, const Json& pack, const Json& kept) {
  Json failed = Json::array();
  for (const Failed& one : warm.failed) {
    failed.push_back({{"chain", one.chain}, {"status", one.status}});
  }
  return {{"plans", workload.items.size()},
          {"failed", failed},
          {"seconds", warm.wall_s},
          {"jobs", warm.jobs},
          {"pack", pack},
          {"kept", kept},
          {"counters", CountersJson(warm.stats)}};
}

// The bar of a batch, whose stage begins with "done/all". It is short on a narrow terminal, to
// leave room for the words.
void ShowBar(uintptr_t user_data, const char* stage, double fraction) {
  const int width = std::clamp(TerminalColumns() / 3, 4, 24);
  const int full = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * width);
  std::string bar = "[" + std::string(static_cast<size_t>(full), '#') +
                    std::string(static_cast<size_t>(width - full), '.') + "] ";
  reinterpret_cast<Progress*>(user_data)->Show(bar, stage, fraction);
}

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

int ExitOfStatus(sinter_status status) { return FromStatus(status, nullptr).exit; }

// What the cache still holds of the prepared records; null if there is no local tier to write.
Outcome LookAtCache(const Session& session, Json* kept) {
  if (CacheFolder(session).empty()) return {};
  const Outcome looked = Take(kept, [&] { return KeptRecords(session); });
  const bool none =
      looked.status == SINTER_UNAVAILABLE || looked.status == SINTER_PERMISSION_DENIED;
  return none ? Outcome() : looked;
}

// The error of a warm-up whose records are not all in the cache.
Outcome Lost(const Json& kept) {
  const auto number = [&](const char* key) { return kept.value(key, uint64_t{0}); };
  if (kept.is_null() || number("lost") == 0) return {};
  const std::string lost = std::to_string(number("lost")) + " of " +
                           Counted(number("records"), "record") + " that the workload needs ";
  if (number("evicted") == 0) {
    return Failure(lost +
                   "are not in the cache folder: they could not be written, or another process "
                   "removed them (sinter doctor)");
  }
  return Failure(lost + "were removed again by the cache's cap of " +
                 std::to_string(number("cap")) + " bytes: set SINTER_CACHE_MAX_BYTES to " +
                 std::to_string(number("needed_bytes")) +
                 " or more, which holds everything here, and run it again");
}

// The error of a finished warm-up, if plans failed or records are gone.
Outcome Verdict(const Workload& workload, const WarmResult& warm, const Json& kept) {
  if (warm.failed.empty()) return Lost(kept);
  return {warm.failed.front().exit,
          std::to_string(warm.failed.size()) + " of " + Counted(workload.items.size(), "plan") +
              " could not be prepared; first: " + warm.failed.front().chain + ": " + warm.message};
}

}  // namespace

Outcome WarmCommand(const Options& options) {
  Workload workload;
  SINTER_CLI_TRY(LoadWorkload(options.chain, options.rows, &workload));
  Session session;
  SINTER_CLI_TRY(OpenSession(options.device, &session));
  if (options.prepare.verify && !session.has_gpu()) {
    return {kUnavailable, "--verify runs kernels and needs a GPU: " + session.no_gpu};
  }
  if (!options.pack.empty()) SINTER_CLI_TRY(CheckExport(session, options.pack, options.sign));
  WarmResult warm;
  SINTER_CLI_TRY(PrepareAll(session, workload, options.prepare,
                            options.jobs != 0 ? options.jobs : JobsThatFit(), &warm));
  SINTER_CLI_TRY(Abi(
      [&](sinter_error** error) { return sinter_x_cache_flush(session.context.get(), error); }));
  Json kept, pack;
  SINTER_CLI_TRY(LookAtCache(session, &kept));
  const bool none = warm.failed.size() == workload.items.size();
  if (!options.pack.empty() && !none) {
    SINTER_CLI_TRY(ExportPack(session, options.pack, options.sign, /*used_only=*/true, &pack));
  }
  if (options.json) {
    PrintJson(ToJson(workload, warm, pack, kept));
  } else {
    Print(workload, warm, pack);
  }
  return Documented(Verdict(workload, warm, kept), options.json);
}

namespace {

// The rows to prepare `chain` for: those given, then the buckets of ranges that none of these has.
std::vector<int64_t> RowsFor(const Chain& chain, const Rows& rows) {
  std::vector<int64_t> all = rows.given;
  std::set<int64_t> buckets;
  for (const int64_t m : rows.given) buckets.insert(BucketOf(chain, m));
  for (const int64_t bucket : rows.buckets) {
    if (buckets.insert(BucketOf(chain, bucket)).second) all.push_back(BucketOf(chain, bucket));
  }
  return all;
}

}  // namespace

Outcome LoadWorkload(const ChainArgs& args, const Rows& rows, Workload* out) {
  ChainArgs with_rows = args;
  if (!rows.empty()) with_rows.m = rows.given.empty() ? rows.buckets.front() : rows.given.front();
  SINTER_CLI_TRY(LoadChains(with_rows, &out->chains));
  for (const LoadedChain& chain : out->chains) {
    if (rows.empty() || !sinter_chain_uses_m(chain.chain.get())) {
      out->items.push_back({&chain, chain.m});
      continue;
    }
    for (const int64_t m : RowsFor(*chain.chain->chain, rows)) out->items.push_back({&chain, m});
  }
  return {};
}

Outcome PrepareAll(const Session& session, const Workload& workload, const PrepareArgs& args,
                   uint32_t jobs, WarmResult* out) {
  const size_t count = workload.items.size();
  std::vector<const sinter_chain*> chains;
  std::vector<int64_t> ms;
  for (const Workload::Item& item : workload.items) {
    chains.push_back(item.chain->chain.get());
    ms.push_back(item.m);
  }
  std::vector<sinter_plan*> plans(count);
  std::vector<sinter_status> statuses(count, SINTER_UNKNOWN);
  sinter_prepare_options options = OptionsOf(args);
  options.threads = out->jobs = jobs;
  options.progress = ShowBar;
  const auto start = std::chrono::steady_clock::now();
  Outcome outcome;
  {
    Progress progress;
    options.progress_user_data = progress.user_data();
    outcome = Abi([&](sinter_error** error) {
      return sinter_prepare_many(session.context.get(), static_cast<uint32_t>(count), chains.data(),
                                 ms.data(), &options, plans.data(), statuses.data(), error);
    });
  }
  out->wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  out->stats = StatsOf(session);
  out->message = outcome.message;
  for (size_t i = 0; i < count; ++i) {
    sinter_plan_release(plans[i]);
    if (statuses[i] == SINTER_UNKNOWN) return outcome;  // the whole call was refused
    if (statuses[i] == SINTER_OK) continue;
    out->failed.push_back(
        {FirstLine(workload.items[i].chain->text) + " at m=" + std::to_string(ms[i]),
         sinter_status_name(statuses[i]), ExitOfStatus(statuses[i])});
  }
  return {};
}

}  // namespace sinter::cli
