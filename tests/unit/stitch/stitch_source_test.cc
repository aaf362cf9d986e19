// Source of stitch kernels: made for every schedule that search ranks, a function of its arguments,
// launched as it is written; and specs out of damaged bytes never crash the generator.
#include "src/stitch/code/stitch_source.h"

#include "src/plan/kernel_code.h"
#include "tests/support/stitch_bytes.h"
#include "tests/unit/stitch/stitch_tests.h"

namespace sinter {
namespace {

std::vector<RankedStitch> RankedOf(const Chain& body, int64_t bucket) {
  absl::StatusOr<std::vector<RankedStitch>> ranked =
      SearchStitch(body, bucket, H200(), {.top_k = std::numeric_limits<int>::max()});
  return ranked.ok() ? *std::move(ranked) : std::vector<RankedStitch>();
}

KernelSpec SpecOf(const Chain& body, const StitchSchedule& schedule) {
  auto stitch = std::make_shared<StitchSpec>();
  stitch->body = body;
  stitch->schedule = schedule;
  for (int i = 0; i < body.num_inputs() + body.num_outputs(); ++i) {
    stitch->operands.push_back({i, 0});
  }
  stitch->scratch_offset = kWorkspaceFlagBytes;
  return KernelSpec{.family = &StitchFamily(), .body = MakeBody(std::move(*stitch))};
}

size_t Count(const std::string& text, const std::string& what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

TEST(StitchSource, IsMadeForEverySchedule) {
  size_t made = 0;
  for (uint64_t seed = 1; seed <= testing::kRandomStitchGraphs; ++seed) {
    const Chain body = testing::MakeRandomStitchGraph(seed);
    const std::vector<RankedStitch> ranked = RankedOf(body, 1);
    for (size_t i = 0; i < ranked.size(); i += 1 + ranked.size() / 12) {
      const auto kernel = Generate(SpecOf(body, ranked[i].schedule), H200());
      EXPECT_TRUE(kernel.ok()) << seed << ": " << ranked[i].schedule.ToString() << " owner "
                               << ranked[i].schedule.owner << ": " << kernel.status();
      made += kernel.ok();
    }
  }
  std::printf("%zu kernels\n", made);
  EXPECT_GT(made, 1000u);
}

TEST(StitchSource, IsAFunctionOfItsArguments) {
  const Chain body = testing::MakeRandomStitchGraph(3);
  const KernelSpec spec = SpecOf(body, RankedOf(body, 1).front().schedule);
  EXPECT_EQ(Generate(spec, H200())->request.source, Generate(spec, H200())->request.source);
}

// Rows that ids name are read once where inputs are kept, like others.
TEST(StitchSource, RowsThatIdsNameAreReadOnceWhenInputsAreKept) {
  const Chain body = testing::GraphOf("embedding(M, 50257, 768, s64)");
  int kept = 0;
  for (const RankedStitch& one : RankedOf(body, 128)) {
    const StitchSchedule& s = one.schedule;
    if (!s.keep_inputs || s.owner < 0 || s.keep_values || !s.handed.empty()) continue;
    const auto kernel = Got(Generate(SpecOf(body, s), H200()));
    for (int i = 0; i < body.num_inputs(); ++i) {
      if (body.input_op(i).type.rank() != 2) continue;
      const std::string& source = kernel.request.source;
      const std::string place = absl::StrCat("in", i, " + ");  // of a read, or of one by an id
      EXPECT_EQ(Count(source, "(" + place) + Count(source, ", " + place), 1u) << s.ToString();
    }
    if (++kept == 5) break;
  }
  EXPECT_EQ(kept, 5);
}

// Ids that are computed between a minimum and a maximum are not asked whether they name a row.
TEST(StitchSource, NobodyAsksForIdsThatAreAlwaysThere) {
  const auto source_of = [](const Chain& body) {
    return Generate(SpecOf(body, RankedOf(body, 128).front().schedule), H200())->request.source;
  };
  const std::string between = source_of(testing::GraphOf("pixels_between(5, 12, 16)"));
  EXPECT_EQ(Count(between, "is_place("), 0u) << between;
  EXPECT_EQ(Count(between, "place_of("), 0u) << between;
  EXPECT_EQ(Count(between, "const int n = "), 1u) << "elements that an int counts\n" << between;
  const std::string outside = source_of(testing::GraphOf("computed_ids(M, 8, bf16)"));
  EXPECT_EQ(Count(outside, "load_pack_or<"), 1u) << outside;
  EXPECT_EQ(Count(outside, "const long long n = "), 1u) << outside;
}

// Only the window columns at a row's ends are compared with the row's bounds.
TEST(StitchSource, NobodyAsksForColumnsThatAreAlwaysThere) {
  const Chain body = testing::FromText("depthwise_conv b=M ic=64 h=56 w=56 k=3 weights=HWIO");
  for (const RankedStitch& one : RankedOf(body, 32)) {
    const int pixels = one.schedule.pixels;
    if (pixels != 4 && pixels != 7) continue;
    const auto kernel = Got(Generate(SpecOf(body, one.schedule), H200()));
    EXPECT_EQ(Count(kernel.request.source, "= is_inside("), 3u) << kernel.request.source;
  }
}

// In place what a scatter leaves is copied only where the buffers differ; else always.
TEST(StitchSource, ScattersCopyWhatTheyLeaveWhereItIsNotThere) {
  for (const bool in_place : {true, false}) {
    const Chain body =
        testing::GraphOf("cache_write(M, 1000, 64, bf16, s64, $0)", in_place ? "over x" : "");
    const auto kernel = Got(Generate(SpecOf(body, RankedOf(body, 128).front().schedule), H200()));
    const std::string& source = kernel.request.source;
    EXPECT_EQ(Count(source, "if (out0 != in"), in_place ? 1u : 0u) << source;
    EXPECT_EQ(Count(source, "is_last("), 1u);
    EXPECT_EQ(Count(source, "!is_named("), 1u);
    EXPECT_EQ(Count(source, ") store_pack<ElementBF16, "), 2u) << source;
  }
}

// softmax(t) of t[batch, tokens, channels] = x[batch, channels, tokens].
Chain SoftmaxOfTurned(int64_t channels, int64_t tokens) {
  return ReadChain(
      "t = transpose({f32[3,$0,$1]}, 0, 2, 1); out exp(t - spread(reduce_max(t, 2, keep), t))",
      channels, tokens);
}

// All threads of a block load its inputs: none leaves before the last round.
TEST(StitchSource, NobodyLeavesABlockThatStagesInputs) {
  int staged = 0, warps = 0;
  const Chain body = SoftmaxOfTurned(384, 50);
  for (const RankedStitch& ranked : RankedOf(body, 1)) {
    const StitchSchedule& s = ranked.schedule;
    if (!s.staged) continue;
    const auto kernel = Got(Generate(SpecOf(body, s), H200()));
    const std::string& text = kernel.request.source;
    EXPECT_EQ(Count(text, "long long own ="), 0u) << s.ToString();
    EXPECT_EQ(Count(text, "long long base ="), 1u) << s.ToString();
    ++staged;
    warps += s.unit_threads >= 32 && s.UnitsPerBlock() > 1 && !s.keep_values;
  }
  EXPECT_GT(warps, 0) << "of " << staged;
}

// So a compiler fuses no scale with the difference that an exponential takes.
TEST(StitchSource, DifferencesOfScaledScoresAreTakenAlone) {
  for (const bool scaled : {false, true}) {
    const Chain body =
        ParseProblem(scaled ? "softmax rows=64 cols=200 scale=1e14" : "softmax rows=64 cols=200")
            ->chain;
    for (const RankedStitch& ranked : RankedOf(body, 1)) {
      const auto kernel = Got(Generate(SpecOf(body, ranked.schedule), H200()));
      const std::string& text = kernel.request.source;
      EXPECT_EQ(Count(text, "Exact::sub(") == 0, scaled) << ranked.schedule.ToString();
      EXPECT_EQ(Count(text, "Exact::sub_alone(") > 0, scaled) << ranked.schedule.ToString();
    }
  }
}

TEST(StitchSource, IsLaunchedAsItIsWritten) {
  for (const char* line : {"layernorm rows=M cols=4096", "softmax rows=M cols=64"}) {
    const Chain body = testing::FromText(line);
    for (const RankedStitch& one : RankedOf(body, 8192)) {
      const StitchSchedule& s = one.schedule;
      const auto kernel = Got(Generate(SpecOf(body, s), H200()));
      const LaunchRecipe& recipe = kernel.recipe;
      EXPECT_EQ(recipe.grid[0], static_cast<uint32_t>(s.grid));
      EXPECT_EQ(recipe.block[0], static_cast<uint32_t>(s.block_threads));
      EXPECT_EQ(recipe.cluster[0], static_cast<uint32_t>(s.cluster));
      EXPECT_FALSE(recipe.cooperative);
      const int64_t rows = int64_t{s.grid} / s.cluster * s.UnitsPerBlock();
      if (s.owner >= 0) {
        EXPECT_EQ(recipe.grid_rows, rows < kLargestBucket ? 0 : rows);
      }
      EXPECT_EQ(recipe.args.size(), static_cast<size_t>(body.num_inputs()) + 1 + 1);
      EXPECT_EQ(recipe.args.back().kind, ArgKind::kSymbolM);
      EXPECT_EQ(recipe.shared_bytes,
                StitchSharedBytes(body, *MakeStitchProgram(body, s.owner, s.handed), s));
      const std::string& source = kernel.request.source;
      EXPECT_THAT(source, HasSubstr(kStitchEntry));
      EXPECT_LT(source.find("wait_for_predecessors();"), source.find("launch_dependents();"))
          << "else three kernels are under way, of which the third reads what the first has cached";
      EXPECT_EQ(Count(source, "cluster_arrive_relaxed();"), s.cluster > 1 ? 1u : 0u);
      EXPECT_EQ(Count(source, "cluster_wait();"), 0u) << "the first reduction waits, not the reads";
    }
  }
}

// Here a mean reads the activated sum first; only cheap differences from it are read later.
TEST(StitchSource, WhatAReductionReadsIsComputedOnceWhenValuesAreKept) {
  const Chain body = testing::FromText("bias_gelu_residual_layernorm rows=M cols=1024 gelu=erf");
  size_t kept = 0;
  for (const RankedStitch& one : RankedOf(body, 8192)) {
    if (!one.schedule.keep_values || one.schedule.owner < 0) continue;
    const std::string source = Generate(SpecOf(body, one.schedule), H200())->request.source;
    EXPECT_EQ(Count(source, "::erf("), 1u) << one.schedule.ToString();
    ++kept;
  }
  EXPECT_GT(kept, 0u);
}

// Vectors beyond the last are read as the last one and dropped where they would be stored; rows
// keep their conditions, of which most stand in one turn.
TEST(StitchSource, ElementsAreReadWithoutConditions) {
  const Chain body = testing::FromText("swiglu rows=M cols=3000");
  for (const RankedStitch& one : RankedOf(body, 512)) {
    const std::string source = Generate(SpecOf(body, one.schedule), H200())->request.source;
    EXPECT_EQ(Count(source, "if (n < count)"), 1u) << one.schedule.ToString();
    EXPECT_EQ(Count(source, "mine < count ? mine : count - "), 1u) << one.schedule.ToString();
  }
}

// Launches of more rows than the largest bucket have more blocks of elements too.
TEST(StitchSource, GridsOfElementsGrow) {
  const Chain body = testing::FromText("swiglu rows=M cols=3000");
  for (const int64_t bucket : {int64_t{512}, kLargestBucket}) {
    for (const RankedStitch& one : RankedOf(body, bucket)) {
      const StitchSchedule& s = one.schedule;
      const int64_t tile = int64_t{s.block_threads} * s.vector * s.chunks / s.split;
      const bool grows = bucket == kLargestBucket && s.grid * tile >= bucket * 3000;
      EXPECT_EQ(Generate(SpecOf(body, s), H200())->recipe.grid_rows,
                grows ? s.grid * tile / 3000 : 0);
    }
  }
}

// Whose rows share a grid with more elements than there can be rows.
TEST(StitchSource, GridsAreMadeForNoMoreRowsThanThereAre) {
  const Chain both = ReadChain("rows: f32[M]; more: f32[1048576,8192]; out exp(rows), exp(more)");
  size_t grown = 0;
  for (const RankedStitch& one : RankedOf(both, 1)) {
    const auto kernel = Got(Generate(SpecOf(both, one.schedule), H200()));
    const absl::Status status = kernel.recipe.Check();
    EXPECT_TRUE(status.ok()) << one.schedule.ToString() << ": " << status;
    grown += kernel.recipe.grid_rows == kMaxExtent ? 1 : 0;
  }
  EXPECT_GT(grown, 0u);
}

TEST(StitchSource, EveryInputIsReadOnceWhenInputsAreKept) {
  const Chain body = testing::FromText("softmax rows=M cols=1024");
  for (const RankedStitch& one : RankedOf(body, 8192)) {
    if (!one.schedule.keep_inputs) continue;
    const std::string source = Generate(SpecOf(body, one.schedule), H200())->request.source;
    EXPECT_EQ(Count(source, "(in0"), 1u) << one.schedule.ToString() << "\n" << source;
  }
}

// Reads behind a condition each would wait for one another: one condition chooses between all that
// a round takes from shared memory and all that it reads.
TEST(StitchSource, WhatIsHeldInPartIsTakenBehindOneCondition) {
  const Chain body = testing::GraphOf("batch_norm_gradient(32, 28, 28, 512)");
  int parts = 0;
  for (const RankedStitch& one : RankedOf(body, 1)) {
    const StitchSchedule& s = one.schedule;
    if (s.hold_bytes == 0 || s.cluster > 1) continue;
    const std::string source = Generate(SpecOf(body, s), H200())->request.source;
    if (Count(source, "} else {") == 0) continue;  // all is held
    ++parts;
    EXPECT_EQ(Count(source, "} else {"), 1u) << s.ToString() << "\n" << source;
    EXPECT_EQ(Count(source, "? take_pack"), 0u) << s.ToString();
    EXPECT_EQ(Count(source, "(in1 + "), 1u) << "the gradient is read back: " << s.ToString();
    EXPECT_EQ(Count(source, "(out0 + "), 2u) << s.ToString();
    EXPECT_EQ(Count(source, " / 28"), 0u) << "pixels lie side by side: " << s.ToString();
  }
  EXPECT_GT(parts, 10);
}

// A compiler moves no read over a condition, and copies what it brought before it leaves it.
// A rotary embedding reads one input at two places, on one side of its concat as on the other:
// threads choose an address. Sides that read different inputs are branches.
TEST(StitchSource, SidesOfAConcatThatReadTheSameInputsAreNoBranches) {
  const Chain rotary = testing::GraphOf("norm_rope(64, 4, 4, 64)");
  int chosen = 0;
  for (const RankedStitch& one : RankedOf(rotary, 1)) {
    const StitchSchedule& s = one.schedule;
    if (s.owner < 0 || s.split > 1 || s.unit_threads < 8 || !s.handed.empty()) continue;
    const std::string source = Generate(SpecOf(rotary, one.schedule), H200())->request.source;
    EXPECT_EQ(Count(source, "} else {"), 0u) << one.schedule.ToString();
    EXPECT_GE(Count(source, " = first"), 2u) << one.schedule.ToString();
    ++chosen;
  }
  EXPECT_GT(chosen, 10);
  // Heads of queries are segments of the units of keys.
  const Chain grouped = testing::GraphOf("norm_rope(64, 4, 2, 64)");
  const std::vector<RankedStitch> ranked = RankedOf(grouped, 1);
  EXPECT_TRUE(std::any_of(ranked.begin(), ranked.end(), [&](const RankedStitch& one) {
    const std::string source = Generate(SpecOf(grouped, one.schedule), H200())->request.source;
    return Count(source, "} else {") == 0 && Count(source, " = first") >= 2;
  }));
  const Chain apart = ReadChain("x, y: f32[64,8]; out concat(x, y, 1)");
  const std::string source =
      Generate(SpecOf(apart, RankedOf(apart, 1).front().schedule), H200())->request.source;
  EXPECT_GT(Count(source, "} else {"), 0u) << source;
}

TEST(StitchSource, NobodyAsksForAnElementThatIsAlwaysThere) {
  const auto guards = [](int64_t elements) {
    const Chain chain = ReadChain("out exp({f32[$0]})", elements);
    std::vector<size_t> counts;
    for (const RankedStitch& one : RankedOf(chain, 1)) {
      const std::string source = Generate(SpecOf(chain, one.schedule), H200())->request.source;
      counts.push_back(Count(source, "if (n < count)"));
    }
    EXPECT_GT(counts.size(), 10u);
    return counts;
  };
  for (size_t count : guards(1 << 15)) EXPECT_EQ(count, 0u);
  for (size_t count : guards((1 << 15) + 8)) EXPECT_EQ(count, 1u) << "to store";
}

TEST(StitchSource, NoGroupAsksForAUnitThatIsAlwaysThere) {
  size_t grouped = 0;
  for (const int64_t rows : {1024, 1023}) {
    const Chain chain = ReadChain("x: f32[$0,128]; out x - spread(sum(x, 1, keep), x)", rows);
    for (const RankedStitch& one : RankedOf(chain, 1)) {
      if (one.schedule.owner < 0) continue;
      const int groups = one.schedule.UnitsPerBlock();
      const std::string source = Generate(SpecOf(chain, one.schedule), H200())->request.source;
      const bool together = one.schedule.unit_threads < 32 || one.schedule.keep_values;
      EXPECT_EQ(Count(source, "live = mine < units"), together && rows % groups != 0 ? 1u : 0u)
          << rows << " rows " << one.schedule.ToString();
      grouped += together && groups > 1;
    }
  }
  EXPECT_GT(grouped, 0u);
}

// The last batch of units is read whole; elements past the last unit of a block are not computed.
TEST(StitchSource, ABatchComputesNothingBehindTheLastUnit) {
  const Chain chain = ReadChain("out sum({f32[25600,256]}, 0, keep)");
  size_t batches = 0;
  for (const RankedStitch& one : RankedOf(chain, 1)) {
    const std::string source = Generate(SpecOf(chain, one.schedule), H200())->request.source;
    const size_t batch = Count(source, "for (int q = 0;") / 2;  // reads, then what is computed
    EXPECT_EQ(Count(source, "if (base + q * "), batch) << one.schedule.ToString();
    batches += batch;
  }
  EXPECT_GT(batches, 0u);
}

// Packed parts share the text of parts whose numbers of elements divide differently.
TEST(StitchSource, PackedPartsAskForEachElement) {
  const Chain body = testing::IndependentUpdates({1 << 15, 1 << 16});
  PackedSearch search(1, H200());
  const std::vector<RankedStitch> packings = search.Of(body);
  ASSERT_FALSE(packings.empty());
  auto stitch = std::make_shared<StitchSpec>(*StitchOf(SpecOf(body, packings.front().schedule)));
  stitch->parts = packings.front().parts;
  KernelSpec spec = SpecOf(body, packings.front().schedule);
  spec.body = MakeBody(std::move(*stitch));
  EXPECT_EQ(Count(Got(Generate(spec, H200())).request.source, "if (n < count)"), 1u);
}

// Column sums that nothing else reads are stored by who joins them: nobody waits for that.
TEST(StitchSource, NobodyWaitsForColumnsThatAreOnlyStored) {
  const Chain chain = ReadChain("x: f32[64,40]; out exp(x), sum(x, 0)");
  int shared_out = 0;
  for (const RankedStitch& one : RankedOf(chain, 1)) {
    if (one.schedule.owner < 0) continue;
    const auto kernel = Got(Generate(SpecOf(chain, one.schedule), H200()));
    EXPECT_TRUE(kernel.recipe.cooperative);
    EXPECT_EQ(Count(kernel.request.source, "grid_barrier(barrier)"), 1u) << one.schedule.ToString();
    shared_out += !one.schedule.join_all;
  }
  EXPECT_GT(shared_out, 0);
}

TEST(StitchSource, PhasesMeetAtTheGridsBarrier) {
  const Chain body = testing::ColumnsThenRows(64, 32);
  const std::vector<RankedStitch> ranked = RankedOf(body, 1);
  ASSERT_FALSE(ranked.empty());
  size_t cooperative = 0;
  for (const RankedStitch& one : ranked) {
    const auto kernel = Got(Generate(SpecOf(body, one.schedule), H200()));
    const size_t phases =
        MakeStitchProgram(body, one.schedule.owner, one.schedule.handed)->phases.size();
    EXPECT_EQ(kernel.recipe.cooperative, phases > 1);
    EXPECT_EQ(Count(kernel.request.source, "grid_barrier(barrier)"),
              (one.schedule.join_all ? 1 : 2) * (phases - 1));
    EXPECT_EQ(kernel.recipe.cluster[0], static_cast<uint32_t>(one.schedule.cluster));
    cooperative += kernel.recipe.cooperative;
  }
  EXPECT_GT(cooperative, 0u);
}

// A product of two bf16 numbers is computed in f32 and has the type bf16. A cast to bf16 rounds it;
// the normal form drops a cast of a value that is already rounded.
TEST(StitchSource, ACastToTheTypeOfWhatIsComputedRounds) {
  const Chain body = ReadChain(
      "product = {bf16[M,64]} * {bf16[M,64]}; rounded = bf16(product); out sum(rounded, 1)");
  for (const RankedStitch& ranked : RankedOf(body, 128)) {
    const std::string source = Generate(SpecOf(body, ranked.schedule), H200())->request.source;
    EXPECT_THAT(source, HasSubstr("rounded<ElementBF16>"));
  }
}

// A tap of row 127 is 2^32 elements after the first one: the image has pads that no memory has.
TEST(StitchSource, PlacesBehind32BitsAreCountedWith64) {
  const Chain body = testing::FromText(
      "depthwise_conv b=1 ic=262144 h=1 w=8 k=128,1 dilation=16,1 pad=1024,1024,0,0 weights=HWIO");
  bool several = false, one = false;
  for (const RankedStitch& ranked : RankedOf(body, 1)) {
    if (ranked.schedule.split > 1) continue;
    const bool windows = ranked.schedule.pixels > 1;
    if (windows ? several : one) continue;
    (windows ? several : one) = true;
    const std::string source = Generate(SpecOf(body, ranked.schedule), H200())->request.source;
    EXPECT_EQ(Count(source, " * 33554432 "), 0u) << source;
    EXPECT_GT(Count(source, " * 33554432ll "), 0u) << source;
  }
  EXPECT_TRUE(several);
  EXPECT_TRUE(one);
}

TEST(StitchSource, RefusesWhatHasNoPlace) {
  const Chain body = testing::FromText("softmax rows=M cols=64");
  const StitchSchedule best = RankedOf(body, 128).front().schedule;
  KernelSpec spec = SpecOf(body, best);
  const auto message = [&](StitchSpec stitch) {
    spec.body = MakeBody(std::move(stitch));
    return std::string(Generate(spec, H200()).status().message());
  };
  StitchSpec stitch = *StitchOf(spec);
  stitch.operands.pop_back();
  EXPECT_EQ(message(stitch), "stitch: 1 operands, the body has 2");
  stitch = *StitchOf(SpecOf(body, best));
  stitch.operands[0].offset_bytes = 8;
  EXPECT_EQ(message(stitch), "stitch: offset 8 is not a multiple of 16");
  stitch = *StitchOf(SpecOf(body, best));
  stitch.schedule.vector = 3;
  EXPECT_THAT(message(stitch), HasSubstr("vector is 3"));
  stitch = *StitchOf(SpecOf(body, best));
  stitch.schedule.owner = 0;
  EXPECT_EQ(message(stitch), "owner 0 is not a reduction");
}

TEST(StitchSource, DamagedSpecsNeverCrashTheGenerator) {
  const Chain body = testing::ColumnsThenRows(16, 8);
  ByteWriter writer;
  WriteStitch(*StitchOf(SpecOf(body, RankedOf(body, 1).front().schedule)), writer);
  const std::string bytes = writer.Take();
  int generated = 0;
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    ByteReader reader(flipped);
    absl::StatusOr<StitchSpec> read = ReadStitch(reader);
    if (!read.ok()) continue;
    generated +=
        Generate({.family = &StitchFamily(), .body = MakeBody(*std::move(read))}, H200()).ok();
  }
  EXPECT_GT(generated, 10);
}

}  // namespace
}  // namespace sinter
