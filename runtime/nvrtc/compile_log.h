// What a compile log says: registers, spills and remarks that make a kernel unusable.
#ifndef SINTER_RUNTIME_NVRTC_COMPILE_LOG_H_
#define SINTER_RUNTIME_NVRTC_COMPILE_LOG_H_

#include <string>

#include "absl/strings/string_view.h"

namespace sinter {

struct CompileLogFacts {
  int registers = 0;          // per thread, the most of any function; 0 when the log does not say
  int spill_store_bytes = 0;  // summed over functions
  int spill_load_bytes = 0;
  std::string remark;  // the first line with a C75xx code, "" when there is none
  std::string error;   // the first line that reports an error, "" when there is none
};

// Reads NVRTC's log of a compile with --ptxas-options=-v. C75xx are ptxas's notes that wgmma was
// serialised or setmaxnreg ignored: the code is right and slow.
CompileLogFacts ReadCompileLog(absl::string_view log);

}  // namespace sinter

#endif  // SINTER_RUNTIME_NVRTC_COMPILE_LOG_H_
