// CompileRequest: everything the runtime compiler sees, so that equal requests give equal binaries.
#ifndef SINTER_SRC_BASE_COMPILE_REQUEST_H_
#define SINTER_SRC_BASE_COMPILE_REQUEST_H_

#include <string>
#include <utility>
#include <vector>

namespace sinter {

struct CompileRequest {
  std::string name;  // for logs and NVRTC's file name: "chain_ffn_s8.cu"; no path
  std::string source;
  std::vector<std::pair<std::string, std::string>> headers;  // (include name, bytes), in memory
  std::vector<std::string> options;                          // without the arch
  std::string arch;                                          // "sm_90a"
  std::string entry;                                         // extern "C" kernel name
  // The kernel is refused if it spills more bytes of registers than this, stores and loads added.
  // The limit does not change the binary.
  int most_spill_bytes = 0;
  // The oldest NVRTC that compiles the kernel well: 1209 is 12.9, 0 is any. Older ones are not
  // used.
  int least_nvrtc = 0;
};

struct CompiledKernel {
  std::string cubin;
  std::string log;  // compiler's remarks, also on success
  double compile_us = 0;
  int registers = 0;  // per thread, parsed from the log; 0 when unknown
  int spill_bytes = 0;
};

}  // namespace sinter

#endif  // SINTER_SRC_BASE_COMPILE_REQUEST_H_
