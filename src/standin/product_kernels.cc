#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "src/base/numbers.h"
#include "src/base/status.h"
#include "src/product/code/kernel_source.h"
#include "src/standin/stand_in.h"

namespace sinter {
namespace {

constexpr int kSharedBytes = 227 * 1024, kSlackBytes = 2 * 1024;  // of a block; barriers, alignment
constexpr int kMostStages = 12;

// Rows and columns of a tile, blocks that share its K, and K of a stage.
struct Tile {
  int block_m, block_n, split, block_k;
  bool for_pairs;
};
constexpr Tile kTiles[] = {{16, 64, 1, 128, true},  {16, 64, 4, 128, true}, {16, 64, 8, 128, true},
                           {64, 64, 1, 128, true},  {64, 64, 4, 128, true}, {64, 64, 8, 128, true},
                           {128, 64, 1, 64, true},  {128, 64, 2, 64, true}, {128, 64, 4, 64, true},
                           {128, 128, 1, 64, false}};

ProductStandIn Make(const Tile& tile, DType element, Layout layout, bool pair) {
  ProductStandIn made{element, layout, pair, {}, 0};
  Schedule& s = made.schedule;
  s.block_m = tile.block_m;
  s.warpgroups_m = 1;
  s.warpgroups_n = tile.block_n / 64;
  s.swapped = true;
  s.block_k = tile.block_k;
  s.cluster = tile.split;
  s.first = {tile.block_n, tile.split};
  const int columns = tile.block_n * (pair ? 2 : 1);
  const int owned = static_cast<int>(RoundUp(CeilDiv(tile.block_m, tile.split), 2));
  const int parts = tile.split * owned * columns * 4;
  const int stage = (tile.block_m + columns) * tile.block_k * ElementOf(element).bytes;
  s.stages = std::min((kSharedBytes - kSlackBytes - parts) / stage, kMostStages);
  made.shared_bytes = int64_t{s.stages} * stage + parts + kSlackBytes;
  return made;
}

std::vector<ProductStandIn> MakeAll() {
  std::vector<ProductStandIn> all;
  for (const DType element : {DType::kBF16, DType::kF16}) {
    for (const Layout layout : {Layout::kOI, Layout::kIO}) {
      for (const bool pair : {false, true}) {
        for (const Tile& tile : kTiles) {
          if (!pair || tile.for_pairs) all.push_back(Make(tile, element, layout, pair));
        }
      }
    }
  }
  return all;
}

absl::Status Refuse(absl::string_view what) {
  return FailedPrecondition("no stand-in multiplies ", what);
}

absl::Status CheckOne(const MatrixProduct& p) {
  if (p.rows.element != DType::kBF16 && p.rows.element != DType::kF16) {
    return Refuse(absl::StrCat("operands of ", NameOf(p.rows.element), ", only bf16 and f16"));
  }
  if (p.rows.source == Source::kWindow) return Refuse("pixels of a convolution");
  if (p.HasTransposedRows()) return Refuse("transposed rows");
  if (p.result != p.rows.element && p.result != DType::kF32) {
    return Refuse(
        absl::StrCat("into ", NameOf(p.result), ", only into its operands' element and f32"));
  }
  // Its forms of the activations are the ones for results of 16 bits.
  const Activation act = p.epilogue.activation();
  if (p.result == DType::kF32 && act != Activation::kIdentity && act != Activation::kRelu) {
    return Refuse(absl::StrCat("into f32 with ", NameOf(act), ", only with relu"));
  }
  if (p.result == DType::kF32 && p.epilogue.has_residual()) {
    return Refuse("into f32 with a residual");
  }
  if (p.epilogue.norm.has_value()) return Refuse("rows whose norm it would compute");
  if (p.weights.scales.kind != ScaleKind::kNone) return Refuse("weights with scales");
  if (p.epilogue.program.written()) return Refuse("with a program after the product");
  const DType bias = p.epilogue.bias().value_or(p.rows.element);
  if (bias != p.rows.element) {
    return Refuse(absl::StrCat("with a bias of ", NameOf(bias)));
  }
  return absl::OkStatus();
}

bool Fits(const ProductSequence& sequence, const ProductStandIn& s) {
  const MatrixProduct& p = sequence.front();
  return s.element == p.rows.element && s.layout == p.weights.layout && s.pair == p.pair &&
         s.schedule.first.split_k <= CeilDiv(p.k, s.schedule.block_k);
}

constexpr char kSource[] = R"(#include "kernels/any_product.cuh"

namespace sinter {

$0
struct Config {
  using Element = $1;
  using Result = $1;
  static constexpr int kBlockM = $2, kBlockK = $3, kStages = $4, kCluster = $5;
  static constexpr int kWarpgroupsM = 1, kWarpgroupsN = $6, kSharers = 1;
  static constexpr bool kWeightsTransposed = $7, kSwapped = true;
  using First = Product<Config, $8, 1 << 24, 1 << 24, 64 * kWarpgroupsN, kCluster>;
};
)";
constexpr char kEntry[] = R"(static_assert(AnyProductTypes<Config>::Layout::kBytes == $0,
              "the library and its device library agree on shared memory");

extern "C" __global__ void __launch_bounds__($1, 1)
$2(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap w1,
   $3const void* bias1, const void* bias_up, const void* residual, const void* factor, void* out,
   int n, int k, float scale, int flags, int residual_stride, int out_stride, int m) {
  AnyArguments args = {&a, &w1, $4, bias1, bias_up, residual, factor, out, n, k, scale,
                       static_cast<u32>(flags), residual_stride, out_stride, m};
  any_product<Config>(args);
}

}  // namespace sinter
)";

}  // namespace

const std::vector<ProductStandIn>& ProductStandIns() {
  static const std::vector<ProductStandIn>* const all = new std::vector<ProductStandIn>(MakeAll());
  return *all;
}

int FindStandIn(const ProductSequence& sequence, const Schedule& schedule) {
  Schedule plain = schedule;
  plain.grid = 0;
  const std::vector<ProductStandIn>& all = ProductStandIns();
  for (size_t i = 0; i < all.size(); ++i) {
    if (Fits(sequence, all[i]) && all[i].schedule == plain) return static_cast<int>(i);
  }
  return -1;
}

std::string NameOf(const ProductStandIn& s) {
  return absl::StrCat("product_", NameOf(s.element), s.layout == Layout::kIO ? "_io" : "_oi",
                      s.pair ? "_pair_" : "_", s.schedule.block_m, "x", s.schedule.first.block_n,
                      "_k", s.schedule.cluster);
}

std::string SourceOf(const ProductStandIn& stand_in) {
  const Schedule& s = stand_in.schedule;
  const ElementRow& element = ElementOf(stand_in.element);
  const bool io = stand_in.layout == Layout::kIO;
  return absl::StrCat(
      absl::Substitute(kSource, WgmmaSource(s.block_m, element, io, false), element.device_type,
                       s.block_m, s.block_k, s.stages, s.cluster, s.warpgroups_n,
                       io ? "true" : "false", stand_in.pair ? 2 : 1),
      absl::Substitute(kEntry, stand_in.shared_bytes, 128 * (1 + s.warpgroups_n),
                       kStandInProductEntry,
                       stand_in.pair ? "const __grid_constant__ TensorMap w_up, " : "",
                       stand_in.pair ? "&w_up" : "nullptr"));
}

absl::Status CheckStandIn(const ProductSequence& sequence) {
  for (const MatrixProduct& p : sequence.products) {
    const absl::Status status = CheckOne(p);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

void VisitStandIns(const ProductSequence& sequence, const DeviceModel& model,
                   const std::function<void(const Schedule&)>& visit) {
  for (const ProductStandIn& stand_in : ProductStandIns()) {
    if (!Fits(sequence, stand_in)) continue;
    Schedule s = stand_in.schedule;
    const int64_t blocks = SizesOf(sequence, s).units * s.cluster;
    s.grid = static_cast<int>(std::min<int64_t>(blocks, model.ResidentBlocks(s.cluster)));
    visit(s);
  }
}

uint32_t StandInFlags(const MatrixProduct& product, bool out_aligned, bool residual_aligned,
                      bool constant_weights) {
  const ProductEpilogue& e = product.epilogue;
  const bool wide = e.factor() == DType::kF32;
  const bool bits[] = {e.bias().has_value(),
                       e.has_residual(),
                       e.factor().has_value() && !wide,
                       wide,
                       e.form().rounds,
                       out_aligned,
                       residual_aligned,
                       constant_weights};
  uint32_t flags = 0;
  for (int i = 0; i < 8; ++i) flags |= bits[i] ? 1u << i : 0;
  return flags | static_cast<uint32_t>(e.activation()) << 8 |
         static_cast<uint32_t>(e.sum_activation()) << 11 |
         (product.result == DType::kF32 ? 1u << 14 : 0);
}

absl::StatusOr<LaunchRecipe> StandInRecipe(const ProductCode& code, const ProductBinding& binding) {
  const int index = FindStandIn(code.sequence, code.schedule);
  if (index < 0) return Invalid("no stand-in has the schedule ", code.schedule.ToString());
  SINTER_ASSIGN_OR_RETURN(LaunchRecipe recipe, ProductLaunch(code, binding));
  recipe.entry = kStandInProductEntry;
  recipe.shared_bytes =
      static_cast<uint32_t>(ProductStandIns()[static_cast<size_t>(index)].shared_bytes);
  const MatrixProduct& p = code.sequence.front();
  // What the kernel lacks is never read; its pointer is the result's.
  for (Role role : {Role::kBias, Role::kBiasUp, Role::kResidual, Role::kFactor, Role::kOut}) {
    const bool there = FindOperand(binding.operands, role) != nullptr;
    SINTER_ASSIGN_OR_RETURN(ArgSlot slot, ProductPointer(code, binding, there ? role : Role::kOut));
    recipe.args.push_back(slot);
  }
  const uint32_t flags =
      StandInFlags(p, code.out.aligned, code.residual.aligned, code.constant_weights);
  recipe.args.push_back(ConstantSlot(p.n));
  recipe.args.push_back(ConstantSlot(p.k));
  ArgSlot scale;
  scale.kind = ArgKind::kFloat32;
  scale.float_value = p.epilogue.scale();
  recipe.args.push_back(scale);
  recipe.args.push_back(ConstantSlot(flags));
  recipe.args.push_back(ConstantSlot(code.residual.stride));
  recipe.args.push_back(ConstantSlot(code.out.stride));
  recipe.args.push_back(RowsSlot(binding));
  return recipe;
}

}  // namespace sinter
