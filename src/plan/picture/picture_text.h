// A kernel's picture in ASCII: its products as boxes from left to right, what they load above them,
// how the intermediate travels between them, what lies in shared memory below.
#ifndef SINTER_SRC_PLAN_PICTURE_PICTURE_TEXT_H_
#define SINTER_SRC_PLAN_PICTURE_PICTURE_TEXT_H_

#include <string>

#include "src/plan/picture/picture.h"

namespace sinter {

// At most 100 columns for two products; every line ends with a newline, none with a blank.
std::string DrawText(const KernelPicture& picture);

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_PICTURE_PICTURE_TEXT_H_
