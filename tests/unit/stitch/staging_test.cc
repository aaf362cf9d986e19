// Staging: which inputs lie along the units, the units that tiles of a result are, and where staged
// inputs lie in shared memory.
#include "src/stitch/shared_reads.h"
#include "tests/unit/stitch/stitch_tests.h"

namespace sinter {
namespace {

Chain TransposeOf(const char* dims, const char* axes) {
  return ReadChain("out transpose({bf16[$0]}, $1)", dims, axes);
}

// Sums over the channels of t[batch, tokens, channels] = x[batch, channels, tokens].
Chain RowsOfChannels(int64_t channels, int64_t tokens) {
  return ReadChain("out sum(f32(transpose({bf16[3,$0,$1]}, 0, 2, 1)), 2)", channels, tokens);
}

std::vector<ValueId> TilesOf(const Chain& body) {
  return TileOwners(body, *MakeStitchProgram(body, -1));
}

TEST(Staging, OwnersOfTilesReadBack) {
  for (const int axis : {0, 3}) {
    for (const int64_t columns : {1, 64, 4096}) {
      const UnitTile read = TileOfOwner(OwnerOfTile({axis, columns}, 7), 7);
      EXPECT_EQ(read.axis, axis);
      EXPECT_EQ(read.columns, columns);
    }
  }
  EXPECT_EQ(TileOfOwner(13, 7).axis, -1) << "of everything";
}

TEST(Staging, TilesLieAlongTheAxisOfTheInput) {
  const Chain chain = TransposeOf("5, 24, 64", "0, 2, 1");
  const std::vector<ValueId> owners = TilesOf(chain);
  ASSERT_EQ(owners.size(), 1u);
  const UnitTile tile = TileOfOwner(owners[0], chain.ops().size());
  EXPECT_EQ(tile.axis, 1);
  EXPECT_EQ(tile.columns, 24);
  const StitchProgram program = *MakeStitchProgram(chain, owners[0]);
  EXPECT_EQ(program.units, 5 * 64);
  ASSERT_EQ(program.staged.size(), 1u);
  EXPECT_EQ(program.staged[0].wide, 8);
  EXPECT_EQ(program.staged[0].elements, 24);
  EXPECT_TRUE(TilesOf(TransposeOf("64, 8, 32", "1, 0, 2")).empty()) << "rows stay rows";
}

// Every element has one unit, and one place in it.
TEST(Staging, UnitsOfTilesDivideTheResult) {
  const Chain chain = TransposeOf("4, 6, 16, 10", "0, 3, 1, 2");  // [4, 10, 6, 16]
  const StitchProgram program = *MakeStitchProgram(chain, OwnerOfTile({1, 8}, chain.ops().size()));
  const std::vector<Dim> dims = chain.output_type(0).dims;
  IndexSpace space;
  const IndexVar u = space.AddLoop("u", program.units, 1), i = space.AddLoop("i", 8, 2);
  const Index linear =
      space.Canonical(LinearIndex(dims, PositionIn(*CutUnits(program, dims), u, i, space)));
  std::set<int64_t> seen;
  for (int64_t unit = 0; unit < program.units; ++unit) {
    for (int64_t element = 0; element < 8; ++element) {
      const int64_t at = space.ValueAt(linear, u, unit) + space.ValueAt(linear, i, element);
      EXPECT_TRUE(seen.insert(at).second && at >= 0 && at < 4 * 10 * 6 * 16) << at;
      if (element == 0 && unit % 10 > 0) {
        EXPECT_EQ(at - space.ValueAt(linear, u, unit - 1), 6 * 16) << "neighbours along the axis";
      }
    }
  }
  EXPECT_EQ(seen.size(), size_t{4 * 10 * 6 * 16});
}

TEST(Staging, TilesRefuseWhatTheyDoNotCut) {
  const Chain chain = TransposeOf("24, 64", "1, 0");
  const auto message = [](const Chain& body, const UnitTile& tile) {
    return std::string(
        MakeStitchProgram(body, OwnerOfTile(tile, body.ops().size())).status().message());
  };
  const auto expect = [](const std::string& text, const char* part) {
    EXPECT_THAT(text, HasSubstr(part));
  };
  expect(message(chain, {1, 8}), "axis of a tile is 1, its result");
  expect(message(chain, {0, 9}), "columns of a tile is 9, its result");
  expect(message(RowsOfChannels(32, 64), {0, 8}), "is not made in tiles of a result");
}

TEST(Staging, InputsAlongTheUnitsOfARowAreFound) {
  const auto staged = [](const Chain& chain) {
    return MakeStitchProgram(chain, OwnerCandidates(chain)[1])->staged;
  };
  ASSERT_EQ(staged(RowsOfChannels(40, 64)).size(), 1u);
  EXPECT_EQ(staged(RowsOfChannels(40, 64))[0].wide, 8);
  EXPECT_EQ(staged(RowsOfChannels(40, 12))[0].wide, 4) << "twelve tokens are no packs of eight";
  EXPECT_TRUE(staged(RowsOfChannels(40, 49)).empty()) << "an odd number";
}

// Packs of units of one element lie in different banks, packs of elements are whole.
TEST(Staging, PlacesAreApart) {
  const Chain chain = TransposeOf("256, 64", "1, 0");
  StitchSchedule s{.owner = OwnerOfTile({0, 64}, chain.ops().size()),
                   .unit_threads = 8,
                   .vector = 8,
                   .staged = true};
  const StitchProgram program = *MakeStitchProgram(chain, s.owner);
  const std::vector<StagedPlace> places = LayOutStaged(chain, program, s);
  ASSERT_EQ(places.size(), 1u);
  const StagedPlace& p = places[0];
  EXPECT_EQ(p.bytes, 32 * 64 * 2);
  EXPECT_GE(StitchSharedBytes(chain, program, s), p.bytes);
  const auto place = [&](int64_t unit, int64_t i) {
    return unit * p.elements + ((i / p.chunk) ^ ((unit / p.wide) & p.mask)) * p.chunk + i % p.chunk;
  };
  std::set<int64_t> all, banks;
  for (int64_t unit = 0; unit < 32; ++unit) {
    for (int64_t i = 0; i < 64; ++i) all.insert(place(unit, i));
    if (unit % p.wide == 0) banks.insert(place(unit, 0) * 2 / 4 % 32);
    EXPECT_EQ(place(unit, 8) % 8, 0);
  }
  EXPECT_EQ(all.size(), size_t{32 * 64});
  EXPECT_EQ(*all.rbegin(), 32 * 64 - 1);
  EXPECT_EQ(banks.size(), 4u);
}

TEST(Staging, IsChosenForALargeTranspose) {
  const Chain chain = TransposeOf("4096, 4096", "1, 0");
  const auto ranked = Got(SearchStitch(chain, 1, *BuiltinModel("h100"), {}));
  EXPECT_TRUE(ranked.front().schedule.staged) << ranked.front().schedule.ToString();
}

}  // namespace
}  // namespace sinter
