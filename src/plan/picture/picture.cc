#include "src/plan/picture/picture.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "src/base/ceil_div.h"
#include "src/base/launch_recipe.h"
#include "src/draw/units.h"
#include "src/product/role_shape.h"

namespace sinter {
namespace {

// `bytes`: of one element.
MatrixPicture Matrix(Role role, int64_t rows, int64_t columns, int64_t bytes) {
  return {role, rows, columns, rows * columns * bytes};
}

// Weights as stored in memory.
MatrixPicture Weights(Role role, const MatrixProduct& p) {
  const bool oi = p.weights.layout == Layout::kOI;
  return Matrix(role, oi ? p.n : p.k, oi ? p.k : p.n, p.weights.bytes());
}

bool InWorkspace(const KernelSpec& spec, Role role) {
  for (const OperandBinding& b : spec.operands) {
    if (b.role == role) return b.buffer == kWorkspaceBuffer;
  }
  return false;
}

// "(scale_a a)", or "a" where it has no scales.
std::string Dequantised(const Operand& operand, Role role, Role scale) {
  if (operand.scales.kind == ScaleKind::kNone) return std::string(NameOf(role));
  return absl::StrCat("(", NameOf(scale), " ", NameOf(role), ")");
}

// "0.125 factor1 (a w1) + bias1": rows times weights, scaled, with their bias. A norm of the rows
// is "rsqrt(mean(a^2) + 1e-06) (a w1)".
std::string Term(const EpilogueList& e, absl::string_view rows, absl::string_view weights,
                 Role factor, Role bias) {
  std::string text = absl::StrCat(rows, " ", weights);
  if (e.scaled()) text = absl::StrCat("(", text, ")");
  if (e.has_factor()) text = absl::StrCat(NameOf(factor), " ", text);
  if (e.has_norm()) text = absl::StrCat("rsqrt(mean(", rows, "^2) + ", e.eps(), ") ", text);
  if (e.Has(EpilogueOp::kScale)) text = absl::StrCat(e.scale(), " ", text);
  if (e.has_bias()) absl::StrAppend(&text, " + ", NameOf(bias));
  return text;
}

std::string Activated(Activation activation, const std::string& term) {
  if (activation == Activation::kIdentity) return term;
  return absl::StrCat(NameOf(activation), "(", term, ")");
}

// "out = round(..) + residual"
std::string Formula(Role result, const EpilogueList& e, std::string text) {
  if (e.Has(EpilogueOp::kRound)) text = absl::StrCat("round(", text, ")");
  if (e.Has(EpilogueOp::kResidual)) absl::StrAppend(&text, " + ", NameOf(Role::kResidual));
  if (e.program() != nullptr) {
    text = absl::StrCat(sinter::ToString(*e.program()), " of y = ", text);
  }
  text = Activated(e.sum_activation(), text);
  if (e.quantize() != nullptr) {
    const Role scale = e.has_groups() ? Role::kScaleOut : Role::kGivenScale;
    text = absl::StrCat("codes((", text, ") / ", NameOf(scale), ")");
  }
  return absl::StrCat(NameOf(result), " = ", text);
}

std::string FirstFormula(const MatrixProduct& p, Role result) {
  const EpilogueList& e = p.epilogue;
  const std::string rows = Dequantised(p.rows, Role::kA, Role::kScaleA);
  const std::string weights = Dequantised(p.weights, Role::kW1, Role::kScaleW1);
  std::string text =
      Activated(e.activation(), Term(e, rows, weights, Role::kFactor1, Role::kBias1));
  if (p.pair) {
    const std::string up = Dequantised(p.weights, Role::kWUp, Role::kScaleUp);
    absl::StrAppend(&text, e.program() != nullptr ? ", up = (" : " * (",
                    Term(e, rows, up, Role::kFactor1, Role::kBiasUp), ")");
  }
  return Formula(result, e, text);
}

// Fills in the tiles of a product with `columns` columns, and the clusters that take them.
void FillTiles(const KernelSpec& spec, const DataflowRow& row, const ProductTile& tile, Share share,
               int64_t columns, ProductPicture* out) {
  const Schedule& s = spec.schedule;
  out->tile_rows = std::min<int64_t>(s.block_m, std::max<int64_t>(1, spec.sequence.rows()));
  out->tile_columns = std::min<int64_t>(tile.block_n, columns);
  out->split_k = tile.split_k;
  out->share = share;
  out->row_tiles = CeilDiv(spec.sequence.rows(), s.block_m);
  out->column_tiles = CeilDiv(columns, tile.block_n);
  if (row.cluster_owns_rows) {
    const int64_t blocks = s.cluster / (out->apart ? GateRanks(s) : 1);
    out->column_tiles = CeilDiv(out->column_tiles, blocks) * blocks;
  }
  if (!row.cluster_owns_rows) {
    const int64_t blocks = tile.split_k * TilesOf(share);
    const int64_t groups = std::max<int64_t>(1, s.grid / std::max<int64_t>(1, blocks));
    const int64_t units =
        CeilDiv(out->row_tiles, TilesM(share)) * CeilDiv(out->column_tiles, TilesN(share));
    out->turns = std::max<int64_t>(1, CeilDiv(units, groups));
  }
}

ProductPicture FirstProduct(const KernelSpec& spec, const DataflowRow& row) {
  const MatrixProduct& p = spec.sequence.front();
  const int64_t rows = spec.sequence.rows();
  const Role result = spec.sequence.size() == 2 ? Role::kC : Role::kOut;
  ProductPicture product;
  product.formula = FirstFormula(p, result);
  product.result = Matrix(result, rows, p.n, p.ResultBytes());
  product.operands = {Matrix(Role::kA, rows, p.k, p.rows.bytes()), Weights(Role::kW1, p)};
  const RoleShape stored = ShapeOf(spec.sequence, Role::kA);  // of a window: its pixels, once
  product.operands[0].bytes = stored.rows * stored.RowBytes();
  if (p.pair) product.operands.push_back(Weights(Role::kWUp, p));
  product.operands_from = InWorkspace(spec, Role::kA) ? "L2 and HBM" : "HBM";
  product.k = p.k;
  product.width = p.Width();
  product.apart = GateRanks(spec.schedule) > 1;
  FillTiles(spec, row, spec.schedule.first, spec.schedule.share, p.n, &product);
  return product;
}

ProductPicture SecondProduct(const KernelSpec& spec, const DataflowRow& row) {
  const MatrixProduct& p = spec.sequence.back();
  ProductPicture product;
  product.formula =
      Formula(Role::kOut, p.epilogue,
              Term(p.epilogue, NameOf(Role::kC), Dequantised(p.weights, Role::kW2, Role::kScaleW2),
                   Role::kFactor2, Role::kBias2));
  product.result = Matrix(Role::kOut, spec.sequence.rows(), p.n, p.ResultBytes());
  product.operands = {Weights(Role::kW2, p)};
  product.operands_from = "HBM, before c is there";
  product.k = p.k;
  product.clusters = RangesOf(spec.schedule);
  FillTiles(spec, row, spec.schedule.second, spec.schedule.second_share, p.n, &product);
  return product;
}

HandOver HandOverOf(const KernelSpec& spec, const DataflowRow& row) {
  const MatrixProduct& p = spec.sequence.front();
  const int64_t rows = spec.sequence.rows();
  const Schedule& s = spec.schedule;
  const int64_t share = int64_t{s.block_m} * s.first.block_n / GateRanks(s);  // of a block
  const double tile = static_cast<double>(share * p.ResultBytes());
  HandOver out;
  out.medium = row.medium;
  switch (row.medium) {
    case Medium::kDsm:
      out.lines.push_back(absl::StrCat(SizeText(tile), " to ", s.cluster - 1, " peers"));
      break;
    case Medium::kL2:
      out.lines.push_back(
          absl::StrCat(SizeText(static_cast<double>(rows * p.n * p.ResultBytes())), " in all"));
      break;
    case Medium::kRegister:
    case Medium::kShared:
      out.lines.push_back(absl::StrCat(SizeText(tile), " a tile"));
      break;
    case Medium::kNone:
      break;
  }
  for (absl::string_view line : absl::StrSplit(row.how, '\n', absl::SkipEmpty())) {
    out.lines.emplace_back(line.data(), line.size());
  }
  if (row.cluster_owns_rows && row.writes_c) {
    const int64_t behind = rows * (p.n - KeptColumns(spec.sequence, s)) * p.ResultBytes();
    out.lines.push_back(absl::StrCat(SizeText(static_cast<double>(behind)), " through L2"));
  }
  return out;
}

void FillShared(const Schedule& s, const ScheduleSizes& z, KernelPicture* out) {
  out->shared_bytes = z.shared_bytes;
  out->stages = s.stages;
  out->stage_bytes = z.stage_bytes;
  out->shared.push_back({"ring", z.stage_bytes, s.stages});
  if (z.kept_bytes > 0) out->shared.push_back({"c", z.kept_bytes, 1});
  if (z.weights_bytes > 0) out->shared.push_back({"weights", z.weights_bytes, 1});
  if (z.reduce_bytes > 0) out->shared.push_back({"partial sums", z.reduce_bytes, 1});
  int64_t rest = z.shared_bytes;
  for (const SharedPart& part : out->shared) rest -= part.bytes * part.count;
  if (rest > 0) out->shared.push_back({"other", rest, 1});
}

}  // namespace

std::string SplitText(const ProductPicture& p) {
  if (p.split_k > 1) return absl::StrCat("K ", p.k, " over ", p.split_k, " blocks (DSM)");
  if (p.clusters > 1) return absl::StrCat("K ", p.k, " over ", p.clusters, " clusters (L2)");
  return absl::StrCat("K ", p.k);
}

KernelPicture PictureOf(const KernelSpec& spec) {
  const Schedule& s = spec.schedule;
  KernelPicture picture;
  picture.row = &RowOf(s);
  picture.products.push_back(FirstProduct(spec, *picture.row));
  picture.window = WindowPictureOf(spec);
  if (spec.sequence.size() == 2) {
    picture.hand_overs.push_back(HandOverOf(spec, *picture.row));
    picture.products.push_back(SecondProduct(spec, *picture.row));
  }
  picture.result_to = InWorkspace(spec, Role::kOut) ? "L2" : "HBM";
  picture.blocks = s.grid;
  picture.cluster = std::max(1, s.cluster);
  picture.ranges = RangesOf(s);
  picture.warpgroups_m = s.warpgroups_m;
  picture.warpgroups_n = s.warpgroups_n;
  FillShared(s, SizesOf(spec.sequence, s), &picture);
  return picture;
}

}  // namespace sinter
