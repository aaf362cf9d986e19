// Rows of memory-intensive ops, as a program that is an argument. Compiled when the library is
// built; stands in until a stitched kernel is compiled.
//
// A row has `columns` elements, shared by `threads` threads, a power of two. A thread holds kE of
// them in registers, vectors of 8 that are 8 * threads apart: the accumulator. Steps apply an op to
// it and an operand: a view of an input, a slot, a number of the row, or a constant. Slots are in
// shared memory, and each thread reads only what it wrote there. Numbers of a row are computed by
// all its threads alike.
#pragma once
#include "ptx/element.cuh"
#include "ptx/memory.cuh"
#include "ptx/sync.cuh"
#include "stitch/math.cuh"
#include "stitch/row_format.cuh"

namespace sinter {

struct RowBuffers {
  void* of[kRowBuffers];
};

template <class Join>
constexpr bool is_sum = false;
template <>
constexpr bool is_sum<Sum> = true;

extern __shared__ Float4 row_slots[];

// A step's fields, read as three words.
struct Decoded {
  int what, op, to, kind, index, other_kind, other;
  float constant;

  SINTER_DEVICE explicit Decoded(const RowStep& s) : constant(s.constant) {
    const u32* words = reinterpret_cast<const u32*>(&s);
    const u32 first = words[0], second = words[1];
    what = byte(first, 0), op = byte(first, 1), to = byte(first, 2), kind = byte(first, 3);
    index = byte(second, 0), other_kind = byte(second, 1), other = byte(second, 2);
  }

 private:
  static SINTER_DEVICE int byte(u32 word, int i) { return word >> 8 * i & 0xFF; }
};

// `Ops`: one(number, each) and two(number, each) call each() with the function of a unary or binary
// op of the table.
template <int kE, class Ops>
class RowMachine {
 public:
  static constexpr int kVectors = kE / 8;
  using Values = float[kE];

  // `numbers` is apart, so that the accumulator stays in registers: an array with a variable index
  // keeps the object that it is in from them.
  SINTER_DEVICE RowMachine(const RowProgram& program, const RowBuffers& buffers,
                           float (&numbers)[kRowNumbers])
      : p_(program),
        buffers_(buffers),
        numbers_(numbers),
        thread_(threadIdx.x % program.threads),
        warps_(program.threads / 32) {}

  // All threads of a block call it together, for one row each group of threads. Rows behind the
  // last one are computed from row 0 and not stored.
  SINTER_DEVICE void run(int row, int rows) {
    stores_ = row < rows;
    row_ = stores_ ? row : 0;
    outer_ = row_ / p_.inner_rows;
    inner_ = row_ % p_.inner_rows;
#pragma unroll 1
    for (int i = 0; i < p_.count; ++i) step(p_.steps[i]);
  }

 private:
  SINTER_DEVICE long long at(const RowView& v) const {
    return v.base + outer_ * v.outer + inner_ * v.inner;
  }
  SINTER_DEVICE int column(int vector) const { return 8 * (thread_ + vector * p_.threads); }

  static SINTER_DEVICE float element(const void* data, int type, long long i) {
    if (type == kRowFloat32) return static_cast<const float*>(data)[i];
    const u16 bits = static_cast<const u16*>(data)[i];
    return type == kRowBFloat16 ? BFloat16::unpack(bits) : Float16::unpack(bits);
  }
  static SINTER_DEVICE void unpack(int type, u32 word, float* to) {
    to[0] = type == kRowBFloat16 ? BFloat16::low(word) : Float16::low(word);
    to[1] = type == kRowBFloat16 ? BFloat16::high(word) : Float16::high(word);
  }

  SINTER_DEVICE void load(const RowView& v, Values& to) const {
    const long long first = at(v);
    const void* data = buffers_.of[v.buffer];
#pragma unroll
    for (int j = 0; j < kVectors; ++j) {
      const int c = column(j);
      float* x = to + 8 * j;
      if (!v.vectors) {
#pragma unroll
        for (int e = 0; e < 8; ++e)
          x[e] = c + e < p_.columns ? element(data, v.type, first + (c + e) * v.column) : 0.0f;
      } else if (c >= p_.columns) {
#pragma unroll
        for (int e = 0; e < 8; ++e) x[e] = 0.0f;
      } else if (v.type == kRowFloat32) {
        const Float4* from =
            reinterpret_cast<const Float4*>(static_cast<const float*>(data) + first + c);
        const Float4 low = from[0], high = from[1];
        x[0] = low.x, x[1] = low.y, x[2] = low.z, x[3] = low.w;
        x[4] = high.x, x[5] = high.y, x[6] = high.z, x[7] = high.w;
      } else {
        const Word4 w = *reinterpret_cast<const Word4*>(static_cast<const u16*>(data) + first + c);
        unpack(v.type, w.x, x);
        unpack(v.type, w.y, x + 2);
        unpack(v.type, w.z, x + 4);
        unpack(v.type, w.w, x + 6);
      }
    }
  }

  static SINTER_DEVICE u32 pack(int type, float low, float high) {
    return type == kRowBFloat16 ? BFloat16::pack(low, high) : Float16::pack(low, high);
  }
  static SINTER_DEVICE void put(void* data, int type, long long i, float x) {
    if (type == kRowFloat32)
      static_cast<float*>(data)[i] = x;
    else
      static_cast<u16*>(data)[i] = static_cast<u16>(pack(type, x, 0.0f));
  }

  SINTER_DEVICE void store(const RowView& v) const {
    if (!stores_) return;
    const long long first = at(v);
    void* data = buffers_.of[v.buffer];
#pragma unroll
    for (int j = 0; j < kVectors; ++j) {
      const int c = column(j);
      const float* x = acc_ + 8 * j;
      if (!v.vectors) {
#pragma unroll
        for (int e = 0; e < 8; ++e)
          if (c + e < p_.columns) put(data, v.type, first + (c + e) * v.column, x[e]);
      } else if (c < p_.columns && v.type == kRowFloat32) {
        Float4* to = reinterpret_cast<Float4*>(static_cast<float*>(data) + first + c);
        to[0] = Float4{x[0], x[1], x[2], x[3]};
        to[1] = Float4{x[4], x[5], x[6], x[7]};
      } else if (c < p_.columns) {
        *reinterpret_cast<Word4*>(static_cast<u16*>(data) + first + c) =
            Word4{pack(v.type, x[0], x[1]), pack(v.type, x[2], x[3]), pack(v.type, x[4], x[5]),
                  pack(v.type, x[6], x[7])};
      }
    }
  }

  // A slot's place: vectors of four elements, neighbouring for neighbouring threads.
  SINTER_DEVICE Float4& slot(int index, int quad) const {
    return row_slots[(index * (kE / 4) + quad) * blockDim.x + threadIdx.x];
  }

  SINTER_DEVICE float number(int kind, int index, float constant) const {
    if (kind == kRowConstant) return constant;
    if (kind == kRowNumber) return numbers_[index];
    const RowView& v = p_.views[index];
    return element(buffers_.of[v.buffer], v.type, at(v));
  }

  SINTER_DEVICE void fetch(int kind, int index, float constant, Values& to) const {
    if (kind == kRowView) {
      load(p_.views[index], to);
    } else if (kind == kRowSlot) {
#pragma unroll
      for (int i = 0; i < kE / 4; ++i) {
        const Float4 v = slot(index, i);
        to[4 * i] = v.x, to[4 * i + 1] = v.y, to[4 * i + 2] = v.z, to[4 * i + 3] = v.w;
      }
    } else {
      const float x = number(kind, index, constant);
#pragma unroll
      for (int e = 0; e < kE; ++e) to[e] = x;
    }
  }

  template <class Join>
  static SINTER_DEVICE float joined(float all, float x, float share) {
    if constexpr (is_sum<Join>)
      return fmaf(x, share, all);
    else
      return Join::join(all, x);
  }

  // `share`: what each element of a sum is multiplied by first.
  template <class Join>
  SINTER_DEVICE float join_all(float share = 1.0f) {
    float sum = Join::empty(0.0f);
#pragma unroll
    for (int j = 0; j < kVectors; ++j) {
      const int exist = p_.columns - column(j);  // of the vector's elements, all if 8 or more
#pragma unroll
      for (int e = 0; e < 8; ++e)
        if (e < exist) sum = joined<Join>(sum, acc_[8 * j + e], share);
    }
#pragma unroll
    for (int lane = 16; lane > 0; lane /= 2)
      sum = Join::join(sum, __shfl_xor_sync(0xFFFFFFFFu, sum, lane));
    if (warps_ == 1) return sum;
    __shared__ float parts[2][32];
    const int warp = threadIdx.x / 32;
    turn_ ^= 1;
    if (threadIdx.x % 32 == 0) parts[turn_][warp] = sum;
    __syncthreads();
    const int first = warp / warps_ * warps_;
    sum = parts[turn_][first];
    for (int i = 1; i < warps_; ++i) sum = Join::join(sum, parts[turn_][first + i]);
    return sum;
  }

  static SINTER_DEVICE float rounded(int type, float x) {
    return type == kRowBFloat16 ? BFloat16::low(BFloat16::pack(x, 0.0f))
                                : Float16::low(Float16::pack(x, 0.0f));
  }

  // Apart, because its code is long.
  static __device__ __noinline__ float quotient(float a, float b) { return a / b; }

  // Calls each() with the function of the op: outside of the loop over elements.
  template <class Each>
  static SINTER_DEVICE void one(int op, Each each) {
    if (op == kRowRoundBFloat16) return each([](float x) { return rounded(kRowBFloat16, x); });
    if (op == kRowRoundFloat16) return each([](float x) { return rounded(kRowFloat16, x); });
    Ops::one(op - kRowUnary, each);
  }
  template <class Each>
  static SINTER_DEVICE void two(int op, Each each) {
    switch (op) {
      case kRowFastDiv:
        return each([](float a, float b) { return Fast::div(a, b); });
      case kRowSubFrom:
        return each([](float a, float b) { return b - a; });
      case kRowFastDivInto:
        return each([](float a, float b) { return Fast::div(b, a); });
      case kRowDivInto:
        return each([](float a, float b) { return quotient(b, a); });
      case kRowEq:
        return each([](float a, float b) { return a == b ? 1.0f : 0.0f; });
      case kRowNe:
        return each([](float a, float b) { return a != b ? 1.0f : 0.0f; });
      case kRowLt:
        return each([](float a, float b) { return a < b ? 1.0f : 0.0f; });
      case kRowLe:
        return each([](float a, float b) { return a <= b ? 1.0f : 0.0f; });
      default:
        return Ops::two(op - kRowBinary, each);
    }
  }

  // Operands of an op on all elements: numbers of their own, or one for all.
  struct Own {
    const Values& values;
    SINTER_DEVICE float of(int e) const { return values[e]; }
  };
  struct Same {
    float value;
    SINTER_DEVICE float of(int) const { return value; }
  };

  SINTER_DEVICE void each_one(int op) {
    one(op, [&](auto f) {
#pragma unroll
      for (int e = 0; e < kE; ++e) acc_[e] = f(acc_[e]);
    });
  }
  template <class Operand>
  SINTER_DEVICE void each_two(int op, const Operand& b) {
    two(op, [&](auto f) {
#pragma unroll
      for (int e = 0; e < kE; ++e) acc_[e] = f(acc_[e], b.of(e));
    });
  }

  SINTER_DEVICE void select(const Decoded& s) {
    Values yes, no;
    fetch(s.kind, s.index, s.constant, yes);
    fetch(s.other_kind, s.other, s.constant, no);
#pragma unroll
    for (int e = 0; e < kE; ++e) acc_[e] = acc_[e] != 0.0f ? yes[e] : no[e];
  }

  SINTER_DEVICE void reduce(const Decoded& s) {
    if (s.op == kRowSum) numbers_[s.to] = join_all<Sum>(s.constant);
    if (s.op == kRowLargest) numbers_[s.to] = join_all<Largest>();
    if (s.op == kRowSmallest) numbers_[s.to] = join_all<Smallest>();
  }

  SINTER_DEVICE void on_numbers(const Decoded& s) {
    const float a = number(s.kind, s.index, s.constant);
    float r = a;
    if (s.op >= kRowFirstTwo) {
      const float b = number(s.other_kind, s.other, s.constant);
      two(s.op, [&](auto f) { r = f(a, b); });
    } else if (s.op != kRowLoad) {
      one(s.op, [&](auto f) { r = f(a); });
    }
    numbers_[s.to] = r;
  }

  SINTER_DEVICE void save(int to) const {
#pragma unroll
    for (int i = 0; i < kE / 4; ++i)
      slot(to, i) = Float4{acc_[4 * i], acc_[4 * i + 1], acc_[4 * i + 2], acc_[4 * i + 3]};
  }

  SINTER_DEVICE void store_number(const Decoded& s) const {
    const RowView& v = p_.views[s.to];
    const float x = number(s.kind, s.index, s.constant);
    if (stores_ && thread_ == 0) put(buffers_.of[v.buffer], v.type, at(v), x);
  }

  SINTER_DEVICE void on_values(const Decoded& s) {
    if (s.op == kRowLoad) return fetch(s.kind, s.index, s.constant, acc_);
    if (s.op == kRowSelect) return select(s);
    if (s.op < kRowFirstTwo) return each_one(s.op);
    if (s.kind == kRowNumber || s.kind == kRowConstant) {
      const Same b{number(s.kind, s.index, s.constant)};
      return each_two(s.op, b);
    }
    Values b;
    fetch(s.kind, s.index, s.constant, b);
    each_two(s.op, Own{b});
  }

  SINTER_DEVICE void step(const RowStep& encoded) {
    const Decoded s(encoded);
    switch (s.what) {
      case kRowOnValues:
        return on_values(s);
      case kRowOnNumbers:
        return on_numbers(s);
      case kRowReduces:
        return reduce(s);
      case kRowStores:
        return store(p_.views[s.index]);
      case kRowStoresNumber:
        return store_number(s);
      default:
        return save(s.to);
    }
  }

  const RowProgram& p_;
  const RowBuffers& buffers_;
  float (&numbers_)[kRowNumbers];  // of the row
  const int thread_, warps_;
  int row_ = 0, outer_ = 0, inner_ = 0, turn_ = 0;
  bool stores_ = false;
  Values acc_;
};

// `m`: of the launch.
template <int kE, class Ops>
SINTER_DEVICE void run_rows(const RowProgram& program, const RowBuffers& buffers, int m) {
  const int rows = m * program.rows_per_m;
  launch_dependents();
  wait_for_predecessors();
  float numbers[kRowNumbers];
  RowMachine<kE, Ops> machine(program, buffers, numbers);
  const int side_by_side = blockDim.x / program.threads;
  const int step = gridDim.x * side_by_side;
  for (int block = blockIdx.x * side_by_side; block < rows; block += step)
    machine.run(block + threadIdx.x / program.threads, rows);
}

}  // namespace sinter
