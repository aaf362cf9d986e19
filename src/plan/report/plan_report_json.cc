// The explanation of a plan for tools. The field names are a stable format: see plan_report.h.
#include <nlohmann/json.hpp>

#include "src/plan/picture/picture.h"
#include "src/plan/plan_text.h"
#include "src/plan/report/cost_report.h"
#include "src/plan/report/intermediate_split.h"
#include "src/plan/report/model_notes.h"
#include "src/plan/report/plan_report.h"

namespace sinter {
namespace {

using Json = nlohmann::ordered_json;

std::string Str(absl::string_view s) { return std::string(s.data(), s.size()); }

Json MatrixJson(const MatrixPicture& m) {
  return {
      {"role", Str(NameOf(m.role))}, {"rows", m.rows}, {"columns", m.columns}, {"bytes", m.bytes}};
}

Json ProductJson(const ProductPicture& p) {
  Json matrices = Json::array();
  for (const MatrixPicture& m : p.operands) matrices.push_back(MatrixJson(m));
  return {{"formula", p.formula},
          {"matrices", matrices},
          {"result", MatrixJson(p.result)},
          {"tile", {p.tile_rows, p.tile_columns}},
          {"tiles", {p.row_tiles, p.column_tiles}},
          {"k", p.k},
          {"split_k", p.split_k},
          {"turns", p.turns}};
}

Json LevelJson(const LevelCost& level) {
  return {{"level", Str(level.level)},        {"us", level.us},
          {"amount", level.amount},           {"rate", level.rate},
          {"constants", Str(level.constant)}, {"bound", level.bound}};
}

// Which steps of K load tap t: those of columns [t * tap_columns, (t + 1) * tap_columns).
Json WindowJson(const WindowPicture& p) {
  const PixelWindow& w = p.window;
  return {{"images", p.images},
          {"image", {w.height, w.width, w.channels}},
          {"taps", w.taps},
          {"strides", w.conv.strides},
          {"dilations", w.conv.dilations},
          {"pads", w.conv.pads},
          {"windows", {w.Pixels(0), w.Pixels(1)}},
          {"tap_columns", w.StagedTap()},
          {"step_columns", p.step_columns},
          {"image_bytes", p.image_bytes},
          {"matrix_bytes", p.matrix_bytes}};
}

void AddPicture(const KernelPicture& picture, Json* out) {
  Json products = Json::array(), hand_overs = Json::array(), shared = Json::array();
  for (const ProductPicture& p : picture.products) products.push_back(ProductJson(p));
  for (const HandOver& h : picture.hand_overs) {
    hand_overs.push_back({{"medium", Str(NameOf(h.medium))}, {"lines", h.lines}});
  }
  for (const SharedPart& part : picture.shared) {
    shared.push_back({{"part", Str(part.name)}, {"bytes", part.bytes}, {"count", part.count}});
  }
  (*out)["title"] = Str(picture.row->title);
  (*out)["blocks"] = picture.blocks;
  (*out)["cluster"] = picture.cluster;
  (*out)["products"] = products;
  if (picture.window.has_value()) (*out)["window"] = WindowJson(*picture.window);
  (*out)["hand_overs"] = hand_overs;
  (*out)["shared"] = shared;
}

// The intermediate's bytes on each level that holds some.
Json SplitJson(const KernelSpec& spec) {
  Json split = Json::object();
  const LevelBytes bytes = IntermediateSplit(spec.sequence, spec.schedule);
  for (size_t level = 0; level < kMemoryLevels; level++) {
    if (bytes[level] > 0) split[Str(NameOf(static_cast<MemoryLevel>(level)))] = bytes[level];
  }
  return split;
}

Json KernelJson(const PlannedKernel& kernel, const DeviceModel& model, const FusionTimes& times) {
  const KernelSpec& spec = kernel.spec;
  Json out = Json::object();
  if (CheckScheduleFields(spec.sequence, spec.schedule).ok()) {
    AddPicture(PictureOf(spec), &out);
    if (spec.sequence.size() == 2) out["intermediate_bytes"] = SplitJson(spec);
  }
  Json levels = Json::array();
  for (const LevelCost& level : kernel.spec.stitch == nullptr
                                    ? LevelsOf(kernel, model)
                                    : StitchLevelsOf(kernel, times, model)) {
    levels.push_back(LevelJson(level));
  }
  out["levels"] = levels;
  out["predicted_us"] = kernel.prediction.total_us;
  out["measured_us"] = kernel.measured_us;
  return out;
}

Json ModelJson(const DeviceModel& model) {
  Json constants = Json::array();
  for (const ModelNote& note : NotesOf(model)) {
    constants.push_back({{"key", note.key},
                         {"value", note.value},
                         {"provenance", note.provenance},
                         {"source", note.source}});
  }
  return {{"name", model.name},
          {"measured", model.measured},
          {"note", HeadNoteOf(model)},
          {"constants", constants}};
}

}  // namespace

std::string ReportJson(const Plan& plan, const DeviceModel& model, const FusionPicture& picture) {
  Json kernels = Json::array(), losers = Json::array();
  for (size_t i = 0; i < plan.kernels.size(); i++) {
    const FusionTimes times = i < picture.kernels.size() ? picture.kernels[i].times : FusionTimes();
    kernels.push_back(KernelJson(plan.kernels[i], model, times));
  }
  for (const Candidate& c : plan.runners_up) {
    losers.push_back({{"name", c.name}, {"predicted_us", c.predicted_us}, {"why_not", c.why_not}});
  }
  Json report = {{"schema", 2},
                 {"predicted_us", plan.PredictedUs()},
                 {"measured_us", MeasuredUs(plan)},
                 {"kernels", kernels},
                 {"runners_up", losers},
                 {"model", ModelJson(model)}};
  if (!picture.kernels.empty()) report["fusion"] = Json::parse(FusionJson(picture));
  return report.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace sinter
