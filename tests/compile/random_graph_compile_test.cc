// Random graphs of every op and type through the engine and the real NVRTC, for an H200 that need
// not be there: what the planner takes must compile, what it refuses must name op and reason.
// SINTER_TEST_GRAPHS and SINTER_TEST_SEED: how many graphs, from which seed on, 64 if not said;
// SINTER_TEST_LONG=1 takes 2,000, and deep graphs too.
#include "src/engine/engine.h"
#include "tests/compile/compile_threads.h"
#include "tests/compile/kernel_sweep.h"
#include "tests/support/deep_graphs.h"
#include "tests/support/named_graphs.h"
#include "tests/support/random_graph.h"
#include "tests/support/rough_chain.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

constexpr int kFewGraphs = 64, kManyGraphs = 2000;
constexpr uint64_t kWideEvery = 8, kUnfusedEvery = 5;  // of the seeds
constexpr double kMostRefused = 0.25;
constexpr int64_t kRoughChains = 12, kManyRoughChains = 400;
constexpr double kMostRoughRefused = 0.1;  // M after an axis whose rows differ, most of them
constexpr double kSlow = 5;                // seconds of one graph, from which on they are printed

int64_t NumberOf(const char* variable, int64_t fallback) {
  const char* text = std::getenv(variable);
  return text == nullptr || *text == 0 ? fallback : std::atoll(text);
}

double ThreadSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

bool IsLong() { return NumberOf("SINTER_TEST_LONG", 0) == 1; }

// `compiler` replaces NVRTC unless it is null.
absl::StatusOr<std::shared_ptr<Engine>> MakeEngine(std::unique_ptr<Compiler> compiler = nullptr) {
  Config config = *ConfigFromEnvironment();
  config.cache_enabled = false;
  const LogSink quiet;
  SINTER_ASSIGN_OR_RETURN(Ports ports, MakePorts(config, -1, "h200", quiet));
  if (compiler != nullptr) ports.compiler = std::move(compiler);
  SINTER_RETURN_IF_ERROR(ports.compiler->ToolchainId().status());
  return Engine::Create(std::move(ports), config, quiet);
}

// Graphs of many sizes: wide vectors, clusters and column splits are chosen only for large values.
testing::RandomGraphOptions SizesOf(uint64_t seed) {
  testing::RandomGraphOptions options{.max_elements = int64_t{1} << (10 + seed % 13)};
  if (seed % 16 == 3) options.most_steps *= 3;
  return options;
}

// The graph of one value and of what it needs.
Chain UpTo(const Chain& chain, ValueId value) {
  std::set<ValueId> needed = {value};
  for (ValueId id = value; id >= 0; --id) {
    if (needed.count(id) == 0) continue;
    for (const ValueId operand : chain.op(id).operands) needed.insert(operand);
  }
  ChainBuilder b;
  std::map<ValueId, ValueId> now;
  for (const ValueId id : needed) {
    Op op = chain.op(id);
    for (ValueId& operand : op.operands) operand = now.at(operand);
    now[id] = *Replay(b, op);
  }
  b.Output(now.at(value)).IgnoreError();
  return *b.Finish();
}

class RandomGraphCompile : public ::testing::Test {
 protected:
  struct Job {
    std::string name;
    Chain chain;
    int64_t m = 1;
    PrepareOptions::Choice choice = PrepareOptions::Choice::kBest;
  };

  void SetUp() override { engine_ = Got(MakeEngine(testing::MakeSweptCompiler())); }

  absl::Status Prepare(const Chain& chain, const Job& job) const {
    const auto plan = engine_->Prepare(chain, job.m, {.choice = job.choice});
    SINTER_RETURN_IF_ERROR(plan.status());
    // Other kernels take the place of one that spills; of one that is no CUDA C++ too, which is
    // a fault of its writer.
    const std::string& note = (*plan)->plan().note;
    if (!absl::StrContains(note, "NVRTC_ERROR_COMPILATION")) return absl::OkStatus();
    return absl::InternalError(note);
  }

  // A refusal of the planner, or of more rows than its plans take, which names the op.
  static bool IsRefusal(const absl::Status& status) {
    const int32_t number = StatusNumber(status);
    const bool code = number == static_cast<int32_t>(ErrorCode::kNoLegalPlan) ||
                      absl::IsInvalidArgument(status) || absl::IsUnimplemented(status) ||
                      absl::IsOutOfRange(status);
    return code && absl::StrContains(status.message(), "op ");
  }

  void Check(const Job& job) {
    const double begin = ThreadSeconds();
    const absl::Status status = Prepare(job.chain, job);
    const double spent = ThreadSeconds() - begin;
    if (spent > kSlow) std::printf("%s: %.1f s\n", job.name.c_str(), spent);
    if (!status.ok() && !IsRefusal(status)) return Fail(job, status);
    std::lock_guard<std::mutex> lock(mutex_);
    if (status.ok()) return;
    ++refused_;
    std::printf("refused: %s: %s\n", job.name.c_str(),
                std::string(status.message()).substr(0, 240).c_str());
  }

  // With the first value whose own graph fails too, which is the smallest of them.
  void Fail(const Job& job, const absl::Status& status) {
    std::string json = ChainToJson(job.chain);
    for (ValueId value = 0; value < static_cast<ValueId>(job.chain.ops().size()); ++value) {
      if (job.chain.op(value).kind == OpKind::kInput) continue;
      const Chain part = UpTo(job.chain, value);
      const absl::Status again = Prepare(part, job);
      if (again.ok() || IsRefusal(again)) continue;
      absl::StrAppend(&json, "\nits smallest part that fails:\n", ChainToJson(part), "\n",
                      again.ToString().substr(0, 400));
      break;
    }
    std::lock_guard<std::mutex> lock(mutex_);
    failures_.push_back(
        absl::StrCat(job.name, " at ", job.m, " rows: ", status.ToString(), "\n", json));
  }

  // Calls `visit` for each job on several threads.
  static void ForEach(const std::vector<Job>& jobs, const std::function<void(const Job&)>& visit) {
    std::atomic<size_t> next{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < CompileThreads(); ++t) {
      threads.emplace_back([&] {
        for (size_t i = next++; i < jobs.size(); i = next++) visit(jobs[i]);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  // Compiles the kernels of the chosen plans that are not known to compile. An engine that plans
  // again gets the results, and the next plan where a kernel spills.
  static void CompileUnknown(const std::vector<Job>& jobs) {
    std::vector<CompileRequest> requests;
    const auto engine = Got(MakeEngine(testing::MakePretender(&requests)));
    ForEach(jobs, [&](const Job& job) {
      engine->Prepare(job.chain, job.m, {.choice = job.choice}).status().IgnoreError();
    });
    std::vector<testing::SweepKernel> kernels;
    for (const CompileRequest& request : requests) kernels.push_back({request.name, request});
    testing::CompileSweep(kernels);
  }

  void ExpectCompileOrRefusal(const std::vector<Job>& jobs) {
    const std::clock_t start = std::clock();
    if (!IsLong()) CompileUnknown(jobs);
    ForEach(jobs, [&](const Job& job) { Check(job); });
    for (const std::string& failure : failures_) ADD_FAILURE() << failure;
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    std::printf("%zu graphs, %d refused, %d kernels compiled, %.0f s of processor time\n",
                jobs.size(), refused_, static_cast<int>(engine_->Stats().kernels_compiled),
                seconds);
  }

  std::shared_ptr<Engine> engine_;
  int refused_ = 0;

 private:
  std::mutex mutex_;
  std::vector<std::string> failures_;
};

TEST_F(RandomGraphCompile, WhatThePlannerTakesCompiles) {
  const auto first = static_cast<uint64_t>(NumberOf("SINTER_TEST_SEED", 1));
  const int64_t count = NumberOf("SINTER_TEST_GRAPHS", IsLong() ? kManyGraphs : kFewGraphs);
  std::printf("%lld graphs from seed %llu on\n", static_cast<long long>(count),
              static_cast<unsigned long long>(first));
  std::vector<Job> jobs;
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t seed = first + static_cast<uint64_t>(i);
    const bool wide = seed % kWideEvery == 0;
    jobs.push_back(
        {absl::StrCat(wide ? "wide graph " : "graph ", seed),
         wide ? testing::MakeRandomWideGraph(seed) : testing::MakeRandomGraph(seed, SizesOf(seed)),
         testing::RowsOfRandomGraph(seed),
         seed % kUnfusedEvery == 0 ? PrepareOptions::Choice::kUnfused
                                   : PrepareOptions::Choice::kBest});
  }
  ExpectCompileOrRefusal(jobs);
  EXPECT_LE(refused_, kMostRefused * static_cast<double>(jobs.size()));
}

// Chains as frameworks write them, in their normal form.
TEST_F(RandomGraphCompile, RoughChainsCompile) {
  std::vector<Job> jobs;
  const int64_t count = IsLong() ? kManyRoughChains : kRoughChains;
  for (int64_t i = 0; i < count; ++i) {
    const auto seed = static_cast<uint64_t>(i + 1);
    jobs.push_back({absl::StrCat("rough chain ", seed), testing::MakeRoughChain(seed),
                    testing::RowsOfRandomGraph(seed),
                    seed % kUnfusedEvery == 0 ? PrepareOptions::Choice::kUnfused
                                              : PrepareOptions::Choice::kBest});
  }
  ExpectCompileOrRefusal(jobs);
  EXPECT_LE(refused_, kMostRoughRefused * static_cast<double>(count));
}

// Few ops whose values are reached in very many ways.
TEST_F(RandomGraphCompile, DeepGraphsThatArePlannedCompile) {
  if (!IsLong()) GTEST_SKIP() << "SINTER_TEST_LONG is not 1";
  std::vector<Job> jobs;
  for (int kind = 0; kind < static_cast<int>(testing::DeepGraph::kCount); ++kind) {
    for (const int ops : {12, 40}) {
      const auto deep = static_cast<testing::DeepGraph>(kind);
      jobs.push_back({absl::StrCat(testing::NameOf(deep), " of ", ops, " ops"),
                      testing::MakeDeepGraph(deep, ops, 8, 1), 128});
    }
  }
  ExpectCompileOrRefusal(jobs);
}

// Kinds of faults that random graphs found, by the values that show them.
class Shape {
 public:
  ValueId Input(DType dtype, std::vector<Dim> dims) { return *b_.Input({dtype, std::move(dims)}); }
  ChainBuilder* operator->() { return &b_; }
  Chain Out(ValueId value) { return Finished(b_, {value}); }

 private:
  ChainBuilder b_;
};

std::vector<Dim> Dims(std::initializer_list<int64_t> extents) {
  std::vector<Dim> dims;
  for (int64_t extent : extents) dims.push_back(extent == 0 ? Dim::M() : Dim::Constant(extent));
  return dims;
}

TEST_F(RandomGraphCompile, ColumnsOfNarrowTypes) {
  std::vector<Job> jobs;
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    for (const ReduceKind kind : {ReduceKind::kMax, ReduceKind::kMin}) {
      for (const auto& dims : {Dims({0, 2}), Dims({4096, 64}), Dims({0, 8, 8, 64})}) {
        Shape s;
        std::vector<int32_t> axes;
        for (int i = 0; i + 1 < static_cast<int>(dims.size()); ++i) axes.push_back(i);
        const ValueId y = *s->Reduce(kind, s.Input(dtype, dims), axes);
        jobs.push_back({absl::StrCat("columns of ", NameOf(dtype)), s.Out(y), 64});
        jobs.push_back(jobs.back());
        jobs.back().choice = PrepareOptions::Choice::kUnfused;
      }
    }
  }
  ExpectCompileOrRefusal(jobs);
  EXPECT_EQ(refused_, 0);
}

// A norm or a softmax over an axis that is not the last one of what it reads, some after a sum
// with a transposed value, before a product or an output: blocks stage inputs that lie along the
// rows.
Chain MakeNormOfOtherAxis(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto pick = [&](std::initializer_list<int64_t> list) {
    return *(list.begin() + static_cast<std::ptrdiff_t>(random() % list.size()));
  };
  Shape s;
  const int64_t channels = pick({64, 96, 128, 256, 384, 768, 1024});
  const int64_t rows = pick({49, 50, 100, 196, 197, 250, 576});
  const DType dtype = pick({0, 1}) == 0 ? DType::kBF16 : DType::kF32;
  const auto wide = [&](ValueId x) { return *s->Cast(x, DType::kF32); };
  ValueId x = wide(s.Input(dtype, Dims({1, channels, rows})));
  if (pick({0, 1}) == 0) {
    const ValueId turned =
        *s->Transpose(s.Input(DType::kF32, Dims({1, rows, channels})), {0, 2, 1});
    x = *s->Binary(BinaryKind::kAdd, x, turned);
  }
  const auto about = [&](BinaryKind op, ValueId value, ReduceKind kind, ValueId of) {
    const ValueId statistic = *s->Reduce(kind, of, {1}, true);
    return *s->Binary(op, value, *s->Broadcast(statistic, Dims({1, channels, rows})));
  };
  ValueId y = x;
  if (pick({0, 1}) == 0) {
    y = about(BinaryKind::kSub, x, ReduceKind::kMean, x);
    y = about(BinaryKind::kDiv, y, ReduceKind::kMean, *s->Unary(UnaryKind::kSquare, y));
  } else {
    y = *s->Unary(UnaryKind::kExp, about(BinaryKind::kSub, x, ReduceKind::kMax, x));
    y = about(BinaryKind::kDiv, y, ReduceKind::kSum, y);
  }
  y = *s->Reshape(*s->Cast(y, DType::kBF16), Dims({channels, rows}));
  y = *s->Transpose(y, {1, 0});
  if (pick({0, 1}) == 0) {
    y = *s->Matmul(y, s.Input(DType::kBF16, Dims({2 * channels, channels})), false, true);
  }
  return s.Out(y);
}

TEST_F(RandomGraphCompile, NormsOfOtherAxes) {
  std::vector<Job> jobs;
  const uint64_t count = IsLong() ? 60 : 12;
  for (uint64_t seed = 1; seed <= count; ++seed) {
    jobs.push_back({absl::StrCat("norm of another axis ", seed), MakeNormOfOtherAxis(seed), 1});
  }
  ExpectCompileOrRefusal(jobs);
  EXPECT_EQ(refused_, 0);
}

// Every third of them, and what takes long rows in parts.
TEST_F(RandomGraphCompile, RowSteps) {
  std::vector<Job> jobs;
  std::vector<testing::NamedGraph> graphs = testing::GraphsIn("row_steps");
  for (size_t i = 0; i < graphs.size(); i += 3) {
    jobs.push_back({graphs[i].name, graphs[i].chain, 64});
  }
  jobs.push_back({"vocabulary", testing::GraphOf("largest(M, 50257, 32, bf16)"), 4});
  jobs.push_back({"tokens of a vocabulary", testing::GraphOf("token(M, 50257, 20)"), 8});
  jobs.push_back({"tokens of all of a vocabulary", testing::GraphOf("token_of_all(M, 128256)"), 8});
  jobs.push_back({"long sums", testing::GraphOf("sums(M, 128256, f32)"), 4});
  jobs.push_back({"rows behind others", testing::GraphOf("rows_beside_others(3, M)"), 64});
  ExpectCompileOrRefusal(jobs);
  EXPECT_EQ(refused_, 0);
}

// Every second channel, channels in turn, and channels first, of several tensors side by side.
TEST_F(RandomGraphCompile, TensorsSideBySideReadInAnyOrder) {
  std::vector<Job> jobs;
  for (const DType dtype : {DType::kBF16, DType::kF32, DType::kPred, DType::kS8}) {
    for (const int form : {0, 1, 2, 3}) {
      Shape s;
      const ValueId x = s.Input(dtype, Dims({128, 48})), y = s.Input(dtype, Dims({128, 80}));
      const ValueId both = *s->Concat({x, y}, 1);
      ValueId read = both;
      if (form == 0) read = *s->Slice(both, {0, 1}, Dims({128, 128}), {1, 2});
      if (form == 1) read = *s->Slice(both, {0, 3}, Dims({128, 128}));
      if (form == 2) read = *s->Transpose(both, {1, 0});
      if (form == 3) {
        const ValueId groups = *s->Reshape(both, Dims({128, 2, 64}));
        read = *s->Reshape(*s->Transpose(groups, {0, 2, 1}), Dims({128, 128}));
      }
      const ValueId cast = *s->Cast(read, DType::kF16);
      const Dim columns = s->TypeOf(cast).dims[1];
      const ValueId z = s.Input(DType::kF16, {s->TypeOf(cast).dims[0], columns});
      const ValueId sum = *s->Binary(BinaryKind::kAdd, cast, z);
      jobs.push_back({absl::StrCat("form ", form, " of ", NameOf(dtype)), s.Out(sum), 64});
    }
  }
  ExpectCompileOrRefusal(jobs);
  EXPECT_EQ(refused_, 0);
}

}  // namespace
}  // namespace sinter
