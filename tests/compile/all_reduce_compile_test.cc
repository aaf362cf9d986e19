// Sums over ranks through the real NVRTC for sm_90a: every type, form and number of ranks, and
// every schedule that the search ranks; products that push what is summed. The compiler port
// refuses a kernel that spills; here none may. An everyday run takes each tenth, of products each
// third, others each day, SINTER_TEST_LONG=1 all. Exits 77 without NVRTC.
#include <cstdlib>
#include <set>
#include <utility>

#include "gtest/gtest.h"
#include "runtime/nvrtc/nvrtc_compiler.h"
#include "src/base/device_model.h"
#include "src/collective/collective.h"
#include "src/device/device_library.h"
#include "src/product/code/kernel_source.h"
#include "src/product/search/search.h"
#include "tests/compile/compile_threads.h"
#include "tests/support/no_compiler.h"

namespace sinter {
namespace {

std::unique_ptr<Compiler> Nvrtc() {
  const char* path = std::getenv("SINTER_NVRTC");
  return MakeNvrtcCompiler(path == nullptr ? "" : path);
}

void ExpectCompiles(Compiler& compiler, const CollectiveProblem& problem,
                    const CollectiveSchedule& schedule) {
  ASSERT_TRUE(CheckCollective(problem, schedule).ok());
  CompileRequest request;
  request.name = "all_reduce.cu";
  request.source = CollectiveSource(problem, schedule);
  request.headers = CopyDeviceHeaders();
  request.arch = "sm_90a";
  request.options = {"--std=c++17"};
  request.entry = CollectiveEntry(problem);
  static size_t number = 0;
  if (!IsOfToday(number++, 10)) return;
  const auto compiled = compiler.Compile(request);
  EXPECT_TRUE(compiled.ok()) << problem.ToString() << ", " << schedule.ToString() << ": "
                             << compiled.status();
}

TEST(AllReduceCompile, NoKernelSpills) {
  const auto compiler = Nvrtc();
  int number = 0;
  for (const int ranks : {2, 3, 8}) {
    for (const DType element : {DType::kBF16, DType::kF16, DType::kF32}) {
      for (const DType result : {DType::kBF16, DType::kF32}) {
        CollectiveProblem problem;
        problem.ranks = ranks;
        problem.element = element;
        problem.result = result;
        problem.columns = 5120;
        ++number;
        problem.residual = number % 3 != 0;
        const bool two_shot = number % 5 < 3;
        problem.rounded = number % 2 != 0 || two_shot;
        const int threads = number % 2 == 0 ? 256 : 512;
        problem.norm = ranks <= 4 && element == result && number % 4 < 2 &&
                       (threads > 256 || result == DType::kBF16);
        problem.norm_rounded = problem.norm && result == DType::kBF16 && two_shot;
        problem.eps = problem.norm ? 1e-6 : 0;
        ExpectCompiles(*compiler, problem, {two_shot, threads, 1});
      }
    }
  }
}

// Columns that are a power of two too: their kernels need fewer registers for addresses, and the
// compiler, left alone, spills to fit more blocks on an SM.
TEST(AllReduceCompile, NoScheduleThatIsSearchedSpills) {
  const auto compiler = Nvrtc();
  for (const int ranks : {2, 4, 8}) {
    for (const auto& [element, columns] :
         {std::pair{DType::kBF16, 5120}, {DType::kBF16, 8192}, {DType::kF32, 8192}}) {
      CollectiveProblem problem;
      problem.ranks = ranks;
      problem.element = element;
      problem.columns = columns;
      problem.residual = problem.rounded = true;
      for (const bool norm : {false, true}) {
        problem.norm = norm;
        problem.eps = norm ? 1e-6 : 0;
        for (const PushedX& pushed : {PushedX{}, PushedX{1}, PushedX{0, 2560}}) {
          for (const RankedCollective& ranked :
               SearchCollective(problem, 1, *BuiltinModel("h100"), pushed)) {
            ExpectCompiles(*compiler, problem, ranked.schedule);
          }
        }
      }
    }
  }
}

void ExpectProductCompiles(Compiler& compiler, const ProductSequence& p, const Schedule& s) {
  ProductCode code;
  code.sequence = p;
  code.sequence.m = 0;
  code.schedule = s;
  code.out = {p[0].n, true};
  CompileRequest request;
  request.name = "push.cu";
  request.source = *ProductSource(code);
  request.headers = CopyDeviceHeaders();
  request.arch = "sm_90a";
  request.options = {"--std=c++17"};
  request.entry = EntryName(s);
  static size_t number = 0;
  if (!IsOfToday(number++, 3)) return;
  const auto compiled = compiler.Compile(request);
  EXPECT_TRUE(compiled.ok()) << p.ToString() << ", " << s.ToString() << ": " << compiled.status();
}

ProductSequence ProductOf(int64_t rows, DType dtype = DType::kBF16) {
  ProductSequence p;
  p.m = rows;
  p.products.resize(1);
  p[0].n = 8192;
  p[0].k = 4096;
  p[0].rows.element = p[0].weights.element = dtype;
  return p;
}

// Products that push their results: each way to cut them, of few rows and of many.
TEST(AllReduceCompile, NoProductThatPushesSpills) {
  const auto compiler = Nvrtc();
  const DeviceModel model = *BuiltinModel("h100");
  for (const int64_t rows : {1, 16, 64, 128, 256}) {
    const ProductSequence p = ProductOf(rows);
    SearchOptions options;
    options.pushes = 2;
    options.top_k = 40;
    const absl::StatusOr<SearchResult> found = SearchSchedules(p, model, options);
    ASSERT_TRUE(found.ok()) << found.status();
    std::set<std::pair<bool, int>> cuts;
    for (const RankedSchedule& ranked : found->ranked) {
      const Schedule& s = ranked.schedule;
      EXPECT_EQ(s.pushes, 2);
      if (!cuts.insert({s.swapped, s.first.split_k}).second && !IsLongSweep()) continue;
      ExpectProductCompiles(*compiler, p, s);
    }
  }
}

// Those of which a warp sends tiles beside the consumers: the best of a few widths of tiles.
TEST(AllReduceCompile, NoProductThatSendsTilesSpills) {
  const auto compiler = Nvrtc();
  const DeviceModel model = *BuiltinModel("h100");
  for (const int64_t rows : {512, 1024}) {
    const ProductSequence p = ProductOf(rows);
    SearchOptions options;
    options.top_k = 60;
    const absl::StatusOr<SearchResult> found = SearchSchedules(p, model, options);
    ASSERT_TRUE(found.ok()) << found.status();
    std::set<std::pair<int, int>> cuts;
    for (const RankedSchedule& ranked : found->ranked) {
      Schedule s = ranked.schedule;
      for (const int ranks : {2, 8}) {
        s.pushes = ranks;
        s.pushed_columns = static_cast<int>(EarlyColumns(p, s));
        if (s.pushed_columns == 0 || !CheckSchedule(p, s, model).ok()) continue;
        if (!cuts.insert({s.first.block_n, ranks}).second && !IsLongSweep()) continue;
        ExpectProductCompiles(*compiler, p, s);
      }
    }
    EXPECT_GT(cuts.size(), 2u);
  }
}

TEST(AllReduceCompile, NoPartsThatAreSearchedSpill) {
  const auto compiler = Nvrtc();
  for (const int ranks : {2, 3, 4, 8}) {
    for (const DType element : {DType::kBF16, DType::kF16, DType::kF32, DType::kE4M3}) {
      for (const bool by_rows : {false, true}) {
        CollectiveProblem problem;
        problem.kind = CollectiveKind::kAllGather;
        problem.ranks = ranks;
        problem.element = problem.result = element;
        problem.columns = by_rows ? 4096 : 2560;
        problem.by_rows = by_rows;
        for (const RankedCollective& ranked : SearchCollective(problem, 1, *BuiltinModel("h100"))) {
          ExpectCompiles(*compiler, problem, ranked.schedule);
        }
        if (element == DType::kE4M3) continue;
        problem.kind = CollectiveKind::kReduceScatter;
        problem.residual = problem.rounded = by_rows;
        if (element == DType::kF32 && !by_rows) problem.result = DType::kBF16;
        for (const bool norm : {false, true}) {
          problem.norm = norm;
          problem.eps = norm ? 1e-6 : 0;
          for (const RankedCollective& ranked :
               SearchCollective(problem, 1, *BuiltinModel("h100"))) {
            ExpectCompiles(*compiler, problem, ranked.schedule);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace sinter

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (!sinter::Nvrtc()->ToolchainId().ok()) {
    return sinter::EndWithoutCompiler("no NVRTC was found");
  }
  return RUN_ALL_TESTS();
}
