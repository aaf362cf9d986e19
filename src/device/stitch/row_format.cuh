// RowProgram: the argument of the kernel of stitch/row_program.cuh. Plain data, the same text on
// host and device.
#pragma once

namespace sinter {

constexpr int kRowBuffers = 12;  // that a program reads and writes
constexpr int kRowViews = 20, kRowSteps = 56;
constexpr int kRowNumbers = 20;  // of a row

enum RowType : unsigned char { kRowFloat32, kRowBFloat16, kRowFloat16 };

// Elements of a buffer as rows see them: element c of row r is at base + r / inner_rows * outer +
// r % inner_rows * inner + c * column.
struct RowView {
  long long base, outer, inner, column;
  unsigned char buffer;
  RowType type;
  unsigned char vectors;  // column is 1, and 8 elements lie on 16 bytes or, of f32, on 32
  unsigned char unused[5];
};

// What a step works on.
enum RowStepKind : unsigned char {
  kRowOnValues,      // the accumulator = op(accumulator, operand)
  kRowOnNumbers,     // number `to` = op(operand, other)
  kRowReduces,       // number `to` = all of the accumulator
  kRowStores,        // the accumulator to view `index`
  kRowStoresNumber,  // the operand to view `to`
  kRowSaves          // the accumulator to slot `to`
};
enum RowOperandKind : unsigned char { kRowView, kRowSlot, kRowNumber, kRowConstant };
// Unary and binary ops of the table (src/chain/ops.def) have the numbers behind kRowUnary and
// kRowBinary.
enum RowOp : unsigned char {
  kRowLoad,  // the operand
  kRowRoundBFloat16,
  kRowRoundFloat16,
  kRowUnary,
  kRowFirstTwo = 128,  // from here on of two operands, a and b
  kRowFastDiv = kRowFirstTwo,
  kRowSubFrom,      // b - a
  kRowFastDivInto,  // b / a
  kRowDivInto,
  kRowEq,
  kRowNe,
  kRowLt,
  kRowLe,
  kRowSelect,  // a is not 0 ? operand : other
  kRowSum,     // reductions; of each element times the step's constant
  kRowLargest,
  kRowSmallest,
  kRowBinary
};

struct alignas(4) RowStep {  // the device reads it as words
  RowStepKind what;
  RowOp op;
  unsigned char to;
  RowOperandKind kind;
  unsigned char index;
  RowOperandKind other_kind;
  unsigned char other;
  unsigned char unused;
  float constant;
};

struct RowProgram {
  int columns, threads;  // of a row
  int rows_per_m, inner_rows;
  int count;  // steps
  int unused;
  RowView views[kRowViews];
  RowStep steps[kRowSteps];
};
static_assert(sizeof(RowView) == 40 && sizeof(RowStep) == 12, "the same layout everywhere");

}  // namespace sinter
