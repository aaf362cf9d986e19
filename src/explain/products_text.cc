// A kernel of products in ASCII.
#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/base/format.h"
#include "src/explain/explain.h"

namespace sinter {
namespace {

constexpr size_t kIndent = 2, kBox = 33, kArrow = 19;

// Lines of text that grow as text is put.
class Canvas {
 public:
  void Put(size_t row, size_t column, absl::string_view text) {
    if (lines_.size() <= row) lines_.resize(row + 1);
    std::string& line = lines_[row];
    if (line.size() < column + text.size()) line.resize(column + text.size(), ' ');
    line.replace(column, text.size(), text.data(), text.size());
  }
  void PutCentred(size_t row, size_t column, size_t width, absl::string_view text) {
    Put(row, column + (width > text.size() ? (width - text.size()) / 2 : 0), text);
  }
  std::string Take() const {
    std::string text;
    for (const std::string& line : lines_) {
      absl::StrAppend(&text, absl::StripTrailingAsciiWhitespace(line), "\n");
    }
    return text;
  }

 private:
  std::vector<std::string> lines_;
};

// "a 128 x 1024, w1 w_up 3072 x 1024": neighbours of one shape are listed together.
std::string OperandsText(const std::vector<MatrixPicture>& operands) {
  std::string text;
  for (size_t i = 0; i < operands.size(); i++) {
    const MatrixPicture& m = operands[i];
    const bool same = i + 1 < operands.size() && operands[i + 1].rows == m.rows &&
                      operands[i + 1].columns == m.columns && i > 0;
    absl::StrAppend(&text, m.Argument(), same ? " " : absl::StrCat(" ", m.rows, " x ", m.columns),
                    same || i + 1 == operands.size() ? "" : ", ");
  }
  return text;
}

std::string LoadText(const ProductPicture& product) {
  double bytes = 0;
  for (const MatrixPicture& m : product.operands) bytes += static_cast<double>(m.bytes);
  return absl::StrCat(SizeText(bytes), " from ", product.operands_from);
}

std::vector<std::string> BoxLines(const ProductPicture& p) {
  std::vector<std::string> lines = p.Lines();
  lines.insert(lines.begin(),
               absl::StrCat(p.result.Argument(), "  ", p.result.rows, " x ", p.result.columns));
  std::vector<std::string> fitted;  // longer lines go on in the next one
  for (absl::string_view line : lines) {
    while (line.size() > kBox - 4 && line.rfind(' ', kBox - 4) != absl::string_view::npos) {
      const size_t blank = line.rfind(' ', kBox - 4);
      fitted.emplace_back(line.substr(0, blank));
      line.remove_prefix(blank + 1);
    }
    fitted.emplace_back(line);
  }
  return fitted;
}

constexpr size_t kRowsAbove = 3;  // rows above a box

void DrawProduct(const ProductPicture& product, size_t height, size_t column, Canvas* canvas) {
  canvas->Put(0, column, OperandsText(product.operands));
  canvas->Put(1, column, LoadText(product));
  canvas->Put(2, column + 4, "|");
  const std::string edge = absl::StrCat("+", std::string(kBox - 2, '-'), "+");
  canvas->Put(kRowsAbove, column, edge);
  canvas->Put(kRowsAbove, column + 4, "v");
  const std::vector<std::string> lines = BoxLines(product);
  for (size_t i = 0; i < height; i++) {
    canvas->Put(kRowsAbove + 1 + i, column, "|");
    if (i < lines.size()) canvas->Put(kRowsAbove + 1 + i, column + 2, lines[i]);
    canvas->Put(kRowsAbove + 1 + i, column + kBox - 1, "|");
  }
  canvas->Put(kRowsAbove + 1 + height, column, edge);
}

void DrawHandOver(const HandOver& hand_over, size_t column, Canvas* canvas) {
  canvas->PutCentred(kRowsAbove + 1, column, kArrow,
                     absl::StrCat("c through ", NameOf(hand_over.medium)));
  canvas->Put(kRowsAbove + 2, column + 1, absl::StrCat(std::string(kArrow - 4, '='), ">"));
  size_t row = kRowsAbove + 3;
  for (const std::string& line : hand_over.lines) canvas->PutCentred(row++, column, kArrow, line);
}

std::string FormulaText(const ProductsPicture& k) {
  return absl::StrJoin(k.products, "; ",
                       [](std::string* out, const ProductPicture& p) { out->append(p.formula); });
}

}  // namespace

std::string ProductsText(const ProductsPicture& picture) {
  Canvas canvas;
  size_t column = kIndent, height = 0;
  for (const ProductPicture& p : picture.products) height = std::max(height, BoxLines(p).size());
  for (size_t i = 0; i < picture.products.size(); i++) {
    if (i > 0) {
      DrawHandOver(picture.hand_overs[i - 1], column, &canvas);
      column += kArrow;
    }
    DrawProduct(picture.products[i], height, column, &canvas);
    column += kBox;
  }
  canvas.Put(kRowsAbove + 2, column, absl::StrCat(" --> ", picture.result_to));
  std::string windows;
  if (picture.window.has_value()) {
    for (const std::string& line : picture.window->Lines()) {
      absl::StrAppend(&windows, "  ", line, "\n");
    }
  }
  return absl::StrCat("  ", picture.title, "\n  ", FormulaText(picture), "\n", windows, "\n",
                      canvas.Take(), "  ", absl::StrJoin(picture.BlockLines(), "\n  "), "\n");
}

}  // namespace sinter
