// Sectors: what neighbouring threads move of memory beyond the elements they want. Memory comes in
// sectors of 32 bytes, so a read of 2 bytes from each of 32 rows moves 1 KiB.
#ifndef SINTER_SRC_STITCH_SECTORS_H_
#define SINTER_SRC_STITCH_SECTORS_H_

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "src/base/keep_going.h"
#include "src/chain/chain.h"
#include "src/chain/op.h"
#include "src/stitch/index.h"
#include "src/stitch/program.h"

namespace sinter {

constexpr int64_t kSectorBytes = 32, kLineBytes = 128;  // of memory; of L1
// Cycles of an SM to take in a sector if the other sectors of its line are not needed. L1 takes one
// for each line that an access of a warp touches.
constexpr int64_t kSectorCycles = 2;

// An address as a sum over the digits of a loop's counter, the fastest first: digit d of `extent`
// values moves it by d * `step` bytes.
struct SectorDigit {
  int64_t extent = 1, step = 0;
  SINTER_FIELDS(SectorDigit, extent, step);
};
using SectorDigits = std::vector<SectorDigit>;

// A read or a write of memory in a loop over elements, one of `bytes` bytes for each element.
struct MemoryTouch {
  ValueId input = -1;  // -1: a store
  int64_t bytes = 0;
  int64_t first = 0;     // where element 0 of unit 0 lies
  double times = 1;      // elements accessed for each element of the loop
  bool by_ids = false;   // where it lies is read from memory
  bool window = false;   // a pixel of a window, which other results read too
  int wide = 1;          // neighbouring units that a pack of at most 16 bytes has one element of
  SectorDigits element;  // of the loop's counter
  SectorDigits unit;     // of the number of the unit
  SectorDigits inner;    // of the counters of a thread's own reductions

  // Whether it reads the same elements.
  bool operator==(const MemoryTouch& o) const {
    return input == o.input && first == o.first && element == o.element && unit == o.unit &&
           inner == o.inner;
  }
};

// How `address`, which counts elements of `bytes` bytes, moves with `loop`; `extent` 0: unbounded.
SectorDigits DigitsOf(const IndexSpace& space, const Index& address, IndexVar loop, int64_t extent,
                      int64_t bytes);

// The digits of the first `count` values of the counter.
SectorDigits FirstOf(const SectorDigits& digits, int64_t count);
// The digits of every `count`-th value of the counter.
SectorDigits EachOf(const SectorDigits& digits, int64_t count);

// Parts of `granule` bytes that elements of `bytes` bytes at all values of `digits` lie in.
double GranulesOf(SectorDigits digits, int64_t bytes, int64_t granule);

// Bank conflicts: cycles of shared memory for the accesses of a warp.

struct BankAccess {
  int64_t cycles = 0;    // of the warp
  int64_t accesses = 0;  // of each lane
};

// For a warp whose lanes take `width` neighbouring elements of loop `element` each; `at` counts
// elements of `bytes` in shared memory. All other loop variables are 0. A whole vector whose
// elements lie side by side is one access.
BankAccess BankCycles(IndexSpace& space, const Index& at, IndexVar element, int width,
                      int64_t bytes);

// Along a vector: how addresses move from one element to the next, and how many accesses reading
// them takes.

// How an index moves along a vector of `width` elements, the first at a multiple of `width` of loop
// variable `element`.
enum class Along {
  kUniform,  // the same for all elements
  kNext,     // one more for each element, and a multiple of width at the first
  kScattered,
};
Along AlongVector(const IndexSpace& space, const Index& index, IndexVar element, int width);

// Memory accesses for a vector: one, or where the addresses are scattered one for each different
// address, judged by the loop's first vector.
int AccessesOfVector(const IndexSpace& space, const Index& address, IndexVar element, int width);

// The address of an element in a tensor with these strides; canonical.
Index AddressOf(const Position& at, const std::vector<Stride>& strides, IndexSpace& space);

// Evaluations: how often a thread computes each op for one element of a loop. A serial reduction
// repeats its operands, and nested reductions multiply.

// A value at one place, which a loop computes, reads from memory or takes from shared memory.
struct Statement {
  double turns = 0;  // iterations for one element of the loop; 0: the result of a reduction that
                     // the unit's threads or an earlier phase have made
  bool by_element =
      true;  // false: its place is the same for all elements: `turns` count for the unit
  bool in_loop = false;  // inside a thread's own reduction
  bool taken = false;    // handed over by an earlier loop of the unit
  Position in_unit;      // taken: the place in the unit's part of the value
};

struct Evaluations {
  // By value and canonical place: a value that several ops read at one place is computed once.
  std::map<ElementKey, Statement> statements;
  IndexSpace space;  // of the places
  IndexVar unit = -1, element = -1;
  std::vector<double> times;  // by op; for a reduction or product: elements that it reduces
  double steps = 0;           // of all serial reductions, one after another
  // By input: memory accesses for one element, in vectors of 1, 2, 4 and 8.
  std::map<ValueId, std::array<double, 4>> accesses;
  // In the same way, quotients and remainders in their addresses by divisors that are not a power
  // of two.
  std::map<ValueId, std::array<double, 4>> divisions;
  std::vector<int> shared;           // by op: elements of a vector that have one value, up to 8
  std::vector<MemoryTouch> touches;  // of inputs, each at each of its places, and of outputs

  // 0 for an input that is not read.
  double AccessesOf(ValueId input, int vector) const;
  double DivisionsOf(ValueId input, int vector) const;
  // Elements of a vector of `vector` that share each value of `id`: computed once for all of them.
  int SharedBy(ValueId id, int vector) const;
  // How often a unit's threads together make a statement, in vectors of `vector`. The loop is over
  // a unit's elements.
  double TripsOf(const std::pair<const ElementKey, Statement>& one, int vector) const;
};

// `phase`: the phase of which `loop` is a loop over units' elements; null: it is over all elements.
// `pace` (may be null) takes one step a visit. `pixels`: results of the program's windows that a
// thread makes at once, for which it computes once what they share.
Evaluations EvaluationsOf(const Chain& body, const StitchProgram& program, const StitchLoop& loop,
                          const StitchPhase* phase, Pace* pace = nullptr, int pixels = 1);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_SECTORS_H_
