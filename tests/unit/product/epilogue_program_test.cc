// Programs of epilogues: what the matcher makes of element-wise ops, where programs are cut, what
// is refused, and their bytes.
#include "src/product/matcher.h"
#include "src/product/schedule_check.h"
#include "tests/support/epilogue_chains.h"
#include "tests/support/epilogue_forms.h"
#include "tests/support/read_chain.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

constexpr testing::EpilogueTypes kTypes = {DType::kBF16, DType::kBF16, DType::kBF16};

std::string TextOf(const Chain& chain) {
  const auto matched = MatchProducts(chain, 32);
  if (!matched.ok()) return std::string(matched.status().message());
  const EpilogueProgram& program = matched->sequence.front().epilogue.program;
  return program.written() ? ToString(program) : "none";
}

std::string TextOf(const std::vector<testing::EpilogueChain>& list, const std::string& name) {
  for (const testing::EpilogueChain& c : list) {
    if (c.name == name) return TextOf(c.chain);
  }
  return "no such chain";
}

// A program of y, and of what `make` reads besides.
template <typename Make>
EpilogueProgram Made(const std::vector<LeafKind>& leaves, DType matrix, const Make& make,
                     DType result = DType::kBF16) {
  ChainBuilder b;
  std::vector<ValueId> in;
  for (const LeafKind kind : leaves) {
    const DType dtype = kind == LeafKind::kMatrix ? matrix : DType::kF32;
    in.push_back(*b.Input({dtype, {Dim::Constant(2)}}));
  }
  Chain body = Finished(b, {*b.Cast(make(b, in), result)});
  std::vector<LeafKind> kinds;
  for (const int32_t input : body.InputOrder()) {
    kinds.push_back(leaves[static_cast<size_t>(input)]);
  }
  return ProgramOf(std::make_shared<const Chain>(std::move(body)), std::move(kinds));
}

using In = const std::vector<ValueId>&;

TEST(EpilogueProgram, IsWhatStandsBehindScalesAndBiases) {
  const auto list = testing::ProductEpilogues(kTypes);
  EXPECT_EQ(TextOf(list, "tanh"), "tanh(y)");
  EXPECT_EQ(TextOf(list, "relu6"), "min(max(y,0),6)");
  EXPECT_EQ(TextOf(list, "silu_behind_a_rounding"), "t1=to_bf16(y);mul(t1,sigmoid(t1))");
  EXPECT_EQ(TextOf(list, "shifted_behind_an_activation"), "add(mul(relu(y),c1),c2)");
  EXPECT_EQ(TextOf(list, "times_a_matrix"), "mul(sigmoid(y),r)");
}

TEST(EpilogueProgram, ReadsNumbersInMemory) {
  const auto list = testing::ProductEpilogues(kTypes);
  EXPECT_EQ(TextOf(list, "scaled_by_numbers_behind_an_activation"),
            "add(mul(mul(tanh(y),n1),c1),n2)");
}

// Each product of a kernel has its program, vectors and biases of its own types.
TEST(EpilogueProgram, StandBehindEachOfTwoProducts) {
  for (const testing::EpilogueChain& c :
       testing::FusedEpilogues({DType::kBF16, DType::kF32, DType::kBF16})) {
    const auto matched = Got(MatchProducts(c.chain, 32), c.name);
    ASSERT_EQ(matched.size(), 2) << c.name;
    EXPECT_TRUE(CanPair(matched.sequence, 0)) << c.name;
    EXPECT_TRUE(CheckSequence(matched.sequence).ok()) << c.name;
    if (c.name != "vectors_of_both") continue;
    for (const int i : {0, 1}) {
      EXPECT_GE(matched.NumberOf(i, Role::kLeaf), 0);
      EXPECT_GE(matched.NumberOf(i, Role::kFactor), 0);
    }
    EXPECT_EQ(ToString(matched.sequence[0].epilogue.program), "mul(mul(relu(y),c1),s)");
    EXPECT_EQ(ToString(matched.sequence[1].epilogue.program), "add(mul(mul(tanh(y),c1),s),r)");
  }
}

TEST(EpilogueProgram, OfAPairReadsBothHalves) {
  const auto list = testing::PairEpilogues(kTypes);
  EXPECT_EQ(TextOf(list, "quick_gelu"), "mul(mul(y,sigmoid(mul(y,1.702))),up)");
  EXPECT_EQ(TextOf(list, "columns"), "mul(mul(tanh(y),c1),up)");
}

// The results that a chain outputs in addition to its result. The program's results are y, tanh(y)
// and, if there is a third, tanh(y) plus a matrix.
EpilogueProgram Aux(DType first, DType second, bool of_matrix = false, int more = 0) {
  ChainBuilder b;
  const ValueId y = *b.Input({DType::kF32, {Dim::Constant(2)}});
  ValueId t = *b.Unary(UnaryKind::kTanh, y);
  std::vector<LeafKind> leaves = {LeafKind::kValue};
  if (of_matrix) {
    const ValueId r = *b.Input({DType::kBF16, {Dim::Constant(2)}});
    leaves.push_back(LeafKind::kMatrix);
    t = *b.Binary(BinaryKind::kAdd, t, *b.Cast(r, DType::kF32));
  }
  EXPECT_TRUE(b.Output(*b.Cast(y, first)).ok());
  EXPECT_TRUE(b.Output(*b.Cast(t, second)).ok());
  for (int i = 0; i < more; ++i) {
    EXPECT_TRUE(
        b.Output(*b.Cast(*b.Unary(UnaryKind::kNeg, t = *b.Unary(UnaryKind::kAbs, t)), second))
            .ok());
  }
  Chain body = *b.Finish();
  std::vector<LeafKind> kinds;
  for (const int32_t input : body.InputOrder()) {
    kinds.push_back(leaves[static_cast<size_t>(input)]);
  }
  return ProgramOf(std::make_shared<const Chain>(std::move(body)), std::move(kinds));
}

TEST(EpilogueProgram, MayHaveAuxiliaryResults) {
  const EpilogueProgram program = Aux(DType::kBF16, DType::kBF16);
  EXPECT_TRUE(program.written());
  EXPECT_EQ(program.aux_results(), 1);
  EXPECT_EQ(ToString(program), "y;aux=tanh(y)");
  EXPECT_TRUE(CheckProgram(program, DType::kBF16, false).ok());
  EXPECT_TRUE(CheckProgram(Aux(DType::kBF16, DType::kBF16, false, 1), DType::kBF16, false).ok());
  ByteWriter w;
  WriteProgram(program, w);
  const std::string bytes = w.Take();
  ByteReader r(bytes);
  const EpilogueProgram read = Got(ReadProgram(r));
  EXPECT_TRUE(read == program);
}

// A kernel computes all of these at once: they read a matrix, or have several results.
TEST(EpilogueProgram, IsWholeWhereItReadsAMatrixOrHasSeveralResults) {
  const auto sum = [](DType matrix, DType result) {
    return Made(
        {LeafKind::kValue, LeafKind::kMatrix}, matrix,
        [](ChainBuilder& b, In in) {
          const ValueId wide = *b.Cast(in[1], DType::kF32);
          return *b.Unary(UnaryKind::kTanh, *b.Binary(BinaryKind::kAdd, in[0], wide));
        },
        result);
  };
  EXPECT_FALSE(ProgramOf(EpilogueForm{Activation::kRelu}, DType::kBF16).whole());
  for (const DType matrix : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const DType result : {DType::kF32, DType::kF16, DType::kBF16}) {
      const EpilogueProgram program = sum(matrix, result);
      EXPECT_TRUE(program.whole());
      EXPECT_TRUE(program.written());
      EXPECT_TRUE(CheckProgram(program, result, false).ok());
      EXPECT_EQ(program.MatrixType(), matrix);
    }
  }
  EXPECT_TRUE(Aux(DType::kBF16, DType::kBF16).whole());
  EXPECT_TRUE(Aux(DType::kBF16, DType::kF32).whole());
  EXPECT_TRUE(Aux(DType::kBF16, DType::kBF16, true).whole());
  EXPECT_EQ(Aux(DType::kBF16, DType::kF32).AuxType(0), DType::kF32);
  EXPECT_TRUE(CheckProgram(Aux(DType::kBF16, DType::kF32, true), DType::kBF16, false).ok());
}

// A sum with a matrix of f32 has no form: forms have matrices of the result's 16 bits.
TEST(EpilogueProgram, OfASumWithAMatrixOfF32IsWritten) {
  const auto sum = [](DType matrix, DType result) {
    return Made(
        {LeafKind::kValue, LeafKind::kMatrix}, matrix,
        [](ChainBuilder& b, In in) {
          return *b.Binary(BinaryKind::kAdd, in[0], *b.Cast(in[1], DType::kF32));
        },
        result);
  };
  EXPECT_TRUE(sum(DType::kBF16, DType::kBF16).form.has_value());
  for (const DType result : {DType::kF32, DType::kBF16}) {
    const EpilogueProgram program = sum(DType::kF32, result);
    EXPECT_TRUE(program.whole());
    EXPECT_FALSE(program.form.has_value());
    EXPECT_EQ(CheckProgram(program, DType::kE4M3, false).message(),
              "program reads a matrix, the result is e4m3: only one of f32, f16 or bf16 has one");
  }
}

TEST(EpilogueProgram, RefusesAuxiliaryResultsByName) {
  const auto why = [](const EpilogueProgram& program, DType result) {
    return std::string(CheckProgram(program, result, false).message());
  };
  EXPECT_EQ(why(Aux(DType::kF32, DType::kBF16), DType::kBF16),
            "program gives f32, the result is bf16");
  EXPECT_EQ(why(Aux(DType::kBF16, DType::kBF16, false, 2), DType::kBF16),
            "program has 4 results, must have 1 to 3");
  EXPECT_EQ(why(Aux(DType::kF32, DType::kF32), DType::kE4M3),
            "program has 2 results, must have 1 of e4m3");
}

TEST(EpilogueProgram, IsNotWrittenWhereTheDeviceLibraryHasAForm) {
  EXPECT_EQ(TextOf(ReadChain("x: bf16[M,64]; w: bf16[96,64]; y = relu(x @ w.T); out bf16(y)")),
            "none");
}

std::vector<EpilogueForm> AllForms() {
  std::vector<EpilogueForm> forms;
  for (const Activation activation : kActivations) {
    for (const bool gate : {false, true}) {
      forms.push_back({activation, gate});
      for (const bool rounds : {false, true}) {
        for (const Activation sum : kActivations) {
          forms.push_back({activation, gate, rounds, true, sum});
        }
      }
    }
  }
  return forms;
}

// The form of a program follows only from its ops, and its bytes lead back to it.
TEST(EpilogueForm, FollowsFromTheProgramThatItIsSpelledAs) {
  for (const DType result : {DType::kBF16, DType::kF16, DType::kF32}) {
    for (const EpilogueForm& form : AllForms()) {
      if (result == DType::kF32 && form.residual) continue;  // a form's has 16 bits
      const EpilogueProgram program = ProgramOf(form, result);
      if (form == EpilogueForm{}) {
        EXPECT_FALSE(program.present());
        continue;
      }
      SCOPED_TRACE(ToString(program));
      const EpilogueProgram again = ProgramOf(program.body, program.leaves);
      ASSERT_TRUE(again.form.has_value());
      EXPECT_TRUE(*again.form == form);
      const bool pair = form.gate;
      EXPECT_TRUE(CheckProgram(program, result, pair).ok());
      ByteWriter w;
      WriteProgram(program, w);
      const std::string bytes = w.Take();
      ByteReader r(bytes);
      const EpilogueProgram read = Got(ReadProgram(r));
      EXPECT_TRUE(read == program);
      EXPECT_TRUE(read.form == form);
    }
  }
}

// The sides of additions and multiplications may be swapped, and a value that is widened twice is
// the same.
TEST(EpilogueForm, IsTheSameInEverySpelling) {
  const auto spelled = Made(
      {LeafKind::kMatrix, LeafKind::kUp, LeafKind::kValue}, DType::kF16,
      [](ChainBuilder& b, In in) {
        const ValueId y = *b.Binary(BinaryKind::kMul, in[1], *AddSilu(b, in[2]));
        const ValueId wide = *b.Cast(*b.Cast(y, DType::kF16), DType::kF32);
        const ValueId matrix = *b.Cast(*b.Cast(in[0], DType::kF32), DType::kF32);
        return *b.Unary(UnaryKind::kRelu, *b.Binary(BinaryKind::kAdd, matrix, wide));
      },
      DType::kF16);
  const EpilogueForm form = {Activation::kSilu, true, true, true, Activation::kRelu};
  ASSERT_TRUE(spelled.form.has_value()) << ToString(spelled);
  EXPECT_TRUE(*spelled.form == form);
}

// scale * factor * y + bias, or less, in any order of the two multiplications.
TEST(AffinePart, IsWhatAProgramBeginsWith) {
  const auto program =
      Made({LeafKind::kColumn, LeafKind::kRow, LeafKind::kValue}, DType::kBF16,
           [](ChainBuilder& b, In in) {
             const ValueId scaled = *b.Binary(BinaryKind::kMul, *b.Scalar(0.5), in[2]);
             const ValueId y = *b.Binary(BinaryKind::kMul, scaled, in[1]);
             return *b.Unary(UnaryKind::kTanh, *b.Binary(BinaryKind::kAdd, in[0], y));
           });
  EXPECT_EQ(ToString(program), "tanh(y)");
  EXPECT_EQ(program.affine.scale, 0.5f);
  EXPECT_EQ(program.TypeAt(program.affine.factor), DType::kF32);
  EXPECT_EQ(program.TypeAt(program.affine.bias), DType::kF32);
  const auto tanh = Made({LeafKind::kValue}, DType::kBF16,
                         [](ChainBuilder& b, In in) { return *b.Unary(UnaryKind::kTanh, in[0]); });
  EXPECT_EQ(CostOfProgram(program).issue, CostOfProgram(tanh).issue);
  EXPECT_EQ(ScratchRegisters(program), 0);
}

TEST(AffinePart, EndsAtAValueThatIsReadTwice) {
  const auto twice =
      Made({LeafKind::kValue, LeafKind::kColumn}, DType::kBF16, [](ChainBuilder& b, In in) {
        const ValueId biased = *b.Binary(BinaryKind::kAdd, in[0], in[1]);
        return *b.Binary(BinaryKind::kMax, biased, in[0]);
      });
  EXPECT_EQ(ToString(twice), "max(add(y,c1),y)");
  const auto of_leaf =
      Made({LeafKind::kValue, LeafKind::kColumn}, DType::kBF16, [](ChainBuilder& b, In in) {
        return *b.Binary(BinaryKind::kMul, *b.Binary(BinaryKind::kAdd, in[0], in[1]), in[1]);
      });
  EXPECT_EQ(ToString(of_leaf), "mul(add(y,c1),c1)");
}

// Kernels have one number of a row: a factor, or what the program reads.
TEST(AffinePart, IsNoneBesideANumberOfTheRowThatSomethingElseReads) {
  const auto program =
      Made({LeafKind::kValue, LeafKind::kRow}, DType::kBF16, [](ChainBuilder& b, In in) {
        const ValueId y = *b.Binary(BinaryKind::kMul, in[0], *b.Scalar(2));
        return *b.Binary(BinaryKind::kAdd, y, in[1]);
      });
  EXPECT_EQ(ToString(program), "add(mul(y,2),s)");
  EXPECT_EQ(program.affine.scale, 1);
}

// Halves that differ are computed apart.
TEST(AffinePart, OfAPairIsThatOfBothHalves) {
  const auto pair = [](bool both) {
    return Made({LeafKind::kValue, LeafKind::kUp, LeafKind::kColumn, LeafKind::kColumn},
                DType::kBF16, [=](ChainBuilder& b, In in) {
                  const ValueId gate = *b.Binary(BinaryKind::kAdd, in[0], in[2]);
                  const ValueId up = both ? *b.Binary(BinaryKind::kAdd, in[1], in[3])
                                          : *b.Binary(BinaryKind::kMul, in[1], in[3]);
                  return *b.Binary(BinaryKind::kMul, *b.Unary(UnaryKind::kTanh, gate), up);
                });
  };
  EXPECT_EQ(ToString(pair(true)), "mul(tanh(y),up)");
  EXPECT_GE(pair(true).affine.bias_up, 0);
  EXPECT_EQ(ToString(pair(false)), "mul(tanh(add(y,c1)),mul(up,c2))");
}

TEST(EpilogueForm, IsNoneOfWhatDiffersByAnOpOrALeaf) {
  const auto value = [](LeafKind other, const auto& make) {
    return Made({LeafKind::kValue, other}, DType::kBF16, make).form.has_value();
  };
  const auto sum = [](ChainBuilder& b, In in) { return *b.Binary(BinaryKind::kAdd, in[0], in[1]); };
  EXPECT_TRUE(value(LeafKind::kMatrix, sum));
  EXPECT_TRUE(value(LeafKind::kColumn, sum));
  EXPECT_FALSE(value(LeafKind::kNumber, sum));
  EXPECT_FALSE(value(LeafKind::kUp, sum));
  EXPECT_FALSE(value(LeafKind::kMatrix, [](ChainBuilder& b, In in) {  // rounded to another type
    const ValueId narrow = *b.Cast(*b.Cast(in[0], DType::kF16), DType::kF32);
    return *b.Binary(BinaryKind::kAdd, narrow, in[1]);
  }));
  EXPECT_FALSE(value(LeafKind::kUp, [](ChainBuilder& b, In in) {  // up is activated too
    return *b.Unary(UnaryKind::kRelu, *b.Binary(BinaryKind::kMul, in[0], in[1]));
  }));
  EXPECT_FALSE(value(LeafKind::kUp, [](ChainBuilder& b, In in) {  // the gate is up's
    return *b.Binary(BinaryKind::kMul, in[0], *AddSilu(b, in[1]));
  }));
  EXPECT_FALSE(value(LeafKind::kMatrix, [](ChainBuilder& b, In in) {  // added twice
    const ValueId once = *b.Binary(BinaryKind::kAdd, in[0], in[1]);
    return *b.Binary(BinaryKind::kAdd, once, in[1]);
  }));
}

// Values that are read once are made where they are read; those that are read again stay.
TEST(EpilogueProgram, NeedsRegistersForValuesThatAreLiveAtOnce) {
  const auto values = [](int count, bool again) {
    return Made({LeafKind::kValue}, DType::kBF16, [=](ChainBuilder& b, In in) {
      std::vector<ValueId> values;
      for (int i = 0; i < count; ++i) {
        values.push_back(*b.Binary(BinaryKind::kMul, in[0], *b.Scalar(i + 2, DType::kF32)));
      }
      ValueId sum = in[0];
      for (const ValueId value : values) sum = *b.Binary(BinaryKind::kMax, sum, value);
      for (const ValueId value : again ? values : std::vector<ValueId>()) {
        sum = *b.Binary(BinaryKind::kMin, sum, value);
      }
      return sum;
    });
  };
  EXPECT_EQ(ScratchRegisters(values(16, false)), 0);
  EXPECT_EQ(ScratchRegisters(values(4, true)), 0);
  EXPECT_EQ(ScratchRegisters(values(16, true)), 2 * (17 - 6));
}

TEST(EpilogueProgram, RefusalsNameWhatIsWrong) {
  const auto tanh = [](ChainBuilder& b, In in) { return *b.Unary(UnaryKind::kTanh, in[0]); };
  const struct {
    EpilogueProgram program;
    DType result;
    bool pair;
    const char* want;
  } kCases[] = {
      {{}, DType::kBF16, true, "program is missing, the product is a pair"},
      {Made({LeafKind::kValue}, DType::kBF16, tanh), DType::kF16, false,
       "program gives bf16, the result is f16"},
      {Made({LeafKind::kValue}, DType::kBF16, tanh), DType::kBF16, true,
       "program reads 0 leaves of kind 1, must be 1 to 1"},
      {Made({LeafKind::kValue, LeafKind::kMatrix}, DType::kPred,
            [](ChainBuilder& b, In in) {
              return *b.Binary(BinaryKind::kAdd, in[0], *b.Cast(in[1], DType::kF32));
            }),
       DType::kBF16, false, "program reads a matrix of pred, must be f32, f16 or bf16"},
      {Made({LeafKind::kValue}, DType::kBF16,
            [](ChainBuilder& b, In in) { return *b.Unary(UnaryKind::kSin, in[0]); }),
       DType::kBF16, false, "program has op 1 (sin, f32[2]), which no epilogue computes"},
      {Made({LeafKind::kValue}, DType::kBF16,
            [](ChainBuilder& b, In in) { return *b.Binary(BinaryKind::kPow, in[0], in[0]); }),
       DType::kBF16, false, "program has 8 branches for each value, at most 6"},
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(CheckProgram(c.program, c.result, c.pair).message(), c.want);
  }
}

TEST(EpilogueProgram, ReadsBackFromItsBytes) {
  for (const auto& list : {testing::ProductEpilogues(kTypes), testing::PairEpilogues(kTypes)}) {
    for (const testing::EpilogueChain& c : list) {
      SCOPED_TRACE(c.name);
      const auto matched = Got(MatchProducts(c.chain, 32));
      const std::string bytes = matched.sequence.Canonical();
      auto read = Got(ProductSequence::FromCanonical(bytes));
      read.m = matched.sequence.m;
      EXPECT_TRUE(read == matched.sequence);
      for (size_t i = 0; i < bytes.size(); ++i) {
        EXPECT_FALSE(ProductSequence::FromCanonical(bytes.substr(0, i)).ok()) << i;
      }
    }
  }
}

TEST(EpilogueProgram, IsForCodesOfF32ResultsAlone) {
  testing::EpilogueTypes types = kTypes;
  types.result = DType::kF32;
  for (const bool f32 : {false, true}) {
    const auto list = testing::PairEpilogues(f32 ? types : kTypes);
    ProductSequence sequence = MatchProducts(list.front().chain, 32)->sequence;
    const std::string before = sequence.Canonical();
    sequence[0].epilogue.program.for_codes = true;
    EXPECT_NE(sequence.Canonical(), before);
    auto read = ProductSequence::FromCanonical(sequence.Canonical());
    ASSERT_EQ(read.ok(), f32) << read.status();
    if (f32) {
      read->m = sequence.m;
      EXPECT_TRUE(*read == sequence);
    } else {
      EXPECT_TRUE(Says(read, "program is for codes of an f32 result, the result is bf16"));
    }
  }
}

TEST(EpilogueProgram, CostsWhatItsOpsCost) {
  const auto tanh = Made({LeafKind::kValue}, DType::kBF16,
                         [](ChainBuilder& b, In in) { return *b.Unary(UnaryKind::kTanh, in[0]); });
  const auto root = Made({LeafKind::kValue}, DType::kBF16,
                         [](ChainBuilder& b, In in) { return *b.Unary(UnaryKind::kSqrt, in[0]); });
  EXPECT_EQ(CostOfProgram(tanh).special, 1);
  EXPECT_EQ(ScratchRegisters(tanh), 0);
  EXPECT_EQ(ScratchRegisters(root), kSlowPathRegisters);
}

// Registers for functions of one kind, of two and of each further one.
TEST(EpilogueProgram, NeedsRegistersForKindsOfSlowFunctions) {
  const auto scratch = [](const std::vector<UnaryKind>& kinds) {
    return ScratchRegisters(Made({LeafKind::kValue}, DType::kF32, [&](ChainBuilder& b, In in) {
      ValueId y = in[0];
      for (const UnaryKind kind : kinds) y = *b.Unary(kind, y);
      return y;
    }));
  };
  EXPECT_EQ(scratch({UnaryKind::kErf, UnaryKind::kErf, UnaryKind::kErf}), kSlowPathRegisters);
  EXPECT_EQ(scratch({UnaryKind::kErf, UnaryKind::kTanh}), kSlowPathRegisters);
  const int three = scratch({UnaryKind::kErf, UnaryKind::kTanh, UnaryKind::kSqrt});
  EXPECT_GT(three, kSlowPathRegisters);
  EXPECT_GT(scratch({UnaryKind::kErf, UnaryKind::kTanh, UnaryKind::kSqrt, UnaryKind::kLog}), three);
}

}  // namespace
}  // namespace sinter
