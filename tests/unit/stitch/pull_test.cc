// Positions that are pulled, against what the reference executor reads: operands hold their own
// element numbers.
#include "src/reference/reference.h"
#include "src/stitch/program.h"
#include "src/stitch/sectors.h"
#include "tests/support/read_chain.h"
#include "tests/support/test.h"
#include "tests/unit/stitch/evaluate.h"

namespace sinter {
namespace {

using testing::Evaluate;
using testing::LoopValues;

std::vector<Dim> Dims(const std::vector<int64_t>& extents) {
  std::vector<Dim> dims;
  for (int64_t extent : extents) dims.push_back(extent == 0 ? Dim::M() : Dim::Constant(extent));
  return dims;
}

int64_t Elements(const std::vector<Dim>& dims, int64_t m) {
  int64_t count = 1;
  for (const Dim& dim : dims) count *= dim.At(m);
  return count;
}

constexpr int64_t kRows = 3;  // M

// The output of a chain of one input whose element n is n.
std::vector<double> Numbered(const Chain& chain) {
  std::vector<float> input(static_cast<size_t>(Elements(chain.input_op(0).type.dims, kRows)));
  std::iota(input.begin(), input.end(), 0.0f);
  const auto outputs = RunReferenceF64(chain, kRows, {input.data()});
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  return outputs.ok() ? (*outputs)[0] : std::vector<double>();
}

// Follows every op down to the input; the element's number there.
Index PullToInput(const Chain& chain, const Position& at, IndexSpace& space) {
  Position here = at;
  ValueId id = chain.outputs()[0].value;
  while (chain.op(id).kind != OpKind::kInput) {
    here = PullPosition(chain, chain.op(id), 0, here, space);
    id = chain.op(id).operands[0];
  }
  return LinearIndex(chain.op(id).type.dims, here);
}

// Both ways to walk an output: counted as a whole, and cut into units and elements.
void ExpectPullsWhatTheReferenceReads(const Chain& chain, const std::string& name) {
  const std::vector<double> expected = Numbered(chain);
  const std::vector<Dim>& dims = chain.output_type(0).dims;
  const int64_t count = Elements(dims, kRows);
  ASSERT_EQ(static_cast<int64_t>(expected.size()), count);
  IndexSpace space;
  const IndexVar n = space.AddLoop("n", dims.empty() || !dims[0].symbolic ? count : 0, 2);
  const Index whole = PullToInput(chain, PositionIn(dims, n, space), space);
  for (int64_t i = 0; i < count; ++i) {
    ASSERT_EQ(Evaluate(space, whole, {{n, i}}), static_cast<int64_t>(expected[i]))
        << name << ": element " << i;
  }
  for (int64_t units = 1; units <= count; ++units) {
    StitchProgram program{.units = units, .units_symbolic = !dims.empty() && dims[0].symbolic};
    const absl::StatusOr<UnitCut> cut = CutUnits(program, dims);
    if (!cut.ok()) continue;
    IndexSpace halves;
    const IndexVar u = halves.AddLoop("u", program.units_symbolic ? 0 : units, 1);
    const int64_t all = units * (program.units_symbolic ? kRows : 1);
    ASSERT_EQ(count % all, 0);
    const IndexVar e = halves.AddLoop("i", count / all, 2);
    const Index index = PullToInput(chain, PositionIn(*cut, u, e, halves), halves);
    for (int64_t i = 0; i < count; ++i) {
      const LoopValues at = {{u, i / (count / all)}, {e, i % (count / all)}};
      ASSERT_EQ(Evaluate(halves, index, at), static_cast<int64_t>(expected[i]))
          << name << ": " << units << " units, element " << i;
    }
  }
}

struct Shape {
  ChainBuilder b;
  ValueId at = -1;

  explicit Shape(const std::vector<int64_t>& extents) {
    at = *b.Input({DType::kF32, Dims(extents)});
  }
  Chain Finish() { return Finished(b, {at}); }
};

TEST(PullPosition, Views) {
  for (const char* text : {
           "spread({f32[5]}, [3,5])",
           "spread({f32[1]}, [4])",
           "spread({f32[3,1]}, [3,4])",
           "spread({f32[1,4]}, [3,4])",
           "spread({f32[2,1,3]}, [5,2,4,3])",
           "spread({f32[4]}, [M,4])",
           "spread({f32[M,1]}, [M,6])",
           "spread({f32[1,1]}, [1,7])",
           "transpose({f32[M,2,3]}, 0, 2, 1)",
           "reshape({f32[24]}, [4,6])",
           "reshape({f32[4,6]}, [24])",
           "reshape({f32[4,6]}, [6,4])",
           "reshape({f32[4,6]}, [3,8])",
           "reshape({f32[2,3,4]}, [6,4])",
           "reshape({f32[2,3,4]}, [2,12])",
           "reshape({f32[2,3,4]}, [4,3,2])",
           "reshape({f32[1,6]}, [6,1])",
           "reshape({f32[2,1,6]}, [1,3,4])",
           "reshape({f32[4,1,1]}, [1,4])",
           "reshape({f32[M,6]}, [M,2,3])",
           "reshape({f32[M,2,3]}, [M,6])",
           "reshape({f32[M,4,3]}, [M,3,4])",
           "reshape({f32[M,1]}, [M])",
           "reshape({f32[M]}, [M,1,1])",
           "reshape({f32[1,1]}, [1])",
           "reshape({f32[2,2,2,3]}, [4,6])",
           "reshape({f32[5,4]}, [2,10])",
           "reshape({f32[3,1,5]}, [15])",
           "reshape({f32[M,1,4]}, [M,4,1])",
           "{f32[6,7]}[1:6:2, 2:7:3]",
           "{f32[M,5]}[0:M, 1:4]",
       }) {
    ExpectPullsWhatTheReferenceReads(ReadChain("out $0", text), text);
  }
  for (const char* dims : {"2,3,4", "4,1,3"}) {
    for (const char* axes : {"0, 1, 2", "0, 2, 1", "1, 0, 2", "1, 2, 0", "2, 0, 1", "2, 1, 0"}) {
      ExpectPullsWhatTheReferenceReads(ReadChain("out transpose({f32[$0]}, $1)", dims, axes), axes);
    }
  }
}

TEST(PullPosition, ConcatReadsTheOperandThatAnElementLiesIn) {
  constexpr int64_t kWidths[] = {3, 4, 1}, kWidth = 8;
  for (const int axis : {0, 1}) {
    const Chain chain = ReadChain(axis == 0 ? "out concat({f32[3,2]}, {f32[4,2]}, {f32[1,2]}, 0)"
                                            : "out concat({f32[2,3]}, {f32[2,4]}, {f32[2,1]}, 1)");
    std::vector<std::vector<float>> numbers;  // element i of operand p is 100 p + i
    for (size_t p = 0; p < std::size(kWidths); ++p) {
      numbers.emplace_back(static_cast<size_t>(2 * kWidths[p]));
      std::iota(numbers[p].begin(), numbers[p].end(), 100.0f * static_cast<float>(p));
    }
    const auto outputs =
        Got(RunReferenceF64(chain, 1, {numbers[0].data(), numbers[1].data(), numbers[2].data()}));
    const Op& op = chain.op(chain.outputs()[0].value);
    IndexSpace space;
    const IndexVar n = space.AddLoop("n", 2 * kWidth, 1);
    const Position at = PositionIn(op.type.dims, n, space);
    for (int64_t i = 0; i < 2 * kWidth; ++i) {
      const double expected = outputs[0][static_cast<size_t>(i)];
      const auto part = static_cast<size_t>(expected / 100);
      const Index from = LinearIndex(chain.op(op.operands[part]).type.dims,
                                     PullPosition(chain, op, part, at, space));
      EXPECT_EQ(Evaluate(space, from, {{n, i}}) + 100 * static_cast<int64_t>(part),
                static_cast<int64_t>(expected))
          << "axis " << axis << ", element " << i;
    }
  }
}

TEST(PullPosition, ElementwiseReadsItsOwnElementAndScalarsNone) {
  const Chain chain = ReadChain("x: f32[3,4]; out abs(x) + 0");
  ExpectPullsWhatTheReferenceReads(chain, "abs and a scalar");
  IndexSpace space;
  const Position at = space.Box(space.AddLoop("n", 12, 1), {3, 4});
  const Op& add = chain.op(chain.outputs()[0].value);
  EXPECT_EQ(PullPosition(chain, add, 0, at, space), at);
  EXPECT_TRUE(PullPosition(chain, add, 1, at, space).empty());
}

// One random op that only moves elements.
void Move(Shape* s, std::mt19937* random) {
  const std::vector<Dim> dims = s->b.TypeOf(s->at).dims;
  const size_t rank = dims.size();
  switch ((*random)() % 4) {
    case 0: {
      std::vector<int32_t> permutation(rank);
      std::iota(permutation.begin(), permutation.end(), 0);
      std::shuffle(permutation.begin(), permutation.end(), *random);
      s->at = *s->b.Transpose(s->at, permutation);
      return;
    }
    case 1: {
      std::vector<int64_t> starts, steps;
      std::vector<Dim> limits;
      for (const Dim& dim : dims) {
        steps.push_back(1 + static_cast<int64_t>((*random)() % 2));
        starts.push_back(dim.value > 2 ? static_cast<int64_t>((*random)() % 2) : 0);
        limits.push_back(dim);
      }
      s->at = *s->b.Slice(s->at, starts, limits, steps);
      return;
    }
    case 2: {
      std::vector<Dim> wide = dims;
      if (rank < 4 && Elements(dims, 1) < 200) {
        wide.insert(wide.begin(), Dim::Constant(1 + static_cast<int64_t>((*random)() % 3)));
      }
      s->at = *s->b.Broadcast(s->at, wide);
      return;
    }
    default: {
      std::vector<Dim> split;
      int64_t left = Elements(dims, 1);
      for (int64_t factor : {2, 3, 5, 2}) {
        if (left % factor != 0 || (*random)() % 2 == 0) continue;
        split.push_back(Dim::Constant(factor));
        left /= factor;
      }
      split.insert(split.begin() + static_cast<std::ptrdiff_t>((*random)() % (split.size() + 1)),
                   Dim::Constant(left));
      s->at = *s->b.Reshape(s->at, split);
      return;
    }
  }
}

TEST(PullPosition, AnySequenceOfMoves) {
  const std::vector<std::vector<int64_t>> starts = {
      {4, 6}, {2, 3, 4}, {30}, {5, 2, 6}, {2, 2, 2, 3}};
  for (uint32_t seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    Shape s(starts[seed % starts.size()]);
    for (uint32_t i = 0; i < 2 + seed % 6; ++i) Move(&s, &random);
    ExpectPullsWhatTheReferenceReads(s.Finish(), "seed " + std::to_string(seed));
    if (::testing::Test::HasFatalFailure()) return;
  }
}

// x[6, 4] by ids of [3, 5]: a row for each id, and from it the column of the element.
// Rows [3, 5, 4] over x[6, 4]: the row's id, the row itself, and of x any element.
TEST(PullPosition, OfAScatterIsThatOfItsRows) {
  const Chain chain =
      ReadChain("x: f32[6,4]; ids: s64[3,5]; rows: f32[3,5,4]; out scatter(x, ids, rows)");
  const Op& op = chain.op(chain.outputs()[0].value);
  IndexSpace space;
  const Position at = space.Box(space.AddLoop("i", 60, 0), {3, 5, 4});
  EXPECT_EQ(PullPosition(chain, op, 1, at, space), Position(at.begin(), at.begin() + 2));
  EXPECT_EQ(PullPosition(chain, op, 2, at, space), at);
  EXPECT_EQ(space.var(ReadOfIds(chain, op, at, space)).extent, 6);
}

// Outside of the image it is the nearest pixel; where no tap lies outside it is the place itself.
TEST(PullPosition, OfAWindowIsTheNearestPixel) {
  for (const int64_t pad : {0, 2}) {
    const Chain chain = ReadChain(
        "x: f32[2,5,6,3]; out window(x, 0, taps=[3,2], strides=[2,1], pads=[$0,$0,$0,$0])", pad);
    const Op& op = chain.op(chain.outputs()[0].value);
    int64_t elements = 1;
    for (const Dim& dim : op.type.dims) elements *= dim.value;
    IndexSpace space;
    const IndexVar n = space.AddLoop("n", elements, 2);
    const Position at = PositionIn(op.type.dims, n, space);
    const Position from = PullPosition(chain, op, 0, at, space);
    EXPECT_EQ(from[1] == PixelOf(op, at).row, pad == 0);
    for (int64_t i = 0; i < elements; ++i) {
      const testing::LoopValues loops = {{n, i}};
      const auto value = [&](const Index& index) { return testing::Evaluate(space, index, loops); };
      const int64_t row = 2 * value(at[1]) + value(at[3]) - pad;
      const int64_t column = value(at[2]) + value(at[4]) - pad;
      EXPECT_EQ(value(from[0]), value(at[0]));
      EXPECT_EQ(value(from[1]), std::clamp<int64_t>(row, 0, 4)) << i;
      EXPECT_EQ(value(from[2]), std::clamp<int64_t>(column, 0, 5)) << i;
      EXPECT_EQ(value(from[3]), value(at[5]));
    }
  }
}

TEST(PullPosition, OfAGatherIsAnIndexThatIsRead) {
  const Chain chain = ReadChain("x: f32[6,4]; ids: s64[3,5]; out gather(x, ids)");
  const ValueId id = chain.outputs()[0].value;
  const Op& op = chain.op(id);
  IndexSpace space;
  const IndexVar n = space.AddLoop("n", 60, 2);
  const Position at = PositionIn(op.type.dims, n, space);
  const Index of_ids =
      LinearIndex(chain.op(op.operands[1]).type.dims, PullPosition(chain, op, 1, at, space));
  const IndexVar read = ReadOfIds(chain, op, at, space);
  EXPECT_EQ(ReadOfIds(chain, op, at, space), read) << "one variable for one place";
  const Position from = PullPosition(chain, op, 0, at, space);
  EXPECT_EQ(space.ReadsIn(from), std::vector<IndexVar>{read});
  EXPECT_TRUE(space.ReadsIn(at).empty());
  EXPECT_TRUE(space.MovesWith(from[0], n));
  EXPECT_EQ(space.Depth(from[0]), 2);
  const Index linear = LinearIndex(chain.op(op.operands[0]).type.dims, from);
  for (int64_t i = 0; i < 60; ++i) {
    EXPECT_EQ(testing::Evaluate(space, of_ids, {{n, i}}), i / 4);
    EXPECT_EQ(testing::Evaluate(space, linear, {{n, i}, {read, 3}}), 3 * 4 + i % 4);
  }
  // One row, whose columns are neighbours, for vectors that lie in a row.
  EXPECT_EQ(AlongVector(space, space.Canonical(linear), n, 4), Along::kNext);
  EXPECT_EQ(AlongVector(space, space.Canonical(linear), n, 8), Along::kScattered);
  EXPECT_GT(AccessesOfVector(space, space.Canonical(Index::Of(read)), n, 8), 1);
  // An index computed from a read is as deep as the read's name.
  const Index half = space.Quotient(Index::Of(read), 2);
  const Index nearest = space.Nearest(Index::Of(read).Plus(-1), 2);
  space.NameRead(read, "r", 5);
  EXPECT_EQ(space.Depth(half), 5);
  EXPECT_EQ(space.Depth(nearest), 5);
}

TEST(PullReduced, CountsTheReducedAxes) {
  for (const char* axes : {"0", "1", "2", "0, 1", "1, 2", "0, 2", "2, 0", "0, 1, 2"}) {
    for (const char* keep : {"", ", keep"}) {
      const Chain chain = ReadChain("out sum({f32[2,3,4]}, $0$1)", axes, keep);
      const std::vector<double> expected = Numbered(chain);
      const Op& op = chain.op(chain.outputs()[0].value);
      IndexSpace space;
      const IndexVar n = space.AddLoop("n", static_cast<int64_t>(expected.size()), 2);
      const int64_t count = ReducedElements(chain, op);
      ASSERT_EQ(count * static_cast<int64_t>(expected.size()), 24);
      const IndexVar k = space.AddLoop("k", count, 3);
      const Index from =
          LinearIndex(chain.op(op.operands[0]).type.dims,
                      PullReduced(chain, op, 0, PositionIn(op.type.dims, n, space), k, space));
      for (size_t i = 0; i < expected.size(); ++i) {
        int64_t sum = 0;
        for (int64_t j = 0; j < count; ++j) {
          sum += Evaluate(space, from, {{n, static_cast<int64_t>(i)}, {k, j}});
        }
        EXPECT_EQ(sum, static_cast<int64_t>(expected[i]));
      }
    }
  }
}

}  // namespace
}  // namespace sinter
