// Attention in one kernel: AttentionProblem, what it computes: softmax(program(q k^T)) v for each
// batch; AttentionSchedule, how.
#ifndef SINTER_SRC_ATTENTION_ATTENTION_H_
#define SINTER_SRC_ATTENTION_ATTENTION_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/base/codec.h"
#include "src/base/device_model.h"
#include "src/base/dtype.h"
#include "src/base/fields.h"
#include "src/base/launch_recipe.h"
#include "src/chain/chain.h"
#include "src/model/search.h"
#include "src/normal/rules.h"
#include "src/product/epilogue.h"
#include "src/stitch/precision.h"

namespace sinter {

// Batches are numbered row-major over the axes of the scores before the last two. A digit is an
// axis, or several that follow each other in memory: number / inner % extent, times `stride`
// elements.
struct BatchDigit {
  int64_t inner = 1;
  int64_t extent = 1;  // 0: M, which is the outermost axis
  int64_t stride = 0;
  SINTER_FIELDS(BatchDigit, inner, extent, stride);
};

// Where the matrices of the batches lie, in elements from the first one. A result's and an
// operand's columns have no gaps.
struct BatchedMatrix {
  int64_t row = 0, column = 1;     // strides; of terms 0 where all share a value
  std::vector<BatchDigit> digits;  // innermost first, none with stride 0
  SINTER_FIELDS(BatchedMatrix, row, column, digits);
};

constexpr int kMaxScoreTerms = 2;
// Lower scores become -infinity in a kernel that multiplies scores by log2(e), as PyTorch's do.
constexpr float kLeastBase2Score = -2.3586e38f;
constexpr int64_t kMaxHead = 128;             // of q and k, and of v
constexpr int64_t kMaxAttentionRows = 65536;  // of q, and of keys
constexpr int64_t kMaxBatches = int64_t{1} << 24;
constexpr int kMaxDigits = 3;  // of q, k, v: a tensor map has five dimensions

struct AttentionProblem {
  DType element = DType::kBF16;  // of q, k, v
  DType result = DType::kBF16;   // the same, or f32
  int64_t rows = 0, keys = 0;
  int64_t head = 0, value_head = 0;
  int64_t batches = 1;  // of_m: for each of M
  bool of_m = false;
  BatchedMatrix q, k, v, out;
  // What becomes of a score, in f32; none: nothing. Its matrices lie as `terms` say, in the order
  // of its inputs.
  EpilogueProgram program;
  std::vector<BatchedMatrix> terms;
  bool causal = false;  // keys after row + diagonal are hidden
  int64_t diagonal = 0;
  bool zero_unseen = false;      // a row that sees no key is 0; else it is NaN
  bool zero_overflowed = false;  // a row whose scores are all below kLeastBase2Score is 0, too

  // Whether scores are scaled by one number above 0 at most.
  bool IsPlain() const;
  // Grouped-query attention of one row: makes neighbouring batches that have the same keys and
  // values rows of one batch. Other problems stay as they are.
  void JoinSharedKeys();
  double Scale() const { return program.affine.scale; }  // of a plain one
  int Terms() const { return static_cast<int>(terms.size()); }
  DType TermType(int term) const {
    return program.TypeOf(program.InputsOf(LeafKind::kMatrix)[static_cast<size_t>(term)]);
  }
  int64_t BatchesAt(int64_t m) const { return of_m ? batches * m : batches; }
  // INVALID_ARGUMENT naming the field, its value and the bound where no kernel takes it.
  absl::Status Check() const;
  std::string ToString() const;  // "bf16 197 rows, 197 keys, head 64, 96 batches, *0.125"
  std::string Canonical() const;
  static absl::StatusOr<AttentionProblem> FromCanonical(absl::string_view bytes);
  void Write(ByteWriter& w) const { w.Bytes(Canonical()); }
  static absl::StatusOr<AttentionProblem> Read(ByteReader& r) { return FromCanonical(r.Bytes()); }
  SINTER_FIELDS(AttentionProblem, element, result, rows, keys, head, value_head, batches, diagonal,
                of_m, causal, zero_unseen, zero_overflowed, q, k, v, out, program, terms);
};

// FindAttention: attention in a chain, in any notation: a batched product, ops on its result, a
// softmax, and a batched product with that.

constexpr int kMostWalk = 24;  // ops on a way through a chain, walked from each of its ends

// Adds `id` and the values that it is computed from, without the inputs.
void AddCone(const Chain& chain, ValueId id, std::set<ValueId>* cone);

// Whether a program of scores may compute a unary or binary op.
bool IsInPrograms(const Op& op);

// A number that is the same for all of a value.
bool NumberAt(const Chain& chain, ValueId value, double* number);

// An axis counted from the last one, along which a value is the index plus an offset.
struct AxisIndex {
  int axis = -1;  // -1: there is none
  int64_t offset = 0;
  bool IsOfMatrix() const { return axis == 0 || axis == 1; }
};

// `dims`: the dims of the values that the index is read with, of which it has all of the axis. It
// is of s32, or of f32 without an offset.
AxisIndex IndexAt(const Chain& chain, ValueId id, const std::vector<Dim>& dims);

// A selection that keeps the scores whose key is at most row + diagonal.
struct CausalMask {
  ValueId select = -1;     // -1: there is none
  ValueId condition = -1;  // of the selection
  int64_t diagonal = 0;
};

// The last causal mask among `between`, the values made of the product `scores`, ascending, that a
// kernel may apply after all other ops without reading it.
CausalMask FindCausalMask(const Chain& chain, const Users& users, ValueId scores,
                          const std::vector<ValueId>& between);

// Where operands and results of attention lie: views as strides, axes of batches as digits.

// A cast to f32 of floats, which changes no value.
bool Widens(const Chain& chain, const Op& op);

// A value as a view of `base`, which lies in memory.
struct LaidOut {
  ValueId base = -1;
  NormalLayout layout;
};

// Through as many views, and casts to f32, as strides can say, up to 24. No scalar is a base: a
// kernel stores it spread. Computed values lie without gaps, or as their first output says.
LaidOut LayoutOf(const Chain& chain, ValueId value);

// How a value lies that a kernel stores. False where it may share an input's buffer, or is stored
// otherwise than by strides without M.
bool ResultLayout(const Chain& chain, ValueId value, NormalLayout* layout);

// From the layout of a view's result to that of its operand, which has `dims`. A cast is one too.
bool Unview(const Op& view, const std::vector<Dim>& dims, NormalLayout* layout);

// Spreads a layout over the leading and the single-element axes of `dims`.
void SpreadTo(const std::vector<Dim>& dims, NormalLayout* layout);

// The last two axes as a matrix (turned: the other way round), those before as digits. `batches`:
// the dims before the last two, as the layout has them. False if M is not the outermost axis, or an
// axis lies at strides that use it.
bool ToBatched(const NormalLayout& layout, bool turned, const std::vector<Dim>& batches,
               BatchedMatrix* matrix);

// A value that lies in memory, and where in it an operand begins.
struct AttentionInput {
  ValueId value = -1;
  int64_t offset = 0;  // in elements
};

// What becomes of scores, and the terms that are read for it.
struct FoundScores {
  EpilogueProgram program;
  std::vector<BatchedMatrix> terms;
  std::vector<AttentionInput> inputs;  // by term
  std::set<ValueId> inside;            // values besides that the program computes
};

// `between`: the product of q and k and all values that are made of it, up to the softmax's
// operand, ascending. `causal`: the selection among them that the kernel applies without a program;
// -1: none. A value that is made of indices, or of fewer elements than it has, is computed
// for each score.
// INVALID_ARGUMENT naming a value that no kernel reads.
absl::StatusOr<FoundScores> ScoresOf(const Chain& chain, const std::vector<ValueId>& between,
                                     ValueId causal);

// By op of its body: how exactly it is computed. An error of a score is one of its probability,
// which is rounded to 16 bits, so a tanh that is only scaled and added may take a short form.
std::vector<Precision> ScorePrecisions(const EpilogueProgram& program);

struct FoundAttention {
  AttentionProblem problem;
  std::vector<AttentionInput> inputs;  // q, k, v, the terms
  std::vector<ValueId> values;         // of the kernel, ascending; only `end` is read outside
  ValueId end = -1;                    // its result: with the views and the cast after the product
};

// All of a chain, by `end`. None shares a value with another one. `refused`, where given, gets why
// no kernel takes what is attention otherwise: by both of its products.
std::vector<FoundAttention> FindAttention(const Chain& chain,
                                          std::map<ValueId, std::string>* refused = nullptr);

// AttentionSchedule: how a kernel of attention runs; which schedules are legal; their times.

// A block takes items. An item is 64 rows of a batch for each of the block's warpgroups. With
// splits (split-KV of flash decoding), each block of a cluster takes a range of an item's keys, and
// the blocks join their partial sums in shared memory.
struct AttentionSchedule {
  int warpgroups = 1;    // that multiply
  int block_keys = 64;   // keys of a tile: a multiple of 16
  int stages = 2;        // tiles of k or v in shared memory
  int query_stages = 1;  // items' rows of q in shared memory
  int resident = 1;      // blocks on an SM
  int splits = 1;        // ranges of keys, a block of a cluster each: a power of two
  int64_t grid = 1;      // blocks: a multiple of the splits

  int BlockRows() const { return 64 * warpgroups; }
  int Threads() const { return 128 * warpgroups + (warpgroups == 1 ? 32 : 128); }
  std::string ToString() const;  // "warpgroups1 keys64 stages4 queries1 resident2 splits8 grid64"
  void Write(ByteWriter& w) const;
  static absl::StatusOr<AttentionSchedule> Read(ByteReader& r);
  SINTER_FIELDS(AttentionSchedule, warpgroups, block_keys, stages, query_stages, resident, splits,
                grid);
};

int64_t AttentionItems(const AttentionProblem& problem, const AttentionSchedule& schedule,
                       int64_t m);
int64_t AttentionSharedBytes(const AttentionProblem& problem, const AttentionSchedule& schedule);
int64_t AttentionKeyTiles(const AttentionProblem& problem, const AttentionSchedule& schedule);
// Clusters (without splits, blocks) that run at a time. 0: the chip has no clusters of that size.
int64_t ResidentClusters(const AttentionSchedule& schedule, const DeviceModel& model);
// The bytes of an item's rows of q, of a stage (a tile of k or of v), of a tile of both, and of the
// partial sums that a block receives.
int64_t AttentionQueryBytes(const AttentionProblem& problem, const AttentionSchedule& schedule);
int64_t AttentionStageBytes(const AttentionProblem& problem, const AttentionSchedule& schedule);
int64_t AttentionTileBytes(const AttentionProblem& problem, const AttentionSchedule& schedule);
int64_t AttentionJoinBytes(const AttentionProblem& problem, const AttentionSchedule& schedule);
// Registers that a thread of a warpgroup needs, as compilers have been seen to use, and has.
int AttentionRegisters(const AttentionProblem& problem, const AttentionSchedule& schedule);
int RegistersOf(const AttentionSchedule& schedule);

// FAILED_PRECONDITION naming the field, its value and the bound.
absl::Status CheckSchedule(const AttentionProblem& problem, const AttentionSchedule& schedule,
                           const DeviceModel& model);

// FAILED_PRECONDITION where the schedule cannot run.
absl::StatusOr<Prediction> PredictSchedule(const AttentionProblem& problem,
                                           const AttentionSchedule& schedule, int64_t m,
                                           const DeviceModel& model);

using RankedAttention = RankedKernel<AttentionSchedule>;

// Legal ones, the fastest by prediction first. Without `any_keys`, the keys of a tile and the rows
// of an item of causal attention depend only on the problem. So a row's bits are the same whatever
// M is.
// FAILED_PRECONDITION where none is legal.
absl::StatusOr<std::vector<RankedAttention>> RankAttention(const AttentionProblem& problem,
                                                           int64_t m, const DeviceModel& model,
                                                           size_t top_k, bool any_keys);

// The text of a kernel of attention, and its launch.

constexpr char kAttentionEntry[] = "sinter_attention";
// The headers of the device library that the source includes.
std::vector<std::string> HeadersOf(const AttentionProblem& problem,
                                   const AttentionSchedule& schedule);

// Schedules that differ only in their grid share one source.
std::string SourceOf(const AttentionProblem& problem, const AttentionSchedule& schedule);

// Operands in order: q, k, v, the terms, the result.
absl::StatusOr<LaunchRecipe> RecipeOf(const AttentionProblem& problem,
                                      const AttentionSchedule& schedule,
                                      const std::vector<BufferPlace>& operands);

}  // namespace sinter

#endif  // SINTER_SRC_ATTENTION_ATTENTION_H_
