// A plan and its explanation for tools. The field names are stable formats: explain.h,
// docs/plan-formats.md.
#include <nlohmann/json.hpp>
#include <utility>

#include "src/explain/explain.h"
#include "src/plan/family.h"
#include "src/plan/fields_json.h"

namespace sinter {
namespace {

using Json = nlohmann::ordered_json;

std::string Str(absl::string_view s) { return std::string(s.data(), s.size()); }

Json MatrixJson(const MatrixPicture& m) {
  Json json = {
      {"role", m.Argument()}, {"rows", m.rows}, {"columns", m.columns}, {"bytes", m.bytes}};
  if (!m.name.empty()) json["name"] = m.name;
  return json;
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

// Which steps of K load tap t: the steps of columns [t * tap_columns, (t + 1) * tap_columns).
Json WindowJson(const WindowPicture& p) {
  const PixelWindow& w = p.window;
  Json json = {{"images", p.images},
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
  if (w.grouped()) json["groups"] = w.conv.groups;
  return json;
}

void AddPicture(const ProductsPicture& picture, Json* out) {
  Json products = Json::array(), hand_overs = Json::array(), shared = Json::array();
  for (const ProductPicture& p : picture.products) products.push_back(ProductJson(p));
  for (const HandOver& h : picture.hand_overs) {
    hand_overs.push_back({{"medium", Str(NameOf(h.medium))}, {"lines", h.lines}});
  }
  for (const SharedPart& part : picture.shared) {
    shared.push_back({{"part", part.name}, {"bytes", part.bytes}, {"count", part.count}});
  }
  (*out)["title"] = picture.title;
  (*out)["blocks"] = picture.blocks;
  (*out)["cluster"] = picture.cluster;
  (*out)["products"] = products;
  if (picture.window.has_value()) (*out)["window"] = WindowJson(*picture.window);
  (*out)["hand_overs"] = hand_overs;
  (*out)["shared"] = shared;
  if (picture.products.size() < 2) return;
  Json& split = (*out)["intermediate_bytes"] = Json::object();
  for (const auto& [level, bytes] : picture.split) split[level] = bytes;
}

Json KernelJson(const KernelDescription& kernel, const PlannedKernel& planned) {
  Json out = {{"computes", kernel.computes}};
  if (kernel.products.has_value()) AddPicture(*kernel.products, &out);
  out["levels"] = FieldsJsonOfEach(kernel.levels);
  out["predicted_us"] = planned.prediction.total_us;
  out["measured_us"] = planned.measured_us;
  return out;
}

Json ModelJson(const ModelStory& model) {
  return {{"name", model.name},
          {"measured", model.measured},
          {"note", model.note},
          {"constants", FieldsJsonOfEach(model.constants)}};
}

Json OpJson(const OpPicture& op) {
  Json reads = Json::array();
  for (const OpRead& read : op.reads) {
    Json one = read.op < 0 ? Json{{"tensor", read.tensor}}
                           : Json{{"op", read.op}, {"composition", Str(NameOf(read.by))}};
    if (!read.through.empty()) one["through"] = read.through;
    reads.push_back(std::move(one));
  }
  return {{"name", op.name},
          {"type", op.type},
          {"reads", reads},
          {"writes", op.writes},
          {"saved_bytes", op.saved_bytes}};
}

Json TensorsJson(const std::vector<TensorPicture>& tensors, bool read) {
  Json list = Json::array();
  for (const TensorPicture& tensor : tensors) {
    Json one = {{"place", tensor.place}, {"type", tensor.type}, {"bytes", tensor.bytes}};
    if (read) one["kernel"] = tensor.kernel;
    if (!tensor.name.empty()) one["name"] = tensor.name;
    list.push_back(one);
  }
  return list;
}

Json OpsJson(const KernelDescription& kernel) {
  Json ops = Json::array(), parts = Json::array(), edges = Json::object();
  for (const OpPicture& op : kernel.ops) ops.push_back(OpJson(op));
  for (const auto& alike : kernel.parts) parts.push_back(alike);
  for (int i = 0; i < kCompositions; ++i) {
    edges[Str(NameOf(Composition(i)))] = kernel.edges[static_cast<size_t>(i)];
  }
  Json json = {{"ops", ops},
               {"inlined", kernel.inlined},
               {"reads", TensorsJson(kernel.reads, true)},
               {"writes", TensorsJson(kernel.writes, false)},
               {"parts", parts},
               {"edges", edges},
               {"border_bytes", kernel.border_bytes},
               {"saved_bytes", kernel.saved_bytes}};
  if (kernel.times.known) {
    json["times"] = {{"issue_us", kernel.times.issue_us},
                     {"latency_us", kernel.times.latency_us},
                     {"together_us", kernel.times.together_us},
                     {"fixed_us", kernel.times.fixed_us}};
  }
  for (const HandPicture& hand : kernel.hands) {
    json["hands"].push_back({{"value", hand.value},
                             {"bytes", hand.bytes},
                             {"offset", hand.offset},
                             {"instead", hand.instead}});
  }
  return json;
}

Json FusionOf(const Explanation& e) {
  Json kernels = Json::array();
  for (const KernelDescription& kernel : e.kernels) kernels.push_back(OpsJson(kernel));
  return {{"saved_bytes", e.saved_bytes},
          {"equal_kernels", e.equal},
          {"kernels", kernels},
          {"not_fused", FieldsJsonOfEach(e.apart)}};
}

Json PredictionJson(const Prediction& p) {
  Json json = FieldsJson(p);
  json.erase("out_of_step_us");
  return json;
}

Json PlannedJson(const PlannedKernel& kernel) {
  Json out = {{"family", Str(NameOf(kernel.spec.family))}};
  kernel.spec.family->WriteJson(kernel.spec, &out);
  out["predicted"] = PredictionJson(kernel.prediction);
  out["measured_us"] = kernel.measured_us;
  out["kernel_digest"] = kernel.kernel_digest.Hex();
  return out;
}

Json RunnersUpJson(const Plan& plan) {
  Json list = Json::array();
  for (const Candidate& c : plan.runners_up) {
    list.push_back({{"name", c.name}, {"predicted_us", c.predicted_us}, {"why_not", c.why_not}});
  }
  return list;
}

// Texts may quote damaged input: bytes that are not UTF-8 are replaced and do not throw.
std::string Dumped(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string FusionJson(const Explanation& e) { return Dumped(FusionOf(e)); }

Json ExplanationDocument(const Explanation& e) {
  Json kernels = Json::array();
  for (size_t i = 0; i < e.kernels.size(); i++) {
    kernels.push_back(KernelJson(e.kernels[i], e.plan.kernels[i]));
  }
  Json json = {{"schema", 3},
               {"computes", e.computes},
               {"predicted_us", e.plan.PredictedUs()},
               {"measured_us", MeasuredUs(e.plan)},
               {"kernels", kernels},
               {"runners_up", RunnersUpJson(e.plan)},
               {"model", ModelJson(e.model)}};
  if (e.has_ops) json["fusion"] = FusionOf(e);
  return json;
}

std::string ExplanationJson(const Explanation& e) { return Dumped(ExplanationDocument(e)); }

Json PlanDocument(const Plan& p) {
  Json kernels = Json::array();
  for (const PlannedKernel& kernel : p.kernels) kernels.push_back(PlannedJson(kernel));
  return {{"schema", 3},
          {"name", std::string(p.Fusion())},
          {"choice", std::string(p.name())},
          {"digest", p.PlanDigest().Hex()},
          {"bucket", p.bucket},
          {"predicted_us", p.PredictedUs()},
          {"workspace_bytes", p.workspace_bytes},
          {"batch_invariant", p.IsBatchInvariant()},
          {"note", p.note},
          {"kernels", kernels},
          {"runners_up", RunnersUpJson(p)}};
}

std::string PlanJson(const Plan& plan) { return Dumped(PlanDocument(plan)); }

}  // namespace sinter
