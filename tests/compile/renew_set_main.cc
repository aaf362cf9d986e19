// renew_set SET OLD_HEADERS OUT: writes SET, of choices measured on an H200, for the device headers
// that this build embeds; run it in the root of the tree, whose problem lists give the chains.
// OLD_HEADERS is the src/device that SET was written with. Compiles with
// the NVRTC of SINTER_NVRTC.
#include <cstdlib>
#include <iostream>
#include <map>

#include "runtime/nvrtc/nvrtc_compiler.h"
#include "src/base/compile_request.h"
#include "src/base/status.h"
#include "src/engine/tuning_set.h"
#include "tests/compile/renew_set.h"
#include "tests/support/header_folder.h"
#include "tests/support/machine_code.h"
#include "tests/unit/fusion/assembly/chains.h"

namespace sinter {
namespace {

absl::Status Run(const std::string& from, const std::string& folder, const std::string& to) {
  const char* library = getenv("SINTER_NVRTC");
  const std::unique_ptr<Compiler> compiler = MakeNvrtcCompiler(library == nullptr ? "" : library);
  SINTER_ASSIGN_OR_RETURN(const TuningSet set, ReadTuningFile(from));
  std::map<Digest, Chain> chains;
  for (testing::NamedChain& of : testing::ListedChains()) {
    chains.emplace(of.chain.CanonicalDigest(), std::move(of.chain));
  }
  const RenewedSet renewed = RenewSet(
      set, *BuiltinModel("h200"),
      [&](const Digest& digest) -> const Chain* {
        const auto chain = chains.find(digest);
        return chain == chains.end() ? nullptr : &chain->second;
      },
      ReadHeaderFolder(folder),
      [&](const CompileRequest& request) -> absl::StatusOr<std::string> {
        SINTER_ASSIGN_OR_RETURN(const CompiledKernel kernel, compiler->Compile(request));
        SINTER_RETURN_IF_ERROR(CheckCubin(kernel.cubin));
        return std::to_string(kernel.registers) + "\n" + MachineCode(kernel.cubin);
      });
  for (const std::string& line : renewed.left_out) std::cout << "left out: " << line << "\n";
  std::cout << renewed.set.entries().size() << " of " << set.entries().size() << " taken\n";
  return WriteTuningFile(renewed.set, to);
}

}  // namespace
}  // namespace sinter

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: renew_set SET OLD_HEADERS OUT\n";
    return 2;
  }
  const absl::Status status = sinter::Run(argv[1], argv[2], argv[3]);
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
