// Programs of epilogues: what the matcher makes of element-wise ops, where programs are cut, what
// is refused, and their bytes.
#include "absl/strings/str_split.h"
#include "src/product/matcher.h"
#include "src/product/schedule_check.h"
#include "tests/support/damage.h"
#include "tests/support/epilogue_chains.h"
#include "tests/support/epilogue_forms.h"
#include "tests/support/read_chain.h"
#include "tests/support/refusals.h"

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

EpilogueProgram ProgramOfBody(Chain body, const std::vector<LeafKind>& leaves) {
  std::vector<LeafKind> kinds;
  for (const int32_t input : body.InputOrder()) kinds.push_back(leaves[static_cast<size_t>(input)]);
  return ProgramOf(std::make_shared<const Chain>(std::move(body)), std::move(kinds));
}

// The program of an expression of y and of what else it reads: up, a column c or d, a number of the
// row s, one of memory n, a matrix r of `matrix`. The inputs are in the order of `leaves`.
// Statements may stand before the expression.
EpilogueProgram Made(absl::string_view leaves, absl::string_view expression,
                     DType result = DType::kBF16, DType matrix = DType::kBF16) {
  const std::map<std::string, LeafKind> kinds = {{"y", LeafKind::kValue},  {"up", LeafKind::kUp},
                                                 {"c", LeafKind::kColumn}, {"d", LeafKind::kColumn},
                                                 {"s", LeafKind::kRow},    {"n", LeafKind::kNumber},
                                                 {"r", LeafKind::kMatrix}};
  ChainReader reader;
  std::vector<LeafKind> of;
  for (const absl::string_view leaf : absl::StrSplit(leaves, ' ')) {
    of.push_back(kinds.at(std::string(leaf)));
    reader.Add("$0: $1[2]", leaf, leaf == "r" ? NameOf(matrix) : "f32");
  }
  const size_t last = expression.rfind("; ") == expression.npos ? 0 : expression.rfind("; ") + 2;
  reader.Add(expression.substr(0, last));
  reader.Add("out $0($1)", NameOf(result), expression.substr(last));
  return ProgramOfBody(reader.Finish(), of);
}

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
  ChainReader r("y: f32[2]; t = tanh(y)");
  std::vector<LeafKind> leaves = {LeafKind::kValue};
  if (of_matrix) {
    leaves.push_back(LeafKind::kMatrix);
    r.Add("r: bf16[2]; t = t + f32(r)");
  }
  r.Add("out $0(y), $1(t)", NameOf(first), NameOf(second));
  for (int i = 0; i < more; ++i) r.Add("t = abs(t); out $0(neg(t))", NameOf(second));
  return ProgramOfBody(r.Finish(), leaves);
}

EpilogueProgram WrittenAndRead(const EpilogueProgram& program) {
  ByteWriter w;
  WriteProgram(program, w);
  const std::string bytes = w.Take();
  ByteReader r(bytes);
  return Got(ReadProgram(r));
}

TEST(EpilogueProgram, MayHaveAuxiliaryResults) {
  const EpilogueProgram program = Aux(DType::kBF16, DType::kBF16);
  EXPECT_TRUE(program.written());
  EXPECT_EQ(program.aux_results(), 1);
  EXPECT_EQ(ToString(program), "y;aux=tanh(y)");
  EXPECT_TRUE(CheckProgram(program, DType::kBF16, false).ok());
  EXPECT_TRUE(CheckProgram(Aux(DType::kBF16, DType::kBF16, false, 1), DType::kBF16, false).ok());
  EXPECT_TRUE(WrittenAndRead(program) == program);
}

// A kernel computes all of these at once: they read a matrix, or have several results.
TEST(EpilogueProgram, IsWholeWhereItReadsAMatrixOrHasSeveralResults) {
  EXPECT_FALSE(ProgramOf(EpilogueForm{Activation::kRelu}, DType::kBF16).whole());
  for (const DType matrix : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const DType result : {DType::kF32, DType::kF16, DType::kBF16}) {
      const EpilogueProgram program = Made("y r", "tanh(y + f32(r))", result, matrix);
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
    return Made("y r", "y + f32(r)", result, matrix);
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
      const EpilogueProgram read = WrittenAndRead(program);
      EXPECT_TRUE(read == program);
      EXPECT_TRUE(read.form == form);
    }
  }
}

// The sides of additions and multiplications may be swapped, and a value that is widened twice is
// the same.
TEST(EpilogueForm, IsTheSameInEverySpelling) {
  const auto spelled =
      Made("r up y", "relu(f32(f32(r)) + f32(f16(up * silu(y))))", DType::kF16, DType::kF16);
  const EpilogueForm form = {Activation::kSilu, true, true, true, Activation::kRelu};
  ASSERT_TRUE(spelled.form.has_value()) << ToString(spelled);
  EXPECT_TRUE(*spelled.form == form);
}

// scale * factor * y + bias, or less, in any order of the two multiplications.
TEST(AffinePart, IsWhatAProgramBeginsWith) {
  const auto program = Made("c s y", "tanh(c + 0.5 * y * s)");
  EXPECT_EQ(ToString(program), "tanh(y)");
  EXPECT_EQ(program.affine.scale, 0.5f);
  EXPECT_EQ(program.TypeAt(program.affine.factor), DType::kF32);
  EXPECT_EQ(program.TypeAt(program.affine.bias), DType::kF32);
  const auto tanh = Made("y", "tanh(y)");
  EXPECT_EQ(CostOfProgram(program).issue, CostOfProgram(tanh).issue);
  EXPECT_EQ(ScratchRegisters(program), 0);
}

// Halves that differ are computed apart.
TEST(AffinePart, OfAPairIsThatOfBothHalves) {
  const auto both = Made("y up c d", "tanh(y + c) * (up + d)");
  EXPECT_EQ(ToString(both), "mul(tanh(y),up)");
  EXPECT_GE(both.affine.bias_up, 0);
}

// Entries are "leaves: expression", with results of bf16.
TEST(EpilogueProgram, IsWhatTheFileSays) {
  for (const auto& [text, told] : RefusalsOf("tests/unit/product/programs.txt", "programs")) {
    const std::pair<std::string, std::string> sides =
        absl::StrSplit(text, absl::MaxSplits(": ", 1));
    const EpilogueProgram program = Made(sides.first, sides.second);
    const absl::Status status =
        CheckProgram(program, DType::kBF16, absl::StrContains(sides.first, "up"));
    EXPECT_EQ(absl::StrCat(ToString(program), program.form.has_value() ? ", a form" : "",
                           program.affine.scale != 1 ? ", scaled" : "", status.ok() ? "" : ", but ",
                           status.message()),
              told)
        << text;
  }
}

// Values that are read once are made where they are read; those that are read again stay.
TEST(EpilogueProgram, NeedsRegistersForValuesThatAreLiveAtOnce) {
  const auto values = [](int count, bool again) {
    std::string made, most = "x = y; ", least;
    for (int i = 0; i < count; ++i) {
      absl::StrAppend(&made, "v", i, " = y * ", i + 2, "; ");
      absl::StrAppend(&most, "x = max(x, v", i, "); ");
      if (again) absl::StrAppend(&least, "x = min(x, v", i, "); ");
    }
    return Made("y", absl::StrCat(made, most, least, "x"));
  };
  EXPECT_EQ(ScratchRegisters(values(16, false)), 0);
  EXPECT_EQ(ScratchRegisters(values(4, true)), 0);
  EXPECT_EQ(ScratchRegisters(values(16, true)), 2 * (17 - 6));
}

TEST(EpilogueProgram, RefusalsNameWhatIsWrong) {
  const struct {
    EpilogueProgram program;
    DType result;
    bool pair;
    const char* want;
  } kCases[] = {
      {{}, DType::kBF16, true, "program is missing, the product is a pair"},
      {Made("y", "tanh(y)"), DType::kF16, false, "program gives bf16, the result is f16"},
      {Made("y", "tanh(y)"), DType::kBF16, true,
       "program reads 0 leaves of kind 1, must be 1 to 1"},
      {Made("y r", "y + f32(r)", DType::kBF16, DType::kPred), DType::kBF16, false,
       "program reads a matrix of pred, must be f32, f16 or bf16"},
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
      ExpectTruncationsRefused(bytes, ProductSequence::FromCanonical);
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
  const auto tanh = Made("y", "tanh(y)"), root = Made("y", "sqrt(y)");
  EXPECT_EQ(CostOfProgram(tanh).special, 1);
  EXPECT_EQ(ScratchRegisters(tanh), 0);
  EXPECT_EQ(ScratchRegisters(root), kSlowPathRegisters);
}

// Registers for functions of one kind, of two and of each further one.
TEST(EpilogueProgram, NeedsRegistersForKindsOfSlowFunctions) {
  const auto scratch = [](const char* functions) {
    return ScratchRegisters(Made("y", functions, DType::kF32));
  };
  EXPECT_EQ(scratch("erf(erf(erf(y)))"), kSlowPathRegisters);
  EXPECT_EQ(scratch("tanh(erf(y))"), kSlowPathRegisters);
  const int three = scratch("sqrt(tanh(erf(y)))");
  EXPECT_GT(three, kSlowPathRegisters);
  EXPECT_GT(scratch("log(sqrt(tanh(erf(y))))"), three);
}

}  // namespace
}  // namespace sinter
