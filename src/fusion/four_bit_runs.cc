// Products of a chain whose weights are unpacked from four bits, as runs of the family that unpacks
// them itself.
#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "src/base/status.h"
#include "src/chain/builder.h"
#include "src/chain/chain.h"
#include "src/chain/composites_four_bits.h"
#include "src/chain/linear_finder.h"
#include "src/fusion/product_runs.h"
#include "src/fusion/stitch/stitch_graph.h"
#include "src/plan/four_bit_family.h"

namespace sinter {
namespace {

constexpr size_t kMostUnpackingOps = 64;  // of weights that are unpacked

// A matrix of the chain that is unpacked from inputs.
struct FoundWeights {
  FourBitWeights format;
  ValueId bytes = -1, scale = -1, zero = -1;  // zero: -1 of a constant
  std::set<ValueId> values;                   // that unpack it
};

class WeightsFinder {
 public:
  explicit WeightsFinder(const Chain& chain) : chain_(chain), graph_(chain) {}

  // `value`, [n, k] of 16 bits, as such a matrix.
  std::optional<FoundWeights> Find(ValueId value) {
    const Op& cast = chain_.op(value);
    if (cast.kind != OpKind::kCast || cast.type.rank() != 2 || !Collect(value)) return std::nullopt;
    dtype_ = cast.type.dtype;
    for (const bool e2m1 : {false, true}) {
      for (const ValueId scale : floats_) {
        found_.scale = scale;
        found_.format.e2m1 = e2m1;
        found_.zero = -1;
        if (e2m1) {
          if (Matches(value, FourBitZero::kConstant, 0)) return Finished(value);
          continue;
        }
        for (const double number : numbers_) {
          if (Matches(value, FourBitZero::kConstant, number)) return Finished(value);
        }
        for (const ValueId zero : floats_) {
          found_.zero = zero;
          const bool one = chain_.op(zero).type.rank() == 0;
          if (Matches(value, one ? FourBitZero::kNumber : FourBitZero::kGroups, 0)) {
            return Finished(value);
          }
        }
      }
    }
    return std::nullopt;
  }

 private:
  // The inputs and numbers below `value`, and what leads to it. False where it may be no such
  // matrix.
  bool Collect(ValueId value) {
    found_ = FoundWeights();
    floats_.clear();
    numbers_.clear();
    std::vector<ValueId> open = {value};
    while (!open.empty()) {
      const ValueId id = open.back();
      open.pop_back();
      const Op& op = chain_.op(id);
      if (op.kind == OpKind::kScalar) {
        numbers_.insert(op.scalar);
      } else if (op.kind != OpKind::kInput) {
        if (!found_.values.insert(id).second) continue;
        if (found_.values.size() > kMostUnpackingOps) return false;
        open.insert(open.end(), op.operands.begin(), op.operands.end());
      } else if (op.type.dtype == DType::kS8) {
        if (found_.bytes >= 0 && found_.bytes != id) return false;
        found_.bytes = id;
      } else {
        if (!IsFloat(op.type.dtype)) return false;
        floats_.insert(id);
      }
    }
    return found_.bytes >= 0 && floats_.size() <= 2;
  }

  absl::StatusOr<Chain> Pattern(FourBitZero kind, double number) const {
    const auto type = [&](ValueId id) { return chain_.op(id).type; };
    ChainBuilder b;
    SINTER_ASSIGN_OR_RETURN(const ValueId bytes, b.Input(type(found_.bytes)));
    SINTER_ASSIGN_OR_RETURN(const ValueId scale, b.Input(type(found_.scale)));
    absl::StatusOr<ValueId> wide;
    if (found_.format.e2m1) {
      wide = AddDequantizeE2M1(b, bytes, scale);
    } else {
      SINTER_ASSIGN_OR_RETURN(const ValueId zero, kind == FourBitZero::kConstant
                                                      ? b.Scalar(number)
                                                      : b.Input(type(found_.zero)));
      wide = AddDequantizeU4(b, bytes, scale, zero);
    }
    SINTER_RETURN_IF_ERROR(wide.status());
    SINTER_ASSIGN_OR_RETURN(const ValueId value, b.Cast(*wide, dtype_));
    SINTER_RETURN_IF_ERROR(b.Output(value));
    return b.Finish();
  }

  // Whether the composite of these operands computes `value`.
  bool Matches(ValueId value, FourBitZero kind, double number) {
    const absl::StatusOr<Chain> pattern = Pattern(kind, number);
    if (!pattern.ok()) return false;
    found_.format.zero = kind;
    found_.format.zero_value = number;
    std::vector<ValueId> want = {found_.bytes, found_.scale};
    if (found_.zero >= 0) want.push_back(found_.zero);
    const std::vector<int32_t> canonical = pattern->CallerOrder();
    return MatchPattern(
        graph_, value, *pattern,
        [&](const std::vector<ValueId>& bound) {
          for (size_t i = 0; i < want.size(); ++i) {
            if (bound[static_cast<size_t>(canonical[i])] != want[i]) return false;
          }
          return true;
        },
        true);
  }

  // With what follows from the operands; none where they lie in another way than kernels read.
  std::optional<FoundWeights> Finished(ValueId value) {
    const auto lies = [&](ValueId id) -> int64_t {  // elements between rows; -1: in another way
      const std::vector<Stride>& strides = chain_.op(id).strides;
      const bool constant = strides[0].m_power == 0 && strides[1].m_power == 0;
      const bool one = chain_.op(id).type.dims[1] == Dim::Constant(1);
      return constant && (one || strides[1].value == 1) ? strides[0].value : -1;
    };
    FourBitWeights& w = found_.format;
    const Op& scale = chain_.op(found_.scale);
    w.group = chain_.op(value).type.dims[1].value / scale.type.dims[1].value;
    w.scale = scale.type.dtype;
    w.byte_stride = lies(found_.bytes);
    w.scale_stride = lies(found_.scale);
    w.constant = chain_.op(found_.bytes).constant && scale.constant;
    w.zero_type = w.scale;
    if (found_.zero >= 0) {
      const Op& zero = chain_.op(found_.zero);
      w.zero_type = zero.type.dtype;
      w.constant = w.constant && zero.constant;
      if (w.zero == FourBitZero::kGroups) w.zero_stride = lies(found_.zero);
    }
    if (w.byte_stride < 0 || w.scale_stride < 0 || w.zero_stride < 0) return std::nullopt;
    return found_;
  }

  const Chain& chain_;
  const Subgraph graph_;
  DType dtype_ = DType::kBF16;  // of the matrix
  FoundWeights found_;
  std::set<ValueId> floats_;
  std::set<double> numbers_;
};

std::string NoteOfFourBits(const FourBitProduct& p) {
  std::string text = p.product.pair ? "gated pair" : "product";
  text += p.weights.e2m1 ? " of e2m1" : " of u4";
  if (p.product.epilogue.program.present()) {
    text += " + " + sinter::ToString(p.product.epilogue.program);
  }
  return text;
}

}  // namespace

bool MayHaveFourBits(const Chain& chain) {
  return std::any_of(chain.ops().begin(), chain.ops().end(), [](const Op& op) {
    return op.kind == OpKind::kInput && op.type.dtype == DType::kS8 && op.type.rank() == 2;
  });
}

absl::StatusOr<GraphRun> FourBitRunOf(const Chain& chain, const Users& users,
                                      const std::vector<bool>& claimed, const GraphRun& run) {
  const MatchedSequence& matched = run.matched;
  if (matched.size() != 1 || !run.aux.empty() || run.scale >= 0) {
    return absl::NotFoundError("not one result of one product");
  }
  const ProductInputs& in = matched.InputsOf(0);
  FourBitProduct p;
  p.product = matched.sequence[0];
  p.fixed_rows = run.constant_rows ? matched.sequence.rows() : 0;
  p.row_stride = matched.rows_stride;
  p.residual_stride = in.residual_stride;
  p.out_stride = matched.output_stride;
  WeightsFinder finder(chain);
  std::vector<FoundWeights> all;
  for (const int number : {in.weights, in.weights_up}) {
    if (number < 0) continue;
    std::optional<FoundWeights> found = finder.Find(matched.ValueOf(number));
    if (!found.has_value()) return absl::NotFoundError("other weights");
    if (!all.empty() && found->format != all.front().format) {
      return absl::NotFoundError("gate and up of two formats");
    }
    all.push_back(*std::move(found));
  }
  p.weights = all.front().format;
  SINTER_RETURN_IF_ERROR(CheckFourBitProduct(p));

  std::set<ValueId> values(run.values.begin(), run.values.end());
  for (const FoundWeights& w : all) values.insert(w.values.begin(), w.values.end());
  for (const ValueId value : values) {
    const bool apart = value == run.end || users.AreAmong(values, value);
    if (!apart || claimed[static_cast<size_t>(value)]) {
      return absl::NotFoundError("others read the unpacked weights");
    }
  }
  OwnRun own;
  own.family = &FourBitFamily();
  own.result = p.product.result;
  own.text = NoteOfFourBits(p);
  own.operands.push_back({matched.ValueOf(matched.rows)});
  for (ValueId FoundWeights::*of :
       {&FoundWeights::bytes, &FoundWeights::scale, &FoundWeights::zero}) {
    for (const FoundWeights& w : all) {
      if (w.*of >= 0) own.operands.push_back({w.*of});
    }
  }
  for (const int input : p.product.epilogue.program.OperandInputs()) {
    own.operands.push_back({matched.ValueOf(in.leaves[static_cast<size_t>(input)])});
  }
  own.problem = MakeBody(std::move(p));
  return MakeOwnRun(chain, std::move(own), {values.begin(), values.end()}, run);
}

}  // namespace sinter
