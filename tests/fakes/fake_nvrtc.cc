#include "tests/fakes/fake_nvrtc.h"

#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tests/fakes/fake_cubin.h"

namespace sinter {
namespace {

struct FakeProgram {
  std::string source;
  std::string log;
  std::string cubin;
};

FakeProgram* ProgramOf(nvrtcProgram program) { return reinterpret_cast<FakeProgram*>(program); }

nvrtcResult Version(int* major, int* minor) {
  *major = 13;
  *minor = 0;
  return NVRTC_SUCCESS;
}

nvrtcResult CreateProgram(nvrtcProgram* program, const char* source, const char*, int,
                          const char* const*, const char* const*) {
  *program = reinterpret_cast<nvrtcProgram>(new FakeProgram{source, "", ""});
  return NVRTC_SUCCESS;
}

nvrtcResult DestroyProgram(nvrtcProgram* program) {
  delete ProgramOf(*program);
  *program = nullptr;
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

const char* GetErrorString(nvrtcResult result) {
  return result == NVRTC_SUCCESS ? "NVRTC_SUCCESS" : "NVRTC_ERROR_COMPILATION";
}

}  // namespace

std::shared_ptr<const NvrtcLibrary> FakeNvrtc() {
  NvrtcTable table;
  table.Version = &Version;
  table.CreateProgram = &CreateProgram;
  table.DestroyProgram = &DestroyProgram;
  table.CompileProgram = &CompileProgram;
  table.GetProgramLogSize = &GetProgramLogSize;
  table.GetProgramLog = &GetProgramLog;
  table.GetCUBINSize = &GetCubinSize;
  table.GetCUBIN = &GetCubin;
  table.GetErrorString = &GetErrorString;
  return NvrtcLibrary::FromTable(table, "nvrtc-13.0-fake");
}

}  // namespace sinter
