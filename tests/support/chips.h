// The chips that tests plan for.
#pragma once

#include "src/base/device_model.h"

namespace sinter {

inline const DeviceModel& H200() {
  static const DeviceModel model = *BuiltinModel("h200");
  return model;
}

}  // namespace sinter
