#include "tests/gpu/gpu_fixture.h"

#include "src/reference/rows.h"

namespace sinter::gpu_testing {

std::shared_ptr<Engine> GpuTest::engine_;

Config TestConfig() {
  absl::StatusOr<Config> config = ConfigFromEnvironment();
  Config result = config.ok() ? *std::move(config) : Config{};
  result.cache_enabled = false;
  return result;
}

LogSink StderrLog() {
  return LogSink(LogLevel::kError, [](LogLevel, absl::string_view message) {
    std::fprintf(stderr, "%s\n", std::string(message).c_str());
  });
}

absl::StatusOr<std::shared_ptr<Engine>> MakeEngine() {
  const Config config = TestConfig();
  absl::StatusOr<Ports> ports = MakePorts(config, 0, "", StderrLog());
  if (!ports.ok()) return ports.status();
  return Engine::Create(*std::move(ports), config, StderrLog());
}

int Repeats(int fallback) {
  const char* text = std::getenv("SINTER_GPU_REPEATS");
  const int given = text == nullptr ? 0 : std::atoi(text);
  return given > 0 ? given : fallback;
}

std::vector<absl::StatusOr<PreparedPlanPtr>> PrepareAll(Engine* engine,
                                                        const std::vector<PlanJob>& jobs) {
  std::vector<absl::StatusOr<PreparedPlanPtr>> plans(jobs.size(), absl::UnknownError("not run"));
  const int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  reference::ParallelFor(
      threads, static_cast<int64_t>(jobs.size()), 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const PlanJob& job = jobs[static_cast<size_t>(i)];
          plans[static_cast<size_t>(i)] = engine->Prepare(
              *job.chain, job.m, {.batch_invariant = job.batch_invariant, .choice = job.choice});
        }
      });
  return plans;
}

std::string NameOf(const FfnSpec& spec) {
  std::string name = absl::StrCat(spec.gated ? "gated_" : "plain_", sinter::NameOf(spec.act), "_",
                                  sinter::NameOf(spec.layout), "_", sinter::NameOf(spec.dtype),
                                  "_n", spec.n, "_k", spec.k);
  if (spec.products == 2) absl::StrAppend(&name, "_l", spec.l);
  if (spec.bias1) absl::StrAppend(&name, "_b1");
  if (spec.bias2) absl::StrAppend(&name, "_b2");
  if (spec.scale1 != 1 || spec.scale2 != 1) absl::StrAppend(&name, "_s");
  if (spec.factor1) absl::StrAppend(&name, "_f1");
  if (spec.factor2) absl::StrAppend(&name, "_f2");
  if (spec.scale_w1) absl::StrAppend(&name, "_c1");
  if (spec.scale_w2) absl::StrAppend(&name, "_c2");
  if (spec.residual) absl::StrAppend(&name, spec.rounds_sum ? "_rounded_r" : "_r");
  if (spec.sum_act != Activation::kIdentity)
    absl::StrAppend(&name, "_", sinter::NameOf(spec.sum_act));
  return name;
}

void GpuTest::SetUpTestSuite() {
  absl::StatusOr<std::shared_ptr<Engine>> engine = MakeEngine();
  if (!engine.ok()) {
    std::fprintf(stderr, "no engine: %s\n", engine.status().ToString().c_str());
    return;
  }
  engine_ = *std::move(engine);
}

void GpuTest::TearDownTestSuite() { engine_ = nullptr; }

void GpuTest::ExpectRows(DeviceChain& data, const BoundRun& run, absl::Span<const int64_t> ms,
                         int repeats) {
  for (const int64_t m : ms) {
    std::string first;
    for (int i = 0; i < repeats; ++i) {
      const std::string output = Got(data.Run(run, m), absl::StrCat("m ", m));
      if (i == 0) {
        first = output;
        EXPECT_OK(data.Check(first, m)) << "m " << m;
      }
      ASSERT_TRUE(output == first) << "run " << i << " of " << repeats << " differs at m " << m;
    }
  }
}

void GpuTest::ExpectRows(DeviceChain& data, const LoadedPlanPtr& plan, absl::Span<const int64_t> ms,
                         int repeats) {
  ExpectRows(data, Got(data.Bind(plan)), ms, repeats);
}

void GpuTest::ExpectCorrect(DeviceChain& data, PreparedPlanPtr plan, int64_t m, int repeats) {
  SCOPED_TRACE(plan->plan().ToText());
  ExpectRows(data, Got(data.Bind(plan)), {m}, repeats);
}

std::map<int64_t, PreparedPlanPtr> GpuTest::PlansOfBuckets(const Chain& chain, int64_t most,
                                                           PrepareOptions::Choice choice) {
  std::vector<PlanJob> jobs;
  for (int64_t m = 1; m <= most; m = BucketOf(m) + 1) jobs.push_back({&chain, m, choice});
  const auto plans = PrepareAll(engine(), jobs);
  std::map<int64_t, PreparedPlanPtr> plan_of_bucket;
  for (size_t i = 0; i < jobs.size(); ++i) {
    const int64_t bucket = BucketOf(jobs[i].m);
    plan_of_bucket[bucket] = Got(plans[i], absl::StrCat("bucket ", bucket));
  }
  return plan_of_bucket;
}

void GpuTest::ExpectEveryM(DeviceChain& data, int64_t most,
                           const std::map<int64_t, PreparedPlanPtr>& plan_of_bucket) {
  std::map<int64_t, BoundRun> bound;
  for (const auto& [bucket, plan] : plan_of_bucket) bound[bucket] = Got(data.Bind(plan));
  for (int64_t m = 1; m <= most; ++m) {
    const std::string output = Got(data.Run(bound.at(BucketOf(m)), m), absl::StrCat("m ", m));
    ASSERT_OK(data.Check(output, m)) << "bucket " << BucketOf(m);
  }
}

GpuTest::PlanCounts GpuTest::RunPlans(const HandPlans& hand, const RunPlan& run) {
  PlanCounts counts;
  const auto built = BuildPlans(ports(), hand.chain, hand.plans, hand.options);
  const auto data = Got(DeviceChain::Make(ports(), *hand.chain, hand.rows, hand.seed));
  for (size_t i = 0; i < built.size(); ++i) {
    SCOPED_TRACE(hand.plans[i].ToText());
    if (!built[i].ok() && hand.may_be_refused) {
      std::printf("passed over: %s\n", std::string(built[i].status().message()).c_str());
      ++counts.refused;
      continue;
    }
    run(*data, Got(built[i], hand.plans[i].ToText()));
    if (HasFatalFailure()) break;
    ++counts.ran;
  }
  return counts;
}

}  // namespace sinter::gpu_testing
