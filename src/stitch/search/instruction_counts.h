// Instructions of generated code that costs are counted with. Each follows from what code
// generation writes (src/stitch/code, src/device) and was counted in its machine code: it is the
// same on every chip that runs the code. What an instruction takes is the device model's.
#ifndef SINTER_SRC_STITCH_SEARCH_INSTRUCTION_COUNTS_H_
#define SINTER_SRC_STITCH_SEARCH_INSTRUCTION_COUNTS_H_

namespace sinter {

// One load or store of device memory, with its address: a vector's is one.
constexpr int kMemoryInstructions = 8;
// One access of shared memory by what is handed over, and one of a pack's elements.
constexpr int kHandInstructions = 3;
constexpr int kPackInstructions = 1;
// To take an element into its column's moments; a vector's share of the units so far.
constexpr int kMomentInstructions = 5;
constexpr int kMomentTurnInstructions = 30;
// Of a lane that joins an element's shares by shuffles.
constexpr int kShuffleInstructions = 8;

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_SEARCH_INSTRUCTION_COUNTS_H_
