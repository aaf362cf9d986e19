// GroupedFamily: products of rows with the matrices that ids name. Each answer is declared and
// given once, here.
#ifndef SINTER_SRC_PLAN_GROUPED_FAMILY_H_
#define SINTER_SRC_PLAN_GROUPED_FAMILY_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/grouped/grouped.h"
#include "src/grouped/grouped_search.h"
#include "src/grouped/grouped_source.h"
#include "src/plan/family.h"

namespace sinter {

const KernelFamily& GroupedFamily();

// KernelSpec::own of the family.
struct GroupedSpec {
  GroupedProduct product;
  GroupedSchedule schedule;
  GroupedPlaces places;
};

// KernelCode::own of the family: a product of any place and a schedule without its grid.
struct GroupedCode {
  GroupedProduct product;
  GroupedSchedule schedule;
};

class GroupedKernels : public KernelFamily {
 public:
  static const GroupedSpec& Of(const KernelSpec& spec) {
    return *static_cast<const GroupedSpec*>(spec.own.get());
  }
  static const GroupedCode& Of(const KernelCode& code) {
    return *static_cast<const GroupedCode*>(code.own.get());
  }

  absl::string_view name() const override { return "grouped"; }
  uint8_t number() const override { return 3; }
  std::string ProblemText(const KernelSpec& spec) const override {
    return Of(spec).product.ToString();
  }
  std::string ScheduleText(const KernelSpec& spec) const override {
    return Of(spec).schedule.ToString();
  }
  std::vector<KernelBuffer> Buffers(const KernelSpec& spec, int64_t bucket) const override {
    const GroupedProduct& p = Of(spec).product;
    const GroupedPlaces& places = Of(spec).places;
    const std::string m = p.fixed_rows > 0 ? absl::StrCat(p.fixed_rows) : "M";
    const int64_t rows = p.Rows(bucket), slots = rows * p.slots;
    std::vector<KernelBuffer> list;
    const auto add = [&](DType dtype, const std::string& dims, int64_t elements, bool of_m) {
      const GroupedPlace& at = places[list.size()];
      list.push_back({at.buffer, at.offset_bytes, absl::StrCat(NameOf(dtype), "[", dims, "]"),
                      elements * SizeOf(dtype), list.size() + 1 == places.size(),
                      of_m && p.fixed_rows == 0});
    };
    const std::string of_slots = absl::StrCat(m, ",", p.slots);
    add(p.rows, absl::StrCat(p.slot_rows ? of_slots : m, ",", p.k),
        (p.slot_rows ? slots : rows) * p.k, true);
    const std::string matrix = p.input_major ? absl::StrCat(p.k, ",", p.WeightColumns())
                                             : absl::StrCat(p.WeightColumns(), ",", p.k);
    add(p.weights, absl::StrCat(p.experts, ",", matrix), p.experts * p.WeightColumns() * p.k,
        false);
    add(DType::kS32, of_slots, slots, true);
    if (p.has_factor) add(p.factor, of_slots, slots, true);
    add(p.result, absl::StrCat(of_slots, ",", p.n), slots * p.n, true);
    return list;
  }
  KernelDescription Describe(const PlannedKernel& kernel, int64_t bucket, const DeviceModel& model,
                             const BufferNames& names) const override {
    KernelDescription out = KernelFamily::Describe(kernel, bucket, model, names);
    const GroupedProduct& p = Of(kernel.spec).product;
    out.words = {"grouped product"};
    if (p.gate != GroupedGate::kNone) out.words = {"grouped gate", "up"};
    if (p.act != Activation::kIdentity) out.words.push_back(std::string(NameOf(p.act)));
    if (p.has_factor) out.words.push_back("weights");
    return out;
  }
  ApartReasons WhyApart() const override {
    return {"two grouped products, whose rows meet in other blocks",
            "a grouped product's kernel takes its gate, weights and cast along, no other ops",
            "a grouped product's kernel reads its operands from memory"};
  }

  bool Equal(const KernelSpec& a, const KernelSpec& b) const override {
    if (a.own == nullptr || b.own == nullptr) return a.own == b.own;
    return Of(a).product == Of(b).product && Of(a).schedule == Of(b).schedule &&
           Of(a).places == Of(b).places;
  }
  std::string ScheduleBytes(const KernelSpec& spec) const override {
    return BytesOf(Of(spec).schedule);
  }
  void WriteExecuted(const KernelSpec& spec, ByteWriter& w) const override {
    Of(spec).product.Write(w);
    for (const GroupedPlace& place : Of(spec).places) {
      w.I64(place.buffer);
      w.U64(place.offset_bytes);
    }
  }
  void WriteSourceKey(const KernelSpec& spec, ByteWriter& w) const override {
    Of(spec).product.Write(w);
  }
  std::string IdentityText(const KernelSpec& spec) const override { return ProblemText(spec); }

  bool UsesM(const KernelSpec& spec) const override { return Of(spec).product.fixed_rows == 0; }
  int64_t Rows(const KernelSpec& spec, int64_t bucket) const override {
    return Of(spec).product.Rows(bucket);
  }
  // Each result sums K in one order, whatever the tile is: tensor cores in steps of 16.
  std::string RowOrder(const KernelSpec& spec) const override {
    return absl::StrCat(Of(spec).product.ToString(),
                        Of(spec).schedule.block_m == 0 ? " dots\n" : " steps\n");
  }
  absl::Status CheckRowOrder(const KernelSpec&) const override { return absl::OkStatus(); }

  absl::StatusOr<KernelLaunch> Check(const KernelSpec& spec, const KernelCode&,
                                     const DeviceModel& model, StitchBudget*) const override {
    SINTER_RETURN_IF_ERROR(CheckGroupedSchedule(Of(spec).product, Of(spec).schedule, model));
    return KernelLaunch{false, 0};
  }
  bool LeavesInWorkspace(const KernelSpec& spec) const override {
    return Of(spec).places.back().buffer == kWorkspaceBuffer;
  }

  absl::StatusOr<Prediction> Predict(const KernelSpec& spec, int64_t bucket,
                                     const DeviceModel& model) const override {
    return PredictGrouped(Of(spec).product, Of(spec).schedule, bucket, model);
  }
  bool MeasuresAll() const override { return true; }

  absl::StatusOr<KernelCode> Code(const KernelSpec& spec) const override {
    if (spec.own == nullptr) return absl::InvalidArgumentError("a grouped product of nothing");
    KernelCode code;
    code.family = spec.family;
    code.batch_invariant = spec.batch_invariant;
    auto own = std::make_shared<GroupedCode>(GroupedCode{Of(spec).product, Of(spec).schedule});
    own->product.fixed_rows = 0;  // the recipe tells a launch its rows
    own->schedule.grid = 1;
    code.own = std::move(own);
    return code;
  }
  absl::StatusOr<KernelCode> CheckedCode(const KernelSpec& spec,
                                         const DeviceModel& model) const override {
    SINTER_ASSIGN_OR_RETURN(KernelCode code, Code(spec));
    SINTER_RETURN_IF_ERROR(CheckGroupedSchedule(Of(spec).product, Of(spec).schedule, model));
    return code;
  }
  absl::Status WriteRequest(const KernelSpec&, const KernelCode& code,
                            CompileRequest* request) const override {
    request->source = GroupedSource(Of(code).product, Of(code).schedule);
    request->name = absl::StrCat(kGroupedEntry, ".cu");
    if (Of(code).schedule.block_m > 0) request->least_nvrtc = kLeastNvrtcOfTiles;
    return absl::OkStatus();
  }
  std::string Entry(const KernelCode&) const override { return kGroupedEntry; }
  std::vector<std::string> Headers(const KernelSpec&) const override { return {kGroupedHeader}; }
  void WriteCode(const KernelCode& code, ByteWriter& w) const override {
    Of(code).product.Write(w);
  }
  std::string CodeScheduleBytes(const KernelCode& code) const override {
    return BytesOf(Of(code).schedule);
  }
  std::string CodeProblemText(const KernelCode& code) const override {
    return Of(code).product.ToString();
  }
  std::string CodeScheduleText(const KernelCode& code) const override {
    return Of(code).schedule.ToString(false);
  }
  absl::Status ReadCode(ByteReader& r, absl::string_view schedule,
                        KernelCode* code) const override {
    auto own = std::make_shared<GroupedCode>();
    SINTER_ASSIGN_OR_RETURN(own->product, ReadGroupedProduct(r));
    SINTER_ASSIGN_OR_RETURN(own->schedule, ScheduleFrom(schedule));
    code->own = std::move(own);
    return absl::OkStatus();
  }

  absl::StatusOr<LaunchRecipe> Recipe(const KernelSpec& spec, const KernelCode&) const override {
    return GroupedRecipe(Of(spec).product, Of(spec).schedule, Of(spec).places);
  }

  void Decide(const KernelSpec& spec, KernelDecision* decision) const override {
    decision->own = BytesOf(Of(spec).schedule);
  }
  void WriteChoice(const KernelDecision& decision, ByteWriter& w) const override {
    w.Bytes(decision.own);
  }
  absl::Status ReadChoice(uint32_t flags, ByteReader& r, KernelDecision* decision) const override {
    if (flags != 0 || decision->ops.turned || decision->ops.first != 0) {
      return LostDecision("flags of a grouped product");
    }
    decision->own = std::string(r.Bytes());
    return ScheduleFrom(decision->own).ok() ? absl::OkStatus()
                                            : LostDecision("the schedule of a grouped product");
  }
  bool SameSource(const KernelDecision& a, const KernelDecision& b) const override {
    absl::StatusOr<GroupedSchedule> x = ScheduleFrom(a.own), y = ScheduleFrom(b.own);
    if (!x.ok() || !y.ok()) return a.own == b.own;
    x->grid = y->grid = 1;
    return *x == *y;
  }

  static constexpr int kLeastNvrtcOfTiles = 1209;  // as of other products of 16-bit elements

  static std::string BytesOf(const GroupedSchedule& schedule) {
    ByteWriter w;
    schedule.Write(w);
    return w.Take();
  }
  // All of `bytes` are a schedule's.
  static absl::StatusOr<GroupedSchedule> ScheduleFrom(absl::string_view bytes) {
    ByteReader r(bytes);
    SINTER_ASSIGN_OR_RETURN(const GroupedSchedule schedule, ReadGroupedSchedule(r));
    SINTER_RETURN_IF_ERROR(r.Finish("grouped schedule"));
    return schedule;
  }
};

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_GROUPED_FAMILY_H_
