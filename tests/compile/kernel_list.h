// KernelList: the kernels of a program that are known to compile, as a committed file.
#pragma once

#include "src/base/compile_request.h"
#include "tests/support/common.h"

namespace sinter::testing {

// The lines of a source that the compiler reads for a capability such as 90: none that is blank or
// a comment, and of "#if __CUDA_ARCH__ >= 900" only the branch of that capability.
std::string CodeFor(int capability, absl::string_view text);

// 16 hex digits of the SHA-256 of what the compiler gets of a request: source, the headers of the
// device library that it reaches, as CodeFor reads both, options, arch, entry and the bound on
// spills. `request.headers` are the embedded ones.
std::string KernelDigest(const CompileRequest& request);

// What a list is of, a line each: the toolchain, and the options that the compiler port adds.
std::string ListedCompiler(const std::string& toolchain);

// The file has ListedCompiler, then a digest a line, sorted. Thread-safe.
class KernelList {
 public:
  // A file that is missing, or of another compiler, knows no kernel.
  KernelList(std::string path, const std::string& toolchain);

  bool Knows(const std::string& digest) const { return known_.count(digest) > 0; }
  // The kernel compiled, or is known to.
  void Add(const std::string& digest);
  // Writes what was added. `beside`: and what the file knew.
  void Write(bool beside);

  const std::string& path() const { return path_; }

 private:
  const std::string path_, compiler_;
  std::set<std::string> known_;
  std::mutex mutex_;
  std::set<std::string> added_;
};

}  // namespace sinter::testing
