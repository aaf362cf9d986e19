// FakeNvrtc: a compiler library that answers from its source text.
#pragma once

#include "runtime/nvrtc/nvrtc_library.h"
#include "tests/support/common.h"

namespace sinter {

// Lines of a source that the fake obeys:
//   //log TEXT    appends a line to the log
//   //kernel NAME puts a kernel of that name into the cubin
//   //fail        refuses the source
//   //hang        compiles until the flow callback ends it, or for kFakeHangMs
// Other text is ignored. Stateless and thread-safe.
constexpr int kFakeHangMs = 3000;
std::shared_ptr<const NvrtcLibrary> FakeNvrtc(const std::string& toolchain = "nvrtc-13.0-fake");
// As before NVRTC 13: without a flow callback.
std::shared_ptr<const NvrtcLibrary> FakeNvrtcWithoutFlow();

}  // namespace sinter
