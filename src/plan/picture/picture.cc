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
MatrixPicture Matrix(absl::string_view name, int64_t rows, int64_t columns, int64_t bytes) {
  return {std::string(name.data(), name.size()), rows, columns, rows * columns * bytes};
}

// Weights as stored in memory.
MatrixPicture Weights(absl::string_view name, const MatrixProduct& p) {
  const bool oi = p.weights.layout == Layout::kOI;
  return Matrix(name, oi ? p.n : p.k, oi ? p.k : p.n, p.weights.bytes());
}

bool InWorkspace(const KernelSpec& spec, Role role) {
  for (const OperandBinding& b : spec.operands) {
    if (b.role == role) return b.buffer == kWorkspaceBuffer;
  }
  return false;
}

// Names of a product's matrices: it may be the first or the second of its kernel's chain.
struct Names {
  std::string rows = "A", weights = "W1", result = "C";
};

Names FirstNames(const KernelSpec& spec) {
  Names names;
  if (spec.sequence.size() == 2) return names;
  if (InWorkspace(spec, Role::kA)) return {"C", "W2", "E"};
  if (!InWorkspace(spec, Role::kOut)) names.result = "E";
  return names;
}

std::string Term(const std::string& product, absl::string_view bias) {
  return absl::StrCat(product, bias.empty() ? "" : " + ", bias);
}

std::string Activated(Activation activation, const std::string& term) {
  if (activation == Activation::kIdentity) return term;
  return absl::StrCat(NameOf(activation), "(", term, ")");
}

// "0.125 r1 (A W1)": a product's term in a formula.
std::string Scaled(const EpilogueList& e, int product, const std::string& term) {
  if (!e.scaled()) return term;
  std::string text;
  if (e.Has(EpilogueOp::kScale)) absl::StrAppend(&text, e.scale(), " ");
  if (e.has_factor()) absl::StrAppend(&text, "r", product, " ");
  return absl::StrCat(text, "(", term, ")");
}

// The end of the last product's formula.
absl::string_view ResidualTerm(const MatrixProduct& p) {
  return p.epilogue.has_residual() ? " + R" : "";
}

std::string FirstFormula(const MatrixProduct& p, const Names& names) {
  const EpilogueList& e = p.epilogue;
  const auto product = [&](absl::string_view weights) {
    return Scaled(e, 1, absl::StrCat(names.rows, " ", weights));
  };
  const std::string gate =
      Activated(e.activation(), Term(product(names.weights), e.has_bias() ? "b1" : ""));
  const absl::string_view residual = ResidualTerm(p);
  if (!p.pair) return absl::StrCat(names.result, " = ", gate, residual);
  return absl::StrCat(names.result, " = ", gate, " * (",
                      Term(product("Wup"), e.has_bias() ? "bup" : ""), ")", residual);
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
  const Names names = FirstNames(spec);
  ProductPicture product;
  product.formula = FirstFormula(p, names);
  product.result = Matrix(names.result, rows, p.n, p.ResultBytes());
  product.operands = {Matrix(names.rows, rows, p.k, p.rows.bytes()), Weights(names.weights, p)};
  const RoleShape stored = ShapeOf(spec.sequence, Role::kA);  // of a window: its pixels, once
  product.operands[0].bytes = stored.rows * stored.RowBytes();
  if (p.pair) product.operands.push_back(Weights("Wup", p));
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
      absl::StrCat("E = ", Term(Scaled(p.epilogue, 2, "C W2"), p.epilogue.has_bias() ? "b2" : ""),
                   ResidualTerm(p));
  product.result = Matrix("E", spec.sequence.rows(), p.n, p.ResultBytes());
  product.operands = {Weights("W2", p)};
  product.operands_from = "HBM, before C is there";
  product.k = p.k;
  product.clusters = ClustersN(spec.schedule);
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
  out.name = "C";
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
    out.lines.push_back(absl::StrCat(SizeText(static_cast<double>(behind)), " over L2"));
  }
  return out;
}

void FillShared(const Schedule& s, const ScheduleSizes& z, KernelPicture* out) {
  out->shared_bytes = z.shared_bytes;
  out->stages = s.stages;
  out->stage_bytes = z.stage_bytes;
  out->shared.push_back({"ring", z.stage_bytes, s.stages});
  if (z.exchange_bytes > 0) out->shared.push_back({"exchange", z.exchange_bytes, 1});
  if (z.reduce_bytes > 0) out->shared.push_back({"reduce", z.reduce_bytes, 1});
  int64_t rest = z.shared_bytes;
  for (const SharedPart& part : out->shared) rest -= part.bytes * part.count;
  if (rest > 0) out->shared.push_back({"other", rest, 1});
}

}  // namespace

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
  picture.clusters_n = ClustersN(s);
  picture.warpgroups_m = s.warpgroups_m;
  picture.warpgroups_n = s.warpgroups_n;
  FillShared(s, SizesOf(spec.sequence, s), &picture);
  return picture;
}

}  // namespace sinter
