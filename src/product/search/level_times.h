// The time of one stream of stages on each level of the memory hierarchy, and how levels combine.
// Every constant is a field of DeviceModel.
#ifndef SINTER_SRC_PRODUCT_SEARCH_LEVEL_TIMES_H_
#define SINTER_SRC_PRODUCT_SEARCH_LEVEL_TIMES_H_

#include "src/base/device_model.h"
#include "src/product/schedule.h"
#include "src/product/search/product_load.h"

namespace sinter {

// Time of one stream of stages on each level alone, in microseconds.
struct LevelTimes {
  double hbm = 0, l2 = 0, intake = 0, shared = 0, tensor = 0;
};

// `stage_bytes`: bytes of one ring stage; the ring holds schedule.stages of them.
LevelTimes TimesOf(const ProductLoad& load, const Schedule& schedule, double stage_bytes,
                   const DeviceModel& model);

// Time of a stream whose levels work at once: their 4-norm, because stages arrive in bursts.
double Combine(const LevelTimes& levels);

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_SEARCH_LEVEL_TIMES_H_
