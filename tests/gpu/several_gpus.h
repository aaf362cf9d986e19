// Programs of tests that run a chain over several GPUs of this machine: how many, and their main().
#pragma once

#include "src/engine/rank_group.h"
#include "tests/support/common.h"

namespace sinter::gpu_testing {

// SINTER_GPU_RANKS, 2 to 8; 2 unless given. Another value ends the program. Each rank has a GPU of
// its own, as the library refuses two ranks on one.
int Ranks();

// The whole number that an environment variable has, or `fallback` where `text` is null.
int NumberOr(const char* text, int fallback);

// The groups of all ranks, as ranks of this process.
std::vector<std::shared_ptr<RankGroup>> LocalGroups(const RankGroupOptions& options);

// Expects that `work(rank)` succeeds for the first `count` ranks at once.
void OnRanks(const std::function<absl::Status(size_t)>& work, int count = Ranks());

// A folder of the program's run, which RunOverGpus removes: ranks keep compiled kernels there.
const std::string& RunFolder();

// Runs the tests of the program. Exits 77 and says why where the machine has fewer GPUs than ranks.
// Ends the program after ten minutes: nothing here may hang.
int RunOverGpus(int argc, char** argv);

}  // namespace sinter::gpu_testing
