// What a results file says about where and from what it came.
#pragma once

#include <string>

#include "src/base/config.h"

namespace sinter::bench {

struct Machine {
  std::string gpu, driver, host_cpu, date;  // date: 2026-11-21T05:00:00Z
  std::string cuda;                         // that the driver supports: "13.0"
  int sm_count = 0, cores = 0;
  double clock_mhz = 0;
};

Machine DescribeMachine(const Config& config, int ordinal);

}  // namespace sinter::bench
