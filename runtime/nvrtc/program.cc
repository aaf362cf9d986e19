#include "runtime/nvrtc/program.h"

#include "absl/strings/str_cat.h"
#include "src/base/exit_gate.h"
#include "src/base/status.h"

namespace sinter {
namespace {

absl::Status Error(const NvrtcLibrary& library, nvrtcResult result, absl::string_view call) {
  return absl::InternalError(absl::StrCat(call, ": ", library->GetErrorString(result)));
}

// What NVRTC asks while it compiles.
struct Flow {
  const NvrtcLibrary& library;
  const std::atomic<bool>& unwanted;
};

int EndsNow(void* payload, void*) {
  const Flow& flow = *static_cast<const Flow*>(payload);
  flow.library.WaitAtExit();
  return ExitGate::Exiting() || flow.unwanted ? 1 : 0;
}

}  // namespace

absl::StatusOr<Program> Program::Create(std::shared_ptr<const NvrtcLibrary> library,
                                        const CompileRequest& request) {
  std::vector<const char*> names;
  std::vector<const char*> texts;
  for (const auto& [name, text] : request.headers) {
    names.push_back(name.c_str());
    texts.push_back(text.c_str());
  }
  nvrtcProgram program = nullptr;
  const nvrtcResult result = (*library)->CreateProgram(
      &program, request.source.c_str(), request.name.empty() ? nullptr : request.name.c_str(),
      static_cast<int>(names.size()), texts.data(), names.data());
  if (result != NVRTC_SUCCESS) return Error(*library, result, "nvrtcCreateProgram");
  return Program(std::move(library), program);
}

Program::Program(Program&& other) noexcept
    : library_(std::move(other.library_)), program_(other.program_) {
  other.program_ = nullptr;
}

Program::~Program() {
  if (program_ != nullptr) (*library_)->DestroyProgram(&program_);
}

nvrtcResult Program::Compile(const std::vector<std::string>& options,
                             const std::atomic<bool>& unwanted) {
  Flow flow{*library_, unwanted};
  if ((*library_)->SetFlowCallback != nullptr) {
    (void)(*library_)->SetFlowCallback(program_, EndsNow, &flow);
  }
  std::vector<const char*> pointers;
  for (const std::string& option : options) pointers.push_back(option.c_str());
  return (*library_)->CompileProgram(program_, static_cast<int>(pointers.size()), pointers.data());
}

std::string Program::Log() const {
  size_t size = 0;
  if ((*library_)->GetProgramLogSize(program_, &size) != NVRTC_SUCCESS || size <= 1) return "";
  std::string log(size, '\0');
  if ((*library_)->GetProgramLog(program_, &log[0]) != NVRTC_SUCCESS) return "";
  log.resize(size - 1);  // the size counts the terminating zero
  return log;
}

absl::StatusOr<std::string> Program::Cubin() const {
  size_t size = 0;
  nvrtcResult result = (*library_)->GetCUBINSize(program_, &size);
  if (result != NVRTC_SUCCESS) return Error(*library_, result, "nvrtcGetCUBINSize");
  std::string cubin(size, '\0');
  result = (*library_)->GetCUBIN(program_, &cubin[0]);
  if (result != NVRTC_SUCCESS) return Error(*library_, result, "nvrtcGetCUBIN");
  return cubin;
}

}  // namespace sinter
