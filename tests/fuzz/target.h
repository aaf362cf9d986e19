// A fuzz target has a namespace of its own and one function. In the target's own program that is
// libFuzzer's entry point, in the program that replays all corpora `Target`:
//   namespace sinter::cubin_fuzz {
//   SINTER_FUZZ_TARGET(const uint8_t* data, size_t size) { .. }
//   }
#pragma once

#ifdef SINTER_LIBFUZZER
#define SINTER_FUZZ_TARGET extern "C" int LLVMFuzzerTestOneInput
#else
#define SINTER_FUZZ_TARGET int Target
#endif
