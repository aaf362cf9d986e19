// Canonical bytes of sequences.
#include <cstring>

#include "src/base/codec.h"
#include "src/product/sequence.h"

namespace sinter {
namespace {

constexpr uint8_t kCanonicalVersion = 4;

void WriteOperand(const Operand& o, ByteWriter& w) {
  w.U32(static_cast<uint32_t>(o.element));
  w.U32(static_cast<uint32_t>(o.layout));
  w.U8(static_cast<uint8_t>(o.scales.kind));
  w.I64(o.scales.block_rows);
  w.I64(o.scales.block_columns);
  w.U8(static_cast<uint8_t>(o.source));
}

void WriteEpilogue(const EpilogueList& epilogue, ByteWriter& w) {
  w.U32(static_cast<uint32_t>(epilogue.steps.size()));
  for (const EpilogueStep& step : epilogue.steps) {
    uint32_t scale;
    std::memcpy(&scale, &step.scale, sizeof scale);
    w.U8(static_cast<uint8_t>(step.op));
    w.U32(scale);
    w.U32(static_cast<uint32_t>(step.activation));
    w.U32(static_cast<uint32_t>(step.element));
  }
}

}  // namespace

std::string ProductSequence::Canonical() const {
  ByteWriter w;
  w.U8(kCanonicalVersion);
  w.U32(static_cast<uint32_t>(size()));
  w.I64(rows_per_m);
  for (const MatrixProduct& p : products) {
    w.I64(p.n);
    w.I64(p.k);
    w.U8(p.pair);
    WriteOperand(p.rows, w);
    WriteOperand(p.weights, w);
    WriteEpilogue(p.epilogue, w);
    w.U32(static_cast<uint32_t>(p.result));
  }
  return w.Take();
}

}  // namespace sinter
