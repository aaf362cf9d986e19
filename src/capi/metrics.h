// MetricsOf: an engine's counters as Prometheus text.
#ifndef SINTER_SRC_CAPI_METRICS_H_
#define SINTER_SRC_CAPI_METRICS_H_

#include <string>

#include "src/engine/engine.h"

namespace sinter::capi {

// Format 0.0.4; docs/serving.md lists them. Thread-safe.
std::string MetricsOf(const Engine& engine);

}  // namespace sinter::capi

#endif  // SINTER_SRC_CAPI_METRICS_H_
