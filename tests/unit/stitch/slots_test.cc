// Slots: what takes turns in one place of shared memory, where threads meet for it, how it lies.
#include "src/stitch/phases.h"
#include "tests/support/forced_hands.h"
#include "tests/unit/stitch/stitch_tests.h"

namespace sinter {
namespace {

// exp of exp of .. of x[units, n, n], each of the other turned round: every one is taken elsewhere
// than it was left. `both`: the result reads the first of them too.
struct Chained {
  Chain chain;
  std::vector<ValueId> handed;
};
Chained Turns(int depth, bool both) {
  ChainReader r("x: f32[7,16,16]; first = exp(x); v = first");
  for (int i = 0; i < depth; ++i) r.Add("v = exp(transpose(v, 0, 2, 1))");
  r.Add("y = transpose(v, 0, 2, 1)");
  if (both) r.Add("y = y + transpose(first, 0, 2, 1)");
  r.Add("out y, sum(x, 1, 2)");
  Chained chained{r.Finish(), {}};
  chained.handed = OpsOf(chained.chain, OpKind::kUnary);
  return chained;
}

StitchProgram ProgramOf(const Chained& chained) {
  return Got(MakeStitchProgram(chained.chain, OwnerCandidates(chained.chain)[1], chained.handed));
}

std::vector<int> SlotsOf(const StitchProgram& program) {
  std::vector<int> slots;
  for (const StitchHand& hand : program.phases[0].hands) slots.push_back(hand.slot);
  return slots;
}

TEST(Slots, OfAChainTakeTurnsInTwo) {
  const Chained chained = Turns(4, false);
  const StitchProgram program = ProgramOf(chained);
  EXPECT_EQ(SlotsOf(program), (std::vector<int>{0, 1, 0, 1, 0}));
  StitchSchedule s;
  s.owner = program.owner, s.handed = chained.handed, s.unit_threads = 32;
  const HandLayout layout = LayOutHands(chained.chain, program, s);
  EXPECT_EQ(layout.phases[0][2].offset, layout.phases[0][0].offset);
  EXPECT_EQ(layout.phases[0][3].offset, layout.phases[0][1].offset);
  EXPECT_EQ(StitchSharedBytes(chained.chain, program, s),
            HandsOffset(chained.chain, program, s) + layout.group_bytes * s.UnitsPerBlock());
}

TEST(Slots, OfAValueThatIsReadAgainAreItsOwn) {
  EXPECT_EQ(SlotsOf(ProgramOf(Turns(3, true))), (std::vector<int>{0, 1, 2, 1}));
}

// Rows of 16 words would all begin in two banks.
TEST(Slots, PadRowsWhoseReadersStepDownThem) {
  const Chained chained = Turns(1, false);
  const StitchProgram program = ProgramOf(chained);
  StitchSchedule s;
  s.owner = program.owner, s.handed = chained.handed;
  for (const auto& [vector, row] : {std::pair<int, int64_t>{1, 17}, {4, 20}}) {
    s.vector = vector;
    const HandPlace place = LayOutHands(chained.chain, program, s).phases[0][0];
    EXPECT_EQ(place.strides, (std::vector<int64_t>{row, 1})) << "vectors stay whole";
    EXPECT_EQ(place.dtype, DType::kF32);
  }
}

bool Takes(const StitchPhase& phase, size_t loop, const StitchHand& hand) {
  const std::vector<StitchRoot>& roots = phase.loops[loop].roots;
  return loop > hand.made && std::any_of(roots.begin(), roots.end(), [&](const StitchRoot& root) {
           return std::count(root.reads.begin(), root.reads.end(), hand.value) > 0;
         });
}

// Two passes that touch one slot, one of them leaving something there, with a meeting between.
void ExpectMeetings(const StitchPhase& phase, bool rows_meet) {
  const std::vector<bool> meets = MeetsBefore(phase, rows_meet);
  const size_t loops = phase.loops.size(), rounds = 3;
  for (size_t a = 0; a < loops * rounds; ++a) {
    int between = 0;
    for (size_t b = a + 1; b < loops * rounds; ++b) {
      bool rows = false;
      for (const StitchRoot& root : phase.loops[(b - 1) % loops].roots) {
        rows |= root.kind == StitchRoot::kRow;
      }
      between += meets[b % loops] || (rows_meet && rows);
      for (const StitchHand& one : phase.hands) {
        for (const StitchHand& other : phase.hands) {
          if (one.slot != other.slot) continue;
          const bool leaves = one.made == a % loops, then_leaves = other.made == b % loops;
          const bool touches = leaves || Takes(phase, a % loops, one);
          const bool then_touches = then_leaves || Takes(phase, b % loops, other);
          if (!touches || !then_touches || !(leaves || then_leaves)) continue;
          EXPECT_GT(between, 0) << "loops " << a << " and " << b;
        }
      }
    }
  }
}

// Whatever is handed over: no value is overwritten that somebody still reads.
TEST(Slots, NeverOverlapInRandomGraphs) {
  constexpr int64_t kElements = 1 << 11, kSharedBytes = 1 << 20;
  int hands = 0, shared = 0, could = 0;
  for (uint64_t seed = 1; seed <= 130; ++seed) {
    const Chain chain = testing::MakeRandomStitchGraph(seed, {kElements});
    for (const ValueId owner : OwnerCandidates(chain)) {
      StitchSchedule s{.owner = owner};
      s = testing::WithForcedHands(chain, s, seed, 8, kSharedBytes);
      if (s.handed.empty()) continue;
      const StitchProgram program = *MakeStitchProgram(chain, owner, s.handed);
      const HandLayout layout = LayOutHands(chain, program, s);
      for (size_t p = 0; p < program.phases.size(); ++p) {
        const StitchPhase& phase = program.phases[p];
        ExpectMeetings(phase, false);
        ExpectMeetings(phase, true);
        for (size_t i = 0; i < phase.hands.size(); ++i, ++hands) {
          for (size_t j = 0; j < i; ++j) {
            const StitchHand &a = phase.hands[j], &b = phase.hands[i];
            const bool alive = a.last >= b.made;
            EXPECT_FALSE(alive && a.slot == b.slot) << "seed " << seed;
            EXPECT_EQ(a.slot == b.slot, layout.phases[p][j].offset == layout.phases[p][i].offset);
            shared += a.slot == b.slot;
            could += !alive;
          }
        }
      }
    }
  }
  std::printf("%d hand-overs, %d pairs share a slot of %d that are not alive together\n", hands,
              shared, could);
  EXPECT_GT(hands, 200);
  EXPECT_GT(shared, 10);
}

}  // namespace
}  // namespace sinter
