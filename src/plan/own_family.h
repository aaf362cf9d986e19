// OwnKernels: the answers that are alike in families with runs of their own, each kernel of which
// is a problem and a schedule.
#ifndef SINTER_SRC_PLAN_OWN_FAMILY_H_
#define SINTER_SRC_PLAN_OWN_FAMILY_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/base/launch_recipe.h"
#include "src/base/status.h"
#include "src/plan/family.h"

namespace sinter {

// KernelSpec::own of such a family.
template <typename C>
struct OwnSpec {
  C code;
  std::vector<BufferPlace> places;  // of the run's operands, then of its result
};

// `C`, the family's KernelCode::own, has a `problem` and a `schedule` with a `grid`; both have ==
// and ToString().
template <typename C>
class OwnKernels : public KernelFamily {
 public:
  using Problem = decltype(C::problem);
  using Schedule = decltype(C::schedule);

  static const OwnSpec<C>& Of(const KernelSpec& spec) {
    return *static_cast<const OwnSpec<C>*>(spec.own.get());
  }
  static const C& Of(const KernelCode& code) { return *static_cast<const C*>(code.own.get()); }
  static const Problem& Of(const OwnRun& run) {
    return *static_cast<const Problem*>(run.problem.get());
  }
  static const Problem& ProblemOf(const KernelSpec& spec) { return Of(spec).code.problem; }
  static const Schedule& ScheduleOf(const KernelSpec& spec) { return Of(spec).code.schedule; }

  // FAILED_PRECONDITION or INVALID_ARGUMENT naming field, value and bound.
  virtual absl::Status CheckSchedule(const Problem& problem, const Schedule& schedule,
                                     const DeviceModel& model) const = 0;
  virtual void WriteProblem(const Problem& problem, ByteWriter& w) const = 0;
  virtual absl::StatusOr<Problem> ReadProblem(ByteReader& r) const = 0;
  virtual std::string BytesOf(const Schedule& schedule) const = 0;
  // Of all of `bytes`.
  virtual absl::StatusOr<Schedule> ScheduleFrom(absl::string_view bytes) const = 0;
  // What source is made from a problem: without what a launch is told.
  virtual absl::StatusOr<Problem> ProblemOfCode(const Problem& problem) const { return problem; }

  std::string ProblemText(const KernelSpec& spec) const override {
    return ProblemOf(spec).ToString();
  }
  std::string ScheduleText(const KernelSpec& spec) const override {
    return ScheduleOf(spec).ToString();
  }
  bool Equal(const KernelSpec& a, const KernelSpec& b) const override {
    if (a.own == nullptr || b.own == nullptr) return a.own == b.own;
    return ProblemOf(a) == ProblemOf(b) && ScheduleOf(a) == ScheduleOf(b) &&
           Of(a).places == Of(b).places;
  }
  std::string ScheduleBytes(const KernelSpec& spec) const override {
    return BytesOf(ScheduleOf(spec));
  }
  void WriteExecuted(const KernelSpec& spec, ByteWriter& w) const override {
    WriteProblem(ProblemOf(spec), w);
    for (const BufferPlace& place : Of(spec).places) w(place);
  }
  void WriteSourceKey(const KernelSpec& spec, ByteWriter& w) const override {
    WriteProblem(ProblemOf(spec), w);
  }
  absl::Status CheckRowOrder(const KernelSpec&) const override { return absl::OkStatus(); }
  absl::StatusOr<KernelLaunch> Check(const KernelSpec& spec, const KernelCode&,
                                     const DeviceModel& model, StitchBudget*) const override {
    SINTER_RETURN_IF_ERROR(CheckSchedule(ProblemOf(spec), ScheduleOf(spec), model));
    return KernelLaunch();
  }
  bool LeavesInWorkspace(const KernelSpec& spec) const override {
    return Of(spec).places.back().buffer == kWorkspaceBuffer;
  }
  bool MeasuresAll() const override { return true; }

  absl::StatusOr<KernelCode> Code(const KernelSpec& spec) const override {
    if (spec.own == nullptr) {
      return Invalid("a kernel of ", name(), " has no problem");
    }
    auto own = std::make_shared<C>(Of(spec).code);
    SINTER_ASSIGN_OR_RETURN(own->problem, ProblemOfCode(own->problem));
    own->schedule.grid = 1;
    KernelCode code;
    code.family = spec.family;
    code.batch_invariant = spec.batch_invariant;
    code.own = std::move(own);
    return code;
  }
  absl::StatusOr<KernelCode> CheckedCode(const KernelSpec& spec,
                                         const DeviceModel& model) const override {
    SINTER_ASSIGN_OR_RETURN(KernelCode code, Code(spec));
    SINTER_RETURN_IF_ERROR(CheckSchedule(ProblemOf(spec), ScheduleOf(spec), model));
    return code;
  }
  void WriteCode(const KernelCode& code, ByteWriter& w) const override {
    WriteProblem(Of(code).problem, w);
  }
  std::string CodeScheduleBytes(const KernelCode& code) const override {
    return BytesOf(Of(code).schedule);
  }
  std::string CodeProblemText(const KernelCode& code) const override {
    return Of(code).problem.ToString();
  }
  std::string CodeScheduleText(const KernelCode& code) const override {
    return Of(code).schedule.ToString();
  }
  absl::Status ReadCode(ByteReader& r, absl::string_view schedule,
                        KernelCode* code) const override {
    auto own = std::make_shared<C>();
    SINTER_ASSIGN_OR_RETURN(own->problem, ReadProblem(r));
    SINTER_ASSIGN_OR_RETURN(own->schedule, ScheduleFrom(schedule));
    code->own = std::move(own);
    return absl::OkStatus();
  }

  void Decide(const KernelSpec& spec, KernelDecision* decision) const override {
    decision->own = ScheduleBytes(spec);
  }
  void WriteChoice(const KernelDecision& decision, ByteWriter& w) const override {
    w.Bytes(decision.own);
  }
  absl::Status ReadChoice(uint32_t flags, ByteReader& r, KernelDecision* decision) const override {
    decision->own = std::string(r.Bytes());
    const bool fits = flags == 0 && !decision->ops.turned && ScheduleFrom(decision->own).ok() &&
                      decision->ops.first < KernelsOf(decision->own);
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
    auto own = std::make_shared<OwnSpec<C>>();
    own->code.problem = Of(run);
    SINTER_ASSIGN_OR_RETURN(own->code.schedule, ScheduleFrom(choice));
    own->places = places;
    KernelSpec spec;
    spec.family = this;
    spec.own = std::move(own);
    return spec;
  }

 protected:
  // Of what the family's search ranked, with a `schedule` and a `prediction` each: a kernel each.
  template <typename Ranked>
  std::vector<OwnChoice> ChoicesOf(const std::vector<Ranked>& ranked) const {
    std::vector<OwnChoice> choices;
    for (const Ranked& one : ranked) choices.push_back({BytesOf(one.schedule), {one.prediction}});
    return choices;
  }
};

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_OWN_FAMILY_H_
