// The fake driver as a library that can be opened by its path (SINTER_LIBCUDA): for tests that
// reach the driver through libsinter.so, in any language. One H200, whose memory is the host's.
#include <cstdint>

#include "tests/fakes/fake_driver.h"

namespace sinter {
namespace {

const DriverTable& Fake() {
  static FakeDriver* const fake = new FakeDriver;  // lives until the process ends
  static const DriverTable table = fake->Table();
  return table;
}

// Forward<&DriverTable::Field>::Call has that field's signature.
template <auto kField>
struct Forward;
template <typename... Arguments, CUresult (*DriverTable::*kField)(Arguments...)>
struct Forward<kField> {
  static CUresult Call(Arguments... arguments) { return (Fake().*kField)(arguments...); }
};

}  // namespace

// Each exported symbol is resolved to its Forward when the library is opened.
#define SINTER_FAKE_EXPORT(field, symbol, parameters)                            \
  extern "C" CUresult(*ResolveFake##field()) parameters {                        \
    return &Forward<&DriverTable::field>::Call;                                  \
  }                                                                              \
  extern "C" __attribute__((visibility("default"), ifunc("ResolveFake" #field))) \
  CUresult Fake##field parameters __asm__(symbol);
SINTER_DRIVER_REQUIRED(SINTER_FAKE_EXPORT)
#undef SINTER_FAKE_EXPORT

// What bindings call beside libsinter. Work ends as it is enqueued; every address is on the only
// GPU.
extern "C" {
__attribute__((visibility("default"))) CUresult cuEventQuery(CUevent) { return CUDA_SUCCESS; }
__attribute__((visibility("default"))) CUresult cuStreamWaitEvent(CUstream, CUevent, unsigned) {
  return CUDA_SUCCESS;
}
__attribute__((visibility("default"))) CUresult cuPointerGetAttribute(void* value,
                                                                      CUpointer_attribute,
                                                                      CUdeviceptr) {
  *static_cast<int*>(value) = 0;
  return CUDA_SUCCESS;
}
}

}  // namespace sinter
