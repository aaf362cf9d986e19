#include <elf.h>

#include "runtime/nvrtc/nvrtc_compiler.h"
#include "src/base/arch.h"
#include "tests/fakes/fake_nvrtc.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

CompileRequest Request(const std::string& source) {
  return CompileRequest{.name = "chain_s8.cu",
                        .source = source,
                        .options = {"-DX=1"},
                        .arch = "sm_90a",
                        .entry = "k"};
}

std::unique_ptr<Compiler> FakeCompiler() {
  return MakeNvrtcCompiler(NvrtcOpener(
      []() -> absl::StatusOr<std::shared_ptr<const NvrtcLibrary>> { return FakeNvrtc(); }));
}

TEST(NvrtcCompiler, OpensNothingBeforeItIsAsked) {
  int opened = 0;
  const auto compiler =
      MakeNvrtcCompiler(NvrtcOpener([&]() -> absl::StatusOr<std::shared_ptr<const NvrtcLibrary>> {
        ++opened;
        return FakeNvrtc();
      }));
  EXPECT_FALSE(compiler->Loaded());
  EXPECT_EQ(opened, 0);
  EXPECT_EQ(compiler->ToolchainId().value(), "nvrtc-13.0-fake");
  EXPECT_TRUE(compiler->Loaded());
  ASSERT_TRUE(compiler->Compile(Request("//kernel k")).ok());
  EXPECT_EQ(opened, 1);
  EXPECT_EQ(compiler->Compiles(), 1u);
}

TEST(NvrtcCompiler, WithoutALibraryEveryAnswerIsUnavailable) {
  const auto compiler = MakeNvrtcCompiler(std::string("/dev/null/libnvrtc.so"));
  const auto kernel = compiler->Compile(Request("//kernel k"));
  EXPECT_EQ(kernel.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(kernel.status().ToString(), HasSubstr("/dev/null/libnvrtc.so"));
  EXPECT_THAT(kernel.status().ToString(), HasSubstr("SINTER_NVRTC"));
  EXPECT_EQ(compiler->ToolchainId().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(compiler->Loaded());
  EXPECT_EQ(compiler->Compiles(), 0u);
  EXPECT_EQ(compiler->PeekBuildId(), "");
}

TEST(NvrtcCompiler, PassesTheOptions) {
  const auto kernel = Got(FakeCompiler()->Compile(Request("//kernel k")));
  EXPECT_EQ(kernel.log,
            "option --gpu-architecture=sm_90a\noption -default-device\noption --std=c++17\n"
            "option --ptxas-options=-v\noption -DX=1\n");
}

TEST(NvrtcCompiler, RefusesWhatMustNotRun) {
  const struct {
    const char* source;
    const char* message;
  } rows[] = {
      {"//log a.cu(3): error: no\n//fail", "NVRTC_ERROR_COMPILATION: a.cu(3): error: no"},
      {"//fail", "NVRTC_ERROR_COMPILATION"},
      {"//kernel k\n//log 16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads",
       "8 bytes of stores, 12 bytes of loads"},
      {"//kernel k\n//log (C7510) wgmma serialized", "(C7510) wgmma serialized"},
      {"//kernel kk", "no extern \"C\" kernel 'k'"},
  };
  for (const auto& row : rows) {
    const auto kernel = FakeCompiler()->Compile(Request(row.source));
    EXPECT_EQ(StatusNumber(kernel.status()), static_cast<int32_t>(ErrorCode::kCompileFailed));
    EXPECT_THAT(kernel.status().ToString(), HasSubstr(row.message));
    EXPECT_THAT(kernel.status().ToString(), HasSubstr("chain_s8.cu"));
    std::string storage;
    EXPECT_THAT(std::string(CompileLogOf(kernel.status(), &storage)), HasSubstr("option"));
  }
}

using Clock = std::chrono::steady_clock;

// Refuses once `left` has passed.
class Limit : public KeepGoing {
 public:
  explicit Limit(std::chrono::milliseconds left) : end_(Clock::now() + left) {}
  absl::Status Check() const override {
    return Clock::now() < end_ ? absl::OkStatus() : absl::DeadlineExceededError("too late");
  }

 private:
  const Clock::time_point end_;
};

TEST(NvrtcCompiler, ADeadlineEndsACompile) {
  for (const bool flow : {true, false}) {
    const auto compiler =
        MakeNvrtcCompiler(NvrtcOpener([&]() -> absl::StatusOr<std::shared_ptr<const NvrtcLibrary>> {
          return flow ? FakeNvrtc() : FakeNvrtcWithoutFlow();
        }));
    const Clock::time_point start = Clock::now();
    const Limit soon(std::chrono::milliseconds(50));
    const auto kernel = compiler->Compile(Request("//kernel k\n//hang"), &soon);
    EXPECT_TRUE(absl::IsDeadlineExceeded(kernel.status())) << kernel.status();
    EXPECT_THAT(kernel.status().ToString(), HasSubstr("compiling 'chain_s8.cu'"));
    EXPECT_LT(Clock::now() - start, std::chrono::milliseconds(550));
    const Limit late(std::chrono::seconds(60));
    EXPECT_TRUE(compiler->Compile(Request("//kernel k"), &late).ok());
  }
}

// Nobody waits for them, and the next one does not add to them for ever.
TEST(NvrtcCompiler, LeftOverCompilesAreFew) {
  const auto compiler =
      MakeNvrtcCompiler(NvrtcOpener([]() -> absl::StatusOr<std::shared_ptr<const NvrtcLibrary>> {
        return FakeNvrtcWithoutFlow();
      }));
  const auto threads = [] {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return std::distance(begin(tasks), end(tasks));
  };
  const auto before = threads();
  const int processors = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  for (int i = 0; i < 2 * processors + 2; ++i) {
    const Limit soon(std::chrono::milliseconds(5));
    EXPECT_TRUE(
        absl::IsDeadlineExceeded(compiler->Compile(Request("//kernel k\n//hang"), &soon).status()));
  }
  EXPECT_LE(threads(), before + processors);
}

TEST(NvrtcCompiler, GivesPtxForAnArchThatTheDriverTranslates) {
  CompileRequest request = Request("//kernel k");
  request.entry = "k";
  request.arch = "compute_80";
  const CompiledKernel kernel = Got(FakeCompiler()->Compile(request));
  EXPECT_TRUE(IsPtx(kernel.cubin));
  EXPECT_TRUE(CheckCode(kernel.cubin).ok());
  request.arch = "sm_80";
  EXPECT_FALSE(IsPtx(Got(FakeCompiler()->Compile(request)).cubin));
  request.arch = "compute_80";
  request.entry = "another";
  EXPECT_TRUE(Says(FakeCompiler()->Compile(request), "defines no extern \"C\" kernel 'another'"));
}

TEST(NvrtcCompiler, RefusesARequestThatNamesNoKnownTarget) {
  CompileRequest no_arch = Request("//kernel k");
  no_arch.arch = "compute_90a";
  CompileRequest no_entry = Request("//kernel k");
  no_entry.entry.clear();
  for (const CompileRequest& request : {no_arch, no_entry}) {
    EXPECT_EQ(FakeCompiler()->Compile(request).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

// An ELF file whose one segment holds two notes, the second of them a build id.
std::string ElfWithBuildId() {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_phoff = sizeof(header);
  header.e_phnum = 1;
  Elf64_Phdr segment{};
  segment.p_type = PT_NOTE;
  segment.p_offset = sizeof(header) + sizeof(segment);
  const Elf64_Nhdr other{5, 3, 7};
  const Elf64_Nhdr id{4, 4, NT_GNU_BUILD_ID};
  std::string notes(reinterpret_cast<const char*>(&other), sizeof(other));
  notes += std::string("ABCD\0\0\0\0", 8) + std::string("xyz\0", 4);
  notes.append(reinterpret_cast<const char*>(&id), sizeof(id));
  notes += std::string("GNU\0", 4) + "\xde\xad\xbe\xef";
  segment.p_filesz = notes.size();
  return std::string(reinterpret_cast<const char*>(&header), sizeof(header)) +
         std::string(reinterpret_cast<const char*>(&segment), sizeof(segment)) + notes;
}

TEST(BuildId, IsFoundBehindOtherNotes) { EXPECT_EQ(BuildIdOf(ElfWithBuildId()), "deadbeef"); }

// 65535 segments of a million notes each would be walked for a minute.
TEST(BuildId, WalksAThousandNotesOfAllSegments) {
  const auto with_notes_before = [](size_t count, int segments) {
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_phoff = sizeof(header);
    header.e_phnum = static_cast<Elf64_Half>(segments);
    const Elf64_Nhdr empty{0, 0, 1}, id{4, 4, NT_GNU_BUILD_ID};
    std::string notes;
    for (size_t i = 0; i < count; ++i) {
      notes.append(reinterpret_cast<const char*>(&empty), sizeof(empty));
    }
    const size_t of_empty = notes.size();
    notes.append(reinterpret_cast<const char*>(&id), sizeof(id));
    notes += std::string("GNU\0", 4) + "\xde\xad\xbe\xef";
    std::string elf(reinterpret_cast<const char*>(&header), sizeof(header));
    for (int i = 0; i < segments; ++i) {
      Elf64_Phdr segment{};
      segment.p_type = PT_NOTE;
      segment.p_offset = sizeof(header) + sizeof(segment) * static_cast<size_t>(segments);
      segment.p_filesz = i + 1 == segments ? notes.size() : of_empty;
      elf.append(reinterpret_cast<const char*>(&segment), sizeof(segment));
    }
    return elf + notes;
  };
  EXPECT_EQ(BuildIdOf(with_notes_before(999, 1)), "deadbeef");
  EXPECT_EQ(BuildIdOf(with_notes_before(1000, 1)), "");
  EXPECT_EQ(BuildIdOf(with_notes_before(99, 10)), "deadbeef");
  EXPECT_EQ(BuildIdOf(with_notes_before(100, 10)), "");
  EXPECT_EQ(BuildIdOf(with_notes_before(1000000, 65535)), "");
}

TEST(BuildId, SurvivesEveryTruncationAndEveryFlippedByte) {
  const std::string good = ElfWithBuildId();
  for (size_t i = 0; i < good.size(); ++i) {
    EXPECT_EQ(BuildIdOf(good.substr(0, i)), "");
    for (const int flip : {1, 0x80, 0xff}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ flip);
      BuildIdOf(bad);  // any answer, no crash
    }
  }
}

TEST(FileIdentity, IsADigestWithoutABuildIdAndAnErrorWithoutAFile) {
  const std::string path = ::testing::TempDir() + "/sinter_build_id_test";
  std::ofstream(path) << "no elf";
  EXPECT_EQ(FileIdentity(path).value(), "sha256:" + Sha256("no elf").Hex());
  EXPECT_EQ(FileIdentity(path + ".absent").status().code(), absl::StatusCode::kUnavailable);
}

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
