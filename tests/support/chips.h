// The chips that tests plan for.
#ifndef SINTER_TESTS_SUPPORT_CHIPS_H_
#define SINTER_TESTS_SUPPORT_CHIPS_H_

#include "src/base/device_model.h"

namespace sinter {

inline const DeviceModel& H200() {
  static const DeviceModel model = *BuiltinModel("h200");
  return model;
}

}  // namespace sinter

#endif  // SINTER_TESTS_SUPPORT_CHIPS_H_
