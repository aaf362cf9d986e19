// What one stream of stages takes on each level of the memory hierarchy, and how levels add up.
// Every constant is a field of DeviceModel.
#ifndef SINTER_SRC_PRODUCT_SEARCH_LEVEL_TIMES_H_
#define SINTER_SRC_PRODUCT_SEARCH_LEVEL_TIMES_H_

#include "src/base/device_model.h"
#include "src/product/schedule.h"
#include "src/product/search/product_load.h"

namespace sinter {

// Time that each level alone would take for one stream of stages, in microseconds.
struct LevelTimes {
  double hbm = 0, l2 = 0, intake = 0, shared = 0, tensor = 0;
};

// `stage_bytes`: bytes of one ring stage; the ring holds schedule.stages of them.
LevelTimes TimesOf(const ProductLoad& load, const Schedule& schedule, double stage_bytes,
                   const DeviceModel& model);

// Time of a stream whose levels work at once (stages arrive in bursts, one queue is always the
// wrong length): their 4-norm.
double Combine(const LevelTimes& levels);

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_SEARCH_LEVEL_TIMES_H_
