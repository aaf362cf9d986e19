// Build tool: stand_in_compiler NVRTC INDEX FILE compiles stand-in INDEX with the libnvrtc at path
// NVRTC and writes its machine code.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "runtime/nvrtc/nvrtc_compiler.h"
#include "src/device/device_library.h"
#include "src/standin/embedded_code.h"
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
  if (argc != 4) return Fail("usage: stand_in_compiler NVRTC INDEX FILE");
  const absl::StatusOr<sinter::CompiledKernel> kernel =
      sinter::MakeNvrtcCompiler(argv[1])->Compile(RequestOf(std::atoi(argv[2])));
  if (!kernel.ok()) return Fail(kernel.status().ToString());
  std::ofstream file(argv[3], std::ios::binary);
  file << sinter::StoredStandIn(kernel->cubin) << std::flush;
  return file ? 0 : Fail(std::string("cannot write ") + argv[3]);
}
