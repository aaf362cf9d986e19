#include <algorithm>
#include <stdexcept>
#include <string>

#include "src/base/enough_stack.h"
#include "src/base/exit_gate.h"
#include "src/base/refusal.h"
#include "src/base/status.h"
#include "src/capi/firewall.h"
#include "src/capi/objects.h"
#include "src/reference/rows.h"

namespace capi = sinter::capi;

namespace sinter::capi {
namespace {

constexpr uint32_t kPrepareFlags = SINTER_PREPARE_BATCH_INVARIANT | SINTER_PREPARE_MUST_HIT |
                                   SINTER_PREPARE_VERIFY | SINTER_PREPARE_NO_BUILD;

absl::StatusOr<PrepareOptions::Choice> ChoiceOf(sinter_choice choice) {
  if (choice == SINTER_CHOICE_BEST) return PrepareOptions::Choice::kBest;
  if (choice == SINTER_CHOICE_FUSED) return PrepareOptions::Choice::kFused;
  if (choice == SINTER_CHOICE_UNFUSED) return PrepareOptions::Choice::kUnfused;
  return InvalidField("prepare.choice", choice, "a SINTER_CHOICE_* in [0, 2]");
}

std::function<void(absl::string_view, double)> ProgressOf(const sinter_prepare_options& options) {
  if (options.progress == nullptr) return nullptr;
  const sinter_progress_callback callback = options.progress;
  const uintptr_t user_data = options.progress_user_data;
  return [callback, user_data](absl::string_view stage, double fraction) {
    const absl::Status called =
        CallOut("progress", callback, user_data, std::string(stage).c_str(), fraction);
    // Through the engine, as memory that lacks does: it ends the prepare.
    if (!called.ok()) throw std::runtime_error(std::string(called.message()));
  };
}

absl::Status ReadDeadline(int64_t deadline_us, PrepareSettings* settings) {
  if (deadline_us < 0) return InvalidField("prepare.deadline_us", deadline_us, ">= 0");
  constexpr int64_t kForever = int64_t{1} << 50;  // 35 years
  if (deadline_us == 0 || deadline_us > kForever) return absl::OkStatus();
  settings->has_deadline = true;
  settings->deadline = std::chrono::steady_clock::now() + std::chrono::microseconds(deadline_us);
  return absl::OkStatus();
}

// The measuring that the options ask for, or, where they leave it open, the context.
absl::StatusOr<Measuring> MeasuringOf(const sinter_context& context,
                                      const sinter_prepare_options& given) {
  SINTER_RETURN_IF_ERROR(CheckMeasure(given.measure, "prepare.measure"));
  if (given.measure_budget_us < 0) {
    return InvalidField("prepare.measure_budget_us", given.measure_budget_us, ">= 0");
  }
  const Config& config = context.config;
  const int32_t most = given.measure != 0 ? given.measure : config.measure;
  Measuring measuring;
  if (most > 0) {
    measuring.mode = Measuring::Mode::kFirst;
    measuring.top_k = most;
  } else if (given.measure == 0 && config.slot_measure) {
    measuring.mode = Measuring::Mode::kKept;
  }
  if (given.measure_budget_us != 0) measuring.budget_us = given.measure_budget_us;
  measuring.required = given.measure > 0;
  if (!measuring.required) return measuring;
  const auto refuse = [&](absl::string_view why) {
    return WithField(Invalid("prepare.measure is ", given.measure, ", but ", why),
                     "prepare.measure", given.measure);
  };
  if (context.engine->ports().tuning != nullptr) {
    return refuse(
        "the context's tuning set decides: leave measure 0, or make a context without a set");
  }
  if (given.choice != SINTER_CHOICE_BEST) {
    return refuse("prepare.choice leaves no choice: leave one of them 0");
  }
  if ((given.flags & SINTER_PREPARE_NO_BUILD) != 0) {
    return refuse("SINTER_PREPARE_NO_BUILD builds nothing: leave one of them out");
  }
  return measuring;
}

}  // namespace

absl::Status CheckMeasure(int32_t measure, absl::string_view field) {
  constexpr int32_t kMost = 64;
  if (measure >= -1 && measure <= kMost) return absl::OkStatus();
  return InvalidField(field, measure, absl::StrCat("in [-1, ", kMost, "]"));
}

absl::StatusOr<PrepareSettings> ReadPrepareSettings(const sinter_context* context,
                                                    const sinter_prepare_options* options) {
  SINTER_RETURN_IF_ERROR(Check(context, "context"));
  SINTER_ASSIGN_OR_RETURN(const auto given, ReadOptions(options, "prepare", kPrepareFlags));
  if (given.cancel != nullptr) SINTER_RETURN_IF_ERROR(Check(given.cancel, "prepare.cancel"));
  const Config& config = context->config;
  PrepareSettings settings;
  settings.base.batch_invariant =
      config.batch_invariant || (given.flags & SINTER_PREPARE_BATCH_INVARIANT) != 0;
  settings.base.must_hit = config.must_hit || (given.flags & SINTER_PREPARE_MUST_HIT) != 0;
  settings.base.no_build = (given.flags & SINTER_PREPARE_NO_BUILD) != 0;
  settings.base.verify = config.verify_first_use || (given.flags & SINTER_PREPARE_VERIFY) != 0;
  settings.base.cancel = given.cancel != nullptr ? &given.cancel->requested : nullptr;
  settings.base.progress = ProgressOf(given);
  SINTER_ASSIGN_OR_RETURN(settings.base.choice, ChoiceOf(given.choice));
  SINTER_ASSIGN_OR_RETURN(settings.base.measuring, MeasuringOf(*context, given));
  SINTER_RETURN_IF_ERROR(ReadDeadline(given.deadline_us, &settings));
  settings.cancel = given.cancel;
  settings.stream = given.stream;
  settings.threads = given.threads;
  return settings;
}

absl::Status RefuseCapture(const sinter_context& context, sinter_stream stream) {
  if (stream == nullptr) return absl::OkStatus();
  return context.engine->RefuseDuringCapture(stream);
}

absl::Status AskEngine(const Chain& chain, int64_t m, const PrepareSettings& settings,
                       const std::function<absl::Status(const PrepareOptions&)>& ask) {
  if (chain.UsesM() && m < 0) return InvalidField("m", m, ">= 0");
  PrepareOptions options = settings.base;
  if (settings.has_deadline) {
    const auto left = settings.deadline - std::chrono::steady_clock::now();
    options.deadline_us = std::chrono::duration_cast<std::chrono::microseconds>(left).count();
    if (options.deadline_us <= 0) return DeadlineExceeded("prepare: deadline passed");
  }
  if (options.cancel != nullptr && *options.cancel) return Cancelled("prepare: cancelled");
  const ExitGate::Pass inside;
  if (!inside) return Cancelled("prepare: the process exits");
  return OnEnoughStack([&] { return ask(options); });
}

absl::StatusOr<sinter_plan*> PreparePlan(const sinter_context& context, const Chain& chain,
                                         int64_t m, const PrepareSettings& settings) {
  auto plan = std::make_unique<sinter_plan>();
  plan->engine = context.engine;
  plan->uses_m = chain.UsesM();
  plan->buffers = static_cast<uint32_t>(chain.num_inputs() + chain.num_outputs());
  SINTER_RETURN_IF_ERROR(
      AskEngine(chain, m, settings, [&](const PrepareOptions& options) -> absl::Status {
        SINTER_ASSIGN_OR_RETURN(plan->prepared,
                                context.engine->Prepare(chain, plan->uses_m ? m : 1, options));
        return absl::OkStatus();
      }));
  return plan.release();
}

absl::Status Follow(sinter_cancel* cancel, const std::shared_ptr<std::atomic<bool>>& flag) {
  SINTER_RETURN_IF_ERROR(Check(cancel, "cancel"));
  const auto followers = cancel->followers.Lock();
  if (cancel->requested) *flag = true;
  auto& all = *followers;
  all.erase(std::remove_if(all.begin(), all.end(), [](const auto& f) { return f.expired(); }),
            all.end());
  all.push_back(flag);
  return absl::OkStatus();
}

}  // namespace sinter::capi

extern "C" {

sinter_status sinter_cancel_create(sinter_cancel** out_cancel, sinter_error** error) {
  return capi::Give(out_cancel, "out_cancel", error,
                    []() -> absl::StatusOr<sinter_cancel*> { return new sinter_cancel; });
}

void sinter_cancel_retain(const sinter_cancel* cancel) { capi::RetainHandle(cancel); }
void sinter_cancel_release(const sinter_cancel* cancel) { capi::ReleaseHandle(cancel); }

void sinter_cancel_request(sinter_cancel* cancel) {
  if (!capi::IsLive(cancel)) return;
  cancel->requested = true;
  capi::GuardOr(0, [&] {
    const auto followers = cancel->followers.Lock();
    for (const auto& follower : *followers) {
      if (const auto flag = follower.lock()) *flag = true;
    }
    return 0;
  });
}

sinter_status sinter_prepare(sinter_context* context, const sinter_chain* chain, int64_t m,
                             const sinter_prepare_options* options, sinter_plan** out_plan,
                             sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_ASSIGN_OR_RETURN(const auto settings, capi::ReadPrepareSettings(context, options));
    SINTER_ASSIGN_OR_RETURN(const sinter::Chain* finished, capi::Finished(chain));
    SINTER_RETURN_IF_ERROR(capi::CheckNotNull(out_plan, "out_plan"));
    SINTER_RETURN_IF_ERROR(capi::RefuseCapture(*context, settings.stream));
    SINTER_ASSIGN_OR_RETURN(*out_plan, capi::PreparePlan(*context, *finished, m, settings));
    return absl::OkStatus();
  });
}

}  // extern "C"

namespace sinter::capi {
namespace {

constexpr uint32_t kMostThreads = 16;

// Invariant: slot i of every array is written by the thread that prepares chain i only.
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

  void Run(int threads) {
    reference::ForEachIndex(
        static_cast<int>(chains_.size()), [this](int i) { Prepare(static_cast<size_t>(i)); },
        threads);
  }

  sinter_plan* TakePlan(size_t i) { return plans_[i].release(); }
  const absl::Status& StatusOf(size_t i) const { return statuses_[i]; }

 private:
  void Prepare(size_t i) noexcept {
    try {
      Build(i);
    } catch (const std::bad_alloc&) {
      statuses_[i] = absl::Status(absl::StatusCode::kResourceExhausted, "");
    } catch (const std::runtime_error& thrown) {
      statuses_[i] = sinter::Internal(thrown.what());
    } catch (...) {
      statuses_[i] = absl::Status(absl::StatusCode::kInternal, "");
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
    if (plan.ok()) plans_[i].reset(*plan);
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
  std::vector<HandleRef<sinter_plan>> plans_;
  std::vector<absl::Status> statuses_;
  std::vector<std::atomic<double>> fractions_;
  std::atomic<size_t> finished_{0};
};

int ThreadCount(uint32_t asked, uint32_t count) {
  const uint32_t most = std::min(static_cast<uint32_t>(reference::HardwareThreads()), kMostThreads);
  return static_cast<int>(std::min(asked != 0 ? asked : most, count));
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
