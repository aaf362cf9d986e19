// Where the constants of a device model come from.
#ifndef SINTER_SRC_PLAN_REPORT_MODEL_NOTES_H_
#define SINTER_SRC_PLAN_REPORT_MODEL_NOTES_H_

#include <string>
#include <vector>

#include "src/base/device_model.h"

namespace sinter {

struct ModelNote {
  std::string key;         // a field of DeviceModel, "hbm_bytes_per_us"
  std::string value;       // for people: "4.55 TB/s"
  std::string provenance;  // "measured", "fitted from h200"
  std::string source;      // "cp.async.bulk read stream into shared memory, .."
};

// One entry a number of the model, in the order of its text form. The source of a value that equals
// that of the built-in model of the same name is that file's comment, or "as the model says at its
// head" for a line without one. Any other value was given by the device or by a model file. A value
// taken over from a built-in model also has that model's comment.
std::vector<ModelNote> NotesOf(const DeviceModel& model);

// The comment at the head of the built-in model of that name; "" if there is none.
std::string HeadNoteOf(const DeviceModel& model);

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_REPORT_MODEL_NOTES_H_
