//! Enumerations of the C ABI. Numbers of a newer library are values like the others: none is undefined behaviour.
use crate::sys;

macro_rules! word {
    ($(#[$doc:meta])* $name:ident: $($constant:ident = $value:ident $(: $about:literal)?),* $(,)?) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $name(
            /// The number in the C ABI.
            pub i32,
        );
        #[allow(missing_docs)]
        impl $name {
            $($(#[doc = $about])? pub const $constant: Self = Self(sys::$value);)*
        }
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match *self {
                    $(Self::$constant => f.write_str(stringify!($constant)),)*
                    Self(other) => write!(f, "{}({})", stringify!($name), other),
                }
            }
        }
    };
}

word! {
    /// The result of a call. 1 to 16 are the canonical codes of gRPC.
    Status: OK = SINTER_OK, CANCELLED = SINTER_CANCELLED, UNKNOWN = SINTER_UNKNOWN,
    INVALID_ARGUMENT = SINTER_INVALID_ARGUMENT, DEADLINE_EXCEEDED = SINTER_DEADLINE_EXCEEDED,
    NOT_FOUND = SINTER_NOT_FOUND, ALREADY_EXISTS = SINTER_ALREADY_EXISTS,
    PERMISSION_DENIED = SINTER_PERMISSION_DENIED, RESOURCE_EXHAUSTED = SINTER_RESOURCE_EXHAUSTED,
    FAILED_PRECONDITION = SINTER_FAILED_PRECONDITION, ABORTED = SINTER_ABORTED, OUT_OF_RANGE = SINTER_OUT_OF_RANGE,
    UNIMPLEMENTED = SINTER_UNIMPLEMENTED, INTERNAL = SINTER_INTERNAL, UNAVAILABLE = SINTER_UNAVAILABLE,
    DATA_LOSS = SINTER_DATA_LOSS, UNAUTHENTICATED = SINTER_UNAUTHENTICATED,
    COMPILE_FAILED = SINTER_ERROR_COMPILE_FAILED: "The run-time compiler refused generated source.",
    NO_LEGAL_PLAN = SINTER_ERROR_NO_LEGAL_PLAN: "No kernel family takes this chain.",
    DRIVER = SINTER_ERROR_DRIVER: "A CUDA driver call failed.",
    CACHE_CORRUPT = SINTER_ERROR_CACHE_CORRUPT: "From explicit verification only.",
    STREAM_CAPTURING = SINTER_ERROR_STREAM_CAPTURING: "Not legal while the stream captures.",
    CACHE_MISS = SINTER_ERROR_CACHE_MISS: "Must-hit was asked for and no tier had a usable entry.",
}
word! {
    /// Element types. f32 accumulation everywhere; only a cast rounds.
    DType: F32 = SINTER_DTYPE_F32, F16 = SINTER_DTYPE_F16, BF16 = SINTER_DTYPE_BF16, S32 = SINTER_DTYPE_S32,
    PRED = SINTER_DTYPE_PRED: "One byte, 0 or 1.",
    E4M3 = SINTER_DTYPE_E4M3: "8-bit float of the OCP; can only be cast, moved and multiplied.",
    S8 = SINTER_DTYPE_S8: "Can only be cast, moved and multiplied.",
}
word! {
    /// Functions of one operand.
    Unary: NEG = SINTER_UNARY_NEG, ABS = SINTER_UNARY_ABS, EXP = SINTER_UNARY_EXP, LOG = SINTER_UNARY_LOG,
    SQRT = SINTER_UNARY_SQRT, RSQRT = SINTER_UNARY_RSQRT, TANH = SINTER_UNARY_TANH, ERF = SINTER_UNARY_ERF,
    SIGMOID = SINTER_UNARY_SIGMOID, RELU = SINTER_UNARY_RELU, RECIPROCAL = SINTER_UNARY_RECIPROCAL,
    SQUARE = SINTER_UNARY_SQUARE, SIN = SINTER_UNARY_SIN, COS = SINTER_UNARY_COS, FLOOR = SINTER_UNARY_FLOOR,
    NOT = SINTER_UNARY_NOT, CEIL_POW2 = SINTER_UNARY_CEIL_POW2: "The next power of two.",
    LOG1P = SINTER_UNARY_LOG1P: "log(1 + x).", EXPM1 = SINTER_UNARY_EXPM1: "exp(x) - 1.", CEIL = SINTER_UNARY_CEIL,
    ROUND = SINTER_UNARY_ROUND: "Half to even.",
}
word! {
    /// Functions of two operands.
    Binary: ADD = SINTER_BINARY_ADD, SUB = SINTER_BINARY_SUB, MUL = SINTER_BINARY_MUL, DIV = SINTER_BINARY_DIV,
    MAX = SINTER_BINARY_MAX, MIN = SINTER_BINARY_MIN, POW = SINTER_BINARY_POW, AND = SINTER_BINARY_AND,
    OR = SINTER_BINARY_OR,
}
word! {
    /// Comparisons; they give [`DType::PRED`].
    Compare: EQ = SINTER_COMPARE_EQ, NE = SINTER_COMPARE_NE, LT = SINTER_COMPARE_LT, LE = SINTER_COMPARE_LE,
    GT = SINTER_COMPARE_GT, GE = SINTER_COMPARE_GE,
}
word! {
    /// Reductions.
    Reduce: SUM = SINTER_REDUCE_SUM, MAX = SINTER_REDUCE_MAX, MIN = SINTER_REDUCE_MIN, MEAN = SINTER_REDUCE_MEAN,
}
word! {
    /// Activations.
    Activation: IDENTITY = SINTER_ACTIVATION_IDENTITY, RELU = SINTER_ACTIVATION_RELU,
    GELU_TANH = SINTER_ACTIVATION_GELU_TANH, GELU_ERF = SINTER_ACTIVATION_GELU_ERF, SILU = SINTER_ACTIVATION_SILU,
}
word! {
    /// How a weight lies in memory.
    Layout: OI = SINTER_LAYOUT_OI: "[out, in], as nn.Linear stores it.", IO = SINTER_LAYOUT_IO: "[in, out].",
}
word! {
    /// How the filter of a convolution lies in memory.
    Filter: OHWI = SINTER_FILTER_OHWI: "[out, height, width, in], as PyTorch's channels_last stores it.",
    HWIO = SINTER_FILTER_HWIO: "[height, width, in, out].",
}
word! {
    /// What shares one value of a scale.
    Granularity: TENSOR = SINTER_SCALE_TENSOR, ROW = SINTER_SCALE_ROW, GROUP = SINTER_SCALE_GROUP: "128 of a row.",
    STATIC = SINTER_SCALE_STATIC: "The tensor, by a scale that is given.",
}
word! {
    /// Which plan a prepare chooses.
    Choice: BEST = SINTER_CHOICE_BEST, FUSED = SINTER_CHOICE_FUSED: "For measuring.",
    UNFUSED = SINTER_CHOICE_UNFUSED: "For measuring: one kernel per product.",
}
word! {
    /// What a context logs.
    LogLevel: DEFAULT = SINTER_LOG_DEFAULT: "The variable SINTER_LOG, else warnings.", ERROR = SINTER_LOG_ERROR,
    WARN = SINTER_LOG_WARN, INFO = SINTER_LOG_INFO, DEBUG = SINTER_LOG_DEBUG, OFF = SINTER_LOG_OFF,
}

impl Default for Activation {
    fn default() -> Self {
        Self::IDENTITY
    }
}
impl Default for Layout {
    fn default() -> Self {
        Self::OI
    }
}
impl Default for Granularity {
    fn default() -> Self {
        Self::ROW
    }
}
impl Default for Filter {
    fn default() -> Self {
        Self::OHWI
    }
}
impl Default for Choice {
    fn default() -> Self {
        Self::BEST
    }
}
impl Default for LogLevel {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl Status {
    /// "INVALID_ARGUMENT"; "UNKNOWN_STATUS" for a number that is none.
    pub fn name(self) -> &'static str {
        // SAFETY: static storage.
        unsafe { crate::error::borrowed(sys::sinter_status_name(self.0)) }
    }
}
impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
