#include "tests/compile/kernel_jobs.h"

#include "src/fusion/fusion.h"
#include "src/fusion/product_runs.h"
#include "src/product/matcher.h"
#include "tests/support/epilogue_chains.h"
#include "tests/support/files.h"
#include "tests/unit/plan/sample_kernels.h"

namespace sinter {
namespace {

constexpr int kSchedulesOfAProblem = 4;

std::vector<Problem> ReadList(const std::string& file) {
  auto problems = ParseProblems(FileText("tests/bench/problems/" + file));
  return problems.ok() ? *std::move(problems) : std::vector<Problem>();
}

std::vector<ProductSequence> ProblemsOf(const std::string& file) {
  std::vector<ProductSequence> list;
  for (const Problem& problem : ReadList(file)) {
    const auto matched =
        MatchProducts(problem.chain, BucketOf(problem.chain, problem.m.value_or(1)));
    if (matched.ok()) list.push_back(matched->sequence);
  }
  return list;
}

// The space of tuning.
SearchOptions Wider() { return SearchOptions{.offered = Offered::kTuning}; }

class JobList {
 public:
  explicit JobList(const DeviceModel& model) : model_(model) {}
  void AddBest(const ProductSequence& p, bool allow_cooperative) {
    const auto result =
        SearchSchedules(p, model_, {.top_k = 1, .allow_cooperative = allow_cooperative});
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

void SetRandomScaling(ProductSequence* p, int product, Random* random) {
  SetScale(p, product, random->Coin() ? 1.0f : 0.125f);
  SetFactor(p, product, static_cast<RowFactor>(random->In(0, 2)));
}

ProductSequence RandomProblem(Random* random) {
  constexpr int64_t kBuckets[] = {1, 8, 16, 32, 48, 64, 96, 128, 128, 192, 256, 384, 512};
  constexpr int64_t kWidest[] = {256, 1024, 8192};
  const int64_t widest = kWidest[random->In(0, 2)] / 8;
  const int64_t n = 8 * random->In(1, widest), k = 8 * random->In(1, widest / 2);
  const MatrixProduct first = MakeProduct(n, k, kActivations[random->In(0, 4)], random->Coin());
  const int64_t m = kBuckets[random->In(0, 12)];
  ProductSequence p = random->Coin() ? MakeSequence(m, first, 8 * random->In(1, widest / 2))
                                     : MakeSequence(m, first);
  SetElement(&p, random->Coin() ? DType::kF16 : DType::kBF16);
  SetLayout(&p, random->Coin() ? Layout::kIO : Layout::kOI);
  for (int i = 0; i < p.size(); ++i) {
    SetBias(&p, i, random->Coin());
    SetRandomScaling(&p, i, random);
  }
  SetResidual(&p, static_cast<Residual>(random->In(0, 2)));
  // The last output dimension of layout oi may be anything.
  if (p.layout() == Layout::kOI) p.products.back().n -= random->In(0, 7);
  return p;
}

// A GEMM, a gate/up pair or a convolution with an epilogue program.
ProductSequence RandomProgram(Random* random) {
  constexpr int64_t kBuckets[] = {1, 8, 16, 32, 64, 128, 256, 512, 2048, 8192};
  for (;;) {
    const testing::EpilogueChain of =
        testing::RandomEpilogue(static_cast<uint64_t>(random->In(0, int64_t{1} << 40)));
    const ProductRuns found =
        FindProductRuns(of.chain, BucketOf(of.chain, kBuckets[random->In(0, 9)]));
    if (!found.runs.empty()) return found.runs[0].matched.sequence;
  }
}

// A product or a pair of codes: every scale, promoted, fast and exact sums, every result.
ProductSequence RandomCodes(Random* random) {
  constexpr int64_t kBuckets[] = {1, 8, 16, 32, 64, 128, 256, 512, 2048};
  constexpr DType kResults[] = {DType::kF32, DType::kBF16, DType::kF16};
  const bool blocks = random->Coin(), quantized = random->In(0, 3) == 0;
  const auto kind = [&] {
    if (blocks && random->Coin()) return ScaleKind::kBlock;
    return random->Coin() ? ScaleKind::kTensor : ScaleKind::kVector;
  };
  const int64_t n = 128 * random->In(1, 48), k = 128 * random->In(1, 48);
  ProductSequence p = MakeSequence(kBuckets[random->In(0, 8)],
                                   MakeProduct(quantized ? n : n - random->In(0, 9), k,
                                               kActivations[random->In(0, 4)], random->Coin()));
  const ScaleKind rows = blocks ? ScaleKind::kBlock : kind();
  const DType codes = blocks || random->Coin() ? DType::kE4M3 : DType::kS8;
  SetCodes(&p, kResults[random->In(0, 2)], rows, kind(), codes);
  SetBias(&p, 0, random->Coin());
  if (quantized) {
    SetQuantized(&p, random->Coin() ? QuantizeRule{} : QuantizeRule{128, 1e-10f, 0, false});
  } else if (p[0].result != DType::kF32) {
    SetResidual(&p, static_cast<Residual>(random->In(0, 2)));
  }
  if (!blocks && codes == DType::kE4M3 && random->Coin()) p[0].accumulate = Accumulate::kFast;
  return p;
}

// Half of them with what the steps of an epilogue say, half with programs.
ProductSequence AnyProblem(Random* random) {
  return random->Coin() ? RandomProblem(random) : RandomProgram(random);
}

// Up to `count` legal schedules, each as likely as the next (reservoir sampling, Vitter's R).
std::vector<Schedule> RandomSchedules(const ProductSequence& p, const DeviceModel& model, int count,
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

std::vector<ProductSequence> ResidualProblems() {
  std::vector<ProductSequence> list;
  for (const bool gated : {true, false}) {
    for (const Residual residual : {Residual::kAdded, Residual::kAddedRounded}) {
      ProductSequence p = gated ? SampleS8() : SampleG7();
      SetResidual(&p, residual);
      if (gated) SetSumActivation(&p, Activation::kRelu);
      SetBias(&p, 1, gated);
      SetElement(&p, gated == (residual == Residual::kAdded) ? DType::kF16 : DType::kBF16);
      if (residual == Residual::kAdded) SetLayout(&p, Layout::kIO);
      list.push_back(p);
      SetLayout(&p, Layout::kOI);
      p[1].n -= 3;
      p.m = 512;
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
std::string KindOf(const ProductSequence& p, const Schedule& s) {
  const ProductTile& last = p.size() == 2 ? s.second : s.first;
  return absl::StrCat(NameOf(s.dataflow), " ", last.split_k, " ", NameOf(s.share), " ",
                      s.warpgroups_m * s.warpgroups_n);
}

// For every kind the schedule that is predicted best, and the one whose last GEMM holds most.
std::vector<Schedule> OneOfEachKind(const ProductSequence& p, const DeviceModel& model) {
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
    const int width = (p.size() == 2 ? s.second : s.first).block_n;
    if (kind.best_us == 0 || us < kind.best_us) kind.best_us = us, kind.best = s;
    if (width > kind.widest) kind.widest = width, kind.wide = s;
  });
  std::vector<Schedule> list;
  for (const auto& [name, kind] : kinds) list.insert(list.end(), {kind.best, kind.wide});
  return list;
}

// A kernel of each kind of each problem: `count` evenly among them.
std::vector<KernelJob> KernelsOfEachKind(const std::vector<ProductSequence>& problems,
                                         const DeviceModel& model, size_t count) {
  JobList jobs(model);
  for (const ProductSequence& p : problems) {
    for (const Schedule& s : OneOfEachKind(p, model)) jobs.Add(SampleSpec(p, s));
  }
  return Evenly(jobs.Take(), count);
}

// The same of chains of two GEMMs, and of each GEMM by itself.
std::vector<KernelJob> KernelsOfChains(const std::vector<ProductSequence>& chains,
                                       const DeviceModel& model, size_t count) {
  std::vector<ProductSequence> list;
  for (const ProductSequence& p : chains) {
    ProductSequence gated_product = FirstOf(p);
    SetResidual(&gated_product, ResidualOf(p));
    list.insert(list.end(), {p, gated_product, SecondOf(p)});
  }
  return KernelsOfEachKind(list, model, count);
}

// One of each kind of the first product of each chain, or of both where one kernel takes them.
std::vector<KernelJob> KernelsOf(const std::vector<testing::EpilogueChain>& chains,
                                 const DeviceModel& model, size_t count) {
  std::vector<ProductSequence> list;
  for (const testing::EpilogueChain& c : chains) {
    const ProductRuns found = FindProductRuns(c.chain, 512);
    if (!found.runs.empty()) list.push_back(found.runs[0].matched.sequence);
  }
  return KernelsOfEachKind(list, model, count);
}

// Several lists of chains as one.
std::vector<testing::EpilogueChain> Joined(
    std::initializer_list<std::vector<testing::EpilogueChain>> lists) {
  std::vector<testing::EpilogueChain> all;
  for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

}  // namespace

std::string KernelJob::Name() const {
  return absl::StrCat(ProductOf(spec).sequence.ToString(),
                      ProductOf(spec).sequence.size() == 1 ? " (one product)" : "", " | ",
                      ProductOf(spec).schedule.ToString(),
                      options.trap_spins ? " | trap_spins" : "", options.jitter ? " | jitter" : "");
}

std::vector<KernelJob> BestKernels(const DeviceModel& model, bool all) {
  JobList jobs(model);
  bool other = false;
  for (const char* file : {"gated_ffn.txt", "gemm_chains.txt", "conv_chains.txt"}) {
    for (ProductSequence p : ProblemsOf(file)) {
      other = !other;
      for (Layout layout : {Layout::kOI, Layout::kIO}) {
        if (!all && (layout == Layout::kIO) == other) continue;
        SetLayout(&p, layout);
        jobs.AddBest(p, true);
        jobs.AddBest(p, false);
        jobs.AddBest(FirstOf(p), true);
        jobs.AddBest(SecondOf(p), true);
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
        const auto plan = std::find_if(plans.begin(), plans.end(),
                                       [&](const Plan& p) { return p.name() == name; });
        if (plan == plans.end()) continue;
        for (const PlannedKernel& kernel : plan->kernels) jobs.Add(kernel.spec);
      }
    }
  }
  return jobs.Take();
}

std::vector<KernelJob> RangesKernels(const DeviceModel& model, size_t count) {
  JobList jobs(model);
  SearchOptions options{.offered = Offered::kTuning};
  for (const char* file : {"gated_ffn.txt", "gemm_chains.txt"}) {
    for (const ProductSequence& p : ProblemsOf(file)) {
      double best_us = 0;
      int64_t most = 0;
      Schedule best, largest;
      EnumerateSpace(p, model, options, [&](const Schedule& s) {
        if (RangesOf(s) == 1 || !CheckSchedule(p, s, model).ok()) return;
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

std::vector<KernelJob> ResidentKernels(const DeviceModel& model, size_t count) {
  JobList jobs(model);
  for (const char* line :
       {"conv_chain b=8 ic=64 h=56 w=56 k1=3 k2=1 oc1=64 oc2=256 act=relu bias1=1",
        "gemm_chain m=4096 n=512 k=128 l=128 act=relu bias1=1 bias2=1 dtype=f16 layout=io",
        "gemm_chain m=4096 n=256 k=64 l=43 act=gelu_erf bias1=1",
        "gated_ffn m=4096 n=128 k=72 l=104 act=silu",
        "gated_ffn m=4096 n=192 k=128 l=256 act=gelu_erf layout=io"}) {
    for (const bool full : {false, true}) {
      const absl::StatusOr<Problem> problem = ParseProblem(line);
      ProductSequence p = MatchProducts(problem->chain, problem->m.value_or(8))->sequence;
      if (full) {
        SetResidual(&p, Residual::kAdded);
        for (int i = 0; i < 2; ++i) SetFactor(&p, i, RowFactor::kF32);
      }
      double best_us = 0;
      int64_t most = 0;
      Schedule best, largest;
      RowOf(Dataflow::kResidentWeights).enumerate(SpaceWalk(p, model, [&](const Schedule& s) {
        if (!CheckSchedule(p, s, model).ok()) return;
        const double us = Predict(p, s, model).total_us;
        const int64_t sums = s.first.block_n + s.second.block_n + s.warpgroups_m;
        if (best_us == 0 || us < best_us) best_us = us, best = s;
        if (sums >= most) most = sums, largest = s;
      }));
      if (best_us == 0) continue;
      jobs.Add(SampleSpec(p, best));
      jobs.Add(SampleSpec(p, largest));
    }
  }
  return Evenly(jobs.Take(), count);
}

std::vector<KernelJob> ResidualKernels(const DeviceModel& model, size_t count) {
  return KernelsOfChains(ResidualProblems(), model, count);
}

constexpr testing::EpilogueSizes kEpilogueSizes = {1024, 512, 520};

std::vector<KernelJob> ProgramKernels(const DeviceModel& model, size_t count) {
  constexpr testing::EpilogueSizes kSizes = kEpilogueSizes;
  const testing::EpilogueTypes f32_bias{DType::kBF16, DType::kF32, DType::kBF16};
  const testing::EpilogueTypes f32{DType::kF16, DType::kF16, DType::kF32};
  return KernelsOf(
      Joined({testing::ProductEpilogues(f32_bias, kSizes), testing::PairEpilogues(f32_bias, kSizes),
              testing::FusedEpilogues(f32_bias, kSizes), testing::ProductEpilogues(f32, kSizes),
              testing::PairEpilogues(f32, kSizes), testing::OtherEpilogues()}),
      model, count);
}

std::vector<KernelJob> MatrixKernels(const DeviceModel& model, size_t count) {
  std::vector<testing::EpilogueChain> chains;
  for (const testing::EpilogueTypes& types : testing::kMatrixTypes) {
    chains = Joined({chains, testing::MatrixEpilogues(types, kEpilogueSizes),
                     testing::FusedEpilogues(types, kEpilogueSizes)});
  }
  return KernelsOf(chains, model, count);
}

std::vector<KernelJob> AuxKernels(const DeviceModel& model, size_t count) {
  const auto of = [](const testing::EpilogueTypes& types) {
    return testing::AuxEpilogues(types, kEpilogueSizes);
  };
  return KernelsOf(Joined({of({DType::kBF16, DType::kF32, DType::kBF16}),
                           of({DType::kF16, DType::kF16, DType::kF32}),
                           of({DType::kBF16, DType::kBF16, DType::kBF16, DType::kF32}),
                           testing::OtherEpilogues(true)}),
                   model, count);
}

std::vector<KernelJob> ScaledKernels(const DeviceModel& model, size_t count) {
  std::vector<ProductSequence> list;
  for (ProductSequence p : ResidualProblems()) {
    const bool f32 = ResidualOf(p) == Residual::kAdded;
    SetScale(&p, 0, 0.125f);
    SetFactor(&p, 0, f32 ? RowFactor::kF32 : RowFactor::kElement);
    SetScale(&p, 1, 1);
    SetFactor(&p, 1, f32 ? RowFactor::kElement : RowFactor::kF32);
    list.push_back(p);
    SetResidual(&p, Residual::kNone);
    SetFactor(&p, 1, RowFactor::kNone);
    list.push_back(p);
  }
  return KernelsOfChains(list, model, count);
}

std::vector<KernelJob> ColumnScaleKernels(const DeviceModel& model, size_t count) {
  std::vector<ProductSequence> list;
  for (ProductSequence p : ResidualProblems()) {
    const bool f32 = ResidualOf(p) == Residual::kAdded;
    SetColumnScale(&p, 0, f32 ? DType::kF32 : p.element());
    SetBias(&p, 0);
    list.push_back(p);
    SetColumnScale(&p, 1, f32 ? p.element() : DType::kF32);
    SetFactor(&p, 0, RowFactor::kF32);
    SetActivation(&p, Activation::kGeluErf);
    list.push_back(p);
    SetResidual(&p, Residual::kNone);
    list.push_back(p);
  }
  const auto problem = ParseProblem(
      "conv_chain b=8 ic=72 h=14 w=14 k1=3 k2=1 oc1=136 oc2=328 act=relu bias1=1 bias2=1");
  ProductSequence conv = MatchProducts(problem->chain, 8)->sequence;
  for (int i = 0; i < 2; ++i) SetColumnScale(&conv, i, DType::kBF16);
  list.push_back(conv);
  return KernelsOfChains(list, model, count);
}

// One schedule for each dataflow, tile and way to share, if a warpgroup's tile is wide.
std::vector<Schedule> WithWideTiles(const ProductSequence& p, const DeviceModel& model) {
  constexpr int kWide = 128;  // columns of a warpgroup
  std::map<std::string, Schedule> found;
  EnumerateSpace(p, model, Wider(), [&](const Schedule& s) {
    const int widest = std::max(s.first.block_n, p.size() == 2 ? s.second.block_n : 0);
    if (widest / s.warpgroups_n < kWide || !CheckSchedule(p, s, model).ok()) return;
    found.try_emplace(absl::StrCat(KindOf(p, s), " ", s.block_m, " ", widest), s);
  });
  std::vector<Schedule> list;
  for (const auto& [kind, schedule] : found) list.push_back(schedule);
  return list;
}

std::vector<KernelJob> WideTileKernels(const DeviceModel& model, size_t count) {
  JobList jobs(model);
  for (const char* line :
       {"codes=s8 dtype=bf16 bias1=1", "codes=s8 dtype=f32", "codes=e4m3 accumulate=fast bias1=1",
        "codes=e4m3 dtype=f32 accumulate=fast", "codes=e4m3 dtype=bf16 bias1=1",
        "codes=e4m3 scales=tensor act=gelu_tanh accumulate=fast"}) {
    const auto problem = ParseProblem(absl::StrCat("scaled_matmul m=8192 n=515 k=512 ", line));
    const ProductSequence p = MatchProducts(problem->chain, *problem->m)->sequence;
    for (const Schedule& s : WithWideTiles(p, model)) jobs.Add(SampleSpec(p, s));
  }
  for (const char* line :
       {"gemm_chain m=576 n=712 k=328 l=523 act=relu bias1=1 bias2=1",
        "gated_ffn m=576 n=712 k=328 l=520 act=silu bias1=1 bias2=1 layout=io dtype=f16",
        "gemm_chain m=48 n=1536 k=416 l=384 act=gelu_tanh bias1=1 bias2=1"}) {
    const auto problem = ParseProblem(line);
    const ProductSequence p = MatchProducts(problem->chain, *problem->m)->sequence;
    ProductSequence scaled = SecondOf(p);
    SetBias(&scaled, 0, false);
    SetColumnScale(&scaled, 0, DType::kF32);
    for (const ProductSequence& q : {p, FirstOf(p), SecondOf(p), scaled}) {
      for (const Schedule& s : WithWideTiles(q, model)) jobs.Add(SampleSpec(q, s));
    }
  }
  return Evenly(jobs.Take(), count);
}

std::vector<KernelJob> TransposedKernels(const DeviceModel& model, size_t count) {
  std::vector<ProductSequence> list;
  for (const bool k_is_m : {false, true}) {
    for (const ProductSequence& chain : ResidualProblems()) {
      ProductSequence p = FirstOf(chain);
      p.m = 776;
      p[0].k = k_is_m ? 4096 : 1000;
      p[0].n = p[0].n / 4 + 8;
      SetTransposedRows(&p, k_is_m);
      SetBias(&p, 0, p[0].pair);
      SetFactor(&p, 0, RowFactor::kF32);
      SetResidual(&p, ResidualOf(chain));
      for (const bool wide : {false, true}) {
        if (wide) {  // as a gradient that is added to
          if (p[0].pair) continue;
          SetResidual(&p, Residual::kNone);
          p[0].result = DType::kF32;
        }
        list.push_back(p);
      }
    }
  }
  return KernelsOfEachKind(list, model, count);
}

std::vector<KernelJob> NormKernels(const DeviceModel& model, size_t count) {
  std::vector<ProductSequence> list;
  for (ProductSequence p : ResidualProblems()) {
    ProductSequence q = FirstOf(p);
    q.m = 48;
    SetResidual(&q, ResidualOf(p));
    SetNorm(&q, 0, 1e-6f);
    list.push_back(q);
  }
  return KernelsOfEachKind(list, model, count);
}

// Sets the elements of a single GEMM's operands.
void SetElements(ProductSequence* p, DType element) {
  p->products.front().rows.element = p->products.front().weights.element = element;
}

std::vector<KernelJob> CodesKernels(const DeviceModel& model, size_t count) {
  std::vector<ProductSequence> list;
  const DType results[] = {DType::kF32, DType::kBF16, DType::kF16};
  int turn = 0;
  for (const bool pair : {false, true}) {
    for (const int64_t m : {1, 16, 64, 128, 512}) {
      for (const Activation act : {Activation::kSilu, Activation::kGeluErf}) {
        const ScaleKind scales[] = {ScaleKind::kTensor, ScaleKind::kVector, ScaleKind::kBlock};
        const bool blocks = turn % 2 == 0;
        ProductSequence p =
            MakeSequence(m, MakeProduct(2040 + turn % 9, blocks ? 4224 : 4112, act, pair));
        const DType result = results[turn % 3];
        SetCodes(&p, result, blocks ? ScaleKind::kBlock : scales[turn % 4 / 2],
                 scales[turn % 5 % (blocks ? 3 : 2)]);
        SetBias(&p, 0, turn % 2 == 0);
        if (result != DType::kF32) SetResidual(&p, static_cast<Residual>(turn / 2 % 3));
        if (!blocks && turn % 4 == 1) p[0].accumulate = Accumulate::kFast;
        if (!blocks && turn % 4 == 3) SetElements(&p, DType::kS8);
        list.push_back(p);
        SetResidual(&p, Residual::kNone);
        p[0].n = 2048;
        SetQuantized(&p, turn % 3 == 0 ? QuantizeRule{} : QuantizeRule{128, 1e-10f, 0, false});
        list.push_back(p);
        ++turn;
      }
    }
  }
  return KernelsOfEachKind(list, model, count);
}

std::vector<KernelJob> WideResultKernels(const DeviceModel& model, size_t count) {
  std::vector<ProductSequence> list;
  int turn = 0;
  for (const bool pair : {false, true}) {
    for (const int64_t m : {1, 16, 64, 128, 512}) {
      for (const Activation act : {Activation::kIdentity, Activation::kSilu}) {
        // Columns are stored in pairs where their number is even.
        ProductSequence p = MakeSequence(m, MakeProduct(2040 + 8 * (turn % 3), 4160, act, pair));
        if (turn % 2 == 0) p[0].n += turn % 4 == 0 ? 1 : 2;
        if (turn % 2 == 1) SetLayout(&p, Layout::kIO);
        if (turn % 3 == 1) SetElement(&p, DType::kF16);
        SetBias(&p, 0, turn % 2 == 0);
        if (turn % 3 == 0) SetScale(&p, 0, 0.125f);
        if (turn % 4 > 1) SetFactor(&p, 0, turn % 4 == 2 ? RowFactor::kF32 : RowFactor::kElement);
        p[0].result = DType::kF32;
        list.push_back(p);
        ++turn;
      }
    }
  }
  return KernelsOfEachKind(list, model, count);
}

std::vector<KernelJob> StridedScaleKernels(const DeviceModel& model, size_t count) {
  std::vector<ProductSequence> list;
  for (const ScaleKind kind : {ScaleKind::kVector, ScaleKind::kBlock}) {
    for (const int64_t m : {16, 128, 512}) {
      for (const int64_t rows : {0, 8192}) {
        ProductSequence p = MakeSequence(m, MakeProduct(2048, 4224, Activation::kSilu, rows == 0));
        SetCodes(&p, DType::kF32, kind, kind);
        SetScaleStrides(&p, rows);
        list.push_back(p);
      }
    }
  }
  return KernelsOfEachKind(list, model, count);
}

std::vector<KernelJob> WindowKernels(const DeviceModel& model, size_t count) {
  std::vector<ProductSequence> list;
  for (const int channels : {8, 24, 40, 72, 136}) {
    for (const char* weights : {"OHWI", "HWIO"}) {
      const auto problem = ParseProblem(absl::StrCat(
          "conv_chain b=8 h=20 w=14 k1=3 k2=1 oc1=136 oc2=72 act=relu stride=1,2 bias1=1 ic=",
          channels, " weights=", weights));
      const auto matched = MatchProducts(problem->chain, 8);
      if (!matched.ok()) continue;
      list.insert(list.end(), {matched->sequence, FirstOf(matched->sequence)});
    }
  }
  // In groups: several that share a tile, one of a line, one of more than a subtile.
  for (const char* line :
       {"conv b=8 ic=128 h=20 w=14 oc=256 k=3 groups=16 act=relu scale=1 bias=1",
        "conv b=8 ic=72 h=20 w=14 oc=72 k=3 groups=3 act=relu scale=1 bias=1 residual=before",
        "conv b=8 ic=192 h=1 w=99 oc=192 k=1,128 pad=0,0,64,64 groups=4 bias=1",
        "conv b=8 ic=448 h=14 w=14 oc=448 k=3 groups=4 act=relu stride=2 pad=1"}) {
    list.push_back(MatchProducts(ParseProblem(line)->chain, 8)->sequence);
  }
  return KernelsOfEachKind(list, model, count);
}

std::vector<KernelJob> FirstKernels(const DeviceModel& model, uint64_t seed, int count) {
  Random random(seed), of_codes(seed);
  JobList jobs(model);
  while (jobs.size() < static_cast<size_t>(count)) {
    const bool codes = jobs.size() % 4 == 3;
    const ProductSequence p = codes ? RandomCodes(&of_codes) : AnyProblem(&random);
    const absl::StatusOr<SearchResult> found = SearchSchedules(p, model, {});
    if (!found.ok()) continue;  // such as two products that share no kernel
    KernelSpec spec = SampleSpec(p, found->ranked.front().schedule);
    ProductIn(&spec).constant_weights = (codes ? of_codes : random).Coin();
    jobs.Add(spec);
  }
  return jobs.Take();
}

std::vector<KernelJob> RandomKernels(const DeviceModel& model, uint64_t seed, int count) {
  Random random(seed);
  JobList jobs(model);
  while (jobs.size() < static_cast<size_t>(count)) {
    const ProductSequence p = AnyProblem(&random);
    for (const Schedule& s : RandomSchedules(p, model, kSchedulesOfAProblem, &random)) {
      if (jobs.size() == static_cast<size_t>(count)) break;
      KernelSpec spec = SampleSpec(p, s);
      ProductIn(&spec).constant_weights = random.Coin();
      jobs.Add(spec);
    }
  }
  return jobs.Take();
}

}  // namespace sinter
