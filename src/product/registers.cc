#include <algorithm>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "src/product/dataflow/dataflow.h"
#include "src/product/schedule_check.h"
#include "src/stitch/precision.h"

namespace sinter {
namespace {

// The most sums that N = 256 of a wgmma gives; with swapped operands several stand side by side.
constexpr int64_t kMaxAccumulators = 128, kMaxSwappedAccumulators = 160, kMaxBareSwapped = 184;

// Bounds of two consumer warpgroups, and of one. The compiler's registers are not a sum of parts,
// so bounds are what the sweeps of tests/compile found: in each, some kernel of wider tiles
// spilled. Slow: a function with slow paths is computed, or many values are live at once. Many
// parts: the partial sums of eight ranks are added.
constexpr int64_t kMaxSlow = 104, kMaxScaledSlow = 88, kMaxScaledSlowOfOne = 72,
                  kMaxManyParts = 112;
// One swapped warpgroup with programs: sums, and the terms of two columns of each set of 64.
constexpr int64_t kMaxSwappedProgramOfOne = 120;
// Bounds of three consumer warpgroups.
constexpr int64_t kMaxOfThree = 72, kMaxSlowOfThree = 56, kMaxResidualOfThree = 48;

// Bounds where threads keep their own sums until they are stored. Activated before a residual is
// added that is loaded element by element: of one matrix of weights, and of pairs of integers with
// a scale of each column. Then one matrix of integers with an odd number of columns, whose terms
// are loaded element by element. Then one warpgroup with an auxiliary result and no matrix.
constexpr int64_t kMaxUnalignedResidual = 112, kMaxUnalignedExactPair = 80, kMaxOddExact = 72,
                  kMaxOddExactOfOne = 80, kMaxAuxOfOne = 120;
// The bound of a cluster that owns rows, if only rows are scaled.
constexpr int64_t kMaxRowScaledSlowOfOne = 88;

// Bounds of promoted sums: the sums, the sums of one part, and the scales of blocks.
constexpr int64_t kMaxPromoted = 194, kMaxPromotedSwapped = 192, kMaxPromotedResidual = 168,
                  kMaxPromotedOfThree = 104, kMaxPromotedCodes = 176;

// Registers for addresses and loops: a kernel with nothing besides 128 sums has 154. For promoted
// sums, with all that a thread holds meanwhile if ranks share K: 210 of 232 fit, and 212 spilled.
constexpr int64_t kReserved = 28, kReservedPromoted = 22;
constexpr int kManyRegisters = 16;
constexpr int kLoadBytes = 16;       // of the widest load of a thread
constexpr int64_t kNarrowSums = 32;  // of each matrix, in tiles of 64 columns

int Warpgroups(const Schedule& s) { return s.warpgroups_m * s.warpgroups_n; }

// Registers of a consumer thread: the rest of the 65,536 of an SM when producers have theirs
// (kernels/block.cuh).
int64_t RegistersOf(const Schedule& s) {
  const int consumers = Warpgroups(s);
  if (consumers < 2) return 255;
  const int64_t producer = RowOf(s).products > 1 ? 72 : s.pushed_columns > 0 ? 56 : 40;
  const int64_t at_launch = consumers == 2 ? 168 : 128;  // of 384 threads, of 512
  return (at_launch * (consumers + 1) - producer) / consumers / 8 * 8;
}

int64_t Scratch(const ProductEpilogue& e) {
  return e.program.written() ? ScratchRegisters(e.program) : 0;
}

// Whether an epilogue needs many registers besides, as GELU by erf.
bool IsSlow(const ProductEpilogue& e) {
  return e.activation() == Activation::kGeluErf || e.sum_activation() == Activation::kGeluErf ||
         Scratch(e) >= kManyRegisters;
}

bool HasSlowEpilogue(const ProductSequence& p) {
  return std::any_of(p.products.begin(), p.products.end(),
                     [](const MatrixProduct& product) { return IsSlow(product.epilogue); });
}

// Words of the residual that are loaded before the product and held until its end: of both rows of
// a thread, of wide tiles of one. Where ranks share K or operands are swapped, it is loaded later.
int64_t HeldResidual(const Schedule& s, const TileOf& of) {
  if (!of.product.epilogue.has_residual() || s.swapped || of.tile.split_k > 1) return 0;
  return HeldResidualWords(of.accumulators / of.width / 4);
}

// The bound of slow programs, which compute all stored values while they hold a residual: its
// words, and as much scratch as the program needs. A narrow tile is taken for every program, so
// that every program has a schedule. The compiler then computes one function after the other.
int64_t MaxBesideResidual(const Schedule& s, const TileOf& of, int64_t most) {
  const int64_t scratch = Scratch(of.product.epilogue), held = HeldResidual(s, of);
  if (scratch < kSlowPathRegisters || held == 0) return most;
  const int64_t narrow = std::min(most, of.width * kNarrowSums);
  if (Warpgroups(s) == 3) return std::max(narrow, most - (scratch - kSlowPathRegisters));
  return std::max(narrow, std::min(most, RegistersOf(s) - kReserved - scratch - held));
}

// The bound of a product of a cluster that owns rows, if some epilogue is slow.
int64_t MaxSlowOfCluster(const Schedule& s, const TileOf& of) {
  const bool one = Warpgroups(s) < 2;
  if (of.product.HasColumnFactors()) return one ? kMaxScaledSlowOfOne : kMaxScaledSlow;
  const bool slow = IsSlow(of.product.epilogue) && of.product.scaled();
  return one && slow ? kMaxRowScaledSlowOfOne : kMaxAccumulators;
}

// Whether sums of 16-bit operands are stored with at most a bias and a quick activation.
bool IsBare(const MatrixProduct& p) {
  const ProductEpilogue& e = p.epilogue;
  const bool whole = p.rows.source == Source::kBuffer && !p.HasTransposedRows() && !p.pair &&
                     p.weights.layout == Layout::kOI;
  const bool stored = p.ResultBytes() == 2 && p.AuxResults() == 0 && !e.quantize.has_value();
  const bool added = e.has_residual() || e.sum_activation() != Activation::kIdentity;
  return whole && stored && !added && !IsCode(p.rows.element) && !p.scaled() &&
         !e.program.written() && !IsSlow(e);
}

int64_t MaxSwapped(const TileOf& of) {
  return of.tile.split_k == 1 && IsBare(of.product) ? kMaxBareSwapped : kMaxSwappedAccumulators;
}

int64_t MaxAccumulators(const ProductSequence& p, const Schedule& s, const TileOf& of) {
  const int warpgroups = Warpgroups(s);
  const bool slow = HasSlowEpilogue(p);
  if (RowOf(s).cluster_owns_rows) return slow ? MaxSlowOfCluster(s, of) : kMaxAccumulators;
  if (warpgroups < 2) {
    const int64_t most = slow && p.scaled() ? kMaxScaledSlowOfOne : kMaxAccumulators;
    if (!s.swapped || !HasPrograms(p)) return most;
    const int64_t sets = of.accumulators / (s.block_m / 2);
    return std::min(most, kMaxSwappedProgramOfOne - 2 * sets * p.front().ColumnTerms());
  }
  const bool residual = p.back().epilogue.has_residual();
  if (warpgroups == 3 && residual) return kMaxResidualOfThree;
  if (warpgroups == 3) return slow ? kMaxSlowOfThree : kMaxOfThree;
  if (slow) return p.scaled() ? kMaxScaledSlow : kMaxSlow;
  if (s.swapped) return MaxSwapped(of);
  if (p.size() == 1) return kMaxAccumulators;
  // A residual takes registers too: with eight ranks in the second product, or with scaled
  // products, fewer accumulators fit.
  const bool many = s.first.split_k >= 8 || (residual && (p.scaled() || s.second.split_k >= 8));
  return many ? kMaxManyParts : kMaxAccumulators;
}

// The bound of sums that their threads keep until they are stored.
int64_t MaxKept(const Schedule& s, const TileOf& of) {
  if (s.swapped) return MaxSwapped(of);
  if (of.tile.split_k > 1) return kMaxSwappedAccumulators;
  const MatrixProduct& p = of.product;
  const ProductEpilogue& e = p.epilogue;
  const bool one = Warpgroups(s) < 2;
  if (of.width == 1 && ElementOf(p).exact && p.n % 2 != 0 && p.result != DType::kF32 &&
      (p.HasColumnFactors() || p.ColumnTerms() > 0)) {
    return one ? kMaxOddExactOfOne : kMaxOddExact;
  }
  const bool activated =
      e.activation() != Activation::kIdentity && e.activation() != Activation::kRelu;
  if (activated && e.has_residual() && p.n % (kLoadBytes / SizeOf(e.program.MatrixType())) != 0) {
    if (of.width == 1) return kMaxUnalignedResidual;
    if (ElementOf(p).exact && p.weights.scales.kind == ScaleKind::kVector) {
      return kMaxUnalignedExactPair;
    }
  }
  return one && p.AuxResults() > 0 && !e.has_residual() ? kMaxAuxOfOne : kMaxAccumulators;
}

// Registers that the terms of eight columns of a row take, which a thread loads before the product
// where ranks share K.
int64_t TermsOfEight(const MatrixProduct& p) {
  const auto words = [](DType element) { return element == DType::kF32 ? 2 : 1; };
  const EpilogueProgram& program = p.epilogue.program;
  const int64_t factor = p.Width() * words(p.weights.scales.element);
  const int64_t one = p.weights.scales.kind == ScaleKind::kTensor ? factor : 0;
  int64_t pair = p.weights.scales.kind == ScaleKind::kVector ? factor : 0;
  for (const int input : program.ColumnLeaves()) pair += words(program.TypeOf(input));
  return one + 4 * pair;
}

// Registers for scales of blocks, of the group of K that is summed and of the next one: two rows of
// a thread, and the blocks of its columns. In addition, the addresses of row scales, the addresses
// and steps of each matrix's scales, and the counters of rows and groups.
int64_t BlockScalesAhead(const Schedule& s, const TileOf& of) {
  const MatrixProduct& p = of.product;
  if (!p.HasBlockScales()) return 0;
  int64_t registers = 2;
  if (p.rows.scales.kind == ScaleKind::kBlock) registers += 2 * 2 + 2;
  if (p.weights.scales.kind == ScaleKind::kBlock) {
    const int64_t blocks = std::max<int64_t>(1, of.tile.block_n / s.warpgroups_n / kScaleBlock);
    registers += of.width * (2 * blocks + 4);
  }
  return registers;
}

// What two blocks that load for each other need besides.
int64_t RegistersOfShare(Share share) {
  return share == Share::kWeights ? 4 : share == Share::kRows ? 2 : 0;
}

absl::Status RefuseSums(absl::string_view what, const TileOf& of, int64_t value, int64_t most) {
  return RefuseSchedule(absl::StrCat(of.name, " ", what), value,
                        absl::StrCat("is above ", most, " registers a thread"));
}

// How many different functions with slow paths it calls.
int SlowFunctions(const EpilogueProgram& program) {
  const std::vector<Precision>& precisions = PrecisionsOf(*program.body, program.for_codes);
  std::set<absl::string_view> names;
  for (size_t id = 0; id < program.body->ops().size(); ++id) {
    const Op& op = program.body->ops()[id];
    const Compound compound = CompoundAt(*program.body, precisions, static_cast<ValueId>(id));
    if (compound.function == Compound::kLog1p) names.insert(TraitsOf(UnaryKind::kLog1p).name);
    const bool computes = op.kind == OpKind::kUnary || op.kind == OpKind::kBinary;
    if (computes && FormOf(TraitsOf(op), precisions[id]).slow) names.insert(TraitsOf(op).name);
  }
  return static_cast<int>(names.size());
}

// Most values of one element that are live at once: computed and still to be read. Leaves,
// constants and values that are affine in the product do not count.
int LiveValues(const EpilogueProgram& program) {
  const Chain& body = *program.body;
  std::vector<int> reads = body.UseCounts();
  const std::vector<bool> affine = program.InAffine();
  const auto counts = [&](size_t id) {
    const OpKind kind = body.ops()[id].kind;
    return kind != OpKind::kInput && kind != OpKind::kScalar && !affine[id];
  };
  int live = 0, most = 0;
  for (size_t id = 0; id < body.ops().size(); ++id) {
    for (const ValueId operand : body.ops()[id].operands) {
      const auto of = static_cast<size_t>(operand);
      if (--reads[of] == 0 && counts(of)) --live;
    }
    if (counts(id)) most = std::max(most, ++live);
  }
  return most;
}

}  // namespace

absl::Status CheckAccumulators(const ProductSequence& p, const Schedule& s, const TileOf& of) {
  int64_t most = MaxAccumulators(p, s, of);
  if (!RowOf(s).cluster_owns_rows) most = std::min(MaxBesideResidual(s, of, most), MaxKept(s, of));
  if (of.accumulators <= most) return absl::OkStatus();
  return RefuseSums("accumulators", of, of.accumulators, most);
}

absl::Status CheckPromoted(const ProductSequence& p, const Schedule& s, const TileOf& of) {
  const ElementRow element = ElementOf(p.front());
  if (!element.promoted) return absl::OkStatus();
  constexpr int kColumnStep = 8;  // of the N of a wgmma
  const int columns = static_cast<int>(2 * of.accumulators);
  const int parts = PromotedParts(element, s, columns);
  if (!s.swapped && columns % (kColumnStep * parts) != 0) {
    return RefuseSchedule(absl::StrCat(of.name, ".block_n"), columns,
                          "columns of a warpgroup are not two halves of whole column groups");
  }
  const int64_t sums = of.accumulators + of.accumulators / parts;
  const int64_t scales = !p[0].HasBlockScales() ? 0 : s.swapped ? s.block_m / 4 : 2;
  const bool codes = p.back().epilogue.quantize.has_value();
  const int64_t most = Warpgroups(s) == 3                 ? kMaxPromotedOfThree
                       : p.back().epilogue.has_residual() ? kMaxPromotedResidual
                       : codes && (s.warpgroups_n > 1 || p.back().epilogue.bias().has_value())
                           ? kMaxPromotedCodes
                       : s.swapped ? kMaxPromotedSwapped
                                   : kMaxPromoted;
  if (sums + scales > most) return RefuseSums("promoted accumulators", of, sums + scales, most);
  if (s.swapped || of.tile.split_k == 1) return absl::OkStatus();
  const int64_t held =
      sums + BlockScalesAhead(s, of) + TermsOfEight(of.product) + RegistersOfShare(s.share);
  const int64_t left = RegistersOf(s) - kReservedPromoted;
  if (held <= left) return absl::OkStatus();
  return RefuseSums("promoted accumulators, scales and terms", of, held, left);
}

OpCost CostOfProgram(const EpilogueProgram& program) {
  const std::vector<Precision>& precisions = PrecisionsOf(*program.body, program.for_codes);
  const std::vector<bool> affine = program.InAffine();
  OpCost sum;
  for (size_t id = 0; id < program.body->ops().size(); ++id) {
    const OpKind kind = program.body->ops()[id].kind;
    if (kind == OpKind::kInput || affine[id]) continue;  // counted with the product's terms
    const OpCost cost = CostOfOp(*program.body, precisions, static_cast<ValueId>(id));
    sum.issue += cost.issue;
    sum.special += cost.special;
  }
  return sum;
}

int ScratchRegisters(const EpilogueProgram& program) {
  constexpr int kColumns = 2;     // that a thread computes together
  constexpr int kLiveAnyway = 6;  // values of a column for which registers are kept
  // The compiler holds constants and values of all kinds of functions with slow paths. Two kinds
  // need no more than one: 104 sums fit next to a residual. With three kinds, 64 did not.
  constexpr int kKindsTogether = 2, kKindRegisters = 48;
  const int more = kColumns * std::max(0, LiveValues(program) - kLiveAnyway);
  const int slow = SlowFunctions(program);
  if (slow == 0) return more;
  return more + kSlowPathRegisters + kKindRegisters * std::max(0, slow - kKindsTogether);
}

}  // namespace sinter
