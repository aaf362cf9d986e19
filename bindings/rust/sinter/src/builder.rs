//! Descriptions of chains; `adds` has the adds without options.
use crate::error::{c_string, call};
use crate::{
    sys, Activation, Binary, Chain, DType, Error, Filter, Granularity, Layout, Reduce, Result, Status, Unary,
};
use std::cell::RefCell;
use std::ops::{Add, Div, Mul, Neg, Sub};
use std::ptr::{null, null_mut};

mod adds;

/// As an extent: the number of rows, known at launch. As a slice's limit on that axis: all of it.
pub const M: i64 = sys::SINTER_DIM_M;

/// Describes a chain. Adds return the new [`Value`]. The first add that fails is remembered, those after it do nothing,
/// and [`ChainBuilder::finish`] returns its error: a description needs one `?`.
#[derive(Debug)]
pub struct ChainBuilder {
    raw: *mut sys::sinter_chain, // NULL when it could not be made
    first_error: RefCell<Option<Error>>,
}

// SAFETY: a chain under way may be used from one thread at a time: `Send`, not `Sync`.
unsafe impl Send for ChainBuilder {}

impl Drop for ChainBuilder {
    fn drop(&mut self) {
        // SAFETY: one reference is ours; NULL is accepted.
        unsafe { sys::sinter_chain_release(self.raw) }
    }
}

/// A value of a chain under way: the result of one add.
#[derive(Clone, Copy, Debug)]
pub struct Value<'b> {
    builder: &'b ChainBuilder,
    id: sys::sinter_value, // SINTER_NO_VALUE when an add failed
}

/// Options of an input. Strides are in elements, one for each axis, times M to the power of the same axis.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct InputOptions {
    /// Never changes while a plan uses it on a stream: weights.
    pub constant: bool,
    /// For messages only.
    pub name: Option<String>,
    /// `None`: contiguous.
    pub strides: Option<Vec<i64>>,
    /// `None`: all 0.
    pub stride_m_powers: Option<Vec<i32>>,
}

/// Options of an output; strides are as in [`InputOptions`].
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct OutputOptions<'b> {
    pub strides: Option<Vec<i64>>,
    pub stride_m_powers: Option<Vec<i32>>,
    /// An input whose buffer this output may share.
    pub alias: Option<Value<'b>>,
}

/// Options of [`Value::conv2d`].
#[derive(Clone, Copy, Debug)]
pub struct Conv2dOptions {
    /// OHWI by default.
    pub filter: Filter,
    /// Along height and width; 1 by default.
    pub strides: [i32; 2],
    /// Along height and width; 1 by default.
    pub dilations: [i32; 2],
    /// Top, bottom, left and right; none by default.
    pub pads: [i32; 4],
    /// Divides the channels of x; 1 by default.
    pub groups: i32,
}
impl Default for Conv2dOptions {
    fn default() -> Self {
        Self { filter: Filter::OHWI, strides: [1; 2], dilations: [1; 2], pads: [0; 4], groups: 1 }
    }
}

/// Options of [`Value::window`], [`Value::max_pool2d`] and [`Value::avg_pool2d`].
#[derive(Clone, Copy, Debug)]
pub struct WindowOptions {
    /// Height and width; 1 by default.
    pub window: [i32; 2],
    /// Along height and width; 1 by default.
    pub strides: [i32; 2],
    /// Along height and width; 1 by default.
    pub dilations: [i32; 2],
    /// Top, bottom, left and right; none by default.
    pub pads: [i32; 4],
    /// For `avg_pool2d` only: zeros around the image are not counted.
    pub exclude_pads: bool,
}
impl Default for WindowOptions {
    fn default() -> Self {
        Self { window: [1; 2], strides: [1; 2], dilations: [1; 2], pads: [0; 4], exclude_pads: false }
    }
}
impl WindowOptions {
    fn raw(&self) -> sys::sinter_window_options {
        sys::sinter_window_options {
            flags: if self.exclude_pads { sys::SINTER_WINDOW_EXCLUDE_PADS } else { 0 },
            height: self.window[0],
            width: self.window[1],
            stride_height: self.strides[0],
            stride_width: self.strides[1],
            dilation_height: self.dilations[0],
            dilation_width: self.dilations[1],
            pad_top: self.pads[0],
            pad_bottom: self.pads[1],
            pad_left: self.pads[2],
            pad_right: self.pads[3],
            ..Default::default()
        }
    }
}

/// Options of [`Value::softmax`].
#[derive(Clone, Copy, Debug)]
pub struct SoftmaxOptions<'b> {
    /// 1 by default.
    pub scale: f64,
    /// Broadcast to x.
    pub mask: Option<Value<'b>>,
}
impl Default for SoftmaxOptions<'_> {
    fn default() -> Self {
        Self { scale: 1.0, mask: None }
    }
}

/// Options of [`Value::attention`].
#[derive(Clone, Copy, Debug, Default)]
pub struct AttentionOptions<'b> {
    /// 0: 1 / sqrt(d).
    pub scale: f64,
    /// Added to the scaled scores, to whose dims it broadcasts.
    pub bias: Option<Value<'b>>,
    /// Pred, false for keys that a row does not see.
    pub mask: Option<Value<'b>>,
    /// Row i sees keys 0 to i.
    pub causal: bool,
}

/// Options of [`Value::next_token`]. Its values are of all rows or of each; `k` and `top_p` need a count.
#[derive(Clone, Copy, Debug, Default)]
pub struct NextTokenOptions<'b> {
    /// The largest logits that are drawn from, up to 64; 0: all.
    pub count: i32,
    /// 1 if there is none.
    pub temperature: Option<Value<'b>>,
    /// S32, up to `count`.
    pub k: Option<Value<'b>>,
    /// The fewest whose probabilities reach it are kept.
    pub top_p: Option<Value<'b>>,
    /// Those at least so many times as probable as the first are kept.
    pub min_p: Option<Value<'b>>,
    /// Whether the second value is made.
    pub log_probability: bool,
}

/// Options of the norms.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct NormOptions<'b> {
    /// 0: 1e-5 in a layernorm, 1e-6 in an rmsnorm.
    pub eps: f64,
    pub gamma: Option<Value<'b>>,
    /// For a layernorm only.
    pub beta: Option<Value<'b>>,
}

/// Options of [`Value::linear`].
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct LinearOptions<'b> {
    pub layout: Layout,
    pub activation: Activation,
    pub bias: Option<Value<'b>>,
    /// Of [`Scaled::matmul`] alone: sums of e4m3 codes may stay in the tensor cores.
    pub accumulate_fast: bool,
}

/// Options of [`Value::gemm_chain`].
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct GemmChainOptions<'b> {
    pub layout: Layout,
    pub bias1: Option<Value<'b>>,
    pub bias2: Option<Value<'b>>,
    /// Of [`Scaled::gemm_chain`] alone: sums of e4m3 codes may stay in the tensor cores.
    pub accumulate_fast: bool,
}

/// Options of [`Value::gated_ffn`].
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct GatedFfnOptions<'b> {
    pub layout: Layout,
    /// Both or neither of `bias_gate` and `bias_up`.
    pub bias_gate: Option<Value<'b>>,
    pub bias_up: Option<Value<'b>>,
    pub bias2: Option<Value<'b>>,
    /// Of [`Scaled::gated_ffn`] alone: sums of e4m3 codes may stay in the tensor cores.
    pub accumulate_fast: bool,
}

/// Options of [`Value::grouped_gated_ffn`].
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct GroupedGatedFfnOptions<'b> {
    pub layout: Layout,
    /// Up is the first half of w1's columns, not the second.
    pub up_first: bool,
    /// Gate and up alternate among w1's columns, gate first.
    pub interleaved: bool,
    /// Weights multiply w1[e] self[m], that is self[m], and not the results.
    pub weight_on_input: bool,
    /// [experts, 2 n] and [experts, l].
    pub bias1: Option<Value<'b>>,
    pub bias2: Option<Value<'b>>,
    /// For SiLU only: gate * sigmoid(alpha gate); 0 means 1.
    pub alpha: f64,
    /// Added to up.
    pub beta: f64,
    /// The most of gate, and of up in both directions; 0 for none.
    pub limit: f64,
}

/// Codes of 8 bits and the f32 scale that turns them back.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Scaled<'b> {
    pub codes: Value<'b>,
    pub scale: Value<'b>,
}

/// Options of [`Value::quantize`].
#[derive(Clone, Copy, Debug)]
pub struct QuantizeOptions<'b> {
    /// A row by default.
    pub granularity: Granularity,
    /// E4M3 by default, or S8.
    pub codes: DType,
    /// 0: 1e-10.
    pub eps: f64,
    /// 0: none.
    pub upper_bound: f64,
    /// The scale is the next power of two.
    pub ue8m0: bool,
    /// Of [`Granularity::STATIC`].
    pub static_scale: Option<Value<'b>>,
}
impl Default for QuantizeOptions<'_> {
    fn default() -> Self {
        let (granularity, codes) = (Granularity::default(), DType::E4M3);
        Self { granularity, codes, eps: 0.0, upper_bound: 0.0, ue8m0: false, static_scale: None }
    }
}
impl LinearOptions<'_> {
    fn raw(&self) -> sys::sinter_linear_options {
        sys::sinter_linear_options {
            flags: accumulate_flags(self.accumulate_fast),
            layout: self.layout.0,
            activation: self.activation.0,
            bias: id(self.bias),
            ..Default::default()
        }
    }
}
impl GemmChainOptions<'_> {
    fn raw(&self, activation: Activation) -> sys::sinter_gemm_chain_options {
        sys::sinter_gemm_chain_options {
            flags: accumulate_flags(self.accumulate_fast),
            layout: self.layout.0,
            activation: activation.0,
            bias1: id(self.bias1),
            bias2: id(self.bias2),
            ..Default::default()
        }
    }
}
impl GatedFfnOptions<'_> {
    fn raw(&self, activation: Activation) -> sys::sinter_gated_ffn_options {
        sys::sinter_gated_ffn_options {
            flags: accumulate_flags(self.accumulate_fast),
            layout: self.layout.0,
            activation: activation.0,
            bias_gate: id(self.bias_gate),
            bias_up: id(self.bias_up),
            bias2: id(self.bias2),
            ..Default::default()
        }
    }
}
impl GroupedGatedFfnOptions<'_> {
    fn raw(&self, activation: Activation) -> sys::sinter_grouped_gated_ffn_options {
        let flag = |set: bool, flag: u32| if set { flag } else { 0 };
        sys::sinter_grouped_gated_ffn_options {
            flags: flag(self.up_first, sys::SINTER_GROUPED_UP_FIRST)
                | flag(self.interleaved, sys::SINTER_GROUPED_INTERLEAVED)
                | flag(self.weight_on_input, sys::SINTER_GROUPED_WEIGHT_ON_INPUT),
            layout: self.layout.0,
            activation: activation.0,
            bias1: id(self.bias1),
            bias2: id(self.bias2),
            alpha: self.alpha,
            beta: self.beta,
            limit: self.limit,
            ..Default::default()
        }
    }
}
impl QuantizeOptions<'_> {
    fn raw(&self) -> sys::sinter_quantize_options {
        sys::sinter_quantize_options {
            flags: if self.ue8m0 { sys::SINTER_QUANTIZE_UE8M0 } else { 0 },
            granularity: self.granularity.0,
            codes: self.codes.0,
            eps: self.eps,
            upper_bound: self.upper_bound,
            static_scale: id(self.static_scale),
            ..Default::default()
        }
    }
}

fn id(value: Option<Value<'_>>) -> sys::sinter_value {
    value.map_or(sys::SINTER_NO_VALUE, |value| value.id)
}

fn accumulate_flags(fast: bool) -> u32 {
    if fast {
        sys::SINTER_ACCUMULATE_FAST
    } else {
        0
    }
}

fn or_null<T>(list: &Option<Vec<T>>) -> *const T {
    list.as_ref().map_or(null(), |list| list.as_ptr())
}

type Out = *mut sys::sinter_value;
type Failed = *mut *mut sys::sinter_error;

impl ChainBuilder {
    /// An empty chain.
    #[allow(clippy::new_without_default)] // it allocates in the library
    pub fn new() -> Self {
        let mut raw = null_mut();
        // SAFETY: no argument.
        let made = call(|error| unsafe { sys::sinter_chain_create(&mut raw, error) });
        Self { raw, first_error: RefCell::new(made.err()) }
    }

    /// The error of the first add that failed.
    pub fn error(&self) -> Option<Error> {
        self.first_error.borrow().clone()
    }

    /// The finished chain, or the first error of the adds, or what the chain as a whole lacks.
    pub fn finish(mut self) -> Result<Chain> {
        if let Some(error) = self.first_error.take() {
            return Err(error);
        }
        // SAFETY: the handle is alive, and ours to give.
        unsafe {
            call(|error| sys::sinter_chain_finish(self.raw, error))?;
            Ok(Chain::from_raw(std::mem::replace(&mut self.raw, null_mut())))
        }
    }

    fn refuse(&self, message: String) {
        self.first_error.borrow_mut().get_or_insert_with(|| Error::new(Status::INVALID_ARGUMENT, message));
    }

    fn same_length(&self, op: &str, field: &str, length: Option<usize>, other: &str, wanted: usize) {
        match length {
            Some(length) if length != wanted => {
                self.refuse(format!("{op}: {field} has {length} values, {other} has {wanted}"));
            }
            _ => {}
        }
    }

    /// One number for each axis that a value can have. Only the library knows how many the value has: it refuses the -1
    /// that follows a list that is too short.
    fn padded<T: Copy + From<i8>>(&self, field: &str, list: &Option<Vec<T>>) -> Option<[T; sys::SINTER_MAX_RANK]> {
        let list = list.as_ref()?;
        let (length, most) = (list.len(), sys::SINTER_MAX_RANK);
        let mut padded = [T::from(-1); sys::SINTER_MAX_RANK];
        match padded.get_mut(..length) {
            Some(head) => head.copy_from_slice(list),
            None => self.refuse(format!("output: {field} has {length} values, at most {most} are allowed")),
        }
        Some(padded)
    }

    /// Runs `f(chain, out, error)` unless an add failed before.
    fn add<'b>(
        &'b self,
        operands: &[Option<Value<'_>>],
        f: impl FnOnce(*mut sys::sinter_chain, Out, Failed) -> sys::sinter_status,
    ) -> Value<'b> {
        for operand in operands.iter().flatten() {
            if !std::ptr::eq(operand.builder, self) {
                self.refuse(format!("an operand is value {} of another chain", operand.id));
            }
        }
        let mut made = sys::SINTER_NO_VALUE;
        let mut first_error = self.first_error.borrow_mut();
        if first_error.is_none() {
            *first_error = call(|error| f(self.raw, &mut made, error)).err();
        }
        Value { builder: self, id: made }
    }

    /// A tensor that the caller supplies, contiguous. Buffers are later given in the order of these calls.
    pub fn input(&self, dtype: DType, dims: &[i64]) -> Value<'_> {
        self.input_with(dtype, dims, &InputOptions::default())
    }

    /// An input that is a constant: a weight, a bias, a table.
    pub fn constant(&self, dtype: DType, dims: &[i64]) -> Value<'_> {
        self.input_with(dtype, dims, &InputOptions { constant: true, ..Default::default() })
    }

    /// An input with a name or strides.
    pub fn input_with(&self, dtype: DType, dims: &[i64], options: &InputOptions) -> Value<'_> {
        self.same_length("input", "strides", options.strides.as_ref().map(Vec::len), "dims", dims.len());
        self.same_length("input", "stride_m_powers", options.stride_m_powers.as_ref().map(Vec::len), "dims", dims.len());
        let name = options.name.as_deref().map(|name| c_string("input.name", name)).transpose();
        let name = name.unwrap_or_else(|error| {
            self.refuse(error.message().to_owned());
            None
        });
        let raw = sys::sinter_input_options {
            flags: if options.constant { sys::SINTER_INPUT_CONSTANT } else { 0 },
            name: name.as_ref().map_or(null(), |name| name.as_ptr()),
            strides: or_null(&options.strides),
            stride_m_powers: or_null(&options.stride_m_powers),
            ..Default::default()
        };
        // SAFETY: the handle is alive; lists are as long as `dims`.
        self.add(&[], |chain, out, error| unsafe {
            sys::sinter_chain_add_input(chain, dtype.0, dims.len() as u32, dims.as_ptr(), &raw, out, error)
        })
    }

    /// Values of one dtype along an axis of constant extent.
    pub fn concat(&self, operands: &[Value<'_>], axis: i32) -> Value<'_> {
        let ids: Vec<sys::sinter_value> = operands.iter().map(|operand| operand.id).collect();
        let given: Vec<Option<Value<'_>>> = operands.iter().copied().map(Some).collect();
        // SAFETY: the handle is alive.
        self.add(&given, |chain, out, error| unsafe {
            sys::sinter_chain_add_concat(chain, ids.len() as u32, ids.as_ptr(), axis, out, error)
        })
    }

    /// Declares the next output.
    pub fn output(&self, value: Value<'_>) {
        self.output_with(value, &OutputOptions::default());
    }

    /// An output with strides, or one that shares an input's buffer.
    pub fn output_with(&self, value: Value<'_>, options: &OutputOptions<'_>) {
        let strides = self.padded("strides", &options.strides);
        let powers = self.padded("stride_m_powers", &options.stride_m_powers);
        let raw = sys::sinter_output_options {
            strides: strides.as_ref().map_or(null(), |list| list.as_ptr()),
            stride_m_powers: powers.as_ref().map_or(null(), |list| list.as_ptr()),
            alias: id(options.alias),
            ..Default::default()
        };
        // SAFETY: the handle is alive; lists are as long as a rank can be.
        self.add(&[Some(value), options.alias], |chain, _, error| unsafe {
            sys::sinter_chain_add_output(chain, value.id, &raw, error)
        });
    }
}

/// Ops of the chain that the value belongs to; sinter.h says of each what it computes.
#[allow(missing_docs)]
impl<'b> Value<'b> {
    fn with(
        self,
        others: &[Option<Value<'b>>],
        f: impl FnOnce(*mut sys::sinter_chain, Out, Failed) -> sys::sinter_status,
    ) -> Value<'b> {
        self.builder.add(others, f)
    }

    /// [batch.., m, k] x [batch.., k, n] -> f32 [batch.., m, n].
    pub fn matmul(self, b: Value<'b>) -> Value<'b> {
        self.matmul_transposed(b, false, false)
    }

    /// With a as [.., k, m], or b as [.., n, k].
    pub fn matmul_transposed(self, b: Value<'b>, transpose_a: bool, transpose_b: bool) -> Value<'b> {
        let a_flag = if transpose_a { sys::SINTER_MATMUL_TRANSPOSE_A } else { 0 };
        let b_flag = if transpose_b { sys::SINTER_MATMUL_TRANSPOSE_B } else { 0 };
        let raw = sys::sinter_matmul_options { flags: a_flag | b_flag, ..Default::default() };
        // SAFETY: the handle is alive; so it is in all that follows.
        self.with(&[Some(b)], |chain, out, error| unsafe {
            sys::sinter_chain_add_matmul(chain, self.id, b.id, &raw, out, error)
        })
    }

    /// w[ids[m, t]] self[m], or self[m, t]: f32 [m, t, n]. w is [experts, k, n], or with `transpose_w` [experts, n, k].
    pub fn grouped_matmul(self, w: Value<'b>, ids: Value<'b>, transpose_w: bool) -> Value<'b> {
        let flags = if transpose_w { sys::SINTER_MATMUL_TRANSPOSE_B } else { 0 };
        let raw = sys::sinter_matmul_options { flags, ..Default::default() };
        self.with(&[Some(w), Some(ids)], |chain, out, error| unsafe {
            sys::sinter_chain_add_grouped_matmul(chain, self.id, w.id, ids.id, &raw, out, error)
        })
    }

    /// w[e] self[m] with the first e of m < ends[e]: f32 [m, n]. Rows past the last end are zeros.
    pub fn grouped_matmul_ends(self, w: Value<'b>, ends: Value<'b>, transpose_w: bool) -> Value<'b> {
        let flags = if transpose_w { sys::SINTER_MATMUL_TRANSPOSE_B } else { 0 };
        let raw = sys::sinter_matmul_options { flags, ..Default::default() };
        self.with(&[Some(w), Some(ends)], |chain, out, error| unsafe {
            sys::sinter_chain_add_grouped_matmul_ends(chain, self.id, w.id, ends.id, &raw, out, error)
        })
    }

    /// self [batch, height, width, in] with the filter w -> f32 [batch, p, q, out].
    pub fn conv2d(self, w: Value<'b>, options: &Conv2dOptions) -> Value<'b> {
        let raw = sys::sinter_conv2d_options {
            filter: options.filter.0,
            groups: options.groups,
            stride_height: options.strides[0],
            stride_width: options.strides[1],
            dilation_height: options.dilations[0],
            dilation_width: options.dilations[1],
            pad_top: options.pads[0],
            pad_bottom: options.pads[1],
            pad_left: options.pads[2],
            pad_right: options.pads[3],
            ..Default::default()
        };
        self.with(&[Some(w)], |chain, out, error| unsafe {
            sys::sinter_chain_add_conv2d(chain, self.id, w.id, &raw, out, error)
        })
    }

    /// The pixels that a window meets as it moves over self [batch, height, width, channels], `fill` outside of it:
    /// [batch, p, q, window height, window width, channels].
    pub fn window(self, fill: Value<'b>, options: &WindowOptions) -> Value<'b> {
        let raw = options.raw();
        self.with(&[Some(fill)], |chain, out, error| unsafe {
            sys::sinter_chain_add_window(chain, self.id, fill.id, &raw, out, error)
        })
    }

    /// The largest pixel of each window of self [batch, height, width, channels].
    pub fn max_pool2d(self, options: &WindowOptions) -> Value<'b> {
        let raw = options.raw();
        self.with(&[], |chain, out, error| unsafe {
            sys::sinter_chain_add_max_pool2d(chain, self.id, &raw, out, error)
        })
    }

    /// The mean of the pixels of each window of self [batch, height, width, channels].
    pub fn avg_pool2d(self, options: &WindowOptions) -> Value<'b> {
        let raw = options.raw();
        self.with(&[], |chain, out, error| unsafe {
            sys::sinter_chain_add_avg_pool2d(chain, self.id, &raw, out, error)
        })
    }

    /// Per axis self[start : limit].
    pub fn slice(self, starts: &[i64], limits: &[i64]) -> Value<'b> {
        self.slice_by(starts, limits, &vec![1; starts.len()])
    }

    /// Per axis self[start : limit : step].
    pub fn slice_by(self, starts: &[i64], limits: &[i64], steps: &[i64]) -> Value<'b> {
        self.builder.same_length("slice", "limits", Some(limits.len()), "starts", starts.len());
        self.builder.same_length("slice", "steps", Some(steps.len()), "starts", starts.len());
        self.with(&[], |chain, out, error| unsafe {
            sys::sinter_chain_add_slice(chain, self.id, starts.len() as u32, starts.as_ptr(), limits.as_ptr(),
                                        steps.as_ptr(), out, error)
        })
    }

    /// With `keepdims`, reduced axes stay with extent 1.
    pub fn reduce(self, kind: Reduce, axes: &[i32], keepdims: bool) -> Value<'b> {
        let flags = if keepdims { sys::SINTER_REDUCE_KEEPDIMS } else { 0 };
        let raw = sys::sinter_reduce_options { flags, ..Default::default() };
        self.with(&[], |chain, out, error| unsafe {
            sys::sinter_chain_add_reduce(chain, kind.0, self.id, axes.len() as u32, axes.as_ptr(), &raw, out, error)
        })
    }

    /// A negative axis counts from the end.
    pub fn softmax(self, axis: i32, options: &SoftmaxOptions<'b>) -> Value<'b> {
        let raw = sys::sinter_softmax_options { scale: options.scale, mask: id(options.mask), ..Default::default() };
        self.with(&[options.mask], |chain, out, error| unsafe {
            sys::sinter_chain_add_softmax(chain, self.id, axis, &raw, out, error)
        })
    }

    /// softmax(scale q k^T + bias) v of this q [.., rows, d], of k [.., keys, d] and v [.., keys, e].
    pub fn attention(self, k: Value<'b>, v: Value<'b>, options: &AttentionOptions<'b>) -> Value<'b> {
        let flags = if options.causal { sys::SINTER_ATTENTION_CAUSAL } else { 0 };
        let (bias, mask) = (id(options.bias), id(options.mask));
        let raw = sys::sinter_attention_options { flags, scale: options.scale, bias, mask, ..Default::default() };
        self.with(&[Some(k), Some(v), options.bias, options.mask], |chain, out, error| unsafe {
            sys::sinter_chain_add_attention(chain, self.id, k.id, v.id, &raw, out, error)
        })
    }

    /// A token of each row of these logits, s32, and the logarithm of its softmax(logits) if the options ask for it.
    pub fn next_token(
        self,
        seed: Value<'b>,
        offset: Value<'b>,
        options: &NextTokenOptions<'b>,
    ) -> (Value<'b>, Option<Value<'b>>) {
        let (temperature, k) = (id(options.temperature), id(options.k));
        let (count, top_p, min_p) = (options.count, id(options.top_p), id(options.min_p));
        let raw = sys::sinter_next_token_options { count, temperature, k, top_p, min_p, ..Default::default() };
        let mut second = sys::SINTER_NO_VALUE;
        let wanted = if options.log_probability { &mut second as *mut _ } else { std::ptr::null_mut() };
        let more = [Some(seed), Some(offset), options.temperature, options.k, options.top_p, options.min_p];
        let token = self.with(&more, |chain, out, error| unsafe {
            sys::sinter_chain_add_next_token(chain, self.id, seed.id, offset.id, &raw, out, wanted, error)
        });
        (token, options.log_probability.then(|| Value { builder: self.builder, id: second }))
    }

    pub fn layernorm(self, options: &NormOptions<'b>) -> Value<'b> {
        self.norm(sys::sinter_chain_add_layernorm, options)
    }

    pub fn rmsnorm(self, options: &NormOptions<'b>) -> Value<'b> {
        self.norm(sys::sinter_chain_add_rmsnorm, options)
    }

    fn norm(self, add: AddNorm, options: &NormOptions<'b>) -> Value<'b> {
        let (gamma, beta) = (id(options.gamma), id(options.beta));
        let raw = sys::sinter_norm_options { eps: options.eps, gamma, beta, ..Default::default() };
        self.with(&[options.gamma, options.beta], |chain, out, error| unsafe { add(chain, self.id, &raw, out, error) })
    }

    /// Maps gates [.., 4h] and c [.., h] to (h', c').
    pub fn lstm_cell(self, c: Value<'b>) -> (Value<'b>, Value<'b>) {
        let mut cell = sys::SINTER_NO_VALUE;
        let h = self.with(&[Some(c)], |chain, out, error| unsafe {
            sys::sinter_chain_add_lstm_cell(chain, self.id, c.id, out, &mut cell, error)
        });
        (h, Value { builder: self.builder, id: cell })
    }

    /// activation(self W + bias).
    pub fn linear(self, w: Value<'b>, options: &LinearOptions<'b>) -> Value<'b> {
        let raw = options.raw();
        self.with(&[Some(w), options.bias], |chain, out, error| unsafe {
            sys::sinter_chain_add_linear(chain, self.id, w.id, &raw, out, error)
        })
    }

    /// activation(self w1 + bias1) w2 + bias2.
    pub fn gemm_chain(
        self,
        w1: Value<'b>,
        w2: Value<'b>,
        activation: Activation,
        options: &GemmChainOptions<'b>,
    ) -> Value<'b> {
        let raw = options.raw(activation);
        self.with(&[Some(w1), Some(w2), options.bias1, options.bias2], |chain, out, error| unsafe {
            sys::sinter_chain_add_gemm_chain(chain, self.id, w1.id, w2.id, &raw, out, error)
        })
    }

    /// (activation(self w_gate + bias_gate) * (self w_up + bias_up)) w_down + bias2.
    pub fn gated_ffn(
        self,
        w_gate: Value<'b>,
        w_up: Value<'b>,
        w_down: Value<'b>,
        activation: Activation,
        options: &GatedFfnOptions<'b>,
    ) -> Value<'b> {
        let raw = options.raw(activation);
        let biases = [options.bias_gate, options.bias_up, options.bias2];
        let operands = [Some(w_gate), Some(w_up), Some(w_down), biases[0], biases[1], biases[2]];
        self.with(&operands, |chain, out, error| unsafe {
            sys::sinter_chain_add_gated_ffn(chain, self.id, w_gate.id, w_up.id, w_down.id, &raw, out, error)
        })
    }

    /// The sum over t of weights[m, t] (w2[e] c + bias2[e]) with e = ids[m, t] and c = activation(gate) * (up + beta),
    /// columns of w1[e] self[m] + bias1[e].
    pub fn grouped_gated_ffn(
        self,
        ids: Value<'b>,
        weights: Value<'b>,
        [w1, w2]: [Value<'b>; 2],
        activation: Activation,
        options: &GroupedGatedFfnOptions<'b>,
    ) -> Value<'b> {
        let raw = options.raw(activation);
        let operands = [Some(ids), Some(weights), Some(w1), Some(w2), options.bias1, options.bias2];
        self.with(&operands, |chain, out, error| unsafe {
            sys::sinter_chain_add_grouped_gated_ffn(
                chain, self.id, ids.id, weights.id, w1.id, w2.id, &raw, out, error,
            )
        })
    }
}

impl<'b> Value<'b> {
    /// self / scale as codes, with scale = max(min(amax, upper bound), eps) / F.
    pub fn quantize(self, options: &QuantizeOptions<'b>) -> Scaled<'b> {
        let (raw, mut scaled) = (options.raw(), sys::sinter_scaled::default());
        let codes = self.with(&[options.static_scale], |chain, out, error| unsafe {
            let status = sys::sinter_chain_add_quantize(chain, self.id, &raw, &mut scaled, error);
            *out = scaled.codes;
            status
        });
        Scaled { codes, scale: Value { builder: self.builder, id: scaled.scale } }
    }
}

impl<'b> Scaled<'b> {
    fn raw(self) -> sys::sinter_scaled {
        sys::sinter_scaled { codes: self.codes.id, scale: self.scale.id }
    }

    /// activation(self W + bias), not rounded.
    pub fn matmul(self, w: Scaled<'b>, options: &LinearOptions<'b>) -> Value<'b> {
        let raw = options.raw();
        let operands = [Some(self.scale), Some(w.codes), Some(w.scale), options.bias];
        self.codes.with(&operands, |chain, out, error| unsafe {
            sys::sinter_chain_add_scaled_matmul(chain, self.raw(), w.raw(), &raw, out, error)
        })
    }

    /// c w2 + bias2 of the quantised c = activation(self w1 + bias1), not rounded.
    pub fn gemm_chain(
        self,
        w1: Scaled<'b>,
        w2: Scaled<'b>,
        activation: Activation,
        quantize: &QuantizeOptions<'b>,
        options: &GemmChainOptions<'b>,
    ) -> Value<'b> {
        let raw = options.raw(activation);
        let quantizer = quantize.raw();
        let weights = [w1.codes, w1.scale, w2.codes, w2.scale].map(Some);
        let others = [Some(self.scale), quantize.static_scale, options.bias1, options.bias2];
        self.codes.with(&[weights, others].concat(), |chain, out, error| unsafe {
            let (a, w1, w2) = (self.raw(), w1.raw(), w2.raw());
            sys::sinter_chain_add_scaled_gemm_chain(chain, a, w1, w2, &quantizer, &raw, out, error)
        })
    }

    /// c w_down + bias2 of the quantised c = activation(self w_gate + bias_gate) * (self w_up + bias_up), not rounded.
    pub fn gated_ffn(
        self,
        weights: [Scaled<'b>; 3],
        activation: Activation,
        quantize: &QuantizeOptions<'b>,
        options: &GatedFfnOptions<'b>,
    ) -> Value<'b> {
        let raw = options.raw(activation);
        let quantizer = quantize.raw();
        let mut operands = vec![Some(self.scale), quantize.static_scale, options.bias_gate, options.bias_up, options.bias2];
        operands.extend(weights.iter().flat_map(|w| [Some(w.codes), Some(w.scale)]));
        let [gate, up, down] = weights.map(Scaled::raw);
        self.codes.with(&operands, |chain, out, error| unsafe {
            sys::sinter_chain_add_scaled_gated_ffn(chain, self.raw(), gate, up, down, &quantizer, &raw, out, error)
        })
    }
}

impl<'b> Scaled<'b> {
    /// [`Value::grouped_matmul`] of e4m3 codes and scales; w is [experts, n, k].
    pub fn grouped_matmul(self, w: Scaled<'b>, ids: Value<'b>) -> Value<'b> {
        let operands = [Some(self.scale), Some(w.codes), Some(w.scale), Some(ids)];
        self.codes.with(&operands, |chain, out, error| unsafe {
            let options = std::ptr::null();
            sys::sinter_chain_add_scaled_grouped_matmul(chain, self.raw(), w.raw(), ids.id, options, out, error)
        })
    }

    /// [`Value::grouped_gated_ffn`] of such codes: c is quantised, each term cast to bf16, and their sum f32.
    pub fn grouped_gated_ffn(
        self,
        [ids, weights]: [Value<'b>; 2],
        [w1, w2]: [Scaled<'b>; 2],
        activation: Activation,
        quantize: &QuantizeOptions<'b>,
        options: &GroupedGatedFfnOptions<'b>,
    ) -> Value<'b> {
        let (raw, quantizer) = (options.raw(activation), quantize.raw());
        let matrices = [w1.codes, w1.scale, w2.codes, w2.scale].map(Some);
        let others = [Some(self.scale), Some(ids), Some(weights), quantize.static_scale];
        self.codes.with(&[matrices, others].concat(), |chain, out, error| unsafe {
            let (a, w1, w2) = (self.raw(), w1.raw(), w2.raw());
            sys::sinter_chain_add_scaled_grouped_gated_ffn(
                chain, a, ids.id, weights.id, w1, w2, &quantizer, &raw, out, error,
            )
        })
    }
}

type AddNorm = unsafe extern "C" fn(
    *mut sys::sinter_chain,
    sys::sinter_value,
    *const sys::sinter_norm_options,
    Out,
    Failed,
) -> sys::sinter_status;

macro_rules! operators {
    ($($trait:ident $method:ident $kind:ident),*) => {
        $(impl<'b> $trait for Value<'b> {
            type Output = Value<'b>;
            fn $method(self, b: Value<'b>) -> Value<'b> {
                self.binary(Binary::$kind, b)
            }
        })*
    };
}
operators!(Add add ADD, Sub sub SUB, Mul mul MUL, Div div DIV);

impl<'b> Neg for Value<'b> {
    type Output = Value<'b>;
    fn neg(self) -> Value<'b> {
        self.unary(Unary::NEG)
    }
}
