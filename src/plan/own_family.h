// OwnKernels: the answers that are alike in families with runs of their own, each kernel of which
// is a problem and a schedule. The family's room says what the two are, by overloads of
//
//   absl::Status CheckSchedule(problem, schedule, const DeviceModel&);
//       FAILED_PRECONDITION or INVALID_ARGUMENT naming field, value and bound.
//   absl::StatusOr<Prediction> PredictSchedule(problem, schedule, int64_t bucket,
//                                              const DeviceModel&);
//   std::string SourceOf(problem, schedule);
//   std::vector<std::string> HeadersOf(problem, schedule);  // KernelFamily::Headers
//   absl::StatusOr<LaunchRecipe> RecipeOf(problem, schedule, const std::vector<BufferPlace>&);
#ifndef SINTER_SRC_PLAN_OWN_FAMILY_H_
#define SINTER_SRC_PLAN_OWN_FAMILY_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/base/launch_recipe.h"
#include "src/base/status.h"
#include "src/plan/family.h"

namespace sinter {

// The body of such a family's codes: a problem of any place, and a schedule without its grid.
template <typename P, typename S>
struct OwnCode {
  P problem;
  S schedule;
};

// The body of a kernel of such a family.
template <typename C>
struct OwnSpec {
  C code;
  std::vector<BufferPlace> places;  // of the run's operands, then of its result
};

// `C` is an OwnCode. Its schedule has a `grid`; problem and schedule have ==, ToString(),
// Write(ByteWriter&), and a static Read(ByteReader&) that trusts nothing.
template <typename C>
class OwnKernels : public KernelFamily {
 public:
  using Problem = decltype(C::problem);
  using Schedule = decltype(C::schedule);

  using KernelFamily::KernelFamily;

  static const OwnSpec<C>& Of(const KernelSpec& spec) { return *BodyAs<OwnSpec<C>>(spec.body); }
  static const C& Of(const KernelCode& code) { return *BodyAs<C>(code.body); }
  static const Problem& Of(const OwnRun& run) { return *BodyAs<Problem>(run.problem); }
  static const Problem& ProblemOf(const KernelSpec& spec) { return Of(spec).code.problem; }
  static const Schedule& ScheduleOf(const KernelSpec& spec) { return Of(spec).code.schedule; }

  // The problem from which source is made: without the values that a launch passes.
  virtual absl::StatusOr<Problem> ProblemOfCode(const Problem& problem) const { return problem; }

  // Adds the buffer of the next place to `list`. The last place is the result. `dims`: "M,1024";
  // `of_m`: it has rows of M.
  static void AddBuffer(const std::vector<BufferPlace>& places, DType dtype,
                        const std::string& dims, int64_t elements, bool of_m,
                        std::vector<KernelBuffer>* list) {
    const BufferPlace& at = places[list->size()];
    list->push_back({at.buffer, at.offset_bytes, absl::StrCat(NameOf(dtype), "[", dims, "]"),
                     elements * SizeOf(dtype), list->size() + 1 == places.size(), of_m});
  }

  static std::string BytesOf(const Schedule& schedule) {
    ByteWriter w;
    schedule.Write(w);
    return w.Take();
  }
  // DATA_LOSS unless a schedule has exactly these bytes.
  absl::StatusOr<Schedule> ScheduleFrom(absl::string_view bytes) const {
    ByteReader r(bytes);
    SINTER_ASSIGN_OR_RETURN(const Schedule schedule, Schedule::Read(r));
    SINTER_RETURN_IF_ERROR(r.Finish(absl::StrCat(name(), " schedule")));
    return schedule;
  }

  KernelTexts TextsOf(const KernelSpec& spec) const override {
    const std::string problem = ProblemOf(spec).ToString();
    return {problem, ScheduleOf(spec).ToString(), problem};
  }
  std::string ScheduleBytes(const KernelSpec& spec) const override {
    return BytesOf(ScheduleOf(spec));
  }
  void WriteExecuted(const KernelSpec& spec, ByteWriter& w) const override {
    ProblemOf(spec).Write(w);
    for (const BufferPlace& place : Of(spec).places) w(place);
  }
  void WriteSourceKey(const KernelSpec& spec, ByteWriter& w) const override {
    ProblemOf(spec).Write(w);
  }
  absl::StatusOr<KernelLaunch> Check(const KernelSpec& spec, const KernelCode&,
                                     const DeviceModel& model, StitchBudget*) const override {
    SINTER_RETURN_IF_ERROR(CheckSchedule(ProblemOf(spec), ScheduleOf(spec), model));
    return KernelLaunch();
  }
  absl::StatusOr<Prediction> Predict(const KernelSpec& spec, int64_t bucket,
                                     const DeviceModel& model) const override {
    return PredictSchedule(ProblemOf(spec), ScheduleOf(spec), bucket, model);
  }
  absl::StatusOr<KernelCode> Code(const KernelSpec& spec) const override {
    if (BodyAs<OwnSpec<C>>(spec.body) == nullptr) {
      return Invalid("a kernel of ", name(), " has no problem");
    }
    C own = Of(spec).code;
    SINTER_ASSIGN_OR_RETURN(own.problem, ProblemOfCode(own.problem));
    own.schedule.grid = 1;
    KernelCode code;
    code.family = spec.family;
    code.batch_invariant = spec.batch_invariant;
    code.body = MakeBody(std::move(own));
    return code;
  }
  absl::StatusOr<KernelCode> CheckedCode(const KernelSpec& spec,
                                         const DeviceModel& model) const override {
    SINTER_ASSIGN_OR_RETURN(KernelCode code, Code(spec));
    SINTER_RETURN_IF_ERROR(CheckSchedule(ProblemOf(spec), ScheduleOf(spec), model));
    return code;
  }
  absl::Status WriteRequest(const KernelSpec&, const KernelCode& code,
                            CompileRequest* request) const override {
    request->source = SourceOf(Of(code).problem, Of(code).schedule);
    request->least_nvrtc = LeastNvrtcOf(Of(code).schedule);
    return absl::OkStatus();
  }
  std::vector<std::string> Headers(const KernelSpec& spec) const override {
    return HeadersOf(ProblemOf(spec), ScheduleOf(spec));
  }
  absl::StatusOr<LaunchRecipe> Recipe(const KernelSpec& spec, const KernelCode&) const override {
    return RecipeOf(ProblemOf(spec), ScheduleOf(spec), Of(spec).places);
  }
  CodeBytes BytesOfCode(const KernelCode& code) const override {
    ByteWriter w;
    Of(code).problem.Write(w);
    return {WordOfFamily(), w.Take(), BytesOf(Of(code).schedule)};
  }
  absl::Status ReadCode(ByteReader& r, absl::string_view schedule,
                        KernelCode* code) const override {
    C own;
    SINTER_ASSIGN_OR_RETURN(own.problem, Problem::Read(r));
    SINTER_ASSIGN_OR_RETURN(own.schedule, ScheduleFrom(schedule));
    code->body = MakeBody(std::move(own));
    return absl::OkStatus();
  }

  void Decide(const KernelSpec& spec, KernelDecision* decision) const override {
    decision->own = ScheduleBytes(spec);
  }
  uint32_t WriteChoice(const KernelDecision& decision, ByteWriter& w) const override {
    w.Bytes(decision.own);
    return 0;
  }
  absl::Status ReadChoice(uint32_t flags, ByteReader& r, KernelDecision* decision) const override {
    decision->own = std::string(r.Bytes());
    const bool fits = flags == 0 && !decision->ops.turned && ScheduleFrom(decision->own).ok() &&
                      decision->ops.first < NeedsOf({}, decision->own, 0).kernels;
    return fits ? absl::OkStatus() : LostDecision(absl::StrCat("the choice of ", name()));
  }
  bool SameSource(const KernelDecision& a, const KernelDecision& b) const override {
    absl::StatusOr<Schedule> x = ScheduleFrom(a.own), y = ScheduleFrom(b.own);
    if (!x.ok() || !y.ok()) return a.own == b.own;
    x->grid = y->grid = 1;
    return *x == *y;
  }

  absl::StatusOr<KernelSpec> BindOwn(const OwnRun& run, absl::string_view choice, int,
                                     const std::vector<BufferPlace>& places) const override {
    OwnSpec<C> own;
    own.code.problem = Of(run);
    SINTER_ASSIGN_OR_RETURN(own.code.schedule, ScheduleFrom(choice));
    own.places = places;
    KernelSpec spec;
    spec.family = this;
    spec.body = MakeBody(std::move(own));
    return spec;
  }

 protected:
  // CompileRequest::least_nvrtc.
  virtual int LeastNvrtcOf(const Schedule&) const { return 0; }

  // Choices from the schedules that the family's search ranked, with a `schedule` and a
  // `prediction` each: one kernel each.
  template <typename Ranked>
  std::vector<OwnChoice> ChoicesOf(const std::vector<Ranked>& ranked) const {
    std::vector<OwnChoice> choices;
    for (const Ranked& one : ranked) choices.push_back({BytesOf(one.schedule), {one.prediction}});
    return choices;
  }
};

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_OWN_FAMILY_H_
