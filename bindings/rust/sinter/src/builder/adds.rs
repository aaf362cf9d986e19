//! Written by ./dev bindings from include/sinter/*.h; do not edit.
use super::{ChainBuilder, Value};
use crate::{sys, Activation, Binary, Checkpoint, Compare, DType, Unary};

impl ChainBuilder {
    /// A constant of rank 0, rounded to `dtype`; NaN is refused.
    pub fn scalar(&self, value: f64, dtype: DType) -> Value<'_> {
        // SAFETY: the handle is alive; lists are as long as they say.
        self.add(&[], |chain, out, error| unsafe {
            sys::sinter_chain_add_scalar(chain, value, dtype.0, out, error)
        })
    }

    /// result[.., i, ..] = i along `axis`; s32 or f32.
    pub fn iota(&self, dtype: DType, dims: &[i64], axis: i32) -> Value<'_> {
        // SAFETY: the handle is alive; lists are as long as they say.
        self.add(&[], |chain, out, error| unsafe {
            sys::sinter_chain_add_iota(chain, dtype.0, dims.len() as u32, dims.as_ptr(), axis, out, error)
        })
    }
}

/// Ops of the chain that the value belongs to; the first operand is `self`.
impl<'b> Value<'b> {
    /// The sum of x over the GPUs of a group (sinter_group.h), of which each has inputs of its own: of x rounded to its
    /// dtype, floating, in the order of ranks, in f32, rounded to x's dtype. All ranks get the same bits. `ranks`, 1 to
    /// 8, is the same in all sums and gathers of a chain, which is then split over so many GPUs; of 1 each is a cast to
    /// x's dtype. SINTER_INVALID_ARGUMENT for any other number, and where a sum or gather of the chain has another.
    pub fn all_reduce(self, ranks: i32) -> Value<'b> {
        // SAFETY: the handle is alive; lists are as long as they say.
        self.with(&[], |chain, out, error| unsafe {
            sys::sinter_chain_add_all_reduce(chain, self.id, ranks, out, error)
        })
    }

    /// What all ranks have of x, joined along `axis` in the order of ranks: of x rounded to its dtype, which is
    /// floating or e4m3. The extent of `axis` is constant, and `ranks` times as large in the result. Rows of M are
    /// gathered with an axis of their own in front: of [1, M, n] along axis 0 into [ranks, M, n]. `ranks` and errors
    /// are as in sinter_chain_add_all_reduce.
    pub fn all_gather(self, axis: i32, ranks: i32) -> Value<'b> {
        // SAFETY: the handle is alive; lists are as long as they say.
        self.with(&[], |chain, out, error| unsafe {
            sys::sinter_chain_add_all_gather(chain, self.id, axis, ranks, out, error)
        })
    }

    /// This rank's part of the sum of x over ranks, in the bits of sinter_chain_add_all_reduce: rank r gets the r-th of
    /// `ranks` equal parts of `axis`, whose extent is constant and a multiple of `ranks`. Rows of M are scattered from
    /// [ranks, M, n] along axis 0 into [1, M, n].
    pub fn reduce_scatter(self, axis: i32, ranks: i32) -> Value<'b> {
        // SAFETY: the handle is alive; lists are as long as they say.
        self.with(&[], |chain, out, error| unsafe {
            sys::sinter_chain_add_reduce_scatter(chain, self.id, axis, ranks, out, error)
        })
    }

    /// A function of one operand, element by element.
    pub fn unary(self, kind: Unary) -> Value<'b> {
        // SAFETY: the handle is alive; lists are as long as they say.
        self.with(&[], |chain, out, error| unsafe {
            sys::sinter_chain_add_unary(chain, kind.0, self.id, out, error)
        })
    }

    /// A function of two operands of equal extents, or one of rank 0. The wider floating dtype; f16 with bf16 gives
    /// f32.
    pub fn binary(self, kind: Binary, b: Value<'b>) -> Value<'b> {
        // SAFETY: the handle is alive; lists are as long as they say.
        self.with(&[Some(b)], |chain, out, error| unsafe {
            sys::sinter_chain_add_binary(chain, kind.0, self.id, b.id, out, error)
        })
    }

    /// A comparison; gives pred. Operands are as in a binary function.
    pub fn compare(self, kind: Compare, b: Value<'b>) -> Value<'b> {
        // SAFETY: the handle is alive; lists are as long as they say.
        self.with(&[Some(b)], |chain, out, error| unsafe {
            sys::sinter_chain_add_compare(chain, kind.0, self.id, b.id, out, error)
        })
    }

    /// condition ? a : b, element by element; `condition` is pred.
    pub fn select(self, a: Value<'b>, b: Value<'b>) -> Value<'b> {
        // SAFETY: the handle is alive; lists are as long as they say.
        self.with(&[Some(a), Some(b)], |chain, out, error| unsafe {
            sys::sinter_chain_add_select(chain, self.id, a.id, b.id, out, error)
        })
    }

    /// The only op that rounds: to nearest even. To s32: toward zero, saturating, NaN gives 0. To pred: != 0. To e4m3:
    /// saturating to +-448, NaN kept. To s8: saturating, NaN gives 0.
    pub fn cast(self, dtype: DType) -> Value<'b> {
        // SAFETY: the handle is alive; lists are as long as they say.
        self.with(&[], |chain, out, error| unsafe {
            sys::sinter_chain_add_cast(chain, self.id, dtype.0, out, error)
        })
    }

    /// Repeats an extent of 1, or a missing axis; extents are aligned at the right.
    pub fn broadcast(self, dims: &[i64]) -> Value<'b> {
        // SAFETY: the handle is alive; lists are as long as they say.
        self.with(&[], |chain, out, error| unsafe {
            sys::sinter_chain_add_broadcast(chain, self.id, dims.len() as u32, dims.as_ptr(), out, error)
        })
    }

    /// Result axis i is operand axis permutation[i].
    pub fn transpose(self, permutation: &[i32]) -> Value<'b> {
        // SAFETY: the handle is alive; lists are as long as they say.
        self.with(&[], |chain, out, error| unsafe {
            sys::sinter_chain_add_transpose(chain, self.id, permutation.len() as u32, permutation.as_ptr(), out, error)
        })
    }

    /// The same elements in row-major order; M occurs as often before as after.
    pub fn reshape(self, dims: &[i64]) -> Value<'b> {
        // SAFETY: the handle is alive; lists are as long as they say.
        self.with(&[], |chain, out, error| unsafe {
            sys::sinter_chain_add_reshape(chain, self.id, dims.len() as u32, dims.as_ptr(), out, error)
        })
    }

    /// Takes by ids, which are s32 or s64, an input or computed. Along axis 0 rows of x [rows, ..]: result[i.., ..] =
    /// x[ids[i..], ..]; its extents are ids' and then x's after the rows: an embedding, index_select. Along the last
    /// axis of x, or -1, single elements: result[i.., t] = x[i.., ids[i.., t]], with ids' extents, which equal x's
    /// except on that axis: take_along_dim. An id counts from 0; one that is negative or not below the extent gives
    /// zeros. x is of any dtype but s64, and so is the result. An extent of ids may be SINTER_DIM_M, and x's rows may;
    /// not an axis whose elements are taken.
    pub fn gather(self, ids: Value<'b>, axis: i32) -> Value<'b> {
        // SAFETY: the handle is alive; lists are as long as they say.
        self.with(&[Some(ids)], |chain, out, error| unsafe {
            sys::sinter_chain_add_gather(chain, self.id, ids.id, axis, out, error)
        })
    }

    /// x [rows, ..] with rows written over it, as into a cache: result[ids[i..], ..] = rows[i.., ..], and x elsewhere;
    /// index_copy. rows has ids' extents and then x's after its rows. It has x's dtype, which is any but s64; ids are
    /// s32 or s64, an input or computed. If ids are equal, the last one in row-major order wins. An id that is negative
    /// or not below the extent writes nothing. If an output of the result may share x's buffer
    /// (sinter_output_options.alias) and does at launch, only what is written is touched; else the rest is copied. An
    /// extent of ids may be SINTER_DIM_M, and x's rows may.
    pub fn scatter(self, ids: Value<'b>, rows: Value<'b>) -> Value<'b> {
        // SAFETY: the handle is alive; lists are as long as they say.
        self.with(&[Some(ids), Some(rows)], |chain, out, error| unsafe {
            sys::sinter_chain_add_scatter(chain, self.id, ids.id, rows.id, out, error)
        })
    }

    /// Where the `count` largest numbers of each row of x [.., n] are: s32 [.., count], falling; of equal ones the
    /// lower place first, -0 equals 0, and NaN counts as the largest, as torch.topk has it. x is floating or s32; count
    /// is 1 to 64 and at most n. Their values: a gather along -1.
    pub fn top_k(self, count: i32) -> Value<'b> {
        // SAFETY: the handle is alive; lists are as long as they say.
        self.with(&[], |chain, out, error| unsafe {
            sys::sinter_chain_add_top_k(chain, self.id, count, out, error)
        })
    }

    /// Running sums along the last axis of x [.., n], which is not SINTER_DIM_M, as torch.cumsum has them: result[..,
    /// i] is the sum of x[.., 0] to x[.., i]. f32 of floating x; s32 wraps.
    pub fn cumsum(self) -> Value<'b> {
        // SAFETY: the handle is alive; lists are as long as they say.
        self.with(&[], |chain, out, error| unsafe {
            sys::sinter_chain_add_cumsum(chain, self.id, out, error)
        })
    }

    /// Uniform random f32 in [0, 1): the element of row-major place i is what Triton's tl.rand(seed, offset + i) gives:
    /// word 0 of Philox4x32-10 whose key is `seed` and whose counter is offset + i, of 64 bits. Both are s32 or s64 of
    /// rank 0, so that each launch may have others. Either may instead have a number for each index of leading dims of
    /// the result, [rows] for [rows, columns]; then i is the place within that index, so a row's numbers do not depend
    /// on where the row stands.
    pub fn random(self, offset: Value<'b>, dims: &[i64]) -> Value<'b> {
        // SAFETY: the handle is alive; lists are as long as they say.
        self.with(&[Some(offset)], |chain, out, error| unsafe {
            sys::sinter_chain_add_random(chain, self.id, offset.id, dims.len() as u32, dims.as_ptr(), out, error)
        })
    }

    /// An activation with nothing before it.
    pub fn activation(self, activation: Activation) -> Value<'b> {
        // SAFETY: the handle is alive; lists are as long as they say.
        self.with(&[], |chain, out, error| unsafe {
            sys::sinter_chain_add_activation(chain, activation.0, self.id, out, error)
        })
    }

    /// log(1 + exp(x)), right for x of any magnitude.
    pub fn softplus(self) -> Value<'b> {
        // SAFETY: the handle is alive; lists are as long as they say.
        self.with(&[], |chain, out, error| unsafe {
            sys::sinter_chain_add_softplus(chain, self.id, out, error)
        })
    }

    /// min(max(x, min), max) in x's dtype, floating or s32, to which the bounds are rounded; NaN stays NaN. An infinite
    /// number means no bound; only one of the two may be infinite.
    pub fn clamp(self, min: f64, max: f64) -> Value<'b> {
        // SAFETY: the handle is alive; lists are as long as they say.
        self.with(&[], |chain, out, error| unsafe {
            sys::sinter_chain_add_clamp(chain, self.id, min, max, out, error)
        })
    }

    /// Where the largest number of each row of x [.., n] is, s32 [..]: of equal ones the first, and the first NaN where
    /// there is one. x is floating or s32.
    pub fn argmax(self) -> Value<'b> {
        // SAFETY: the handle is alive; lists are as long as they say.
        self.with(&[], |chain, out, error| unsafe {
            sys::sinter_chain_add_argmax(chain, self.id, out, error)
        })
    }

    /// Where the smallest number of each row of x [.., n] is, s32 [..]: of equal ones the first, and the first NaN
    /// where there is one. x is floating or s32.
    pub fn argmin(self) -> Value<'b> {
        // SAFETY: the handle is alive; lists are as long as they say.
        self.with(&[], |chain, out, error| unsafe {
            sys::sinter_chain_add_argmin(chain, self.id, out, error)
        })
    }

    /// silu(gate) * up.
    pub fn swiglu(self, up: Value<'b>) -> Value<'b> {
        // SAFETY: the handle is alive; lists are as long as they say.
        self.with(&[Some(up)], |chain, out, error| unsafe {
            sys::sinter_chain_add_swiglu(chain, self.id, up.id, out, error)
        })
    }

    /// Rotary embedding, halves form: (t1, t2) = halves of x's last axis, concat(t1 cos - t2 sin, t2 cos + t1 sin).
    /// `cos` and `sin` broadcast to the shape of a half.
    pub fn rope(self, cos: Value<'b>, sin: Value<'b>) -> Value<'b> {
        // SAFETY: the handle is alive; lists are as long as they say.
        self.with(&[Some(cos), Some(sin)], |chain, out, error| unsafe {
            sys::sinter_chain_add_rope(chain, self.id, cos.id, sin.id, out, error)
        })
    }

    /// xg, hg [.., 3h], h [.., h]: r = s(xg0 + hg0), z = s(xg1 + hg1), n = tanh(xg2 + r hg2); (1 - z) n + z h.
    pub fn gru_cell(self, hg: Value<'b>, h: Value<'b>) -> Value<'b> {
        // SAFETY: the handle is alive; lists are as long as they say.
        self.with(&[Some(hg), Some(h)], |chain, out, error| unsafe {
            sys::sinter_chain_add_gru_cell(chain, self.id, hg.id, h.id, out, error)
        })
    }

    /// Weights of four bits as f32 [.., k], unrounded: cast them to bf16 for a product. w is s8 [.., k / 2]; byte i of
    /// a row has element 2 i in its low four bits and element 2 i + 1 in the others. scale, floating [.., groups], has
    /// a value for each group of k / groups neighbours. (code - zero) * scale: codes are 0 to 15; zero, floating, is of
    /// rank 0 (8 of the symmetric form) or has the dims of scale.
    pub fn dequantize_u4(self, scale: Value<'b>, zero: Value<'b>) -> Value<'b> {
        // SAFETY: the handle is alive; lists are as long as they say.
        self.with(&[Some(scale), Some(zero)], |chain, out, error| unsafe {
            sys::sinter_chain_add_dequantize_u4(chain, self.id, scale.id, zero.id, out, error)
        })
    }

    /// Weights of e2m1 (mxfp4), a sign bit, then 0 .5 1 1.5 2 3 4 6, times their scales, as f32 [.., k], unrounded. w
    /// and scale lie as in dequantize_u4; a scale of E8M0 is exact as bf16.
    pub fn dequantize_e2m1(self, scale: Value<'b>) -> Value<'b> {
        // SAFETY: the handle is alive; lists are as long as they say.
        self.with(&[Some(scale)], |chain, out, error| unsafe {
            sys::sinter_chain_add_dequantize_e2m1(chain, self.id, scale.id, out, error)
        })
    }

    /// The same as f32 [n, k] of a packed matrix, whose bytes lie as kernels read them: the order of vLLM's Marlin
    /// kernels, which plans read faster and for any number of rows. w is s8 [k / 16, 8 n], n a multiple of 64. A row
    /// has 512 bytes for each 64 columns. Byte 16 (4 i + j) + 4 f + 2 e + b of those has the code of column 16 f + 8 b
    /// + i and of element 2 j + e of the row's 16 of k in its low four bits, and of element 2 j + e + 8 in the others.
    /// scale is [groups, n]: of each 64 columns, place 8 i + j has column 8 j + i. zero is of rank 0, or lies as scale.
    pub fn dequantize_u4_packed(self, scale: Value<'b>, zero: Value<'b>) -> Value<'b> {
        // SAFETY: the handle is alive; lists are as long as they say.
        self.with(&[Some(scale), Some(zero)], |chain, out, error| unsafe {
            sys::sinter_chain_add_dequantize_u4_packed(chain, self.id, scale.id, zero.id, out, error)
        })
    }

    /// Weights of e2m1 of a packed matrix: w and scale lie as in dequantize_u4_packed.
    pub fn dequantize_e2m1_packed(self, scale: Value<'b>) -> Value<'b> {
        // SAFETY: the handle is alive; lists are as long as they say.
        self.with(&[Some(scale)], |chain, out, error| unsafe {
            sys::sinter_chain_add_dequantize_e2m1_packed(chain, self.id, scale.id, out, error)
        })
    }

    /// Codes of a checkpoint in that order, as s8 [k / 16, 8 n]: n is a multiple of 64, k of 16. A chain of this op and
    /// the next ones runs once, and its outputs are kept (docs/four-bit.md). w is s8, four for each word of 32 bits:
    /// [n, k / 2] of ROWS and COMPRESSED_TENSORS, [k, n / 2] of AWQ, [k / 8, 4 n] of GPTQ, whose elements of k lie in
    /// the order of their groups: its g_idx never falls.
    pub fn pack_codes(self, checkpoint: Checkpoint) -> Value<'b> {
        // SAFETY: the handle is alive; lists are as long as they say.
        self.with(&[], |chain, out, error| unsafe {
            sys::sinter_chain_add_pack_codes(chain, self.id, checkpoint.0, out, error)
        })
    }

    /// Floating scales, or floating zeros, as packed ones [groups, n] of the same type. scale is [n, groups] of ROWS
    /// and COMPRESSED_TENSORS, else [groups, n].
    pub fn pack_scales(self, checkpoint: Checkpoint) -> Value<'b> {
        // SAFETY: the handle is alive; lists are as long as they say.
        self.with(&[], |chain, out, error| unsafe {
            sys::sinter_chain_add_pack_scales(chain, self.id, checkpoint.0, out, error)
        })
    }

    /// Zeros of four bits as packed ones, f32 [groups, n] of 0 to 15. zero is s8: [n / 8, 4 groups] of
    /// COMPRESSED_TENSORS, [groups, n / 2] of AWQ and GPTQ. ROWS is SINTER_INVALID_ARGUMENT: its zeros are floating.
    pub fn pack_zeros(self, checkpoint: Checkpoint) -> Value<'b> {
        // SAFETY: the handle is alive; lists are as long as they say.
        self.with(&[], |chain, out, error| unsafe {
            sys::sinter_chain_add_pack_zeros(chain, self.id, checkpoint.0, out, error)
        })
    }

    /// Scales of E8M0, s8 of any dims, as f32: byte b is 2^(b - 127), 255 is NaN. Cast to bf16, they are exact.
    pub fn dequantize_e8m0(self) -> Value<'b> {
        // SAFETY: the handle is alive; lists are as long as they say.
        self.with(&[], |chain, out, error| unsafe {
            sys::sinter_chain_add_dequantize_e8m0(chain, self.id, out, error)
        })
    }
}
