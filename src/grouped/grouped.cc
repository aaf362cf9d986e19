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

constexpr uint8_t kProductVersion = 5, kScheduleVersion = 2;
constexpr int64_t kRowBytes = 128, kVectorBytes = 16;  // bytes of a row of a stage; of one copy
// Of the stages: the kernel rounds their address up.
constexpr int64_t kAlignment = 1024;
constexpr int64_t kMostStride = int64_t{1} << 40;

// Calls visit(stride) for each stride, in the order of the canonical bytes.
template <typename Product, typename Visitor>
void ForEachStride(Product& p, const Visitor& visit) {
  for (auto* stride : {&p.row_stride, &p.row_slot_stride, &p.id_stride, &p.id_slot_stride,
                       &p.expert_stride, &p.weight_stride, &p.factor_stride, &p.factor_slot_stride,
                       &p.out_stride, &p.out_slot_stride, &p.bias_stride, &p.row_scale_stride,
                       &p.row_scale_slot_stride, &p.row_scale_group, &p.weight_scale_expert,
                       &p.weight_scale_column, &p.weight_scale_group}) {
    visit(*stride);
  }
}

// Static shared memory: barriers of stages and tiles, slots of two tiles, numbers of first tiles,
// and counts before segments (grouped_routing.cuh). Swapped, also numbers and scales of slots,
// twice the segments, the order of groups and where sizes begin in it (swapped_routing.cuh).
int64_t RoutingBytes(const GroupedProduct& p, const GroupedSchedule& s) {
  const int64_t groups = p.experts + 1, twice = s.swapped > 0 ? 2 : 1;
  const int64_t segments = twice * (groups <= 129 ? 16 : groups <= 257 ? 8 : groups <= 513 ? 4 : 2);
  const int64_t scales = p.row_scales == GroupedScales::kWhole ? s.block_m : 1;
  const int64_t largest =  // of groups of results, in three turns
      !p.quantizer.present                               ? 1
      : p.gate == GroupedGate::kNone && s.block_n == 256 ? 2 * 3 * s.block_m
                                                         : 3 * s.block_m;
  return 8 * (2 * s.stages + 4) + 2 * 4 * (twice * s.block_m + 2) + 4 * (groups + 1) +
         4 * (segments + 1) * groups +
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

// Whether its program is one of gate and up alone that code generation writes.
bool IsProgramOfPair(const GroupedProduct& p) {
  return p.gate != GroupedGate::kNone && p.program.written() && p.program.body->num_inputs() == 2 &&
         CheckProgram(p.program, p.result, true).ok();
}

}  // namespace

bool GroupedProduct::operator==(const GroupedProduct& o) const {
  ByteWriter a, b;
  Write(a);
  o.Write(b);
  return a.Take() == b.Take();
}

std::string GroupedProduct::ToString() const {
  std::string text =
      absl::StrCat("grouped product ", by_ends ? "by ends" : absl::StrCat("top=", slots),
                   " experts=", experts, " n=", n, " k=", k, slot_rows ? " rows=slot" : "");
  if (gate != GroupedGate::kNone) {
    const bool up = gate == GroupedGate::kUpFirst || gate == GroupedGate::kInTurnsUpFirst;
    absl::StrAppend(&text, " pair=", up ? "up_gate" : "gate_up", HasHalves() ? "" : " in turns");
  }
  if (act != Activation::kIdentity) absl::StrAppend(&text, " act=", NameOf(act));
  if (program.present()) absl::StrAppend(&text, " program=", sinter::ToString(program));
  if (has_bias) absl::StrAppend(&text, " bias=", NameOf(bias));
  if (has_factor) {
    absl::StrAppend(&text, " factor=", NameOf(factor), factor_on_sums ? " of sums" : "");
  }
  if (early) absl::StrAppend(&text, " early");
  absl::StrAppend(&text, " layout=", input_major ? "io" : "oi", " dtype=", NameOf(weights));
  if (rows != weights) absl::StrAppend(&text, " rows_dtype=", NameOf(rows));
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
  for (const DType dtype : {rows, weights, result, factor, bias}) w.U8(static_cast<uint8_t>(dtype));
  for (const int64_t extent : {experts, slots, n, k, fixed_rows}) w.I64(extent);
  w.U8(static_cast<uint8_t>(slot_rows | input_major << 1 | has_factor << 2 | has_bias << 3 |
                            by_ends << 4 | factor_on_sums << 5 | early << 6));
  w.U8(static_cast<uint8_t>(gate));
  w.U8(static_cast<uint8_t>(act));
  w.U8(static_cast<uint8_t>(static_cast<int>(row_scales) | static_cast<int>(weight_scales) << 2));
  ForEachStride(*this, [&](int64_t stride) { w.I64(stride); });
  w.U8(static_cast<uint8_t>(quantizer.present | quantizer.ue8m0 << 1));
  if (quantizer.present) {
    w.F64(quantizer.eps);
    w.F64(quantizer.upper_bound);
  }
  w.U8(program.present() ? 1 : 0);
  if (program.present()) WriteProgram(program, w);
}

absl::StatusOr<GroupedProduct> ReadGroupedProduct(ByteReader& r) {
  GroupedProduct p;
  const auto lost = [](absl::string_view what) { return DataLoss("grouped product: ", what); };
  if (r.U8() != kProductVersion) return lost("version");
  for (DType* dtype : {&p.rows, &p.weights, &p.result, &p.factor, &p.bias}) {
    *dtype = static_cast<DType>(r.U8());
    const bool operand = dtype == &p.rows || dtype == &p.weights || dtype == &p.result;
    if (!IsValid(*dtype) || (!IsFloat(*dtype) && !(operand && *dtype == DType::kE4M3))) {
      return lost("dtype");
    }
  }
  for (int64_t* extent : {&p.experts, &p.slots, &p.n, &p.k, &p.fixed_rows}) {
    *extent = r.I64();
    const int64_t least = extent == &p.fixed_rows ? 0 : 1;
    if (*extent < least || *extent > kMaxExtent) return lost("extent");
  }
  const uint8_t flags = r.U8(), gate = r.U8(), act = r.U8(), scales = r.U8();
  if (flags > 127 || gate > 4) return lost("flags");
  p.slot_rows = flags & 1;
  p.input_major = flags & 2;
  p.has_factor = flags & 4;
  p.has_bias = flags & 8;
  p.by_ends = flags & 16;
  p.factor_on_sums = flags & 32;
  p.early = flags & 64;
  p.gate = static_cast<GroupedGate>(gate);
  p.act = static_cast<Activation>(act);
  if (p.act < Activation::kIdentity || p.act > Activation::kSilu) return lost("activation");
  p.row_scales = static_cast<GroupedScales>(scales % 4);
  p.weight_scales = static_cast<GroupedScales>(scales / 4);
  const bool codes = p.weights == DType::kE4M3;
  if (scales % 4 > 2 || scales / 4 > 2 || (p.rows == DType::kE4M3) != codes ||
      (scales % 4 > 0) != codes || (scales / 4 > 0) != codes || (codes && p.input_major)) {
    return lost("scales");
  }
  const bool groups =
      p.row_scales == GroupedScales::kGroups || p.weight_scales == GroupedScales::kGroups;
  if (groups && p.k % kScaleBlock != 0) return lost("groups of k");
  bool within = true;
  ForEachStride(p, [&](int64_t& stride) {
    stride = r.I64();
    within = within && stride >= 0 && stride <= kMostStride;
  });
  if (!within) return lost("stride");
  const uint8_t quantizer = r.U8();
  if (quantizer == 2 || quantizer > 3 || (quantizer > 0) != (p.result == DType::kE4M3)) {
    return lost("quantizer");
  }
  p.quantizer.present = quantizer & 1;
  p.quantizer.ue8m0 = quantizer & 2;
  if (p.quantizer.present) {
    p.quantizer.eps = r.F64();
    p.quantizer.upper_bound = r.F64();
    const bool fits = codes && !p.by_ends && p.n % kScaleBlock == 0 && p.quantizer.eps > 0 &&
                      p.quantizer.eps <= 1 &&
                      (p.quantizer.upper_bound == 0 || p.quantizer.upper_bound >= p.quantizer.eps);
    if (!fits) return lost("quantizer");
  }
  if (p.by_ends && (p.slots != 1 || p.slot_rows || p.has_bias || p.HasScales())) {
    return lost("slots of ends");
  }
  if (p.factor_on_sums && (!p.has_factor || p.gate == GroupedGate::kNone)) return lost("factor");
  const uint8_t programs = r.U8();
  if (programs > 1) return lost("flags");
  if (programs == 1) {
    SINTER_ASSIGN_OR_RETURN(p.program, ReadProgram(r));
    if (!IsProgramOfPair(p)) return lost("program");
  }
  if (p.slots > kMostSlots) return lost("slots");
  if (p.experts > kMostExperts) return lost("experts");
  if (p.k % kGroupedAlignment != 0) return lost("k");
  const int64_t columns = p.WeightColumns();
  if (columns > kMaxExtent || columns > kMaxElements / p.experts / p.k) return lost("weights");
  return p;
}

int64_t SharedBytes(const GroupedProduct& p, const GroupedSchedule& s) {
  if (s.block_m == 0) return 0;
  return s.stages * ((s.block_m + s.block_n) * kRowBytes + StageScaleBytes(p, s)) + kAlignment;
}

int BlocksPerSm(const GroupedProduct& p, const GroupedSchedule& s) {
  constexpr int64_t kBytesPerSm = 227 * 1024, kStaticBytes = 14 * 1024;
  // Of one column a lane holds as much of the row as of weights, more than 64 registers. e4m3 takes
  // more: conversions, and scales of 128.
  if (s.IsWarpDots()) return (WarpColumns(p) > 1 ? 4 : 3) - (p.HasScales() ? 1 : 0);
  if (s.block_m == 0) return 8;
  if (s.swapped > 0 || s.block_m != 64 || s.block_n == 256) return 1;
  const int64_t most = kBytesPerSm / (SharedBytes(p, s) + kStaticBytes);
  // Two blocks of 256 threads leave a thread 128 registers, three 80, which is too few for promoted
  // sums.
  const bool few = s.block_n == 64 && !p.HasScales();
  return static_cast<int>(std::clamp<int64_t>(most, 1, few ? 3 : 2));
}

std::string GroupedSchedule::ToString(bool with_grid) const {
  std::string text = block_m == 0
                         ? (block_n == 0 ? "dots" : "dots of warps")
                         : absl::StrCat(swapped > 0 ? absl::StrCat("swapped x", swapped, " ") : "",
                                        "bm", block_m, " bn", block_n, " st", stages);
  return with_grid ? absl::StrCat(text, " grid ", grid) : text;
}

void GroupedSchedule::Write(ByteWriter& w) const {
  w.U8(kScheduleVersion);
  for (const int value : {block_m, block_n, stages, grid}) w.U32(static_cast<uint32_t>(value));
  w.U8(static_cast<uint8_t>(swapped));
}

absl::StatusOr<GroupedSchedule> ReadGroupedSchedule(ByteReader& r) {
  GroupedSchedule s;
  if (r.U8() != kScheduleVersion) return absl::DataLossError("grouped schedule: version");
  for (int* value : {&s.block_m, &s.block_n, &s.stages, &s.grid}) {
    const uint32_t given = r.U32();
    if (given > (1u << 20)) return absl::DataLossError("grouped schedule: value");
    *value = static_cast<int>(given);
  }
  s.swapped = r.U8();
  if (s.swapped > 2) return absl::DataLossError("grouped schedule: swapped");
  return s;
}

absl::Status CheckTensorCores(const GroupedProduct& p) {
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
  const int64_t loads = CeilDiv(p.k, kLanes * kVectorBytes / SizeOf(p.weights)) *
                        (p.gate == GroupedGate::kNone ? 1 : 2);
  return std::max<int64_t>(1, kAtOnce / loads);
}

bool MapsWeights(const GroupedProduct& p, const GroupedSchedule& s) {
  const int64_t columns = p.HasHalves() ? p.n : p.WeightColumns();  // side by side
  return CheckTensorCores(p).ok() && !p.input_major && columns % s.MappedColumns() == 0 &&
         p.weight_stride >= p.k &&
         (p.experts == 1 || (p.expert_stride % p.weight_stride == 0 &&
                             p.expert_stride / p.weight_stride == p.WeightColumns()));
}

absl::Status CheckGroupedSchedule(const GroupedProduct& p, const GroupedSchedule& s,
                                  const DeviceModel& model) {
  if (s.grid < 1 || s.grid > model.sm_count * model.blocks_per_sm) {
    return FailedPrecondition("grid is ", s.grid, ", must be in [1, ",
                              model.sm_count * model.blocks_per_sm, "]");
  }
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
  const bool pair = p.gate != GroupedGate::kNone;
  if (pair && (p.HasScales() || p.has_bias) && s.swapped == 0 && s.block_m == 128 &&
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
  const int64_t bytes = SharedBytes(p, s) + RoutingBytes(p, s);
  if (bytes > model.shared_bytes_per_block) {
    return FailedPrecondition("shared memory is ", bytes, " bytes, must be at most ",
                              model.shared_bytes_per_block);
  }
  return absl::OkStatus();
}

}  // namespace sinter
