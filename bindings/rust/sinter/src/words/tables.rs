//! Written by ./dev bindings from include/sinter/*.h; do not edit.
use crate::sys;

word! {
    /// The result of a call: 1 to 16 are the codes of gRPC and Abseil. Numbers are never reused.
    Status:
    OK = SINTER_OK,
    CANCELLED = SINTER_CANCELLED,
    UNKNOWN = SINTER_UNKNOWN,
    INVALID_ARGUMENT = SINTER_INVALID_ARGUMENT,
    DEADLINE_EXCEEDED = SINTER_DEADLINE_EXCEEDED,
    NOT_FOUND = SINTER_NOT_FOUND,
    ALREADY_EXISTS = SINTER_ALREADY_EXISTS,
    PERMISSION_DENIED = SINTER_PERMISSION_DENIED,
    RESOURCE_EXHAUSTED = SINTER_RESOURCE_EXHAUSTED,
    FAILED_PRECONDITION = SINTER_FAILED_PRECONDITION,
    ABORTED = SINTER_ABORTED,
    OUT_OF_RANGE = SINTER_OUT_OF_RANGE,
    UNIMPLEMENTED = SINTER_UNIMPLEMENTED,
    INTERNAL = SINTER_INTERNAL,
    UNAVAILABLE = SINTER_UNAVAILABLE,
    DATA_LOSS = SINTER_DATA_LOSS,
    UNAUTHENTICATED = SINTER_UNAUTHENTICATED,
    /// The run-time compiler refused generated source.
    COMPILE_FAILED = SINTER_ERROR_COMPILE_FAILED,
    /// No kernel family takes this chain.
    NO_LEGAL_PLAN = SINTER_ERROR_NO_LEGAL_PLAN,
    /// A CUDA driver call failed: sinter_error_get_driver_result.
    DRIVER = SINTER_ERROR_DRIVER,
    /// From explicit verification only; a damaged entry is a miss.
    CACHE_CORRUPT = SINTER_ERROR_CACHE_CORRUPT,
    /// Not legal while the stream captures; the capture stays valid.
    STREAM_CAPTURING = SINTER_ERROR_STREAM_CAPTURING,
    /// Must-hit was asked for and no tier had a usable entry.
    CACHE_MISS = SINTER_ERROR_CACHE_MISS,
}
word! {
    /// Element types. f32 accumulation everywhere; only a cast rounds.
    DType:
    F32 = SINTER_DTYPE_F32,
    F16 = SINTER_DTYPE_F16,
    BF16 = SINTER_DTYPE_BF16,
    S32 = SINTER_DTYPE_S32,
    /// One byte, 0 or 1.
    PRED = SINTER_DTYPE_PRED,
    /// 8-bit float of the OCP: 4 exponent bits, 3 of mantissa, no infinity, at most 448, NaN is 0x7f and 0xff. Can only
    /// be cast, moved and multiplied; a cast to it saturates.
    E4M3 = SINTER_DTYPE_E4M3,
    /// As e4m3: can only be cast, moved and multiplied.
    S8 = SINTER_DTYPE_S8,
    /// Only for ids of gathers and scatters: inputs, and views of them.
    S64 = SINTER_DTYPE_S64,
}
word! {
    /// Functions of one operand, element by element.
    Unary:
    /// -x.
    NEG = SINTER_UNARY_NEG,
    /// |x|.
    ABS = SINTER_UNARY_ABS,
    /// e^x.
    EXP = SINTER_UNARY_EXP,
    /// Natural logarithm.
    LOG = SINTER_UNARY_LOG,
    /// Square root.
    SQRT = SINTER_UNARY_SQRT,
    /// 1 / sqrt(x).
    RSQRT = SINTER_UNARY_RSQRT,
    /// Hyperbolic tangent.
    TANH = SINTER_UNARY_TANH,
    /// Error function.
    ERF = SINTER_UNARY_ERF,
    /// 1 / (1 + e^-x).
    SIGMOID = SINTER_UNARY_SIGMOID,
    /// max(x, 0); NaN stays NaN.
    RELU = SINTER_UNARY_RELU,
    /// 1 / x.
    RECIPROCAL = SINTER_UNARY_RECIPROCAL,
    /// x * x.
    SQUARE = SINTER_UNARY_SQUARE,
    /// Sine.
    SIN = SINTER_UNARY_SIN,
    /// Cosine.
    COS = SINTER_UNARY_COS,
    /// The largest integer that is not above x.
    FLOOR = SINTER_UNARY_FLOOR,
    /// Pred only.
    NOT = SINTER_UNARY_NOT,
    /// The smallest power of two that is not less, and 2^-126 or more.
    CEIL_POW2 = SINTER_UNARY_CEIL_POW2,
    /// log(1 + x).
    LOG1P = SINTER_UNARY_LOG1P,
    /// e^x - 1.
    EXPM1 = SINTER_UNARY_EXPM1,
    /// The smallest integer that is not below x.
    CEIL = SINTER_UNARY_CEIL,
    /// To the nearest integer, halves to the even one.
    ROUND = SINTER_UNARY_ROUND,
    /// To the nearest integer that is not larger in magnitude.
    TRUNC = SINTER_UNARY_TRUNC,
    /// Tangent.
    TAN = SINTER_UNARY_TAN,
    /// Inverse sine.
    ASIN = SINTER_UNARY_ASIN,
    /// Inverse cosine.
    ACOS = SINTER_UNARY_ACOS,
    /// Inverse tangent.
    ATAN = SINTER_UNARY_ATAN,
    /// Hyperbolic sine.
    SINH = SINTER_UNARY_SINH,
    /// Hyperbolic cosine.
    COSH = SINTER_UNARY_COSH,
    /// Inverse hyperbolic sine.
    ASINH = SINTER_UNARY_ASINH,
    /// Inverse hyperbolic cosine.
    ACOSH = SINTER_UNARY_ACOSH,
    /// Inverse hyperbolic tangent.
    ATANH = SINTER_UNARY_ATANH,
    /// 1 - erf(x), also where erf(x) rounds to 1.
    ERFC = SINTER_UNARY_ERFC,
    /// 2^x.
    EXP2 = SINTER_UNARY_EXP2,
    /// Logarithm to base 2.
    LOG2 = SINTER_UNARY_LOG2,
    /// Logarithm to base 10.
    LOG10 = SINTER_UNARY_LOG10,
}
word! {
    /// Functions of two operands, element by element.
    Binary:
    ADD = SINTER_BINARY_ADD,
    SUB = SINTER_BINARY_SUB,
    MUL = SINTER_BINARY_MUL,
    /// Floating only.
    DIV = SINTER_BINARY_DIV,
    /// A NaN operand gives NaN.
    MAX = SINTER_BINARY_MAX,
    MIN = SINTER_BINARY_MIN,
    /// Floating only.
    POW = SINTER_BINARY_POW,
    /// Pred only.
    AND = SINTER_BINARY_AND,
    /// Pred only.
    OR = SINTER_BINARY_OR,
    /// The rest a - b trunc(a / b), exact, with a's sign.
    FMOD = SINTER_BINARY_FMOD,
    /// |a| with b's sign, which -0 and NaN have too.
    COPYSIGN = SINTER_BINARY_COPYSIGN,
    /// The angle of the point (b, a), from -pi to pi.
    ATAN2 = SINTER_BINARY_ATAN2,
    /// sqrt(a^2 + b^2), infinite if a or b is.
    HYPOT = SINTER_BINARY_HYPOT,
}
word! {
    /// Comparisons, element by element; they give pred.
    Compare:
    EQ = SINTER_COMPARE_EQ,
    NE = SINTER_COMPARE_NE,
    LT = SINTER_COMPARE_LT,
    LE = SINTER_COMPARE_LE,
    GT = SINTER_COMPARE_GT,
    GE = SINTER_COMPARE_GE,
}
word! {
    /// Reductions over axes.
    Reduce:
    SUM = SINTER_REDUCE_SUM,
    MAX = SINTER_REDUCE_MAX,
    MIN = SINTER_REDUCE_MIN,
    MEAN = SINTER_REDUCE_MEAN,
}
word! {
    /// Activations, of a GEMM or as an op by themselves.
    Activation:
    IDENTITY = SINTER_ACTIVATION_IDENTITY,
    /// max(x, 0); NaN stays NaN.
    RELU = SINTER_ACTIVATION_RELU,
    /// 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
    GELU_TANH = SINTER_ACTIVATION_GELU_TANH,
    /// 0.5 x (1 + erf(x / sqrt 2)).
    GELU_ERF = SINTER_ACTIVATION_GELU_ERF,
    /// x * sigmoid(x).
    SILU = SINTER_ACTIVATION_SILU,
}
word! {
    /// How a weight lies in memory. 0 means SINTER_LAYOUT_OI.
    Layout:
    /// [out, in], as nn.Linear stores it.
    OI = SINTER_LAYOUT_OI,
    /// [in, out].
    IO = SINTER_LAYOUT_IO,
}
word! {
    /// How the filter of a convolution lies in memory. 0 means SINTER_FILTER_OHWI.
    Filter:
    /// [out, height, width, in], as PyTorch's channels_last stores it.
    OHWI = SINTER_FILTER_OHWI,
    /// [height, width, in, out].
    HWIO = SINTER_FILTER_HWIO,
}
word! {
    /// How a checkpoint has codes of four bits of a matrix [n, k].
    Checkpoint:
    /// Bytes of rows as dequantize_u4 reads them: also of mxfp4.
    ROWS = SINTER_CHECKPOINT_ROWS,
    /// Words along n, in the order 0 2 4 6 1 3 5 7.
    AWQ = SINTER_CHECKPOINT_AWQ,
    /// Words along k; a zero is stored less one, modulo 16.
    GPTQ = SINTER_CHECKPOINT_GPTQ,
    /// Words along k; a zero is stored as it is.
    GPTQ_V2 = SINTER_CHECKPOINT_GPTQ_V2,
    /// Bytes of rows; words of zeros along n.
    COMPRESSED_TENSORS = SINTER_CHECKPOINT_COMPRESSED_TENSORS,
}
word! {
    /// What a context logs.
    LogLevel:
    /// SINTER_LOG, else warn.
    DEFAULT = SINTER_LOG_DEFAULT,
    ERROR = SINTER_LOG_ERROR,
    WARN = SINTER_LOG_WARN,
    INFO = SINTER_LOG_INFO,
    DEBUG = SINTER_LOG_DEBUG,
    OFF = SINTER_LOG_OFF,
}
word! {
    /// What shares one value of a scale. 0 means SINTER_SCALE_ROW.
    Granularity:
    TENSOR = SINTER_SCALE_TENSOR,
    ROW = SINTER_SCALE_ROW,
    /// 128 of a row.
    GROUP = SINTER_SCALE_GROUP,
    /// The tensor, by a scale that is given.
    STATIC = SINTER_SCALE_STATIC,
}
word! {
    /// Which plan a prepare chooses. The plain plan has a kernel for each product, with the ops that it absorbs (a
    /// bias, an activation, a gate, ..), and one for each other op: ops may share kernels in it, products do not.
    Choice:
    /// The fastest by prediction or measurement.
    BEST = SINTER_CHOICE_BEST,
    /// For measuring: any but the plain plan; refused where there is none.
    FUSED = SINTER_CHOICE_FUSED,
    /// For measuring: the plain plan.
    UNFUSED = SINTER_CHOICE_UNFUSED,
}
