// Canonical bytes of sequences.
#include "absl/strings/str_cat.h"
#include "src/base/codec.h"
#include "src/base/status.h"
#include "src/product/sequence.h"

namespace sinter {
namespace {

constexpr uint8_t kCanonicalVersion = 6;
constexpr uint8_t kPair = 1, kFastSums = 2, kOfM = 4;  // bits of a product's flags

constexpr uint8_t kStridesFollow = 0x80;  // beside the kind

// Scales of codes are f32.
bool HasScaleElement(const Operand& o) {
  return o.scales.kind != ScaleKind::kNone && !IsCode(o.element);
}

void WriteOperand(const Operand& o, ByteWriter& w) {
  w.U32(static_cast<uint32_t>(o.element));
  w.U32(static_cast<uint32_t>(o.layout));
  WriteScales(o.scales, w);
  if (HasScaleElement(o)) w.U32(static_cast<uint32_t>(o.scales.element));
  w.U8(static_cast<uint8_t>(o.source));
  if (o.source == Source::kWindow) WriteWindow(o.window, w);
}

// Which parts of an epilogue follow; what its program's result is for.
enum : uint8_t { kNorm = 1, kProgram = 2, kQuantize = 4, kForCodes = 8 };

void WriteEpilogue(const ProductEpilogue& e, ByteWriter& w) {
  w.U8((e.norm.has_value() ? kNorm : 0) | (e.program.present() ? kProgram : 0) |
       (e.quantize.has_value() ? kQuantize : 0) | (e.program.for_codes ? kForCodes : 0));
  if (e.norm.has_value()) w.F64(*e.norm);
  if (e.program.present()) WriteProgram(e.program, w);
  if (e.quantize.has_value()) WriteRule(*e.quantize, w);
}

absl::Status Lost(absl::string_view what) { return DataLoss("product sequence: ", what); }

void ReadOperand(ByteReader& r, Operand& o) {
  o.element = static_cast<DType>(r.U32());
  o.layout = static_cast<Layout>(r.U32());
  o.scales = ReadScales(r);
  if (HasScaleElement(o)) o.scales.element = static_cast<DType>(r.U32());
  o.source = static_cast<Source>(r.U8());
  if (o.source == Source::kWindow) ReadWindow(r, o.window);
}

absl::Status ReadEpilogue(ByteReader& r, ProductEpilogue& e) {
  const uint8_t parts = r.U8();
  if ((parts & kNorm) != 0) e.norm = static_cast<float>(r.F64());
  if ((parts & kProgram) != 0) {
    SINTER_ASSIGN_OR_RETURN(e.program, ReadProgram(r));
    e.program.for_codes = (parts & kForCodes) != 0;
  }
  if ((parts & kQuantize) != 0) e.quantize = ReadRule(r);
  return absl::OkStatus();
}

absl::Status ReadProduct(ByteReader& r, MatrixProduct& p) {
  p.n = r.I64();
  p.k = r.I64();
  const uint8_t flags = r.U8();
  p.pair = (flags & kPair) != 0;
  if ((flags & kFastSums) != 0) p.accumulate = Accumulate::kFast;
  p.k_is_m = (flags & kOfM) != 0;
  ReadOperand(r, p.rows);
  ReadOperand(r, p.weights);
  SINTER_RETURN_IF_ERROR(ReadEpilogue(r, p.epilogue));
  p.result = static_cast<DType>(r.U32());
  return absl::OkStatus();
}

}  // namespace

void WriteScales(const Scales& scales, ByteWriter& w) {
  w.U8(static_cast<uint8_t>(static_cast<uint8_t>(scales.kind) |
                            (scales.strided() ? kStridesFollow : 0)));
  w.I64(scales.block_rows);
  w.I64(scales.block_columns);
  if (!scales.strided()) return;
  w.I64(scales.row_stride);
  w.I64(scales.group_stride);
  w.U8(scales.of_m);
}

Scales ReadScales(ByteReader& r) {
  Scales scales;
  const uint8_t kind = r.U8();
  scales.kind = static_cast<ScaleKind>(kind & ~kStridesFollow);
  scales.block_rows = r.I64();
  scales.block_columns = r.I64();
  if ((kind & kStridesFollow) == 0) return scales;
  scales.row_stride = r.I64();
  scales.group_stride = r.I64();
  scales.of_m = r.U8() != 0;
  return scales;
}

void WriteRule(const QuantizeRule& rule, ByteWriter& w) {
  w.I64(rule.columns);
  w.F64(rule.eps);
  w.F64(rule.bound);
  w.U8(rule.ue8m0);
}

QuantizeRule ReadRule(ByteReader& r) {
  QuantizeRule rule;
  rule.columns = r.I64();
  rule.eps = static_cast<float>(r.F64());
  rule.bound = static_cast<float>(r.F64());
  rule.ue8m0 = r.U8() != 0;
  return rule;
}

absl::StatusOr<ProductSequence> ProductSequence::FromCanonical(absl::string_view bytes) {
  ByteReader r(bytes);
  const uint8_t version = r.U8();
  if (version != kCanonicalVersion) return Lost(absl::StrCat("version ", version));
  const uint32_t count = r.U32();
  if (count < 1 || count > kMaxKernelProducts) return Lost(absl::StrCat(count, " products"));
  ProductSequence sequence;
  sequence.products.resize(count);
  sequence.rows_per_m = r.I64();
  for (MatrixProduct& p : sequence.products) SINTER_RETURN_IF_ERROR(ReadProduct(r, p));
  SINTER_RETURN_IF_ERROR(r.Finish("product sequence"));
  ProductSequence of_a_row = sequence;
  of_a_row.m = 1;
  const absl::Status legal = CheckSequence(of_a_row);
  if (!legal.ok()) return Lost(legal.message());
  if (sequence.Canonical() != bytes) return Lost("a field is written otherwise");
  return sequence;
}

std::string ProductSequence::Canonical() const {
  ByteWriter w;
  w.U8(kCanonicalVersion);
  w.U32(static_cast<uint32_t>(size()));
  w.I64(rows_per_m);
  for (const MatrixProduct& p : products) {
    w.I64(p.n);
    w.I64(p.k);
    w.U8((p.pair ? kPair : 0) | (p.accumulate == Accumulate::kFast ? kFastSums : 0) |
         (p.k_is_m ? kOfM : 0));
    WriteOperand(p.rows, w);
    WriteOperand(p.weights, w);
    WriteEpilogue(p.epilogue, w);
    w.U32(static_cast<uint32_t>(p.result));
  }
  return w.Take();
}

}  // namespace sinter
