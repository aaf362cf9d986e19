#include "src/grouped/grouped.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/numbers.h"
#include "src/base/status.h"
#include "src/chain/infer.h"
#include "src/chain/tensor_type.h"
#include "src/product/operand.h"

namespace sinter {
namespace {

constexpr uint8_t kProductVersion = 8, kScheduleVersion = 3;
constexpr int64_t kRowBytes = 128, kVectorBytes = 16;  // bytes of a row of a stage; of one copy
// The alignment of the stages: the kernel rounds their address up.
constexpr int64_t kAlignment = 1024;
constexpr int64_t kMostStride = int64_t{1} << 40;

// Calls visit(stride) for each stride, in the order of the canonical bytes.
template <typename Product, typename Visitor>
void ForEachStride(Product& p, const Visitor& visit) {
  for (auto* stride : {&p.row_stride, &p.row_slot_stride, &p.id_stride, &p.id_slot_stride,
                       &p.expert_stride, &p.weight_stride, &p.out_stride, &p.out_slot_stride,
                       &p.row_scale_stride, &p.row_scale_slot_stride, &p.row_scale_group,
                       &p.weight_scale_expert, &p.weight_scale_column, &p.weight_scale_group}) {
    visit(*stride);
  }
  for (auto& leaf : p.leaves) {
    for (auto* stride : {&leaf.row, &leaf.slot, &leaf.expert, &leaf.column, &leaf.offset}) {
      visit(*stride);
    }
  }
}

// Static shared memory: barriers of stages and tiles, slots of two tiles, numbers of first tiles,
// and counts before segments (grouped_routing.cuh). Swapped, also numbers and scales of slots,
// twice the segments, the order of groups and where sizes begin in it (swapped_routing.cuh).
int64_t RoutingBytes(const GroupedProduct& p, const GroupedSchedule& s) {
  constexpr int64_t kSumBarriers = 4;  // of four bits
  const int64_t groups = p.experts + 1, twice = s.swapped > 0 ? 2 : 1;
  const int64_t segments = twice * (groups <= 129 ? 16 : groups <= 257 ? 8 : groups <= 513 ? 4 : 2);
  const int64_t scales = p.row_scales == GroupedScales::kWhole ? s.block_m : 1;
  const int64_t largest =  // of groups of results, in three turns
      !p.quantizer.present              ? 1
      : !p.IsPair() && s.block_n == 256 ? 2 * 3 * s.block_m
                                        : 3 * s.block_m;
  return 8 * (2 * s.stages + 4 + (s.slices > 0 ? kSumBarriers : 0)) +
         2 * 4 * (twice * s.block_m + 2) + 4 * (groups + 1) + 4 * (segments + 1) * groups +
         (s.swapped > 0
              ? RoundUp(2 * groups, 8) + 4 * (s.block_m / 8 + 1) + 2 * 4 * scales + 4 * largest
              : 0);
}

const char* TextOf(GroupedScales scales, const char* whole, const char* groups) {
  return scales == GroupedScales::kGroups ? groups : whole;
}

// W's columns of a tile that lie side by side, of gate, up or all.
int64_t ColumnsBeside(const GroupedProduct& p, const GroupedSchedule& s) {
  return p.HasHalves() ? s.block_n / 2 : s.block_n;
}

// Bytes of the scales that are loaded with a stage.
int64_t StageScaleBytes(const GroupedProduct& p, const GroupedSchedule& s) {
  const bool rows = p.row_scales == GroupedScales::kGroups;
  if (!rows && p.weight_scales != GroupedScales::kGroups) return 0;
  return (rows ? 4 * s.block_m : 0) + 16;
}

absl::Status Lost(absl::string_view what) { return DataLoss("grouped product: ", what); }

// Writes or reads a product, by the codec.
template <typename Codec, typename Product>
absl::Status ProductFields(Codec& codec, Product& p) {
  auto scales =
      static_cast<uint8_t>(static_cast<int>(p.row_scales) | static_cast<int>(p.weight_scales) << 2);
  codec(p.rows, p.weights, p.result, p.experts, p.slots, p.n, p.k, p.fixed_rows,
        Bits(p.slot_rows, p.input_major, p.by_ends, p.early), p.pair, scales, p.codes);
  if constexpr (Codec::kReads) {
    p.row_scales = static_cast<GroupedScales>(scales % 4);
    p.weight_scales = static_cast<GroupedScales>(scales / 4);
  }
  codec(Bits(p.quantizer.present, p.quantizer.ue8m0));
  if (p.quantizer.present) codec(p.quantizer.eps, p.quantizer.upper_bound);
  bool program = p.program.present();
  codec(program);
  if (program) {
    if constexpr (Codec::kReads) {
      SINTER_ASSIGN_OR_RETURN(p.program, ReadProgram(codec));
      p.program.for_codes = IsCode(p.result);
      p.leaves.resize(p.program.leaves.size());
    } else {
      WriteProgram(p.program, codec);
    }
    for (auto& leaf : p.leaves) codec(Byte(leaf.operand));
  }
  ForEachStride(p, [&](auto& stride) { codec(stride); });
  return absl::OkStatus();
}

absl::Status CheckReadTypes(const GroupedProduct& p) {
  for (const DType dtype : {p.rows, p.weights, p.result}) {
    if (!IsFloat(dtype) && dtype != DType::kE4M3) return Lost("dtype");
  }
  if (p.pair > GroupedPair::kInTurns) return Lost("flags");
  const bool codes = p.weights == DType::kE4M3;
  if (p.row_scales > GroupedScales::kGroups || p.weight_scales > GroupedScales::kGroups ||
      (p.rows == DType::kE4M3) != codes || p.HasScales() != codes ||
      (p.weight_scales != GroupedScales::kNone) != codes || (codes && p.input_major)) {
    return Lost("scales");
  }
  const GroupedQuantizer& q = p.quantizer;
  const bool results = p.result == DType::kE4M3;
  if ((q.present && !results) || (results && !codes) || (q.ue8m0 && !q.present)) {
    return Lost("quantizer");
  }
  if (!q.present) return absl::OkStatus();
  const bool fits = codes && !p.by_ends && p.n % kScaleBlock == 0 && q.eps > 0 && q.eps <= 1 &&
                    (q.upper_bound == 0 || q.upper_bound >= q.eps);
  return fits ? absl::OkStatus() : Lost("quantizer");
}

absl::Status CheckCodes(const GroupedProduct& p) {
  if (!p.HasCodes()) return p.codes == FourBitWeights() ? absl::OkStatus() : Lost("four bits");
  const bool elements = p.rows == DType::kBF16 || p.rows == DType::kF16;
  if (!elements || p.weights != p.rows || p.input_major || p.HasScales()) return Lost("four bits");
  if (p.codes.packed) return Lost("packed weights of experts");
  return CheckFourBitWeights(p.codes, p.n, p.k).ok() ? absl::OkStatus() : Lost("four bits");
}

absl::Status CheckRead(const GroupedProduct& p) {
  for (const int64_t* extent : {&p.experts, &p.slots, &p.n, &p.k, &p.fixed_rows}) {
    const int64_t least = extent == &p.fixed_rows ? 0 : 1;
    if (*extent < least || *extent > kMaxExtent) return Lost("extent");
  }
  SINTER_RETURN_IF_ERROR(CheckReadTypes(p));
  SINTER_RETURN_IF_ERROR(CheckCodes(p));
  const bool groups =
      p.row_scales == GroupedScales::kGroups || p.weight_scales == GroupedScales::kGroups;
  if (groups && p.k % kScaleBlock != 0) return Lost("groups of k");
  bool within = true;
  ForEachStride(p,
                [&](int64_t stride) { within = within && stride >= 0 && stride <= kMostStride; });
  if (!within) return Lost("stride");
  if (p.by_ends && (p.slots != 1 || p.slot_rows || p.HasScales())) return Lost("slots of ends");
  if (!CheckGroupedProgram(p).ok()) return Lost("program");
  if (p.slots > kMostSlots) return Lost("slots");
  if (p.experts > kMostExperts) return Lost("experts");
  if (p.k % kGroupedAlignment != 0) return Lost("k");
  const int64_t columns = p.WeightColumns();
  if (columns > kMaxExtent || columns > kMaxElements / p.experts / p.k) return Lost("weights");
  return absl::OkStatus();
}

// The program and the types of what it reads: "add(y,c1) of bf16".
std::string ProgramText(const GroupedProduct& p) {
  std::string text = sinter::ToString(p.program);
  const char* before = " of ";
  for (const int input : p.LeafInputs()) {
    const GroupedLeaf& leaf = p.LeafOf(input);
    const bool shared = p.program.leaves[static_cast<size_t>(input)] == LeafKind::kColumn &&
                        leaf.expert == 0;  // by all experts
    absl::StrAppend(&text, before, shared ? "shared " : "", NameOf(p.program.TypeOf(input)));
    before = ",";
  }
  return text;
}

// Whether a leaf of `kind` has only the strides that its kind has.
bool FitsKind(const GroupedProduct& p, LeafKind kind, const GroupedLeaf& leaf) {
  const bool of_slots = leaf.row != 0 || leaf.slot != 0, of_columns = leaf.column != 0;
  if (p.by_ends && (leaf.slot != 0 || leaf.expert != 0)) return false;
  switch (kind) {
    case LeafKind::kColumn:
      return !of_slots;
    case LeafKind::kMatrix:
      return leaf.expert == 0;
    case LeafKind::kRow:
      return leaf.expert == 0 && !of_columns && leaf.offset == 0;
    case LeafKind::kNumber:
      return leaf == GroupedLeaf{.operand = leaf.operand};
    default:  // a sum
      return leaf == GroupedLeaf{};
  }
}

// Writes or reads a schedule, by the codec.
template <typename Codec, typename Schedule>
void ScheduleFields(Codec& codec, Schedule& s) {
  constexpr uint32_t kMost = 1u << 20;
  codec(Word(s.block_m, kMost), Word(s.block_n, kMost), Word(s.stages, kMost), Word(s.grid, kMost),
        Byte(s.swapped, 2), Byte(s.slices, 8));
}

}  // namespace

std::vector<int> GroupedProduct::LeafInputs() const {
  std::vector<int> inputs;
  for (size_t i = 0; i < program.leaves.size(); ++i) {
    if (program.leaves[i] > LeafKind::kUp) inputs.push_back(static_cast<int>(i));
  }
  return inputs;
}

std::vector<int> GroupedProduct::OperandInputs() const {
  std::vector<int> inputs;
  for (const int input : LeafInputs()) {
    if (LeafOf(input).operand == static_cast<int>(inputs.size())) inputs.push_back(input);
  }
  return inputs;
}

std::vector<std::string> GroupedWords(const GroupedProduct& p) {
  std::vector<std::string> words;
  if (p.program.present()) {
    const Activation of_form = p.program.form.value_or(EpilogueForm{}).activation;
    if (of_form == Activation::kRelu) words.emplace_back(NameOf(of_form));
    for (const FoundActivation& found : ActivationsIn(*p.program.body)) {
      if (found.activation != Activation::kIdentity) words.emplace_back(NameOf(found.activation));
    }
    if (p.Reads(LeafKind::kColumn)) words.emplace_back("bias");
    if (p.Reads(LeafKind::kRow)) words.emplace_back("weights");
    if (p.Reads(LeafKind::kMatrix)) words.emplace_back("residual");
    if (words.empty() && !p.IsPair()) words.emplace_back("program");
  }
  if (p.quantizer.present) words.emplace_back("quantize");
  return words;
}

EpilogueProgram GroupedProgramOf(std::shared_ptr<const Chain> body, std::vector<LeafKind> leaves,
                                 const GroupedProduct& p) {
  const Op& stored = body->op(body->outputs()[0].value);
  const Op& made = body->op(stored.operands[0]);
  if (!p.IsPair() && made.kind == OpKind::kInput) return {};  // the sum
  EpilogueProgram program = ProgramOf(std::move(body), std::move(leaves));
  program.for_codes = IsCode(p.result);
  return program;
}

absl::Status CheckGroupedProgram(const GroupedProduct& p) {
  const EpilogueProgram& program = p.program;
  if (p.leaves.size() != program.leaves.size()) {
    return Invalid("program has ", program.leaves.size(), " leaves, ", p.leaves.size(), " lie");
  }
  SINTER_RETURN_IF_ERROR(
      CheckProgram(program, IsCode(p.result) ? DType::kF32 : p.result, p.IsPair()));
  if (program.aux_results() > 0) return Invalid("program has several results, must have one");
  const std::vector<int> operands = p.OperandInputs();
  for (size_t i = 0; i < p.leaves.size(); ++i) {
    const GroupedLeaf& leaf = p.leaves[i];
    const auto input = static_cast<int>(i);
    if (!FitsKind(p, program.leaves[i], leaf)) {
      return Invalid("program's input ", i, " has strides that its kind has not");
    }
    if (program.leaves[i] <= LeafKind::kUp) continue;
    const auto at = static_cast<size_t>(leaf.operand);
    if (at >= operands.size() || program.TypeOf(operands[at]) != program.TypeOf(input)) {
      return Invalid("program's input ", i, " reads operand ", leaf.operand, " of ",
                     operands.size(), ", or as another type");
    }
  }
  return absl::OkStatus();
}

std::string GroupedProduct::ToString() const {
  std::string text =
      absl::StrCat("grouped product ", by_ends ? "by ends" : absl::StrCat("top=", slots),
                   " experts=", experts, " n=", n, " k=", k, slot_rows ? " rows=slot" : "");
  if (IsPair()) absl::StrAppend(&text, " pair=", HasHalves() ? "halves" : "in turns");
  if (program.present()) absl::StrAppend(&text, " program=", ProgramText(*this));
  if (early) absl::StrAppend(&text, " early");
  absl::StrAppend(&text, " layout=", input_major ? "io" : "oi", " dtype=", NameOf(weights));
  if (rows != weights) absl::StrAppend(&text, " rows_dtype=", NameOf(rows));
  if (HasCodes()) absl::StrAppend(&text, codes.ToString());
  if (HasScales()) {
    absl::StrAppend(&text, " scales=", TextOf(row_scales, "row", "1x128"), ",",
                    TextOf(weight_scales, "column", "128x128"));
  }
  if (quantizer.present) {
    absl::StrAppend(&text, " quantize=group", quantizer.ue8m0 ? " ue8m0" : "",
                    " eps=", quantizer.eps);
    if (quantizer.upper_bound != 0) {
      absl::StrAppend(&text, " upper_bound=", quantizer.upper_bound);
    }
  }
  return absl::StrCat(text, " result=", NameOf(result));
}

void GroupedProduct::Write(ByteWriter& w) const {
  w.U8(kProductVersion);
  ProductFields(w, *this).IgnoreError();
}

absl::StatusOr<GroupedProduct> GroupedProduct::Read(ByteReader& r) {
  GroupedProduct p;
  if (r.U8() != kProductVersion) return Lost("version");
  SINTER_RETURN_IF_ERROR(ProductFields(r, p));
  SINTER_RETURN_IF_ERROR(CheckRead(p));
  return p;
}

namespace {

// As GroupedFourBit: weights and rows of a step, and the sums of two units.
int64_t FourBitSharedBytes(const GroupedSchedule& s) {
  constexpr int64_t kPieceBytes = 2048, kPad = 4;
  const int64_t stage = s.slices * s.block_n * kRowBytes + s.RowPieces() * kPieceBytes;
  return kAlignment + s.stages * stage + int64_t{2} * 4 * s.slices * s.block_m * (s.block_n + kPad);
}

absl::Status CheckFourBitSchedule(const GroupedProduct& p, const GroupedSchedule& s,
                                  const DeviceModel& model) {
  const auto in = [](const char* name, int64_t value, int64_t least, int64_t most) {
    return value >= least && value <= most
               ? absl::OkStatus()
               : FailedPrecondition(name, " is ", value, ", must be in [", least, ", ", most, "]");
  };
  if (s.block_m != 8 && s.block_m != 16 && s.block_m != 32) {
    return FailedPrecondition("block_m is ", s.block_m, ", must be 8, 16 or 32 of four bits");
  }
  SINTER_RETURN_IF_ERROR(in("slices", s.slices, 1, 4));
  SINTER_RETURN_IF_ERROR(in("block_n", s.block_n, 32, 256));
  SINTER_RETURN_IF_ERROR(in("stages", s.stages, 2, 12));
  SINTER_RETURN_IF_ERROR(in("swapped", s.swapped, 0, 0));
  const int least = p.HasHalves() ? 32 : 16;  // a warp's columns are all of gate or of up
  if (s.block_n % least != 0) {
    return FailedPrecondition("block_n is ", s.block_n, ", must be a multiple of ", least);
  }
  // Registers would spill: a thread needs 80, and 96 of more than 8 rows.
  const int most_threads = s.block_m > 8 ? 640 : 768;
  SINTER_RETURN_IF_ERROR(in("threads", s.Threads(), 1, most_threads));
  const int64_t row_vector = kVectorBytes / SizeOf(p.rows);
  for (const auto& [name, stride] :
       {std::make_pair("rows", p.row_stride), std::make_pair("slots", p.row_slot_stride)}) {
    if (stride % row_vector == 0) continue;
    return FailedPrecondition(name, " are ", stride, " elements apart, must be a multiple of ",
                              row_vector);
  }
  if (p.experts > 1 && p.codes.byte_expert != p.WeightColumns() * p.codes.byte_stride) {
    return FailedPrecondition("experts of four bits are ", p.codes.byte_expert,
                              " bytes apart, must be without gaps, ",
                              p.WeightColumns() * p.codes.byte_stride);
  }
  constexpr int64_t kMostColumns = int64_t{1} << 31;  // the device counts them in 32 bits
  SINTER_RETURN_IF_ERROR(
      in("columns of all experts", p.experts * p.WeightColumns(), 1, kMostColumns - 1));
  const int64_t bytes = SharedMemoryBytes(p, s) + RoutingBytes(p, s);
  return in("shared memory", bytes, 1, model.shared_bytes_per_block);
}

}  // namespace

int64_t SharedMemoryBytes(const GroupedProduct& p, const GroupedSchedule& s) {
  if (s.block_m == 0) return 0;
  if (s.slices > 0) return FourBitSharedBytes(s);
  return s.stages * ((s.block_m + s.block_n) * kRowBytes + StageScaleBytes(p, s)) + kAlignment;
}

int BlocksPerSm(const GroupedProduct& p, const GroupedSchedule& s) {
  constexpr int64_t kBytesPerSm = 227 * 1024, kStaticBytes = 14 * 1024;
  // With one column, a lane holds as much of the row as of weights, more than 64 registers. e4m3
  // takes more: conversions, and scales of 128.
  if (s.IsWarpDots()) return (WarpColumns(p) > 1 ? 4 : 3) - (p.HasScales() ? 1 : 0);
  if (s.block_m == 0) return 8;
  if (s.slices > 0 || s.swapped > 0 || s.block_m != 64 || s.block_n == 256) return 1;
  const int64_t most = kBytesPerSm / (SharedMemoryBytes(p, s) + kStaticBytes);
  // Two blocks of 256 threads leave a thread 128 registers, three 80, which is too few for promoted
  // sums.
  const bool few = s.block_n == 64 && !p.HasScales();
  return static_cast<int>(std::clamp<int64_t>(most, 1, few ? 3 : 2));
}

std::string GroupedSchedule::ToString(bool with_grid) const {
  std::string text = block_m == 0
                         ? (block_n == 0 ? "dots" : "dots of warps")
                         : absl::StrCat(slices > 0 ? absl::StrCat("slices", slices, " ") : "",
                                        swapped > 0 ? absl::StrCat("swapped x", swapped, " ") : "",
                                        "bm", block_m, " bn", block_n, " st", stages);
  return with_grid ? absl::StrCat(text, " grid ", grid) : text;
}

void GroupedSchedule::Write(ByteWriter& w) const {
  w.U8(kScheduleVersion);
  ScheduleFields(w, *this);
}

absl::StatusOr<GroupedSchedule> GroupedSchedule::Read(ByteReader& r) {
  if (r.U8() != kScheduleVersion) return absl::DataLossError("grouped schedule: version");
  GroupedSchedule s;
  ScheduleFields(r, s);
  return s;
}

absl::Status CheckTensorCores(const GroupedProduct& p) {
  if (p.HasCodes()) return FailedPrecondition("weights have four bits, must be elements");
  const bool taken =
      p.weights == DType::kBF16 || p.weights == DType::kF16 || p.weights == DType::kE4M3;
  if (!taken || p.rows != p.weights) {
    return FailedPrecondition("rows are ", NameOf(p.rows), " and weights ", NameOf(p.weights),
                              ", must both be bf16, both f16 or both e4m3");
  }
  const int64_t vector = kVectorBytes / SizeOf(p.weights);
  if (p.k % vector != 0)
    return FailedPrecondition("k is ", p.k, ", must be a multiple of ", vector);
  for (const auto& [name, stride] :
       {std::make_pair("rows", p.row_stride), std::make_pair("slots", p.row_slot_stride),
        std::make_pair("experts", p.expert_stride),
        std::make_pair("columns of weights", p.weight_stride)}) {
    if (stride % vector != 0) {
      return FailedPrecondition(name, " are ", stride, " elements apart, must be a multiple of ",
                                vector);
    }
  }
  const int64_t columns = p.HasHalves() ? p.n : p.WeightColumns();
  if (p.input_major && columns % vector != 0) {
    return FailedPrecondition("n is ", p.n, ", must be a multiple of ", vector * p.n / columns,
                              " in layout io");
  }
  return absl::OkStatus();
}

int64_t WarpColumns(const GroupedProduct& p) {
  constexpr int64_t kAtOnce = 8, kLanes = 32;  // as GroupedWarpDots
  const int64_t loads =
      CeilDiv(p.k, kLanes * kVectorBytes / SizeOf(p.weights)) * (p.IsPair() ? 2 : 1);
  return std::max<int64_t>(1, kAtOnce / loads);
}

bool MapsWeights(const GroupedProduct& p, const GroupedSchedule& s) {
  const int64_t columns = p.HasHalves() ? p.n : p.WeightColumns();  // side by side
  if (s.slices > 0) return true;
  return CheckTensorCores(p).ok() && !p.input_major && columns % s.MappedColumns() == 0 &&
         p.weight_stride >= p.k &&
         (p.experts == 1 || (p.expert_stride % p.weight_stride == 0 &&
                             p.expert_stride / p.weight_stride == p.WeightColumns()));
}

absl::Status CheckSchedule(const GroupedProduct& p, const GroupedSchedule& s,
                           const DeviceModel& model) {
  if (s.grid < 1 || s.grid > model.sm_count * model.blocks_per_sm) {
    return FailedPrecondition("grid is ", s.grid, ", must be in [1, ",
                              model.sm_count * model.blocks_per_sm, "]");
  }
  if (p.HasCodes() != (s.slices > 0)) {
    return FailedPrecondition("slices are ", s.slices, ", must be ",
                              p.HasCodes() ? "at least 1 of weights of four bits" : "0");
  }
  if (p.HasCodes()) return CheckFourBitSchedule(p, s, model);
  if (s.block_m == 0) {
    if (s.block_n != 0 && s.block_n != 1) {
      return FailedPrecondition("block_n is ", s.block_n, ", must be 0 or 1 of dots");
    }
    if (s.stages != 0 || s.swapped != 0)
      return FailedPrecondition("dots have no stages and are not swapped");
    if (s.block_n == 0) return absl::OkStatus();
  }
  SINTER_RETURN_IF_ERROR(CheckTensorCores(p));
  if (s.IsWarpDots()) {
    if (p.input_major) return FailedPrecondition("layout is io, must be oi of dots of warps");
    if (p.by_ends) return FailedPrecondition("slots are by ends, must be by ids of dots of warps");
    if (p.quantizer.present) {
      return FailedPrecondition("results have scales of 128, must have none of dots of warps");
    }
    return absl::OkStatus();
  }
  if (s.block_m != 64 && s.block_m != 128) {
    return FailedPrecondition("block_m is ", s.block_m, ", must be 0, 64 or 128");
  }
  if (s.block_n != 64 && s.block_n != 128 && s.block_n != 256) {
    return FailedPrecondition("block_n is ", s.block_n, ", must be 64, 128 or 256");
  }
  if (p.input_major && s.block_m == 128 && s.block_n == 256) {
    return FailedPrecondition(
        "block_n is 256, must be 64 or 128 with 128 rows in layout io: the copying threads "
        "have too few registers");
  }
  const bool pair = p.IsPair();
  if (pair && (p.HasScales() || p.Reads(LeafKind::kColumn)) && s.swapped == 0 && s.block_m == 128 &&
      s.block_n == 256) {
    return FailedPrecondition(
        "block_n is 256, must be 64 or 128 with 128 rows of pairs with scales or biases: registers "
        "would spill");
  }
  const int64_t two_steps = 2 * kRowBytes / SizeOf(p.weights);
  if (s.swapped == 0 && s.block_m == 128 && s.block_n == 256 && p.k <= two_steps) {
    return FailedPrecondition("block_n is 256, must be 64 or 128 with 128 rows for k up to ",
                              two_steps, ": registers would spill");
  }
  if (p.quantizer.present && (pair ? s.block_n / 2 : s.block_n) % kScaleBlock != 0) {
    return FailedPrecondition("block_n is ", s.block_n, ", must be ", pair ? "256" : "128 or 256",
                              " with a quantiser of 128 results");
  }
  if (p.weight_scales == GroupedScales::kGroups && p.HasHalves()) {
    const int64_t run = std::min(ColumnsBeside(p, s), kScaleBlock);
    if (p.n % run != 0) {  // a tile's gate or up would begin inside of a block of scales
      return FailedPrecondition("n is ", p.n, ", must be a multiple of ", run,
                                " with scales of 128 x 128");
    }
  }
  if (s.swapped < 0 || s.swapped > 2) {
    return FailedPrecondition("swapped is ", s.swapped, ", must be 0 to 2 blocks of a cluster");
  }
  if (s.swapped > 0) {
    if (p.HasScales() && s.block_m != 64) {
      return FailedPrecondition("block_m is ", s.block_m,
                                ", must be 64 of swapped tiles with scales: their sums "
                                "are added beside fresh ones");
    }
    if (s.block_n != 256) {
      return FailedPrecondition("block_n is ", s.block_n, ", must be 256 of swapped tiles");
    }
    const int64_t step = kRowBytes / SizeOf(p.weights);
    if (p.k <= step) {  // the compiler would serialise products of one step
      return FailedPrecondition("k is ", p.k, ", must be above ", step, " of swapped tiles");
    }
    if (s.grid % s.ClusterBlocks() != 0) {
      return FailedPrecondition("grid is ", s.grid, ", must be a multiple of ", s.ClusterBlocks());
    }
    if (!MapsWeights(p, s)) {
      return FailedPrecondition(
          "weights of swapped tiles must be [experts, columns, k] without gaps and have "
          "sets of ",
          s.MappedColumns(), " columns");
    }
  }
  if (s.stages < 3 || s.stages > 12)
    return FailedPrecondition("stages are ", s.stages, ", must be in [3, 12]");
  const int64_t bytes = SharedMemoryBytes(p, s) + RoutingBytes(p, s);
  if (bytes > model.shared_bytes_per_block) {
    return FailedPrecondition("shared memory is ", bytes, " bytes, must be at most ",
                              model.shared_bytes_per_block);
  }
  return absl::OkStatus();
}

}  // namespace sinter
