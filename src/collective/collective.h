// What one kernel takes of all ranks of a group, a sum or a gather, and how it goes about it: its
// schedules, their times, its source and launch.
#ifndef SINTER_SRC_COLLECTIVE_COLLECTIVE_H_
#define SINTER_SRC_COLLECTIVE_COLLECTIVE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/base/codec.h"
#include "src/base/device_model.h"
#include "src/base/dtype.h"
#include "src/base/fields.h"
#include "src/base/launch_recipe.h"
#include "src/chain/chain.h"
#include "src/model/search.h"
#include "src/product/epilogue.h"

namespace sinter {

enum class CollectiveKind : uint8_t { kAllReduce = 0, kReduceScatter = 1, kAllGather = 2 };

// out = program(x of rank 0 + x of rank 1 + ..), in f32, rounded to `result`; with `norm` also
// norm_program(out * rsqrt(mean(out * out) + eps)) of each row, rounded to it. Matrices are
// [M, columns] and vectors [columns], without gaps. Each rank reads leaves of its own.
//
// A matrix of all ranks' parts is [M, ranks, columns], or [ranks, M, columns] with `by_rows`. x of
// a reduce-scatter is one: rank r sums the r-th parts. `out` of a gather is one, of all ranks' x.
struct CollectiveProblem {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  int ranks = 2;                 // 2 to 8
  DType element = DType::kBF16;  // of x: bf16, f16 or f32; of a gather also e4m3
  DType result = DType::kBF16;   // of leaves too
  int64_t columns = 0;
  EpilogueProgram program, norm_program;  // absent: the value itself
  bool norm = false;
  bool keeps = true;  // `out` is stored; only a norm need not
  double eps = 0;
  int64_t fixed_rows = 0;  // 0: M; else so many, whatever a launch's M is
  int64_t rows_per_m = 1;  // of a value that is [M, .., columns]
  bool by_rows = false;    // see above

  // A thread sums so many elements at once: at least 16 bytes of x, and of the result.
  int64_t ChunkElements() const;
  int64_t Rows(int64_t m) const { return fixed_rows > 0 ? fixed_rows : m * rows_per_m; }
  // Parts that x, and `out`, have.
  int PartsOfX() const { return kind == CollectiveKind::kReduceScatter ? ranks : 1; }
  int PartsOfOut() const { return kind == CollectiveKind::kAllGather ? ranks : 1; }
  std::string ToString() const;
  void Write(ByteWriter& w) const;
  static absl::StatusOr<CollectiveProblem> Read(ByteReader& r);
  SINTER_FIELDS(CollectiveProblem, kind, ranks, element, result, program, norm_program, norm, keeps,
                by_rows, eps, columns, fixed_rows, rows_per_m);
};

// The value of the body that is the sum, or the normed row, rounded to `result`; -1: there is no
// program, or it reads the value itself.
ValueId RoundedValue(const EpilogueProgram& program, DType result);

// What a kernel reads or stores, in the order of its arguments: x, leaves of the sum's program and
// of the norm's, the norm, the sum.
struct CollectiveOperand {
  std::string name;
  DType dtype = DType::kBF16;
  int parts = 1;  // of ranks; 0: a vector
  bool stored = false;
};
std::vector<CollectiveOperand> OperandsOf(const CollectiveProblem& p);

// "all_reduce"
const char* NameOf(CollectiveKind kind);

struct CollectiveSchedule {
  bool two_shot = false;  // each part has an owner who sums it; else all ranks sum everything
  int threads = 256;
  int grid = 1;
  // One-shot: the kernel before it, which computes x, sends it in so many turns, from 1 to 255
  // (Schedule::pushes of src/product). 0: this one sends it.
  int pushed = 0;
  // The kernel before it sends only the first so many columns, before it ends
  // (Schedule::pushed_columns); 0: see `pushed`.
  int pushed_columns = 0;

  // The columns of each row that the kernel before sends.
  int64_t PushedColumns(const CollectiveProblem& p) const {
    return pushed > 0 ? p.columns : pushed_columns;
  }

  std::string ToString() const;
  void Write(ByteWriter& w) const;
  static absl::StatusOr<CollectiveSchedule> Read(ByteReader& r);
  SINTER_FIELDS(CollectiveSchedule, two_shot, threads, grid, pushed, pushed_columns);
};

// Blocks of so many threads that one SM holds at once: the kernel is compiled to fit, since blocks
// wait for blocks of other ranks.
int CollectiveResidents(const CollectiveProblem& p, int threads);

// Pieces of a row that blocks take, and those that a norm's waits for at once, in one shot.
int64_t CollectiveParts(const CollectiveProblem& p, const CollectiveSchedule& s);
int64_t PartsTogether(const CollectiveProblem& p, int threads);

// The most rows of one launch whose messages fit into slots of `slot_bytes` bytes; 0: not one does.
int64_t MostCollectiveRows(const CollectiveProblem& p, const CollectiveSchedule& s,
                           uint64_t slot_bytes);

// FAILED_PRECONDITION naming field, value and bound where no kernel computes it.
absl::Status CheckCollective(const CollectiveProblem& p, const CollectiveSchedule& s);
// The same, or if the chip does not hold all blocks at once: they wait for those of other ranks.
absl::Status CheckSchedule(const CollectiveProblem& p, const CollectiveSchedule& s,
                           const DeviceModel& model);

// Schedules and times.

using RankedCollective = RankedKernel<CollectiveSchedule>;

// Time of a launch of `m` rows when all ranks begin at once.
absl::StatusOr<Prediction> PredictSchedule(const CollectiveProblem& p, const CollectiveSchedule& s,
                                           int64_t m, const DeviceModel& model);

// Best first; empty where no kernel computes it. The same on all ranks: of one model.
// `pushed`: of x that the kernel before pushes, in so many turns; or of which it pushes the first
// so many columns; neither: of x in memory.
struct PushedX {
  int64_t turns = 0;
  int64_t columns = 0;
};
std::vector<RankedCollective> SearchCollective(const CollectiveProblem& p, int64_t m,
                                               const DeviceModel& model, PushedX pushed = {});

// Source and launch of the kernel: source.cc.

std::string CollectiveEntry(const CollectiveProblem& p);  // "sinter_all_reduce"
// The headers of the device library that the source includes.
std::vector<std::string> HeadersOf(const CollectiveProblem& p, const CollectiveSchedule& s);

// All ranks load the kernel of one source. It does not depend on the schedule's blocks.
std::string SourceOf(const CollectiveProblem& p, const CollectiveSchedule& s);

// `places`: of OperandsOf; INVALID_ARGUMENT for another number of them. The launch gives the
// group's room and what ranks of one plan have in common.
absl::StatusOr<LaunchRecipe> RecipeOf(const CollectiveProblem& p, const CollectiveSchedule& s,
                                      const std::vector<BufferPlace>& places);

struct FoundCollective {
  CollectiveProblem problem;
  std::vector<ValueId> inputs;  // x, the programs' leaves
  std::vector<ValueId> values;  // of the kernel, ascending; `end` and `kept` are read outside
  ValueId end = -1;             // its result: the norm where there is one
  ValueId kept = -1;            // the sum; also stored if it is read outside
};

// The sums over ranks and the gathers of a chain, in order, none with a value that is `claimed`. A
// kernel takes along, where nobody else reads what is between: reshapes before and after parts of
// ranks; casts, sums, differences and products of the sum with numbers, and with matrices and
// vectors of columns of the result's type; also the RMS norm of its rows, with a gamma. Others may
// read the sum next to the norm. Over more than two ranks the norm is taken only if two shots can
// compute it. `refused`
// gets why no kernel takes a sum, and the remedy.
std::vector<FoundCollective> FindCollectives(const Chain& chain, const std::vector<bool>& claimed,
                                             std::map<ValueId, std::string>* refused);

}  // namespace sinter

#endif  // SINTER_SRC_COLLECTIVE_COLLECTIVE_H_
