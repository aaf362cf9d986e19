#include "src/product/sequence.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "src/chain/tensor_type.h"

namespace sinter {
namespace {

// The parts of product `number`'s text besides its extents: " bias1=1 scale1=0.125 factor1=f32".
std::string BiasText(const MatrixProduct& p, int number) {
  return p.epilogue.bias().has_value() ? absl::StrCat(" bias", number, "=1") : "";
}

std::string ScalingText(const MatrixProduct& p, int number) {
  std::string text;
  const ProductEpilogue& e = p.epilogue;
  if (e.norm.has_value()) absl::StrAppend(&text, " norm", number, "=", *e.norm);
  if (e.scale() != 1) absl::StrAppend(&text, " scale", number, "=", e.scale());
  if (e.factor().has_value()) absl::StrAppend(&text, " factor", number, "=", NameOf(*e.factor()));
  if (p.HasColumnScales()) {
    absl::StrAppend(&text, " scale_w", number, "=", NameOf(p.weights.scales.element));
  }
  return text;
}

// A bias that is not of the operands' element, and the program that follows it if it has no form.
std::string ProgramText(const MatrixProduct& p, int number) {
  std::string text;
  const DType bias = p.epilogue.bias().value_or(p.rows.element);
  if (bias != p.rows.element && !IsCode(p.rows.element)) {
    absl::StrAppend(&text, " bias", number, "_dtype=", NameOf(bias));
  }
  if (p.epilogue.program.written()) {
    absl::StrAppend(&text, " program", number, "=", ToString(p.epilogue.program));
  }
  return text;
}

// The result where it is not as the operands, and what operands of 8 bits have besides: "
// scales=vector,tensor result=f32".
std::string ScalesText(const MatrixProduct& p) {
  if (!IsCode(p.rows.element)) {
    return p.result == p.rows.element ? "" : absl::StrCat(" result=", NameOf(p.result));
  }
  const std::optional<QuantizeRule>& rule = p.epilogue.quantize;
  return absl::StrCat(" scales=", ToString(p.rows.scales), ",", ToString(p.weights.scales),
                      p.accumulate == Accumulate::kFast ? " accumulate=fast" : "",
                      " result=", NameOf(p.result),
                      !rule.has_value() ? "" : absl::StrCat(" quantize=", ToString(*rule)));
}

std::string WindowText(const Operand& rows) {
  if (rows.source != Source::kWindow) return "";
  const PixelWindow& w = rows.window;
  return absl::StrCat(" window=", w.height, "x", w.width, "x", w.channels, " taps=", w.taps[0], "x",
                      w.taps[1], " stride=", w.conv.strides[0], "x", w.conv.strides[1],
                      " dilation=", w.conv.dilations[0], "x", w.conv.dilations[1],
                      " pad=", absl::StrJoin(w.conv.pads, ","),
                      w.grouped() ? absl::StrCat(" groups=", w.conv.groups) : "");
}

std::string ResidualText(const MatrixProduct& last) {
  const EpilogueForm form = last.epilogue.form();
  if (!form.residual) return "";
  std::string text = absl::StrCat(" residual=", ResidualName(form));
  const Activation sum = form.sum_activation;
  if (sum != Activation::kIdentity) absl::StrAppend(&text, " sum_act=", NameOf(sum));
  return text;
}

// "gated_ffn m<=128 n=3072 k=1024 l=1024 act=silu"; for more than two products the n are a list,
// and act if a product after the first is activated.
std::string HeadText(const ProductSequence& s) {
  const MatrixProduct& first = s.front();
  std::string text(s.Kind());
  if (s.m > 0) absl::StrAppend(&text, " m<=", s.m);
  if (s.rows_per_m != 1) absl::StrAppend(&text, " rows_per_m=", s.rows_per_m);
  text += " n=";
  const auto columns = [](std::string* out, const MatrixProduct& p) { absl::StrAppend(out, p.n); };
  absl::StrAppend(&text,
                  s.size() > 2 ? absl::StrJoin(s.products, ",", columns) : absl::StrCat(first.n),
                  first.k_is_m ? " k<=" : " k=", first.k);
  if (s.size() == 2) absl::StrAppend(&text, " l=", s[1].n);
  const auto activation = [](std::string* out, const MatrixProduct& p) {
    absl::StrAppend(out, NameOf(p.epilogue.activation()));
  };
  absl::StrAppend(&text, " act=",
                  s.size() > 2 || s.products.back().epilogue.activation() != Activation::kIdentity
                      ? absl::StrJoin(s.products, ",", activation)
                      : std::string(NameOf(first.epilogue.activation())));
  return text;
}

std::string StridesText(const Scales& scales) {
  if (!scales.strided()) return "";
  if (scales.kind == ScaleKind::kVector) return absl::StrCat("[", scales.row_stride, "]");
  const Stride group{scales.group_stride, scales.of_m ? 1 : 0};
  const Stride strides[] = {{scales.row_stride, 0}, group};
  return ToString(absl::MakeConstSpan(strides));
}

}  // namespace

const char* ProductSequence::Kind() const {
  if (size() > 2) return "products";
  if (size() == 2) return front().pair ? "gated_ffn" : "gemm_chain";
  return front().pair ? "gated_product" : "product";
}

std::string ToString(const Scales& scales) {
  switch (scales.kind) {
    case ScaleKind::kNone:
      return "none";
    case ScaleKind::kTensor:
      return "tensor";
    case ScaleKind::kVector:
      if (scales.element != DType::kF32) return absl::StrCat("vector of ", NameOf(scales.element));
      return absl::StrCat("vector", StridesText(scales));
    case ScaleKind::kBlock:
      return absl::StrCat("block ", scales.block_rows, "x", scales.block_columns,
                          StridesText(scales));
  }
  return "invalid";
}

std::vector<Leaf> MatrixProduct::Leaves(int number) const {
  const EpilogueProgram& program = epilogue.program;
  const AffinePart& affine = program.affine;
  std::vector<Leaf> list;
  const auto add = [&](Role role, int input) {
    list.push_back(
        {role, program.leaves[static_cast<size_t>(input)], input, program.TypeOf(input)});
  };
  if (affine.bias >= 0) add({Role::kBias, number}, affine.bias);
  if (affine.bias_up >= 0) add(Role::kBiasUp, affine.bias_up);
  for (const int input : program.InputsOf(LeafKind::kRow)) add({Role::kFactor, number}, input);
  int leaves = 0;
  for (const int input : program.ColumnLeaves()) {
    if (input == affine.bias || input == affine.bias_up) continue;
    add({Role::kLeaf, number, leaves++}, input);
  }
  for (const int input : program.InputsOf(LeafKind::kMatrix)) add(Role::kResidual, input);
  return list;
}

int MatrixProduct::ColumnTerms() const {
  return (weights.scales.kind == ScaleKind::kVector ? Width() : 0) +
         static_cast<int>(epilogue.program.ColumnLeaves().size());
}

ElementRow ElementOf(const MatrixProduct& product) {
  ElementRow row = ElementOf(product.rows.element);
  if (product.accumulate != Accumulate::kFast) return row;
  row.promoted = false;
  row.device_type = row.fast_type;
  return row;
}

bool ProductSequence::scaled() const {
  return std::any_of(products.begin(), products.end(),
                     [](const MatrixProduct& p) { return p.scaled(); });
}

int64_t ProductSequence::WeightBytes() const {
  int64_t bytes = 0;
  for (const MatrixProduct& p : products) bytes += p.WeightBytes();
  return bytes;
}

double ProductSequence::Flop(int64_t m) const {
  double flop = 0;
  for (const MatrixProduct& p : products) {
    flop += 2.0 * static_cast<double>(m * rows_per_m) * p.Width() * static_cast<double>(p.n) *
            static_cast<double>(p.k);
  }
  return flop;
}

ProductSequence ProductSequence::Part(int begin, int count) const {
  ProductSequence part;
  part.m = m;
  part.rows_per_m = rows_per_m;
  part.products.assign(products.begin() + begin, products.begin() + begin + count);
  Operand& rows = part.products.front().rows;
  if (rows.source == Source::kProduct) rows.source = Source::kBuffer;
  return part;
}

std::string ProductSequence::ToString() const {
  if (products.empty()) return absl::StrCat("products m<=", m);
  std::string text = HeadText(*this);
  for (int i = 0; i < size(); ++i) text += BiasText((*this)[i], i + 1);
  for (int i = 0; i < size(); ++i) text += ScalingText((*this)[i], i + 1);
  for (int i = 0; i < size(); ++i) text += ProgramText((*this)[i], i + 1);
  if (front().HasTransposedRows()) text += " rows=transposed";
  return absl::StrCat(text, WindowText(front().rows), ResidualText(back()),
                      " layout=", NameOf(layout()), " dtype=", NameOf(element()),
                      ScalesText(front()));
}

bool HasPrograms(const ProductSequence& sequence) {
  return std::any_of(sequence.products.begin(), sequence.products.end(),
                     [](const MatrixProduct& p) { return p.epilogue.program.written(); });
}

bool HasNorm(const ProductSequence& sequence) {
  return std::any_of(sequence.products.begin(), sequence.products.end(),
                     [](const MatrixProduct& p) { return p.epilogue.norm.has_value(); });
}

bool CanPair(const ProductSequence& sequence, int first) {
  const MatrixProduct &one = sequence[first], &two = sequence[first + 1];
  if (one.epilogue.has_residual() || one.epilogue.norm.has_value() ||
      two.epilogue.norm.has_value()) {
    return false;
  }
  if (one.rows.window.grouped()) return false;
  if (one.HasTransposedRows() || one.AuxResults() + two.AuxResults() > 0) return false;
  if (two.result != one.rows.element && !IsCode(one.rows.element)) {
    return false;  // only a lone product stores f32
  }
  return !two.pair;
}

}  // namespace sinter
