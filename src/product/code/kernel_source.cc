#include "src/product/code/kernel_source.h"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/substitute.h"
#include "src/base/format.h"
#include "src/base/status.h"
#include "src/product/dataflow/dataflow.h"

namespace sinter {
namespace {

// "grid_exchange", of grid-exchange: the kernel's function in the device library.
std::string FunctionName(const Schedule& s) {
  return absl::StrReplaceAll(RowOf(s).name, {{"-", "_"}});
}

// "GridExchangeTypes"
std::string TypesName(const Schedule& s) {
  std::string text;
  for (absl::string_view word : absl::StrSplit(RowOf(s).name, '-')) {
    text.push_back(absl::ascii_toupper(static_cast<unsigned char>(word[0])));
    absl::StrAppend(&text, word.substr(1));
  }
  return text + "Types";
}

bool Has(const Scales& scales) { return scales.kind != ScaleKind::kNone; }

bool Transposed(const ProductCode& code) { return code.sequence.layout() == Layout::kIO; }

// One specialisation for each N of a warpgroup's wgmma.
std::string WgmmaWrappers(const ProductCode& code, const ElementRow& element) {
  const Schedule& s = code.schedule;
  const bool rows = code.sequence.front().HasTransposedRows();
  if (s.swapped) return WgmmaSource(s.block_m, element, Transposed(code), rows) + "\n";
  const int columns = FirstWidth(code.sequence, s) * s.first.block_n / s.warpgroups_n;
  std::set<int> widths = {columns / PromotedParts(element, s, columns)};
  std::string text;
  if (RowOf(s).medium == Medium::kRegister)
    text = absl::StrCat(RegisterWgmmaSource(s.second.block_n, element, Transposed(code)), "\n");
  else if (code.sequence.size() == 2)
    widths.insert(s.second.block_n / s.warpgroups_n);
  for (int n : widths)
    absl::StrAppend(&text, WgmmaSource(n, element, rows, Transposed(code)), "\n");
  return text;
}

// Template argument of rows that do not lie as they are multiplied: ", TransposedRows<..>", or the
// window that they are read through: ", Window<..>".
std::string RowsArgument(const MatrixProduct& p) {
  if (p.HasTransposedRows()) return absl::StrCat(", TransposedRows<", BoolText(p.k_is_m), ">");
  const PixelWindow& w = p.rows.window;
  return absl::StrCat(", Window<", w.channels, ", ", w.Pixels(0), ", ", w.Pixels(1), ", ",
                      w.taps[0], ", ", w.taps[1], ", ", absl::StrJoin(w.conv.strides, ", "), ", ",
                      absl::StrJoin(w.conv.dilations, ", "), ", ", w.conv.pads[0], ", ",
                      w.conv.pads[2],
                      w.grouped() ? absl::StrCat(", ", w.conv.groups, ", ", w.Bundle()) : "", ">");
}

std::string ProductText(const char* name, int width, const MatrixProduct& p,
                        const ProductTile& tile, Share share, bool permuted) {
  const bool plain = p.rows.source != Source::kWindow && !p.HasTransposedRows();
  std::string shares = share == Share::kNone && plain && !permuted
                           ? ""
                           : absl::StrCat(", ", TilesM(share), ", ", TilesN(share));
  if (!plain) shares += RowsArgument(p);
  if (permuted) shares += plain ? ", PlainRows, true" : ", true";
  return absl::Substitute("  using $0 = Product<Config, $1, $2, $3, $4, $5$6>;\n", name, width, p.n,
                          p.StagedK(), tile.block_n, tile.split_k, shares);
}

const char* StoredType(DType element) {
  return element == DType::kF32 ? "float" : ElementOf(element).stored_type;
}

// What Config says of the epilogue of product `number`, whose suffix is "" or "2": the types of its
// bias and its activation.
std::string EpilogueTypes(const ProductSequence& p, int number, const ProgramSource& program,
                          const char* suffix) {
  const ProgramSource::Part& part = program.parts[number];
  const MatrixProduct& product = p[number];
  const bool f32 = product.result == DType::kF32 && !product.epilogue.program.for_codes;
  const std::string bias =
      part.leaves ? absl::StrCat("LeavesOf<", part.name, ">")
                  : std::string(DeviceTypeOf(product.epilogue.bias().value_or(product.result)));
  return absl::StrCat("  using Bias", suffix, " = ", bias, ";\n  using Activation", suffix, " = ",
                      part.activation.empty() ? ActivationName(product.epilogue.activation(), f32)
                                              : part.activation,
                      ";\n");
}

bool IsBiased(const ProductSequence& p, int number, const ProgramSource& program) {
  return number < p.size() && p[number].epilogue.bias().has_value() &&
         !program.parts[number].leaves;
}

std::string ConfigText(const ProductCode& code, const ElementRow& element,
                       const ProgramSource& program) {
  const ProductSequence& p = code.sequence;
  const Schedule& s = code.schedule;
  std::string text = "struct Config {\n";
  absl::StrAppend(&text, "  using Element = ", element.device_type, ";\n");
  const bool codes = p.back().epilogue.quantize.has_value();  // of f32 results
  absl::StrAppend(&text, "  using Result = ", DeviceTypeOf(codes ? DType::kF32 : p.back().result),
                  ";\n");
  absl::StrAppend(&text, EpilogueTypes(p, 0, program, ""));
  if (p.size() == 2) absl::StrAppend(&text, EpilogueTypes(p, 1, program, "2"));
  absl::StrAppend(&text, "  static constexpr int kBlockM = ", s.block_m, ", kBlockK = ", s.block_k,
                  ", kStages = ", s.stages, ", kCluster = ", s.cluster, ";\n");
  absl::StrAppend(&text, "  static constexpr int kWarpgroupsM = ", s.warpgroups_m,
                  ", kWarpgroupsN = ", s.warpgroups_n, ";\n");
  const char* cut = RowOf(s).cut_constant;
  if (cut[0] != 0) absl::StrAppend(&text, "  static constexpr int ", cut, " = ", s.cut, ";\n");
  absl::StrAppend(&text, "  static constexpr int kSharers = ", TilesOf(s.share), ";\n");
  absl::StrAppend(&text,
                  "  static constexpr bool kWeightsTransposed = ", BoolText(Transposed(code)),
                  ", kConstantWeights = ", BoolText(code.constant_weights),
                  ", kSwapped = ", BoolText(s.swapped), ";\n");
  absl::StrAppend(&text, "  static constexpr bool kBias1 = ", BoolText(IsBiased(p, 0, program)),
                  ", kBias2 = ", BoolText(IsBiased(p, 1, program)),
                  ", kOutAligned = ", BoolText(code.out.aligned), ";\n");
  const std::optional<float> norm = p.front().epilogue.norm;
  if (norm.has_value()) {
    absl::StrAppend(&text, "  static constexpr float kNormEps = ", FloatText(*norm), ";\n");
  }
  const ProductTile first = {s.first.block_n, s.first.split_k * GateRanks(s)};
  absl::StrAppend(
      &text, ProductText("First", FirstWidth(p, s), p[0], first, s.share, PermutesColumns(p, s)));
  if (p.size() == 2)
    absl::StrAppend(&text, ProductText("Second", 1, p[1], s.second, Share::kNone, false));
  return absl::StrCat(text, "};\n");
}

// The name of a tensor map. C also has a pointer.
std::string MapName(Role role) { return role == Role::kC ? "c_map" : FieldOf(role); }

std::string MatrixType(const ProductCode& code) {
  const MatrixProduct& last = code.sequence.back();
  const EpilogueProgram& program = last.epilogue.program;
  if (!last.epilogue.has_residual()) return "NoMatrix";
  const std::string leaf = absl::StrCat("MatrixLeaf<", DeviceTypeOf(program.MatrixType()), ", ",
                                        last.n, ", ", BoolText(code.residual.aligned));
  if (program.written()) return leaf + ">";
  const EpilogueForm form = last.epilogue.form();
  const Activation sum = form.sum_activation;
  const std::string activation =
      sum == Activation::kIdentity ? "" : absl::StrCat(", ", ActivationName(sum, false));
  return absl::StrCat(leaf, ", AddMatrix<", BoolText(form.rounds), activation, ">>");
}

// Template argument of factors that lie apart: ", 4".
std::string StrideArgument(const Scales& scales) {
  return scales.strided() ? absl::StrCat(", ", scales.row_stride) : "";
}

// The type of a factor or a scale of the operands' element. With FP8/INT8 operands it is the
// result's type.
const char* TypeLikeOperands(const MatrixProduct& p) {
  const bool f32_of_16_bits = p.result == DType::kF32 && !IsCode(p.rows.element);
  return f32_of_16_bits ? "Config::Element" : "Config::Result";
}

std::string RowScalingType(const MatrixProduct& p) {
  const std::optional<DType> factor = p.epilogue.factor();
  if (p.ReadsRow()) {
    const EpilogueProgram& program = p.epilogue.program;
    const DType element = program.TypeOf(program.InputsOf(LeafKind::kRow)[0]);
    return absl::StrCat("RowFactors<", DeviceTypeOf(element), ">");
  }
  if (p.epilogue.norm.has_value()) return "RowNorms<Config>";
  if (p.rows.scales.kind == ScaleKind::kTensor) return "OneFactor<Float32>";
  if (p.rows.scales.kind == ScaleKind::kVector) {
    return absl::StrCat("RowFactors<Float32", StrideArgument(p.rows.scales), ">");
  }
  if (!factor.has_value()) return p.epilogue.scaled() ? "ConstantScale" : "NoScaling";
  return factor == DType::kF32 ? "RowFactors<Float32>"
                               : absl::StrCat("RowFactors<", TypeLikeOperands(p), ">");
}

std::string ScalingType(const MatrixProduct& p) {
  const ScaleKind columns = p.weights.scales.kind;
  if (columns == ScaleKind::kNone || columns == ScaleKind::kBlock) return RowScalingType(p);
  const bool f32 = p.weights.scales.element == DType::kF32;
  return absl::StrCat("ColumnFactors<", RowScalingType(p), ", ",
                      BoolText(columns == ScaleKind::kTensor),
                      !f32                         ? absl::StrCat(", ", TypeLikeOperands(p))
                      : p.weights.scales.strided() ? std::string(", Float32")
                                                   : std::string(),
                      StrideArgument(p.weights.scales), ">");
}

// Where scales of blocks lie.
std::string ScalesAt(const Scales& scales) {
  if (scales.kind != ScaleKind::kBlock || !scales.strided()) return "Contiguous";
  return absl::StrCat("Strided<", scales.row_stride, ", ", scales.group_stride,
                      scales.of_m ? ", true>" : ">");
}

std::string BlockScalesType(const MatrixProduct& p) {
  const std::string rows = ScalesAt(p.rows.scales), weights = ScalesAt(p.weights.scales);
  const bool strided = rows != "Contiguous" || weights != "Contiguous";
  return absl::StrCat("BlockScales<", BoolText(p.rows.scales.kind == ScaleKind::kBlock), ", ",
                      BoolText(p.weights.scales.kind == ScaleKind::kBlock),
                      strided ? absl::StrCat(", ", rows, ", ", weights) : "", ">");
}

// Empty if results are not FP8/INT8 values.
std::string CodesType(const MatrixProduct& p) {
  const std::optional<QuantizeRule>& rule = p.epilogue.quantize;
  if (!rule.has_value()) return "";
  if (rule->columns == 0) return "GivenScale";
  return absl::StrCat("GroupScales<", BoolText(rule->ue8m0), ">");
}

// "AuxResults<AuxResult<Float32, true>>"; empty without auxiliary results. A result that is pushed
// to other ranks is one.
std::string AuxType(const ProductCode& code) {
  const Schedule& s = code.schedule;
  if (s.pushed_columns > 0)
    return absl::StrCat("SentBehind<", s.pushes, ", ", s.pushed_columns, ">");
  if (s.pushes > 0) return absl::StrCat("PushedTo<", s.pushes, ">");
  const EpilogueProgram& program = code.sequence.back().epilogue.program;
  std::vector<std::string> list;
  for (const RowLayout& layout : code.aux) {
    const DType type = program.AuxType(static_cast<int>(list.size()));
    list.push_back(
        absl::StrCat("AuxResult<", DeviceTypeOf(type), ", ", BoolText(layout.aligned), ">"));
  }
  return list.empty() ? "" : absl::StrCat("AuxResults<", absl::StrJoin(list, ", "), ">");
}

// Template arguments of the kernel's function: the Config, the matrix, the scaling of each
// product, scales of blocks, codes, auxiliary results. Unused ones at the end are left out.
std::string FunctionArguments(const ProductCode& code) {
  const ProductSequence& p = code.sequence;
  const std::string codes = CodesType(p.back()), aux = AuxType(code);
  const bool blocks = p.front().HasBlockScales() || !codes.empty() || !aux.empty();
  const bool scaled = p.scaled() || blocks;
  std::vector<std::string> list = {"Config"};
  if (p.back().epilogue.has_residual() || scaled) list.push_back(MatrixType(code));
  if (scaled) list.emplace_back(ScalingType(p.front()));
  if (p.size() == 2 && p.back().scaled()) list.emplace_back(ScalingType(p.back()));
  if (blocks) {
    list.push_back(p.front().HasBlockScales() ? BlockScalesType(p.front()) : "NoBlockScales");
  }
  if (!codes.empty() || !aux.empty()) list.push_back(codes.empty() ? "NoCodes" : codes);
  if (!aux.empty()) list.push_back(aux);
  return absl::StrJoin(list, ", ");
}

// The template arguments of the types from which sizes follow.
std::string TypesArguments(const ProductCode& code) {
  const std::string codes = CodesType(code.sequence.back());
  return codes.empty() ? "Config" : absl::StrCat("Config, ", codes);
}

std::string PointerType(const ProductCode& code, Role role) {
  if (role == Role::kPartialOut) return "float* ";
  const char* stored = StoredType(ShapeOf(code.sequence, role).element);
  const bool written =
      role == Role::kOut || role == Role::kC || role == Role::kScaleOut || role.kind == Role::kAux;
  return absl::StrCat(written ? "" : "const ", stored, "* ");
}

// The field of Arguments that a pointer is put into: a scale of whole rows is their factor.
std::string ArgumentOf(const ProductCode& code, Role role) {
  const bool blocks = code.sequence.front().rows.scales.kind == ScaleKind::kBlock;
  return FieldOf(role == Role::kScaleA && !blocks ? Role::kFactor : role);
}

// Whether it is a vector of columns or a number of a program.
bool IsLeaf(Role role) {
  return role.kind == Role::kBias || role.kind == Role::kBiasUp || role.kind == Role::kLeaf;
}

std::string EntryText(const ProductCode& code, const ProgramSource& program) {
  const KernelParameters parameters = ParametersOf(code);
  const Schedule& s = code.schedule;
  std::vector<std::string> list, fill, leaves[2];
  for (Role role : parameters.maps) {
    list.push_back(absl::StrCat("const __grid_constant__ TensorMap ", MapName(role)));
    fill.push_back(absl::StrCat("  args.", MapName(role), " = &", MapName(role), ";\n"));
  }
  for (Role role : parameters.pointers) {
    list.push_back(absl::StrCat(PointerType(code, role), FieldOf(role)));
    if (program.parts[role.product].leaves && IsLeaf(role)) {
      leaves[role.product].push_back(FieldOf(role));
      continue;
    }
    fill.push_back(absl::StrCat("  args.", ArgumentOf(code, role), " = ", FieldOf(role), ";\n"));
  }
  for (int i = 0; i < code.sequence.size(); ++i) {
    if (!program.parts[i].leaves) continue;
    const std::string name = absl::StrCat("leaves", i + 1);
    fill.push_back(absl::StrCat("  const ", program.parts[i].name, "::Leaves ", name, " = {",
                                absl::StrJoin(leaves[i], ", "), "};\n  args.bias", i + 1, " = &",
                                name, ";\n"));
  }
  if (parameters.push) {
    list.insert(list.end(), {"void* room", "u64 plan"});
    fill.push_back("  args.aux1 = room;\n  args.aux1_stride = static_cast<long long>(plan);\n");
  }
  if (parameters.workspace) {
    list.push_back("u32* workspace");
    fill.push_back("  args.workspace = workspace;\n");
  }
  if (code.sequence.back().epilogue.has_residual()) {
    fill.push_back(absl::StrCat("  args.residual_stride = ", code.residual.stride, ";\n"));
  }
  for (size_t i = 0; i < code.aux.size(); ++i) {
    fill.push_back(absl::StrCat("  args.aux", i + 1, "_stride = ", code.aux[i].stride, ";\n"));
  }
  for (int i = 0; i < code.sequence.size(); ++i) {
    const MatrixProduct& p = code.sequence[i];
    if (!p.scaled()) continue;
    fill.push_back(
        absl::StrCat("  args.scale", i + 1, " = ", FloatText(p.epilogue.scale()), ";\n"));
  }
  if (code.sequence.back().HasGroups()) {
    const QuantizeRule& rule = *code.sequence.back().epilogue.quantize;
    const float bound = rule.bound == 0 ? std::numeric_limits<float>::max() : rule.bound;
    fill.push_back(absl::StrCat("  args.eps = ", FloatText(rule.eps),
                                ";\n  args.bound = ", FloatText(bound), ";\n"));
  }
  list.push_back("int m");
  if (parameters.k) {
    list.push_back("int k");
    fill.push_back("  args.k = k;\n");
  }
  return absl::Substitute(
      "extern \"C\" __global__ void __launch_bounds__($0, 1)\n$1($2) {\n  Arguments args = {};\n$3"
      "  args.out_stride = $4;\n  args.m = m;\n  $5<$6>(args);\n}\n",
      ThreadsOf(s), EntryName(s), absl::StrJoin(list, ",\n    "), absl::StrJoin(fill, ""),
      code.out.stride, FunctionName(s), FunctionArguments(code));
}

}  // namespace

std::string EntryName(const Schedule& s) { return absl::StrCat("sinter_", FunctionName(s)); }

std::string KernelHeader(const Schedule& s) {
  return absl::StrCat("kernels/", FunctionName(s), ".cuh");
}

int ThreadsOf(const Schedule& s) { return 128 * (1 + s.warpgroups_m * s.warpgroups_n); }

KernelParameters ParametersOf(const ProductCode& code) {
  const ProductSequence& p = code.sequence;
  const bool writes_c = WritesC(code.schedule);
  KernelParameters list;
  list.maps = {Role::kA, Role::kW};
  const ProductEpilogue& last = p.back().epilogue;
  const bool two = p.size() == 2;
  if (p.front().pair) list.maps.push_back(Role::kWUp);
  if (writes_c) list.maps.push_back(Role::kC);
  if (two) list.maps.push_back(Role(Role::kW, 1));
  const auto add_leaves = [&](std::initializer_list<Role::Kind> kinds) {
    for (int i = 0; i < p.size(); ++i) {
      for (const Leaf& leaf : p[i].Leaves(i)) {
        if (std::find(kinds.begin(), kinds.end(), leaf.role.kind) != kinds.end())
          list.pointers.push_back(leaf.role);
      }
    }
  };
  add_leaves({Role::kBias, Role::kBiasUp});
  add_leaves({Role::kResidual});
  add_leaves({Role::kFactor});
  if (Has(p.front().rows.scales)) list.pointers.push_back(Role::kScaleA);
  if (Has(p.front().weights.scales)) {
    list.pointers.push_back(Role::kScaleW);
    if (p.front().pair) list.pointers.push_back(Role::kScaleUp);
  }
  if (two && Has(p.back().weights.scales)) list.pointers.push_back(Role(Role::kScaleW, 1));
  add_leaves({Role::kLeaf});
  if (last.quantize.has_value() && !last.has_groups()) list.pointers.push_back(Role::kGivenScale);
  list.pointers.push_back(Role::kOut);
  if (last.has_groups()) list.pointers.push_back(Role::kScaleOut);
  for (int i = 0; i < p.back().AuxResults(); ++i) list.pointers.emplace_back(Role::kAux, 0, i);
  if (writes_c) list.pointers.push_back(Role::kC);
  if (RangesOf(code.schedule) > 1) list.pointers.push_back(Role::kPartialOut);
  list.push = code.schedule.pushes > 0;
  list.workspace = IsCooperative(code.schedule);
  list.k = p.front().k_is_m;
  return list;
}

absl::StatusOr<std::string> ProductSource(const ProductCode& code) {
  const ElementRow element = ElementOf(code.sequence.front());
  if (!element.planned) {
    return Invalid("no kernel multiplies ", NameOf(code.sequence.element()));
  }
  const ProgramSource program = ProgramSourceOf(code.sequence);
  return absl::StrCat(
      "// ", code.sequence.ToString(), "\n// ", code.schedule.ToString(), "\n#include \"",
      KernelHeader(code.schedule), "\"\n",
      HasPrograms(code.sequence) ? absl::StrCat("#include \"", kProgramHeader, "\"\n") : "",
      code.schedule.pushes > 0 ? absl::StrCat("#include \"", kPushHeader, "\"\n") : "",
      "\nnamespace sinter {\n\n", WgmmaWrappers(code, element), program.text,
      ConfigText(code, element, program), "static_assert(", TypesName(code.schedule), "<",
      TypesArguments(code),
      ">::Layout::kBytes == ", SizesOf(code.sequence, code.schedule).shared_bytes,
      ", \"the plan and the device library agree on shared memory\");\n\n",
      EntryText(code, program), "\n}  // namespace sinter\n");
}

}  // namespace sinter
