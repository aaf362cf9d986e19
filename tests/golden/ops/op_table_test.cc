// The table of ops (src/chain/ops.def) against all that repeats it: the C header, the C++ wrapper,
// the Rust, Go and Python bindings, the rows of docs/ops.md, which `./dev golden --update`
// writes. And its columns against one another: what a row says of signs, errors and NaN is true of
// its function.
#include <dirent.h>

#include "absl/strings/ascii.h"
#include "src/chain/builder.h"
#include "src/reference/reference.h"
#include "src/stitch/body_work.h"
#include "src/stitch/code/op_text.h"
#include "tests/support/files.h"
#include "tests/support/golden_file.h"
#include "tests/support/op_functions.h"
#include "tests/support/regular.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

// All files of the folder, and of those in it, whose names end so.
std::string ReadFolder(const std::string& folder, const std::string& ending) {
  std::string text;
  std::vector<std::string> names;
  DIR* const open = opendir(folder.c_str());
  if (open == nullptr) return text;
  while (const dirent* entry = readdir(open)) names.push_back(entry->d_name);
  closedir(open);
  for (const std::string& name : names) {
    if (name[0] == '.') continue;
    const bool file = absl::EndsWith(name, ending);
    text += file ? FileText(folder + "/" + name) : ReadFolder(folder + "/" + name, ending);
  }
  return text;
}

// One enum of the table.
struct Kinds {
  std::string word;  // "unary"
  std::vector<std::string> names;
  std::vector<std::string> cpp;  // "kCeilPow2"
};

std::vector<Kinds> AllKinds() {
  return {
      {"unary",
       {
#define SINTER_UNARY(number, Name, name, ...) #name,
#include "src/chain/ops.def"
       },
       {
#define SINTER_UNARY(number, Name, ...) "k" #Name,
#include "src/chain/ops.def"
       }},
      {"binary",
       {
#define SINTER_BINARY(number, Name, name, ...) #name,
#include "src/chain/ops.def"
       },
       {
#define SINTER_BINARY(number, Name, ...) "k" #Name,
#include "src/chain/ops.def"
       }},
      {"compare",
       {
#define SINTER_COMPARE(number, Name, name, ...) #name,
#include "src/chain/ops.def"
       },
       {
#define SINTER_COMPARE(number, Name, ...) "k" #Name,
#include "src/chain/ops.def"
       }},
      {"reduce",
       {
#define SINTER_REDUCE(number, Name, name) #name,
#include "src/chain/ops.def"
       },
       {
#define SINTER_REDUCE(number, Name, ...) "k" #Name,
#include "src/chain/ops.def"
       }},
  };
}

std::string Constant(const Kinds& kinds, size_t i) {
  return absl::AsciiStrToUpper(absl::StrCat("SINTER_", kinds.word, "_", kinds.names[i]));
}

bool Has(const std::string& text, const std::string& pattern) {
  return !Matches(text, pattern).empty();
}

TEST(OpTable, TheCHeaderHasItsNamesAndNumbersAndNoOthers) {
  const std::string header = FileText("include/sinter/sinter_types.h");
  for (const Kinds& kinds : AllKinds()) {
    for (size_t i = 0; i < kinds.names.size(); ++i) {
      EXPECT_TRUE(Has(header, absl::StrCat("\\b", Constant(kinds, i), " = ", i + 1, "\\b")))
          << "sinter_types.h needs " << Constant(kinds, i) << " = " << i + 1;
    }
    const std::string prefix = absl::AsciiStrToUpper(absl::StrCat("SINTER_", kinds.word, "_"));
    EXPECT_EQ(Matches(header, prefix + "\\w+ = ").size(), kinds.names.size())
        << kinds.word << "s of sinter_types.h";
  }
}

// `./dev bindings` writes them from the C header.
TEST(OpTable, TheBindingsHaveItsNames) {
  const std::string cpp = FileText("include/sinter/sinter.hpp");
  const std::string raw = ReadFolder("bindings/rust/sinter-sys/src", ".rs");
  const std::string rust = ReadFolder("bindings/rust/sinter/src", ".rs");
  const std::string go = ReadFolder("bindings/go", ".go");
  for (const Kinds& kinds : AllKinds()) {
    for (size_t i = 0; i < kinds.names.size(); ++i) {
      const std::string constant = Constant(kinds, i);
      EXPECT_TRUE(Has(cpp, absl::StrCat("\\b", kinds.cpp[i], " = ", constant, "\\b")))
          << "sinter.hpp needs " << kinds.cpp[i] << " = " << constant;
      EXPECT_TRUE(
          Has(raw, absl::StrCat("\\b", constant, "(: sinter_", kinds.word, ")? = ", i + 1, "\\b")))
          << "sinter-sys needs " << constant << " = " << i + 1;
      EXPECT_TRUE(Has(
          rust, absl::StrCat("\\b", absl::AsciiStrToUpper(kinds.names[i]), " = ", constant, "\\b")))
          << "the Rust crate needs " << constant;
      EXPECT_TRUE(Has(go, absl::StrCat("C\\.", constant, "\\b"))) << "Go needs " << constant;
    }
  }
}

TEST(OpTable, PythonHasItsNames) {
  const std::set<std::string> operators = {"neg", "abs", "not"};  // -x, abs(x), ~x
  const std::string python = ReadFolder("bindings/python/sinter", ".py");
  for (const Kinds& kinds : AllKinds()) {
    for (const std::string& name : kinds.names) {
      if (kinds.word == "unary" && operators.count(name) == 0) {
        EXPECT_TRUE(Has(python, absl::StrCat("\ndef ", name, "\\(x: "))) << name;
        EXPECT_TRUE(Has(python, absl::StrCat("\"", name, "\"[],]"))) << name << " in __all__";
      } else if (kinds.word != "unary") {
        EXPECT_TRUE(Has(python, absl::StrCat("\"", name, "\": "))) << name;
      }
    }
  }
}

std::string Quoted(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    absl::StrAppend(&text, text.empty() ? "" : " ", "`", name, "`");
  }
  return text;
}

template <typename Kind>
std::string QuotedOf(absl::Span<const Kind> kinds, OperandTypes types) {
  std::vector<std::string> names;
  for (const Kind kind : kinds) {
    if (TraitsOf(kind).operands == types) names.emplace_back(NameOf(kind));
  }
  return Quoted(names);
}

TEST(OpTable, ThePageOfChainsHasItsRows) {
  const std::vector<Kinds> all = AllKinds();
  using Types = OperandTypes;
  const std::vector<std::string> rows = {
      absl::StrCat("| `unary` | ", QuotedOf(UnaryKinds(), Types::kNumbers), " (floating, s32); ",
                   QuotedOf(UnaryKinds(), Types::kFloats), " (floating); ",
                   QuotedOf(UnaryKinds(), Types::kPreds), " (pred) | operand's dtype |"),
      absl::StrCat("| `binary` | ", QuotedOf(BinaryKinds(), Types::kNumbers),
                   " (both floating or both s32); ", QuotedOf(BinaryKinds(), Types::kFloats),
                   " (floating); ", QuotedOf(BinaryKinds(), Types::kPreds),
                   " (pred) | the wider floating dtype (f16 with bf16: f32), or s32, or pred |"),
      absl::StrCat("| `compare` | ", Quoted(all[2].names), "; both floating or both s32 | pred |")};
  std::vector<std::string> lines = absl::StrSplit(FileText("docs/ops.md"), '\n');
  for (const std::string& row : rows) {
    const std::string start = row.substr(0, row.find("` |") + 3);
    const auto line = std::find_if(lines.begin(), lines.end(), [&](const std::string& text) {
      return absl::StartsWith(text, start);
    });
    ASSERT_NE(line, lines.end()) << start;
    *line = row;
  }
  std::string page;
  for (size_t i = 0; i < lines.size(); ++i) absl::StrAppend(&page, i == 0 ? "" : "\n", lines[i]);
  testing::ExpectGoldenFile("docs/ops.md", page);
}

// The page on numerics names every function that a kernel may approximate.
TEST(OpTable, ThePageOfNumericsNamesEachFunctionOfSeveralForms) {
  const std::string page = FileText("docs/numerics.md");
  for (const UnaryKind kind : UnaryKinds()) {
    const OpTraits& traits = TraitsOf(kind);
    if (absl::StartsWith(traits.exact.function, "Exact::") && traits.exact.issue < 2) continue;
    EXPECT_TRUE(Has(page, absl::StrCat("\\b", traits.name, "\\b"))) << traits.name;
  }
}

// f32 numbers of each size, in x and y.
std::vector<double> Numbers(Domain domain) {
  std::vector<double> numbers;
  for (int exponent = -20; exponent <= 6; ++exponent) {
    for (const double mantissa : {1.0, 1.3, 1.75}) {
      const double x = std::ldexp(mantissa, exponent);
      if (domain == Domain::kAboveOne ? x < 1 : domain == Domain::kInsideOne && x > 1) continue;
      numbers.push_back(x);
      const bool negative = domain == Domain::kAboveMinusOne
                                ? x < 1
                                : domain != Domain::kPositive && domain != Domain::kAboveOne;
      if (negative) numbers.push_back(-x);
    }
  }
  return numbers;
}

absl::StatusOr<double> Computed(const std::function<absl::StatusOr<ValueId>(ChainBuilder&)>& add,
                                const std::vector<float>& x) {
  ChainBuilder b;
  std::vector<const void*> inputs;
  for (const float& value : x) {
    if (!b.Input({DType::kF32, {}}).ok()) return absl::InternalError("input");
    inputs.push_back(&value);
  }
  const absl::StatusOr<ValueId> y = add(b);
  if (!y.ok()) return y.status();
  if (absl::Status status = b.Output(*y); !status.ok()) return status;
  const absl::StatusOr<Chain> chain = b.Finish();
  if (!chain.ok()) return chain.status();
  const auto outputs = RunReferenceF64(*chain, 0, inputs);
  if (!outputs.ok()) return outputs.status();
  return (*outputs)[0][0];
}

TEST(OpTable, TheReferenceComputesItsFunctionsAndKeepsNaN) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const UnaryKind kind : UnaryKinds()) {
    if (TraitsOf(kind).operands == OperandTypes::kPreds) continue;
    const auto of = [&](float x) {
      return Computed([&](ChainBuilder& b) { return b.Unary(kind, 0); }, {x}).value();
    };
    const float x = TraitsOf(kind).domain == Domain::kInsideOne ? 0.75f : 1.25f;
    EXPECT_EQ(of(x), testing::Apply(kind, static_cast<double>(x))) << NameOf(kind);
    EXPECT_TRUE(std::isnan(of(nan))) << NameOf(kind);
  }
  for (const BinaryKind kind : BinaryKinds()) {
    if (TraitsOf(kind).operands == OperandTypes::kPreds) continue;
    const auto of = [&](float x, float y) {
      return Computed([&](ChainBuilder& b) { return b.Binary(kind, 0, 1); }, {x, y}).value();
    };
    EXPECT_EQ(of(1.25f, 3), testing::Apply(kind, 1.25, 3.0)) << NameOf(kind);
    EXPECT_TRUE(std::isnan(of(nan, 3))) << NameOf(kind);
    EXPECT_EQ(std::isnan(of(3, nan)), kind != BinaryKind::kCopysign) << NameOf(kind);
  }
}

TEST(OpTable, SignsAreThoseOfTheFunctions) {
  for (const UnaryKind kind : UnaryKinds()) {
    const OpTraits& traits = TraitsOf(kind);
    if (traits.operands == OperandTypes::kPreds) continue;
    for (const double x : Numbers(traits.domain)) {
      const double y = testing::Apply(kind, x);
      const bool never =
          traits.sign == SignRule::kNeverNegative || traits.sign == SignRule::kNeverNegativeFloat;
      const bool promised = never || (traits.sign == SignRule::kOfAllOperands && x >= 0);
      EXPECT_FALSE(promised && y < 0) << traits.name << " of " << x;
    }
  }
  for (const BinaryKind kind : BinaryKinds()) {
    const OpTraits& traits = TraitsOf(kind);
    if (traits.operands == OperandTypes::kPreds) continue;
    for (const double x : Numbers(Domain::kAll)) {
      for (const double y : Numbers(Domain::kAll)) {
        const bool promised = (traits.sign == SignRule::kOfAllOperands && x >= 0 && y >= 0) ||
                              (traits.sign == SignRule::kOfOneOperand && (x >= 0 || y >= 0)) ||
                              (traits.sign == SignRule::kOfFirstOperand && x >= 0);
        EXPECT_FALSE(promised && testing::Apply(kind, x, y) < 0) << traits.name << x << ", " << y;
        EXPECT_TRUE(!traits.commutes || testing::Apply(kind, x, y) == testing::Apply(kind, y, x));
      }
    }
  }
}

// A relative error of an operand is passed on as it is, or grown less than four times.
TEST(OpTable, ErrorsArePassedOnAsItSays) {
  constexpr double kError = 0x1p-20;
  const auto grown = [](double y, double moved) {
    return y == 0 ? 0 : std::fabs((moved - y) / y) / kError;
  };
  const auto most = [](ErrorRule rule) { return rule == ErrorRule::kPassed ? 1.001 : 4; };
  const auto promises = [](const OpTraits& traits) {
    return traits.operands != OperandTypes::kPreds &&
           (traits.errors == ErrorRule::kPassed || traits.errors == ErrorRule::kGrownLittle);
  };
  for (const UnaryKind kind : UnaryKinds()) {
    const OpTraits& traits = TraitsOf(kind);
    if (!promises(traits)) continue;
    for (const double x : Numbers(traits.domain)) {
      const double y = testing::Apply(kind, x);
      EXPECT_LE(grown(y, testing::Apply(kind, x * (1 + kError))), most(traits.errors))
          << traits.name << " of " << x;
    }
  }
  for (const BinaryKind kind : BinaryKinds()) {
    const OpTraits& traits = TraitsOf(kind);
    if (!promises(traits)) continue;
    for (const double x : Numbers(Domain::kAll)) {
      for (const double y : Numbers(Domain::kAll)) {
        EXPECT_LE(grown(testing::Apply(kind, x, y), testing::Apply(kind, x * (1 + kError), y)),
                  most(traits.errors))
            << traits.name << " of " << x << ", " << y;
      }
    }
  }
}

// A step's operand is exact, and so is what any function grows errors of: the text of its
// expression is one call, in each precision.
TEST(OpTable, StepsTakeExactOperandsAndEveryOpHasCodeAndCosts) {
  for (const UnaryKind kind : UnaryKinds()) {
    const OpTraits& traits = TraitsOf(kind);
    EXPECT_TRUE(!traits.steps || traits.errors == ErrorRule::kGrown) << traits.name;
    Op op{.kind = OpKind::kUnary, .unary = kind};
    for (const Precision precision : {Precision::kFast, Precision::kBesideOne, Precision::kExact}) {
      const DeviceForm& form = FormOf(traits, precision);
      EXPECT_EQ(OpText(op, DType::kF32, {"x"}, precision), absl::StrCat(form.function, "(x)"));
      EXPECT_GE(form.issue, 1) << traits.name;
    }
    EXPECT_LE(traits.fast.issue, traits.exact.issue) << traits.name;
  }
}

}  // namespace
}  // namespace sinter
