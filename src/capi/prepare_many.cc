// sinter_prepare_many: a batch of prepares on threads that live as long as the call.
#include <algorithm>
#include <stdexcept>
#include <string>
#include <thread>

#include "src/capi/firewall.h"
#include "src/capi/prepare.h"
#include "src/capi/structs.h"

namespace capi = sinter::capi;

namespace sinter::capi {
namespace {

constexpr uint32_t kMostThreads = 16;

// Invariant: every index below `next` is taken by exactly one worker; slot i of every array is
// written by the worker that took i only.
class Batch {
 public:
  Batch(const sinter_context& context, const std::vector<const Chain*>& chains, const int64_t* ms,
        const PrepareSettings& settings)
      : context_(context),
        chains_(chains),
        ms_(ms),
        settings_(settings),
        plans_(chains.size()),
        statuses_(chains.size()),
        fractions_(chains.size()) {}
  ~Batch() {
    for (const sinter_plan* plan : plans_) ReleaseHandle(plan);
  }

  // Never throws: the thread that could not be started is one fewer.
  void Run(uint32_t threads) {
    std::vector<std::thread> helpers;
    try {
      for (uint32_t i = 1; i < threads; ++i) helpers.emplace_back([this] { Work(); });
    } catch (...) {  // the others do the work
    }
    Work();
    for (std::thread& helper : helpers) helper.join();
  }

  sinter_plan* TakePlan(size_t i) { return std::exchange(plans_[i], nullptr); }
  const absl::Status& StatusOf(size_t i) const { return statuses_[i]; }

 private:
  void Work() noexcept {
    for (size_t i = next_++; i < chains_.size(); i = next_++) {
      try {
        Build(i);
      } catch (const std::bad_alloc&) {
        statuses_[i] = absl::Status(absl::StatusCode::kResourceExhausted, "");
      } catch (const std::runtime_error& thrown) {
        statuses_[i] = absl::InternalError(thrown.what());
      } catch (...) {
        statuses_[i] = absl::Status(absl::StatusCode::kInternal, "");
      }
    }
  }

  void Build(size_t i) {
    PrepareSettings settings = settings_;
    if (settings.base.progress) {
      settings.base.progress = [this, i](absl::string_view stage, double fraction) {
        Progress(i, stage, fraction);
      };
    }
    auto plan = PreparePlan(context_, *chains_[i], ms_[i], settings);
    if (plan.ok()) plans_[i] = *plan;
    statuses_[i] = plan.status();
    ++finished_;
    if (settings_.base.progress) Progress(i, "prepared", 1.0);
  }

  void Progress(size_t i, absl::string_view stage, double fraction) {
    fractions_[i] = fraction;
    double sum = 0;
    for (const auto& one : fractions_) sum += one;
    settings_.base.progress(
        absl::StrCat(finished_.load(), "/", chains_.size(), " prepared; ", i, ": ", stage),
        sum / static_cast<double>(chains_.size()));
  }

  const sinter_context& context_;
  const std::vector<const Chain*>& chains_;
  const int64_t* ms_;
  const PrepareSettings& settings_;
  std::vector<sinter_plan*> plans_;
  std::vector<absl::Status> statuses_;
  std::vector<std::atomic<double>> fractions_;
  std::atomic<size_t> next_{0};
  std::atomic<size_t> finished_{0};
};

uint32_t ThreadCount(uint32_t asked, uint32_t count) {
  const uint32_t processors = std::max(1u, std::thread::hardware_concurrency());
  const uint32_t threads = asked != 0 ? asked : std::min(processors, kMostThreads);
  return std::max(1u, std::min(threads, count));
}

absl::StatusOr<std::vector<const Chain*>> ReadChains(uint32_t count,
                                                     const sinter_chain* const* chains) {
  std::vector<const Chain*> result(count);
  for (uint32_t i = 0; i < count; ++i) {
    auto chain = Finished(chains[i]);
    if (!chain.ok()) return Annotate(chain.status(), absl::StrCat("chains[", i, "]"));
    result[i] = *chain;
  }
  return result;
}

// Where memory was out, so was the memory to say so.
absl::Status Said(const absl::Status& status) {
  if (!status.message().empty()) return status;
  return absl::Status(status.code(),
                      absl::IsResourceExhausted(status) ? "out of memory" : "unexpected exception");
}

absl::Status PrepareMany(const sinter_context* context, uint32_t count,
                         const sinter_chain* const* chains, const int64_t* ms,
                         const sinter_prepare_options* options, sinter_plan** out_plans,
                         sinter_status* out_statuses) {
  SINTER_ASSIGN_OR_RETURN(const PrepareSettings settings, ReadPrepareSettings(context, options));
  if (count == 0) return absl::OkStatus();
  SINTER_RETURN_IF_ERROR(CheckNotNull(chains, "chains"));
  SINTER_RETURN_IF_ERROR(CheckNotNull(ms, "ms"));
  SINTER_RETURN_IF_ERROR(CheckNotNull(out_plans, "out_plans"));
  SINTER_ASSIGN_OR_RETURN(const std::vector<const Chain*> list, ReadChains(count, chains));
  SINTER_RETURN_IF_ERROR(RefuseCapture(*context, settings.stream));
  Batch batch(*context, list, ms, settings);
  batch.Run(ThreadCount(settings.threads, count));
  absl::Status first;
  for (uint32_t i = 0; i < count; ++i) {
    const absl::Status& status = batch.StatusOf(i);
    if (first.ok() && !status.ok()) first = Annotate(Said(status), absl::StrCat("chains[", i, "]"));
    if (out_statuses != nullptr) out_statuses[i] = StatusNumber(status);
    out_plans[i] = batch.TakePlan(i);
  }
  return first;
}

}  // namespace
}  // namespace sinter::capi

extern "C" {

sinter_status sinter_prepare_many(sinter_context* context, uint32_t count,
                                  const sinter_chain* const* chains, const int64_t* ms,
                                  const sinter_prepare_options* options, sinter_plan** out_plans,
                                  sinter_status* out_statuses, sinter_error** error) {
  return capi::Guard(error, [&] {
    return capi::PrepareMany(context, count, chains, ms, options, out_plans, out_statuses);
  });
}

}  // extern "C"
