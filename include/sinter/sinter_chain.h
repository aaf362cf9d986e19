/* Chains: what is to be computed, described op by op. sinter.h includes this header and states the
 * conventions.
 *
 * Every add checks its operands at once and returns the new value in *out_value; a failed add
 * leaves the chain as it was. Errors name the op's index from 0 (op i made value i + 1), its kind,
 * the field, the value and the bound. A chain has at most 65536 ops, 1024 outputs, and 4096 inputs
 * and outputs together. Shapes are written outermost first. `dims`: `rank` extents, 0 to 6 of them,
 * each 1 to 2^31 - 1 or SINTER_DIM_M; at most 2^40 elements, M not counted. Adds are
 * thread-compatible. All since 0.1. */
#ifndef SINTER_SINTER_CHAIN_H_
#define SINTER_SINTER_CHAIN_H_

#include "sinter/sinter_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An empty chain. It belongs to no context: one chain may be prepared in many. Thread-safe. */
SINTER_API sinter_status sinter_chain_create(sinter_chain** out_chain, sinter_error** error);
SINTER_API void sinter_chain_retain(const sinter_chain* chain);  /* Thread-safe. */
SINTER_API void sinter_chain_release(const sinter_chain* chain); /* Thread-safe. */

/* sinter_input_options.flags. A constant never changes while a plan uses it on a stream: weights.
 * Only constants may be read before the kernels ahead on the stream have finished. */
enum { SINTER_INPUT_CONSTANT = 1 };
typedef struct sinter_input_options {
  uint32_t struct_size;
  uint32_t flags;
  const char* name;       /* for messages only, at most 128 bytes of printable ASCII; NULL: none */
  const int64_t* strides; /* `rank` strides in elements, each 0 to 2^40; NULL: contiguous; 0 repeats
                             an element */
  const int32_t* stride_m_powers; /* `rank` powers, each 0 to 5: the stride is strides[i] * M^power;
                                     NULL: all 0 */
} sinter_input_options;
/* A tensor that the caller supplies. Buffers are later given in the order of these calls. */
SINTER_API sinter_status sinter_chain_add_input(sinter_chain* chain, sinter_dtype dtype,
                                                uint32_t rank, const int64_t* dims,
                                                const sinter_input_options* options,
                                                sinter_value* out_value, sinter_error** error);
/* A constant of rank 0, rounded to `dtype`; NaN is refused. */
SINTER_API sinter_status sinter_chain_add_scalar(sinter_chain* chain, double value,
                                                 sinter_dtype dtype, sinter_value* out_value,
                                                 sinter_error** error);
/* result[.., i, ..] = i along `axis`; s32 or f32. */
SINTER_API sinter_status sinter_chain_add_iota(sinter_chain* chain, sinter_dtype dtype,
                                               uint32_t rank, const int64_t* dims, int32_t axis,
                                               sinter_value* out_value, sinter_error** error);

enum { SINTER_MATMUL_TRANSPOSE_A = 1, SINTER_MATMUL_TRANSPOSE_B = 2 };
typedef struct sinter_matmul_options {
  uint32_t struct_size;
  uint32_t flags; /* TRANSPOSE_A: a is [.., k, m]; TRANSPOSE_B: b is [.., n, k] */
} sinter_matmul_options;
/* [batch.., m, k] x [batch.., k, n] -> f32 [batch.., m, n]; batch extents equal, or absent in one
 * operand. Both floating; or both e4m3 or both s8 (-> s32), with TRANSPOSE_B alone. */
SINTER_API sinter_status sinter_chain_add_matmul(sinter_chain* chain, sinter_value a,
                                                 sinter_value b,
                                                 const sinter_matmul_options* options,
                                                 sinter_value* out_value, sinter_error** error);

/* Products of rows with the matrices that ids name, as in a mixture of experts: result[m, t] =
 * w[ids[m, t]] a[m], or a[m, t] of an a of rank 3. a [m, k] or [m, t, k]; w [experts, n, k] with
 * TRANSPOSE_B, else [experts, k, n]; both floating, k a multiple of 8. ids s32 [m, t], an input
 * that is not constant, or computed; 1 to 32 slots t, 1 to 1024 experts. An id that is negative
 * or not below the experts gives zeros. m may be SINTER_DIM_M. f32 [m, t, n]. */
SINTER_API sinter_status sinter_chain_add_grouped_matmul(sinter_chain* chain, sinter_value a,
                                                         sinter_value w, sinter_value ids,
                                                         const sinter_matmul_options* options,
                                                         sinter_value* out_value,
                                                         sinter_error** error);
/* The same of rows that lie in the order of their matrices, as PyTorch's grouped_mm has them:
 * result[m] = w[e] a[m] with the first e of m < ends[e]. a [m, k]; w is as in grouped_matmul; ends
 * s32 [experts], not constant. So an end that is negative or less than one before it ends no rows,
 * and one that exceeds the rows ends with them. Rows past the last end are zeros. f32 [m, n]. If a
 * launch is made in passes, ends count the rows of all passes. */
SINTER_API sinter_status sinter_chain_add_grouped_matmul_ends(sinter_chain* chain, sinter_value a,
                                                              sinter_value w, sinter_value ends,
                                                              const sinter_matmul_options* options,
                                                              sinter_value* out_value,
                                                              sinter_error** error);

/* The sum of x over the GPUs of a group (sinter_group.h), of which each has inputs of its own: of x
 * rounded to its dtype, floating, in the order of ranks, in f32, rounded to x's dtype. All ranks
 * get the same bits. `ranks`, 1 to 8, is the same in all sums and gathers of a chain, which is then
 * split over so many GPUs; of 1 each is a cast to x's dtype. SINTER_INVALID_ARGUMENT for any other
 * number, and where a sum or gather of the chain has another. */
SINTER_API sinter_status sinter_chain_add_all_reduce(sinter_chain* chain, sinter_value x,
                                                     int32_t ranks, sinter_value* out_value,
                                                     sinter_error** error);

/* What all ranks have of x, joined along `axis` in the order of ranks: of x rounded to its dtype,
 * which is floating or e4m3. The extent of `axis` is constant, and `ranks` times as large in the
 * result. Rows of M are gathered with an axis of their own in front: of [1, M, n] along axis 0 into
 * [ranks, M, n]. `ranks` and errors are as in sinter_chain_add_all_reduce. */
SINTER_API sinter_status sinter_chain_add_all_gather(sinter_chain* chain, sinter_value x,
                                                     int32_t axis, int32_t ranks,
                                                     sinter_value* out_value, sinter_error** error);

/* This rank's part of the sum of x over ranks, in the bits of sinter_chain_add_all_reduce: rank r
 * gets the r-th of `ranks` equal parts of `axis`, whose extent is constant and a multiple of
 * `ranks`. Rows of M are scattered from [ranks, M, n] along axis 0 into [1, M, n]. */
SINTER_API sinter_status sinter_chain_add_reduce_scatter(sinter_chain* chain, sinter_value x,
                                                         int32_t axis, int32_t ranks,
                                                         sinter_value* out_value,
                                                         sinter_error** error);

typedef struct sinter_conv2d_options {
  uint32_t struct_size;
  uint32_t flags; /* none yet */
  sinter_filter filter;
  int32_t groups;                                   /* 0 means 1; divides the channels of x */
  int32_t stride_height, stride_width;              /* 0 means 1; at most 1024 */
  int32_t dilation_height, dilation_width;          /* 0 means 1; at most 1024 */
  int32_t pad_top, pad_bottom, pad_left, pad_right; /* pixels of zeros, each 0 to 1024 */
} sinter_conv2d_options;
/* x [batch, height, width, in] (NHWC) with the filter w -> f32 [batch, p, q, out], p = (height +
 * pads - dilation (filter height - 1) - 1) / stride + 1, rounded down. Cross-correlation: the
 * filter is not flipped. Only the batch may be SINTER_DIM_M. A filter of one pixel, without stride
 * and padding, is the product of x with [in, out]. In groups the channels of x and the result are
 * cut into as many equal parts; each part of the result sums only its part of x, so w has in /
 * groups channels. With as many groups as x and the result have channels each channel has a filter
 * of its own, w [channels, height, width, 1] (OHWI) or [height, width, 1, channels] (HWIO): a
 * composite of a window, products and sums. */
SINTER_API sinter_status sinter_chain_add_conv2d(sinter_chain* chain, sinter_value x,
                                                 sinter_value w,
                                                 const sinter_conv2d_options* options,
                                                 sinter_value* out_value, sinter_error** error);
/* A function of one operand, element by element. */
SINTER_API sinter_status sinter_chain_add_unary(sinter_chain* chain, sinter_unary kind,
                                                sinter_value a, sinter_value* out_value,
                                                sinter_error** error);
/* A function of two operands of equal extents, or one of rank 0. The wider floating dtype; f16 with
 * bf16 gives f32. */
SINTER_API sinter_status sinter_chain_add_binary(sinter_chain* chain, sinter_binary kind,
                                                 sinter_value a, sinter_value b,
                                                 sinter_value* out_value, sinter_error** error);
/* A comparison; gives pred. Operands are as in a binary function. */
SINTER_API sinter_status sinter_chain_add_compare(sinter_chain* chain, sinter_compare kind,
                                                  sinter_value a, sinter_value b,
                                                  sinter_value* out_value, sinter_error** error);
/* condition ? a : b, element by element; `condition` is pred. */
SINTER_API sinter_status sinter_chain_add_select(sinter_chain* chain, sinter_value condition,
                                                 sinter_value a, sinter_value b,
                                                 sinter_value* out_value, sinter_error** error);
/* The only op that rounds: to nearest even. To s32: toward zero, saturating, NaN gives 0. To pred:
 * != 0. To e4m3: saturating to +-448, NaN kept. To s8: saturating, NaN gives 0. */
SINTER_API sinter_status sinter_chain_add_cast(sinter_chain* chain, sinter_value a,
                                               sinter_dtype dtype, sinter_value* out_value,
                                               sinter_error** error);
/* Repeats an extent of 1, or a missing axis; extents are aligned at the right. */
SINTER_API sinter_status sinter_chain_add_broadcast(sinter_chain* chain, sinter_value a,
                                                    uint32_t rank, const int64_t* dims,
                                                    sinter_value* out_value, sinter_error** error);
/* Result axis i is operand axis permutation[i]. */
SINTER_API sinter_status sinter_chain_add_transpose(sinter_chain* chain, sinter_value a,
                                                    uint32_t rank, const int32_t* permutation,
                                                    sinter_value* out_value, sinter_error** error);
/* The same elements in row-major order; M occurs as often before as after. */
SINTER_API sinter_status sinter_chain_add_reshape(sinter_chain* chain, sinter_value a,
                                                  uint32_t rank, const int64_t* dims,
                                                  sinter_value* out_value, sinter_error** error);
/* Per axis a[start : limit : step]; an axis of extent M is taken whole (0, SINTER_DIM_M, 1).
 * `steps` NULL: all 1. */
SINTER_API sinter_status sinter_chain_add_slice(sinter_chain* chain, sinter_value a, uint32_t rank,
                                                const int64_t* starts, const int64_t* limits,
                                                const int64_t* steps, sinter_value* out_value,
                                                sinter_error** error);
/* 1 to 64 operands of one dtype along an axis of constant extent. */
SINTER_API sinter_status sinter_chain_add_concat(sinter_chain* chain, uint32_t count,
                                                 const sinter_value* operands, int32_t axis,
                                                 sinter_value* out_value, sinter_error** error);
/* Takes by ids, which are s32 or s64, an input or computed. Along axis 0 rows of x [rows, ..]:
 * result[i.., ..] = x[ids[i..], ..]; its extents are ids' and then x's after the rows: an
 * embedding, index_select. Along the last axis of x, or -1, single elements: result[i.., t] =
 * x[i.., ids[i.., t]], with ids' extents, which equal x's except on that axis: take_along_dim. An
 * id counts from 0; one that is negative or not below the extent gives zeros. x is of any dtype but
 * s64, and so is the result. An extent of ids may be SINTER_DIM_M, and x's rows may; not an axis
 * whose elements are taken. */
SINTER_API sinter_status sinter_chain_add_gather(sinter_chain* chain, sinter_value x,
                                                 sinter_value ids, int32_t axis,
                                                 sinter_value* out_value, sinter_error** error);
/* x [rows, ..] with rows written over it, as into a cache: result[ids[i..], ..] = rows[i.., ..],
 * and x elsewhere; index_copy. rows has ids' extents and then x's after its rows. It has x's dtype,
 * which is any but s64; ids are s32 or s64, an input or computed. If ids are equal, the last one in
 * row-major order wins. An id that is negative or not below the extent writes nothing. If an output
 * of the result may share x's buffer (sinter_output_options.alias) and does at launch, only what is
 * written is touched; else the rest is copied. An extent of ids may be SINTER_DIM_M, and x's rows
 * may. */
SINTER_API sinter_status sinter_chain_add_scatter(sinter_chain* chain, sinter_value x,
                                                  sinter_value ids, sinter_value rows,
                                                  sinter_value* out_value, sinter_error** error);

/* Where the `count` largest numbers of each row of x [.., n] are: s32 [.., count], falling; of
 * equal ones the lower place first, -0 equals 0, and NaN counts as the largest, as torch.topk has
 * it. x is floating or s32; count is 1 to 64 and at most n. Their values: a gather along -1. */
SINTER_API sinter_status sinter_chain_add_top_k(sinter_chain* chain, sinter_value x, int32_t count,
                                                sinter_value* out_value, sinter_error** error);
/* Running sums along the last axis of x [.., n], which is not SINTER_DIM_M, as torch.cumsum has
 * them: result[.., i] is the sum of x[.., 0] to x[.., i]. f32 of floating x; s32
 * wraps. */
SINTER_API sinter_status sinter_chain_add_cumsum(sinter_chain* chain, sinter_value x,
                                                 sinter_value* out_value, sinter_error** error);
/* Uniform random f32 in [0, 1): the element of row-major place i is what Triton's tl.rand(seed,
 * offset + i) gives: word 0 of Philox4x32-10 whose key is `seed` and whose counter is offset + i,
 * of 64 bits. Both are s32 or s64 of rank 0, so that each launch may have others. Either may
 * instead have a number for each index of leading dims of the result, [rows] for [rows, columns];
 * then i is the place within that index, so a row's numbers do not depend on where the row stands.
 */
SINTER_API sinter_status sinter_chain_add_random(sinter_chain* chain, sinter_value seed,
                                                 sinter_value offset, uint32_t rank,
                                                 const int64_t* dims, sinter_value* out_value,
                                                 sinter_error** error);

/* For a mean over windows: zeros around the image are not counted. */
enum { SINTER_WINDOW_EXCLUDE_PADS = 1 };
typedef struct sinter_window_options {
  uint32_t struct_size;
  uint32_t flags;                                   /* EXCLUDE_PADS, of avg_pool2d alone */
  int32_t height, width;                            /* of the window: 1 to 1024 */
  int32_t stride_height, stride_width;              /* 0 means 1; at most 1024 */
  int32_t dilation_height, dilation_width;          /* 0 means 1; at most 1024 */
  int32_t pad_top, pad_bottom, pad_left, pad_right; /* pixels of fill, each 0 to 1024 */
} sinter_window_options;
/* The pixels that a window meets as it moves over x [batch, height, width, channels] (NHWC), of any
 * dtype but s64: result [batch, p, q, r, s, channels] = x[.., p stride + r dilation - top, q stride
 * + s dilation - left, ..], and `fill`, of rank 0 and x's dtype, outside of the image. p and q are
 * as in conv2d. Only the batch may be SINTER_DIM_M. A reduction over r and s is computed where the
 * pixels are read: pooling, a depthwise convolution. */
SINTER_API sinter_status sinter_chain_add_window(sinter_chain* chain, sinter_value x,
                                                 sinter_value fill,
                                                 const sinter_window_options* options,
                                                 sinter_value* out_value, sinter_error** error);

enum { SINTER_REDUCE_KEEPDIMS = 1 };
typedef struct sinter_reduce_options {
  uint32_t struct_size;
  uint32_t flags; /* KEEPDIMS: reduced axes stay with extent 1 */
} sinter_reduce_options;
/* At least one axis, all distinct. Sum and mean give f32 for floating operands. */
SINTER_API sinter_status sinter_chain_add_reduce(sinter_chain* chain, sinter_reduce kind,
                                                 sinter_value a, uint32_t axis_count,
                                                 const int32_t* axes,
                                                 const sinter_reduce_options* options,
                                                 sinter_value* out_value, sinter_error** error);

/* Composites: groups of primitives, expanded as they are added: all of them or none. Results are
 * f32 and unrounded unless said: add the cast that rounds. */

/* An activation with nothing before it. */
SINTER_API sinter_status sinter_chain_add_activation(sinter_chain* chain,
                                                     sinter_activation activation, sinter_value x,
                                                     sinter_value* out_value, sinter_error** error);
/* log(1 + exp(x)), right for x of any magnitude. */
SINTER_API sinter_status sinter_chain_add_softplus(sinter_chain* chain, sinter_value x,
                                                   sinter_value* out_value, sinter_error** error);
/* min(max(x, min), max) in x's dtype, floating or s32, to which the bounds are rounded; NaN stays
 * NaN. An infinite number means no bound; only one of the two may be infinite. */
SINTER_API sinter_status sinter_chain_add_clamp(sinter_chain* chain, sinter_value x, double min,
                                                double max, sinter_value* out_value,
                                                sinter_error** error);
/* The largest pixel of each window of x (NHWC), in x's dtype, floating; NaN stays NaN, pads count
 * as -infinity. */
SINTER_API sinter_status sinter_chain_add_max_pool2d(sinter_chain* chain, sinter_value x,
                                                     const sinter_window_options* options,
                                                     sinter_value* out_value, sinter_error** error);
/* The mean of the pixels of each window of x (NHWC), floating; dilations are 1. Pads are zeros that
 * count, unless SINTER_WINDOW_EXCLUDE_PADS is set. With it each pad is less than the window's
 * extent: a window that holds only pads has no mean. */
SINTER_API sinter_status sinter_chain_add_avg_pool2d(sinter_chain* chain, sinter_value x,
                                                     const sinter_window_options* options,
                                                     sinter_value* out_value, sinter_error** error);
/* Where the largest number of each row of x [.., n] is, s32 [..]: of equal ones the first, and the
 * first NaN where there is one. x is floating or s32. */
SINTER_API sinter_status sinter_chain_add_argmax(sinter_chain* chain, sinter_value x,
                                                 sinter_value* out_value, sinter_error** error);
/* Where the smallest number of each row of x [.., n] is, s32 [..]: of equal ones the first, and the
 * first NaN where there is one. x is floating or s32. */
SINTER_API sinter_status sinter_chain_add_argmin(sinter_chain* chain, sinter_value x,
                                                 sinter_value* out_value, sinter_error** error);
/* silu(gate) * up. */
SINTER_API sinter_status sinter_chain_add_swiglu(sinter_chain* chain, sinter_value gate,
                                                 sinter_value up, sinter_value* out_value,
                                                 sinter_error** error);

typedef struct sinter_softmax_options {
  uint32_t struct_size;
  uint32_t flags;    /* none yet */
  double scale;      /* 0 means 1 */
  sinter_value mask; /* broadcast to x, no pred; SINTER_NO_VALUE: none */
  int32_t reserved;  /* 0 */
} sinter_softmax_options;
/* softmax(scale * x + mask) along `axis`; a negative axis counts from the end. The row's maximum is
 * taken off first. */
SINTER_API sinter_status sinter_chain_add_softmax(sinter_chain* chain, sinter_value x, int32_t axis,
                                                  const sinter_softmax_options* options,
                                                  sinter_value* out_value, sinter_error** error);

#define SINTER_ATTENTION_CAUSAL 1u /* row i sees keys 0 to i */
typedef struct sinter_attention_options {
  uint32_t struct_size;
  uint32_t flags;    /* SINTER_ATTENTION_CAUSAL or 0 */
  double scale;      /* 0 means 1 / sqrt(d) */
  sinter_value bias; /* a number added to the scaled scores, to whose dims it broadcasts;
                        SINTER_NO_VALUE: none */
  sinter_value mask; /* pred, false for keys that a row does not see, broadcast like the bias;
                        SINTER_NO_VALUE: none */
} sinter_attention_options;
/* softmax(scale * q k^T + bias) v of q [.., rows, d], k [.., keys, d] and v [.., keys, e] of one
 * dtype, whose other dims are equal, or absent: broadcast those of extent 1. Probabilities are
 * rounded to that dtype; the result is f32. A row that sees no key is NaN. It may be one kernel
 * if q, k and v are of 16 bits and rank 3 or more, M is only their first dim, d and e are
 * multiples of 8 up to 128, rows and keys at most 65536, and rows begin at multiples of 16 bytes;
 * an error of prepare says what is in the way. */
SINTER_API sinter_status sinter_chain_add_attention(sinter_chain* chain, sinter_value q,
                                                    sinter_value k, sinter_value v,
                                                    const sinter_attention_options* options,
                                                    sinter_value* out_value, sinter_error** error);

typedef struct sinter_norm_options {
  uint32_t struct_size;
  uint32_t flags;     /* none yet */
  double eps;         /* 0 means 1e-5 in a layernorm, 1e-6 in an rmsnorm; at most 1 */
  sinter_value gamma; /* [last axis]; SINTER_NO_VALUE: none */
  sinter_value beta;  /* [last axis], layernorm only; SINTER_NO_VALUE: none */
} sinter_norm_options;
/* (x - mean) * rsqrt(variance + eps) * gamma + beta over the last axis, biased variance. */
SINTER_API sinter_status sinter_chain_add_layernorm(sinter_chain* chain, sinter_value x,
                                                    const sinter_norm_options* options,
                                                    sinter_value* out_value, sinter_error** error);
/* x * rsqrt(mean(x^2) + eps) * gamma over the last axis. */
SINTER_API sinter_status sinter_chain_add_rmsnorm(sinter_chain* chain, sinter_value x,
                                                  const sinter_norm_options* options,
                                                  sinter_value* out_value, sinter_error** error);
/* Rotary embedding, halves form: (t1, t2) = halves of x's last axis, concat(t1 cos - t2 sin, t2 cos
 * + t1 sin). `cos` and `sin` broadcast to the shape of a half. */
SINTER_API sinter_status sinter_chain_add_rope(sinter_chain* chain, sinter_value x,
                                               sinter_value cos, sinter_value sin,
                                               sinter_value* out_value, sinter_error** error);
/* gates [.., 4h] = slices i, f, j, o; c [.., h]: c' = s(f) c + s(i) tanh(j), h' = s(o) tanh(c'). */
SINTER_API sinter_status sinter_chain_add_lstm_cell(sinter_chain* chain, sinter_value gates,
                                                    sinter_value c, sinter_value* out_h,
                                                    sinter_value* out_c, sinter_error** error);
/* xg, hg [.., 3h], h [.., h]: r = s(xg0 + hg0), z = s(xg1 + hg1), n = tanh(xg2 + r hg2); (1 - z) n
 * + z h. */
SINTER_API sinter_status sinter_chain_add_gru_cell(sinter_chain* chain, sinter_value xg,
                                                   sinter_value hg, sinter_value h,
                                                   sinter_value* out_value, sinter_error** error);

typedef struct sinter_next_token_options {
  uint32_t struct_size;
  uint32_t flags; /* none yet */
  int32_t count;  /* the largest logits that are drawn from, 1 to 64 and at most v; 0: all */
  sinter_value temperature; /* floating; SINTER_NO_VALUE: 1 */
  sinter_value k;           /* s32, needs a count; SINTER_NO_VALUE: count */
  sinter_value top_p;       /* floating, needs a count; SINTER_NO_VALUE: all are kept */
  sinter_value min_p;       /* floating; SINTER_NO_VALUE: all are kept */
  int32_t reserved;         /* 0 */
} sinter_next_token_options;
/* A token of each row of logits [.., v], floating, v constant: s32 [..]. It is drawn from
 * softmax(logits / temperature) over the k largest logits, of these the fewest whose probabilities
 * reach top_p, of these the ones at least min_p times as probable as the first. Rows without a
 * temperature above 0 take their largest logit; of equal logits the lower place comes first. Each
 * of the four values has rank 0 (one number for all rows) or the dims [..]. seed and offset, s32 or
 * s64, are used as by a `random` of the dims of logits: equal ones give equal draws, and with the
 * dims
 * [..] a row's draw does not depend on the other rows. A row that has
 * a NaN, +infinity or no number above -infinity gives -1. out_log_probability may be null; else it
 * is the natural logarithm of the token's softmax(logits), without temperature, f32 [..]; NaN where
 * the token is -1. */
SINTER_API sinter_status sinter_chain_add_next_token(sinter_chain* chain, sinter_value logits,
                                                     sinter_value seed, sinter_value offset,
                                                     const sinter_next_token_options* options,
                                                     sinter_value* out_token,
                                                     sinter_value* out_log_probability,
                                                     sinter_error** error);

typedef struct sinter_linear_options {
  uint32_t struct_size;
  uint32_t flags; /* SINTER_ACCUMULATE_FAST, of scaled_matmul alone */
  sinter_layout layout;
  sinter_activation activation;
  sinter_value bias; /* [out]; SINTER_NO_VALUE: none */
  int32_t reserved;  /* 0 */
} sinter_linear_options;
/* activation(x W + bias): x [.., in], W by `layout`. */
SINTER_API sinter_status sinter_chain_add_linear(sinter_chain* chain, sinter_value x,
                                                 sinter_value w,
                                                 const sinter_linear_options* options,
                                                 sinter_value* out_value, sinter_error** error);

typedef struct sinter_gemm_chain_options {
  uint32_t struct_size;
  uint32_t flags; /* SINTER_ACCUMULATE_FAST, of scaled_gemm_chain alone */
  sinter_layout layout;
  sinter_activation activation;
  sinter_value bias1; /* [n]; SINTER_NO_VALUE: none */
  sinter_value bias2; /* [l]; SINTER_NO_VALUE: none */
} sinter_gemm_chain_options;
/* c = activation(a w1 + bias1), unrounded; the result is c w2 + bias2, cast to a's dtype. a [m, k];
 * w1 [n, k] and w2 [l, n] (oi) or [k, n] and [n, l] (io); result [m, l]. FlashFuser's chain of two
 * products. Plans call c and the result "c" and "out". */
SINTER_API sinter_status sinter_chain_add_gemm_chain(sinter_chain* chain, sinter_value a,
                                                     sinter_value w1, sinter_value w2,
                                                     const sinter_gemm_chain_options* options,
                                                     sinter_value* out_value, sinter_error** error);

typedef struct sinter_gated_ffn_options {
  uint32_t struct_size;
  uint32_t flags; /* SINTER_ACCUMULATE_FAST, of scaled_gated_ffn alone */
  sinter_layout layout;
  sinter_activation activation;
  sinter_value bias_gate; /* [n]; both or neither of bias_gate and bias_up */
  sinter_value bias_up;   /* [n] */
  sinter_value bias2;     /* [l]; SINTER_NO_VALUE: none */
  int32_t reserved;       /* 0 */
} sinter_gated_ffn_options;
/* c = activation(a w_gate + bias_gate) * (a w_up + bias_up), unrounded; the result is
 * c w_down + bias2, cast to a's dtype. Shapes as sinter_chain_add_gemm_chain. A merged gate-up
 * weight is two pointers into it. Plans call w_gate and bias_gate "w1" and "bias1", and w_down
 * "w2". FlashFuser's gated FFN. */
SINTER_API sinter_status sinter_chain_add_gated_ffn(sinter_chain* chain, sinter_value a,
                                                    sinter_value w_gate, sinter_value w_up,
                                                    sinter_value w_down,
                                                    const sinter_gated_ffn_options* options,
                                                    sinter_value* out_value, sinter_error** error);

enum {
  SINTER_GROUPED_UP_FIRST = 1,
  SINTER_GROUPED_INTERLEAVED = 2,
  SINTER_GROUPED_WEIGHT_ON_INPUT = 4
};
typedef struct sinter_grouped_gated_ffn_options {
  uint32_t struct_size;
  uint32_t flags; /* of w1's columns: UP_FIRST: up is the first half, not the second; INTERLEAVED:
                     gate and up in turns, gate first. WEIGHT_ON_INPUT: weights multiply w1[e] a[m],
                     that is a[m], and not the results */
  sinter_layout layout;
  sinter_activation activation;
  sinter_value bias1; /* [experts, 2 n], in the order of w1's columns; SINTER_NO_VALUE: none */
  sinter_value bias2; /* [experts, l]; SINTER_NO_VALUE: none */
  double alpha;       /* for SILU only: gate * sigmoid(alpha gate); 0 means 1 */
  double beta;        /* added to up */
  double limit;       /* the most of gate, and up's bounds -limit and limit; 0: none */
} sinter_grouped_gated_ffn_options;
/* The gated FFN of a mixture of experts, by ids and weights [m, t] of a router: row m's result is
 * the sum over t, in order, of weights[m, t] (w2[e] c + bias2[e]) with e = ids[m, t] and c =
 * activation(gate) * (up + beta), cast to a's dtype; gate and up are columns of w1[e] a[m] +
 * bias1[e]. a [m, k]; w1 [experts, 2 n, k] and w2 [experts, l, n], or with the last two dims
 * exchanged (IO), of a's dtype; weights and biases floating; ids as in grouped_matmul. Terms are
 * cast to a's dtype and added in f32; the sum is cast to a's dtype. gpt-oss: SILU, INTERLEAVED,
 * alpha 1.702, beta 1, limit 7, both biases. */
SINTER_API sinter_status sinter_chain_add_grouped_gated_ffn(
    sinter_chain* chain, sinter_value a, sinter_value ids, sinter_value weights, sinter_value w1,
    sinter_value w2, const sinter_grouped_gated_ffn_options* options, sinter_value* out_value,
    sinter_error** error);

/* Codes of 8 bits and the f32 scale that turns them back: code * scale. The scale's extents say
 * what shares a value: [] (all); [rows, 1]; [rows, k / 128] and [1, k / 128] (128 of a row); of
 * weights also [ceil(n / 128), k / 128]. Its strides are its own: row-major, MN-major. */
typedef struct sinter_scaled {
  sinter_value codes, scale;
} sinter_scaled;
/* What shares one value of a scale. 0 means SINTER_SCALE_ROW. */
typedef int32_t sinter_granularity;
enum {
  SINTER_SCALE_TENSOR = 1,
  SINTER_SCALE_ROW = 2,
  SINTER_SCALE_GROUP = 3, /* 128 of a row */
  SINTER_SCALE_STATIC = 4 /* the tensor, by a scale that is given */
};
enum { SINTER_QUANTIZE_UE8M0 = 1 };
typedef struct sinter_quantize_options {
  uint32_t struct_size;
  uint32_t flags; /* UE8M0: the scale is the next power of two */
  sinter_granularity granularity;
  sinter_dtype codes;        /* E4M3 or S8; 0 means E4M3 */
  double eps, upper_bound;   /* 0 means 1e-10; 0 means none */
  sinter_value static_scale; /* f32 of rank 0, for STATIC only; SINTER_NO_VALUE: none */
  int32_t reserved;          /* 0 */
} sinter_quantize_options;
/* scale = max(min(amax, upper_bound), eps) / F: amax is the largest |x| of x, a row (last axis) or
 * a GROUP of 128, F is 448, of s8 127. The codes are x / scale, cast. NaN makes its scale NaN. */
SINTER_API sinter_status sinter_chain_add_quantize(sinter_chain* chain, sinter_value x,
                                                   const sinter_quantize_options* options,
                                                   sinter_scaled* out_scaled, sinter_error** error);
/* Weights of four bits as f32 [.., k], unrounded: cast them to bf16 for a product. w is s8
 * [.., k / 2]; byte i of a row has element 2 i in its low four bits and element 2 i + 1 in the
 * others. scale, floating [.., groups], has a value for each group of k / groups neighbours.
 * (code - zero) * scale: codes are 0 to 15; zero, floating, is of rank 0 (8 of the symmetric form)
 * or has the dims of scale. */
SINTER_API sinter_status sinter_chain_add_dequantize_u4(sinter_chain* chain, sinter_value w,
                                                        sinter_value scale, sinter_value zero,
                                                        sinter_value* out_value,
                                                        sinter_error** error);
/* Weights of e2m1 (mxfp4), a sign bit, then 0 .5 1 1.5 2 3 4 6, times their scales, as f32 [.., k],
 * unrounded. w and scale lie as in dequantize_u4; a scale of E8M0 is exact as bf16. */
SINTER_API sinter_status sinter_chain_add_dequantize_e2m1(sinter_chain* chain, sinter_value w,
                                                          sinter_value scale,
                                                          sinter_value* out_value,
                                                          sinter_error** error);
/* The same as f32 [n, k] of a packed matrix, whose bytes lie as kernels read them: the order of
 * vLLM's Marlin kernels, which plans read faster and for any number of rows. w is s8 [k / 16, 8 n],
 * n a multiple of 64. A row has 512 bytes for each 64 columns. Byte 16 (4 i + j) + 4 f + 2 e + b of
 * those has the code of column 16 f + 8 b + i and of element 2 j + e of the row's 16 of k in its
 * low four bits, and of element 2 j + e + 8 in the others. scale is [groups, n]: of each 64
 * columns, place 8 i + j has column 8 j + i. zero is of rank 0, or lies as scale. */
SINTER_API sinter_status sinter_chain_add_dequantize_u4_packed(sinter_chain* chain, sinter_value w,
                                                               sinter_value scale,
                                                               sinter_value zero,
                                                               sinter_value* out_value,
                                                               sinter_error** error);
/* Weights of e2m1 of a packed matrix: w and scale lie as in dequantize_u4_packed. */
SINTER_API sinter_status sinter_chain_add_dequantize_e2m1_packed(sinter_chain* chain,
                                                                 sinter_value w, sinter_value scale,
                                                                 sinter_value* out_value,
                                                                 sinter_error** error);
/* Codes of a checkpoint in that order, as s8 [k / 16, 8 n]: n is a multiple of 64, k of 16. A chain
 * of this op and the next ones runs once, and its outputs are kept (docs/four-bit.md). w is s8,
 * four for each word of 32 bits: [n, k / 2] of ROWS and COMPRESSED_TENSORS, [k, n / 2] of AWQ, [k /
 * 8, 4 n] of GPTQ, whose elements of k lie in the order of their groups: its g_idx never falls. */
SINTER_API sinter_status sinter_chain_add_pack_codes(sinter_chain* chain, sinter_value w,
                                                     sinter_checkpoint checkpoint,
                                                     sinter_value* out_value, sinter_error** error);
/* Floating scales, or floating zeros, as packed ones [groups, n] of the same type. scale is [n,
 * groups] of ROWS and COMPRESSED_TENSORS, else [groups, n]. */
SINTER_API sinter_status sinter_chain_add_pack_scales(sinter_chain* chain, sinter_value scale,
                                                      sinter_checkpoint checkpoint,
                                                      sinter_value* out_value,
                                                      sinter_error** error);
/* Zeros of four bits as packed ones, f32 [groups, n] of 0 to 15. zero is s8: [n / 8, 4 groups] of
 * COMPRESSED_TENSORS, [groups, n / 2] of AWQ and GPTQ. ROWS is SINTER_INVALID_ARGUMENT: its zeros
 * are floating. */
SINTER_API sinter_status sinter_chain_add_pack_zeros(sinter_chain* chain, sinter_value zero,
                                                     sinter_checkpoint checkpoint,
                                                     sinter_value* out_value, sinter_error** error);
/* Scales of E8M0, s8 of any dims, as f32: byte b is 2^(b - 127), 255 is NaN. Cast to bf16, they are
 * exact. */
SINTER_API sinter_status sinter_chain_add_dequantize_e8m0(sinter_chain* chain, sinter_value scale,
                                                          sinter_value* out_value,
                                                          sinter_error** error);
/* A flag of the options of the three below: sums of e4m3 codes may stay in the tensor cores, which
 * keep 13 fraction bits: faster, less exact as k grows (docs/numerics.md). Without it, sums of 128
 * of k are added in f32. SINTER_INVALID_ARGUMENT for s8, whose sums are exact, and where a scale
 * has a value for each 128 of k. */
enum { SINTER_ACCUMULATE_FAST = 1 };
/* As linear, gemm_chain and gated_ffn, unrounded, layout OI, codes alike; C is quantised. */
SINTER_API sinter_status sinter_chain_add_scaled_matmul(sinter_chain* chain, sinter_scaled a,
                                                        sinter_scaled w,
                                                        const sinter_linear_options* options,
                                                        sinter_value* out_value,
                                                        sinter_error** error);
SINTER_API sinter_status sinter_chain_add_scaled_gemm_chain(
    sinter_chain* chain, sinter_scaled a, sinter_scaled w1, sinter_scaled w2,
    const sinter_quantize_options* quantize, const sinter_gemm_chain_options* options,
    sinter_value* out_value, sinter_error** error);
SINTER_API sinter_status sinter_chain_add_scaled_gated_ffn(
    sinter_chain* chain, sinter_scaled a, sinter_scaled w_gate, sinter_scaled w_up,
    sinter_scaled w_down, const sinter_quantize_options* quantize,
    const sinter_gated_ffn_options* options, sinter_value* out_value, sinter_error** error);

/* As grouped_matmul, of e4m3 codes: scales of a are [], [m, 1] or [m, k / 128], and with a of rank
 * 3 [m, t, ..]; w is [experts, n, k], its scales [], [experts, 1, 1], [experts, n, 1] or [experts,
 * ceil(n / 128), k / 128]; [1, ..] is accepted for []. Sums of 128 of k are added in f32. options:
 * no flags but TRANSPOSE_B, which says what w is anyway. */
SINTER_API sinter_status sinter_chain_add_scaled_grouped_matmul(
    sinter_chain* chain, sinter_scaled a, sinter_scaled w, sinter_value ids,
    const sinter_matmul_options* options, sinter_value* out_value, sinter_error** error);
/* As grouped_gated_ffn, of such codes, layout OI: c is quantised, each term cast to bf16, and their
 * sum f32 [m, l]. Scales of a, w1 and w2 are as in scaled_grouped_matmul. These options must be
 * unset: WEIGHT_ON_INPUT, biases, alpha, beta and limit. */
SINTER_API sinter_status sinter_chain_add_scaled_grouped_gated_ffn(
    sinter_chain* chain, sinter_scaled a, sinter_value ids, sinter_value weights, sinter_scaled w1,
    sinter_scaled w2, const sinter_quantize_options* quantize,
    const sinter_grouped_gated_ffn_options* options, sinter_value* out_value, sinter_error** error);

typedef struct sinter_output_options {
  uint32_t struct_size;
  uint32_t flags;         /* none yet */
  const int64_t* strides; /* in elements, one per axis; NULL: contiguous; must not overlap */
  const int32_t* stride_m_powers; /* as in sinter_input_options */
  sinter_value alias; /* an input whose buffer this output may share; SINTER_NO_VALUE: none */
  int32_t reserved;   /* 0 */
} sinter_output_options;
/* Declares the next output. A value may be declared more than once. */
SINTER_API sinter_status sinter_chain_add_output(sinter_chain* chain, sinter_value value,
                                                 const sinter_output_options* options,
                                                 sinter_error** error);
/* Checks the whole (an output exists, no value is dead) and freezes the chain: from here on it is
 * immutable and thread-safe, and adds are SINTER_FAILED_PRECONDITION. Thread-compatible. */
SINTER_API sinter_status sinter_chain_finish(sinter_chain* chain, sinter_error** error);

/* One buffer of a finished chain. */
typedef struct sinter_tensor_info {
  uint32_t struct_size;
  uint32_t flags; /* SINTER_INPUT_CONSTANT */
  sinter_dtype dtype;
  uint32_t rank;
  uint64_t bytes;                   /* from the first element to the end of the last */
  int64_t dims[SINTER_MAX_RANK];    /* M filled in */
  int64_t strides[SINTER_MAX_RANK]; /* elements, M filled in */
  const char* name;                 /* borrowed from the chain; "" without one */
} sinter_tensor_info;
/* 0 for NULL and for a chain that is not finished. Thread-safe. */
SINTER_API uint32_t sinter_chain_get_input_count(const sinter_chain* chain);
SINTER_API uint32_t sinter_chain_get_output_count(const sinter_chain* chain);
/* Whether M occurs: launches then take one symbol value. Thread-safe. */
SINTER_API int32_t sinter_chain_uses_m(const sinter_chain* chain);
/* Buffer `index`, inputs in the order of their adds, then outputs as declared, at M = `m`.
 * Thread-safe. */
SINTER_API sinter_status sinter_chain_get_buffer(const sinter_chain* chain, uint32_t index,
                                                 int64_t m, sinter_tensor_info* info,
                                                 sinter_error** error);

#ifdef __cplusplus
}
#endif

#endif /* SINTER_SINTER_CHAIN_H_ */
