#include "tests/support/recipes/touches.h"

#include "src/plan/attention_family.h"
#include "src/plan/collective_family.h"
#include "src/plan/grouped_family.h"
#include "src/plan/kernel_code.h"
#include "src/plan/mma_family.h"
#include "src/plan/product_family.h"
#include "src/product/code/kernel_source.h"
#include "src/stitch/sizes.h"

namespace sinter::testing {
namespace {

using Kind = Touch::Kind;

struct Digit {
  int64_t extent = 1, stride = 0;  // in elements
};

class Lister {
 public:
  Lister(const KernelSpec& spec, const LaunchRecipe& recipe, const Pass& pass)
      : spec_(spec), recipe_(recipe), pass_(pass) {}

  std::vector<Touch> Run() {
    if (StitchOf(spec_) != nullptr) {
      Stitched(*StitchOf(spec_));
    } else if (HasProducts(spec_)) {
      Products();
    } else if (spec_.family == &AttentionFamily()) {
      Attention(AttentionKernels::ProblemOf(spec_));
    } else if (spec_.family == &GroupedFamily()) {
      Grouped(GroupedKernels::ProblemOf(spec_));
    } else if (spec_.family == &MmaFamily()) {
      Mma(MmaKernels::ProblemOf(spec_));
    } else if (spec_.family == &CollectiveFamily()) {
      Collective(CollectiveKernels::ProblemOf(spec_), CollectiveKernels::ScheduleOf(spec_));
    }
    return std::move(touches_);
  }

 private:
  // The next argument of the recipe.
  const ArgSlot& Next() { return recipe_.args[arg_++]; }

  // What the pointer `slot` points to in this pass: its row offset counts rows of M as the recipe
  // does.
  void Pointer(std::string what, const ArgSlot& slot, Kind kind, DType dtype,
               const std::vector<Digit>& digits) {
    const int64_t element = SizeOf(dtype);
    const int64_t moved = slot.int_value * pass_.first_row * recipe_.rows_per_m;
    AddressSet bytes(static_cast<int64_t>(slot.offset_bytes) + moved, element);
    for (const Digit& digit : digits) bytes.Repeat(digit.extent, digit.stride * element);
    touches_.push_back({std::move(what), kind, slot.index, element, std::move(bytes)});
  }

  void Map(std::string what, const ArgSlot& slot, Kind kind = Kind::kRead) {
    const TensorMapTemplate& map = recipe_.tensor_maps[static_cast<size_t>(slot.index)];
    const int64_t element = SizeOf(map.dtype);
    const int64_t unit = map.walk.has_value() ? 1 : recipe_.rows_per_m;
    int64_t first = static_cast<int64_t>(map.offset_bytes);
    std::vector<Digit> digits;
    for (size_t i = 0; i < map.dims.size(); ++i) {
      const int64_t stride = i == 0 ? element : static_cast<int64_t>(map.stride_bytes[i - 1]);
      digits.push_back({map.dims[i].At(pass_.m * unit), stride});
      const bool moves = map.dims[i].symbolic && map.buffer != kWorkspaceBuffer;
      if (moves) first += stride * unit * pass_.first_row;
    }
    AddressSet bytes(first, element);
    for (const Digit& digit : digits) bytes.Repeat(digit.extent, digit.stride);
    touches_.push_back({std::move(what), kind, map.buffer, element, std::move(bytes)});
  }

  // ---- products

  void Products() {
    const ProductSequence& p = ProductOf(spec_).sequence;
    const ProductCode code = ProductKernels::Of(*CodeOf(spec_));
    const KernelParameters parameters = ParametersOf(code);
    const size_t behind = parameters.k ? 2 : 1;
    const ArgSlot& last = recipe_.args[recipe_.args.size() - behind];
    rows_ = last.kind == ArgKind::kSymbolM ? pass_.m * recipe_.rows_per_m : last.int_value;
    for (const Role role : parameters.maps) {
      Map(NameOf(role, p.size()), Next(), role == Role::kC ? Kind::kScratch : Kind::kRead);
    }
    for (const Role role : parameters.pointers) ProductPointer(code, role);
    if (parameters.push) arg_ += 2;
    if (parameters.workspace) Flags(Next());
  }

  void ProductPointer(const ProductCode& code, Role role) {
    const ProductSequence& p = ProductOf(spec_).sequence;
    const ArgSlot& slot = Next();
    const std::string name = NameOf(role, p.size());
    const RoleShape shape = ShapeOf(p, role);
    const int64_t n = p.back().n;
    switch (role.kind) {
      case Role::kOut:
        return Pointer(name, slot, Kind::kWrite, p.back().result,
                       {{n, 1}, {rows_, code.out.stride}});
      case Role::kAux:
        return Pointer(name, slot, Kind::kWrite, shape.element,
                       {{n, 1}, {rows_, code.aux[role.leaf].stride}});
      case Role::kResidual:
        return Pointer(name, slot, Kind::kRead, shape.element,
                       {{n, 1}, {rows_, code.residual.stride}});
      case Role::kFactor:
        return Pointer(name, slot, Kind::kRead, shape.element, {{rows_, 1}});
      case Role::kC:  // as many rows as the tensor map has
        return Pointer(name, slot, Kind::kScratch, shape.element, {{p[0].n, 1}, {rows_, p[0].n}});
      case Role::kPartialOut: {
        const int64_t tile =
            ProductOf(spec_).schedule.block_m * int64_t{ProductOf(spec_).schedule.second.block_n};
        return Pointer(name, slot, Kind::kScratch, DType::kF32, {{recipe_.grid[0] * tile, 1}});
      }
      case Role::kScaleOut:
        return Pointer(name, slot, Kind::kWrite, DType::kF32, {{rows_ * shape.columns, 1}});
      case Role::kGivenScale:
        return Pointer(name, slot, Kind::kRead, DType::kF32, {});
      case Role::kScaleA:
      case Role::kScaleW:
      case Role::kScaleUp: {
        const int64_t rows = shape.of_launch ? rows_ : std::max<int64_t>(shape.rows, 1);
        const int64_t column = shape.column_stride * (shape.of_m ? rows_ : 1);
        return Pointer(name, slot, Kind::kRead, shape.element,
                       {{shape.columns, column}, {rows, ScaleRowStride(p, role)}});
      }
      default: {
        const int64_t rows = shape.of_launch ? rows_ : 1;
        return Pointer(name, slot, Kind::kRead, shape.element,
                       {{shape.columns, 1}, {rows, shape.columns}});
      }
    }
  }

  // An epoch and greetings; then a flag for each tile of C and each range of K, or each block.
  void Flags(const ArgSlot& slot) {
    const ProductSequence& p = ProductOf(spec_).sequence;
    const Schedule& s = ProductOf(spec_).schedule;
    const int64_t row_tiles = (p.rows() + s.block_m - 1) / s.block_m;
    const int64_t columns = (p[0].n + s.first.block_n - 1) / s.first.block_n;
    const int64_t flags =
        RangesOf(s) > 1 ? int64_t{recipe_.grid[0]} : row_tiles * columns * s.first.split_k;
    Pointer("flags", slot, Kind::kFlags, DType::kS32, {{256 + flags, 1}});
  }

  void Mma(const MmaProduct& p) {
    for (const MmaOperand& operand : OperandsOf(p)) {
      const bool result = operand.kind == MmaOperand::kResult;
      const int64_t rows = operand.rows == 0 ? p.Rows(pass_.m) : operand.rows;
      Pointer(result ? "out" : "operand", Next(), result ? Kind::kWrite : Kind::kRead,
              operand.element,
              {{operand.columns, operand.column_stride}, {rows, operand.row_stride}});
    }
  }

  // ---- stitched kernels

  void Stitched(const StitchSpec& stitch) {
    const Chain& body = stitch.body;
    for (int i = 0; i < body.num_inputs(); ++i) {
      Strided(absl::StrCat("input ", i), Kind::kRead, body.input_op(i).type,
              body.input_op(i).strides);
    }
    for (int i = 0; i < body.num_outputs(); ++i) {
      Strided(absl::StrCat("output ", i), Kind::kWrite, body.output_type(i),
              body.outputs()[static_cast<size_t>(i)].strides);
    }
    if (!recipe_.cooperative) return;
    const auto program = MakeStitchProgram(body, stitch.schedule.owner, stitch.schedule.handed);
    const uint64_t scratch = LayOutColumns(body, *program, stitch.schedule).scratch_bytes;
    Pointer("scratch", Next(), Kind::kScratch, DType::kE4M3, {{static_cast<int64_t>(scratch), 1}});
    Pointer("barrier", Next(), Kind::kFlags, DType::kS32, {{2, 1}});
  }

  void Strided(std::string what, Kind kind, const TensorType& type,
               const std::vector<Stride>& strides) {
    std::vector<Digit> digits;
    for (size_t i = 0; i < type.dims.size(); ++i) {
      digits.push_back({type.dims[i].At(pass_.m), strides[i].At(pass_.m)});
    }
    Pointer(std::move(what), Next(), kind, type.dtype, digits);
  }

  // ---- attention

  void Attention(const AttentionProblem& p) {
    for (const char* name : {"q", "k", "v"}) Map(name, Next());
    Batched("out", Kind::kWrite, p, p.out, p.result, p.value_head);
    for (int i = 0; i < p.Terms(); ++i) {
      Batched("term", Kind::kRead, p, p.terms[static_cast<size_t>(i)], p.TermType(i), p.keys);
    }
  }

  void Batched(const char* what, Kind kind, const AttentionProblem& p, const BatchedMatrix& matrix,
               DType dtype, int64_t columns) {
    std::vector<Digit> digits = {{columns, matrix.column}, {p.rows, matrix.row}};
    for (const BatchDigit& digit : matrix.digits) {
      digits.push_back({digit.extent == 0 ? pass_.m : digit.extent, digit.stride});
    }
    Pointer(what, Next(), kind, dtype, digits);
  }

  // ---- grouped products

  void Grouped(const GroupedProduct& p) {
    const int64_t rows = p.fixed_rows > 0 ? p.fixed_rows : pass_.m;
    const int64_t columns = p.WeightColumns(), slots = p.slots;
    const auto of_slots = [&](int64_t row, int64_t slot) {
      return std::vector<Digit>{{slots, slot}, {rows, row}};
    };
    std::vector<Digit> of_rows = {{p.k, 1}, {rows, p.row_stride}};
    if (p.slot_rows) of_rows.push_back({slots, p.row_slot_stride});
    Pointer("rows", Next(), Kind::kRead, p.rows, of_rows);
    const ArgSlot& weights = Next();
    if (weights.kind == ArgKind::kTensorMap) {
      Map("weights", weights);
    } else {
      Pointer("weights", weights, Kind::kRead, p.weights,
              {{p.input_major ? columns : p.k, 1},
               {p.input_major ? p.k : columns, p.weight_stride},
               {p.experts, p.expert_stride}});
    }
    const ArgSlot& ids = Next();
    p.by_ends
        ? Pointer("ends", ids, Kind::kRead, DType::kS32, {{p.experts, p.id_stride}})
        : Pointer("ids", ids, Kind::kRead, DType::kS32, of_slots(p.id_stride, p.id_slot_stride));
    if (p.HasScales()) GroupedScaleTouches(p, rows);
    for (const int input : p.OperandInputs()) {
      const GroupedLeaf& leaf = p.LeafOf(input);
      std::vector<Digit> digits = {
          {p.n, leaf.column}, {slots, leaf.slot}, {rows, leaf.row}, {p.experts, leaf.expert}};
      for (const int other : p.LeafInputs()) {  // of one operand, up's columns may follow
        if (p.LeafOf(other).operand == leaf.operand && p.LeafOf(other).offset > 0) {
          digits.push_back({2, p.LeafOf(other).offset});
        }
      }
      Pointer("leaf", Next(), Kind::kRead, p.program.TypeOf(input), digits);
    }
    if (p.quantizer.present) {
      Pointer("scale_out", Next(), Kind::kWrite, DType::kF32,
              {{rows * slots * (p.n / kScaleBlock), 1}});
    }
    std::vector<Digit> out = of_slots(p.out_stride, p.out_slot_stride);
    out.insert(out.begin(), {p.n, 1});
    Pointer("out", Next(), Kind::kWrite, p.result, out);
  }

  void GroupedScaleTouches(const GroupedProduct& p, int64_t rows) {
    const int64_t of_k = p.k / kScaleBlock;
    const bool blocks = p.weight_scales == GroupedScales::kGroups;
    std::vector<Digit> of_rows = {{rows, p.row_scale_stride}};
    if (p.slot_rows) of_rows.push_back({p.slots, p.row_scale_slot_stride});
    if (p.row_scales == GroupedScales::kGroups) of_rows.push_back({of_k, p.row_scale_group});
    Pointer("row scales", Next(), Kind::kRead, DType::kF32, of_rows);
    const int64_t columns =
        blocks ? (p.WeightColumns() + kScaleBlock - 1) / kScaleBlock : p.WeightColumns();
    std::vector<Digit> of_weights = {{p.experts, p.weight_scale_expert},
                                     {columns, p.weight_scale_column}};
    if (blocks) of_weights.push_back({of_k, p.weight_scale_group});
    Pointer("weight scales", Next(), Kind::kRead, DType::kF32, of_weights);
  }

  // ---- sums and gathers over ranks

  void Collective(const CollectiveProblem& p, const CollectiveSchedule& s) {
    const int64_t rows = p.fixed_rows > 0 ? p.fixed_rows : pass_.m * p.rows_per_m;
    ++arg_;  // the room
    for (const CollectiveOperand& operand : OperandsOf(p)) {
      const ArgSlot& slot = Next();
      if (s.pushed > 0 && operand.name == "x") continue;  // it comes through the room
      Pointer(operand.name, slot, operand.stored ? Kind::kWrite : Kind::kRead, operand.dtype,
              {{p.columns * (operand.parts > 0 ? rows * operand.parts : 1), 1}});
    }
  }

  const KernelSpec& spec_;
  const LaunchRecipe& recipe_;
  const Pass& pass_;
  size_t arg_ = 0;
  int64_t rows_ = 0;
  std::vector<Touch> touches_;
};

}  // namespace

std::vector<Touch> TouchesOf(const KernelSpec& spec, const LaunchRecipe& recipe, const Pass& pass) {
  return Lister(spec, recipe, pass).Run();
}

}  // namespace sinter::testing
