// Which reader an input is for: the one that its first byte selects, or the one that the command
// line names. `TARGET --reader=N` keeps a whole run on one of them, so that each can have its own
// time. libFuzzer ignores arguments with two dashes. Include it in one source of a target.
#pragma once

#include "tests/support/common.h"

namespace {

int only_reader = -1;  // negative: the first byte says

int ReaderOf(uint8_t first, int readers) {
  return (only_reader < 0 ? first : only_reader) % readers;
}

}  // namespace

#ifdef SINTER_LIBFUZZER
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  constexpr char kFlag[] = "--reader=";
  for (int i = 1; i < *argc; ++i) {
    if (std::strncmp((*argv)[i], kFlag, sizeof(kFlag) - 1) == 0) {
      only_reader = std::atoi((*argv)[i] + sizeof(kFlag) - 1);
    }
  }
  return 0;
}
#endif  // SINTER_LIBFUZZER
