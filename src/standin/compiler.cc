// Build tool: stand_in_compiler NVRTC FOLDER INDEX... compiles these stand-ins with the libnvrtc at
// path NVRTC and writes their machine code to FOLDER/INDEX.code.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

#include "runtime/nvrtc/nvrtc_compiler.h"
#include "src/device/device_library.h"
#include "src/standin/stand_in.h"

namespace {

sinter::CompileRequest RequestOf(int index) {
  sinter::CompileRequest request;
  request.name = sinter::StandInName(index) + ".cu";
  request.source = sinter::StandInSource(index);
  request.headers = sinter::CopyDeviceHeaders();
  request.arch = "sm_90a";
  request.entry = sinter::StandInEntry(index);
  return request;
}

int Fail(const std::string& why) {
  std::fprintf(stderr, "stand_in_compiler: %s\n", why.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return Fail("usage: stand_in_compiler NVRTC FOLDER INDEX...");
  const std::unique_ptr<sinter::Compiler> compiler = sinter::MakeNvrtcCompiler(argv[1]);
  for (int i = 3; i < argc; ++i) {
    const absl::StatusOr<sinter::CompiledKernel> kernel =
        compiler->Compile(RequestOf(std::atoi(argv[i])));
    if (!kernel.ok()) return Fail(kernel.status().ToString());
    const std::string name = std::string(argv[2]) + "/" + argv[i] + ".code";
    std::ofstream file(name, std::ios::binary);
    file << sinter::StoredStandIn(kernel->cubin) << std::flush;
    if (!file) return Fail("cannot write " + name);
  }
  return 0;
}
