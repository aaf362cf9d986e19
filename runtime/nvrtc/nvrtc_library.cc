#include "runtime/nvrtc/nvrtc_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "src/base/compile_request.h"
#include "src/base/exit_gate.h"
#include "src/base/status.h"
#include "src/base/transfer.h"

namespace sinter {
namespace {

absl::Status NoCompiler(absl::string_view why) {
  return Unavailable("no NVRTC: ", why,
                     "; install the CUDA toolkit's NVRTC, 12.9 or newer (in Python: pip install "
                     "nvidia-cuda-nvrtc), or name its library with SINTER_NVRTC (kernels that are "
                     "cached need none)");
}

absl::StatusOr<void*> OpenLibrary(const std::string& path) {
  std::string first_error;
  for (const std::string& name : NvrtcCandidates(path)) {
    if (IsNoRegularFile(name)) continue;
    if (void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
    const char* error = dlerror();
    if (first_error.empty() && error != nullptr) first_error = error;
  }
  return NoCompiler(first_error);
}

// dlsym gives an object pointer; POSIX guarantees that its bits are the function's address.
template <typename Function>
bool Resolve(void* library, const char* symbol, Function* out) {
  void* address = dlsym(library, symbol);
  std::memcpy(out, &address, sizeof(address));
  return address != nullptr;
}

absl::StatusOr<NvrtcTable> FillTable(void* library) {
  NvrtcTable table;
  const char* missing = nullptr;
#define SINTER_RESOLVE(field, parameters) \
  if (!Resolve(library, "nvrtc" #field, &table.field)) missing = "nvrtc" #field;
  SINTER_NVRTC_FUNCTIONS(SINTER_RESOLVE)
#undef SINTER_RESOLVE
  if (!Resolve(library, "nvrtcGetErrorString", &table.GetErrorString)) {
    missing = "nvrtcGetErrorString";
  }
  (void)Resolve(library, "nvrtcSetFlowCallback", &table.SetFlowCallback);
  if (missing != nullptr) return NoCompiler(absl::StrCat("the library lacks ", missing));
  return table;
}

// The file that the library was loaded from, whatever name was asked for.
std::string FileOf(const NvrtcTable& table) {
  void* address = nullptr;
  std::memcpy(&address, &table.Version, sizeof(address));
  Dl_info info{};
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return "";
  return info.dli_fname;
}

absl::Status Error(const NvrtcLibrary& library, nvrtcResult result, absl::string_view call) {
  return Internal(call, ": ", library->GetErrorString(result));
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

// The number that stands right before `phrase`, 0 when there is none.
int NumberBefore(absl::string_view line, absl::string_view phrase) {
  const size_t end = line.find(phrase);
  if (end == absl::string_view::npos) return 0;
  size_t begin = end;
  while (begin > 0 && absl::ascii_isdigit(line[begin - 1])) --begin;
  int value = 0;
  return absl::SimpleAtoi(line.substr(begin, end - begin), &value) ? value : 0;
}

bool HasWgmmaRemark(absl::string_view line) {
  for (size_t at = line.find("C75"); at != absl::string_view::npos; at = line.find("C75", at + 1)) {
    const bool starts = at == 0 || !absl::ascii_isalnum(line[at - 1]);
    const bool two_digits = at + 5 <= line.size() && absl::ascii_isdigit(line[at + 3]) &&
                            absl::ascii_isdigit(line[at + 4]);
    const bool ends = at + 5 == line.size() || (two_digits && !absl::ascii_isalnum(line[at + 5]));
    if (starts && two_digits && ends) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const NvrtcLibrary>> NvrtcLibrary::Open(const std::string& path) {
  SINTER_ASSIGN_OR_RETURN(void* library, OpenLibrary(path));
  SINTER_ASSIGN_OR_RETURN(const NvrtcTable table, FillTable(library));
  int major = 0;
  int minor = 0;
  if (table.Version(&major, &minor) != NVRTC_SUCCESS) return NoCompiler("nvrtcVersion failed");
  const std::string file = FileOf(table);
  if (absl::Status status = OpenBuiltins(file, major, minor); !status.ok()) {
    return NoCompiler(status.message());
  }
  SINTER_ASSIGN_OR_RETURN(const std::string id, FileIdentity(file));
  ExitGate::WaitAtExit();
  return FromTable(table, MakeToolchainId(major, minor, id));
}

std::shared_ptr<const NvrtcLibrary> NvrtcLibrary::FromTable(const NvrtcTable& table,
                                                            const std::string& toolchain_id) {
  return std::shared_ptr<const NvrtcLibrary>(new NvrtcLibrary(table, toolchain_id));
}

void NvrtcLibrary::WaitAtExit() const {
  if (!compiled_) ExitGate::WaitAtExit();
}

void NvrtcLibrary::NoteFirstCompile() const {
  ExitGate::WaitAtExit();
  compiled_ = true;
}

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
  return Code((*library_)->GetCUBINSize, (*library_)->GetCUBIN, "CUBIN");
}

absl::StatusOr<std::string> Program::Ptx() const {
  return Code((*library_)->GetPTXSize, (*library_)->GetPTX, "PTX");
}

absl::StatusOr<std::string> Program::Code(nvrtcResult (*size_of)(nvrtcProgram, size_t*),
                                          nvrtcResult (*get)(nvrtcProgram, char*),
                                          const char* what) const {
  size_t size = 0;
  nvrtcResult result = size_of(program_, &size);
  if (result != NVRTC_SUCCESS) {
    return Error(*library_, result, absl::StrCat("nvrtcGet", what, "Size"));
  }
  std::string code(size, '\0');
  result = get(program_, &code[0]);
  if (result != NVRTC_SUCCESS) {
    return Error(*library_, result, absl::StrCat("nvrtcGet", what));
  }
  return code;
}

CompileLogFacts ReadCompileLog(absl::string_view log) {
  CompileLogFacts facts;
  for (const absl::string_view line : absl::StrSplit(log, '\n')) {
    facts.registers = std::max(facts.registers, NumberBefore(line, " registers"));
    facts.spill_store_bytes += NumberBefore(line, " bytes spill stores");
    facts.spill_load_bytes += NumberBefore(line, " bytes spill loads");
    if (facts.remark.empty() && HasWgmmaRemark(line)) {
      facts.remark = std::string(absl::StripAsciiWhitespace(line));
    }
    if (facts.error.empty() && line.find("error") != absl::string_view::npos) {
      facts.error = std::string(absl::StripAsciiWhitespace(line));
    }
  }
  return facts;
}

}  // namespace sinter
