// Sums over ranks through the real NVRTC for sm_90a: every type, form and number of ranks, and
// every schedule that the search ranks; products that push what is summed. The compiler port
// refuses a kernel that spills; here none may.
#include "src/base/device_model.h"
#include "src/collective/collective.h"
#include "src/product/code/kernel_source.h"
#include "src/product/search/search.h"
#include "tests/compile/kernel_sweep.h"
#include "tests/support/collective_programs.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

using Kernels = std::vector<testing::SweepKernel>;

void Add(const CollectiveProblem& problem, const CollectiveSchedule& schedule, Kernels* kernels) {
  ASSERT_TRUE(CheckCollective(problem, schedule).ok());
  CompileRequest request;
  request.name = "all_reduce.cu";
  request.source = SourceOf(problem, schedule);
  request.arch = "sm_90a";
  request.options = {"--std=c++17"};
  request.entry = CollectiveEntry(problem);
  kernels->push_back({absl::StrCat(problem.ToString(), ", ", schedule.ToString()), request});
}

void ExpectCompile(const Kernels& kernels) {
  for (const testing::SweepResult& result : testing::CompileSweep(kernels)) {
    EXPECT_TRUE(result.compiled.ok()) << result.kernel->name << ": " << result.compiled.status();
  }
}

TEST(AllReduceCompile, NoKernelSpills) {
  Kernels kernels;
  int number = 0;
  for (const int ranks : {2, 3, 8}) {
    for (const DType element : {DType::kBF16, DType::kF16, DType::kF32}) {
      for (const DType result : {DType::kBF16, DType::kF32}) {
        CollectiveProblem problem{
            .ranks = ranks, .element = element, .result = result, .columns = 5120};
        ++number;
        const bool two_shot = number % 5 < 3;
        if (number % 3 != 0) testing::AddResidual(&problem, number % 2 != 0 || two_shot);
        const int threads = number % 2 == 0 ? 256 : 512;
        const bool norm = ranks <= 4 && element == result && number % 4 < 2 &&
                          (threads > 256 || result == DType::kBF16);
        if (norm) testing::AddNorm(&problem, two_shot);
        Add(problem, {two_shot, threads, 1}, &kernels);
      }
    }
  }
  ExpectCompile(kernels);
}

// Columns that are a power of two too: their kernels need fewer registers for addresses, and the
// compiler, left alone, spills to fit more blocks on an SM.
TEST(AllReduceCompile, NoScheduleThatIsSearchedSpills) {
  Kernels kernels;
  for (const int ranks : {2, 4, 8}) {
    for (const auto& [element, columns] :
         {std::pair{DType::kBF16, 5120}, {DType::kBF16, 8192}, {DType::kF32, 8192}}) {
      CollectiveProblem problem{.ranks = ranks, .element = element, .columns = columns};
      testing::AddResidual(&problem);
      for (const bool norm : {false, true}) {
        if (norm) testing::AddNorm(&problem);
        for (const PushedX& pushed : {PushedX{}, PushedX{1}, PushedX{0, 2560}}) {
          for (const RankedCollective& ranked :
               SearchCollective(problem, 1, *BuiltinModel("h100"), pushed)) {
            Add(problem, ranked.schedule, &kernels);
          }
        }
      }
    }
  }
  ExpectCompile(kernels);
}

// Programs of other ops than a residual's and gamma's, with as many leaves as kernels take.
TEST(AllReduceCompile, NoProgramWithTwoLeavesSpills) {
  Kernels kernels;
  const char* const programs[] = {"y * 0.5", "f32(bf16(y)) + f32(c)",
                                  "f32(bf16(y)) * 0.25 + f32(c) + f32(r)"};
  for (const int ranks : {2, 4, 8}) {
    for (const char* program : programs) {
      for (const DType element : {DType::kBF16, DType::kF32}) {
        CollectiveProblem problem{.ranks = ranks, .element = element, .columns = 8192};
        problem.program = testing::CollectiveProgram(program, problem.result);
        for (const bool norm : {false, true}) {
          if (norm) testing::AddNorm(&problem);
          if (norm && element == DType::kBF16) {
            problem.norm_program =
                testing::CollectiveProgram("f32(bf16(y * f32(c))) + f32(r)", problem.result);
          }
          for (const RankedCollective& ranked :
               SearchCollective(problem, 1, *BuiltinModel("h100"))) {
            Add(problem, ranked.schedule, &kernels);
          }
        }
      }
    }
  }
  ExpectCompile(kernels);
}

void AddProduct(const ProductSequence& p, const Schedule& s, Kernels* kernels) {
  ProductCode code{.sequence = p};
  code.sequence.m = 0;
  code.schedule = s;
  code.out = {p[0].n, true};
  CompileRequest request;
  request.name = "push.cu";
  request.source = *ProductSource(code);
  request.arch = "sm_90a";
  request.options = {"--std=c++17"};
  request.entry = EntryName(s);
  kernels->push_back({absl::StrCat(p.ToString(), ", ", s.ToString()), request});
}

ProductSequence ProductOf(int64_t rows, DType dtype = DType::kBF16) {
  ProductSequence p{.m = rows};
  p.products.resize(1);
  p[0].n = 8192;
  p[0].k = 4096;
  p[0].rows.element = p[0].weights.element = dtype;
  return p;
}

// Products that push their results: each way to cut them, of few rows and of many.
TEST(AllReduceCompile, NoProductThatPushesSpills) {
  Kernels kernels;
  const DeviceModel model = *BuiltinModel("h100");
  for (const int64_t rows : {1, 16, 64, 128, 256}) {
    const ProductSequence p = ProductOf(rows);
    const SearchResult found = Got(SearchSchedules(p, model, {.top_k = 40, .pushes = 2}));
    for (const RankedSchedule& ranked : found.ranked) {
      const Schedule& s = ranked.schedule;
      EXPECT_EQ(s.pushes, 2);
      AddProduct(p, s, &kernels);
    }
  }
  ExpectCompile(kernels);
}

// GEMMs whose tiles a warp sends while the consumers run: the best of a few widths of tiles.
TEST(AllReduceCompile, NoProductThatSendsTilesSpills) {
  Kernels kernels;
  const DeviceModel model = *BuiltinModel("h100");
  for (const int64_t rows : {512, 1024}) {
    const ProductSequence p = ProductOf(rows);
    const SearchResult found = Got(SearchSchedules(p, model, {.top_k = 60}));
    std::set<std::pair<int, int>> cuts;
    for (const RankedSchedule& ranked : found.ranked) {
      Schedule s = ranked.schedule;
      for (const int ranks : {2, 8}) {
        s.pushes = ranks;
        s.pushed_columns = static_cast<int>(EarlyColumns(p, s));
        if (s.pushed_columns == 0 || !CheckSchedule(p, s, model).ok()) continue;
        cuts.insert({s.first.block_n, ranks});
        AddProduct(p, s, &kernels);
      }
    }
    EXPECT_GT(cuts.size(), 2u);
  }
  ExpectCompile(kernels);
}

TEST(AllReduceCompile, NoPartsThatAreSearchedSpill) {
  Kernels kernels;
  for (const int ranks : {2, 3, 4, 8}) {
    for (const DType element : {DType::kBF16, DType::kF16, DType::kF32, DType::kE4M3}) {
      for (const bool by_rows : {false, true}) {
        CollectiveProblem problem{.kind = CollectiveKind::kAllGather,
                                  .ranks = ranks,
                                  .element = element,
                                  .result = element,
                                  .columns = by_rows ? 4096 : 2560,
                                  .by_rows = by_rows};
        for (const RankedCollective& ranked : SearchCollective(problem, 1, *BuiltinModel("h100"))) {
          Add(problem, ranked.schedule, &kernels);
        }
        if (element == DType::kE4M3) continue;
        problem.kind = CollectiveKind::kReduceScatter;
        if (by_rows) testing::AddResidual(&problem);
        if (element == DType::kF32 && !by_rows) problem.result = DType::kBF16;
        for (const bool norm : {false, true}) {
          if (norm) testing::AddNorm(&problem);
          for (const RankedCollective& ranked :
               SearchCollective(problem, 1, *BuiltinModel("h100"))) {
            Add(problem, ranked.schedule, &kernels);
          }
        }
      }
    }
  }
  ExpectCompile(kernels);
}

}  // namespace
}  // namespace sinter
