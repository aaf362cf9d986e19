// The machine's im2col loads, as docs/lab/im2col.md saw the device's.
#include "tests/unit/device/tile_runs.h"

namespace sinter {
namespace {

// 5 x 4 pixels of 72 channels under a filter of 3 x 2 taps and stride 2: 3 x 3 first taps.
Images SmallImages() {
  Images images;
  images.count = 2, images.height = 5, images.width = 4, images.channels = 72;
  images.lower[0] = -1, images.lower[1] = -1;  // pads of 1
  images.upper[0] = 0, images.upper[1] = -1;
  images.strides[0] = images.strides[1] = 2;
  images.box_pixels = 8;
  images.data = TestMatrix(2 * 5 * 4, 72, 3).data;
  return images;
}

u16 Loaded(int row, int column) {
  return machine.Load<u16>(hardware::TmaAddress(kBase, row, column));
}

void LoadFrom(const Images& images, int channel, WindowStart at, u16 tap_x, u16 tap_y) {
  machine.Reset(1);
  const TensorMap map{nullptr, &images};
  tma_load_window(kBase, &map, channel, at, tap_x, tap_y, kBarriers);
}

TEST(Im2colLoads, WalkFirstTapsAlongXThenYThenImages) {
  const Images images = SmallImages();
  LoadFrom(images, 0, {1, 3, 0}, 1, 2);  // the last place but one of the first image
  const int places[8][3] = {{0, 5, 2}, {0, 5, 4}, {1, 1, 0}, {1, 1, 2},
                            {1, 1, 4}, {1, 3, 0}, {1, 3, 2}, {1, 3, 4}};
  for (int row = 0; row < 8; ++row) {
    for (int c = 0; c < 64; ++c) {
      const auto [n, y, x] = places[row];
      ASSERT_EQ(Loaded(row, c), images.At(n, y, x, c)) << row << ", " << c;
    }
  }
  EXPECT_EQ(machine.Barrier(kBarriers).arrived, 8 * 128) << "padding counts as bytes";
}

TEST(Im2colLoads, GiveZerosBehindTheChannelsAndTheImages) {
  const Images images = SmallImages();
  LoadFrom(images, 64, {-1, 1, 0}, 1, 0);
  EXPECT_EQ(Loaded(0, 7), images.At(0, 1, 0, 71));
  for (int c = 8; c < 64; ++c) ASSERT_EQ(Loaded(0, c), 0);
  for (const auto& [channel, image] : {std::pair(0, 2), {0, 7}, {0, -1}, {72, 0}, {128, 0}}) {
    LoadFrom(images, channel, {-1, -1, image}, 1, 1);
    for (int row = 0; row < 4; ++row) ASSERT_EQ(Loaded(row, 0), 0) << channel << ", " << image;
  }
}

TEST(Im2colLoads, FaultWhereTheDeviceDoes) {
  const Images images = SmallImages();
  const WindowStart outside[] = {{-2, 0, 0}, {4, 0, 0}, {0, -2, 0}, {0, 4, 0}, {4, 0, 2}};
  for (const WindowStart at : outside)
    EXPECT_THROW(LoadFrom(images, 0, at, 0, 0), std::runtime_error) << at.x << ", " << at.y;
  EXPECT_NO_THROW(LoadFrom(images, 0, {3, 3, 5}, 0, 0));
  EXPECT_NO_THROW(LoadFrom(images, 0, {0, 0, 0}, 255, 255));
  EXPECT_THROW(LoadFrom(images, 0, {0, 0, 0}, 256, 0), std::runtime_error);
  EXPECT_THROW(LoadFrom(images, 0, {0, 0, 0}, 0, 256), std::runtime_error);
}

}  // namespace
}  // namespace sinter
