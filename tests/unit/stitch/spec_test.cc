// Specs as bytes, which come from caches: round trips, truncations, flipped bits.
#include "src/stitch/spec.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "src/stitch/program.h"
#include "tests/support/random_stitch_graph.h"
#include "tests/unit/stitch/bodies.h"

namespace sinter {
namespace {

StitchSpec SpecOf(const Chain& body, ValueId owner) {
  StitchSpec spec;
  spec.body = body;
  spec.schedule.owner = owner;
  for (int i = 0; i < body.num_inputs(); ++i) spec.operands.push_back({i, 0});
  for (int i = 0; i < body.num_outputs(); ++i) {
    spec.operands.push_back({-1, static_cast<uint64_t>(i) * 4096});
  }
  spec.scratch_offset = 1 << 16;
  return spec;
}

std::string Bytes(const StitchSpec& spec) {
  ByteWriter writer;
  WriteStitch(spec, writer);
  return writer.Take();
}

absl::StatusOr<StitchSpec> Read(const std::string& bytes) {
  ByteReader reader(bytes);
  return ReadStitch(reader);
}

TEST(StitchSpec, ReadsBackWhatItWrites) {
  int read = 0;
  for (uint64_t seed = 1; seed <= testing::kRandomStitchGraphs; ++seed) {
    const Chain body = testing::MakeRandomStitchGraph(seed);
    for (ValueId owner : OwnerCandidates(body)) {
      if (!MakeStitchProgram(body, owner).ok()) continue;
      const StitchSpec spec = SpecOf(body, owner);
      const absl::StatusOr<StitchSpec> again = Read(Bytes(spec));
      ASSERT_TRUE(again.ok()) << again.status();
      EXPECT_TRUE(*again == spec) << seed;
      EXPECT_EQ(Bytes(*again), Bytes(spec));
      ++read;
    }
  }
  EXPECT_GT(read, 150);
}

// The least body that has inputs with strides, a row, a column and two outputs.
StitchSpec Small() {
  testing::Body body;
  const ValueId x = body.In({8, 4});
  const ValueId y = body.Sub(body.Reduce(x, {0}), x);
  const Chain chain = body.Finish({body.Sub(body.Reduce(y, {1}), y), body.Exp(y)});
  return SpecOf(chain, OwnerCandidates(chain)[1]);
}

TEST(StitchSpec, EveryTruncationIsDataLoss) {
  const std::string bytes = Bytes(Small());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(Read(bytes.substr(0, size)).status().code(), absl::StatusCode::kDataLoss) << size;
  }
}

TEST(StitchSpec, FlippedBitsAreRefusedOrMeanWhatTheySay) {
  const std::string bytes = Bytes(Small());
  int refused = 0;
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    const absl::StatusOr<StitchSpec> read = Read(flipped);
    refused += !read.ok();
    if (!read.ok()) {
      EXPECT_EQ(read.status().code(), absl::StatusCode::kDataLoss) << read.status();
      continue;
    }
    EXPECT_TRUE(CheckStitchFields(read->schedule).ok());
    EXPECT_TRUE(MakeStitchProgram(read->body, read->schedule.owner).ok());
    EXPECT_TRUE(StitchScratchBytes(read->body, read->schedule).ok());
  }
  EXPECT_GT(refused, static_cast<int>(bytes.size()));
}

TEST(StitchSpec, NamesWhatIsWrong) {
  const auto message = [](const StitchSpec& spec) {
    return std::string(Read(Bytes(spec)).status().message());
  };
  StitchSpec spec = Small();
  spec.operands.pop_back();
  EXPECT_EQ(message(spec), "stitch spec: 2 operands, the body has 3");
  spec = Small();
  spec.operands[0].buffer = 4000;
  EXPECT_EQ(message(spec), "stitch spec: buffer 4000 is not in -1..1023");
  spec = Small();
  spec.operands[1].offset_bytes = uint64_t{1} << 60;
  EXPECT_NE(message(spec).find("stitch spec: offset"), std::string::npos);
  spec = Small();
  spec.schedule.owner = 0;
  EXPECT_EQ(message(spec), "stitch spec: owner 0 is not a reduction");
  spec = Small();
  spec.schedule.vector = 5;
  EXPECT_EQ(message(spec), "stitch schedule: vector is 5, must be a power of two up to 16");
}

}  // namespace
}  // namespace sinter
