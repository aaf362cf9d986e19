// sinter_context_write_metrics, read as strictly as Prometheus' text format 0.0.4 is defined.
#include "tests/capi/abi.h"
#include "tests/support/no_compiler.h"

namespace sinter_test {
namespace {

std::string Metrics(const ContextPtr& context) {
  size_t required = 0;
  std::string text(1 << 16, '\0');
  Ok(sinter_context_write_metrics, context.get(), text.size(), text.data(), &required);
  EXPECT_LE(required, text.size());
  text.resize(required - 1);
  return text;
}

struct Family {
  std::string type, help;
  std::map<std::string, double> samples;  // by the text between the braces
};

// Whether the sample `name` belongs to `family`: a histogram's samples have suffixes.
bool IsOf(const std::string& name, const std::string& family, const Family& of) {
  if (of.type != "histogram") return name == family;
  return name == family + "_bucket" || name == family + "_sum" || name == family + "_count";
}

// The samples of a histogram: for each set of labels the buckets ascend to +Inf, which is the
// count.
void ExpectHistogram(const std::string& name, const Family& family) {
  std::map<std::string, std::map<double, double>> buckets;
  for (const auto& [labels, value] : family.samples) {
    const sinter::Match match = sinter::WholeMatch(labels, "((.*),)?le=\"([^\"]+)\"");
    if (match.empty()) continue;
    buckets[match[2]][match[3] == "+Inf" ? HUGE_VAL : std::stod(match[3])] = value;
  }
  EXPECT_FALSE(buckets.empty()) << name;
  for (const auto& [labels, counts] : buckets) {
    double before = 0;
    for (const auto& [bound, count] : counts) {
      EXPECT_GE(count, before) << name << " " << labels << " " << bound;
      before = count;
    }
    EXPECT_EQ(counts.rbegin()->first, HUGE_VAL) << name;
    EXPECT_EQ(family.samples.at("_count " + labels), before) << name << " " << labels;
    EXPECT_EQ(family.samples.count("_sum " + labels), 1u) << name << " " << labels;
  }
}

// Fails the test where the text breaks a rule: HELP, then TYPE, then the family's samples, each
// family and each sample once, names, labels and numbers as the format spells them, a line end
// last.
std::map<std::string, Family> Parse(const std::string& text) {
  const std::string kName = "[a-zA-Z_:][a-zA-Z0-9_:]*";
  const std::string kLabel = "[a-zA-Z_][a-zA-Z0-9_]*=\"[^\"\\]*\"";
  const std::string kNumber = "[0-9]+(\\.[0-9]+)?(e[+-][0-9]+)?";
  const std::string kHelp = "# HELP (" + kName + ") (.+)";
  const std::string kType = "# TYPE (" + kName + ") (counter|gauge|histogram)";
  const std::string kSample =
      "(" + kName + ")(\\{(" + kLabel + "(," + kLabel + ")*)\\})? (" + kNumber + ")";
  std::map<std::string, Family> families;
  std::string current;
  EXPECT_EQ(text.back(), '\n');
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    sinter::Match match;
    if (match = sinter::WholeMatch(line, kHelp); !match.empty()) {
      current = match[1];
      EXPECT_TRUE(families.emplace(current, Family{"", match[2], {}}).second) << line;
    } else if (match = sinter::WholeMatch(line, kType); !match.empty()) {
      EXPECT_EQ(match[1], current);
      EXPECT_TRUE(families[current].type.empty() && families[current].samples.empty()) << line;
      families[current].type = match[2];
    } else if (match = sinter::WholeMatch(line, kSample); !match.empty()) {
      Family& family = families[current];
      EXPECT_TRUE(IsOf(match[1], current, family)) << line;
      const std::string suffix = match[1].substr(current.size());
      const bool plain = suffix.empty() || suffix == "_bucket";
      const std::string labels = plain ? match[3] : suffix + " " + match[3];
      EXPECT_TRUE(family.samples.emplace(labels, std::stod(match[5])).second) << line;
    } else {
      ADD_FAILURE() << "not of the format: " << line;
    }
  }
  return families;
}

TEST(Metrics, TheTextIsOfTheFormat) {
  const auto families = Parse(Metrics(MakeTarget("")));
  EXPECT_GT(families.size(), 25u);
  for (const auto& [name, family] : families) {
    EXPECT_EQ(name.rfind("sinter_", 0), 0u) << name;
    EXPECT_FALSE(family.samples.empty() || family.type.empty() || family.help.empty()) << name;
    const bool total = name.size() > 6 && name.compare(name.size() - 6, 6, "_total") == 0;
    EXPECT_EQ(total, family.type == "counter") << name;
    if (family.type == "histogram") ExpectHistogram(name, family);
  }
  const auto& build = families.at("sinter_build_info").samples;
  ASSERT_EQ(build.size(), 1u);
  EXPECT_THAT(build.begin()->first,
              testing::MatchesRegex("version=\"0.1.0\",commit=\"[a-z0-9]+\",arch=\"sm_90a\""));
}

TEST(Metrics, TheyAreTheCountersOfTheContext) {
  const ScratchFolder folder;
  const ContextPtr context = MakeTarget(folder.path().c_str());
  const ChainPtr chain = FromText(kSmall);
  const auto must_hit = Sized(sinter_prepare_options{.flags = SINTER_PREPARE_MUST_HIT});
  sinter_plan* plan = nullptr;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Try(sinter_prepare, context.get(), chain.get(), 20, &must_hit, &plan).status,
              SINTER_ERROR_CACHE_MISS);
  }
  const sinter_stats stats = StatsOf(context);
  const auto families = Parse(Metrics(context));
  EXPECT_EQ(families.at("sinter_prepares_total").samples.at(""), 3);
  EXPECT_EQ(families.at("sinter_must_hit_misses_total").samples.at(""), 3);
  EXPECT_EQ(families.at("sinter_prepare_failures_total").samples.at(""), 3);
  EXPECT_EQ(stats.must_hit_misses, 3u);
  EXPECT_EQ(families.at("sinter_prepare_seconds").samples.at("_count result=\"failed\""), 3);
  EXPECT_EQ(families.at("sinter_compiles_in_flight").samples.at(""), 0);
  double misses = 0, absent = 0;
  for (const auto& [labels, value] : families.at("sinter_lookups_total").samples) {
    if (labels.find("result=\"miss\"") != std::string::npos) misses += value;
    if (labels.find("reason=\"absent\"") != std::string::npos) absent = value;
  }
  EXPECT_GT(absent, 0);
  EXPECT_EQ(misses, static_cast<double>(stats.cache_misses));
}

TEST(Metrics, PlansAreCountedApartFromKernels) {
  const ScratchFolder folder;
  const ChainPtr chain = FromText(kSmall);
  for (const bool cold : {true, false}) {
    const ContextPtr context = MakeTarget(folder.path().c_str());
    PlanPtr plan;
    const Result prepared = TryMake(&plan, sinter_prepare, context.get(), chain.get(), 20, nullptr);
    if (prepared.status == SINTER_UNAVAILABLE) SINTER_END_WITHOUT_COMPILER(prepared.message);
    ASSERT_EQ(prepared.status, SINTER_OK) << prepared.message;
    plan.reset();
    Metrics(context);  // asks for the records to be counted
    Ok(sinter_x_cache_flush, context.get());
    const auto families = Parse(Metrics(context));
    const auto value = [&](const char* name, const std::string& labels) {
      return families.at(std::string("sinter_") + name).samples.at(labels);
    };
    const double hits = cold ? 0 : 1;
    EXPECT_EQ(value("cache_hits_total", "kind=\"plan\",tier=\"local\""), hits);
    EXPECT_GE(value("cache_hits_total", "kind=\"kernel\",tier=\"local\""), hits);
    EXPECT_EQ(value("cache_misses_total", "kind=\"plan\",reason=\"absent\"") > 0, cold);
    EXPECT_EQ(value("cache_misses_total", "kind=\"kernel\",reason=\"absent\"") > 0, cold);
    EXPECT_EQ(value("cache_read_bytes_total", "kind=\"kernel\"") > 0, !cold);
    EXPECT_EQ(value("cache_written_bytes_total", "kind=\"plan\"") > 0, cold);
    EXPECT_GT(value("cache_lookup_seconds", "_count kind=\"plan\""), 0);
    EXPECT_EQ(value("cache_records", "kind=\"plan\""), 1);
    EXPECT_GE(value("cache_records", "kind=\"kernel\""), 1);
    EXPECT_GT(value("cache_bytes", "kind=\"kernel\""), value("cache_bytes", "kind=\"plan\""));
    EXPECT_EQ(value("prepare_seconds", "_count result=\"ok\""), 1);
  }
}

TEST(Metrics, AWarningOfTheFileNamesItsVariable) {
  const ScratchFolder folder;
  Messages log;
  const auto options =
      Sized(sinter_context_options{.target = "h200",
                                   .cache_dir = "",
                                   .log = Messages::Callback,
                                   .log_user_data = reinterpret_cast<uintptr_t>(&log)});
  ASSERT_EQ(setenv("SINTER_METRICS_FILE", (folder.path() + "/none/x").c_str(), 1), 0);
  ContextPtr context = Made<ContextPtr>(sinter_context_create, &options);
  unsetenv("SINTER_METRICS_FILE");
  context.reset();  // which waits for the thread that writes
  EXPECT_THAT(log.all, HasSubstr("SINTER_METRICS_FILE: create " + folder.path()));
}

TEST(Metrics, AFileHasThemFromTheStartAndAtTheEnd) {
  const ScratchFolder folder;
  ASSERT_EQ(setenv("SINTER_METRICS_FILE", (folder.path() + "/%p.prom").c_str(), 1), 0);
  ContextPtr context = MakeTarget("");
  unsetenv("SINTER_METRICS_FILE");
  const std::string path = folder.path() + "/" + std::to_string(getpid()) + ".prom";
  const auto written = [&] { return FileText(path); };
  while (written().empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(Parse(written()).at("sinter_prepares_total").samples.at(""), 0);
  const ChainPtr chain = FromText(kSmall);
  const auto no_build = Sized(sinter_prepare_options{.flags = SINTER_PREPARE_NO_BUILD});
  sinter_plan* plan = nullptr;
  EXPECT_EQ(sinter_prepare(context.get(), chain.get(), 20, &no_build, &plan, nullptr),
            SINTER_NOT_FOUND);
  context.reset();
  EXPECT_EQ(Parse(written()).at("sinter_prepares_total").samples.at(""), 1);
}

TEST(Metrics, TextComesByTheTwoCallPattern) {
  const ContextPtr context = MakeTarget("");
  size_t required = 0;
  char few[16] = "untouched";
  Ok(sinter_context_write_metrics, context.get(), 0, nullptr, &required);
  EXPECT_EQ(required, Metrics(context).size() + 1);
  Ok(sinter_context_write_metrics, context.get(), 16, few, &required);
  EXPECT_STREQ(few, "# HELP sinter_b");
  const Result null = Try(sinter_context_write_metrics, nullptr, 0, nullptr, &required);
  EXPECT_EQ(null.message, "context is null");
}

}  // namespace
}  // namespace sinter_test
