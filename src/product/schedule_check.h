// CheckSchedule for searches, which ask of thousands of schedules and once of their sequence.
#ifndef SINTER_SRC_PRODUCT_SCHEDULE_CHECK_H_
#define SINTER_SRC_PRODUCT_SCHEDULE_CHECK_H_

#include "absl/status/status.h"
#include "src/base/device_model.h"
#include "src/product/schedule.h"

namespace sinter {

// CheckSchedule of a sequence that CheckSequence accepts.
absl::Status CheckScheduleAlone(const ProductSequence& sequence, const Schedule& schedule,
                                const DeviceModel& model);

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_SCHEDULE_CHECK_H_
