// libnvrtc for tests of CI: forwards to the real one and keeps what it answers in files, so that a
// kernel that several programs compile is compiled once a run. A file's name is a hash of all that
// NVRTC is given. The real library is opened when a kernel is not among them.
//
// Two macros of the build: REAL_NVRTC is the real library, NVRTC_RESULTS the folder of the files.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/nvrtc/nvrtc_library.h"

namespace {

template <typename Function>
Function* Real(const char* name) {
  static void* const library = dlopen(REAL_NVRTC, RTLD_NOW | RTLD_LOCAL);
  void* const found = library == nullptr ? nullptr : dlsym(library, name);
  if (found == nullptr) {
    fprintf(stderr, "no %s in " REAL_NVRTC "\n", name);
    abort();
  }
  return reinterpret_cast<Function*>(found);
}
#define REAL(function) Real<decltype(function)>(#function)

// One program: what it is given, and what NVRTC made of it.
struct Program {
  std::vector<std::string> given;  // source, name, then name and text of each header
  int (*callback)(void*, void*) = nullptr;
  void* payload = nullptr;
  nvrtcResult compiled = NVRTC_ERROR_INVALID_PROGRAM;
  std::string log, cubin, ptx;  // "": NVRTC has none
};

Program* Of(nvrtcProgram program) { return reinterpret_cast<Program*>(program); }

// Two FNV-1a hashes of 64 bits from different seeds.
std::string FileOf(const std::vector<std::string>& texts) {
  uint64_t hashes[] = {0xcbf29ce484222325, 0x84222325cbf29ce4};
  for (const std::string& text : texts) {
    for (uint64_t& hash : hashes) {
      for (const unsigned char byte : text) hash = (hash ^ byte) * 0x100000001b3;
      hash = (hash ^ text.size()) * 0x100000001b3;
    }
  }
  char name[40];
  snprintf(name, sizeof(name), "%016lx%016lx", static_cast<unsigned long>(hashes[0]),
           static_cast<unsigned long>(hashes[1]));
  return std::string(NVRTC_RESULTS "/") + name;
}

// A number, then each text with its size in front.
bool Load(const std::string& file, int* number, const std::vector<std::string*>& texts) {
  std::ifstream in(file, std::ios::binary);
  in >> *number;
  for (std::string* text : texts) {
    size_t size = 0;
    in >> size;
    in.get();
    if (!in) return false;
    text->resize(size);
    in.read(&(*text)[0], static_cast<std::streamsize>(size));
  }
  return static_cast<bool>(in);
}

// Under another name first: programs run side by side.
void Store(const std::string& file, int number, const std::vector<std::string*>& texts) {
  std::ostringstream bytes;
  bytes << number;
  for (const std::string* text : texts) bytes << ' ' << text->size() << ' ' << *text;
  const std::string written = file + "." + std::to_string(getpid()) + "." +
                              std::to_string(reinterpret_cast<uintptr_t>(texts[0]));
  {
    std::ofstream out(written, std::ios::binary);
    if (!(out << bytes.str())) return;
  }
  rename(written.c_str(), file.c_str());
}

std::string Text(nvrtcProgram program, decltype(nvrtcGetCUBINSize)* size_of,
                 decltype(nvrtcGetCUBIN)* get) {
  size_t size = 0;
  if (size_of(program, &size) != NVRTC_SUCCESS) return "";
  std::string text(size, '\0');
  return size > 0 && get(program, &text[0]) == NVRTC_SUCCESS ? text : "";
}

void CompileByReal(Program* program, int option_count, const char* const* options) {
  std::vector<const char*> names, texts;
  for (size_t i = 2; i < program->given.size(); i += 2) {
    names.push_back(program->given[i].c_str());
    texts.push_back(program->given[i + 1].c_str());
  }
  nvrtcProgram real = nullptr;
  program->compiled =
      REAL(nvrtcCreateProgram)(&real, program->given[0].c_str(), program->given[1].c_str(),
                               static_cast<int>(names.size()), texts.data(), names.data());
  if (program->compiled != NVRTC_SUCCESS) return;
  if (program->callback != nullptr) {
    Real<nvrtcResult(nvrtcProgram, int (*)(void*, void*), void*)>("nvrtcSetFlowCallback")(
        real, program->callback, program->payload);
  }
  program->compiled = REAL(nvrtcCompileProgram)(real, option_count, options);
  program->log = Text(real, REAL(nvrtcGetProgramLogSize), REAL(nvrtcGetProgramLog));
  program->cubin = Text(real, REAL(nvrtcGetCUBINSize), REAL(nvrtcGetCUBIN));
  program->ptx = Text(real, REAL(nvrtcGetPTXSize), REAL(nvrtcGetPTX));
  REAL(nvrtcDestroyProgram)(&real);
}

nvrtcResult SizeOf(const std::string& text, size_t* size) {
  *size = text.size();
  return NVRTC_SUCCESS;
}

nvrtcResult Copy(const std::string& text, char* out) {
  text.copy(out, text.size());
  return NVRTC_SUCCESS;
}

}  // namespace

extern "C" {

nvrtcResult nvrtcVersion(int* major, int* minor) {
  const std::string file = FileOf({"version"});
  if (Load(file, major, {}) && Load(file + "m", minor, {})) return NVRTC_SUCCESS;
  const nvrtcResult result = REAL(nvrtcVersion)(major, minor);
  std::string none;
  Store(file, *major, {&none});
  Store(file + "m", *minor, {&none});
  return result;
}

const char* nvrtcGetErrorString(nvrtcResult result) { return REAL(nvrtcGetErrorString)(result); }

nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, const char* source, const char* name,
                               int header_count, const char* const* headers,
                               const char* const* names) {
  auto* made = new Program;
  made->given = {source, name == nullptr ? "default_program" : name};
  for (int i = 0; i < header_count; ++i) {
    made->given.push_back(names[i]);
    made->given.push_back(headers[i]);
  }
  *program = reinterpret_cast<nvrtcProgram>(made);
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) {
  delete Of(*program);
  *program = nullptr;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcSetFlowCallback(nvrtcProgram program, int (*callback)(void*, void*),
                                 void* payload) {
  Of(program)->callback = callback;
  Of(program)->payload = payload;
  return NVRTC_SUCCESS;
}

// A compile that the callback ends, or that lacks memory, is not kept.
nvrtcResult nvrtcCompileProgram(nvrtcProgram of, int option_count, const char* const* options) {
  Program* const program = Of(of);
  std::vector<std::string> texts = program->given;
  texts.insert(texts.end(), options, options + option_count);
  const std::string file = FileOf(texts);
  int compiled = 0;
  if (Load(file, &compiled, {&program->log, &program->cubin, &program->ptx})) {
    return program->compiled = static_cast<nvrtcResult>(compiled);
  }
  CompileByReal(program, option_count, options);
  if (program->compiled == NVRTC_SUCCESS || program->compiled == NVRTC_ERROR_COMPILATION) {
    Store(file, program->compiled, {&program->log, &program->cubin, &program->ptx});
  }
  return program->compiled;
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t* size) {
  return SizeOf(Of(program)->log, size);
}
nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char* log) {
  return Copy(Of(program)->log, log);
}
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t* size) {
  return SizeOf(Of(program)->cubin, size);
}
nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* cubin) {
  return Copy(Of(program)->cubin, cubin);
}
nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, size_t* size) {
  return SizeOf(Of(program)->ptx, size);
}
nvrtcResult nvrtcGetPTX(nvrtcProgram program, char* ptx) { return Copy(Of(program)->ptx, ptx); }

}  // extern "C"
