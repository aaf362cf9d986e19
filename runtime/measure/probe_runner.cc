#include "runtime/measure/probe_runner.h"

#include <memory>
#include <utility>

#include "runtime/measure/probe_sources.h"
#include "src/base/status.h"

namespace sinter {
namespace {

constexpr int kReplays = 15;
constexpr uint64_t kCounterBytes = 4;

LaunchRecipe RecipeOf(const ProbeLaunch& launch) {
  LaunchRecipe recipe;
  recipe.entry = launch.entry;
  recipe.grid[0] = static_cast<uint32_t>(launch.grid);
  recipe.block[0] = static_cast<uint32_t>(launch.threads);
  recipe.cluster[0] = static_cast<uint32_t>(launch.cluster);
  recipe.shared_bytes = launch.shared_bytes;
  recipe.cooperative = launch.waits_for_grid;
  for (const int pointer : launch.pointers) {
    ArgSlot slot;
    slot.kind = ArgKind::kPointer;
    slot.index = pointer;
    recipe.args.push_back(slot);
  }
  for (const int64_t integer : launch.integers) {
    ArgSlot slot;
    slot.kind = ArgKind::kInt32;
    slot.int_value = integer;
    recipe.args.push_back(slot);
  }
  return recipe;
}

}  // namespace

ProbeRunner::~ProbeRunner() {
  measurer_->Free(source_);
  measurer_->Free(target_);
}

absl::Status ProbeRunner::Allocate(uint64_t source_bytes, uint64_t target_bytes) {
  SINTER_ASSIGN_OR_RETURN(source_, measurer_->Allocate(source_bytes));
  SINTER_ASSIGN_OR_RETURN(target_, measurer_->Allocate(target_bytes));
  SINTER_RETURN_IF_ERROR(measurer_->Fill(source_, 1));
  return measurer_->Fill(target_, 0);
}

absl::StatusOr<std::shared_ptr<LoadedKernel>> ProbeRunner::Load(const LaunchRecipe& recipe) {
  std::string& cubin = cubins_[recipe.entry];
  if (cubin.empty()) {
    SINTER_ASSIGN_OR_RETURN(CompiledKernel kernel, compiler_->Compile(ProbeRequest(recipe.entry)));
    cubin = std::move(kernel.cubin);
  }
  return loader_->Load(cubin, recipe);
}

absl::StatusOr<double> ProbeRunner::TimeUs(const ProbeLaunch& launch) {
  const LaunchRecipe recipe = RecipeOf(launch);
  SINTER_ASSIGN_OR_RETURN(const std::shared_ptr<LoadedKernel> kernel, Load(recipe));
  const DevicePtr pointers[] = {source_.ptr, target_.ptr};
  SINTER_ASSIGN_OR_RETURN(const std::unique_ptr<BoundKernel> bound,
                          kernel->Bind(recipe, {pointers, 2, 0}));
  const auto enqueue = [&](StreamHandle stream, int) -> absl::Status {
    if (launch.waits_for_grid) {
      SINTER_RETURN_IF_ERROR(loader_->MemsetAsync(target_.ptr, 0, kCounterBytes, stream));
    }
    return kernel->Launch(*bound, stream, 1, 0, false);
  };
  absl::StatusOr<double> us = measurer_->TimeGraph(enqueue, launch.calls, kReplays);
  return us.ok() ? us : Annotate(us.status(), launch.entry);
}

absl::StatusOr<int> ProbeRunner::ResidentClusters(const ProbeLaunch& launch) {
  const LaunchRecipe recipe = RecipeOf(launch);
  SINTER_ASSIGN_OR_RETURN(const std::shared_ptr<LoadedKernel> kernel, Load(recipe));
  return kernel->MaxActiveClusters(recipe);
}

}  // namespace sinter
