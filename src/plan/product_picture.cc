// The picture of a kernel of products: tiles, hand-overs, shared memory, windows.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "src/base/format.h"
#include "src/base/launch_recipe.h"
#include "src/base/numbers.h"
#include "src/plan/product_family.h"
#include "src/product/sequence.h"

namespace sinter {
namespace {

constexpr size_t kMostSteps = 60;  // characters of the list of steps

// `bytes`: of one element.
MatrixPicture Matrix(const ProductBody& body, Role role, int64_t rows, int64_t columns,
                     int64_t bytes) {
  return {role, body.sequence.size(), rows, columns, rows * columns * bytes, ""};
}

// Weights as stored in memory.
MatrixPicture Weights(const ProductBody& body, Role role, const MatrixProduct& p) {
  const bool oi = p.weights.layout == Layout::kOI;
  return Matrix(body, role, oi ? p.n : p.k, oi ? p.k : p.n, p.weights.bytes());
}

void NameMatrix(const ProductBody& body, const BufferNames& names, MatrixPicture* matrix) {
  for (const OperandBinding& b : body.operands) {
    if (b.role == matrix->role) matrix->name = names.Of(b.buffer);
  }
}

bool InWorkspace(const ProductBody& body, Role role) {
  for (const OperandBinding& b : body.operands) {
    if (b.role == role) return b.buffer == kWorkspaceBuffer;
  }
  return false;
}

// "(scale_a a)", or "a" where it has no scales.
std::string Dequantised(const Operand& operand, const std::string& name, const std::string& scale) {
  if (operand.scales.kind == ScaleKind::kNone) return name;
  return absl::StrCat("(", scale, " ", name, ")");
}

// "0.125 factor (a w) + bias": rows times weights, scaled, with their bias. A norm of the rows
// is "rsqrt(mean(a^2) + 1e-06) (a w)".
std::string Term(const ProductEpilogue& e, absl::string_view rows, absl::string_view weights,
                 absl::string_view factor, absl::string_view bias) {
  std::string text = absl::StrCat(rows, " ", weights);
  if (e.scaled()) text = absl::StrCat("(", text, ")");
  if (e.factor().has_value()) text = absl::StrCat(factor, " ", text);
  if (e.norm.has_value()) text = absl::StrCat("rsqrt(mean(", rows, "^2) + ", *e.norm, ") ", text);
  if (e.scale() != 1) text = absl::StrCat(e.scale(), " ", text);
  if (e.bias().has_value()) absl::StrAppend(&text, " + ", bias);
  return text;
}

std::string Activated(Activation activation, const std::string& term) {
  if (activation == Activation::kIdentity) return term;
  return absl::StrCat(NameOf(activation), "(", term, ")");
}

// "out = round(..) + residual"
std::string Formula(absl::string_view result, const ProductEpilogue& e, std::string text) {
  const EpilogueForm form = e.form();
  if (form.rounds) text = absl::StrCat("round(", text, ")");
  if (form.residual) absl::StrAppend(&text, " + residual");
  if (e.program.written()) text = absl::StrCat(sinter::ToString(e.program), " of y = ", text);
  text = Activated(form.sum_activation, text);
  if (e.quantize.has_value()) {
    text = absl::StrCat("codes((", text, ") / ", e.has_groups() ? "scale_out" : "given_scale", ")");
  }
  return absl::StrCat(result, " = ", text);
}

// The formula of product `number` of `products`.
std::string FormulaOf(const MatrixProduct& p, int number, int products) {
  const ProductEpilogue& e = p.epilogue;
  const auto name = [&](Role::Kind kind) { return NameOf({kind, number}, products); };
  const std::string a = p.HasTransposedRows() ? "a^T" : "a";
  const std::string rows = number > 0 ? "c" : Dequantised(p.rows, a, "scale_a");
  const std::string factor = name(Role::kFactor);
  const std::string weights = Dequantised(p.weights, name(Role::kW), name(Role::kScaleW));
  std::string text = Activated(e.activation(), Term(e, rows, weights, factor, name(Role::kBias)));
  if (p.pair) {
    const std::string up = Dequantised(p.weights, name(Role::kWUp), name(Role::kScaleUp));
    absl::StrAppend(&text, e.program.written() ? ", up = (" : " * (",
                    Term(e, rows, up, factor, name(Role::kBiasUp)), ")");
  }
  return Formula(number + 1 == products ? "out" : "c", e, text);
}

// Fills in the tiles of a product with `columns` columns, and the clusters that take them.
void FillTiles(const ProductBody& body, const DataflowRow& row, const ProductTile& tile,
               Share share, int64_t columns, ProductPicture* out) {
  const Schedule& s = body.schedule;
  out->tile_rows = std::min<int64_t>(s.block_m, std::max<int64_t>(1, body.sequence.rows()));
  out->tile_columns = std::min<int64_t>(tile.block_n, columns);
  out->split_k = tile.split_k;
  out->share = share;
  out->row_tiles = CeilDiv(body.sequence.rows(), s.block_m);
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

ProductPicture FirstProduct(const ProductBody& body, const DataflowRow& row) {
  const MatrixProduct& p = body.sequence.front();
  const int64_t rows = body.sequence.rows();
  const int products = body.sequence.size();
  ProductPicture product;
  product.formula = FormulaOf(p, 0, products);
  product.result = Matrix(body, products == 2 ? Role::kC : Role::kOut, rows, p.n, p.ResultBytes());
  const bool turned = p.HasTransposedRows();
  product.operands = {
      Matrix(body, Role::kA, turned ? p.k : rows, turned ? rows : p.k, p.rows.bytes()),
      Weights(body, Role::kW, p)};
  const RoleShape stored = ShapeOf(body.sequence, Role::kA);  // of a window: its pixels, once
  product.operands[0].bytes = stored.rows * stored.RowBytes();
  if (p.pair) product.operands.push_back(Weights(body, Role::kWUp, p));
  product.operands_from = InWorkspace(body, Role::kA) ? "L2 and HBM" : "HBM";
  product.k = p.k;
  product.width = p.Width();
  product.apart = GateRanks(body.schedule) > 1;
  FillTiles(body, row, body.schedule.first, body.schedule.share, p.n, &product);
  return product;
}

ProductPicture SecondProduct(const ProductBody& body, const DataflowRow& row) {
  const MatrixProduct& p = body.sequence.back();
  ProductPicture product;
  product.formula = FormulaOf(p, 1, 2);
  product.result = Matrix(body, Role::kOut, body.sequence.rows(), p.n, p.ResultBytes());
  product.operands = {Weights(body, {Role::kW, 1}, p)};
  product.operands_from = "HBM, before c is there";
  product.k = p.k;
  product.clusters = RangesOf(body.schedule);
  FillTiles(body, row, body.schedule.second, Share::kNone, p.n, &product);
  return product;
}

HandOver HandOverOf(const ProductBody& body, const DataflowRow& row) {
  const MatrixProduct& p = body.sequence.front();
  const int64_t rows = body.sequence.rows();
  const Schedule& s = body.schedule;
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
    const int64_t behind = rows * (p.n - KeptColumns(body.sequence, s)) * p.ResultBytes();
    out.lines.push_back(absl::StrCat(SizeText(static_cast<double>(behind)), " through L2"));
  }
  return out;
}

void FillShared(const Schedule& s, const ScheduleSizes& z, ProductsPicture* out) {
  out->shared.push_back({"ring", z.stage_bytes, s.stages});
  if (z.kept_bytes > 0) out->shared.push_back({"c", z.kept_bytes, 1});
  if (z.weights_bytes > 0) out->shared.push_back({"weights", z.weights_bytes, 1});
  if (z.reduce_bytes > 0) out->shared.push_back({"partial sums", z.reduce_bytes, 1});
  int64_t rest = z.shared_bytes;
  for (const SharedPart& part : out->shared) rest -= part.bytes * part.count;
  if (rest > 0) out->shared.push_back({"other", rest, 1});
}

// None: the kernel's rows lie in memory as they are multiplied.
std::optional<WindowPicture> WindowOf(const ProductBody& body) {
  const MatrixProduct& p = body.sequence.front();
  if (p.rows.source != Source::kWindow) return std::nullopt;
  const RoleShape stored = ShapeOf(body.sequence, Role::kA);
  WindowPicture picture;
  picture.window = p.rows.window;
  picture.images = body.sequence.m;
  picture.image_bytes = stored.rows * stored.RowBytes();
  picture.matrix_bytes = body.sequence.rows() * p.k * p.rows.bytes();
  picture.step_columns = body.schedule.block_k;
  return picture;
}

// Steps of all taps, a row of the filter between bars: "0 1 2 | 3 4 5 | 6 7 8".
std::string StepsText(const WindowPicture& p) {
  std::string text;
  for (int64_t tap = 0; tap < p.window.taps[0] * p.window.taps[1]; tap++) {
    if (tap > 0) absl::StrAppend(&text, tap % p.window.taps[1] == 0 ? " | " : " ");
    if (text.size() > kMostSteps) return text + "..";
    absl::StrAppend(&text, p.StepsOf(tap));
  }
  return text;
}

absl::string_view NameOf(MemoryLevel level) {
  constexpr Medium kMedia[] = {Medium::kRegister, Medium::kShared, Medium::kDsm, Medium::kL2};
  return level < MemoryLevel::kGlobal ? NameOf(kMedia[static_cast<size_t>(level)])
                                      : "global memory";
}

void FillSplit(const ProductSequence& p, const Schedule& s, ProductsPicture* out) {
  const LevelBytes split = IntermediateSplit(p, s);
  std::vector<std::string> parts;
  for (size_t level = 0; level < kMemoryLevels; level++) {
    if (!(split[level] > 0)) continue;
    out->split.emplace_back(NameOf(static_cast<MemoryLevel>(level)), split[level]);
    parts.push_back(absl::StrCat(SizeText(split[level]), " ", out->split.back().first));
  }
  if (parts.empty()) return;
  out->split_text = absl::StrCat("c of ", RangesOf(s) > 1 ? "a range of " : "",
                                 "a row tile: ", absl::StrJoin(parts, " + "));
}

}  // namespace

LevelBytes IntermediateSplit(const ProductSequence& p, const Schedule& s) {
  LevelBytes split{};
  if (p.size() < 2) return split;
  const int64_t row_bytes = std::min<int64_t>(s.block_m, p.rows()) * p.front().ResultBytes();
  const auto add = [&](MemoryLevel level, int64_t columns) {
    split[static_cast<size_t>(level)] = static_cast<double>(row_bytes * columns);
  };
  const int64_t kept = KeptColumns(p, s);
  const int64_t own = std::min<int64_t>(s.first.block_n / GateRanks(s), kept);
  add(MemoryLevel::kShared, own);
  add(MemoryLevel::kDsm, kept - own);
  if (RowOf(s).medium == Medium::kRegister) add(MemoryLevel::kRegister, p[0].n);
  if (WritesC(s)) add(MemoryLevel::kL2, p[0].n - kept);
  return split;
}

std::vector<std::string> ProductPicture::Lines() const {
  const bool split = split_k > 1;
  std::vector<std::string> lines = {
      absl::StrCat("tile ", tile_rows, " x ", tile_columns,
                   apart        ? ", gate or up"
                   : width == 2 ? ", gate and up"
                                : ""),
      absl::StrCat("K ", k,
                   split          ? absl::StrCat(" over ", split_k, " blocks (DSM)")
                   : clusters > 1 ? absl::StrCat(" over ", clusters, " clusters (L2)")
                                  : ""),
      absl::StrCat(row_tiles, " x ", column_tiles,
                   row_tiles * column_tiles == 1 ? " tile" : " tiles",
                   split ? absl::StrCat(", ", split_k, " blocks each") : "")};
  if (turns > 1) {
    lines.push_back(absl::StrCat("up to ", turns, " tiles a ", split ? "group" : "block"));
  }
  if (share != Share::kNone) lines.push_back(absl::StrCat("2 blocks share the ", NameOf(share)));
  return lines;
}

std::vector<std::string> ProductsPicture::BlockLines() const {
  return {absl::StrCat(warpgroups_m, " x ", warpgroups_n, " consumer warpgroups a block"),
          absl::StrCat("shared memory of a block: ", ToString(shared))};
}

std::string WindowPicture::StepsOf(int64_t tap) const {
  const int64_t first = tap * window.StagedTap() / step_columns;
  const int64_t last = ((tap + 1) * window.StagedTap() - 1) / step_columns;
  return first == last ? absl::StrCat(first) : absl::StrCat(first, "-", last);
}

std::vector<std::string> WindowPicture::Lines() const {
  const PixelWindow& w = window;
  const auto by = [](const auto& sizes) { return absl::StrJoin(sizes, "x"); };
  return {
      absl::StrCat("A: ", by(w.taps), " taps on images of ", w.height, "x", w.width, "x",
                   w.channels, ", stride ", by(w.conv.strides), ", dilation ", by(w.conv.dilations),
                   ", padding ", absl::StrJoin(w.conv.pads, ","),
                   w.grouped() ? absl::StrCat(", ", w.conv.groups, " groups") : ""),
      absl::StrCat(w.Pixels(0), "x", w.Pixels(1), " windows an image, ", images, " images of ",
                   SizeText(static_cast<double>(image_bytes)),
                   " in all; windows side by side: ", SizeText(static_cast<double>(matrix_bytes))),
      absl::StrCat("K steps by tap: ", StepsText(*this))};
}

ProductsPicture PictureOf(const KernelSpec& spec, const BufferNames& names) {
  const ProductBody& body = ProductOf(spec);
  const Schedule& s = body.schedule;
  ProductsPicture picture;
  const DataflowRow& row = RowOf(s);
  picture.title = row.title;
  picture.products.push_back(FirstProduct(body, row));
  picture.window = WindowOf(body);
  if (body.sequence.size() == 2) {
    picture.hand_overs.push_back(HandOverOf(body, row));
    picture.products.push_back(SecondProduct(body, row));
    FillSplit(body.sequence, s, &picture);
  }
  for (ProductPicture& product : picture.products) {
    for (MatrixPicture& matrix : product.operands) NameMatrix(body, names, &matrix);
  }
  picture.result_to = InWorkspace(body, Role::kOut) ? "L2" : "HBM";
  picture.blocks = s.grid;
  picture.cluster = std::max(1, s.cluster);
  picture.warpgroups_m = s.warpgroups_m;
  picture.warpgroups_n = s.warpgroups_n;
  FillShared(s, SizesOf(body.sequence, s), &picture);
  return picture;
}

}  // namespace sinter
