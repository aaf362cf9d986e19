// KernelPicture: what one kernel does, as data to draw: its products and their tiles, how the
// intermediate reaches the next product, a block's shared memory. Drawn as text (picture_text.h)
// and as SVG (picture_svg.h). The drawings know no dataflow: its row (src/product/dataflow) has all
// that is special about it.
#ifndef SINTER_SRC_PLAN_PICTURE_PICTURE_H_
#define SINTER_SRC_PLAN_PICTURE_PICTURE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "src/plan/picture/window_picture.h"
#include "src/plan/plan.h"
#include "src/product/dataflow/dataflow.h"

namespace sinter {

struct MatrixPicture {
  Role role = Role::kA;
  int64_t rows = 0, columns = 0, bytes = 0;
};

struct ProductPicture {
  std::string formula;  // "c = silu(a w1) * (a w_up)"
  MatrixPicture result;
  std::vector<MatrixPicture> operands;  // loaded by the product: rows (unless they are handed over
                                        // inside the cluster), then weights
  std::string operands_from;            // "HBM", "L2 and HBM"
  int64_t tile_rows = 0, tile_columns = 0, k = 0;
  int width = 1;               // weight matrices side by side
  bool apart = false;          // with two matrices: gate in one block, up in its neighbour
  int split_k = 1;             // blocks that share a tile's K and add their sums through DSM
  int clusters = 1;            // clusters that share a tile's K and add their sums through L2
  Share share = Share::kNone;  // the operand that two blocks with neighbouring tiles load together
  int64_t row_tiles = 0, column_tiles = 0;
  int64_t turns = 1;  // tiles that a group of blocks takes one after another
};

// "K 3072", "K 3072 over 4 blocks (DSM)".
std::string SplitText(const ProductPicture& product);

struct HandOver {
  Medium medium = Medium::kNone;   // through which c goes
  std::vector<std::string> lines;  // "24 KiB to each of 15", "dsm_shuffle"
};

struct SharedPart {
  absl::string_view name;  // "ring", "c", "partial sums", "other"
  int64_t bytes = 0;       // of one block
  int64_t count = 1;
};

struct KernelPicture {
  const DataflowRow* row = nullptr;
  std::vector<ProductPicture> products;
  std::optional<WindowPicture> window;  // of the first product's rows
  std::vector<HandOver> hand_overs;     // one between consecutive products
  std::string result_to;                // "HBM", or "L2" when another kernel of the plan reads it
  int64_t blocks = 0, cluster = 1;
  int64_t ranges = 1;  // clusters that share a row tile, by ranges of N
  int warpgroups_m = 1, warpgroups_n = 1;
  int stages = 0;
  int64_t stage_bytes = 0;
  std::vector<SharedPart> shared;  // adds up to shared_bytes
  int64_t shared_bytes = 0;

  int64_t Clusters() const { return cluster > 0 ? blocks / cluster : 0; }
};

// Precondition: CheckScheduleFields(spec.sequence, spec.schedule) is OK.
KernelPicture PictureOf(const KernelSpec& spec);

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_PICTURE_PICTURE_H_
