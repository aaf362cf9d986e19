// A plan as JSON, for tools. The field names are a stable format: see the README.
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "src/explain/render.h"
#include "src/product/dataflow/dataflow.h"

namespace sinter {
namespace {

using Json = nlohmann::ordered_json;

std::string Str(absl::string_view s) { return std::string(s.data(), s.size()); }

void AddScaling(const MatrixProduct& p, int number, Json* json) {
  const ProductEpilogue& e = p.epilogue;
  if (e.norm.has_value()) (*json)[absl::StrCat("norm", number)] = *e.norm;
  if (e.scale != 1) (*json)[absl::StrCat("scale", number)] = e.scale;
  if (e.factor.has_value()) {
    (*json)[absl::StrCat("factor", number)] = Str(NameOf(*e.factor));
  }
  if (p.HasColumnScales()) {
    (*json)[absl::StrCat("scale_w", number)] = Str(NameOf(p.weights.scales.element));
  }
}

Json WindowJson(const PixelWindow& w) {
  return {{"height", w.height}, {"width", w.width},          {"channels", w.channels},
          {"taps", w.taps},     {"strides", w.conv.strides}, {"dilations", w.conv.dilations},
          {"pads", w.conv.pads}};
}

Json SequenceJson(const ProductSequence& s) {
  const bool two = s.size() == 2;
  const ProductEpilogue &first = s.front().epilogue, &last = s.back().epilogue;
  Json json = {{"kind", s.Kind()},
               {"products", s.size()},
               {"gated", s.front().pair},
               {"activation", Str(NameOf(first.activation()))},
               {"bias1", first.bias.has_value()},
               {"bias2", two && last.bias.has_value()},
               {"layout", Str(NameOf(s.layout()))},
               {"dtype", Str(NameOf(s.element()))},
               {"n", s.front().n},
               {"k", s.front().k},
               {"l", two ? s.back().n : 0},
               {"bucket", s.m}};
  for (int i = 0; i < s.size(); ++i) AddScaling(s[i], i + 1, &json);
  const Operand& rows = s.front().rows;
  if (s.rows_per_m != 1) json["rows_per_m"] = s.rows_per_m;
  if (rows.source == Source::kWindow) json["window"] = WindowJson(rows.window);
  if (s.front().accumulate == Accumulate::kFast) {
    json["accumulate"] = Str(NameOf(s.front().accumulate));
  }
  if (last.quantize.has_value()) json["quantize"] = ToString(*last.quantize);
  for (int i = 0; i < s.size(); ++i) {
    const EpilogueProgram& program = s[i].epilogue.program;
    if (program.written()) json[absl::StrCat("program", i + 1)] = ToString(program);
  }
  if (last.form().residual) {
    json["residual"] = ResidualName(last.form());
    if (last.sum_activation() != Activation::kIdentity) {
      json["sum_activation"] = Str(NameOf(last.sum_activation()));
    }
  }
  return json;
}

Json ScheduleJson(const Schedule& s) {
  Json json = {{"dataflow", Str(NameOf(s.dataflow))},
               {"block_m", s.block_m},
               {"warpgroups_m", s.warpgroups_m},
               {"warpgroups_n", s.warpgroups_n},
               {"block_k", s.block_k},
               {"stages", s.stages},
               {"cluster", s.cluster},
               {"share", Str(NameOf(s.share))},
               {"grid", s.grid},
               {"first", {{"block_n", s.first.block_n}, {"split_k", s.first.split_k}}},
               {"second", {{"block_n", s.second.block_n}, {"split_k", s.second.split_k}}}};
  const char* cut = RowOf(s).cut;
  if (cut[0] != 0) json[cut] = s.cut;
  if (s.swapped) json["swapped"] = true;
  if (s.second_share != Share::kNone) json["second_share"] = Str(NameOf(s.second_share));
  return json;
}

Json PredictionJson(const Prediction& p) {
  return {{"total_us", p.total_us},   {"hbm_us", p.hbm_us},       {"l2_us", p.l2_us},
          {"intake_us", p.intake_us}, {"shared_us", p.shared_us}, {"dsm_us", p.dsm_us},
          {"tensor_us", p.tensor_us}, {"fixed_us", p.fixed_us},   {"hbm_bytes", p.hbm_bytes},
          {"l2_bytes", p.l2_bytes},   {"dsm_bytes", p.dsm_bytes}, {"bound", p.bound}};
}

Json StitchJson(const PlannedKernel& kernel) {
  const StitchSpec& stitch = *kernel.spec.stitch;
  const StitchSchedule& s = stitch.schedule;
  Json parts = Json::array();
  for (const StitchPart& part : stitch.parts) {
    parts.push_back({{"outputs", part.outputs}, {"schedule", part.schedule.ToString()}});
  }
  Json operands = Json::array();
  for (const StitchOperand& operand : stitch.operands) {
    operands.push_back({{"buffer", operand.buffer}, {"offset_bytes", operand.offset_bytes}});
  }
  return {{"family", Str(NameOf(kernel.spec.family))},
          {"ops", stitch.body.ops().size()},
          {"schedule",
           {{"owner", s.owner},
            {"block_threads", s.block_threads},
            {"unit_threads", s.unit_threads},
            {"cluster", s.cluster},
            {"vector", s.vector},
            {"chunks", s.chunks},
            {"column_cluster", s.column_cluster},
            {"join_all", s.join_all},
            {"split", s.split},
            {"keep_inputs", s.keep_inputs},
            {"keep_values", s.keep_values},
            {"keep_alike", s.keep_alike},
            {"hold_bytes", s.hold_bytes},
            {"handed", s.handed},
            {"blocks_per_sm", s.blocks_per_sm},
            {"grid", s.grid}}},
          {"operands", operands},
          {"scratch_offset_bytes", stitch.scratch_offset},
          {"packed_parts", parts},
          {"predicted", PredictionJson(kernel.prediction)},
          {"measured_us", kernel.measured_us},
          {"kernel_digest", kernel.kernel_digest.Hex()}};
}

Json KernelJson(const PlannedKernel& kernel) {
  if (kernel.spec.stitch != nullptr) return StitchJson(kernel);
  const ScheduleSizes z = SizesOf(kernel.spec.sequence, kernel.spec.schedule);
  Json operands = Json::array();
  for (const OperandBinding& b : kernel.spec.operands) {
    operands.push_back({{"role", NameOf(b.role, kernel.spec.sequence.size())},
                        {"buffer", b.buffer},
                        {"offset_bytes", b.offset_bytes},
                        {"row_stride", b.row_stride}});
  }
  return {{"family", Str(NameOf(kernel.spec.family))},
          {"sequence", SequenceJson(kernel.spec.sequence)},
          {"schedule", ScheduleJson(kernel.spec.schedule)},
          {"shared_bytes", z.shared_bytes},
          {"operands", operands},
          {"flags_offset_bytes", kernel.spec.workspace_flags_offset},
          {"constant_weights", kernel.spec.constant_weights},
          {"predicted", PredictionJson(kernel.prediction)},
          {"measured_us", kernel.measured_us},
          {"kernel_digest", kernel.kernel_digest.Hex()}};
}

}  // namespace

std::string PlanJson(const Plan& p) {
  Json kernel_list = Json::array();
  for (const PlannedKernel& kernel : p.kernels) kernel_list.push_back(KernelJson(kernel));
  Json losers = Json::array();
  for (const Candidate& c : p.runners_up) {
    losers.push_back({{"name", c.name}, {"predicted_us", c.predicted_us}, {"why_not", c.why_not}});
  }
  const Json plan = {{"schema", 3},
                     {"name", std::string(p.name())},
                     {"digest", p.PlanDigest().Hex()},
                     {"bucket", p.bucket},
                     {"predicted_us", p.PredictedUs()},
                     {"workspace_bytes", p.workspace_bytes},
                     {"batch_invariant", p.IsBatchInvariant()},
                     {"note", p.note},
                     {"kernels", kernel_list},
                     {"runners_up", losers}};
  // Notes may quote damaged input: bytes that are not UTF-8 are replaced and do not throw.
  return plan.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace sinter
