#include "src/collective/collective.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "src/base/numbers.h"
#include "src/base/status.h"
#include "src/chain/tensor_type.h"

namespace sinter {
namespace {

constexpr int64_t kVectorBytes = 16;
constexpr int64_t kRegisters = 65536;    // of an SM
constexpr int64_t kMostRegisters = 224;  // of a thread, roughly
constexpr int64_t kMostColumns = int64_t{1} << 20;
constexpr int64_t kMostRowsPerM = int64_t{1} << 20;
constexpr int kMostRanksOfNorm = 4;      // of eight, kernels spilled
constexpr int64_t kMostPartsOfNorm = 4;  // of a row, all of whose results a thread holds

// Measured on two H100s with NVLink 4, in graphs without programmatic edges, in one shot and in
// two: 16 KiB takes 4.0 and 5.3 us, 1 MiB takes 7.3 and 8.0, 16 MiB takes 55 and 52. Eight blocks
// fill the link.
constexpr double kTripUs = 1.3;
constexpr double kBlockLinkBytesPerUs = 45e3;
constexpr double kNormUs = 0.4;  // a sum over the block
constexpr double kCallUs = 2.1;  // epoch, header, first loads, the last block's count
// Measured on two H200s for 16 KiB to 2 MiB: how much less a pushed sum takes than one of x in
// memory, besides what the product hides.
constexpr double kPushedGainUs = 0.5;
constexpr int64_t kRowsOfWideBlocks = 64;  // above them more threads of a norm were slower

bool IsTaken(CollectiveKind kind, DType dtype) {
  return IsFloat(dtype) || (kind == CollectiveKind::kAllGather && dtype == DType::kE4M3);
}

absl::Status Refuse(const CollectiveProblem& p, const char* field, const std::string& value,
                    const std::string& bound) {
  return FailedPrecondition(NameOf(p.kind), ": ", field, " is ", value, ", must be ", bound);
}

// Checks the fields that only one kind of collective may set.
absl::Status CheckKind(const CollectiveProblem& p, const CollectiveSchedule& s) {
  if (p.kind != CollectiveKind::kAllReduce && s.two_shot) {
    return Refuse(p, "form", "two-shot", "one-shot");
  }
  if (p.kind == CollectiveKind::kAllReduce && p.by_rows) {
    return Refuse(p, "by_rows", "true", "false: ranks have no parts");
  }
  if (p.by_rows && p.rows_per_m != 1) {
    return Refuse(p, "rows of M", absl::StrCat(p.rows_per_m), "1 where ranks have rows");
  }
  if (p.kind != CollectiveKind::kAllGather) return absl::OkStatus();
  if (p.element != p.result || p.program.present() || p.norm || !p.keeps) {
    return Refuse(p, "result", "computed", "what the ranks have");
  }
  return absl::OkStatus();
}

absl::Status CheckEnd(const CollectiveProblem& p, const EpilogueProgram& program) {
  const std::vector<int> leaves = program.OperandInputs();
  const bool fits = std::all_of(leaves.begin(), leaves.end(), [&](int leaf) {
    const LeafKind kind = program.leaves[static_cast<size_t>(leaf)];
    return program.TypeOf(leaf) == p.result && kind <= LeafKind::kMatrix;
  });
  const size_t most = p.ranks > 4 ? 1 : 2;  // of eight ranks, kernels spilled
  if (fits && leaves.size() <= most && program.aux_results() == 0) {
    return CheckProgram(program, p.result, false);
  }
  return Refuse(p, "program", sinter::ToString(program),
                absl::StrCat("of one result and at most ", most,
                             " matrices or vectors of columns of its type"));
}

constexpr uint8_t kProblemFormat = 3, kScheduleFormat = 2;

// They write or read fields, by the codec.
template <typename Codec, typename Problem>
void ProblemFields(Codec& codec, Problem& p) {
  codec(Byte(p.kind, static_cast<uint8_t>(CollectiveKind::kAllGather)), Byte(p.ranks), p.element,
        p.result, Bits(p.norm, p.keeps, p.by_rows), p.eps, p.columns, p.fixed_rows, p.rows_per_m);
}
template <typename Codec, typename Schedule>
void ScheduleFields(Codec& codec, Schedule& s) {
  codec(s.two_shot, Word(s.threads, 1024), Word(s.grid, 1u << 20), Byte(s.pushed),
        Word(s.pushed_columns, 1u << 20));
}

// A rough count of the registers that a thread needs. A thread of a norm waits for `together` parts
// of a row at once.
int64_t RegistersOf(const CollectiveProblem& p, int threads, int64_t together) {
  // A thread holds one vector of every rank for its chunk, two where x is wider than the result.
  const bool wide = SizeOf(p.element) > SizeOf(p.result);
  const int registers = p.ranks <= 2 ? 64 : p.ranks <= 4 ? (wide ? 96 : 80) : wide ? 160 : 128;
  const auto leaves = static_cast<int64_t>(p.program.OperandInputs().size());
  const auto of_norm = static_cast<int64_t>(p.norm_program.OperandInputs().size());
  const int64_t in = p.ChunkElements() * SizeOf(p.element) / 4;
  const int64_t out = p.ChunkElements() * SizeOf(p.result) / 4;
  // With the vectors of eight ranks, a leaf that is wider than x spilled 8 bytes.
  const bool beside = p.ranks > 4 && leaves > 0 && out > in;
  const int64_t more = (std::max<int64_t>(leaves, 1) + std::max<int64_t>(of_norm, 1) - 2) * out;
  if (!p.norm) return registers + (beside ? 8 : 0) + more;
  // Each part that is waited for also has a leaf and gamma, and the others have their results.
  const int64_t parts = CollectiveParts(p, {false, threads, 1});
  const int64_t of_all = p.ranks <= 2 ? 36 : 48;
  return of_all + together * (in * p.ranks + out * 3 + more + 8) + (parts - together) * out;
}

// What blocks take in turns: rows with their norms, or parts of rows.
int64_t UnitsOfRow(const CollectiveProblem& p, const CollectiveSchedule& s) {
  return p.norm ? 1 : CollectiveParts(p, s);
}

}  // namespace

int64_t CollectiveProblem::ChunkElements() const {
  return kVectorBytes / std::min(SizeOf(element), SizeOf(result));
}

ValueId RoundedValue(const EpilogueProgram& program, DType result) {
  if (!program.present()) return -1;
  const Chain& body = *program.body;
  const ValueId value = body.input(program.InputsOf(LeafKind::kValue)[0]);
  if (result == DType::kF32) return value;
  const ValueId user = Users(body).Only(value);
  const bool casts = user >= 0 && body.op(user).kind == OpKind::kCast;
  return casts && body.op(user).type.dtype == result ? user : -1;
}

std::vector<CollectiveOperand> OperandsOf(const CollectiveProblem& p) {
  std::vector<CollectiveOperand> list = {{"x", p.element, p.PartsOfX()}};
  for (const EpilogueProgram* program : {&p.program, &p.norm_program}) {
    for (const int leaf : program->OperandInputs()) {
      const bool matrix = program->leaves[static_cast<size_t>(leaf)] == LeafKind::kMatrix;
      list.push_back({absl::StrCat("leaf", list.size() - 1), p.result, matrix ? 1 : 0});
    }
  }
  if (p.norm) list.push_back({"normed", p.result, 1, true});
  if (p.keeps) list.push_back({"out", p.result, p.PartsOfOut(), true});
  return list;
}

const char* NameOf(CollectiveKind kind) {
  return kind == CollectiveKind::kAllReduce       ? "all_reduce"
         : kind == CollectiveKind::kReduceScatter ? "reduce_scatter"
                                                  : "all_gather";
}

std::string CollectiveProblem::ToString() const {
  const std::string rows = fixed_rows > 0   ? absl::StrCat(fixed_rows)
                           : rows_per_m > 1 ? absl::StrCat(rows_per_m, "*M")
                                            : "M";
  const auto text = [](const EpilogueProgram& of) {
    return of.present() ? absl::StrCat(" program=", sinter::ToString(of)) : "";
  };
  return absl::StrCat(
      NameOf(kind), by_rows ? " of rows" : "", " ranks=", ranks, " ", NameOf(element), "[", rows,
      ",", columns, "] -> ", NameOf(result), text(program),
      norm ? absl::StrCat(" norm eps=", eps, text(norm_program), keeps ? "" : " alone") : "");
}

std::string CollectiveSchedule::ToString() const {
  return absl::StrCat(two_shot ? "two-shot" : "one-shot",
                      pushed > 0 ? absl::StrCat(" pushed=", pushed) : "",
                      pushed_columns > 0 ? absl::StrCat(" columns=", pushed_columns) : "",
                      " threads=", threads, " grid=", grid);
}

int CollectiveResidents(const CollectiveProblem& p, int threads) {
  return static_cast<int>(std::max<int64_t>(
      1, kRegisters / (RegistersOf(p, threads, PartsTogether(p, threads)) * threads)));
}

int64_t CollectiveParts(const CollectiveProblem& p, const CollectiveSchedule& s) {
  return CeilDiv(p.columns / p.ChunkElements(), int64_t{s.threads});
}

// As many as registers hold, of many threads at most two.
int64_t PartsTogether(const CollectiveProblem& p, int threads) {
  const int64_t parts = CollectiveParts(p, {false, threads, 1});
  for (const int64_t together :
       {threads >= 512 && parts % 2 == 0 ? int64_t{2} : parts, int64_t{2}}) {
    const int64_t registers = RegistersOf(p, threads, together);
    if (parts % together == 0 && registers <= kMostRegisters && registers * threads <= kRegisters) {
      return together;
    }
  }
  return 1;
}

int64_t MostCollectiveRows(const CollectiveProblem& p, const CollectiveSchedule& s,
                           uint64_t slot_bytes) {
  const auto slot = static_cast<int64_t>(slot_bytes);
  if (!s.two_shot) return slot / (p.columns * SizeOf(p.element));
  // A half of the slot holds the parts that an owner is sent, the other its sums: one of every
  // `ranks` units, each of all threads, or rows.
  const int64_t widest = std::max(SizeOf(p.element), SizeOf(p.result));
  const int64_t unit = s.threads * p.ChunkElements() * widest, parts = CollectiveParts(p, s);
  if (p.norm) return slot / 2 / (unit * parts) * p.ranks;  // of whole rows
  return slot / 2 / unit * p.ranks / parts;
}

absl::Status CheckCollective(const CollectiveProblem& p, const CollectiveSchedule& s) {
  if (p.ranks < 2 || p.ranks > 8) return Refuse(p, "ranks", absl::StrCat(p.ranks), "2 to 8");
  for (const DType dtype : {p.element, p.result}) {
    if (!IsTaken(p.kind, dtype))
      return Refuse(p, "an element type", std::string(NameOf(dtype)), "floating of 16 or 32 bits");
  }
  SINTER_RETURN_IF_ERROR(CheckKind(p, s));
  if (p.columns < 1 || p.columns > kMostColumns || p.columns % p.ChunkElements() != 0) {
    return Refuse(p, "columns", absl::StrCat(p.columns),
                  absl::StrCat("a multiple of ", p.ChunkElements(), " up to ", kMostColumns));
  }
  if (p.fixed_rows < 0 || p.fixed_rows > kMaxExtent) {
    return Refuse(p, "rows", absl::StrCat(p.fixed_rows), absl::StrCat("at most ", kMaxExtent));
  }
  if (p.rows_per_m < 1 || p.rows_per_m > kMostRowsPerM) {
    return Refuse(p, "rows of M", absl::StrCat(p.rows_per_m), absl::StrCat("1 to ", kMostRowsPerM));
  }
  SINTER_RETURN_IF_ERROR(CheckEnd(p, p.program));
  SINTER_RETURN_IF_ERROR(CheckEnd(p, p.norm_program));
  if (s.two_shot && p.program.present() && RoundedValue(p.program, p.result) < 0) {
    return Refuse(p, "form", "two-shot", "one-shot: owners send rounded sums, to which others add");
  }
  if (s.threads != 128 && s.threads != 256 && s.threads != 512) {
    return Refuse(p, "threads", absl::StrCat(s.threads), "128, 256 or 512");
  }
  if (!p.norm && !p.keeps) return Refuse(p, "keeps", "false", "true without a norm");
  if (!p.norm && p.norm_program.present())
    return Refuse(p, "norm", "false", "true: it has a program");
  if (p.norm && !(p.eps > 0 && p.eps <= 1)) {
    return Refuse(p, "eps", absl::StrCat(p.eps), "more than 0 and at most 1");
  }
  if (p.norm && p.ranks > kMostRanksOfNorm) {
    return Refuse(p, "ranks of a norm", absl::StrCat(p.ranks),
                  absl::StrCat("at most ", kMostRanksOfNorm));
  }
  if (p.norm && CollectiveParts(p, s) > kMostPartsOfNorm) {
    return Refuse(p, "columns of a norm", absl::StrCat(p.columns),
                  absl::StrCat("at most ", kMostPartsOfNorm * s.threads * p.ChunkElements()));
  }
  if (p.norm && RegistersOf(p, s.threads, PartsTogether(p, s.threads)) * s.threads > kRegisters) {
    return Refuse(p, "threads of a norm", absl::StrCat(s.threads),
                  absl::StrCat("fewer over ", p.ranks, " ranks"));
  }
  if (s.pushed < 0 || s.pushed > 255) {
    return Refuse(p, "pushed", absl::StrCat(s.pushed), "0 to 255 turns");
  }
  if (s.pushed_columns != 0 &&
      (s.pushed > 0 || s.pushed_columns < 0 || s.pushed_columns >= p.columns ||
       s.pushed_columns % p.ChunkElements() != 0)) {
    return Refuse(
        p, "pushed columns", absl::StrCat(s.pushed_columns),
        absl::StrCat("a multiple of ", p.ChunkElements(), " below ", p.columns, ", without turns"));
  }
  if (s.PushedColumns(p) > 0 && (s.two_shot || p.kind != CollectiveKind::kAllReduce)) {
    return Refuse(p, "form", s.two_shot ? "two-shot" : NameOf(p.kind),
                  "one-shot all_reduce for x that is pushed");
  }
  if (s.grid < 1) return Refuse(p, "grid", absl::StrCat(s.grid), "1 or more");
  return absl::OkStatus();
}

void CollectiveProblem::Write(ByteWriter& w) const {
  w.U8(kProblemFormat);
  ProblemFields(w, *this);
  WriteProgram(program, w);
  WriteProgram(norm_program, w);
}

absl::StatusOr<CollectiveProblem> CollectiveProblem::Read(ByteReader& r) {
  const uint8_t format = r.U8();
  CollectiveProblem p;
  ProblemFields(r, p);
  SINTER_ASSIGN_OR_RETURN(p.program, ReadProgram(r));
  SINTER_ASSIGN_OR_RETURN(p.norm_program, ReadProgram(r));
  if (r.ok() && format == kProblemFormat && CheckCollective(p, {false, 512, 1}).ok()) return p;
  return absl::DataLossError("all_reduce: its problem is damaged");
}

void CollectiveSchedule::Write(ByteWriter& w) const {
  w.U8(kScheduleFormat);
  ScheduleFields(w, *this);
}

absl::StatusOr<CollectiveSchedule> CollectiveSchedule::Read(ByteReader& r) {
  CollectiveSchedule schedule;
  const uint8_t format = r.U8();
  ScheduleFields(r, schedule);
  if (r.ok() && format == kScheduleFormat) return schedule;
  return absl::DataLossError("all_reduce: its schedule is damaged");
}

absl::Status CheckSchedule(const CollectiveProblem& p, const CollectiveSchedule& s,
                           const DeviceModel& model) {
  SINTER_RETURN_IF_ERROR(CheckCollective(p, s));
  const int64_t most = int64_t{model.sm_count} * CollectiveResidents(p, s.threads);
  if (s.grid <= most) return absl::OkStatus();
  return FailedPrecondition(NameOf(p.kind), ": grid is ", s.grid, ", must be at most ", most,
                            ": blocks wait");
}

// Schedules and times.

absl::StatusOr<Prediction> PredictSchedule(const CollectiveProblem& p, const CollectiveSchedule& s,
                                           int64_t m, const DeviceModel& model) {
  SINTER_RETURN_IF_ERROR(CheckCollective(p, s));
  const int64_t rows = p.Rows(m);
  // `in`: the bytes of a message to another rank; `out`: those that this rank computes, or that
  // each rank sends it.
  const double elements = static_cast<double>(rows) * static_cast<double>(p.columns);
  const double in = elements * static_cast<double>(SizeOf(p.element));
  const double out = elements * static_cast<double>(SizeOf(p.result));
  const double peers = p.ranks - 1, ranks = p.ranks;
  const double sent = s.two_shot ? (in + out) * peers / ranks : in * peers;
  // Slots are written by what arrives, read once, and emptied.
  const double slots = 3 * sent;
  const auto units = static_cast<double>(rows * UnitsOfRow(p, s));
  const double blocks = std::min<double>(s.grid, units);
  Prediction time;
  time.fixed_us = model.launch_us - model.programmatic_edge_us + kCallUs +
                  (s.two_shot ? 2 : 1) * kTripUs + (p.norm ? kNormUs : 0);
  if (s.pushed > 0) time.fixed_us -= kPushedGainUs;
  for (const CollectiveOperand& operand : OperandsOf(p)) {
    time.hbm_bytes += elements * static_cast<double>(SizeOf(operand.dtype) * operand.parts);
  }
  const double operands = time.hbm_bytes;
  // With long messages, slots too come from memory.
  const double kept = model.l2_kept_share * static_cast<double>(model.l2_bytes);
  time.hbm_bytes += slots * std::max(0.0, 1 - kept / std::max(1.0, in));
  time.hbm_us = time.hbm_bytes / model.hbm_bytes_per_us;
  time.l2_bytes = operands + slots;
  time.l2_us = time.l2_bytes / model.l2_bytes_per_us;
  const double rate = std::min(model.link_bytes_per_us, blocks * kBlockLinkBytesPerUs);
  // What the product does not hide.
  const double own =
      sent * (1 - static_cast<double>(s.pushed_columns) / static_cast<double>(p.columns));
  const double link_us = s.pushed > 0 ? sent / model.link_bytes_per_us / s.pushed : own / rate;
  time.dsm_bytes = sent;
  time.dsm_us = link_us;
  const double most = std::max({link_us, time.hbm_us, time.l2_us});
  time.bound = most == link_us ? "link" : most == time.hbm_us ? "hbm" : "l2";
  time.total_us = time.fixed_us + most;
  return time;
}

std::vector<RankedCollective> SearchCollective(const CollectiveProblem& p, int64_t m,
                                               const DeviceModel& model, PushedX pushed) {
  const int64_t rows = p.Rows(m);
  std::vector<RankedCollective> ranked;
  for (const bool two_shot : {false, true}) {
    // If schedules are predicted to be equal, the first one is taken.
    const bool wide = p.norm && rows <= kRowsOfWideBlocks;
    for (const int threads : {wide ? 512 : 256, 128, wide ? 256 : 512}) {
      CollectiveSchedule s{two_shot, threads, 1,
                           static_cast<int>(std::min<int64_t>(pushed.turns, 255)),
                           static_cast<int>(pushed.columns)};
      if (!CheckCollective(p, s).ok()) continue;
      int64_t most = int64_t{model.sm_count} * CollectiveResidents(p, threads);
      // Unit u is rank u % ranks's. Without a common divisor of grid and ranks, the units that a
      // block takes in turns have every rank as their owner.
      while (std::gcd(most, int64_t{p.ranks}) > 1) --most;
      const int64_t units = std::max<int64_t>(rows, 1) * UnitsOfRow(p, s);
      s.grid = static_cast<int>(std::min(units, most));
      absl::StatusOr<Prediction> time = PredictSchedule(p, s, m, model);
      if (time.ok()) ranked.push_back({s, *std::move(time)});
    }
  }
  SortByTime(&ranked);
  return ranked;
}

}  // namespace sinter
