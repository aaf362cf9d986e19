// The installed C++ header compiles, and reaches the library.
#include <cstdio>
#include <sinter/sinter.hpp>

int main() {
  sinter::ChainBuilder builder;
  const auto chain = builder.Finish();
  std::printf("%s: %s\n", chain.status().name(), chain.status().message().c_str());
  return chain.status().code() == SINTER_FAILED_PRECONDITION ? 0 : 1;
}
