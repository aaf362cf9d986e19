// Canonical bytes of sequences.
#include "absl/strings/str_cat.h"
#include "src/base/codec.h"
#include "src/base/status.h"
#include "src/product/sequence.h"

namespace sinter {
namespace {

constexpr uint8_t kCanonicalVersion = 6;
constexpr uint8_t kStridesFollow = 0x80;             // in the byte of the kind of scales
constexpr int64_t kGroupsFollow = int64_t{1} << 32;  // added to a window's channels

absl::Status Lost(absl::string_view what) { return DataLoss("product sequence: ", what); }

// The functions below write fields or read them, by the codec. FromCanonical checks at the end what
// they have read.
template <typename Codec, typename Window>
void WindowFields(Codec& codec, Window& window) {
  int64_t channels = window.channels + (window.conv.groups == 1 ? 0 : kGroupsFollow);
  codec(window.height, window.width, channels);
  if (channels >= kGroupsFollow) codec(window.conv.groups);
  if constexpr (Codec::kReads) window.channels = channels % kGroupsFollow;
  codec(window.taps, window.conv.strides, window.conv.dilations, window.conv.pads);
}

template <typename Codec, typename ScalesField>
void ScalesFields(Codec& codec, ScalesField& scales) {
  auto kind = static_cast<uint8_t>(static_cast<uint8_t>(scales.kind) |
                                   (scales.strided() ? kStridesFollow : 0));
  codec(kind, scales.block_rows, scales.block_columns);
  if constexpr (Codec::kReads) scales.kind = static_cast<ScaleKind>(kind & ~kStridesFollow);
  if ((kind & kStridesFollow) != 0) codec(scales.row_stride, scales.group_stride, scales.of_m);
}

template <typename Codec, typename OperandField>
void OperandFields(Codec& codec, OperandField& o) {
  codec(Word(o.element), Word(o.layout));
  ScalesFields(codec, o.scales);
  const bool of_codes = IsCode(o.element);  // their scales are f32
  if (o.scales.kind != ScaleKind::kNone && !of_codes) codec(Word(o.scales.element));
  codec(o.source);
  if (o.source == Source::kWindow) WindowFields(codec, o.window);
}

// A bit for each part of an epilogue that follows, and for what its program's result is for.
template <typename Codec, typename Epilogue>
absl::Status EpilogueFields(Codec& codec, Epilogue& e) {
  bool norm = e.norm.has_value(), program = e.program.present();
  bool quantize = e.quantize.has_value(), for_codes = e.program.for_codes;
  codec(Bits(norm, program, quantize, for_codes));
  if constexpr (Codec::kReads) {
    if (norm) codec(e.norm.emplace());
    if (program) {
      SINTER_ASSIGN_OR_RETURN(e.program, ReadProgram(codec));
      e.program.for_codes = for_codes;
    }
    if (quantize) codec(e.quantize.emplace());
  } else {
    if (norm) codec(*e.norm);
    if (program) WriteProgram(e.program, codec);
    if (quantize) codec(*e.quantize);
  }
  return absl::OkStatus();
}

template <typename Codec, typename Product>
absl::Status ProductFields(Codec& codec, Product& p) {
  codec(p.n, p.k, Bits(p.pair, p.accumulate, p.k_is_m));
  OperandFields(codec, p.rows);
  OperandFields(codec, p.weights);
  SINTER_RETURN_IF_ERROR(EpilogueFields(codec, p.epilogue));
  codec(Word(p.result));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ProductSequence> ProductSequence::FromCanonical(absl::string_view bytes) {
  ByteReader r(bytes);
  const uint8_t version = r.U8();
  if (version != kCanonicalVersion) return Lost(absl::StrCat("version ", version));
  const uint32_t count = r.U32();
  if (count < 1 || count > kMaxKernelProducts) return Lost(absl::StrCat(count, " products"));
  ProductSequence sequence;
  sequence.products.resize(count);
  r(sequence.rows_per_m);
  for (MatrixProduct& p : sequence.products) SINTER_RETURN_IF_ERROR(ProductFields(r, p));
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
  w(kCanonicalVersion, static_cast<uint32_t>(size()), rows_per_m);
  for (const MatrixProduct& p : products) ProductFields(w, p).IgnoreError();
  return w.Take();
}

}  // namespace sinter
