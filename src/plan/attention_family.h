// AttentionFamily: attention in one kernel (src/attention). Each answer is declared and given once.
#ifndef SINTER_SRC_PLAN_ATTENTION_FAMILY_H_
#define SINTER_SRC_PLAN_ATTENTION_FAMILY_H_

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/attention/source.h"
#include "src/base/status.h"
#include "src/model/search_options.h"
#include "src/plan/own_family.h"

namespace sinter {

const KernelFamily& AttentionFamily();

using AttentionSpec = OwnSpec<AttentionCode>;  // operands in order are q, k, v, the terms

class AttentionKernels : public OwnKernels<AttentionCode> {
 public:
  absl::string_view name() const override { return "attention"; }
  uint8_t number() const override { return 2; }

  // attention_description.cc
  std::vector<KernelBuffer> Buffers(const KernelSpec& spec, int64_t bucket) const override;
  KernelDescription Describe(const PlannedKernel& kernel, int64_t bucket, const DeviceModel& model,
                             const BufferNames& names) const override;
  void WriteJson(const KernelSpec& spec, nlohmann::ordered_json* out) const override;

  // M counts batches: a launch's rows are those that it says.
  bool UsesM(const KernelSpec& spec) const override { return ProblemOf(spec).of_m; }
  int64_t Rows(const KernelSpec&, int64_t bucket) const override { return bucket; }
  // Which keys share a tile, and the order of tiles, decide a row's bits; and, where a value that
  // is not finite belongs to a hidden key, whether the row's item looks at that key's tile.
  std::string RowOrder(const KernelSpec& spec) const override {
    const AttentionSchedule& s = ScheduleOf(spec);
    return absl::StrCat("attention ", ProblemOf(spec).ToString(), " keys", s.block_keys,
                        ProblemOf(spec).causal ? absl::StrCat(" rows", s.BlockRows()) : "", "\n");
  }
  bool ChoosesRowOrder() const override { return true; }

  absl::StatusOr<Prediction> Predict(const KernelSpec& spec, int64_t bucket,
                                     const DeviceModel& model) const override {
    SINTER_RETURN_IF_ERROR(CheckAttention(ProblemOf(spec), ScheduleOf(spec), model));
    return PredictAttention(ProblemOf(spec), ScheduleOf(spec), bucket, model);
  }
  absl::StatusOr<std::vector<OwnChoice>> RankOwn(const OwnRun& run, int64_t bucket,
                                                 const DeviceModel& model,
                                                 const SearchOptions& options,
                                                 bool) const override {
    SINTER_ASSIGN_OR_RETURN(
        const std::vector<RankedAttention> ranked,
        RankAttention(Of(run), bucket, model, static_cast<size_t>(options.top_k),
                      !options.batch_invariant));
    return ChoicesOf(ranked);
  }

  absl::Status WriteRequest(const KernelSpec&, const KernelCode& code,
                            CompileRequest* request) const override {
    request->source = AttentionSource(Of(code));
    request->name = absl::StrCat(kAttentionEntry, ".cu");
    request->least_nvrtc = kLeastNvrtcOf16BitProducts;
    return absl::OkStatus();
  }
  std::string Entry(const KernelCode&) const override { return kAttentionEntry; }
  std::vector<std::string> Headers(const KernelSpec&) const override { return {kAttentionHeader}; }
  absl::StatusOr<LaunchRecipe> Recipe(const KernelSpec& spec,
                                      const KernelCode& code) const override {
    return AttentionRecipe(Of(code), Of(spec).places, ScheduleOf(spec).grid);
  }

  absl::Status CheckSchedule(const AttentionProblem& problem, const AttentionSchedule& schedule,
                             const DeviceModel& model) const override {
    return CheckAttention(problem, schedule, model);
  }
  absl::StatusOr<AttentionProblem> ProblemOfCode(const AttentionProblem& problem) const override {
    SINTER_RETURN_IF_ERROR(problem.Check());
    return problem;
  }
  void WriteProblem(const AttentionProblem& problem, ByteWriter& w) const override {
    w.Bytes(problem.Canonical());
  }
  absl::StatusOr<AttentionProblem> ReadProblem(ByteReader& r) const override {
    return AttentionProblem::FromCanonical(r.Bytes());
  }
  std::string BytesOf(const AttentionSchedule& schedule) const override {
    return schedule.Canonical();
  }
  absl::StatusOr<AttentionSchedule> ScheduleFrom(absl::string_view bytes) const override {
    return AttentionSchedule::FromCanonical(bytes);
  }
};

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_ATTENTION_FAMILY_H_
