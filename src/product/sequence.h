// ProductSequence: products of which each reads the result of the one before. The one type for
// them, from the matcher to code generation; a kernel takes one product or two consecutive ones.
//   c = epilogue(a w1), or of a gate-up pair act(a w1) * (a w_up); out = epilogue(c w2); ..
#ifndef SINTER_SRC_PRODUCT_SEQUENCE_H_
#define SINTER_SRC_PRODUCT_SEQUENCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/chain/choices.h"
#include "src/product/epilogue.h"
#include "src/product/operand.h"

namespace sinter {

constexpr int kMaxProducts = 64;                      // of a sequence
constexpr int kMaxKernelProducts = 2;                 // of one kernel
constexpr int64_t kLargestExtent = int64_t{1} << 24;  // of n and k
constexpr int64_t kMostRows = int64_t{1} << 24;       // of a launch
constexpr int64_t kLargestScaleStride = int64_t{1} << 24;

// What an epilogue reads from memory besides scales of operands.
struct Leaf {
  Role role;
  LeafKind kind = LeafKind::kColumn;
  int input = -1;  // of the program's body
  DType element = DType::kF32;
};

// Rows times one weight matrix, or a gate-up pair of them.
struct MatrixProduct {
  int64_t n = 0, k = 0;  // columns of the result, and of the rows
  bool k_is_m = false;   // k is a launch's M, at most so many; of transposed rows
  bool pair = false;     // two weight matrices of one shape: gate and up
  Operand rows, weights;
  ProductEpilogue epilogue;
  DType result = DType::kBF16;                    // element of the result, in memory or on chip
  Accumulate accumulate = Accumulate::kPromoted;  // kFast: only of e4m3 operands

  int Width() const { return pair ? 2 : 1; }  // weight matrices
  // Whether the rows lie in memory as columns: [k, rows].
  bool HasTransposedRows() const { return rows.layout == Layout::kIO; }
  // Whether the epilogue's program reads a number of each row that is not a factor of the product.
  bool ReadsRow() const {
    return epilogue.program.Reads(LeafKind::kRow) && !epilogue.factor().has_value();
  }
  // Whether accumulators are multiplied before the bias, by the epilogue or by scales of operands,
  // or a program reads what they might be.
  bool scaled() const {
    return epilogue.scaled() || ReadsRow() || rows.scales.kind != ScaleKind::kNone ||
           weights.scales.kind != ScaleKind::kNone;
  }
  // K as stages hold it. The K of a window has zeros after each tap's channels.
  int64_t StagedK() const {
    return rows.source == Source::kWindow ? rows.window.StagedColumns() : k;
  }
  int64_t ResultBytes() const { return SizeOf(result); }  // of an element
  int64_t WeightBytes() const { return Width() * n * k * weights.bytes(); }
  // Whether results are codes, with scales of 128 columns that the kernel stores too.
  bool HasGroups() const { return epilogue.has_groups(); }
  // Whether weights of 16 bits have a scale of each column, as a folded batch norm has.
  bool HasColumnScales() const {
    return !IsCode(weights.element) && weights.scales.kind == ScaleKind::kVector;
  }
  // Whether accumulators are multiplied by a number of their column, or by one of the weights.
  bool HasColumnFactors() const {
    return weights.scales.kind == ScaleKind::kVector || weights.scales.kind == ScaleKind::kTensor;
  }
  int AuxResults() const { return epilogue.program.aux_results(); }
  // The columns of one group of a convolution.
  int64_t GroupColumns() const { return n / rows.window.conv.groups; }
  // The columns of the bundle of groups that a tile lies in; 0 if there are no groups.
  int64_t BundleColumns() const {
    return rows.window.grouped() ? rows.window.Bundle() * GroupColumns() : 0;
  }
  // In the order of a kernel's operands, under the names that they have in product `number` of it.
  std::vector<Leaf> Leaves(int number = 0) const;
  // Vectors of columns that the epilogue reads: scales and leaves.
  int ColumnTerms() const;
  // Whether sums over 128 of K have scales of their own.
  bool HasBlockScales() const {
    return rows.scales.kind == ScaleKind::kBlock || weights.scales.kind == ScaleKind::kBlock;
  }
  SINTER_FIELDS(MatrixProduct, n, k, pair, accumulate, k_is_m, rows, weights, epilogue, result);
};

// The row of the product's operands, as it sums them: not promoted if sums are fast.
ElementRow ElementOf(const MatrixProduct& product);

struct ProductSequence {
  int64_t m = 0;           // the largest M that it is planned for
  int64_t rows_per_m = 1;  // for an image: its pixels, where M is the batch
  std::vector<MatrixProduct> products;

  int size() const { return static_cast<int>(products.size()); }
  const MatrixProduct& operator[](int i) const { return products[static_cast<size_t>(i)]; }
  MatrixProduct& operator[](int i) { return products[static_cast<size_t>(i)]; }
  const MatrixProduct& front() const { return products.front(); }
  const MatrixProduct& back() const { return products.back(); }

  const char* Kind() const;  // of problem that asks for it: "product", "gated_ffn", ..
  int64_t rows() const { return m * rows_per_m; }
  Layout layout() const { return front().weights.layout; }  // of all weights
  // The dtype of all operands; of all results too, unless operands have 8 bits.
  DType element() const { return front().rows.element; }
  bool scaled() const;  // whether any product's accumulators are, by its epilogue or by scales
  int64_t WeightBytes() const;
  double Flop(int64_t m) const;

  // Products [begin, begin + count), with rows from memory.
  ProductSequence Part(int begin, int count) const;
  // Versioned bytes without m: part of kernel keys.
  std::string Canonical() const;
  // Decodes such bytes, with m 0: a sequence that CheckSequence accepts for any m. DATA_LOSS for
  // other bytes.
  static absl::StatusOr<ProductSequence> FromCanonical(absl::string_view bytes);
  // One line: "gated_ffn m<=128 n=3072 k=1024 l=1024 act=silu layout=oi dtype=bf16"; without m<=
  // where m is 0.
  std::string ToString() const;
  SINTER_FIELDS(ProductSequence, m, rows_per_m, products);
};

// Whether any product's epilogue has a program that code generation writes.
bool HasPrograms(const ProductSequence& sequence);

// Whether any product computes the norm of its rows.
bool HasNorm(const ProductSequence& sequence);

// OK, or why no kernel can take the whole sequence: sizes, elements, epilogues, and rows of a
// multiple of 16 bytes, as tensor maps need (oi: k; io: k, unless rows are transposed, and n).
absl::Status CheckSequence(const ProductSequence& sequence);

// Canonical bytes of a quantiser's rule.

// Whether one kernel may take products `first` and `first` + 1: the first has no residual and is
// not a grouped convolution, and the second is not a pair. Neither computes its rows' norm or
// stores auxiliary results, and no rows are transposed.
bool CanPair(const ProductSequence& sequence, int first);

// RoleShape: the shape and element of the matrix or vector with a role.

struct RoleShape {
  int64_t rows = 0;        // in memory; 0: a vector of columns
  int64_t columns = 0;     // 0 for parts, whose size depends on the schedule
  bool of_launch = false;  // one row for each row of the launch; `rows` is the maximum
  DType element = DType::kBF16;
  int64_t rows_per_m = 1;     // of_launch: that many for each M
  int64_t column_stride = 1;  // elements between columns, for each M of a launch where `of_m`
  bool of_m = false;
  bool of_k = false;  // one row for each K of the launch, which is its M; `rows` is the maximum

  int64_t RowBytes() const { return columns * SizeOf(element); }
};

RoleShape ShapeOf(const ProductSequence& sequence, Role role);
// Elements between the rows of a scale; 0 where it is a vector of columns, or one number.
int64_t ScaleRowStride(const ProductSequence& sequence, Role role);

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_SEQUENCE_H_
