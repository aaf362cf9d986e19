// A kernel's picture in ASCII: its products as boxes from left to right, their operands above, the
// transfer of the intermediate between them, shared memory below.
#ifndef SINTER_SRC_PLAN_PICTURE_PICTURE_TEXT_H_
#define SINTER_SRC_PLAN_PICTURE_PICTURE_TEXT_H_

#include <string>

#include "src/plan/picture/picture.h"

namespace sinter {

// At most 100 columns for two products. Every line ends with a newline and without trailing blanks.
std::string DrawText(const KernelPicture& picture);

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_PICTURE_PICTURE_TEXT_H_
