// Kernels that unpack weights of four bits through the real NVRTC for sm_90a: those that planning
// offers first, of every form of codes, and of few and many columns, K and rows. The compiler port
// refuses a kernel that spills.
#include "runtime/nvrtc/nvrtc_compiler.h"
#include "src/chain/problem.h"
#include "src/fusion/product_runs.h"
#include "src/normal/normal_form.h"
#include "src/plan/four_bit_family.h"
#include "tests/compile/compile_jobs.h"
#include "tests/support/no_compiler.h"

namespace sinter {
namespace {

constexpr size_t kSchedules = 2;  // of each product and bucket

void AddJobs(const std::string& line, std::vector<CompileJob>* jobs) {
  const DeviceModel model = *BuiltinModel("h200");
  Problem problem = Got(ParseProblem(line), line);
  const auto form = Got(NormalFormOf(std::make_shared<const Chain>(std::move(problem.chain))));
  Absorbed absorbed;
  absorbed.four_bits = true;
  const std::vector<GraphRun> runs = FindProductRuns(*form->chain, 8, nullptr, absorbed).runs;
  ASSERT_FALSE(runs.empty()) << line;
  for (const GraphRun& run : runs) {
    ASSERT_EQ(run.own.family, &FourBitFamily()) << line;
    const FourBitProduct& product = FourBitKernels::Of(run.own);
    for (const int64_t rows : {8, 16, 32}) {
      std::vector<RankedFourBit> ranked = SearchFourBit(product, rows, model);
      ASSERT_FALSE(ranked.empty()) << line;
      ranked.resize(std::min(ranked.size(), kSchedules));
      for (const RankedFourBit& one : ranked) {
        OwnSpec<FourBitCode> own;
        own.code = {product, one.schedule};
        for (size_t i = 0; i <= run.own.operands.size(); ++i) {
          own.places.push_back({static_cast<int>(i), 0});
        }
        jobs->push_back({absl::StrCat(product.ToString(), " ", one.schedule.ToString()),
                         KernelSpec{.family = &FourBitFamily(), .body = MakeBody(std::move(own))},
                         {}});
      }
    }
  }
}

TEST(FourBitCompile, FirstSchedulesDoNotSpill) {
  std::vector<CompileJob> jobs;
  for (const char* line : {
           "four_bit_matmul m=M n=28672 k=4096 group=128",
           "four_bit_matmul m=M n=4096 k=14336 group=128 zeros=1 bias1=1 act=silu",
           "four_bit_matmul m=M n=6144 k=4096 group=32 codes=e2m1",
           "four_bit_matmul m=M n=203 k=1248 group=32 dtype=f16 zeros=1 act=gelu_tanh",
           "four_bit_matmul m=M n=4096 k=4096 group=64 dtype=f16 codes=e2m1",
           "four_bit_gated_ffn m=M n=14336 k=4096 l=4096 act=silu group=128",
           "four_bit_gated_ffn m=M n=512 k=256 l=96 act=gelu_erf group=32 codes=e2m1",
       }) {
    AddJobs(line, &jobs);
  }
  ExpectCompile(jobs, *BuiltinModel("h200"));
}

}  // namespace
}  // namespace sinter

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (::testing::GTEST_FLAG(list_tests)) return RUN_ALL_TESTS();
  const auto compiler = sinter::MakeNvrtcCompiler("");
  const auto toolchain = compiler->ToolchainId();
  if (absl::IsUnavailable(toolchain.status())) {
    return sinter::EndWithoutCompiler(toolchain.status().message());
  }
  return RUN_ALL_TESTS();
}
