// WindowPicture: the rows of a convolution, as data to draw.
#ifndef SINTER_SRC_PLAN_PICTURE_WINDOW_PICTURE_H_
#define SINTER_SRC_PLAN_PICTURE_WINDOW_PICTURE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/plan/plan.h"

namespace sinter {

struct WindowPicture {
  PixelWindow window;
  int64_t images = 0;        // of a full bucket
  int64_t image_bytes = 0;   // of all of them
  int64_t matrix_bytes = 0;  // of all windows side by side, which no kernel stores
  int64_t step_columns = 0;  // of K, in a step

  // "3", "4-7": the K steps that load a tap; taps are counted row by row.
  std::string StepsOf(int64_t tap) const;
};

// None: the kernel's rows lie in memory as they are multiplied.
std::optional<WindowPicture> WindowPictureOf(const KernelSpec& spec);

// Lines that say what a window is, and which steps of K load which tap.
std::vector<std::string> WindowLines(const WindowPicture& picture);

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_PICTURE_WINDOW_PICTURE_H_
