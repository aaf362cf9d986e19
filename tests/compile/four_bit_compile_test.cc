// Kernels that unpack weights of four bits through the real NVRTC for sm_90a: those that planning
// offers first, of every form of codes, and of few and many columns, K and rows. The compiler port
// refuses a kernel that spills.
#include "src/base/ports.h"
#include "src/chain/problem.h"
#include "src/fusion/product_runs.h"
#include "src/normal/normal_form.h"
#include "src/plan/four_bit_family.h"
#include "src/plan/grouped_family.h"
#include "tests/compile/compile_jobs.h"

namespace sinter {
namespace {

constexpr size_t kSchedules = 3;  // of each product and bucket

// The first schedules of a run's product, as kernels of its family.
template <class Code, class Product, class Schedule>
void AddFirst(const GraphRun& run, const std::vector<RankedKernel<Schedule>>& ranked,
              const KernelFamily& family, const Product& product, std::vector<CompileJob>* jobs) {
  ASSERT_FALSE(ranked.empty()) << product.ToString();
  for (size_t i = 0; i < std::min(ranked.size(), kSchedules); ++i) {
    OwnSpec<Code> own;
    own.code = {product, ranked[i].schedule};
    for (size_t at = 0; at <= run.own.operands.size(); ++at) {
      own.places.push_back({static_cast<int>(at), 0});
    }
    jobs->push_back({absl::StrCat(product.ToString(), " ", ranked[i].schedule.ToString()),
                     KernelSpec{.family = &family, .body = MakeBody(std::move(own))},
                     {}});
  }
}

void AddJobs(const std::string& line, std::vector<CompileJob>* jobs) {
  const DeviceModel model = *BuiltinModel("h200");
  Problem problem = Got(ParseProblem(line), line);
  const auto form = Got(NormalFormOf(std::make_shared<const Chain>(std::move(problem.chain))));
  Absorbed absorbed;
  absorbed.four_bits = true;
  const std::vector<GraphRun> runs = FindProductRuns(*form->chain, 8, nullptr, absorbed).runs;
  ASSERT_FALSE(runs.empty()) << line;
  for (const GraphRun& run : runs) {
    if (run.own.family == &GroupedFamily()) {
      const GroupedProduct& product = GroupedKernels::Of(run.own);
      for (const int64_t rows : {1, 16, 256}) {
        AddFirst<GroupedCode>(run, SearchGrouped(product, rows, model, false), GroupedFamily(),
                              product, jobs);
      }
      continue;
    }
    ASSERT_EQ(run.own.family, &FourBitFamily()) << line;
    const FourBitProduct& product = FourBitKernels::Of(run.own);
    for (const int64_t rows : {8, 16, 32, 64, 100}) {
      if (rows > kMostFourBitRows && !product.weights.packed) continue;
      AddFirst<FourBitCode>(run, SearchFourBit(product, rows, model), FourBitFamily(), product,
                            jobs);
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
           "four_bit_matmul m=M n=28672 k=4096 group=128 packed=1",
           "four_bit_matmul m=M n=4096 k=14336 group=128 packed=1 zeros=1 bias1=1 act=silu",
           "four_bit_matmul m=M n=6144 k=4096 group=32 packed=1 codes=e2m1",
           "four_bit_matmul m=M n=192 k=1344 group=32 packed=1 dtype=f16 zeros=1 act=gelu_tanh",
           "four_bit_matmul m=M n=4096 k=4096 group=64 packed=1 dtype=f16 codes=e2m1",
           "four_bit_gated_ffn m=M n=14336 k=4096 l=4096 act=silu group=128 packed=1",
           "four_bit_gated_ffn m=M n=18944 k=3584 l=3584 act=silu group=32 packed=1 zeros=1",
           "four_bit_gated_ffn m=M n=14336 k=4096 l=4096 act=silu group=128",
           "four_bit_gated_ffn m=M n=512 k=256 l=96 act=gelu_erf group=32 codes=e2m1",
           "four_bit_grouped_gated_ffn m=M experts=128 top=4 n=2880 k=2880 l=2880 act=silu "
           "order=interleaved group=32 codes=e2m1 bias1=1 bias2=1 alpha=1.702 beta=1 limit=7",
           "four_bit_grouped_gated_ffn m=M experts=128 top=8 n=768 k=2048 l=2048 act=silu "
           "group=128",
           "four_bit_grouped_gated_ffn m=M experts=384 top=8 n=256 k=7168 l=7168 act=silu group=32 "
           "zeros=1",
           "four_bit_grouped_gated_ffn m=M experts=8 top=2 n=1408 k=4096 l=4096 act=gelu_tanh "
           "group=64 "
           "dtype=f16",
       }) {
    AddJobs(line, &jobs);
  }
  ExpectCompile(jobs, *BuiltinModel("h200"));
}

}  // namespace
}  // namespace sinter
