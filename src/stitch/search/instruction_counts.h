// Instructions of generated code that costs are counted with. They follow from the source that code
// generation writes (src/stitch/code, src/device) and were counted in its machine code, so they are
// equal on every chip. The device model says what an instruction costs.
#ifndef SINTER_SRC_STITCH_SEARCH_INSTRUCTION_COUNTS_H_
#define SINTER_SRC_STITCH_SEARCH_INSTRUCTION_COUNTS_H_

namespace sinter {

// One load or store of device memory with its address; a vector is one access.
constexpr int kMemoryInstructions = 8;
// A division by a constant that is no power of two in an address: of a place in a unit, which has
// 32 bits; of one among all elements, which has 64.
constexpr int kDivisionInstructions = 8;
constexpr int kLongDivisionInstructions = 40;
// An element of a staged input, from its pack to shared memory.
constexpr int kStagingInstructions = 4;
// One shared memory access of a hand-over, and one of a pack's elements.
constexpr int kHandInstructions = 3;
constexpr int kPackInstructions = 1;
// Adding an element to its column's moments; and the unit count of a vector.
constexpr int kMomentInstructions = 5;
constexpr int kMomentTurnInstructions = 30;
// A lane's part in joining an element by shuffles.
constexpr int kShuffleInstructions = 8;

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_SEARCH_INSTRUCTION_COUNTS_H_
