// Sectors: how addresses move with a loop's counter, and what of memory neighbouring threads touch.
#include "src/stitch/sectors.h"

#include "tests/unit/stitch/stitch_tests.h"

namespace sinter {
namespace {

const DeviceModel& H100() {
  static const DeviceModel model = *BuiltinModel("h100");
  return model;
}

Chain Transposed(const char* dims, const char* axes) {
  return ReadChain("out transpose({bf16[$0]}, $1)", dims, axes);
}

// "x[0:512, 256:512]" of x[rows, 1024].
Chain Sliced(const char* part, int64_t rows = 512) {
  return ReadChain("x: bf16[$0,1024]; out $1", rows, part);
}

StitchLoad Flat(const Chain& body, int vector, int chunks = 4) {
  return LoadOf(body, *MakeStitchProgram(body, -1), {.vector = vector, .chunks = chunks}, 1,
                H100());
}

TEST(Sectors, DigitsAreThoseOfTheAddress) {
  const Chain chain = Transposed("4, 6, 10", "0, 2, 1");
  const StitchProgram program = *MakeStitchProgram(chain, -1);
  const Evaluations e = EvaluationsOf(chain, program, program.phases[0].flat[0], nullptr);
  ASSERT_EQ(e.touches.size(), 2u) << "a read and a store";
  for (const MemoryTouch& touch : e.touches) {
    // The address of every element is the sum of its digits' steps.
    for (int64_t n = 0; n < 240; ++n) {
      int64_t address = 0, rest = n;
      for (const SectorDigit& digit : touch.element) {
        address += rest % digit.extent * digit.step;
        rest /= digit.extent;
      }
      const int64_t batch = n / 60, column = n / 6 % 10, row = n % 6;
      EXPECT_EQ(address, 2 * (touch.input < 0 ? n : batch * 60 + row * 10 + column)) << n;
    }
  }
}

TEST(Sectors, AreCountedOnce) {
  const auto sectors = [](const SectorDigits& digits, int64_t bytes) {
    return GranulesOf(digits, bytes, kSectorBytes);
  };
  EXPECT_EQ(sectors({{64, 2}}, 2), 4) << "side by side";
  EXPECT_EQ(sectors({{32, 8192}}, 2), 32) << "one each";
  EXPECT_EQ(sectors({{32, 8192}, {16, 2}}, 2), 32) << "sixteen share one";
  EXPECT_EQ(sectors({{32, 0}}, 4), 1) << "all read one";
  EXPECT_EQ(sectors({{64, 4}}, 2), 8) << "every second element";
  EXPECT_EQ(sectors({{3, 64}, {100, 64}}, 4), 102) << "windows overlap";
  EXPECT_EQ(sectors({{16, -2}}, 2), 1) << "backwards";
  EXPECT_GT(sectors({{8, 2}, {10, 50}}, 2), 10) << "some lie across two";
  EXPECT_EQ(GranulesOf({{32, 8192}, {16, 2}}, 2, 2), 512) << "elements";
}

TEST(Sectors, FirstAndEachDivideTheCounter) {
  const SectorDigits digits = {{6, 20}, {10, 2}, {4, 120}};
  const auto extents = [](const SectorDigits& of) {
    int64_t count = 1;
    for (const SectorDigit& digit : of) count *= digit.extent;
    return count;
  };
  EXPECT_EQ(extents(FirstOf(digits, 12)), 12);
  EXPECT_EQ(FirstOf(digits, 3).size(), 1u);
  EXPECT_EQ(extents(EachOf(digits, 2)), 120);
  EXPECT_EQ(EachOf(digits, 2)[0].step, 40);
}

// Each of 16 elements of a sector is read by another block.
TEST(SectorLoad, ATransposedReadMovesASectorForAnElement) {
  const double elements = 4096.0 * 4096;
  const StitchLoad load = Flat(Transposed("4096, 4096", "1, 0"), 8);
  EXPECT_DOUBLE_EQ(load.strewn_bytes, 32 * elements);
  EXPECT_DOUBLE_EQ(load.line_cycles, elements) << "every lane has its own line";
  EXPECT_DOUBLE_EQ(load.input_bytes, 2 * elements) << "L2 keeps them until then";
}

TEST(SectorLoad, L1KeepsWhatABlockReadsAgain) {
  const Chain chain = Transposed("64, 256, 1024", "0, 2, 1");  // rows of 256
  EXPECT_DOUBLE_EQ(Flat(chain, 8, 8).strewn_bytes, 2.0 * 64 * 256 * 1024);
  EXPECT_GT(Flat(chain, 1, 1).strewn_bytes, 16.0 * 64 * 256 * 1024) << "one row a block";
}

TEST(SectorLoad, SideBySideNothingIsStrewn) {
  for (const Chain& chain :
       {Transposed("64, 128, 512", "1, 0, 2"), Sliced("x[:, 256:512]", 4096)}) {
    EXPECT_EQ(Flat(chain, 8).strewn_bytes, 0);
    EXPECT_EQ(Flat(chain, 8).line_cycles, 0);
  }
}

TEST(SectorLoad, SlicesReadTheSectorsTheyTouch) {
  const auto bytes = [](const Chain& chain) { return Flat(chain, 8).input_bytes; };
  EXPECT_EQ(bytes(Sliced("x[0:512, 256:512]")), 512 * 256 * 2);
  EXPECT_EQ(bytes(Sliced("x[0:512, 0:1024:2]")), 512 * 1024 * 2);
  EXPECT_EQ(bytes(Sliced("x[0:512, 0:1024:32]")), 512 * 32 * 32);
  EXPECT_EQ(bytes(Sliced("x[0:512:2, 0:1024]")), 256 * 1024 * 2);
}

// Lanes that have a row each read neighbours of the columns; lanes of one row read far apart.
TEST(SectorLoad, LanesOfSeveralUnitsLieSideBySide) {
  const Chain chain = ReadChain("x: f32[4,32,4096]; out sum(exp(transpose(x, 0, 2, 1)), 2)");
  const StitchProgram program = *MakeStitchProgram(chain, OwnerCandidates(chain)[1]);
  const auto cycles = [&](int unit_threads) {
    return LoadOf(chain, program, {.owner = program.owner, .unit_threads = unit_threads}, 1, H100())
        .line_cycles;
  };
  EXPECT_DOUBLE_EQ(cycles(32), 32 * cycles(1));
}

}  // namespace
}  // namespace sinter
