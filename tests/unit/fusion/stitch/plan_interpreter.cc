#include "tests/unit/fusion/stitch/plan_interpreter.h"

#include "src/plan/attention_family.h"
#include "src/plan/grouped_family.h"
#include "src/reference/evaluator.h"
#include "src/reference/reference.h"
#include "tests/support/sequences.h"
#include "tests/support/test.h"

namespace sinter::testing {
namespace {

size_t BytesOf(const TensorType& type, const std::vector<Stride>& strides, int64_t m) {
  return static_cast<size_t>(*BufferBytes(type, strides, m));
}

void Put(DType dtype, double value, uint8_t* at) {
  const auto f = static_cast<float>(value);
  if (dtype == DType::kF32) {
    std::memcpy(at, &f, 4);
  } else if (dtype == DType::kBF16 || dtype == DType::kF16) {
    const uint16_t bits = dtype == DType::kBF16 ? F32ToBF16(f) : F32ToF16(f);
    std::memcpy(at, &bits, 2);
  } else if (dtype == DType::kE4M3) {
    *at = F32ToE4M3(f);
  } else if (dtype == DType::kS32) {
    const auto i = static_cast<int32_t>(value * 10);
    std::memcpy(at, &i, 4);
  } else if (dtype == DType::kS64) {
    const auto i = static_cast<int64_t>(value * 10);
    std::memcpy(at, &i, 8);
  } else {
    *at = value > 0;
  }
}

double Get(DType dtype, const uint8_t* at) {
  double value = 0;
  reference::ReadRun({at, reference::StorageOf(dtype), {}, {}}, 0, 0, 1, &value);
  return value;
}

// What a kernel of products computes, as a chain whose inputs are its operands in the order of
// roles. Operands have 16 bits, rows lie in memory.
class ProgramChain {
 public:
  explicit ProgramChain(const ProductSequence& p) : p_(p) {}

  Chain Make() {
    for (int i = 0; i < p_.size(); ++i) AddInputs(p_[i], i == 0, &products_[i]);
    for (int i = 0; i < p_.size(); ++i) AddLeaves(p_[i], &products_[i]);
    ValueId rows = a_;
    for (int i = 0; i < p_.size(); ++i) rows = Result(p_[i], products_[i], rows);
    std::vector<ValueId> outputs = {rows};
    outputs.insert(outputs.end(), aux_.begin(), aux_.end());
    return Finished(b_, outputs);
  }

 private:
  struct Inputs {
    ValueId w = -1, up = -1, norm = -1, columns = -1, columns_up = -1;
    std::map<int, ValueId> leaves;  // by input of the program
  };

  ValueId Matrix(DType dtype, int64_t columns) {
    return *b_.Input({dtype, {Dim::M(), Dim::Constant(columns)}});
  }
  ValueId Vector(DType dtype, int64_t columns) {
    return *b_.Input({dtype, {Dim::Constant(columns)}});
  }
  ValueId Weights(const MatrixProduct& p) {
    const bool oi = p.weights.layout == Layout::kOI;
    return *b_.Input(
        {p.weights.element, {Dim::Constant(oi ? p.n : p.k), Dim::Constant(oi ? p.k : p.n)}});
  }
  ValueId Spread(ValueId value, int64_t columns) {
    return *b_.Broadcast(value, {Dim::M(), Dim::Constant(columns)});
  }

  void AddInputs(const MatrixProduct& p, bool first, Inputs* in) {
    if (first) a_ = Matrix(p.rows.element, p.k);
    in->w = Weights(p);
    if (p.pair) in->up = Weights(p);
    if (p.epilogue.norm.has_value()) in->norm = Matrix(DType::kF32, 1);
    if (p.HasColumnScales()) in->columns = Vector(p.weights.scales.element, p.n);
    if (p.HasColumnScales() && p.pair) in->columns_up = Vector(p.weights.scales.element, p.n);
  }

  void AddLeaves(const MatrixProduct& p, Inputs* in) {
    for (const Leaf& leaf : p.Leaves()) {
      const bool vector = leaf.kind == LeafKind::kColumn;
      in->leaves[leaf.input] = leaf.kind == LeafKind::kNumber ? *b_.Input({leaf.element, {}})
                               : vector
                                   ? Vector(leaf.element, p.n)
                                   : Matrix(leaf.element, leaf.kind == LeafKind::kRow ? 1 : p.n);
    }
  }

  ValueId Linear(const MatrixProduct& p, const Inputs& in, ValueId rows, bool up) {
    ValueId y = *b_.Matmul(rows, up ? in.up : in.w, false, p.weights.layout == Layout::kOI);
    const auto with = [&](BinaryKind kind, ValueId operand) {
      if (operand >= 0) y = *b_.Binary(kind, y, Spread(operand, p.n));
    };
    with(BinaryKind::kMul, in.norm);
    with(BinaryKind::kMul, up ? in.columns_up : in.columns);
    return y;
  }

  ValueId Result(const MatrixProduct& p, const Inputs& in, ValueId rows) {
    const ValueId y = Linear(p, in, rows, false);
    const EpilogueProgram& program = p.epilogue.program;
    if (!program.present()) return *b_.Cast(y, p.result);
    std::vector<ValueId> values;
    for (const Op& op : program.body->ops()) {
      if (op.kind == OpKind::kInput) {
        const LeafKind kind = program.leaves[static_cast<size_t>(op.input)];
        values.push_back(kind == LeafKind::kValue    ? y
                         : kind == LeafKind::kUp     ? Linear(p, in, rows, true)
                         : kind == LeafKind::kMatrix ? in.leaves.at(op.input)
                                                     : Spread(in.leaves.at(op.input), p.n));
        continue;
      }
      Op copy = op;
      for (ValueId& operand : copy.operands) operand = values[static_cast<size_t>(operand)];
      values.push_back(Got(Replay(b_, copy, false)));
    }
    const std::vector<ChainOutput>& outputs = program.body->outputs();
    for (size_t i = 1; i < outputs.size(); ++i) {
      aux_.push_back(values[static_cast<size_t>(outputs[i].value)]);
    }
    return values[static_cast<size_t>(outputs[0].value)];
  }

  const ProductSequence& p_;
  ChainBuilder b_;
  ValueId a_ = -1;
  std::vector<ValueId> aux_;  // auxiliary results
  Inputs products_[2];
};

class Machine {
 public:
  Machine(const Chain& chain, const Plan& plan, int64_t m, std::vector<Bytes> inputs)
      : chain_(chain), plan_(plan), m_(m), buffers_(std::move(inputs)) {
    for (const ChainOutput& out : chain.outputs()) {
      buffers_.emplace_back(BytesOf(chain.op(out.value).type, out.strides, m), uint8_t{0xff});
    }
    workspace_.assign(plan.workspace_bytes, 0xff);
  }

  void Run() {
    for (const PlannedKernel& kernel : plan_.kernels) {
      if (StitchOf(kernel.spec) != nullptr) {
        RunStitch(*StitchOf(kernel.spec));
      } else if (kernel.spec.family == &GroupedFamily()) {
        RunGrouped(GroupedKernels::Of(kernel.spec));
      } else if (kernel.spec.family == &AttentionFamily()) {
        RunAttention(AttentionKernels::Of(kernel.spec));
      } else {
        RunProducts(kernel.spec);
      }
    }
  }

  std::vector<double> Output(int i) {
    const ChainOutput& out = chain_.outputs()[static_cast<size_t>(i)];
    const TensorType& type = chain_.op(out.value).type;
    const int64_t size = SizeOf(type.dtype);
    const Bytes& from = BufferOf(chain_.num_inputs() + i);
    std::vector<double> values(static_cast<size_t>(*ElementCount(type.dims, m_)));
    for (size_t e = 0; e < values.size(); ++e) {
      int64_t rest = static_cast<int64_t>(e), at = 0;
      for (size_t axis = type.dims.size(); axis-- > 0;) {
        const int64_t extent = type.dims[axis].At(m_);
        at += rest % extent * out.strides[axis].At(m_);
        rest /= extent;
      }
      values[e] = Get(type.dtype, &from[static_cast<size_t>(at * size)]);
    }
    return values;
  }

 private:
  Bytes& BufferOf(int buffer) {
    if (buffer == kWorkspaceBuffer) return workspace_;
    const int output = buffer - chain_.num_inputs();
    if (output >= 0) {
      const int alias = chain_.outputs()[static_cast<size_t>(output)].alias_input;
      if (alias >= 0) buffer = alias;
    }
    return buffers_[static_cast<size_t>(buffer)];
  }

  uint8_t* At(int buffer, uint64_t offset, size_t bytes) {
    Bytes& of = BufferOf(buffer);
    if (offset + bytes > of.size()) {
      ADD_FAILURE() << "buffer " << buffer << " has " << of.size() << " bytes, " << offset << " + "
                    << bytes << " are accessed";
      sink_.assign(bytes, 0);
      return sink_.data();
    }
    return of.data() + offset;
  }

  // Everything is read before anything is written: outputs may share their inputs' buffers.
  void RunStitch(const StitchSpec& spec) {
    const Chain& body = spec.body;
    std::vector<Bytes> in, out;
    for (int i = 0; i < body.num_inputs(); ++i) {
      const Op& op = body.input_op(i);
      const size_t bytes = BytesOf(op.type, op.strides, m_);
      const BufferPlace& at = spec.operands[static_cast<size_t>(i)];
      const uint8_t* from = At(at.buffer, at.offset_bytes, bytes);
      in.emplace_back(from, from + bytes);
    }
    std::vector<const void*> ins;
    std::vector<void*> outs;
    for (const Bytes& b : in) ins.push_back(b.data());
    out.resize(static_cast<size_t>(body.num_outputs()));
    for (int i = 0; i < body.num_outputs(); ++i) {
      const size_t bytes =
          BytesOf(body.output_type(i), body.outputs()[static_cast<size_t>(i)].strides, m_);
      const BufferPlace& at = spec.operands[static_cast<size_t>(body.num_inputs() + i)];
      const uint8_t* old = At(at.buffer, at.offset_bytes, bytes);
      out[static_cast<size_t>(i)].assign(old, old + bytes);
      outs.push_back(out[static_cast<size_t>(i)].data());
    }
    EXPECT_OK(RunReference(body, m_, ins, outs));
    for (int i = 0; i < body.num_outputs(); ++i) {
      const Bytes& result = out[static_cast<size_t>(i)];
      const BufferPlace& at = spec.operands[static_cast<size_t>(body.num_inputs() + i)];
      std::memcpy(At(at.buffer, at.offset_bytes, result.size()), result.data(), result.size());
    }
  }

  // An element of place `place` of a grouped product.
  double GroupedAt(const GroupedSpec& spec, size_t place, DType dtype, int64_t element) {
    const BufferPlace& at = spec.places[place];
    const int64_t size = SizeOf(dtype);
    return Get(dtype, At(at.buffer, at.offset_bytes + static_cast<uint64_t>(element * size),
                         static_cast<size_t>(size)));
  }

  // The scales of element `i` of K, of a row, whose values begin at `scale`, and of W's column.
  double GroupedScale(const GroupedSpec& spec, int64_t scale, int64_t expert, int64_t column,
                      int64_t i) {
    const GroupedProduct& p = spec.code.problem;
    if (!p.HasScales()) return 1;
    int64_t of_w = expert * p.weight_scale_expert;
    if (p.row_scales == GroupedScales::kGroups) scale += i / 128 * p.row_scale_group;
    if (p.weight_scales == GroupedScales::kGroups) {
      of_w += column / 128 * p.weight_scale_column + i / 128 * p.weight_scale_group;
    } else {
      of_w += column * p.weight_scale_column;
    }
    return GroupedAt(spec, 3, DType::kF32, scale) * GroupedAt(spec, 4, DType::kF32, of_w);
  }

  double GroupedSum(const GroupedSpec& spec, int64_t row, int64_t scale, int64_t expert,
                    int64_t column) {
    const GroupedProduct& p = spec.code.problem;
    const int64_t first = expert * p.expert_stride;
    double sum = 0;
    for (int64_t i = 0; i < p.k; ++i) {
      const int64_t at =
          p.input_major ? i * p.weight_stride + column : column * p.weight_stride + i;
      sum += GroupedAt(spec, 0, p.rows, row + i) * GroupedAt(spec, 1, p.weights, first + at) *
             GroupedScale(spec, scale, expert, column, i);
    }
    return sum;
  }

  // What a program makes of the values of its leaves.
  double ValueOf(const EpilogueProgram& program, const std::vector<double>& leaves) {
    std::vector<std::vector<uint8_t>> values;
    std::vector<const void*> inputs;
    for (size_t i = 0; i < leaves.size(); ++i) {
      const DType dtype = program.TypeOf(static_cast<int>(i));
      values.emplace_back(2 * static_cast<size_t>(SizeOf(dtype)));
      for (const size_t at : {size_t{0}, values.back().size() / 2}) {
        Put(dtype, leaves[i], &values.back()[at]);
      }
    }
    for (const std::vector<uint8_t>& bytes : values) inputs.push_back(bytes.data());
    return (*RunReferenceF64(*program.body, 1, inputs))[0][0];
  }

  // What the program makes of a slot's sums, `expert` -1 where it has none.
  double OfProgram(const GroupedSpec& spec, double y, double up, int64_t m, int64_t t,
                   int64_t expert, int64_t column) {
    const GroupedProduct& p = spec.code.problem;
    const EpilogueProgram& program = p.program;
    if (!program.present()) return y;
    std::vector<double> leaves;
    for (size_t i = 0; i < program.leaves.size(); ++i) {
      double value = program.leaves[i] == LeafKind::kUp ? up : y;
      if (program.leaves[i] > LeafKind::kUp) {
        const GroupedLeaf& leaf = p.leaves[i];
        const size_t place = (p.HasScales() ? 5 : 3) + static_cast<size_t>(leaf.operand);
        value = leaf.expert != 0 && expert < 0
                    ? 0
                    : GroupedAt(spec, place, program.TypeOf(static_cast<int>(i)),
                                m * leaf.row + t * leaf.slot + expert * leaf.expert +
                                    column * leaf.column + leaf.offset);
      }
      leaves.push_back(value);
    }
    return ValueOf(program, leaves);
  }

  // The expert of row m's slot t; -1 if it has none.
  int64_t ExpertOf(const GroupedSpec& spec, int64_t m, int64_t t) {
    const GroupedProduct& p = spec.code.problem;
    if (p.by_ends) {
      for (int64_t e = 0; e < p.experts; ++e) {
        if (static_cast<double>(m) < GroupedAt(spec, 2, DType::kS32, e * p.id_stride)) return e;
      }
      return -1;
    }
    const double id = GroupedAt(spec, 2, DType::kS32, m * p.id_stride + t * p.id_slot_stride);
    return id >= 0 && id < static_cast<double>(p.experts) ? static_cast<int64_t>(id) : -1;
  }

  // Results of a slot become what is rounded to codes; the scales of their groups are stored.
  void Quantize(const GroupedSpec& spec, int64_t slot, std::vector<double>* results) {
    const GroupedQuantizer& q = spec.code.problem.quantizer;
    const BufferPlace& out = spec.places[spec.places.size() - 2];
    for (size_t begin = 0; begin < results->size(); begin += 128) {
      double largest = 0;
      for (size_t i = begin; i < begin + 128; ++i) {
        largest = std::max(largest, std::abs((*results)[i]));
      }
      if (q.upper_bound != 0) largest = std::min(largest, q.upper_bound);
      double scale = std::max(largest, q.eps) / 448;
      if (q.ue8m0) scale = std::exp2(std::ceil(std::log2(scale)));
      for (size_t i = begin; i < begin + 128; ++i) (*results)[i] /= scale;
      const uint64_t at = static_cast<uint64_t>(slot) * (results->size() / 128) + begin / 128;
      Put(DType::kF32, scale, At(out.buffer, out.offset_bytes + 4 * at, 4));
    }
  }

  void RunGrouped(const GroupedSpec& spec) {
    const GroupedProduct& p = spec.code.problem;
    const BufferPlace& out = spec.places.back();
    const bool pair = p.IsPair();
    for (int64_t slot = 0; slot < p.Rows(m_) * p.slots; ++slot) {
      const int64_t m = slot / p.slots, t = slot % p.slots;
      const int64_t expert = ExpertOf(spec, m, t);
      const int64_t row = m * p.row_stride + t * p.row_slot_stride;
      const int64_t scale = m * p.row_scale_stride + t * p.row_scale_slot_stride;
      std::vector<double> results(static_cast<size_t>(p.n));
      for (int64_t j = 0; j < p.n; ++j) {
        double x = 0, up = 0;
        if (expert >= 0) {
          // The columns of W for the first and the second half of a pair.
          const int64_t first = p.HasHalves() || !pair ? j : 2 * j;
          const int64_t second = p.HasHalves() ? j + p.n : 2 * j + 1;
          x = GroupedSum(spec, row, scale, expert, first);
          if (pair) up = GroupedSum(spec, row, scale, expert, second);
        }
        results[static_cast<size_t>(j)] = OfProgram(spec, x, up, m, t, expert, j);
      }
      if (p.quantizer.present) Quantize(spec, slot, &results);
      for (int64_t j = 0; j < p.n; ++j) {
        const int64_t at = m * p.out_stride + t * p.out_slot_stride + j;
        Put(p.result, results[static_cast<size_t>(j)],
            At(out.buffer, out.offset_bytes + static_cast<uint64_t>(at * SizeOf(p.result)),
               static_cast<size_t>(SizeOf(p.result))));
      }
    }
  }

  // An element of the matrix of batch `b` at an operand.
  uint8_t* AttentionAt(const BufferPlace& at, const BatchedMatrix& matrix, DType dtype, int64_t b,
                       int64_t row, int64_t column) {
    int64_t element = row * matrix.row + column * matrix.column;
    for (const BatchDigit& digit : matrix.digits) {
      const int64_t index = b / digit.inner;
      element += (digit.extent == 0 ? index : index % digit.extent) * digit.stride;
    }
    return At(at.buffer, at.offset_bytes + static_cast<uint64_t>(element * SizeOf(dtype)),
              static_cast<size_t>(SizeOf(dtype)));
  }

  // What the program makes of a score.
  double ScoreOf(const AttentionSpec& spec, int64_t b, int64_t row, int64_t key, double x) {
    const AttentionProblem& p = spec.code.problem;
    if (!p.program.present()) return x;
    std::vector<double> leaves;
    size_t term = 0;
    for (const LeafKind kind : p.program.leaves) {
      leaves.push_back(kind == LeafKind::kRowIndex      ? static_cast<double>(row)
                       : kind == LeafKind::kColumnIndex ? static_cast<double>(key)
                                                        : x);
      if (kind != LeafKind::kMatrix) continue;
      const DType dtype = p.TermType(static_cast<int>(term));
      leaves.back() =
          Get(dtype, AttentionAt(spec.places[3 + term], p.terms[term], dtype, b, row, key));
      ++term;
    }
    return ValueOf(p.program, leaves);
  }

  // The score of a row and a key, the program applied.
  double Score(const AttentionSpec& spec, int64_t b, int64_t row, int64_t key) {
    const AttentionProblem& p = spec.code.problem;
    double x = 0;
    for (int64_t i = 0; i < p.head; ++i) {
      x += Get(p.element, AttentionAt(spec.places[0], p.q, p.element, b, row, i)) *
           Get(p.element, AttentionAt(spec.places[1], p.k, p.element, b, key, i));
    }
    x = ScoreOf(spec, b, row, key, x);
    return p.causal && key > row + p.diagonal ? -INFINITY : x;
  }

  void RunAttention(const AttentionSpec& spec) {
    const AttentionProblem& p = spec.code.problem;
    for (int64_t i = 0; i < p.BatchesAt(m_) * p.rows; ++i) {
      const int64_t b = i / p.rows, row = i % p.rows;
      std::vector<double> powers;
      for (int64_t key = 0; key < p.keys; ++key) powers.push_back(Score(spec, b, row, key));
      double largest = *std::max_element(powers.begin(), powers.end());
      if (p.zero_unseen && std::isinf(largest)) largest = 0;
      double total = 0;
      for (double& power : powers) total += power = std::exp(power - largest);
      for (int64_t j = 0; j < p.value_head; ++j) {
        double sum = 0;
        for (int64_t key = 0; key < p.keys; ++key) {
          sum += powers[static_cast<size_t>(key)] *
                 Get(p.element, AttentionAt(spec.places[2], p.v, p.element, b, key, j));
        }
        if (p.zero_unseen && total == 0) total = 1;
        Put(p.result, sum / total, AttentionAt(spec.places.back(), p.out, p.result, b, row, j));
      }
    }
  }

  // Rows of a matrix (or a vector) at an operand, packed.
  Bytes Pack(const OperandBinding& operand, int64_t rows, int64_t columns, int64_t size) {
    const auto row = static_cast<size_t>(columns * size);
    Bytes packed;
    for (int64_t r = 0; r < rows; ++r) {
      const auto skip = static_cast<uint64_t>(r * operand.row_stride * size);
      const uint8_t* from = At(operand.buffer, operand.offset_bytes + skip, row);
      packed.insert(packed.end(), from, from + row);
    }
    return packed;
  }

  // The rows that a window takes from pixels, packed: zeros outside an image.
  Bytes PackWindow(const OperandBinding& operand, const PixelWindow& w, int64_t rows,
                   int64_t size) {
    const auto tap = static_cast<size_t>(w.channels * size);
    Bytes packed;
    for (int64_t i = 0; i < rows * w.taps[0] * w.taps[1]; ++i) {
      const int64_t s = i % w.taps[1], r = i / w.taps[1] % w.taps[0];
      const int64_t row = i / w.taps[1] / w.taps[0], image = row / w.RowsPerM();
      const int64_t p = row / w.Pixels(1) % w.Pixels(0), q = row % w.Pixels(1);
      const int64_t y = p * w.conv.strides[0] + r * w.conv.dilations[0] - w.conv.pads[0];
      const int64_t x = q * w.conv.strides[1] + s * w.conv.dilations[1] - w.conv.pads[2];
      if (y < 0 || y >= w.height || x < 0 || x >= w.width) {
        packed.insert(packed.end(), tap, 0);
        continue;
      }
      const int64_t pixel = (image * w.height + y) * w.width + x;
      const auto skip = static_cast<uint64_t>(pixel * operand.row_stride * size);
      const uint8_t* from = At(operand.buffer, operand.offset_bytes + skip, tap);
      packed.insert(packed.end(), from, from + tap);
    }
    return packed;
  }

  // 1 / sqrt(mean of the squares + eps) of each of the packed rows.
  static Bytes NormsOf(const Bytes& packed, const MatrixProduct& p, int64_t rows) {
    Bytes norms;
    for (int64_t r = 0; r < rows; ++r) {
      double sum = 0;
      for (int64_t i = 0; i < p.k; ++i) {
        const double x = Get(p.rows.element, &packed[static_cast<size_t>((r * p.k + i) * 2)]);
        sum += x * x;
      }
      norms.resize(norms.size() + 4);
      Put(DType::kF32, 1 / std::sqrt(sum / static_cast<double>(p.k) + *p.epilogue.norm),
          &norms[norms.size() - 4]);
    }
    return norms;
  }

  void RunProducts(const KernelSpec& spec) {
    const ProductSequence& p = ProductOf(spec).sequence;
    const bool norm = p[0].epilogue.norm.has_value();  // computed here
    const Chain chain = ProgramChain(p).Make();
    const int64_t rows = (ProductOf(spec).constant_rows ? p.m : m_) * p.rows_per_m;
    // In the caller's order, which is the order of roles.
    std::vector<Bytes> by_caller;
    std::vector<OperandBinding> results;
    std::vector<Role> roles = {Role::kA, Role::kW, Role::kWUp};
    if (norm) roles.emplace_back(Role::kFactor);
    roles.insert(roles.end(), {Role::kScaleW, Role::kScaleUp, {Role::kW, 1}, {Role::kScaleW, 1}});
    for (int i = 0; i < p.size(); ++i) {
      for (const Leaf& leaf : p[i].Leaves(i)) roles.push_back(leaf.role);
    }
    roles.insert(roles.end(), {Role::kOut, {Role::kAux, 0, 0}, {Role::kAux, 0, 1}});
    for (const Role role : roles) {
      if (norm && role == Role::kFactor) {
        by_caller.push_back(NormsOf(by_caller.front(), p[0], rows));
      }
      for (const OperandBinding& operand : ProductOf(spec).operands) {
        if (operand.role != role) continue;
        if (role == Role::kOut || role.kind == Role::kAux) {
          results.push_back(operand);
          continue;
        }
        const auto caller = by_caller.size();
        const TensorType& type = CallersInput(chain, static_cast<int>(caller));
        const bool vector = type.rank() <= 1;
        if (role == Role::kA && p[0].rows.source == Source::kWindow) {
          by_caller.push_back(PackWindow(operand, p[0].rows.window, rows, SizeOf(type.dtype)));
          continue;
        }
        by_caller.push_back(Pack(operand, vector ? 1 : type.dims[0].At(rows),
                                 type.dims.empty() ? 1 : type.dims.back().value,
                                 SizeOf(type.dtype)));
      }
    }
    std::vector<const void*> ins;
    for (int32_t caller : chain.InputOrder()) {
      ins.push_back(by_caller[static_cast<size_t>(caller)].data());
    }
    const auto size_of = [&](size_t i) {
      return SizeOf(chain.output_type(static_cast<int>(i)).dtype);
    };
    const int64_t columns = chain.output_type(0).dims[1].value;
    std::vector<Bytes> outs;
    for (size_t i = 0; i < results.size(); ++i) {
      outs.emplace_back(static_cast<size_t>(rows * columns * size_of(i)));
    }
    std::vector<void*> into;
    for (Bytes& out : outs) into.push_back(out.data());
    EXPECT_OK(RunReference(chain, rows, ins, into));
    for (size_t i = 0; i < results.size(); ++i) {
      const OperandBinding& result = results[i];
      const auto row = static_cast<size_t>(columns * size_of(i));
      for (int64_t r = 0; r < rows; ++r) {
        const auto skip = static_cast<uint64_t>(r * result.row_stride * size_of(i));
        std::memcpy(At(result.buffer, result.offset_bytes + skip, row),
                    &outs[i][static_cast<size_t>(r) * row], row);
      }
    }
  }

  static const TensorType& CallersInput(const Chain& chain, int caller) {
    return chain.input_op(chain.CallerOrder()[static_cast<size_t>(caller)]).type;
  }

  const Chain& chain_;
  const Plan& plan_;
  const int64_t m_;
  std::vector<Bytes> buffers_;
  Bytes workspace_, sink_;
};

}  // namespace

std::vector<Bytes> RandomInputs(const Chain& chain, int64_t m, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Bytes> inputs;
  for (int i = 0; i < chain.num_inputs(); ++i) {
    const Op& op = chain.input_op(i);
    const auto size = static_cast<size_t>(SizeOf(op.type.dtype));
    Bytes bytes(BytesOf(op.type, op.strides, m));
    for (size_t at = 0; at + size <= bytes.size(); at += size) {
      Put(op.type.dtype, static_cast<double>(random() % 2001) / 1000.0 - 1.0, &bytes[at]);
    }
    inputs.push_back(std::move(bytes));
  }
  return inputs;
}

std::vector<std::vector<double>> Interpret(const Chain& chain, const Plan& plan, int64_t m,
                                           std::vector<Bytes> inputs) {
  Machine machine(chain, plan, m, std::move(inputs));
  machine.Run();
  std::vector<std::vector<double>> outputs;
  for (int i = 0; i < chain.num_outputs(); ++i) outputs.push_back(machine.Output(i));
  return outputs;
}

double WorstError(const Chain& chain, const Plan& plan, int64_t m, uint32_t seed) {
  const std::vector<Bytes> inputs = RandomInputs(chain, m, seed);
  std::vector<const void*> ins;
  for (const Bytes& b : inputs) ins.push_back(b.data());
  const auto expected = Got(RunReferenceF64(chain, m, ins));
  const std::vector<std::vector<double>> actual = Interpret(chain, plan, m, inputs);
  double worst = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    double largest = 1e-6, difference = 0;
    for (size_t e = 0; e < actual[i].size(); ++e) {
      largest = std::max(largest, std::fabs(expected[i][e]));
      const double d = std::fabs(actual[i][e] - expected[i][e]);
      const bool same_nan = std::isnan(actual[i][e]) && std::isnan(expected[i][e]);
      if (std::isnan(d) && !same_nan) difference = INFINITY;
      difference = std::max(difference, same_nan ? 0 : d);
    }
    worst = std::max(worst, difference / largest);
  }
  return worst;
}

}  // namespace sinter::testing
