#include "src/plan/spec_codec.h"

#include "absl/strings/str_cat.h"
#include "src/base/launch_recipe.h"
#include "src/base/status.h"

namespace sinter {
namespace {

absl::Status Lost(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("kernel spec: ", what));
}

// Writes exactly the sequences that CheckSequence accepts: one or two products with alike operands.
// Residual, factors, scales and constants are in the flags after the operands.
void WriteProducts(const ProductSequence& s, ByteWriter& w) {
  if (s.products.empty()) return w.U32(0);  // an empty spec, which no reader accepts
  const MatrixProduct &first = s.front(), &last = s.back();
  const bool two = s.size() > 1;
  for (int v : {s.size(), int{first.pair}, static_cast<int>(first.epilogue.activation()),
                int{first.epilogue.has_bias()}, int{two && last.epilogue.has_bias()},
                static_cast<int>(s.layout()), static_cast<int>(s.element())}) {
    w.U32(static_cast<uint32_t>(v));
  }
  for (int64_t v : {first.n, first.k, two ? last.n : 0, s.m}) w.I64(v);
}

absl::StatusOr<bool> ReadFlag(ByteReader& r) {
  const uint32_t v = r.U32();
  if (v > 1) return Lost(absl::StrCat("flag ", v, " is not 0 or 1"));
  return v == 1;
}

absl::StatusOr<ProductSequence> ReadProducts(ByteReader& r) {
  const uint32_t count = r.U32();
  if (count < 1 || count > kMaxKernelProducts) return Lost(absl::StrCat(count, " products"));
  ProductSequence s;
  s.products.resize(count);
  MatrixProduct& first = s.products.front();
  SINTER_ASSIGN_OR_RETURN(first.pair, ReadFlag(r));
  if (first.pair) first.epilogue.Set(StepOf(EpilogueOp::kGate));
  const auto activation = static_cast<Activation>(r.U32());
  if (activation != Activation::kIdentity) first.epilogue.Set(Activate(activation));
  SINTER_ASSIGN_OR_RETURN(const bool bias1, ReadFlag(r));
  SINTER_ASSIGN_OR_RETURN(const bool bias2, ReadFlag(r));
  if (bias2 && count == 1) return Lost("a bias of a second product, of one");
  const auto layout = static_cast<Layout>(r.U32());
  const auto element = static_cast<DType>(r.U32());
  for (size_t i = 0; i < count; ++i) {
    MatrixProduct& p = s.products[i];
    p.rows.element = p.weights.element = p.result = element;
    p.rows.source = i == 0 ? Source::kBuffer : Source::kProduct;
    p.weights.layout = layout;
    if (i == 0 ? bias1 : bias2) p.epilogue.Set(StepOf(EpilogueOp::kBias, element));
  }
  first.n = r.I64();
  first.k = r.I64();
  const int64_t l = r.I64();
  if (count == 1 && l != 0) return Lost(absl::StrCat("l ", l, " of one product"));
  if (count == 2) s.products.back().n = l, s.products.back().k = first.n;
  s.m = r.I64();
  return s;
}

absl::StatusOr<OperandBinding> ReadBinding(ByteReader& r) {
  const uint32_t role = r.U32();
  OperandBinding b;
  const int64_t buffer = r.I64();
  b.offset_bytes = r.U64();
  b.row_stride = r.I64();
  if (!r.ok()) return Lost("truncated binding");
  if (role >= static_cast<uint32_t>(Role::kCount)) return Lost(absl::StrCat("role ", role));
  if (buffer < kWorkspaceBuffer || buffer >= kMaxPlanBuffers) {
    return Lost(absl::StrCat("buffer ", buffer, " is not in -1..", kMaxPlanBuffers - 1));
  }
  if (b.offset_bytes > kMaxOffset) return Lost(absl::StrCat("offset ", b.offset_bytes));
  if (b.row_stride < 0 || b.row_stride > int64_t{1} << 40) {
    return Lost(absl::StrCat("row stride ", b.row_stride));
  }
  b.role = static_cast<Role>(role);
  b.buffer = static_cast<int>(buffer);
  return b;
}

absl::Status ReadBindings(ByteReader& r, KernelSpec& spec) {
  const uint32_t count = r.U32();
  if (count > static_cast<uint32_t>(Role::kCount)) return Lost(absl::StrCat(count, " operands"));
  uint32_t seen = 0;
  for (uint32_t i = 0; i < count; i++) {
    SINTER_ASSIGN_OR_RETURN(OperandBinding b, ReadBinding(r));
    const uint32_t bit = 1u << static_cast<uint32_t>(b.role);
    if (seen & bit) return Lost(absl::StrCat("role ", NameOf(b.role), " is bound twice"));
    seen |= bit;
    spec.operands.push_back(b);
  }
  return absl::OkStatus();
}

absl::StatusOr<KernelSpec> ReadStitchSpec(ByteReader& r, StitchBudget* budget,
                                          uint64_t* scratch_bytes) {
  KernelSpec spec;
  spec.family = KernelFamily::kStitch;
  SINTER_ASSIGN_OR_RETURN(StitchSpec stitch, ReadStitch(r, budget, scratch_bytes));
  spec.stitch = std::make_shared<const StitchSpec>(std::move(stitch));
  spec.workspace_flags_offset = r.U64();
  if (!r.ok()) return Lost("truncated");
  if (spec.workspace_flags_offset > kMaxOffset) return Lost("barrier offset");
  return spec;
}

constexpr uint32_t kScalesFollow = 256;
constexpr uint32_t kRowsFollow = 512;
constexpr uint32_t kWindowFollows = 1024;
constexpr int kSumActivationBit = 11;
constexpr uint32_t kSumActivations = 7;
constexpr uint32_t kOfCodes = 1u << 14;
constexpr uint32_t kNormFollows = 1u << 15;
constexpr int kColumnScalesBit = 16;  // two of each product
constexpr uint32_t kFastSums = 1u << 20;
constexpr uint32_t kResultF32 = 1u << 21;  // of operands of 16 bits

bool HasResultF32(const MatrixProduct& p) {
  return p.result == DType::kF32 && !IsCode(p.rows.element);
}

// 0: none; 1: f32; 2: the products' element.
uint32_t FactorBits(const MatrixProduct& p) {
  const EpilogueStep* factor = p.epilogue.Find(EpilogueOp::kFactor);
  return factor == nullptr ? 0 : factor->element == DType::kF32 ? 1 : 2;
}

// The same of a scale of each column.
uint32_t ColumnScaleBits(const MatrixProduct& p) {
  return !p.HasColumnScales() ? 0 : p.weights.scales.element == DType::kF32 ? 1 : 2;
}

// 0: none; 1: added in f32; 2: added to the rounded result.
uint32_t ResidualBits(const MatrixProduct& last) {
  if (!last.epilogue.has_residual()) return 0;
  return last.epilogue.Has(EpilogueOp::kRound) ? 2 : 1;
}

// A product of codes also has the elements of its result and bias, and scales.
void WriteOfCodes(const MatrixProduct& p, ByteWriter& w) {
  const EpilogueStep* bias = p.epilogue.Find(EpilogueOp::kBias);
  w.U32(static_cast<uint32_t>(p.result));
  w.U32(static_cast<uint32_t>(bias == nullptr ? p.result : bias->element));
  WriteScales(p.rows.scales, w);
  WriteScales(p.weights.scales, w);
  const QuantizeRule* rule = p.epilogue.quantize();
  if (IsCode(p.result)) WriteRule(rule == nullptr ? QuantizeRule{} : *rule, w);
}

// Precondition: the steps have the element of the operands.
absl::Status ReadOfCodes(ByteReader& r, MatrixProduct& p) {
  p.result = static_cast<DType>(r.U32());
  const auto bias = static_cast<DType>(r.U32());
  p.rows.scales = ReadScales(r);
  p.weights.scales = ReadScales(r);
  for (EpilogueStep& step : p.epilogue.steps) {
    if (step.element == p.rows.element) step.element = p.result;
    if (step.op == EpilogueOp::kBias) step.element = bias;
  }
  if (IsCode(p.result)) {
    EpilogueStep quantize = StepOf(EpilogueOp::kQuantize);
    quantize.rule = ReadRule(r);
    p.epilogue.Set(quantize);
  }
  if (p.epilogue.has_bias() || bias == p.result) return absl::OkStatus();
  return Lost("an element of a bias, of none");
}

// Behind a product's operands, a word: bit 0 constant weights, bit 1 constant rows, bits 2 and 3
// the residual, 4 and 5 the first product's row factor, 6 and 7 the second's; bit 8 says that both
// products' constants follow, bit 9 that the rows of an m do, bit 10 that the first
// product's window does; bits 11 to 13 are the activation of the sum with the residual; bit 14 says
// that a lone product's result, bias and scales follow: it is of codes; bit 15 that eps of the norm
// of a lone product's rows does. Bits 16 and 17 are the first product's scales of columns, 18 and
// 19 the second's; bit 20 says that its sums are fast, bit 21 that a lone product of 16 bits has a
// result of f32.
void WriteFlags(const KernelSpec& spec, ByteWriter& w) {
  if (spec.sequence.products.empty()) return;
  const MatrixProduct &first = spec.sequence.front(), &last = spec.sequence.back();
  const bool two = spec.sequence.size() > 1;
  const float scale2 = two ? last.epilogue.scale() : 1;
  const bool scales = first.epilogue.scale() != 1 || scale2 != 1;
  const bool window = first.rows.source == Source::kWindow;
  w.U32(uint32_t{spec.constant_weights} | uint32_t{spec.constant_rows} << 1 |
        ResidualBits(last) << 2 | FactorBits(first) << 4 | (two ? FactorBits(last) : 0) << 6 |
        (scales ? kScalesFollow : 0) | (spec.sequence.rows_per_m != 1 ? kRowsFollow : 0) |
        (window ? kWindowFollows : 0) | (IsCode(first.rows.element) ? kOfCodes : 0) |
        (first.epilogue.has_norm() ? kNormFollows : 0) |
        static_cast<uint32_t>(last.epilogue.sum_activation()) << kSumActivationBit |
        (ColumnScaleBits(first) | (two ? ColumnScaleBits(last) : 0) << 2) << kColumnScalesBit |
        (first.accumulate == Accumulate::kFast ? kFastSums : 0) |
        (HasResultF32(last) ? kResultF32 : 0));
  if (scales) {
    w.F64(first.epilogue.scale());
    w.F64(scale2);
  }
  if (spec.sequence.rows_per_m != 1) w.I64(spec.sequence.rows_per_m);
  if (window) WriteWindow(first.rows.window, w);
  if (IsCode(first.rows.element)) WriteOfCodes(first, w);
  if (first.epilogue.has_norm()) w.F64(first.epilogue.eps());
}

absl::Status ReadScaling(ByteReader& r, uint32_t factor, bool scaled, MatrixProduct& p) {
  if (factor > 2) return Lost(absl::StrCat("factor ", factor, " is not 0 to 2"));
  if (factor > 0) {
    p.epilogue.Set(StepOf(EpilogueOp::kFactor, factor == 1 ? DType::kF32 : p.result));
  }
  const auto scale = scaled ? static_cast<float>(r.F64()) : 1.0f;
  if (scale != 1) p.epilogue.Set(ScaleBy(scale));
  return absl::OkStatus();
}

absl::Status ReadColumnScales(uint32_t flags, ProductSequence& sequence) {
  const uint32_t bits[] = {flags >> kColumnScalesBit & 3, flags >> (kColumnScalesBit + 2) & 3};
  for (int i = 0; i < 2; ++i) {
    if (bits[i] == 0) continue;
    if (bits[i] > 2) return Lost(absl::StrCat("scale of columns ", bits[i], " is not 0 to 2"));
    if (i >= sequence.size()) return Lost("scales of a second product, of one");
    Operand& weights = sequence[i].weights;
    if (IsCode(weights.element)) return Lost("scales of columns, of codes");
    const DType element = bits[i] == 1 ? DType::kF32 : weights.element;
    weights.scales = {ScaleKind::kVector, 0, 0, element};
  }
  return absl::OkStatus();
}

absl::Status ReadRows(ByteReader& r, uint32_t flags, ProductSequence& sequence) {
  if ((flags & kRowsFollow) != 0) {
    sequence.rows_per_m = r.I64();
    if (sequence.rows_per_m == 1) return Lost("one row an m is written");
  }
  if ((flags & kWindowFollows) == 0) return absl::OkStatus();
  Operand& rows = sequence.products.front().rows;
  rows.source = Source::kWindow;
  ReadWindow(r, rows.window);
  return absl::OkStatus();
}

absl::Status ReadFlags(ByteReader& r, KernelSpec& spec) {
  const uint32_t flags = r.U32();
  if (flags >= 2 * kResultF32) {
    return Lost(absl::StrCat("flags ", flags, " are not below ", 2 * kResultF32));
  }
  spec.constant_weights = (flags & 1) != 0;
  spec.constant_rows = (flags & 2) != 0;
  const bool scaled = (flags & kScalesFollow) != 0;
  MatrixProduct none, &last = spec.sequence.products.back();
  MatrixProduct& second = spec.sequence.size() > 1 ? last : none;
  SINTER_RETURN_IF_ERROR(ReadScaling(r, flags >> 4 & 3, scaled, spec.sequence.products.front()));
  SINTER_RETURN_IF_ERROR(ReadScaling(r, flags >> 6 & 3, scaled, second));
  if (none.epilogue.scaled()) return Lost("a scaling of a second product, of one");
  const uint32_t residual = flags >> 2 & 3;
  if (residual > 2) return Lost(absl::StrCat("residual ", residual, " is not 0 to 2"));
  if (residual > 0) last.epilogue.Set(StepOf(EpilogueOp::kResidual, last.result));
  if (residual > 1) last.epilogue.Set(StepOf(EpilogueOp::kRound, last.result));
  const auto sum = static_cast<Activation>(flags >> kSumActivationBit & kSumActivations);
  if (sum != Activation::kIdentity) last.epilogue.Set(Activate(sum, EpilogueOp::kActivateSum));
  SINTER_RETURN_IF_ERROR(ReadColumnScales(flags, spec.sequence));
  SINTER_RETURN_IF_ERROR(ReadRows(r, flags, spec.sequence));
  const bool codes = IsCode(spec.sequence.element());
  if (codes != ((flags & kOfCodes) != 0)) return Lost("what products of codes have, of others");
  MatrixProduct& first = spec.sequence.products.front();
  if (codes) SINTER_RETURN_IF_ERROR(ReadOfCodes(r, first));
  if ((flags & kResultF32) != 0) {
    if (codes) return Lost("a result of f32 said twice, of codes");
    last.result = DType::kF32;
  }
  if ((flags & kFastSums) != 0) first.accumulate = Accumulate::kFast;
  if ((flags & kNormFollows) != 0) first.epilogue.Set(NormOf(static_cast<float>(r.F64())));
  return absl::OkStatus();
}

constexpr uint32_t kBatchInvariant = 256;

}  // namespace

uint32_t FamilyWord(KernelFamily family, int products, bool batch_invariant) {
  const uint32_t number = family == KernelFamily::kStitch ? 2 : products == 2 ? 1 : 3;
  return number | (batch_invariant ? kBatchInvariant : 0);
}

absl::StatusOr<int> ReadFamilyWord(uint32_t word, KernelFamily* family, bool* batch_invariant) {
  const uint32_t number = word & ~kBatchInvariant;
  if (number < 1 || number > 3) {
    return Lost(absl::StrCat("family ", number, " is not 1 to 3"));
  }
  *family = number == 2 ? KernelFamily::kStitch : KernelFamily::kProduct;
  *batch_invariant = number != word;
  return number == 1 ? 2 : number == 3 ? 1 : 0;
}

void WriteSpec(const KernelSpec& spec, ByteWriter& w) {
  w.U32(FamilyWord(spec.family, spec.sequence.size(), spec.batch_invariant));
  if (spec.family == KernelFamily::kStitch) {
    WriteStitch(*spec.stitch, w);
    w.U64(spec.workspace_flags_offset);
    return;
  }
  WriteProducts(spec.sequence, w);
  w.Bytes(spec.schedule.Canonical());
  w.U32(static_cast<uint32_t>(spec.operands.size()));
  for (const OperandBinding& b : spec.operands) {
    w.U32(static_cast<uint32_t>(b.role));
    w.I64(b.buffer);
    w.U64(b.offset_bytes);
    w.I64(b.row_stride);
  }
  w.U64(spec.workspace_flags_offset);
  WriteFlags(spec, w);
}

absl::StatusOr<KernelSpec> ReadSpec(ByteReader& r, StitchBudget* budget, uint64_t* scratch_bytes) {
  KernelSpec spec;
  bool batch_invariant = false;
  SINTER_ASSIGN_OR_RETURN(const int products,
                          ReadFamilyWord(r.U32(), &spec.family, &batch_invariant));
  if (spec.family == KernelFamily::kStitch) {
    SINTER_ASSIGN_OR_RETURN(spec, ReadStitchSpec(r, budget, scratch_bytes));
    spec.batch_invariant = batch_invariant;
    return spec;
  }
  spec.batch_invariant = batch_invariant;
  SINTER_ASSIGN_OR_RETURN(spec.sequence, ReadProducts(r));
  SINTER_ASSIGN_OR_RETURN(spec.schedule, Schedule::FromCanonical(r.Bytes()));
  SINTER_RETURN_IF_ERROR(ReadBindings(r, spec));
  spec.workspace_flags_offset = r.U64();
  SINTER_RETURN_IF_ERROR(ReadFlags(r, spec));
  if (!r.ok()) return Lost("truncated");
  if (spec.workspace_flags_offset > kMaxOffset) return Lost("flags offset");
  const absl::Status fits = CheckScheduleFields(spec.sequence, spec.schedule);
  if (!fits.ok()) return Lost(fits.message());
  if (products != spec.sequence.size()) {
    return Lost(absl::StrCat(spec.sequence.size(), " products in a kernel of ", products));
  }
  return spec;
}

}  // namespace sinter
