#include "tests/unit/fusion/assembly/bound_addresses.h"

#include "src/plan/kernel_code.h"
#include "src/plan/product_family.h"
#include "src/product/code/kernel_source.h"
#include "src/stitch/sizes.h"
#include "tests/support/sequences.h"

namespace sinter::testing {
namespace {

using Wide = __int128;

struct Touch {
  std::string what;
  int buffer = 0;
  Wide begin = 0, end = 0;
  bool write = false;
  bool header = false;  // flags, the barrier
  bool own = false;     // written and read by the kernel, for nobody else
  bool inside = false;  // may be read or written: only where it lies is checked
};

// For elements at every index of `dims`: bytes from the first to the end of the last; 0 without
// elements.
Wide Span(const std::vector<Dim>& dims, const std::vector<Stride>& strides, int64_t m,
          int64_t element) {
  Wide last = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i].At(m) == 0) return 0;
    Wide stride = strides[i].value;
    for (int power = 0; power < strides[i].m_power; ++power) stride *= m;
    last += stride * (dims[i].At(m) - 1);
  }
  return (last + 1) * element;
}

// The number that source gives `name`: "  args.out_stride = 512;".
Wide NumberIn(const std::string& source, const std::string& name) {
  const size_t at = source.find(name + " = ");
  if (at == std::string::npos) return -1;
  return std::stoll(source.substr(at + name.size() + 3));
}

// The touches of one kernel at `m` rows.
class Launch {
 public:
  Launch(const KernelSpec& spec, int64_t m, int64_t bucket, const DeviceModel& model)
      : spec_(spec), m_(m), bucket_(bucket), model_(model) {}

  std::string Run() {
    if (StitchOf(spec_) != nullptr) return Stitched();
    return HasProducts(spec_) ? Products() : Own();
  }
  const std::vector<Touch>& touches() const { return touches_; }

 private:
  std::string CheckChip(const LaunchRecipe& recipe) const {
    if (recipe.shared_bytes > model_.shared_bytes_per_block) return "too much shared memory";
    if (recipe.block[0] < 32 || recipe.block[0] > 1024) return "threads of a block";
    if (recipe.cluster[0] > 16 || recipe.grid[0] % recipe.cluster[0] != 0) return "cluster";
    return std::string(recipe.Check().message());
  }

  void Add(std::string what, const ArgSlot& slot, Wide bytes, bool write) {
    touches_.push_back({std::move(what), slot.index, Wide{slot.offset_bytes},
                        Wide{slot.offset_bytes} + bytes, write, false, false});
  }

  // Rows that lie in the workspace have room for the bucket's.
  static int64_t RowsIn(int buffer, int64_t rows, int64_t most) {
    return buffer == kWorkspaceBuffer ? std::max(rows, most) : rows;
  }

  // What the family says that it reads and writes; and all that its launch points to.
  std::string Own() {
    const absl::StatusOr<LaunchRecipe> recipe = RecipeOf(spec_);
    if (!recipe.ok()) return std::string(recipe.status().message());
    const std::string wrong = CheckChip(*recipe);
    if (!wrong.empty()) return wrong;
    const std::vector<KernelBuffer> of_launch = spec_.family->Buffers(spec_, m_);
    const std::vector<KernelBuffer> of_bucket = spec_.family->Buffers(spec_, bucket_);
    for (size_t i = 0; i < of_launch.size(); ++i) {
      const bool stays = of_launch[i].buffer == kWorkspaceBuffer;
      const KernelBuffer& at = stays ? of_bucket[i] : of_launch[i];
      touches_.push_back(
          {at.type, at.buffer, Wide{at.offset_bytes}, Wide{at.offset_bytes} + at.bytes, at.write});
    }
    for (const TensorMapTemplate& map : recipe->tensor_maps) {
      const int64_t m = RowsIn(map.buffer, m_, bucket_) * recipe->rows_per_m;
      Wide last = Wide{map.dims[0].At(m) - 1} * SizeOf(map.dtype);
      for (size_t i = 1; i < map.dims.size(); ++i) {
        last += Wide{map.stride_bytes[i - 1]} * (map.dims[i].At(m) - 1);
      }
      const Wide begin{map.offset_bytes};
      AddInside("map", map.buffer, begin, begin + last + SizeOf(map.dtype));
    }
    for (const ArgSlot& slot : recipe->args) {
      if (slot.kind != ArgKind::kPointer) continue;
      const Wide row = Wide{slot.int_value} * std::max<int64_t>(0, m_ - 1);
      AddInside("pointer", slot.index, Wide{slot.offset_bytes}, Wide{slot.offset_bytes} + row + 1);
    }
    return "";
  }

  void AddInside(std::string what, int buffer, Wide begin, Wide end) {
    touches_.push_back({std::move(what), buffer, begin, end});
    touches_.back().inside = true;
  }

  bool SumsOverM() const { return ProductOf(spec_).sequence.front().k_is_m; }

  std::string Products() {
    const absl::StatusOr<LaunchRecipe> recipe = RecipeOf(spec_);
    if (!recipe.ok()) return std::string(recipe.status().message());
    const std::string wrong = CheckChip(*recipe);
    if (!wrong.empty()) return wrong;
    // K of a sum over M follows the rows.
    const ArgSlot& last = recipe->args[recipe->args.size() - (SumsOverM() ? 2 : 1)];
    rows_ = last.kind == ArgKind::kSymbolM ? m_ * recipe->rows_per_m : last.int_value;
    AddMaps(*recipe);
    AddPointers(*recipe);
    return "";
  }

  void AddMaps(const LaunchRecipe& recipe) {
    for (const TensorMapTemplate& map : recipe.tensor_maps) {
      const bool images = map.walk.has_value();
      const int64_t m = images ? m_ : m_ * recipe.rows_per_m;
      const int64_t most = images        ? ProductOf(spec_).sequence.m
                           : SumsOverM() ? ProductOf(spec_).sequence[0].k
                                         : ProductOf(spec_).sequence.rows();
      Wide last = map.dims[0].At(m) - 1;
      last *= SizeOf(map.dtype);
      for (size_t i = 1; i < map.dims.size(); ++i) {
        const int64_t extent =
            map.dims[i].symbolic ? RowsIn(map.buffer, m, most) : map.dims[i].value;
        last += Wide{map.stride_bytes[i - 1]} * (extent - 1);
      }
      const Wide begin{map.offset_bytes};
      touches_.push_back(
          {"map", map.buffer, begin, begin + last + SizeOf(map.dtype), false, false, false});
    }
  }

  void AddPointers(const LaunchRecipe& recipe) {
    const ProductSequence& p = ProductOf(spec_).sequence;
    const Schedule& s = ProductOf(spec_).schedule;
    const std::string source = ProductSource(ProductKernels::Of(*CodeOf(spec_))).value();
    const int64_t result = p.back().n;
    const KernelParameters parameters = ParametersOf(ProductKernels::Of(*CodeOf(spec_)));
    size_t arg = recipe.tensor_maps.size();
    for (const Role role : parameters.pointers) {
      const ArgSlot& slot = recipe.args[arg++];
      const std::string name = FieldOf(role);
      const int64_t rows = RowsIn(slot.index, rows_, ProductOf(spec_).sequence.rows());
      switch (role.kind) {
        case Role::kOut:
          Add(name, slot,
              ((rows - 1) * NumberIn(source, "args.out_stride") + result) * SizeOf(p.back().result),
              true);
          break;
        case Role::kAux:
          Add(name, slot,
              ((rows - 1) * NumberIn(source, absl::StrCat("args.", name, "_stride")) + result) *
                  SizeOf(ShapeOf(p, role).element),
              true);
          break;
        case Role::kResidual:
          Add(name, slot,
              ((rows - 1) * NumberIn(source, "args.residual_stride") + result) *
                  SizeOf(ShapeOf(p, role).element),
              false);
          break;
        case Role::kFactor: {
          Add(name, slot, Wide{rows} * SizeOf(ShapeOf(p, role).element), false);
          break;
        }
        case Role::kC:
          Add(name, slot, Wide{p.rows()} * p[0].n * 2, true);
          touches_.back().own = true;
          DropMapOf(slot);
          break;
        case Role::kPartialOut:
          Add(name, slot, Wide{4} * s.grid * s.block_m * s.second.block_n, true);
          touches_.back().own = true;
          break;
        case Role::kScaleA:
        case Role::kScaleW:
        case Role::kScaleUp: {
          const RoleShape shape = ShapeOf(p, role);
          const int64_t of_rows = shape.of_launch ? rows : std::max<int64_t>(shape.rows, 1);
          const Wide column = Wide{shape.column_stride} * (shape.of_m ? rows : 1);
          const Wide last =
              (of_rows - 1) * Wide{ScaleRowStride(p, role)} + (shape.columns - 1) * column;
          Add(name, slot, (last + 1) * SizeOf(shape.element), false);
          break;
        }
        case Role::kScaleOut:
          Add(name, slot, Wide{rows} * ShapeOf(p, role).columns * 4, true);
          break;
        case Role::kGivenScale:
          Add(name, slot, Wide{4}, false);
          break;
        default:
          Add(name, slot, Wide{ShapeOf(p, role).columns} * SizeOf(ShapeOf(p, role).element), false);
      }
    }
    if (parameters.workspace) AddHeader(recipe.args[arg]);
  }

  // What the kernel reads of C it has written itself.
  void DropMapOf(const ArgSlot& c) {
    touches_.erase(std::remove_if(touches_.begin(), touches_.end(),
                                  [&](const Touch& touch) {
                                    return touch.what == "map" && touch.buffer == c.index &&
                                           touch.begin == Wide{c.offset_bytes};
                                  }),
                   touches_.end());
  }

  // Epoch and greetings, then a flag for each tile of C and each rank, or each block.
  void AddHeader(const ArgSlot& slot) {
    const ProductSequence& p = ProductOf(spec_).sequence;
    const Schedule& s = ProductOf(spec_).schedule;
    const Wide row_tiles = (Wide{p.rows()} + s.block_m - 1) / s.block_m;
    const Wide columns = (Wide{p[0].n} + s.first.block_n - 1) / s.first.block_n;
    const Wide flags = RangesOf(s) > 1 ? Wide{s.grid} : row_tiles * columns * s.first.split_k;
    Add("header", slot, 4 * (256 + flags), true);
    touches_.back().header = true;
  }

  std::string Stitched() {
    const StitchSpec& stitch = *StitchOf(spec_);
    const absl::StatusOr<LaunchRecipe> recipe = RecipeOf(spec_);
    uint64_t scratch = 0;
    if (stitch.parts.empty()) {
      const auto program =
          MakeStitchProgram(stitch.body, stitch.schedule.owner, stitch.schedule.handed);
      if (!program.ok()) return std::string(program.status().message());
      scratch = LayOutColumns(stitch.body, *program, stitch.schedule).scratch_bytes;
    }
    if (!recipe.ok()) return std::string(recipe.status().message());
    const std::string wrong = CheckChip(*recipe);
    if (!wrong.empty()) return wrong;
    const int inputs = stitch.body.num_inputs(), outputs = stitch.body.num_outputs();
    for (int i = 0; i < inputs + outputs; ++i) {
      const bool write = i >= inputs;
      const TensorType& type =
          write ? stitch.body.output_type(i - inputs) : stitch.body.input_op(i).type;
      const std::vector<Stride>& strides =
          write ? stitch.body.outputs()[static_cast<size_t>(i - inputs)].strides
                : stitch.body.input_op(i).strides;
      const ArgSlot& slot = recipe->args[static_cast<size_t>(i)];
      const int64_t m = slot.index == kWorkspaceBuffer ? bucket_ : m_;
      Add(absl::StrCat("operand ", i), slot, Span(type.dims, strides, m, SizeOf(type.dtype)),
          write);
    }
    if (!recipe->cooperative) return "";
    const auto at = static_cast<size_t>(inputs + outputs);
    Add("scratch", recipe->args[at], Wide{scratch}, true);
    touches_.back().own = true;
    Add("barrier", recipe->args[at + 1], 8, true);
    touches_.back().header = true;
    return "";
  }

  const KernelSpec& spec_;
  const int64_t m_, bucket_;
  const DeviceModel& model_;
  int64_t rows_ = 0;
  std::vector<Touch> touches_;
};

// Bytes that hold something, as disjoint ranges.
class Written {
 public:
  void Add(Wide begin, Wide end) {
    Remove(begin, end);
    ranges_[begin] = end;
  }
  void Remove(Wide begin, Wide end) {
    std::map<Wide, Wide> kept;
    for (const auto& [from, to] : ranges_) {
      if (from < begin) kept[from] = std::min(to, begin);
      if (to > end) kept[std::max(from, end)] = to;
    }
    ranges_ = std::move(kept);
  }
  bool Holds(Wide begin, Wide end) const {
    for (const auto& [from, to] : ranges_) {
      if (from <= begin && begin < to) begin = to;
    }
    return begin >= end;
  }

 private:
  std::map<Wide, Wide> ranges_;  // begin -> end, ascending
};

class Run {
 public:
  Run(const Chain& chain, const Plan& plan, const DeviceModel& model, int64_t m)
      : plan_(plan), model_(model), m_(m), inputs_(chain.num_inputs()) {
    for (int i = 0; i < inputs_; ++i) {
      const Op& op = chain.input_op(i);
      sizes_.push_back(Span(op.type.dims, op.strides, m, SizeOf(op.type.dtype)));
    }
    for (int i = 0; i < chain.num_outputs(); ++i) {
      const TensorType& type = chain.output_type(i);
      sizes_.push_back(
          Span(type.dims, chain.outputs()[static_cast<size_t>(i)].strides, m, SizeOf(type.dtype)));
    }
  }

  std::string Check() {
    for (size_t k = 0; k < plan_.kernels.size(); ++k) {
      Launch launch(plan_.kernels[k].spec, m_, plan_.bucket, model_);
      std::string wrong = launch.Run();
      if (wrong.empty()) wrong = Follow(launch.touches());
      if (!wrong.empty()) return absl::StrCat("m ", m_, ", kernel ", k, ": ", wrong);
    }
    for (size_t i = static_cast<size_t>(inputs_); i < sizes_.size(); ++i) {
      const int buffer = static_cast<int>(i);
      if (!written_[buffer].Holds(0, sizes_[i])) return absl::StrCat("output ", i, " has gaps");
    }
    return "";
  }

 private:
  std::string Follow(const std::vector<Touch>& touches) {
    for (const Touch& touch : touches) {
      if (touch.end <= touch.begin) continue;
      const std::string wrong = CheckOne(touch);
      if (!wrong.empty()) return touch.what + wrong;
      if (touch.inside) continue;
      for (const Touch& other : touches) {
        if (&other == &touch || other.inside || !touch.write || other.buffer != touch.buffer)
          continue;
        if (touch.begin < other.end && other.begin < touch.end) {
          return absl::StrCat(touch.what, " lies over ", other.what);
        }
      }
    }
    for (const Touch& touch : touches) {
      if (!touch.write || touch.header || touch.end <= touch.begin) continue;
      Written& written = written_[touch.buffer];
      touch.own ? written.Remove(touch.begin, touch.end) : written.Add(touch.begin, touch.end);
    }
    return "";
  }

  std::string CheckOne(const Touch& touch) {
    if (touch.buffer == kWorkspaceBuffer) {
      if (touch.end > Wide{plan_.workspace_bytes}) return " ends behind the workspace";
      if (touch.inside) return "";
      if (touch.header != (touch.end <= Wide{kWorkspaceFlagBytes})) return " and the header";
    } else {
      if (touch.buffer < 0 || static_cast<size_t>(touch.buffer) >= sizes_.size()) {
        return " has no buffer";
      }
      if (touch.end > sizes_[static_cast<size_t>(touch.buffer)]) return " ends behind its buffer";
      if (touch.write && touch.buffer < inputs_) return " writes to an input";
    }
    if (touch.write || touch.inside || (touch.buffer >= 0 && touch.buffer < inputs_)) return "";
    return written_[touch.buffer].Holds(touch.begin, touch.end) ? "" : " reads what nobody wrote";
  }

  const Plan& plan_;
  const DeviceModel& model_;
  const int64_t m_;
  const int inputs_;
  std::vector<Wide> sizes_;
  std::map<int, Written> written_;
};

}  // namespace

std::string FindEscape(const Chain& chain, const Plan& plan, const DeviceModel& model) {
  std::vector<int64_t> rows = {1, (plan.bucket + 1) / 2, plan.bucket};
  if (!chain.UsesM()) rows = {1};
  for (const PlannedKernel& kernel : plan.kernels) {
    // A chain of products without M is launched for the rows that it has.
    const KernelSpec& spec = kernel.spec;
    const bool has_rows = !HasProducts(spec) || ProductOf(spec).constant_rows;
    if (chain.UsesM() || has_rows) continue;
    rows = {chain.output_type(0).dims[0].value};
  }
  for (const int64_t m : rows) {
    std::string escape = Run(chain, plan, model, m).Check();
    if (!escape.empty()) return escape;
  }
  return "";
}

}  // namespace sinter::testing
