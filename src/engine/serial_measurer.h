// SerialMeasurer: one caller at a time for a measurer that is not thread-safe.
#ifndef SINTER_SRC_ENGINE_SERIAL_MEASURER_H_
#define SINTER_SRC_ENGINE_SERIAL_MEASURER_H_

#include <memory>

#include "src/base/ports.h"

namespace sinter {

// Thread-safe. Self-checks, tuning and the caller's own measuring share one device; calls wait for
// one another. What is enqueued inside TimeGraph and RunAndWait must not call the measurer. Null
// gives null.
std::unique_ptr<Measurer> MakeSerialMeasurer(std::unique_ptr<Measurer> inner);

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_SERIAL_MEASURER_H_
