// What of a cubin the GPU runs.
#pragma once

#include "tests/support/common.h"

namespace sinter {

// Names and bytes of a cubin's sections of instructions (.text.*) and of the constants that they
// read. Left out are symbols: a constexpr of the source leaves one even when no instruction reads
// it. `cubin` must have passed CheckCubin.
std::string MachineCode(absl::string_view cubin);

}  // namespace sinter
