#include <cstdio>
#include <sstream>

#include "src/chain/problem.h"
#include "src/cli/options.h"
#include "src/cli/outcome.h"
#include "src/cli/session.h"

namespace sinter::cli {
namespace {

constexpr char kChainHelp[] =
    "a chain: a line of text (gated_ffn m=128 n=3072 k=1024 l=1024 act=silu layout=oi dtype=bf16), "
    "a JSON file (tune: or several), or the id of a problem in --file; sinter KIND --help prints "
    "a kind's keys";

// An option whose word may be "", which CLI11 takes for none when it fills an std::optional itself.
CLI::Option* AddWord(CLI::App* app, const char* name, std::optional<std::string>* to,
                     const char* help) {
  return app->add_option_function<std::string>(
      name, [to](const std::string& word) { *to = word; }, help);
}

// Options for the store and the packs that are looked up after it.
void AddStore(CLI::App* app, Options* options) {
  DeviceArgs& args = options->device;
  AddWord(app, "--cache-dir", &args.cache_dir,
          "folder of the cache; \"\" keeps it in memory; default SINTER_CACHE_DIR");
  app->add_option("--use-pack", args.packs,
                  "look this pack up after the cache; may be repeated; default SINTER_PACKS")
      ->check(Path())
      ->allow_extra_args(false);
  app->add_option("--pack-keys", args.pack_keys,
                  "PEM file of the public keys that may sign packs; default SINTER_PACK_KEYS");
  app->add_flag("--unsigned", args.unsigned_packs, "take packs that none of these keys signed");
  app->add_flag("--json", options->json, "print one JSON document");
}

CLI::Option* AddModel(CLI::App* app, DeviceArgs* args, const char* help) {
  return AddWord(app, "--target", &args->target, help)
      ->type_name("TEXT:{" + Join(BuiltinModelNames(), ",") + ",PATH}");
}

// Options for the device that plans are for, the tuning set, and the store.
CLI::Option* AddTarget(CLI::App* app, Options* options) {
  DeviceArgs& args = options->device;
  CLI::Option* target = AddModel(
      app, &args,
      "prepare for a model and use no GPU: a built-in one, or a model file (\"-\": standard "
      "input)");
  AddWord(app, "--tuning-set", &args.tuning_set,
          "choose by the measurements in this file (sinter tune --out); \"\": by prediction alone; "
          "default SINTER_TUNING_SET");
  AddStore(app, options);
  return target;
}

void AddDevice(CLI::App* app, Options* options) {
  DeviceArgs& args = options->device;
  CLI::Option* device = app->add_option_function<int>(
                               "--device",
                               [&args](int ordinal) {
                                 args.device = ordinal;
                                 args.device_given = true;
                               },
                               "GPU ordinal; default 0, and without a GPU --target h200")
                            ->check(Integer(0, INT32_MAX));
  AddTarget(app, options)->excludes(device);
}

void AddChain(CLI::App* app, Options* options) {
  ChainArgs& args = options->chain;
  app->add_option("CHAIN", args.words, kChainHelp);
  app->add_option("--file", args.file,
                  "problem file (one chain a line) or JSON file; \"-\": standard input")
      ->check(Path());
  app->add_option("--id", args.id, "problem in the file");
  app->add_option("-m,--m", args.m, "rows to run; default the chain's")
      ->check(Integer(0, kMostRows));
  app->add_flag("--batch-invariant", options->prepare.batch_invariant,
                "a row's bits do not depend on the number of rows");
}

void AddMeasure(CLI::App* app, PrepareArgs* prepare) {
  CLI::Option* measure =
      app->add_option(
             "--measure", prepare->measure,
             "build and time so many candidates on the GPU and keep the fastest; -1: none, "
             "whatever SINTER_MEASURE says")
          ->check(Integer(-1, 64));
  app->add_option("--measure-for", prepare->measure_s,
                  "seconds that measuring a plan may take; 0: 20")
      ->check(Number(0, kMostSeconds))
      ->needs(measure);
}

// Options of verbs that prepare one plan.
void AddPrepare(CLI::App* app, Options* options) {
  PrepareArgs& prepare = options->prepare;
  app->add_option("--choice", prepare.choice,
                  "best, unfused (the plain plan: a kernel for each product, with what it absorbs) "
                  "or fused (any other)")
      ->check(OneOf({"best", "fused", "unfused"}));
  app->add_flag("--must-hit", prepare.must_hit, "a cache miss is an error");
  app->add_flag("--verify", prepare.verify, "check new kernels against the plain plan");
  AddMeasure(app, &prepare);
  app->add_option("--deadline", prepare.deadline_s, "seconds that preparing may take; 0: no limit")
      ->check(Number(0, kMostSeconds));
}

CLI::App* AddVerb(CLI::App* app, const char* name, const char* help, Verb verb, Verb* chosen) {
  CLI::App* sub = app->add_subcommand(name, help);
  sub->fallthrough();  // so that -v is taken after a verb too
  sub->callback([verb, chosen] { *chosen = verb; });
  return sub;
}

void AddChainVerbs(CLI::App* app, Options* options, Verb* chosen) {
  CLI::App* run =
      AddVerb(app, "run", "prepare a chain, run it, check it, time it", RunCommand, chosen);
  AddChain(run, options);
  AddPrepare(run, options);
  AddDevice(run, options);
  run->add_option("--seed", options->seed, "of the random inputs")->check(Integer(0, UINT64_MAX));
  run->add_flag("--no-time", options->no_time, "check only");
  run->add_flag("--no-reference", options->no_reference,
                "without a GPU: do not run the reference executor");
  run->add_flag("--large-reference", options->large_reference,
                "no bound of the reference's operations; memory is bounded by what is free");
  CLI::App* plan =
      AddVerb(app, "plan", "prepare a chain and explain its plan", PlanCommand, chosen);
  AddChain(plan, options);
  AddPrepare(plan, options);
  AddDevice(plan, options);
  CLI::Option* source =
      plan->add_flag("--source", options->source, "print the generated source instead")
          ->excludes("--json");
  plan->add_option(
          "--svg", options->svg,
          "draw the plan into this file as well; \"-\": to standard output, and nothing else")
      ->check(Path());
  plan->add_option("--kernel", options->kernel, "with --source: only this kernel's")
      ->check(Integer(0, INT32_MAX))
      ->needs(source);
  CLI::App* tune =
      AddVerb(app, "tune", "measure the best-ranked candidates on the GPU, write a tuning set",
              TuneCommand, chosen);
  AddChain(tune, options);
  AddDevice(tune, options);
  tune->add_option("--budget", options->budget_s,
                   "seconds a chain; what was measured by then decides; 0: no limit")
      ->check(Number(0, kMostSeconds));
  tune->add_option("--top-k", options->top_k, "candidates to measure; default 11")
      ->check(Integer(1, INT32_MAX));
  tune->add_option("--margin", options->margin,
                   "a measured choice must beat the predicted one by this fraction; 0: 0.02")
      ->check(Number(0, 10));
  tune->add_option("--out", options->out,
                   "tuning set to write; without CHAIN and --file the merged --base files")
      ->check(Path());
  tune->add_option("--base", options->base, "tuning set to extend, left as it is; may be repeated")
      ->check(Path())
      ->allow_extra_args(false);
  tune->add_flag("--keep", options->keep, "do not measure what --base has and can still be used");
}

// Options for a workload's rows and for how it is prepared.
void AddWorkload(CLI::App* app, Options* options) {
  app->add_option("--file", options->chain.file, "problem file (one chain a line) or JSON file")
      ->check(Path());
  app->add_option("--id", options->chain.id, "only this problem of the file");
  app->add_option_function<std::vector<std::string>>(
         "-m,--m",
         [options](const std::vector<std::string>& words) {
           for (const std::string& word : words) AddRows(word, &options->rows);
         },
         "rows, separated by commas; ..128 is every bucket up to 128 rows, 64..128 those from 64 "
         "on; default what each chain says")
      ->delimiter(',')
      ->allow_extra_args(false)  // a chain may follow the option
      ->check(RowsOrRange());
  app->add_flag("--batch-invariant", options->prepare.batch_invariant,
                "a row's bits do not depend on the number of rows");
}

CLI::Option* AddSign(CLI::App* app, Options* options) {
  return app
      ->add_option("--sign", options->sign,
                   "PEM file of the Ed25519 private key that signs the pack")
      ->check(Path());
}

// Verbs that need neither a GPU nor a compiler, so that what they miss can only be a path they were
// given.
template <Verb kVerb>
Outcome OnFiles(const Options& options) {
  Outcome outcome = kVerb(options);
  if (outcome.exit == kUnavailable) outcome.exit = kUsage;
  return outcome;
}

void AddPush(CLI::App* cache, Options* options, Verb* chosen) {
  CLI::App* push = AddVerb(cache, "push", "write to the remote store what it lacks of the cache",
                           CachePushCommand, chosen);
  AddModel(push, &options->device,
           "whose machines prefetch the records: a built-in model, or a model file; default h200");
  AddStore(push, options);
}

void AddPackVerbs(CLI::App* cache, Options* options, Verb* chosen) {
  CLI::App* exported = AddVerb(cache, "export", "write the records into one pack file",
                               OnFiles<CacheExportCommand>, chosen);
  AddTarget(exported, options);
  exported->add_option("PACK", options->pack, "file to write")->required()->check(Path());
  exported->add_option("CHAIN", options->chain.words, "only what this chain's plan needs");
  AddWorkload(exported, options);
  AddSign(exported, options);
  CLI::App* imported = AddVerb(cache, "import", "take a pack's records into the cache",
                               OnFiles<CacheImportCommand>, chosen);
  AddStore(imported, options);
  imported->add_option("PACK", options->pack, "file to read")->required()->check(Path());
  CLI::App* trim =
      AddVerb(cache, "trim", "remove what was longest unused", OnFiles<CacheTrimCommand>, chosen);
  AddStore(trim, options);
  trim->add_option("--max", options->max_bytes, "bytes to keep: 500MB, 2GiB")
      ->required()
      ->transform(Bytes());
}

void AddCacheVerbs(CLI::App* app, Options* options, Verb* chosen) {
  CLI::App* cache = app->add_subcommand("cache", "look after the local cache and packs");
  cache->require_subcommand(0, 1);
  cache->fallthrough();
  cache->callback([cache, options] {  // without a verb it prints its help
    if (cache->get_subcommands().empty()) options->topics = {"cache"};
  });
  const struct {
    const char *name, *help;
    Verb verb;
  } looks[] = {{"ls", "list the records", OnFiles<CacheListCommand>},
               {"stat", "count records and bytes", OnFiles<CacheStatCommand>},
               {"verify", "read and check every record", OnFiles<CacheVerifyCommand>}};
  for (const auto& look : looks) {
    CLI::App* sub = AddVerb(cache, look.name, look.help, look.verb, chosen);
    AddStore(sub, options);
    sub->add_option("PACK", options->pack, "a pack file instead of the cache folder");
  }
  AddPackVerbs(cache, options, chosen);
  AddPush(cache, options, chosen);
  CLI::App* clear =
      AddVerb(cache, "clear", "remove every record", OnFiles<CacheClearCommand>, chosen);
  AddStore(clear, options);
  clear->add_flag("--yes", options->yes, "do it, not only say what it would remove");
}

void AddWarm(CLI::App* app, Options* options, Verb* chosen) {
  CLI::App* warm =
      AddVerb(app, "warm", "prepare a whole workload, and pack it", WarmCommand, chosen);
  warm->add_option("WORKLOAD", options->chain.words, "a problem file, JSON files or a chain");
  AddWorkload(warm, options);
  AddDevice(warm, options);
  CLI::Option* pack =
      warm->add_option("--pack", options->pack, "write what the workload needs into this pack file")
          ->check(Path());
  AddSign(warm, options)->needs(pack);
  warm->add_flag("--verify", options->prepare.verify,
                 "check new kernels against the plain plan, on the GPU");
  AddMeasure(warm, &options->prepare);
  warm->add_option("--jobs", options->jobs,
                   "plans at once; default one a processor, fewer if memory is short")
      ->check(Integer(1, 256));
}

void AddOtherVerbs(CLI::App* app, Options* options, Verb* chosen) {
  CLI::App* device = AddVerb(app, "device", "show the GPU and its model", DeviceCommand, chosen);
  AddDevice(device, options);
  CLI::Option* model =
      device->add_flag("--model", options->model, "print the model in its text form only");
  device
      ->add_flag("--measure", options->measure,
                 "measure the GPU for some seconds, and print a model file of it")
      ->excludes(model)
      ->excludes("--target");
  AddCacheVerbs(app, options, chosen);
  CLI::App* doctor = AddVerb(app, "doctor", "report what stands in the way here, and the remedy",
                             DoctorCommand, chosen);
  AddDevice(doctor, options);
  doctor
      ->add_option("--report", options->report,
                   "also write what can be sent of this chip to a file: versions, checks, and "
                   "chains that it ran, compared and timed; no paths, no variables")
      ->check(Path());
  CLI::App* version = AddVerb(app, "version", "show what this build is", VersionCommand, chosen);
  version->add_flag("--json", options->json, "print one JSON document");
  CLI::App* help =
      AddVerb(app, "help", "explain a command, or a kind of chain and its keys", nullptr, chosen);
  help->add_option("TOPIC", options->topics, "a command (cache ls) or a kind (gemm_chain)");
}

constexpr char kExitStatuses[] =
    "Exit status: 0 done, also without a command, which prints this help; 1 ran and failed; 2 the\n"
    "command line, a chain or a file was not understood or asks for what cannot be, such as a "
    "chain\n"
    "that no kernel takes; 3 something is missing on this machine: a GPU, a run-time compiler,\n"
    "memory.\n";

class Formatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    return Wrapped(CLI::Formatter::make_help(app, std::move(name), mode), kHelpColumns);
  }
  std::string make_footer(const CLI::App* app) const override {
    const bool logs =
        app->get_parent() != nullptr && app->get_name() != "version" && app->get_name() != "help";
    return logs ? "-v,--verbose is taken too: sinter --help\n" : CLI::Formatter::make_footer(app);
  }
};

// The command that `topics` name, word by word; null when there is none.
CLI::App* FindVerb(CLI::App* app, const std::vector<std::string>& topics) {
  for (const std::string& topic : topics) {
    CLI::App* found = nullptr;
    for (CLI::App* verb : app->get_subcommands({})) {
      if (verb->get_name() == topic) found = verb;
    }
    if (found == nullptr) return nullptr;
    app = found;
  }
  return app;
}

}  // namespace

void AddVerbs(CLI::App* app, Options* options, Verb* chosen) {
  app->add_flag("-v,--verbose", options->device.verbose,
                "before or behind any command: log to standard error; of plan, also every "
                "runner-up and the model's constants");
  AddChainVerbs(app, options, chosen);
  AddWarm(app, options, chosen);
  AddOtherVerbs(app, options, chosen);
}

std::shared_ptr<CLI::Formatter> HelpFormatter() { return std::make_shared<Formatter>(); }

std::string HelpFooter() {
  std::string text = "Kinds of chains (sinter KIND --help prints the keys of one):\n";
  std::istringstream in(ProblemHelp());
  for (std::string line; std::getline(in, line);) text += "  " + line + "\n";
  return text + "\n" + kExitStatuses;
}

Outcome Help(CLI::App* app, const std::vector<std::string>& topics) {
  if (const CLI::App* verb = FindVerb(app, topics)) {
    // App::help() would print the help of `sinter help`, which is what was parsed.
    const std::string name = topics.empty() ? app->get_name() : "sinter " + Join(topics, " ");
    std::printf("%s",
                verb->get_formatter()->make_help(verb, name, CLI::AppFormatMode::Normal).c_str());
    return {};
  }
  if (topics.size() == 1) {
    const absl::StatusOr<std::string> kind = ProblemHelp(topics[0]);
    if (kind.ok()) std::printf("%s", Wrapped(*kind, kHelpColumns).c_str());
    if (kind.ok()) return {};
  }
  std::vector<std::string> known = ProblemKinds();
  for (const CLI::App* verb : app->get_subcommands({})) known.push_back(verb->get_name());
  const std::string topic = Join(topics, " ");
  return Usage("help: \"" + topic + "\" is neither a command nor a kind of chain" +
               DidYouMean(topic, known) + " (sinter help lists them)");
}

}  // namespace sinter::cli
