#include "tests/fakes/fake_nvrtc.h"

#include "absl/strings/strip.h"
#include "tests/fakes/fake_cubin.h"

namespace sinter {
namespace {

struct FakeProgram {
  std::string source;
  std::string log;
  std::string cubin;
  int (*flow)(void*, void*) = nullptr;
  void* payload = nullptr;
};

FakeProgram* ProgramOf(nvrtcProgram program) { return reinterpret_cast<FakeProgram*>(program); }

nvrtcResult Version(int* major, int* minor) {
  *major = 13;
  *minor = 0;
  return NVRTC_SUCCESS;
}

nvrtcResult CreateProgram(nvrtcProgram* program, const char* source, const char*, int,
                          const char* const*, const char* const*) {
  *program = reinterpret_cast<nvrtcProgram>(new FakeProgram{source, "", "", nullptr, nullptr});
  return NVRTC_SUCCESS;
}

nvrtcResult DestroyProgram(nvrtcProgram* program) {
  delete ProgramOf(*program);
  *program = nullptr;
  return NVRTC_SUCCESS;
}

nvrtcResult SetFlowCallback(nvrtcProgram handle, int (*callback)(void*, void*), void* payload) {
  FakeProgram& program = *ProgramOf(handle);
  program.flow = callback;
  program.payload = payload;
  return NVRTC_SUCCESS;
}

nvrtcResult Hang(const FakeProgram& program) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kFakeHangMs);
  while (std::chrono::steady_clock::now() < end) {
    if (program.flow != nullptr && program.flow(program.payload, nullptr) == 1) {
      return NVRTC_ERROR_COMPILATION;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return NVRTC_SUCCESS;
}

// The log starts with the options, so that a test sees them.
nvrtcResult CompileProgram(nvrtcProgram handle, int option_count, const char* const* options) {
  FakeProgram& program = *ProgramOf(handle);
  for (int i = 0; i < option_count; ++i) absl::StrAppend(&program.log, "option ", options[i], "\n");
  nvrtcResult result = NVRTC_SUCCESS;
  for (absl::string_view line : absl::StrSplit(program.source, '\n')) {
    if (absl::ConsumePrefix(&line, "//log ")) absl::StrAppend(&program.log, line, "\n");
    if (absl::ConsumePrefix(&line, "//kernel ")) program.cubin = FakeCubin(std::string(line));
    if (line == "//fail") result = NVRTC_ERROR_COMPILATION;
    if (line == "//hang") result = Hang(program);
  }
  return result;
}

nvrtcResult GetProgramLogSize(nvrtcProgram program, size_t* size) {
  *size = ProgramOf(program)->log.size() + 1;
  return NVRTC_SUCCESS;
}

nvrtcResult GetProgramLog(nvrtcProgram program, char* log) {
  std::strcpy(log, ProgramOf(program)->log.c_str());
  return NVRTC_SUCCESS;
}

nvrtcResult GetCubinSize(nvrtcProgram program, size_t* size) {
  *size = ProgramOf(program)->cubin.size();
  return NVRTC_SUCCESS;
}

nvrtcResult GetCubin(nvrtcProgram program, char* cubin) {
  const std::string& bytes = ProgramOf(program)->cubin;
  std::memcpy(cubin, bytes.data(), bytes.size());
  return NVRTC_SUCCESS;
}

// What a kernel becomes for a translated arch.
std::string PtxOf(nvrtcProgram program) {
  std::string ptx = "//\n.version 9.0\n.target sm_80\n";
  for (absl::string_view line : absl::StrSplit(ProgramOf(program)->source, '\n')) {
    if (!absl::ConsumePrefix(&line, "//kernel ")) continue;
    absl::StrAppend(&ptx, ".visible .entry ", line, "(\n)\n{\n}\n");
  }
  return ptx;
}

nvrtcResult GetPtxSize(nvrtcProgram program, size_t* size) {
  *size = PtxOf(program).size() + 1;
  return NVRTC_SUCCESS;
}

nvrtcResult GetPtx(nvrtcProgram program, char* ptx) {
  std::strcpy(ptx, PtxOf(program).c_str());
  return NVRTC_SUCCESS;
}

const char* GetErrorString(nvrtcResult result) {
  return result == NVRTC_SUCCESS ? "NVRTC_SUCCESS" : "NVRTC_ERROR_COMPILATION";
}

}  // namespace

std::shared_ptr<const NvrtcLibrary> FakeNvrtc(const std::string& toolchain) {
  NvrtcTable table;
  table.Version = &Version;
  table.CreateProgram = &CreateProgram;
  table.DestroyProgram = &DestroyProgram;
  table.CompileProgram = &CompileProgram;
  table.GetProgramLogSize = &GetProgramLogSize;
  table.GetProgramLog = &GetProgramLog;
  table.GetCUBINSize = &GetCubinSize;
  table.GetCUBIN = &GetCubin;
  table.GetPTXSize = &GetPtxSize;
  table.GetPTX = &GetPtx;
  table.GetErrorString = &GetErrorString;
  table.SetFlowCallback = &SetFlowCallback;
  return NvrtcLibrary::FromTable(table, toolchain);
}

std::shared_ptr<const NvrtcLibrary> FakeNvrtcWithoutFlow() {
  NvrtcTable table = *FakeNvrtc()->operator->();
  table.SetFlowCallback = nullptr;
  return NvrtcLibrary::FromTable(table, "nvrtc-12.9-fake");
}

}  // namespace sinter
