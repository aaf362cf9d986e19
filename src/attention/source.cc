#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/substitute.h"
#include "src/attention/attention.h"
#include "src/base/format.h"
#include "src/base/numbers.h"
#include "src/base/status.h"
#include "src/product/code/kernel_source.h"
#include "src/product/operand.h"

namespace sinter {
namespace {

constexpr double kLog2E = 1.4426950408889634;
constexpr uint32_t kBoxColumns = 64;  // elements of a row of the swizzle

const char* TypeOf(DType dtype) {
  return dtype == DType::kPred ? "Predicate" : DeviceTypeOf(dtype);
}

// The digit of batch b.
std::string DigitText(const AttentionProblem& p, const BatchDigit& digit) {
  const bool outermost = digit.extent == 0 || (!p.of_m && digit.inner * digit.extent == p.batches);
  const std::string high = digit.inner == 1 ? "b" : absl::StrCat("b / ", digit.inner);
  return outermost ? high : absl::StrCat(high, " % ", digit.extent);
}

// Elements from the first batch's matrix to that of batch b.
std::string OffsetText(const AttentionProblem& p, const BatchedMatrix& matrix) {
  std::vector<std::string> parts;
  for (const BatchDigit& digit : matrix.digits) {
    parts.push_back(
        absl::StrCat("static_cast<long long>(", DigitText(p, digit), ") * ", digit.stride));
  }
  return parts.empty() ? "0" : absl::StrJoin(parts, " + ");
}

std::string LoadText(const AttentionProblem& p, const char* name, const BatchedMatrix& matrix) {
  std::string places;
  for (const BatchDigit& digit : matrix.digits) absl::StrAppend(&places, ", ", DigitText(p, digit));
  return absl::Substitute(
      "  static SINTER_DEVICE void load_$0(u32 to, const TensorMap* map, int x, int y, int b, u32 "
      "full) {\n    tma_load(to, map, x, y$1, full);\n  }\n",
      name, places);
}

// Whether two neighbouring columns of a term are one aligned word.
bool HasPairs(const AttentionProblem& p, const BatchedMatrix& term) {
  bool even = term.column == 1 && term.row % 2 == 0 && p.keys % 2 == 0;
  for (const BatchDigit& digit : term.digits) even = even && digit.stride % 2 == 0;
  return even;
}

std::string TermsText(const AttentionProblem& p, const AttentionSchedule& s) {
  std::string members, places, loads;
  std::map<int, std::string> names;
  for (int i = 0; i < p.Terms(); ++i) {
    const BatchedMatrix& term = p.terms[static_cast<size_t>(i)];
    const DType dtype = p.TermType(i);
    absl::StrAppend(&members, absl::Substitute(
                                  "  HeldTerm<ScoreTerm<$0, $1, $2, $3>, $4, $5, $6> t$7;\n",
                                  TypeOf(dtype), term.row, term.column, BoolText(HasPairs(p, term)),
                                  s.block_keys / 8, p.keys, BoolText(p.keys <= s.block_keys), i));
    absl::StrAppend(&places,
                    absl::Substitute("    t$0.place(static_cast<const $1::Stored*>(args.terms[$0]) "
                                     "+ $2, row0, row1);\n",
                                     i, TypeOf(dtype), OffsetText(p, term)));
    absl::StrAppend(&loads, "    t", i, ".template load<kLast>(first);\n");
    names[p.program.InputsOf(LeafKind::kMatrix)[static_cast<size_t>(i)]] =
        absl::StrCat(dtype == DType::kPred ? "(" : "", "t", i, ".at(i)",
                     dtype == DType::kPred ? " != 0.f)" : "");
  }
  for (const auto& [kind, name] : {std::pair{LeafKind::kValue, "x"},
                                   {LeafKind::kRowIndex, "place.row(i)"},
                                   {LeafKind::kColumnIndex, "place.key(i)"}}) {
    for (const int input : p.program.InputsOf(kind)) names[input] = name;
  }
  const std::vector<Precision> precisions = ScorePrecisions(p.program);
  return absl::StrCat(
      "struct Terms {\n", members,
      "  SINTER_DEVICE void place(const AttentionArguments& args, int b, int row0, "
      "int row1) {\n",
      places, "  }\n  template <bool kLast>\n  SINTER_DEVICE void load(int first) {\n", loads,
      "  }\n  SINTER_DEVICE float apply(float x, int i, const ScorePlace& place) "
      "const {\n",
      BodyText(p.program, names, &precisions), "  }\n};\n\n");
}

bool HasVectors(const AttentionProblem& p) {
  const int64_t vector = 16 / SizeOf(p.result);
  bool whole = p.out.row % vector == 0;
  for (const BatchDigit& digit : p.out.digits) whole = whole && digit.stride % vector == 0;
  return whole;
}

std::string ConfigText(const AttentionProblem& p, const AttentionSchedule& s) {
  std::string text = absl::Substitute(
      "struct Config {\n  using Element = $0;\n  using Result = $1;\n  using Terms = $2;\n",
      TypeOf(p.element), TypeOf(p.result), p.IsPlain() ? "NoTerms" : "sinter::Terms");
  const auto number = [&](const char* name, int64_t value) {
    absl::StrAppend(&text, "  static constexpr int ", name, " = ", value, ";\n");
  };
  const auto flag = [&](const char* name, bool value) {
    absl::StrAppend(&text, "  static constexpr bool ", name, " = ", BoolText(value), ";\n");
  };
  number("kHead", p.head);
  number("kValueHead", p.value_head);
  number("kRows", p.rows);
  number("kKeys", p.keys);
  number("kWarpgroups", s.warpgroups);
  number("kBlockKeys", s.block_keys);
  number("kStages", s.stages);
  number("kQueryStages", s.query_stages);
  number("kResident", s.resident);
  number("kSplits", s.splits);
  number("kDiagonal", p.diagonal);
  flag("kPlain", p.IsPlain());
  flag("kHidden", !p.IsPlain() || p.causal || p.zero_unseen);  // scores may be -infinity
  flag("kCausal", p.causal);
  flag("kZeroUnseen", p.zero_unseen);
  flag("kZeroOverflowed", p.zero_overflowed && !p.IsPlain());
  flag("kOutVectors", HasVectors(p));
  absl::StrAppend(
      &text, "  static constexpr float kLeastScore = ", FloatText(kLeastBase2Score), ";\n",
      "  static constexpr float kScale = ", FloatText(p.IsPlain() ? p.Scale() * kLog2E : 1), ";\n",
      "  static constexpr long long kOutRow = ", p.out.row, ";\n", LoadText(p, "q", p.q),
      LoadText(p, "k", p.k), LoadText(p, "v", p.v),
      "  static SINTER_DEVICE long long out_at(int b) { return ", OffsetText(p, p.out),
      "; }\n};\n");
  return text;
}

TensorMapTemplate MapOf(const AttentionProblem& p, const BatchedMatrix& matrix, int64_t rows,
                        int64_t head, int box_rows, const BufferPlace& operand) {
  const auto size = static_cast<uint64_t>(SizeOf(p.element));
  TensorMapTemplate map;
  map.buffer = operand.buffer;
  map.offset_bytes = operand.offset_bytes;
  map.dtype = p.element;
  map.dims = {Dim::Constant(head), Dim::Constant(rows)};
  map.stride_bytes = {static_cast<uint64_t>(matrix.row) * size};
  map.box = {kBoxColumns, static_cast<uint32_t>(box_rows)};
  for (const BatchDigit& digit : matrix.digits) {
    map.dims.push_back(digit.extent == 0 ? Dim::M() : Dim::Constant(digit.extent));
    map.stride_bytes.push_back(static_cast<uint64_t>(digit.stride) * size);
    map.box.push_back(1);
  }
  return map;
}

}  // namespace

std::vector<std::string> HeadersOf(const AttentionProblem& p, const AttentionSchedule&) {
  if (p.IsPlain()) return {"attention/attention.cuh"};
  return {"attention/attention.cuh", kProgramHeader};
}

std::string SourceOf(const AttentionProblem& p, const AttentionSchedule& s) {
  const ElementRow element = ElementOf(p.element);
  std::string text = IncludesText(HeadersOf(p, s));
  absl::StrAppend(&text, "\nnamespace sinter {\n\n",
                  WgmmaSource(s.block_keys, element, false, false), "\n",
                  RegisterWgmmaSource(static_cast<int>(p.value_head), element, true), "\n");
  if (!p.IsPlain()) text += TermsText(p, s);
  text += ConfigText(p, s);
  absl::StrAppend(&text, "static_assert(AttentionShape<Config>::kThreads == ", s.Threads(),
                  " &&\n              AttentionShape<Config>::kSharedBytes + 1024 == ",
                  AttentionSharedBytes(p, s),
                  ", \"sizes are the plan's\");\n\n}  // namespace sinter\n\n");
  std::string terms, given;
  for (int i = 0; i < kMaxScoreTerms; ++i) {
    if (i < p.Terms()) absl::StrAppend(&terms, ", const void* t", i);
    absl::StrAppend(&given, i ? ", " : "", i < p.Terms() ? absl::StrCat("t", i) : "nullptr");
  }
  absl::StrAppend(
      &text,
      absl::Substitute(
          "extern \"C\" __global__ void __launch_bounds__($0, $1) $2(\n"
          "    const __grid_constant__ sinter::TensorMap q, const __grid_constant__ "
          "sinter::TensorMap k,\n    const __grid_constant__ sinter::TensorMap v, void* out$3, int "
          "m) {\n  const sinter::AttentionArguments args{&q, &k, &v, out, {$4}, $5$6};\n"
          "  sinter::attention<sinter::Config>(args);\n}\n",
          s.Threads(), s.resident, kAttentionEntry, terms, given, p.of_m ? "m * " : "", p.batches));
  return text;
}

absl::StatusOr<LaunchRecipe> RecipeOf(const AttentionProblem& p, const AttentionSchedule& s,
                                      const std::vector<BufferPlace>& operands) {
  const auto count = static_cast<size_t>(4 + p.Terms());
  if (operands.size() != count) {
    return Invalid("attention: ", operands.size(), " operands, must be ", count);
  }
  LaunchRecipe recipe;
  recipe.entry = kAttentionEntry;
  recipe.grid = {static_cast<uint32_t>(s.grid), 1, 1};
  recipe.block = {static_cast<uint32_t>(s.Threads()), 1, 1};
  recipe.cluster = {static_cast<uint32_t>(s.splits), 1, 1};
  recipe.shared_bytes = static_cast<uint32_t>(AttentionSharedBytes(p, s));
  recipe.pdl = true;
  recipe.tensor_maps = {MapOf(p, p.q, p.rows, p.head, s.BlockRows(), operands[0]),
                        MapOf(p, p.k, p.keys, p.head, s.block_keys, operands[1]),
                        MapOf(p, p.v, p.keys, p.value_head, s.block_keys, operands[2])};
  for (int i = 0; i < 3; ++i) recipe.args.push_back({ArgKind::kTensorMap, i});
  const auto pointer = [&](const BufferPlace& operand, const BatchedMatrix& matrix, DType dtype) {
    int64_t row_bytes = 0;
    for (const BatchDigit& digit : matrix.digits) {
      if (digit.extent == 0) row_bytes = digit.stride * SizeOf(dtype);
    }
    recipe.args.push_back(PointerSlot(operand, row_bytes));
  };
  pointer(operands.back(), p.out, p.result);
  size_t next = 3;
  for (int i = 0; i < p.Terms(); ++i) {
    pointer(operands[next++], p.terms[static_cast<size_t>(i)], p.TermType(i));
  }
  recipe.args.push_back({ArgKind::kSymbolM});
  return recipe;
}

}  // namespace sinter
