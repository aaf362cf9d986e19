package sinter

/*
#include "shim.h"
*/
import "C"

import (
	"math"
	"unsafe"
)

// M is the number of rows, known at launch, as an extent; as a slice's limit on that axis all of it.
const M int64 = C.SINTER_DIM_M

// Builder describes a chain. Adds return the new Value. The first add that fails is remembered, those after it do nothing,
// and Finish returns its error. For one goroutine at a time.
type Builder struct {
	h     *handle
	first error
}

// Value is a value of a chain under way: what an add returned. The zero Value is an operand that is absent.
type Value struct {
	b  *Builder
	id C.sinter_value
}

// InputOptions of an input. Strides are in elements, one for each axis, times M to the power of the same axis; nil:
// contiguous, no powers.
type InputOptions struct {
	Constant      bool   // never changes while a plan uses it on a stream: weights
	Name          string // for messages only
	Strides       []int64
	StrideMPowers []int32
}

// OutputOptions of an output; strides as of InputOptions.
type OutputOptions struct {
	Strides       []int64
	StrideMPowers []int32
	Alias         Value // an input whose buffer this output may share
}

// Conv2DOptions are a convolution's; a stride or dilation of 0 is 1.
type Conv2DOptions struct {
	Filter             Filter
	Strides, Dilations [2]int // height, width
	Pads               [4]int // top, bottom, left, right
	Groups             int    // 0: 1; divides the channels of x
}

// WindowOptions say how a window moves over an image; a stride or dilation of 0 is 1.
type WindowOptions struct {
	Window             [2]int // height, width
	Strides, Dilations [2]int // height, width
	Pads               [4]int // top, bottom, left, right
	ExcludePads        bool   // of AvgPool2D alone: zeros around the image are not counted
}

// SoftmaxOptions of a softmax.
type SoftmaxOptions struct {
	Scale float64 // 0: 1
	Mask  Value   // broadcast to x
}

// AttentionOptions of attention.
type AttentionOptions struct {
	Scale  float64 // 0: 1 / sqrt(d)
	Bias   Value   // added to the scaled scores, to whose dims it broadcasts
	Mask   Value   // pred, false for keys that a row does not see
	Causal bool    // row i sees keys 0 to i
}

// NextTokenOptions of a draw. Its values are of all rows or of each; K and TopP need a Count.
type NextTokenOptions struct {
	Count          int   // the largest logits that are drawn from, up to 64; 0: all
	Temperature    Value // 1 if there is none
	K              Value // s32, up to Count
	TopP, MinP     Value
	LogProbability bool // whether the second value is made
}

// NormOptions of the norms.
type NormOptions struct {
	Eps   float64 // 0: 1e-5 in a layernorm, 1e-6 in an rmsnorm
	Gamma Value
	Beta  Value // of a layernorm only
}

// LinearOptions of a product.
type LinearOptions struct {
	Layout     Layout
	Activation Activation
	Bias       Value
	// AccumulateFast is only for ScaledMatmul: sums of e4m3 codes may stay in the tensor cores.
	AccumulateFast bool
}

// GemmChainOptions of two products.
type GemmChainOptions struct {
	Layout       Layout
	Bias1, Bias2 Value
	// AccumulateFast is only for ScaledGemmChain: sums of e4m3 codes may stay in the tensor cores.
	AccumulateFast bool
}

// GatedFFNOptions of a gated FFN; both or neither of BiasGate and BiasUp.
type GatedFFNOptions struct {
	Layout                  Layout
	BiasGate, BiasUp, Bias2 Value
	// AccumulateFast is only for ScaledGatedFFN: sums of e4m3 codes may stay in the tensor cores.
	AccumulateFast bool
}

// GroupedGatedFFNOptions of a gated FFN of a mixture of experts.
type GroupedGatedFFNOptions struct {
	Layout Layout
	// UpFirst says that up is the first half of w1's columns, not the second; Interleaved that gate and up are in
	// turns, gate first.
	UpFirst, Interleaved bool
	// WeightOnInput says that weights multiply w1[e] x[m], that is x[m], and not the results.
	WeightOnInput bool
	// Bias1 is [experts, 2 n] and Bias2 [experts, l].
	Bias1, Bias2 Value
	// Alpha is for SiLU only: gate * sigmoid(Alpha gate); 0 means 1. Beta is added to up. Limit is the most of gate, and of
	// up in both directions; 0 means none.
	Alpha, Beta, Limit float64
}

// Scaled is codes of 8 bits and the f32 scale that turns them back.
type Scaled struct {
	Codes, Scale Value
}

// QuantizeOptions of a quantiser.
type QuantizeOptions struct {
	Granularity Granularity
	Codes       DType   // 0: E4M3; or S8
	Eps         float64 // 0: 1e-10
	UpperBound  float64 // 0: none
	UE8M0       bool    // the scale is the next power of two
	StaticScale Value   // of ScaleStatic
}

// NewBuilder is an empty chain.
func NewBuilder() *Builder {
	b := &Builder{}
	var p *C.sinter_chain
	var failed *C.sinter_error
	if b.first = check(C.sinter_chain_create(&p, &failed), &failed); b.first == nil {
		b.h = newHandle("the builder", unsafe.Pointer(p), func(p unsafe.Pointer) { C.sinter_chain_release((*C.sinter_chain)(p)) })
	}
	return b
}

// Err is the error of the first add that failed.
func (b *Builder) Err() error { return b.first }

// Finish is the finished chain, or the first error of the adds, or what the chain as a whole lacks. It closes the builder.
func (b *Builder) Finish() (*Chain, error) {
	defer b.Close()
	var chain *Chain
	b.add(func(p *C.sinter_chain, _ *C.sinter_value, failed **C.sinter_error) C.sinter_status {
		status := C.sinter_chain_finish(p, failed)
		if status == C.SINTER_OK {
			C.sinter_chain_retain(p)
			chain = newChain(p)
		}
		return status
	})
	return chain, b.first
}

// Close discards a chain that was not finished.
func (b *Builder) Close() { b.h.close() }

func (b *Builder) refuse(format string, arguments ...interface{}) {
	if b.first == nil {
		b.first = invalid(format, arguments...)
	}
}

func (b *Builder) number(field string, value int) C.int32_t {
	return number(field, value, math.MinInt32, &b.first)
}

func (b *Builder) sameLength(op, field string, length int, other string, wanted int) {
	if length != wanted {
		b.refuse("%s: %s has %d values, %s has %d", op, field, length, other, wanted)
	}
}

// add runs f unless an add failed before.
func (b *Builder) add(f func(p *C.sinter_chain, out *C.sinter_value, failed **C.sinter_error) C.sinter_status,
	operands ...Value) Value {
	for _, operand := range operands {
		if operand.b != nil && operand.b != b {
			b.refuse("an operand is value %d of another chain", int(operand.id))
		}
	}
	if b.first != nil {
		return Value{}
	}
	p, err := b.h.acquire()
	if err != nil {
		b.first = err
		return Value{}
	}
	defer b.h.done()
	var out C.sinter_value
	var failed *C.sinter_error
	if b.first = check(f((*C.sinter_chain)(p), &out, &failed), &failed); b.first != nil {
		return Value{}
	}
	return Value{b, out}
}

func dims(values []int64) (C.uint32_t, *C.int64_t) {
	return C.uint32_t(len(values)), first[int64, C.int64_t](values)
}

// Input is a tensor that the caller supplies, contiguous. Buffers are later given in the order of these calls.
func (b *Builder) Input(dtype DType, shape []int64) Value {
	return b.InputWith(dtype, shape, InputOptions{})
}

// Constant is an input that never changes: a weight, a bias, a table.
func (b *Builder) Constant(dtype DType, shape []int64) Value {
	return b.InputWith(dtype, shape, InputOptions{Constant: true})
}

// InputWith is an input with a name or strides.
func (b *Builder) InputWith(dtype DType, shape []int64, given InputOptions) Value {
	var a arena
	defer a.free()
	options := (*C.sinter_input_options)(a.alloc(C.sizeof_sinter_input_options))
	options.struct_size = C.sizeof_sinter_input_options
	if given.Constant {
		options.flags = C.SINTER_INPUT_CONSTANT
	}
	if given.Name != "" {
		options.name = a.text("input.name", given.Name)
	}
	if given.Strides != nil {
		b.sameLength("input", "strides", len(given.Strides), "dims", len(shape))
	}
	if given.StrideMPowers != nil {
		b.sameLength("input", "stride_m_powers", len(given.StrideMPowers), "dims", len(shape))
	}
	options.strides = a.int64s(given.Strides)
	options.stride_m_powers = a.int32s(given.StrideMPowers)
	if a.err != nil && b.first == nil {
		b.first = a.err
	}
	return b.add(func(p *C.sinter_chain, out *C.sinter_value, failed **C.sinter_error) C.sinter_status {
		rank, extents := dims(shape)
		return C.sinter_chain_add_input(p, C.sinter_dtype(dtype), rank, extents, options, out, failed)
	})
}

// Matmul is [batch.., m, k] x [batch.., k, n] -> f32 [batch.., m, n].
func (b *Builder) Matmul(x, y Value) Value { return b.MatmulTransposed(x, y, false, false) }

// MatmulTransposed takes x as [.., k, m], or y as [.., n, k].
func (b *Builder) MatmulTransposed(x, y Value, transposeX, transposeY bool) Value {
	var options C.sinter_matmul_options
	options.struct_size = C.sizeof_sinter_matmul_options
	if transposeX {
		options.flags |= C.SINTER_MATMUL_TRANSPOSE_A
	}
	if transposeY {
		options.flags |= C.SINTER_MATMUL_TRANSPOSE_B
	}
	return b.add(func(p *C.sinter_chain, out *C.sinter_value, failed **C.sinter_error) C.sinter_status {
		return C.sinter_chain_add_matmul(p, x.id, y.id, &options, out, failed)
	}, x, y)
}

func groupedOptions(transposeW bool) C.sinter_matmul_options {
	var options C.sinter_matmul_options
	options.struct_size = C.sizeof_sinter_matmul_options
	if transposeW {
		options.flags |= C.SINTER_MATMUL_TRANSPOSE_B
	}
	return options
}

// GroupedMatmul is w[ids[m, t]] x[m], or x[m, t] of an x of three axes: f32 [m, t, n]. w is [experts, k, n], or with
// transposeW [experts, n, k].
func (b *Builder) GroupedMatmul(x, w, ids Value, transposeW bool) Value {
	options := groupedOptions(transposeW)
	return b.add(func(p *C.sinter_chain, out *C.sinter_value, failed **C.sinter_error) C.sinter_status {
		return C.sinter_chain_add_grouped_matmul(p, x.id, w.id, ids.id, &options, out, failed)
	}, x, w, ids)
}

// GroupedMatmulEnds is w[e] x[m] with the first e of m < ends[e]: f32 [m, n]. Rows past the last end are zeros.
func (b *Builder) GroupedMatmulEnds(x, w, ends Value, transposeW bool) Value {
	options := groupedOptions(transposeW)
	return b.add(func(p *C.sinter_chain, out *C.sinter_value, failed **C.sinter_error) C.sinter_status {
		return C.sinter_chain_add_grouped_matmul_ends(p, x.id, w.id, ends.id, &options, out, failed)
	}, x, w, ends)
}

// Conv2D is x [batch, height, width, in] with the filter w -> f32 [batch, p, q, out].
func (b *Builder) Conv2D(x, w Value, given Conv2DOptions) Value {
	var options C.sinter_conv2d_options
	options.struct_size = C.sizeof_sinter_conv2d_options
	options.filter = C.sinter_filter(given.Filter)
	options.groups = b.number("conv2d: groups", given.Groups)
	stride := func(i int) C.int32_t { return b.number("conv2d: stride", given.Strides[i]) }
	dilation := func(i int) C.int32_t { return b.number("conv2d: dilation", given.Dilations[i]) }
	pad := func(i int) C.int32_t { return b.number("conv2d: pad", given.Pads[i]) }
	options.stride_height, options.stride_width = stride(0), stride(1)
	options.dilation_height, options.dilation_width = dilation(0), dilation(1)
	options.pad_top, options.pad_bottom, options.pad_left, options.pad_right = pad(0), pad(1), pad(2), pad(3)
	return b.add(func(p *C.sinter_chain, out *C.sinter_value, failed **C.sinter_error) C.sinter_status {
		return C.sinter_chain_add_conv2d(p, x.id, w.id, &options, out, failed)
	}, x, w)
}

func (b *Builder) windowOptions(kind string, given WindowOptions) C.sinter_window_options {
	var options C.sinter_window_options
	options.struct_size = C.sizeof_sinter_window_options
	if given.ExcludePads {
		options.flags = C.SINTER_WINDOW_EXCLUDE_PADS
	}
	number := func(field string, v int) C.int32_t { return b.number(kind+": "+field, v) }
	options.height, options.width = number("height", given.Window[0]), number("width", given.Window[1])
	options.stride_height, options.stride_width = number("stride", given.Strides[0]), number("stride", given.Strides[1])
	options.dilation_height = number("dilation", given.Dilations[0])
	options.dilation_width = number("dilation", given.Dilations[1])
	options.pad_top, options.pad_bottom = number("pad", given.Pads[0]), number("pad", given.Pads[1])
	options.pad_left, options.pad_right = number("pad", given.Pads[2]), number("pad", given.Pads[3])
	return options
}

// Window gives the pixels that a window meets as it moves over x [batch, height, width, channels], fill outside of it:
// [batch, p, q, window height, window width, channels].
func (b *Builder) Window(x, fill Value, given WindowOptions) Value {
	options := b.windowOptions("window", given)
	return b.add(func(p *C.sinter_chain, out *C.sinter_value, failed **C.sinter_error) C.sinter_status {
		return C.sinter_chain_add_window(p, x.id, fill.id, &options, out, failed)
	}, x, fill)
}

// MaxPool2D is the largest pixel of each window of x [batch, height, width, channels].
func (b *Builder) MaxPool2D(x Value, given WindowOptions) Value {
	options := b.windowOptions("max_pool2d", given)
	return b.add(func(p *C.sinter_chain, out *C.sinter_value, failed **C.sinter_error) C.sinter_status {
		return C.sinter_chain_add_max_pool2d(p, x.id, &options, out, failed)
	}, x)
}

// AvgPool2D is the mean of the pixels of each window of x [batch, height, width, channels].
func (b *Builder) AvgPool2D(x Value, given WindowOptions) Value {
	options := b.windowOptions("avg_pool2d", given)
	return b.add(func(p *C.sinter_chain, out *C.sinter_value, failed **C.sinter_error) C.sinter_status {
		return C.sinter_chain_add_avg_pool2d(p, x.id, &options, out, failed)
	}, x)
}

// Add is x + y.
func (b *Builder) Add(x, y Value) Value { return b.Binary(BinaryAdd, x, y) }

// Mul is x * y.
func (b *Builder) Mul(x, y Value) Value { return b.Binary(BinaryMul, x, y) }

// Slice is x[start : limit : step] on every axis; without steps all are 1.
func (b *Builder) Slice(x Value, starts, limits, steps []int64) Value {
	b.sameLength("slice", "limits", len(limits), "starts", len(starts))
	if steps != nil {
		b.sameLength("slice", "steps", len(steps), "starts", len(starts))
	}
	return b.add(func(p *C.sinter_chain, out *C.sinter_value, failed **C.sinter_error) C.sinter_status {
		rank, from := dims(starts)
		return C.sinter_chain_add_slice(p, x.id, rank, from, first[int64, C.int64_t](limits),
			first[int64, C.int64_t](steps), out, failed)
	}, x)
}

// Concat joins operands of one dtype along an axis of constant extent.
func (b *Builder) Concat(axis int, operands ...Value) Value {
	along := b.number("concat: axis", axis)
	ids := make([]C.sinter_value, len(operands))
	for i, operand := range operands {
		ids[i] = operand.id
	}
	return b.add(func(p *C.sinter_chain, out *C.sinter_value, failed **C.sinter_error) C.sinter_status {
		return C.sinter_chain_add_concat(p, C.uint32_t(len(ids)), first[C.sinter_value, C.sinter_value](ids),
			along, out, failed)
	}, operands...)
}

// Reduce is over distinct axes; with keepDims they stay with extent 1.
func (b *Builder) Reduce(kind Reduction, x Value, axes []int32, keepDims bool) Value {
	var options C.sinter_reduce_options
	options.struct_size = C.sizeof_sinter_reduce_options
	if keepDims {
		options.flags = C.SINTER_REDUCE_KEEPDIMS
	}
	return b.add(func(p *C.sinter_chain, out *C.sinter_value, failed **C.sinter_error) C.sinter_status {
		return C.sinter_chain_add_reduce(p, C.sinter_reduce(kind), x.id, C.uint32_t(len(axes)),
			first[int32, C.int32_t](axes), &options, out, failed)
	}, x)
}

// Softmax is along an axis; a negative axis counts from the end.
func (b *Builder) Softmax(x Value, axis int, given SoftmaxOptions) Value {
	along := b.number("softmax: axis", axis)
	var options C.sinter_softmax_options
	options.struct_size = C.sizeof_sinter_softmax_options
	options.scale = C.double(given.Scale)
	options.mask = given.Mask.id
	return b.add(func(p *C.sinter_chain, out *C.sinter_value, failed **C.sinter_error) C.sinter_status {
		return C.sinter_chain_add_softmax(p, x.id, along, &options, out, failed)
	}, x, given.Mask)
}

// Attention is softmax(scale q k^T + bias) v of q [.., rows, d], k [.., keys, d] and v [.., keys, e].
func (b *Builder) Attention(q, k, v Value, given AttentionOptions) Value {
	var options C.sinter_attention_options
	options.struct_size = C.sizeof_sinter_attention_options
	if given.Causal {
		options.flags = C.SINTER_ATTENTION_CAUSAL
	}
	options.scale = C.double(given.Scale)
	options.bias = given.Bias.id
	options.mask = given.Mask.id
	return b.add(func(p *C.sinter_chain, out *C.sinter_value, failed **C.sinter_error) C.sinter_status {
		return C.sinter_chain_add_attention(p, q.id, k.id, v.id, &options, out, failed)
	}, q, k, v, given.Bias, given.Mask)
}

// NextToken draws a token of each row of logits, S32. The second value is the logarithm of the token's softmax(logits);
// it is the zero Value unless given.LogProbability is set. Seed and offset are as for Random.
func (b *Builder) NextToken(logits, seed, offset Value, given NextTokenOptions) (Value, Value) {
	var options C.sinter_next_token_options
	options.struct_size = C.sizeof_sinter_next_token_options
	options.count = C.int32_t(given.Count)
	options.temperature = given.Temperature.id
	options.k = given.K.id
	options.top_p = given.TopP.id
	options.min_p = given.MinP.id
	var logProbability C.sinter_value
	token := b.add(func(p *C.sinter_chain, out *C.sinter_value, failed **C.sinter_error) C.sinter_status {
		var second *C.sinter_value
		if given.LogProbability {
			second = &logProbability
		}
		return C.sinter_chain_add_next_token(p, logits.id, seed.id, offset.id, &options, out, second, failed)
	}, logits, seed, offset, given.Temperature, given.K, given.TopP, given.MinP)
	if !given.LogProbability {
		return token, Value{}
	}
	return token, Value{token.b, logProbability}
}

func normOptions(given NormOptions) (options C.sinter_norm_options) {
	options.struct_size = C.sizeof_sinter_norm_options
	options.eps = C.double(given.Eps)
	options.gamma = given.Gamma.id
	options.beta = given.Beta.id
	return options
}

// LayerNorm is over the last axis.
func (b *Builder) LayerNorm(x Value, given NormOptions) Value {
	options := normOptions(given)
	return b.add(func(p *C.sinter_chain, out *C.sinter_value, failed **C.sinter_error) C.sinter_status {
		return C.sinter_chain_add_layernorm(p, x.id, &options, out, failed)
	}, x, given.Gamma, given.Beta)
}

// RMSNorm is over the last axis.
func (b *Builder) RMSNorm(x Value, given NormOptions) Value {
	options := normOptions(given)
	return b.add(func(p *C.sinter_chain, out *C.sinter_value, failed **C.sinter_error) C.sinter_status {
		return C.sinter_chain_add_rmsnorm(p, x.id, &options, out, failed)
	}, x, given.Gamma, given.Beta)
}

// LSTMCell is (h', c') of gates [.., 4h] and c [.., h].
func (b *Builder) LSTMCell(gates, c Value) (Value, Value) {
	var cell C.sinter_value
	h := b.add(func(p *C.sinter_chain, out *C.sinter_value, failed **C.sinter_error) C.sinter_status {
		return C.sinter_chain_add_lstm_cell(p, gates.id, c.id, out, &cell, failed)
	}, gates, c)
	return h, Value{h.b, cell}
}

func accumulateFlags(fast bool) C.uint32_t {
	if fast {
		return C.SINTER_ACCUMULATE_FAST
	}
	return 0
}

func (given LinearOptions) raw() (options C.sinter_linear_options) {
	options.struct_size = C.sizeof_sinter_linear_options
	options.flags = accumulateFlags(given.AccumulateFast)
	options.layout = C.sinter_layout(given.Layout)
	options.activation = C.sinter_activation(given.Activation)
	options.bias = given.Bias.id
	return options
}

func (given GemmChainOptions) raw(activation Activation) (options C.sinter_gemm_chain_options) {
	options.struct_size = C.sizeof_sinter_gemm_chain_options
	options.flags = accumulateFlags(given.AccumulateFast)
	options.layout = C.sinter_layout(given.Layout)
	options.activation = C.sinter_activation(activation)
	options.bias1 = given.Bias1.id
	options.bias2 = given.Bias2.id
	return options
}

func (given GatedFFNOptions) raw(activation Activation) (options C.sinter_gated_ffn_options) {
	options.struct_size = C.sizeof_sinter_gated_ffn_options
	options.flags = accumulateFlags(given.AccumulateFast)
	options.layout = C.sinter_layout(given.Layout)
	options.activation = C.sinter_activation(activation)
	options.bias_gate = given.BiasGate.id
	options.bias_up = given.BiasUp.id
	options.bias2 = given.Bias2.id
	return options
}

// Linear is activation(x W + bias).
func (b *Builder) Linear(x, w Value, given LinearOptions) Value {
	options := given.raw()
	return b.add(func(p *C.sinter_chain, out *C.sinter_value, failed **C.sinter_error) C.sinter_status {
		return C.sinter_chain_add_linear(p, x.id, w.id, &options, out, failed)
	}, x, w, given.Bias)
}

// GemmChain is activation(x w1 + bias1) w2 + bias2.
func (b *Builder) GemmChain(x, w1, w2 Value, activation Activation, given GemmChainOptions) Value {
	options := given.raw(activation)
	return b.add(func(p *C.sinter_chain, out *C.sinter_value, failed **C.sinter_error) C.sinter_status {
		return C.sinter_chain_add_gemm_chain(p, x.id, w1.id, w2.id, &options, out, failed)
	}, x, w1, w2, given.Bias1, given.Bias2)
}

// GatedFFN is (activation(x w_gate + bias_gate) * (x w_up + bias_up)) w_down + bias2.
func (b *Builder) GatedFFN(x, gate, up, down Value, activation Activation, given GatedFFNOptions) Value {
	options := given.raw(activation)
	return b.add(func(p *C.sinter_chain, out *C.sinter_value, failed **C.sinter_error) C.sinter_status {
		return C.sinter_chain_add_gated_ffn(p, x.id, gate.id, up.id, down.id, &options, out, failed)
	}, x, gate, up, down, given.BiasGate, given.BiasUp, given.Bias2)
}

func (given GroupedGatedFFNOptions) raw(activation Activation) (options C.sinter_grouped_gated_ffn_options) {
	options.struct_size = C.sizeof_sinter_grouped_gated_ffn_options
	options.layout = C.sinter_layout(given.Layout)
	options.activation = C.sinter_activation(activation)
	if given.UpFirst {
		options.flags |= C.SINTER_GROUPED_UP_FIRST
	}
	if given.Interleaved {
		options.flags |= C.SINTER_GROUPED_INTERLEAVED
	}
	if given.WeightOnInput {
		options.flags |= C.SINTER_GROUPED_WEIGHT_ON_INPUT
	}
	options.bias1, options.bias2 = given.Bias1.id, given.Bias2.id
	options.alpha, options.beta, options.limit = C.double(given.Alpha), C.double(given.Beta), C.double(given.Limit)
	return options
}

// GroupedGatedFFN is the sum over t of weights[m, t] (w2[e] c + Bias2[e]) with e = ids[m, t] and c = activation(gate) *
// (up + Beta), columns of w1[e] x[m] + Bias1[e].
func (b *Builder) GroupedGatedFFN(x, ids, weights, w1, w2 Value, activation Activation, given GroupedGatedFFNOptions) Value {
	options := given.raw(activation)
	return b.add(func(p *C.sinter_chain, out *C.sinter_value, failed **C.sinter_error) C.sinter_status {
		return C.sinter_chain_add_grouped_gated_ffn(p, x.id, ids.id, weights.id, w1.id, w2.id, &options, out, failed)
	}, x, ids, weights, w1, w2, given.Bias1, given.Bias2)
}

func (s Scaled) raw() C.sinter_scaled { return C.sinter_scaled{codes: s.Codes.id, scale: s.Scale.id} }

func quantizeOptions(given QuantizeOptions) (options C.sinter_quantize_options) {
	options.struct_size = C.sizeof_sinter_quantize_options
	if given.UE8M0 {
		options.flags = C.SINTER_QUANTIZE_UE8M0
	}
	options.granularity = C.sinter_granularity(given.Granularity)
	options.codes = C.sinter_dtype(given.Codes)
	options.eps, options.upper_bound = C.double(given.Eps), C.double(given.UpperBound)
	options.static_scale = given.StaticScale.id
	return options
}

// Quantize is x / scale as codes, with scale = max(min(amax, upper bound), eps) / F.
func (b *Builder) Quantize(x Value, given QuantizeOptions) Scaled {
	options := quantizeOptions(given)
	var scaled C.sinter_scaled
	codes := b.add(func(p *C.sinter_chain, out *C.sinter_value, failed **C.sinter_error) C.sinter_status {
		status := C.sinter_chain_add_quantize(p, x.id, &options, &scaled, failed)
		*out = scaled.codes
		return status
	}, x, given.StaticScale)
	return Scaled{codes, Value{codes.b, scaled.scale}}
}

// ScaledMatmul is activation(a W + bias) of codes and scales, not rounded.
func (b *Builder) ScaledMatmul(a, w Scaled, given LinearOptions) Value {
	options := given.raw()
	return b.add(func(p *C.sinter_chain, out *C.sinter_value, failed **C.sinter_error) C.sinter_status {
		return C.sinter_chain_add_scaled_matmul(p, a.raw(), w.raw(), &options, out, failed)
	}, a.Codes, a.Scale, w.Codes, w.Scale, given.Bias)
}

// ScaledGroupedMatmul is GroupedMatmul of e4m3 codes and scales; w is [experts, n, k].
func (b *Builder) ScaledGroupedMatmul(a, w Scaled, ids Value) Value {
	return b.add(func(p *C.sinter_chain, out *C.sinter_value, failed **C.sinter_error) C.sinter_status {
		return C.sinter_chain_add_scaled_grouped_matmul(p, a.raw(), w.raw(), ids.id, nil, out, failed)
	}, a.Codes, a.Scale, w.Codes, w.Scale, ids)
}

// ScaledGroupedGatedFFN is GroupedGatedFFN of such codes: c is quantised, each term cast to bf16, and their sum f32.
func (b *Builder) ScaledGroupedGatedFFN(a Scaled, ids, weights Value, w1, w2 Scaled, activation Activation,
	quantize QuantizeOptions, given GroupedGatedFFNOptions) Value {
	quantizer := quantizeOptions(quantize)
	options := given.raw(activation)
	return b.add(func(p *C.sinter_chain, out *C.sinter_value, failed **C.sinter_error) C.sinter_status {
		return C.sinter_chain_add_scaled_grouped_gated_ffn(p, a.raw(), ids.id, weights.id, w1.raw(), w2.raw(),
			&quantizer, &options, out, failed)
	}, a.Codes, a.Scale, ids, weights, w1.Codes, w1.Scale, w2.Codes, w2.Scale, quantize.StaticScale)
}

// ScaledGemmChain is c w2 + bias2 of the quantised c = activation(a w1 + bias1), not rounded.
func (b *Builder) ScaledGemmChain(a, w1, w2 Scaled, activation Activation, quantize QuantizeOptions,
	given GemmChainOptions) Value {
	quantizer := quantizeOptions(quantize)
	options := given.raw(activation)
	return b.add(func(p *C.sinter_chain, out *C.sinter_value, failed **C.sinter_error) C.sinter_status {
		return C.sinter_chain_add_scaled_gemm_chain(p, a.raw(), w1.raw(), w2.raw(), &quantizer, &options, out, failed)
	}, a.Codes, a.Scale, w1.Codes, w1.Scale, w2.Codes, w2.Scale, quantize.StaticScale, given.Bias1, given.Bias2)
}

// ScaledGatedFFN is c w_down + bias2 of the quantised c = activation(a w_gate + bias_gate) * (a w_up + bias_up), not rounded.
func (b *Builder) ScaledGatedFFN(a, gate, up, down Scaled, activation Activation, quantize QuantizeOptions,
	given GatedFFNOptions) Value {
	quantizer := quantizeOptions(quantize)
	options := given.raw(activation)
	return b.add(func(p *C.sinter_chain, out *C.sinter_value, failed **C.sinter_error) C.sinter_status {
		return C.sinter_chain_add_scaled_gated_ffn(p, a.raw(), gate.raw(), up.raw(), down.raw(), &quantizer, &options, out,
			failed)
	}, a.Codes, a.Scale, gate.Codes, gate.Scale, up.Codes, up.Scale, down.Codes, down.Scale, quantize.StaticScale,
		given.BiasGate, given.BiasUp, given.Bias2)
}

// padded is one number for each axis that a value can have. Only the library knows how many the value has: it refuses the
// -1 that follows a list that is too short.
func padded[T int32 | int64](b *Builder, field string, values []T) []T {
	if values == nil {
		return nil
	}
	if len(values) > C.SINTER_MAX_RANK {
		b.refuse("output: %s has %d values, at most %d are allowed", field, len(values), C.SINTER_MAX_RANK)
	}
	all := append([]T(nil), values...)
	for len(all) < C.SINTER_MAX_RANK {
		all = append(all, -1)
	}
	return all
}

// Output declares the next output.
func (b *Builder) Output(value Value) { b.OutputWith(value, OutputOptions{}) }

// OutputWith is an output with strides, or one that shares an input's buffer.
func (b *Builder) OutputWith(value Value, given OutputOptions) {
	var a arena
	defer a.free()
	options := (*C.sinter_output_options)(a.alloc(C.sizeof_sinter_output_options))
	options.struct_size = C.sizeof_sinter_output_options
	options.strides = a.int64s(padded(b, "strides", given.Strides))
	options.stride_m_powers = a.int32s(padded(b, "stride_m_powers", given.StrideMPowers))
	options.alias = given.Alias.id
	b.add(func(p *C.sinter_chain, _ *C.sinter_value, failed **C.sinter_error) C.sinter_status {
		return C.sinter_chain_add_output(p, value.id, options, failed)
	}, value, given.Alias)
}
