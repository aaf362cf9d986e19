// ProductRuns: the products of a chain with the ops that their kernels absorb, and sequences of
// products that one kernel may take in pairs; and runs of families' own.
#ifndef SINTER_SRC_FUSION_PRODUCT_RUNS_H_
#define SINTER_SRC_FUSION_PRODUCT_RUNS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/keep_going.h"
#include "src/chain/chain.h"
#include "src/plan/family.h"
#include "src/product/matcher.h"

namespace sinter {

// Values of a chain that form a sequence of products; or what another family takes as a whole.
struct GraphRun {
  MatchedSequence matched;      // its m is the bucket, or the constant rows
  std::vector<ValueId> values;  // ascending; only `end`, `scale` and `aux` are read outside
  ValueId end = -1;             // its result
  ValueId scale = -1;           // the scales of a result in codes, which its kernel stores too
  // The values that its last kernel stores in addition to `end`: outputs of the chain. In a
  // family's own run also values that others read.
  std::vector<ValueId> aux;
  bool constant_rows = false;  // its rows are matched.sequence.m, whatever a launch's m
  bool four_bits = false;      // its kernel unpacks weights of four bits
  OwnRun own;                  // of a family's own; `matched` has only its operands

  bool IsOwn() const { return own.family != nullptr; }
  DType dtype() const {  // of `end` in memory
    return IsOwn() ? own.result : matched.sequence.back().result;
  }
};

// A chain that MatchWhole takes, as a run: its rows are the launch's, M or not.
GraphRun RunOf(const Chain& chain, MatchedSequence matched);

struct ProductRuns {
  std::vector<GraphRun> runs;                   // by first value
  bool all = false;                             // one run is the whole chain
  std::map<ValueId, std::string> refused;       // why a matmul is in no run
  std::map<ValueId, std::string> not_optional;  // of one: why no family that is optional takes it
  bool four_bits = false;                       // a run unpacks weights of four bits
};

// A chain that is a sequence of products is one run. In other chains each product takes the longest
// tail of ops that leaves a product step, with at most a cast: scalars, a row factor, a bias, an
// activation, the gate of a pair, a residual.
// A factor of the rows is treated as a factor of the result where nothing is rounded in between and
// nobody else reads the scaled rows. A factor is an operand (an input or another kernel's result)
// of f32 or the weights' dtype; a residual is one of any float. A result may overwrite the residual
// in memory, never data that other blocks read.
// An output of the chain, of any float, that only the run's ops read is an auxiliary result: the
// input of an activation, as a backward pass wants it, or both halves of a gate-up pair. Products
// are joined in a run when nobody else reads the results between them. A result that only products
// read is handed over in their weights' dtype, rounded at most once; any other lies in memory as
// the chain has it. `pace` may be null. Deterministic.
ProductRuns FindProductRuns(const Chain& chain, int64_t bucket, Pace* pace = nullptr,
                            Absorbed absorbed = {});

// The run of a product whose weights are unpacked from four bits, as one of the family that unpacks
// them itself; none where its weights are others, where other ops read them too, or where no kernel
// of the family computes it. `claimed`: values of other runs.
absl::StatusOr<GraphRun> FourBitRunOf(const Chain& chain, const Users& users,
                                      const std::vector<bool>& claimed, const GraphRun& run);
// The run of a product as one of the family that multiplies by mma.sync, or why none of its kernels
// computes it.
absl::StatusOr<GraphRun> MmaRunOf(const Chain& chain, const GraphRun& run);
// Whether a chain may have products of weights of four bits.
bool MayHaveFourBits(const Chain& chain);

// Whether its result is codes with scales of 128 columns, by a quantiser that it absorbed.
bool HasGroups(const GraphRun& run);

// Adds `value` and what computes it, down to `x` and sources.
void AddBelow(const Chain& chain, ValueId value, ValueId x, std::set<ValueId>* inside);

// Whether runs with norms may be worth planning: there are few rows, and a root of a mean.
bool MayTakeNorms(const Chain& chain, int64_t bucket);

// OwnRuns: what families take of a chain as a whole: the list of their finders.

struct OwnFinder {
  // The family's runs in a chain, none with a value that is `claimed`. `refused`, which may be
  // null, gets why no kernel of the family takes an op.
  std::vector<GraphRun> (*find)(const Chain& chain, const std::vector<bool>& claimed,
                                std::map<ValueId, std::string>* refused) = nullptr;
  // Whether a plan has such runs, where other kernels may take their ops; null: every plan has.
  bool Absorbed::*optional = nullptr;
};

// A row for each family with runs of its own, in the order in which they claim ops. Tests add rows
// before they plan; nothing else changes it.
std::vector<OwnFinder>& OwnFinders();

// The runs of families' own among the values that are not `claimed`, which gets their values.
// `refused` gets why no family that every plan has takes an op.
std::vector<GraphRun> FindOwnRuns(const Chain& chain, const Absorbed& absorbed,
                                  std::vector<bool>* claimed,
                                  std::map<ValueId, std::string>* refused);
// Why no family that is optional takes what it nearly takes of a chain with batched products among
// those `refused`.
std::map<ValueId, std::string> WhyNotOptional(const Chain& chain,
                                              const std::map<ValueId, std::string>& refused);

// The run of `own` that computes `values`, ascending, of which others read only `end`. A run that
// results in FP8/INT8 values also has `scale`, which precedes the result among its kernels' places.
GraphRun MakeOwnRun(const Chain& chain, OwnRun own, std::vector<ValueId> values, ValueId end);
// The same for what `product` computes. Its operands lie in memory as the matcher found them: rows
// that a kernel of products makes have its element, whatever the chain has.
GraphRun MakeOwnRun(const Chain& chain, OwnRun own, std::vector<ValueId> values,
                    const GraphRun& product);

// A run for each grouped product, with the element-wise ops after it that nothing else reads, up to
// the last one, or to one that is stored in fewer bytes.
std::vector<GraphRun> FindGroupedRuns(const Chain& chain, const std::vector<bool>& claimed,
                                      std::map<ValueId, std::string>* refused);
// The same where one of them at least takes along the quantiser of its result by groups of columns;
// none where none does.
std::vector<GraphRun> FindQuantizedGroupedRuns(const Chain& chain, const std::vector<bool>& claimed,
                                               std::map<ValueId, std::string>* refused);
// The same where one of them at least unpacks its weights of four bits.
std::vector<GraphRun> FindFourBitGroupedRuns(const Chain& chain, const std::vector<bool>& claimed,
                                             std::map<ValueId, std::string>* refused);

// RunMatcher: matches parts of a graph as runs of products, or says why no kernel takes them.
// Remembers the dtype in which values are stored, because all readers of a value must agree.

class RunMatcher {
 public:
  using Values = std::set<ValueId>;

  RunMatcher(const Chain& chain, int64_t bucket);

  // The run that computes `end` from the rows `a` by the products and ops `members`, and by views
  // and constants that lead to them; all other values are operands, and what a noted run stores.
  // The result and computed rows are stored as `dtype`, the weights'; of codes, the result as the
  // chain has it. No noted run may read a member but `end`. `aux`: members that the chain gives
  // out, and that only members read; each is stored as the result is.
  absl::StatusOr<GraphRun> Match(const Values& members, ValueId a, DType dtype, ValueId end,
                                 const std::vector<ValueId>& aux = {}) const;
  // Fixes for later runs which values this run stores and reads, and their dtypes.
  void Note(const GraphRun& run);
  // Whether a run stores or reads it as `dtype`.
  bool IsRounded(ValueId value, DType dtype) const;
  // The matrix of a product, below the views through which its kernel reads it: an input, or what
  // another kernel computes and stores.
  ValueId WeightOf(ValueId product) const;
  bool IsComputedWeight(ValueId value) const { return weights_.count(value) > 0; }
  const Users& users() const { return users_; }

 private:
  // The dtype of a result `end` of weights of `dtype`: not below the chain's, unless only products
  // of such weights read it.
  DType ResultOf(ValueId end, DType dtype) const;
  // Whether all that reads `value` multiplies it by weights of `dtype`, or casts it to `dtype`.
  bool OnlyMultiplied(ValueId value, DType dtype) const;
  // Whether only 8-bit floats, and scales of the products that read them, are made of `value`, by
  // ops that pass small relative errors on. Of these, only the 8-bit floats may be outputs.
  bool OnlyMadeIntoCodes(ValueId value) const;
  Subgraph GraphOf(const Values& members, ValueId a, DType dtype, ValueId end,
                   const std::vector<ValueId>& aux) const;
  absl::Status CheckStored(ValueId value, DType dtype) const;
  bool RoundedAlike(ValueId value, DType dtype) const;
  absl::Status CheckOperands(const MatchedSequence& matched) const;
  absl::Status CheckEnd(const MatchedSequence& matched, ValueId end) const;
  absl::Status CheckAux(ValueId aux) const;

  const Chain& chain_;
  const int64_t bucket_;
  const Users users_;
  Values weights_;                    // that are computed
  std::map<ValueId, DType> rounded_;  // the stored dtype of values that runs hand over or read
  Values made_;                       // by noted runs
};

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_PRODUCT_RUNS_H_
