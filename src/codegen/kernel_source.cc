#include "src/codegen/kernel_source.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/substitute.h"
#include "src/codegen/stitch/op_text.h"
#include "src/codegen/wgmma_source.h"

namespace sinter {
namespace {

// What generated source calls a dataflow's parts in the device library.
struct KernelNames {
  const char* header;
  const char* function;
  const char* types;
  const char* entry;
};

KernelNames NamesOf(const Schedule& s) {
  if (s.clusters_n > 1)
    return {"kernels/chain_clusters.cuh", "chain_clusters", "ChainClustersTypes",
            "sinter_clusters_exchange"};
  if (s.spatial_gate)
    return {"kernels/chain_spatial.cuh", "chain_spatial", "ChainSpatialTypes",
            "sinter_spatial_exchange"};
  if (s.slab_columns > 0)
    return {"kernels/chain_spill.cuh", "chain_spill", "ChainSpillTypes", "sinter_spilled_exchange"};
  switch (s.dataflow) {
    case Dataflow::kProduct:
      return {"kernels/gemm.cuh", "gemm", "GemmTypes", "sinter_product"};
    case Dataflow::kGridExchange:
      return {"kernels/chain_grid.cuh", "chain_grid", "ChainGridTypes", "sinter_grid_exchange"};
    case Dataflow::kClusterExchange:
      return {"kernels/chain_cluster.cuh", "chain_cluster", "ChainClusterTypes",
              "sinter_cluster_exchange"};
    case Dataflow::kTaskList:
      return {"kernels/chain_tasks.cuh", "chain_tasks", "ChainTasksTypes", "sinter_task_list"};
  }
  return {"", "", "", ""};
}

const char* ActivationName(Activation activation) {
  switch (activation) {
    case Activation::kIdentity:
      return "Identity";
    case Activation::kRelu:
      return "Relu";
    case Activation::kGeluTanh:
      return "GeluTanh";
    case Activation::kGeluErf:
      return "GeluErf";
    case Activation::kSilu:
      return "Silu";
  }
  return "";
}

const char* Bool(bool b) { return b ? "true" : "false"; }

bool Transposed(const KernelCode& code) { return code.problem.layout == Layout::kIO; }

// One specialisation for each N that a warpgroup multiplies.
std::string WgmmaWrappers(const KernelCode& code) {
  const Schedule& s = code.schedule;
  if (s.swapped) return WgmmaSource(s.block_m, code.problem.dtype, Transposed(code), false) + "\n";
  std::set<int> widths = {FirstWidth(code.problem, s) * s.first.block_n / s.warpgroups_n};
  if (code.problem.products == 2) widths.insert(s.second.block_n / s.warpgroups_n);
  std::string text;
  for (int n : widths)
    absl::StrAppend(&text, WgmmaSource(n, code.problem.dtype, false, Transposed(code)), "\n");
  return text;
}

std::string ProductText(const char* name, int width, int64_t n, int64_t k, const ProductTile& tile,
                        Share share) {
  const std::string shares =
      share == Share::kNone ? "" : absl::StrCat(", ", TilesM(share), ", ", TilesN(share));
  return absl::Substitute("  using $0 = Product<Config, $1, $2, $3, $4, $5$6>;\n", name, width, n,
                          k, tile.block_n, tile.split_k, shares);
}

std::string ConfigText(const KernelCode& code) {
  const FfnProblem& p = code.problem;
  const Schedule& s = code.schedule;
  std::string text = "struct Config {\n";
  absl::StrAppend(&text, "  using Element = ", ElementName(p.dtype), ";\n");
  absl::StrAppend(&text, "  using Activation = ", ActivationName(p.activation), ";\n");
  absl::StrAppend(&text, "  static constexpr int kBlockM = ", s.block_m, ", kBlockK = ", s.block_k,
                  ", kStages = ", s.stages, ", kCluster = ", s.cluster, ";\n");
  absl::StrAppend(&text, "  static constexpr int kWarpgroupsM = ", s.warpgroups_m,
                  ", kWarpgroupsN = ", s.warpgroups_n, ";\n");
  if (s.slab_columns > 0)
    absl::StrAppend(&text, "  static constexpr int kSlabColumns = ", s.slab_columns, ";\n");
  absl::StrAppend(&text, "  static constexpr int kSharers = ",
                  std::max(TilesOf(s.share), TilesOf(s.second_share)), ";\n");
  absl::StrAppend(&text, "  static constexpr bool kWeightsTransposed = ", Bool(Transposed(code)),
                  ", kConstantWeights = ", Bool(code.constant_weights),
                  ", kSwapped = ", Bool(s.swapped), ";\n");
  absl::StrAppend(&text, "  static constexpr bool kBias1 = ", Bool(p.bias1),
                  ", kBias2 = ", Bool(p.bias2), ", kOutAligned = ", Bool(code.out.aligned), ";\n");
  const ProductTile first = {s.first.block_n, s.first.split_k * GateRanks(s)};
  absl::StrAppend(&text, ProductText("First", FirstWidth(p, s), p.n, p.k, first, s.share));
  if (p.products == 2)
    absl::StrAppend(&text, ProductText("Second", 1, p.l, p.n, s.second, s.second_share));
  return absl::StrCat(text, "};\n");
}

const char* ParameterName(Role role) {
  switch (role) {
    case Role::kA:
      return "rows";
    case Role::kW1:
      return "weights";
    case Role::kWUp:
      return "weights_up";
    case Role::kB1:
      return "bias";
    case Role::kBUp:
      return "bias_up";
    case Role::kW2:
      return "weights2";
    case Role::kB2:
      return "bias2";
    case Role::kOut:
      return "out";
    case Role::kC:
      return "exchange";
    case Role::kResidual:
      return "residual";
    case Role::kFactor1:
      return "factor";
    case Role::kFactor2:
      return "factor2";
    case Role::kParts:
      return "parts";
    case Role::kCount:
      break;
  }
  return "";
}

std::string MapName(Role role) { return role == Role::kC ? "exchange_rows" : ParameterName(role); }

std::string ResidualType(const KernelCode& code) {
  const FfnProblem& p = code.problem;
  if (p.residual == Residual::kNone) return "NoResidual";
  return absl::StrCat("ResidualRows<Config::Element, ", p.products == 2 ? p.l : p.n, ", ",
                      Bool(p.residual == Residual::kAddedRounded), ", ",
                      Bool(code.residual.aligned), ">");
}

const char* ScalingType(const Scaling& s) {
  switch (s.rows) {
    case RowFactor::kF32:
      return "RowFactors<Float32>";
    case RowFactor::kElement:
      return "RowFactors<Config::Element>";
    case RowFactor::kNone:
      break;
  }
  return s.any() ? "ConstantScale" : "NoScaling";
}

// What the kernel's function takes: the Config, what is added to the result, and what products are
// multiplied by; nothing behind the last that there is.
std::string FunctionArguments(const KernelCode& code) {
  const FfnProblem& p = code.problem;
  std::vector<std::string> list = {"Config"};
  if (p.residual != Residual::kNone || p.scaled()) list.push_back(ResidualType(code));
  if (p.scaled()) list.emplace_back(ScalingType(p.scaling1));
  if (p.scaling2.any()) list.emplace_back(ScalingType(p.scaling2));
  return absl::StrJoin(list, ", ");
}

const char* PointerType(const KernelCode& code, Role role) {
  const FfnProblem& p = code.problem;
  if (role == Role::kParts) return "float* ";
  if (role == Role::kOut || role == Role::kC) return "u16* ";
  const bool single = (role == Role::kFactor1 && p.scaling1.rows == RowFactor::kF32) ||
                      (role == Role::kFactor2 && p.scaling2.rows == RowFactor::kF32);
  return single ? "const float* " : "const u16* ";
}

std::string EntryText(const KernelCode& code) {
  const KernelParameters parameters = ParametersOf(code);
  const Schedule& s = code.schedule;
  std::vector<std::string> list, fill;
  for (Role role : parameters.maps) {
    list.push_back(absl::StrCat("const __grid_constant__ TensorMap ", MapName(role)));
    fill.push_back(absl::StrCat("  args.", MapName(role), " = &", MapName(role), ";\n"));
  }
  for (Role role : parameters.pointers) {
    list.push_back(absl::StrCat(PointerType(code, role), ParameterName(role)));
    fill.push_back(absl::StrCat("  args.", ParameterName(role), " = ", ParameterName(role), ";\n"));
  }
  if (parameters.workspace) {
    list.push_back("u32* workspace");
    fill.push_back("  args.workspace = workspace;\n");
  }
  if (code.problem.residual != Residual::kNone) {
    fill.push_back(absl::StrCat("  args.residual_stride = ", code.residual.stride, ";\n"));
  }
  if (code.problem.scaling1.any()) {
    fill.push_back(
        absl::StrCat("  args.scale = ", FloatText(code.problem.scaling1.constant), ";\n"));
  }
  if (code.problem.scaling2.any()) {
    fill.push_back(
        absl::StrCat("  args.scale2 = ", FloatText(code.problem.scaling2.constant), ";\n"));
  }
  list.push_back("int m");
  return absl::Substitute(
      "extern \"C\" __global__ void __launch_bounds__($0, 1)\n$1($2) {\n  Arguments args = {};\n$3"
      "  args.out_stride = $4;\n  args.m = m;\n  $5<$6>(args);\n}\n",
      ThreadsOf(s), EntryName(s), absl::StrJoin(list, ",\n    "), absl::StrJoin(fill, ""),
      code.out.stride, NamesOf(s).function, FunctionArguments(code));
}

}  // namespace

const char* EntryName(const Schedule& schedule) { return NamesOf(schedule).entry; }

int ThreadsOf(const Schedule& s) { return 128 * (1 + s.warpgroups_m * s.warpgroups_n); }

KernelParameters ParametersOf(const KernelCode& code) {
  const FfnProblem& p = code.problem;
  const bool writes_c = WritesC(code.schedule);
  KernelParameters list;
  list.maps = {Role::kA, Role::kW1};
  if (p.gated) list.maps.push_back(Role::kWUp);
  if (writes_c) list.maps.push_back(Role::kC);
  if (p.products == 2) list.maps.push_back(Role::kW2);
  if (p.bias1) list.pointers.push_back(Role::kB1);
  if (p.bias1 && p.gated) list.pointers.push_back(Role::kBUp);
  if (p.bias2) list.pointers.push_back(Role::kB2);
  if (p.residual != Residual::kNone) list.pointers.push_back(Role::kResidual);
  if (p.scaling1.rows != RowFactor::kNone) list.pointers.push_back(Role::kFactor1);
  if (p.scaling2.rows != RowFactor::kNone) list.pointers.push_back(Role::kFactor2);
  list.pointers.push_back(Role::kOut);
  if (writes_c) list.pointers.push_back(Role::kC);
  if (code.schedule.clusters_n > 1) list.pointers.push_back(Role::kParts);
  list.workspace = IsCooperative(code.schedule);
  return list;
}

std::string KernelSource(const KernelCode& code) {
  return absl::StrCat(
      "// ", code.ProblemText(), "\n// ", code.ScheduleText(), "\n#include \"",
      NamesOf(code.schedule).header, "\"\n\nnamespace sinter {\n\n", WgmmaWrappers(code),
      ConfigText(code), "static_assert(", NamesOf(code.schedule).types,
      "<Config>::Layout::kBytes == ", SizesOf(code.problem, code.schedule).shared_bytes,
      ", \"the plan and the device library agree on shared memory\");\n\n", EntryText(code),
      "\n}  // namespace sinter\n");
}

}  // namespace sinter
