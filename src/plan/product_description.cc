// The description of a kernel of products.
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/base/format.h"
#include "src/base/launch_recipe.h"
#include "src/plan/description.h"
#include "src/plan/fields_json.h"
#include "src/plan/product_family.h"
#include "src/product/sequence.h"

namespace sinter {
namespace {

using Json = nlohmann::ordered_json;
using Words = std::vector<std::string>;

// The ops of a product: the weights by their names, if they have any, and the ops on the sums.
void AddProduct(const MatrixProduct& p, const Words& weights, Words* words) {
  const ProductEpilogue& e = p.epilogue;
  if (p.rows.source == Source::kWindow) {
    words->push_back(p.rows.window.grouped()
                         ? absl::StrCat("convolution in ", p.rows.window.conv.groups, " groups")
                         : "convolution");
  } else {
    const Words fallback = p.pair ? Words{"gate", "up"} : Words{"product"};
    for (size_t i = 0; i < fallback.size(); ++i) {
      words->push_back(i < weights.size() && !weights[i].empty() ? weights[i] : fallback[i]);
    }
    if (p.pair && words->back() == words->end()[-2]) words->pop_back();  // both of one weight
  }
  const auto add_activation = [&](Activation activation) {
    if (activation != Activation::kIdentity) words->emplace_back(NameOf(activation));
  };
  if (e.norm.has_value()) words->emplace_back("norm of the rows");
  if (e.scale() != 1) words->emplace_back("scale");
  if (e.factor().has_value()) words->emplace_back("row factor");
  if (p.HasColumnScales()) words->emplace_back("column scale");
  if (e.bias().has_value()) words->emplace_back("bias");
  add_activation(e.activation());
  if (e.program.written()) {
    for (std::string& op : WordsOf(*e.program.body, e.program.InAffine()))
      words->push_back(std::move(op));
  }
  if (e.form().residual) words->emplace_back("residual");
  add_activation(e.sum_activation());
  if (e.quantize.has_value()) words->emplace_back("quantize");
}

Words WordsOf(const ProductBody& body, const BufferNames& names) {
  const auto name = [&](Role role) { return names.Given(body.operands, role); };
  Words words;
  for (int i = 0; i < body.sequence.size(); ++i) {
    AddProduct(body.sequence[i],
               i == 0 ? Words{name(Role::kW), name(Role::kWUp)} : Words{name({Role::kW, 1})},
               &words);
  }
  return words;
}

// "#0", "ws+65536"; with its rows' distance, if any: "/4096".
std::string PlaceText(int buffer, uint64_t offset) {
  const std::string place = buffer == kWorkspaceBuffer ? "ws" : absl::StrCat("#", buffer);
  return offset > 0 ? absl::StrCat(place, "+", offset) : place;
}

std::string BindingText(const OperandBinding& b, int products, const BufferNames& names) {
  const std::string& name = names.Of(b.buffer);
  return absl::StrCat(NameOf(b.role, products), "=", PlaceText(b.buffer, b.offset_bytes),
                      b.row_stride > 0 ? absl::StrCat("/", b.row_stride) : "",
                      name.empty() ? "" : absl::StrCat(" (", name, ")"));
}

std::vector<std::pair<std::string, std::string>> LaunchLines(const ProductBody& body,
                                                             const BufferNames& names) {
  const Schedule& s = body.schedule;
  const ScheduleSizes z = SizesOf(body.sequence, s);
  const std::string clusters =
      s.cluster > 1
          ? absl::StrCat(" in ", Counted(s.grid / s.cluster, "cluster"), " of ", s.cluster)
          : "";
  const auto binding = [&](std::string* out, const OperandBinding& b) {
    *out += BindingText(b, body.sequence.size(), names);
  };
  return {{"launch", absl::StrCat(Counted(s.grid, "block"), clusters, ", shared memory ",
                                  SizeText(static_cast<double>(z.shared_bytes)), " (",
                                  Counted(s.stages, "stage"), " of ",
                                  SizeText(static_cast<double>(z.stage_bytes)), "), accumulators ",
                                  z.accumulators)},
          {"operands", absl::StrJoin(body.operands, ", ", binding)}};
}

std::string Str(absl::string_view s) { return std::string(s.data(), s.size()); }

void AddScaling(const MatrixProduct& p, int number, Json* json) {
  const ProductEpilogue& e = p.epilogue;
  if (e.norm.has_value()) (*json)[absl::StrCat("norm", number)] = *e.norm;
  if (e.scale() != 1) (*json)[absl::StrCat("scale", number)] = e.scale();
  if (e.factor().has_value()) {
    (*json)[absl::StrCat("factor", number)] = Str(NameOf(*e.factor()));
  }
  if (p.HasColumnScales()) {
    (*json)[absl::StrCat("scale_w", number)] = Str(NameOf(p.weights.scales.element));
  }
}

Json WindowJson(const PixelWindow& w) {
  Json json = {{"height", w.height}, {"width", w.width},          {"channels", w.channels},
               {"taps", w.taps},     {"strides", w.conv.strides}, {"dilations", w.conv.dilations},
               {"pads", w.conv.pads}};
  if (w.grouped()) json["groups"] = w.conv.groups;
  return json;
}

Json SequenceJson(const ProductSequence& s) {
  const bool two = s.size() == 2;
  const ProductEpilogue &first = s.front().epilogue, &last = s.back().epilogue;
  Json json = {{"kind", s.Kind()},
               {"products", s.size()},
               {"gated", s.front().pair},
               {"activation", Str(NameOf(first.activation()))},
               {"bias1", first.bias().has_value()},
               {"bias2", two && last.bias().has_value()},
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
  if (s.front().HasTransposedRows()) json["rows"] = "transposed";
  if (s.front().k_is_m) json["k_is_m"] = true;
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
  Json json = FieldsJson(s);
  for (const char* rare : {"cut", "swapped", "pushes", "pushed_columns"}) json.erase(rare);
  const char* cut = RowOf(s).cut;
  if (cut[0] != 0) json[cut] = s.cut;
  if (s.swapped) json["swapped"] = true;
  return json;
}

}  // namespace

// kC and kParts stay inside a kernel and are not tensors of the plan.
std::vector<KernelBuffer> ProductKernels::Buffers(const KernelSpec& spec, int64_t) const {
  const ProductBody& body = ProductOf(spec);
  std::vector<KernelBuffer> list;
  for (const OperandBinding& operand : body.operands) {
    if (operand.role == Role::kC || operand.role == Role::kPartialOut) continue;
    const RoleShape shape = ShapeOf(body.sequence, operand.role);
    const bool rows_of_m = shape.rows > 0 && shape.of_launch && !body.constant_rows;
    const bool of_m = rows_of_m || shape.of_k;
    std::vector<Dim> dims = {Dim::Constant(shape.columns)};
    if (shape.rows > 0) dims.insert(dims.begin(), of_m ? Dim::M() : Dim::Constant(shape.rows));
    const int64_t bytes = std::max<int64_t>(shape.rows, 1) * shape.RowBytes();
    list.push_back({operand.buffer, operand.offset_bytes, ToString(TensorType{shape.element, dims}),
                    bytes, IsResult(operand.role), of_m});
  }
  return list;
}

KernelDescription ProductKernels::Describe(const PlannedKernel& kernel, int64_t,
                                           const DeviceModel& model,
                                           const BufferNames& names) const {
  const KernelSpec& spec = kernel.spec;
  const ProductBody& body = ProductOf(spec);
  KernelDescription out;
  out.words = WordsOf(body, names);
  out.alike = absl::StrCat(body.sequence.Canonical(), body.sequence.rows(), body.constant_rows);
  out.kind = Str(NameOf(body.schedule.dataflow));
  out.problem = ProblemText(spec);
  out.schedule = ScheduleText(spec);
  out.lines = LaunchLines(body, names);
  out.levels = ProductLevels(kernel, model);
  if (CheckScheduleFields(body.sequence, body.schedule).ok()) {
    out.products = PictureOf(spec, names);
    absl::StrAppend(&out.kind, ": ", out.products->title);
  }
  return out;
}

void ProductKernels::WriteJson(const KernelSpec& spec, Json* out) const {
  const ProductBody& body = ProductOf(spec);
  Json operands = Json::array();
  for (const OperandBinding& b : body.operands) {
    operands.push_back({{"role", NameOf(b.role, body.sequence.size())},
                        {"buffer", b.buffer},
                        {"offset_bytes", b.offset_bytes},
                        {"row_stride", b.row_stride}});
  }
  out->update({{"sequence", SequenceJson(body.sequence)},
               {"schedule", ScheduleJson(body.schedule)},
               {"shared_bytes", SizesOf(body.sequence, body.schedule).shared_bytes},
               {"operands", operands},
               {"flags_offset_bytes", spec.workspace_flags_offset},
               {"constant_weights", body.constant_weights}});
}

}  // namespace sinter
