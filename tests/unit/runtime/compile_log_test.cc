#include "runtime/nvrtc/nvrtc_library.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

constexpr char kClean[] =
    "ptxas info    : 0 bytes gmem\n"
    "ptxas info    : Compiling entry function 'k' for 'sm_90a'\n"
    "ptxas info    : Function properties for k\n"
    "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
    "ptxas info    : Used 168 registers, used 4 barriers\n";

TEST(CompileLog, ReadsRegistersOfACleanCompile) {
  const CompileLogFacts facts = ReadCompileLog(kClean);
  EXPECT_EQ(facts.registers, 168);
  EXPECT_EQ(facts.spill_store_bytes, 0);
  EXPECT_EQ(facts.spill_load_bytes, 0);
  EXPECT_EQ(facts.remark, "");
  EXPECT_EQ(facts.error, "");
}

TEST(CompileLog, SumsSpillsAndTakesTheMostRegisters) {
  const std::string log =
      std::string(kClean) +
      "ptxas . 1280 bytes stack frame, 1248 bytes spill stores, 1848 bytes spill "
      "loads\nptxas info    : Used 32 registers\n";
  const CompileLogFacts facts = ReadCompileLog(log);
  EXPECT_EQ(facts.registers, 168);
  EXPECT_EQ(facts.spill_store_bytes, 1248);
  EXPECT_EQ(facts.spill_load_bytes, 1848);
}

TEST(CompileLog, FindsRemarksByTheirCodeAlone) {
  const struct {
    const char* line;
    bool remark;
  } rows[] = {
      {"ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored", true},
      {"C7510", true},
      {"ptxas info : (C7400) something else", false},
      {"// C75 is not a code", false},
      {"function AC7508 is fine", false},
      {"C75123", false},
      {"C75", false},
      {"C7", false},
      {"0xC7512 (C7512)", true},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(!ReadCompileLog(row.line).remark.empty(), row.remark) << row.line;
  }
}

TEST(CompileLog, KeepsTheFirstErrorLine) {
  const CompileLogFacts facts = ReadCompileLog("x.cu(1): error: identifier\nx.cu(2): error: b\n");
  EXPECT_EQ(facts.error, "x.cu(1): error: identifier");
  EXPECT_EQ(ReadCompileLog("").registers, 0);
}

}  // namespace
}  // namespace sinter
