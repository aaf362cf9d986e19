// The fake's functions, one per row of the driver table. Each runs under the fake's lock.
#pragma once

#include "tests/fakes/fake_driver.h"

namespace sinter {

struct FakeCalls {
  FakeDriver& f;
#define SINTER_FAKE_METHOD(field, symbol, parameters) CUresult field parameters;
  SINTER_DRIVER_REQUIRED(SINTER_FAKE_METHOD)
  SINTER_DRIVER_OPTIONAL(SINTER_FAKE_METHOD)
#undef SINTER_FAKE_METHOD

  static CUresult EnterCall(FakeDriver& fake, int function) { return fake.Enter(function); }
  static std::recursive_mutex& Mutex(FakeDriver& fake) { return fake.mutex_; }
};

template <typename Handle>
uintptr_t IdOf(Handle handle) {
  return reinterpret_cast<uintptr_t>(handle);
}

template <typename Handle>
Handle HandleOf(uintptr_t id) {
  return reinterpret_cast<Handle>(id);
}

}  // namespace sinter
