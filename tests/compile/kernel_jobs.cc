#include "tests/compile/kernel_jobs.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "src/chain/ffn_view.h"
#include "src/chain/problem.h"
#include "src/fusion/ffn_plans.h"
#include "src/fusion/fusion.h"
#include "src/search/search.h"
#include "src/search/space.h"
#include "tests/unit/codegen/sample_kernels.h"

namespace sinter {
namespace {

constexpr int kSchedulesOfAProblem = 4;

std::vector<Problem> ReadList(const std::string& file) {
  std::ifstream in("tests/bench/problems/" + file);
  std::stringstream text;
  text << in.rdbuf();
  auto problems = ParseProblems(text.str());
  return problems.ok() ? *std::move(problems) : std::vector<Problem>();
}

std::vector<FfnProblem> ProblemsOf(const std::string& file) {
  std::vector<FfnProblem> list;
  for (const Problem& problem : ReadList(file)) {
    const auto view = ViewAsFfn(problem.chain);
    if (view.ok()) list.push_back(ProblemOf(*view, BucketOf(problem.m.value_or(1))));
  }
  return list;
}

// The shipping space, task lists, slabs that do not hold all of C, spatial gates.
SearchOptions Wider() {
  SearchOptions options;
  options.task_lists = options.slabs = options.spatial_gates = true;
  return options;
}

class JobList {
 public:
  explicit JobList(const DeviceModel& model) : model_(model) {}
  void AddBest(const FfnProblem& p, bool allow_cooperative) {
    SearchOptions options;
    options.top_k = 1;
    options.allow_cooperative = allow_cooperative;
    const auto result = SearchSchedules(p, model_, options);
    if (result.ok()) Add(SampleSpec(p, result->ranked[0].schedule));
  }
  void Add(const KernelSpec& spec) {
    KernelJob job{spec, {}};
    if (seen_.insert(job.Name()).second) jobs_.push_back(std::move(job));
  }
  size_t size() const { return jobs_.size(); }
  std::vector<KernelJob> Take() { return std::move(jobs_); }

 private:
  const DeviceModel& model_;
  std::set<std::string> seen_;
  std::vector<KernelJob> jobs_;
};

// std::uniform_int_distribution differs between standard libraries; this does not.
class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  int64_t In(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(engine_() % static_cast<uint64_t>(high - low + 1));
  }
  bool Coin() { return In(0, 1) == 1; }

 private:
  std::mt19937_64 engine_;
};

Scaling RandomScaling(Random* random) {
  return {random->Coin() ? 1.0f : 0.125f, static_cast<RowFactor>(random->In(0, 2))};
}

FfnProblem RandomProblem(Random* random) {
  constexpr int64_t kBuckets[] = {1, 8, 16, 32, 48, 64, 96, 128, 128, 192, 256, 384, 512};
  constexpr int64_t kWidest[] = {256, 1024, 8192};
  FfnProblem p;
  p.products = random->Coin() ? 2 : 1;
  p.gated = random->Coin();
  p.activation = kActivations[random->In(0, 4)];
  p.bias1 = random->Coin();
  p.bias2 = p.products == 2 && random->Coin();
  p.residual = static_cast<Residual>(random->In(0, 2));
  p.scaling1 = RandomScaling(random);
  if (p.products == 2) p.scaling2 = RandomScaling(random);
  p.layout = random->Coin() ? Layout::kIO : Layout::kOI;
  p.dtype = random->Coin() ? DType::kF16 : DType::kBF16;
  const int64_t widest = kWidest[random->In(0, 2)] / 8;
  p.n = 8 * random->In(1, widest);
  p.k = 8 * random->In(1, widest / 2);
  p.l = p.products == 2 ? 8 * random->In(1, widest / 2) : 0;
  // The last output dimension of layout oi may be anything.
  if (p.layout == Layout::kOI) (p.products == 2 ? p.l : p.n) -= random->In(0, 7);
  p.bucket = kBuckets[random->In(0, 12)];
  return p;
}

// Up to `count` legal schedules, each as likely as the next (reservoir sampling, Vitter's R).
std::vector<Schedule> RandomSchedules(const FfnProblem& p, const DeviceModel& model, int count,
                                      Random* random) {
  std::vector<Schedule> kept;
  int64_t seen = 0;
  EnumerateSpace(p, model, Wider(), [&](const Schedule& s) {
    if (!CheckSchedule(p, s, model).ok()) return;
    seen++;
    if (kept.size() < static_cast<size_t>(count)) {
      kept.push_back(s);
      return;
    }
    const int64_t at = random->In(0, seen - 1);
    if (at < count) kept[static_cast<size_t>(at)] = s;
  });
  return kept;
}

std::vector<FfnProblem> ResidualProblems() {
  std::vector<FfnProblem> list;
  for (const bool gated : {true, false}) {
    for (const Residual residual : {Residual::kAdded, Residual::kAddedRounded}) {
      FfnProblem p = gated ? SampleS8() : SampleG7();
      p.residual = residual;
      p.bias2 = gated;
      p.dtype = gated == (residual == Residual::kAdded) ? DType::kF16 : DType::kBF16;
      if (residual == Residual::kAdded) p.layout = Layout::kIO;
      list.push_back(p);
      p.layout = Layout::kOI;
      p.l -= 3;
      p.bucket = 512;
      list.push_back(p);
    }
  }
  return list;
}

// At most `count` of them.
std::vector<KernelJob> Evenly(std::vector<KernelJob> all, size_t count) {
  if (all.size() <= count) return all;
  std::vector<KernelJob> some;
  for (size_t i = 0; i < count; ++i) some.push_back(std::move(all[i * all.size() / count]));
  return some;
}

// What sets kinds of kernels apart where a residual is added.
std::string KindOf(const FfnProblem& p, const Schedule& s) {
  const ProductTile& last = p.products == 2 ? s.second : s.first;
  return absl::StrCat(NameOf(s.dataflow), " ", last.split_k, " ", NameOf(s.share), " ",
                      NameOf(s.second_share), " ", s.warpgroups_m * s.warpgroups_n,
                      s.slab_columns > 0 ? " slab" : "", s.spatial_gate ? " spatial" : "");
}

// Of every kind the schedule that is predicted best, and the one whose last product holds most.
std::vector<Schedule> OneOfEachKind(const FfnProblem& p, const DeviceModel& model) {
  struct Pair {
    double best_us = 0;
    int widest = 0;
    Schedule best, wide;
  };
  std::map<std::string, Pair> kinds;
  EnumerateSpace(p, model, Wider(), [&](const Schedule& s) {
    if (!CheckSchedule(p, s, model).ok()) return;
    Pair& kind = kinds[KindOf(p, s)];
    const double us = Predict(p, s, model).total_us;
    const int width = (p.products == 2 ? s.second : s.first).block_n;
    if (kind.best_us == 0 || us < kind.best_us) kind.best_us = us, kind.best = s;
    if (width > kind.widest) kind.widest = width, kind.wide = s;
  });
  std::vector<Schedule> list;
  for (const auto& [name, kind] : kinds) list.insert(list.end(), {kind.best, kind.wide});
  return list;
}

// Of chains of two products, and of each product alone: `count` evenly among them.
std::vector<KernelJob> KernelsOfEachKind(const std::vector<FfnProblem>& problems,
                                         const DeviceModel& model, size_t count) {
  JobList jobs(model);
  for (const FfnProblem& p : problems) {
    FfnProblem gated_product = FirstProductOf(p);
    gated_product.residual = p.residual;
    for (const FfnProblem& q : {p, gated_product, SecondProductOf(p)}) {
      for (const Schedule& s : OneOfEachKind(q, model)) jobs.Add(SampleSpec(q, s));
    }
  }
  return Evenly(jobs.Take(), count);
}

}  // namespace

std::string KernelJob::Name() const {
  return absl::StrCat(spec.problem.ToString(), spec.problem.products == 1 ? " (one product)" : "",
                      " | ", spec.schedule.ToString(), options.trap_spins ? " | trap_spins" : "",
                      options.jitter ? " | jitter" : "");
}

std::vector<KernelJob> BestKernels(const DeviceModel& model) {
  JobList jobs(model);
  for (const char* file : {"gated_ffn.txt", "gemm_chains.txt"}) {
    for (FfnProblem p : ProblemsOf(file)) {
      for (Layout layout : {Layout::kOI, Layout::kIO}) {
        p.layout = layout;
        jobs.AddBest(p, true);
        jobs.AddBest(p, false);
        jobs.AddBest(FirstProductOf(p), true);
        jobs.AddBest(SecondProductOf(p), true);
      }
    }
  }
  return jobs.Take();
}

std::vector<KernelJob> ProductsKernels(const DeviceModel& model) {
  JobList jobs(model);
  for (const Problem& listed : ReadList("products.txt")) {
    for (const char* layout : {"layout=oi", "layout=io"}) {
      const auto problem =
          ParseProblem(absl::StrReplaceAll(WriteProblem(listed), {{"layout=oi", layout}}));
      if (!problem.ok()) continue;
      const auto planned = PlanChain(problem->chain, BucketOf(problem->m.value_or(1)), model, {});
      if (!planned.ok()) continue;
      std::vector<Plan> plans = {planned->chosen};
      plans.insert(plans.end(), planned->alternatives.begin(), planned->alternatives.end());
      for (const char* name : {"fused", "unfused"}) {
        const auto plan =
            std::find_if(plans.begin(), plans.end(), [&](const Plan& p) { return p.name == name; });
        if (plan == plans.end()) continue;
        for (const PlannedKernel& kernel : plan->kernels) jobs.Add(kernel.spec);
      }
    }
  }
  return jobs.Take();
}

std::vector<KernelJob> RangesKernels(const DeviceModel& model, size_t count) {
  JobList jobs(model);
  SearchOptions options;
  options.cluster_ranges = true;
  for (const char* file : {"gated_ffn.txt", "gemm_chains.txt"}) {
    for (const FfnProblem& p : ProblemsOf(file)) {
      double best_us = 0;
      int64_t most = 0;
      Schedule best, largest;
      EnumerateSpace(p, model, options, [&](const Schedule& s) {
        if (s.clusters_n == 1 || !CheckSchedule(p, s, model).ok()) return;
        const double us = Predict(p, s, model).total_us;
        const int64_t part = int64_t{s.block_m} * s.second.block_n;
        if (best_us == 0 || us < best_us) best_us = us, best = s;
        if (part > most) most = part, largest = s;
      });
      if (best_us == 0) continue;
      jobs.Add(SampleSpec(p, best));
      jobs.Add(SampleSpec(p, largest));
    }
  }
  return Evenly(jobs.Take(), count);
}

std::vector<KernelJob> ResidualKernels(const DeviceModel& model, size_t count) {
  return KernelsOfEachKind(ResidualProblems(), model, count);
}

std::vector<KernelJob> ScaledKernels(const DeviceModel& model, size_t count) {
  std::vector<FfnProblem> list;
  for (FfnProblem p : ResidualProblems()) {
    const bool f32 = p.residual == Residual::kAdded;
    p.scaling1 = {0.125f, f32 ? RowFactor::kF32 : RowFactor::kElement};
    p.scaling2 = {1, f32 ? RowFactor::kElement : RowFactor::kF32};
    list.push_back(p);
    p.residual = Residual::kNone;
    p.scaling2.rows = RowFactor::kNone;
    list.push_back(p);
  }
  return KernelsOfEachKind(list, model, count);
}

std::vector<KernelJob> RandomKernels(const DeviceModel& model, uint64_t seed, int count) {
  Random random(seed);
  JobList jobs(model);
  while (jobs.size() < static_cast<size_t>(count)) {
    const FfnProblem p = RandomProblem(&random);
    for (const Schedule& s : RandomSchedules(p, model, kSchedulesOfAProblem, &random)) {
      if (jobs.size() == static_cast<size_t>(count)) break;
      KernelSpec spec = SampleSpec(p, s);
      spec.constant_weights = random.Coin();
      jobs.Add(spec);
    }
  }
  return jobs.Take();
}

}  // namespace sinter
