// Fuzz target over small descriptions of deep graphs: each is planned or refused, written down and
// read again, within bounded time and memory.
#include <sys/resource.h>

#include "tests/fuzz/target.h"
#include "tests/support/deep_graphs.h"
#include "tests/support/stitch_bytes.h"
#include "tests/unit/fusion/assembly/reassembled.h"

namespace sinter::deep_graphs_fuzz {
namespace {

using sinter::Chain;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double kSlower = 15;
#elif defined(__has_feature)
constexpr double kSlower = 15;
#else
constexpr double kSlower = 1;
#endif
constexpr double kMostSeconds = 2 * kSlower;  // of one thread's time
constexpr int64_t kMostKilobytes = 1 << 20;

double Seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

// A record of one kernel that computes the whole graph: few such are accepted.
void ReadAsRecord(const Chain& chain) {
  sinter::StitchSpec spec;
  spec.body = chain;
  spec.schedule.owner = sinter::OwnerCandidates(chain).back();
  for (int i = 0; i < chain.num_inputs() + chain.num_outputs(); ++i) {
    spec.operands.push_back({std::min(i, 1023), 0});
  }
  sinter::ByteWriter writer;
  WriteStitch(spec, writer);
  const std::string bytes = writer.Take();
  sinter::ByteReader reader(bytes);
  auto read = sinter::ReadStitch(reader);
  if (!read.ok()) return;
  Require(*read == spec, "a record reads back as another");
  sinter::KernelSpec kernel;
  kernel.family = &sinter::StitchFamily();
  kernel.body = MakeBody(*std::move(read));
  (void)sinter::Generate(kernel, *sinter::BuiltinModel("h200"));
}

void PlanAndGenerate(const Chain& chain) {
  const sinter::DeviceModel model = *sinter::BuiltinModel("h200");
  const auto planned = sinter::PlanChain(chain, 128, model, {});
  if (!planned.ok()) return Require(!planned.status().message().empty(), "no reason");
  for (const sinter::PlannedKernel& kernel : planned->chosen.kernels) {
    (void)sinter::Generate(kernel.spec, model);
  }
  const auto again = sinter::testing::Reassembled(planned->chosen, chain, model);
  Require(again.ok() && again->PlanDigest() == planned->chosen.PlanDigest(),
          "a plan is not made again from its decisions");
}

}  // namespace

// The kind of graph, its ops in two bytes, a width, and what seeds the rest.
SINTER_FUZZ_TARGET(const uint8_t* data, size_t size) {
  if (size < 4) return 0;
  const auto kind = static_cast<sinter::testing::DeepGraph>(
      data[0] % static_cast<int>(sinter::testing::DeepGraph::kCount));
  const int ops = 8 + (data[1] | data[2] << 8) % 2040, width = 1 + data[3] % 64;
  uint64_t seed = size;
  std::memcpy(&seed, data + 4, std::min<size_t>(size - 4, sizeof(seed)));
  const Chain chain = sinter::testing::MakeDeepGraph(kind, ops, width, seed);
  for (const bool record : {true, false}) {
    const double begin = Seconds();
    record ? ReadAsRecord(chain) : PlanAndGenerate(chain);
    if (Seconds() - begin > kMostSeconds) {
      std::fprintf(stderr, "%s of %d ops, width %d: %.2f s\n", NameOf(kind), ops, width,
                   Seconds() - begin);
    }
    Require(Seconds() - begin <= kMostSeconds, "too long");
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  Require(kSlower > 1 || usage.ru_maxrss < kMostKilobytes, "more than 1 GB");
  return 0;
}

}  // namespace sinter::deep_graphs_fuzz
